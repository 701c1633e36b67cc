-- A whole-entity claim stops nobody who claimed a scope it does not name.
-- name: advance_claimed
UPDATE fl_scope SET version = version + ?3
WHERE entity = ?1 AND scope = ?2 AND version = ?4 AND fence = ?5 AND holder = ?6 AND ?7 IS NOT NULL
RETURNING version;
