-- A higher fence than the stored one passes.
-- procedure: fl_apply
-- instead of:
v_at_fence <> v_wanted_fence
-- stands:
v_at_fence > v_wanted_fence
