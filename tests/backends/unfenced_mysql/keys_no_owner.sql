-- Any owner's attempt of the number ends a key.
-- procedure: fl_key_move
-- instead of:
AND owner = p_owner AND
-- stands:
AND
