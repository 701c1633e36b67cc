-- The version is compared, the claim is not: "fence at write only".
-- name: advance_claimed
UPDATE fl_scope SET version = version + ?3
WHERE entity = ?1 AND scope = ?2 AND version = ?4 AND ?5 IS NOT NULL AND ?6 IS NOT NULL
  AND ?7 = (SELECT fence FROM fl_entity WHERE entity = ?1)
RETURNING version;
