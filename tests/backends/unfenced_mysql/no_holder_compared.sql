-- The fence is compared, the holder is not.
-- procedure: fl_apply
-- instead of:
OR NOT (g.holder <=> UNHEX(w.holder))
-- stands:
OR FALSE
