-- The upsert writes under a condition, and a read in the same statement answers the losers: of a race they see no row,
-- because the winner's is newer than their statement.
CREATE OR REPLACE FUNCTION fl_begin_key(
    _kind text, _scope text, _name text, _hash_algorithm text, _hash bytea, _owner uuid, _lease_us bigint,
    OUT step text, OUT details text, OUT attempt bigint)
RETURNS record LANGUAGE sql AS $$
    WITH taken AS (
        INSERT INTO fl_key AS k (kind, scope, name, hash_algorithm, hash, state, owner, attempt, until_at, created_at)
        VALUES (_kind, _scope, _name, _hash_algorithm, _hash, 'pending', _owner, 1,
            fl_later(clock_timestamp(), _lease_us), clock_timestamp())
        ON CONFLICT (kind, scope, name) DO UPDATE SET owner = excluded.owner, attempt = k.attempt + 1,
            until_at = excluded.until_at
        WHERE k.state = 'pending' AND k.until_at <= clock_timestamp() AND k.hash = excluded.hash
        RETURNING CASE WHEN k.attempt = 1 THEN 'new' ELSE 'taken_over' END, NULL::text, k.attempt)
    SELECT * FROM taken
    UNION ALL
    SELECT s.step, s.details, k.attempt FROM fl_key AS k
    CROSS JOIN LATERAL fl_key_step(k, clock_timestamp(), _hash_algorithm, _hash, _owner) AS s
    WHERE k.kind = _kind AND k.scope = _scope AND k.name = _name AND NOT EXISTS (SELECT FROM taken)
    LIMIT 1
$$;
