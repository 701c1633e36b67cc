-- The fence is compared, the holder is not.
-- procedure: fl_apply
-- instead of:
OR NOT (v_at_holder <=> UNHEX(v_wanted_holder))
-- stands:
OR FALSE
