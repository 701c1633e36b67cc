-- A save that waited is made whether or not its row is there.
-- procedure: fl_apply
-- instead of:
IF v_place IS NULL THEN
-- stands:
IF FALSE THEN
