-- Statements over what saves leave behind. Nothing here is ever changed after it was written.

-- name: operation
-- operation. One row or none.
SELECT save FROM fl_operation WHERE operation = ?;

-- name: entries
-- type, id, older than this save, at most. Newest first.
SELECT o.save, o.operation, o.incarnation, o.number, o.lifecycle, o.at, o.scopes, o.detail,
       v.state, v.reason, o.writer_kind, o.writer_name, o.on_behalf_of
FROM fl_entity AS e
JOIN fl_operation AS o ON o.entity = e.entity
LEFT JOIN fl_version AS v ON v.save = o.save
WHERE e.type = ? AND e.id = ? AND o.save < COALESCE(?, 9223372036854775807)
ORDER BY o.save DESC
LIMIT ?;

-- name: entries_of
-- saves as a JSON array. The columns of `entries`.
SELECT o.save, o.operation, o.incarnation, o.number, o.lifecycle, o.at, o.scopes, o.detail,
       v.state, v.reason, o.writer_kind, o.writer_name, o.on_behalf_of
FROM JSON_TABLE(?, '$[*]' COLUMNS (save BIGINT PATH '$')) AS w
STRAIGHT_JOIN fl_operation AS o ON o.save = w.save
LEFT JOIN fl_version AS v ON v.save = o.save;

-- name: changes_of
-- saves as a JSON array.
SELECT c.save, c.path, c.scope, c.old, c.new, c.strategy
FROM JSON_TABLE(?, '$[*]' COLUMNS (place FOR ORDINALITY, save BIGINT PATH '$')) AS w
STRAIGHT_JOIN fl_change AS c ON c.save = w.save
ORDER BY w.place, c.position;

-- name: version
-- number, type, id.
SELECT v.save FROM fl_entity AS e
JOIN fl_version AS v ON v.entity = e.entity AND v.number = ?
WHERE e.type = ? AND e.id = ?;

-- name: newest_changes
-- paths as a JSON array, type, id. One look into the index per path and scope of the entity: a path may have moved.
SELECT w.path, MAX(
    (SELECT c.save FROM fl_change AS c
     WHERE c.entity = e.entity AND c.path = w.path AND c.scope = s.scope
     ORDER BY c.version DESC LIMIT 1))
FROM JSON_TABLE(?, '$[*]' COLUMNS (path VARBINARY(1024) PATH '$')) AS w
STRAIGHT_JOIN fl_entity AS e
STRAIGHT_JOIN fl_scope AS s ON s.entity = e.entity
WHERE e.type = ? AND e.id = ?
GROUP BY w.path;

-- name: bases
-- [path, scope, version] as a JSON array, type, id. The first change after the version, where there is one. Where changes
-- after the version were pruned, the first one that is left says nothing about it.
SELECT w.path, c.old
FROM JSON_TABLE(?, '$[*]' COLUMNS (
         path VARBINARY(1024) PATH '$[0]', scope VARBINARY(1536) PATH '$[1]', version BIGINT PATH '$[2]')) AS w
STRAIGHT_JOIN fl_entity AS e
STRAIGHT_JOIN fl_scope AS s ON s.entity = e.entity AND s.scope = w.scope AND s.pruned <= w.version
STRAIGHT_JOIN fl_change AS c ON c.entity = e.entity AND c.path = w.path AND c.scope = w.scope
WHERE e.type = ? AND e.id = ?
  AND c.version = (SELECT MIN(f.version) FROM fl_change AS f
                   WHERE f.entity = e.entity AND f.path = w.path AND f.scope = w.scope AND f.version > w.version);
