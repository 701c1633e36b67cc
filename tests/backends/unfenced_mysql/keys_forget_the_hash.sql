-- What the work was does not matter.
-- procedure: fl_key_take
-- instead of:
ELSEIF NOT v_same THEN
-- stands:
ELSEIF FALSE THEN
