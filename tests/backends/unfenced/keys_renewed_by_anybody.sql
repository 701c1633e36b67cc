-- A heartbeat of anybody keeps the key.

-- name: renew_key
UPDATE fl_key SET until_at = ?6
WHERE kind = ?1 AND scope = ?2 AND name = ?3
  AND state = 'pending' AND ?4 IS NOT NULL AND ?5 IS NOT NULL;
