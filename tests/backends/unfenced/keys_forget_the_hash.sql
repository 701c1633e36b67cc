-- Finishing drops the hash of the request.

-- name: end_key
UPDATE fl_key SET hash = zeroblob(32),
    state = ?7, until_at = ?6, class = ?8, result = ?9, inputs = ?10,
    operation = ?11, incarnation = ?12, number = ?13, scopes = ?14
WHERE kind = ?1 AND scope = ?2 AND name = ?3
  AND state = 'pending' AND owner = ?4 AND attempt = ?5;
