-- A higher fence than the stored one passes.
-- procedure: fl_apply
-- instead of:
COALESCE(g.fence, 0) <> w.fence
-- stands:
COALESCE(g.fence, 0) > w.fence
