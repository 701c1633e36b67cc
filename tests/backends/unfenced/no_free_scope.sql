-- An optimistic save passes under somebody's claim.
-- name: advance_optimistic
UPDATE fl_scope SET version = version + ?3
WHERE entity = ?1 AND scope = ?2 AND version = ?4
RETURNING version;
