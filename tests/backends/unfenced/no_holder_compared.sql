-- The fence is compared, the holder is not.
-- name: advance_claimed
UPDATE fl_scope SET version = version + ?3
WHERE entity = ?1 AND scope = ?2 AND version = ?4 AND fence = ?5 AND ?6 IS NOT NULL
  AND ?7 = (SELECT fence FROM fl_entity WHERE entity = ?1)
RETURNING version;
