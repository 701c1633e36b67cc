-- A finish that compares the number alone.

-- name: end_key
UPDATE fl_key SET
    state = ?7, until_at = ?6, class = ?8, result = ?9, inputs = ?10,
    operation = ?11, incarnation = ?12, number = ?13, scopes = ?14
WHERE kind = ?1 AND scope = ?2 AND name = ?3
  AND state = 'pending' AND ?4 IS NOT NULL AND attempt = ?5;
