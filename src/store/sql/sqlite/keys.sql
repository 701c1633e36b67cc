-- Statements over idempotency keys. Who may acquire a key is decided between `key` and `acquire_key`; every
-- transition of an attempt compares its owner and its number.

-- name: key
-- ?1 kind, ?2 scope, ?3 name. One row or none.
SELECT state, owner, attempt, until_at, hash_algorithm, hash, result, inputs, operation, incarnation, number, scopes
FROM fl_key WHERE kind = ?1 AND scope = ?2 AND name = ?3;

-- name: acquire_key
-- ?1 kind, ?2 scope, ?3 name, ?4 hash_algorithm, ?5 hash, ?6 owner, ?7 attempt, ?8 until_at, ?9 now.
INSERT INTO fl_key
    (kind, scope, name, hash_algorithm, hash, state, owner, attempt, until_at, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, 'pending', ?6, ?7, ?8, ?9)
ON CONFLICT (kind, scope, name) DO UPDATE SET
    hash_algorithm = excluded.hash_algorithm, hash = excluded.hash,
    state = 'pending', owner = excluded.owner, attempt = excluded.attempt, until_at = excluded.until_at,
    class = NULL, result = NULL, inputs = NULL,
    operation = NULL, incarnation = NULL, number = NULL, scopes = NULL;

-- name: renew_key
-- ?1 kind, ?2 scope, ?3 name, ?4 owner, ?5 attempt, ?6 until_at. The lease may have lapsed.
UPDATE fl_key SET until_at = ?6
WHERE kind = ?1 AND scope = ?2 AND name = ?3
  AND state = 'pending' AND owner = ?4 AND attempt = ?5;

-- name: end_key
-- ?1 kind, ?2 scope, ?3 name, ?4 owner, ?5 attempt, ?6 until_at, ?7 state, ?8 class, ?9 result, ?10 inputs,
-- ?11 operation, ?12 incarnation, ?13 number, ?14 scopes. The lease may have lapsed: ownership decides, not time.
UPDATE fl_key SET
    state = ?7, until_at = ?6, class = ?8, result = ?9, inputs = ?10,
    operation = ?11, incarnation = ?12, number = ?13, scopes = ?14
WHERE kind = ?1 AND scope = ?2 AND name = ?3
  AND state = 'pending' AND owner = ?4 AND attempt = ?5;

-- name: release_key
-- ?1 kind, ?2 scope, ?3 name, ?4 owner, ?5 attempt.
DELETE FROM fl_key
WHERE kind = ?1 AND scope = ?2 AND name = ?3
  AND state = 'pending' AND owner = ?4 AND attempt = ?5;

-- name: sweep_keys
-- ?1 ends that expired before, ?2 attempts and failures whose time came before, ?3 at most.
DELETE FROM fl_key WHERE rowid IN (
    SELECT rowid FROM fl_key
    WHERE until_at < ?2 OR (until_at < ?1 AND state IN ('completed', 'failed'))
    ORDER BY until_at LIMIT ?3);

-- name: keys
-- ?1 kind, ?2 scope, ?3 name to go on after or NULLs, ?4 at most.
SELECT kind, scope, name, state, attempt, created_at, until_at, class
FROM fl_key
WHERE (kind, scope, name) > (coalesce(?1, ''), coalesce(?2, ''), coalesce(?3, ''))
ORDER BY kind, scope, name
LIMIT ?4;
