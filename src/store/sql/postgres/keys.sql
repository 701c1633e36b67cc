-- Statements over idempotency keys. Every transition of an attempt compares its owner and its number.

-- name: begin_key
-- $1 kind, $2 scope, $3 name, $4 hash_algorithm, $5 hash, $6 owner, $7 lease in microseconds.
SELECT * FROM fl_begin_key($1, $2, $3, $4, $5, $6, $7);

-- name: peek_key
-- $1 kind, $2 scope, $3 name, $4 hash_algorithm, $5 hash, $6 owner. One row or none.
SELECT s.step, s.details, k.attempt FROM fl_key AS k
CROSS JOIN LATERAL fl_key_step(k, clock_timestamp(), $4, $5, $6) AS s
WHERE k.kind = $1 AND k.scope = $2 AND k.name = $3;

-- name: renew_key
-- $1 kind, $2 scope, $3 name, $4 owner, $5 attempt, $6 lease in microseconds. A row if it was renewed.
UPDATE fl_key AS k SET until_at = fl_later(clock_timestamp(), $6)
WHERE k.kind = $1 AND k.scope = $2 AND k.name = $3 AND k.state = 'pending' AND k.owner = $4 AND k.attempt = $5
RETURNING k.attempt;

-- name: end_key
-- $1 kind, $2 scope, $3 name, $4 owner, $5 attempt, $6 until in microseconds, $7 state, $8 class, $9 result, $10 inputs.
UPDATE fl_key AS k SET state = $7, until_at = fl_later(clock_timestamp(), $6), class = $8, result = $9, inputs = $10,
    operation = NULL, incarnation = NULL, number = NULL, scopes = NULL
WHERE k.kind = $1 AND k.scope = $2 AND k.name = $3 AND k.state = 'pending' AND k.owner = $4 AND k.attempt = $5
RETURNING k.attempt;

-- name: release_key
-- $1 kind, $2 scope, $3 name, $4 owner, $5 attempt.
DELETE FROM fl_key AS k
WHERE k.kind = $1 AND k.scope = $2 AND k.name = $3 AND k.state = 'pending' AND k.owner = $4 AND k.attempt = $5
RETURNING k.attempt;

-- name: sweep_keys
-- $1 microseconds an end is kept after it expired, $2 those of everything else, $3 at most. What another sweeper is at is
-- passed over.
WITH old AS MATERIALIZED (
    SELECT k.kind, k.scope, k.name FROM fl_key AS k
    WHERE k.until_at < clock_timestamp() - $2 * interval '1 microsecond'
       OR k.until_at < clock_timestamp() - $1 * interval '1 microsecond' AND k.state IN ('completed', 'failed')
    ORDER BY k.until_at LIMIT $3
    FOR UPDATE SKIP LOCKED)
DELETE FROM fl_key AS k USING old
WHERE k.kind = old.kind AND k.scope = old.scope AND k.name = old.name
RETURNING k.attempt;

-- name: keys
-- $1 kind, $2 scope, $3 name to go on after or NULLs, $4 at most.
SELECT k.kind, k.scope, k.name, k.state, k.attempt, k.created_at, k.until_at, k.class
FROM fl_key AS k
WHERE (k.kind, k.scope, k.name) > (coalesce($1, '') COLLATE "C", coalesce($2, '') COLLATE "C", coalesce($3, '') COLLATE "C")
ORDER BY k.kind, k.scope, k.name
LIMIT $4;
