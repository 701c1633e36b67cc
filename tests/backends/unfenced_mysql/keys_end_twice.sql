-- An attempt that ended ends again.
-- procedure: fl_key_move
-- instead of:
SELECT state = 'pending' AND owner
-- stands:
SELECT owner
