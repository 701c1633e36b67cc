-- Idempotency keys. Who may acquire one is decided in fl_key_take; every transition of an attempt compares its owner and
-- its number.

-- name: key_begin
-- kind, scope, name, hash_algorithm, hash, owner, lease_us.
CALL fl_key_begin(?, ?, ?, ?, ?, ?, ?);

-- name: key_move
-- kind, scope, name, owner, attempt, how, state, until_us, class, result, inputs.
CALL fl_key_move(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: key_sweep
-- ends that expired so long ago, attempts and failures whose time came so long ago, at most.
CALL fl_key_sweep(?, ?, ?);

-- name: key
-- kind, scope, name. The time, then the row. One row or none.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), state, owner, attempt, until_at, hash_algorithm, hash,
       result, inputs, operation, incarnation, number, scopes
FROM fl_key WHERE kind = ? AND scope = ? AND name = ?;

-- name: keys
-- kind, kind, scope, kind, scope, name to go on after or empty texts, at most.
SELECT kind, scope, name, state, attempt, created_at, until_at, class
FROM fl_key
WHERE kind > ? OR (kind = ? AND (scope > ? OR (kind = ? AND scope = ? AND name > ?)))
ORDER BY kind, scope, name
LIMIT ?;
