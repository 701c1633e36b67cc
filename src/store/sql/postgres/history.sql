-- Reading what saves left behind.

-- name: entries
-- $1 type, $2 id, $3 older than this operation or NULL, $4 at most. Newest first.
SELECT o.operation, o.incarnation, o.number, o.lifecycle, o.at, o.scopes::text, o.changes::text, o.detail::text,
       o.state::text, o.writer_kind, o.writer_name, o.on_behalf_of
FROM fl_entity AS e
JOIN fl_operation AS o ON o.entity = e.entity
WHERE e.type = $1 AND e.id = $2
  AND ($3 IS NULL OR o.save < (SELECT p.save FROM fl_operation AS p WHERE p.operation = $3))
ORDER BY o.save DESC
LIMIT $4;

-- name: operation
-- $1 operation. Whether there is one to go on from.
SELECT FROM fl_operation AS o WHERE o.operation = $1 AND o.lifecycle <> 'void';

-- name: version
-- $1 type, $2 id, $3 number. The columns of `entries`.
SELECT o.operation, o.incarnation, o.number, o.lifecycle, o.at, o.scopes::text, o.changes::text, o.detail::text,
       o.state::text, o.writer_kind, o.writer_name, o.on_behalf_of
FROM fl_entity AS e
JOIN fl_operation AS o ON o.entity = e.entity AND o.number = $3
WHERE e.type = $1 AND e.id = $2;

-- name: blame
-- $1 type, $2 id, $3 paths. For each that ever changed its place in $3, from 1, and the columns of `entries`. The stamp
-- names the newest change of what is there; what is not there any more is looked for from the newest save backwards.
SELECT w.place, o.operation, o.incarnation, o.number, o.lifecycle, o.at, o.scopes::text, o.changes::text,
       o.detail::text, o.state::text, o.writer_kind, o.writer_name, o.on_behalf_of
FROM fl_entity AS e
CROSS JOIN unnest($3) WITH ORDINALITY AS w (path, place)
CROSS JOIN LATERAL (
    SELECT c.* FROM fl_operation AS c
    WHERE c.operation = coalesce(
        (SELECT (s.stamps -> w.path ->> 2)::uuid FROM fl_scope AS s
         WHERE s.entity = e.entity AND s.stamps ? w.path
         ORDER BY (s.stamps -> w.path ->> 1)::bigint DESC LIMIT 1),
        (SELECT p.operation FROM fl_operation AS p
         WHERE p.entity = e.entity AND p.changes @> jsonb_build_array(jsonb_build_object('path', w.path))
         ORDER BY p.save DESC LIMIT 1))) AS o
WHERE e.type = $1 AND e.id = $2;

-- name: bases
-- $1 type, $2 id, $3 paths, $4 scopes, $5 versions. For each that changed in its scope after its version: its place in
-- $3, from 1, and the value before the first such change. Looks at the saves since that version, newest first.
SELECT q.place, f.old
FROM fl_entity AS e
CROSS JOIN unnest($3, $4, $5) WITH ORDINALITY AS q (path, scope, version, place)
CROSS JOIN LATERAL (
    SELECT c.change ->> 'old' AS old
    FROM fl_operation AS o
    CROSS JOIN LATERAL jsonb_array_elements(o.changes) AS c (change)
    WHERE o.entity = e.entity
      AND o.save > coalesce((
          SELECT p.save FROM fl_operation AS p
          WHERE p.entity = e.entity AND (p.scopes -> q.scope ->> 'after')::bigint <= q.version
          ORDER BY p.save DESC LIMIT 1), 0)
      AND c.change ->> 'path' = q.path AND c.change ->> 'scope' = q.scope
    ORDER BY o.save LIMIT 1) AS f
WHERE e.type = $1 AND e.id = $2;
