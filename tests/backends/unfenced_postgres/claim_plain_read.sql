-- Claim and load in one statement that reads plainly: the row that was waited for is new, everything else is as old as
-- the statement.
CREATE OR REPLACE FUNCTION fl_claim(
    _type text, _id text, _generation bytea, _holder uuid, _scopes text[], _whole boolean,
    OUT answer text, OUT rules bytea, OUT fences bigint[],
    OUT incarnation bigint, OUT number bigint, OUT fence bigint, OUT data text,
    OUT scopes text[], OUT versions bigint[], OUT stamps text[], OUT read_at timestamptz)
RETURNS record LANGUAGE sql AS $$
    WITH claimed AS (
        INSERT INTO fl_scope AS s (entity, scope, fence, holder)
        SELECT e.entity, w.scope, 1, _holder FROM fl_entity AS e CROSS JOIN unnest(_scopes) AS w (scope)
        WHERE e.type = _type AND e.id = _id
        ON CONFLICT (entity, scope) DO UPDATE SET fence = s.fence + 1, holder = excluded.holder
        RETURNING s.entity, s.scope, s.version, s.fence, s.stamps)
    SELECT 'claimed', NULL::bytea, array_agg(c.fence), e.incarnation, e.number, e.fence, e.data::text,
        array_agg(c.scope), array_agg(c.version), array_agg(c.stamps::text), clock_timestamp()
    FROM claimed AS c JOIN fl_entity AS e ON e.entity = c.entity
    GROUP BY e.entity
$$;
