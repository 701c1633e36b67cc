-- Any attempt of the owner ends a key.
-- procedure: fl_key_move
-- instead of:
AND attempt = p_attempt INTO
-- stands:
INTO
