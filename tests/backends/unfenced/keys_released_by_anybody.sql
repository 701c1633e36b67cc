-- A key is released by its name alone.

-- name: release_key
DELETE FROM fl_key
WHERE kind = ?1 AND scope = ?2 AND name = ?3
  AND state = 'pending' AND ?4 IS NOT NULL AND ?5 IS NOT NULL;
