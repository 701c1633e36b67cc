-- Last write wins.
-- name: advance_optimistic
UPDATE fl_scope SET version = version + ?3
WHERE entity = ?1 AND scope = ?2 AND ?4 IS NOT NULL AND holder IS NULL
RETURNING version;
