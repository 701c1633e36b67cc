-- Statements over what saves leave behind. Nothing here changes it; pruning and erasing are in upkeep.sql.

-- name: insert_operation
-- ?1 operation, ?2 entity, ?3 incarnation, ?4 number, ?5 lifecycle, ?6 at, ?7 generation, ?8 scopes, ?9 detail,
-- ?10 writer_kind, ?11 writer_name, ?12 on_behalf_of.
INSERT INTO fl_operation
    (operation, entity, incarnation, number, lifecycle, at, generation, scopes, detail,
     writer_kind, writer_name, on_behalf_of)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
RETURNING save;

-- name: insert_version
-- ?1 save, ?2 entity, ?3 number, ?4 state, ?5 reason.
INSERT INTO fl_version (save, entity, number, state, reason) VALUES (?1, ?2, ?3, ?4, ?5);

-- name: insert_change
-- ?1 save, ?2 position, ?3 entity, ?4 path, ?5 scope, ?6 version, ?7 old, ?8 new, ?9 strategy.
INSERT INTO fl_change (save, position, entity, path, scope, version, old, new, strategy)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: operation
-- ?1 operation. One row or none.
SELECT save, entity, incarnation, number, scopes FROM fl_operation WHERE operation = ?1;

-- name: entries
-- ?1 type, ?2 id, ?3 older than this save or NULL, ?4 at most. Newest first.
SELECT o.save, o.operation, o.incarnation, o.number, o.lifecycle, o.at, o.scopes, o.detail,
       v.state, v.reason, o.writer_kind, o.writer_name, o.on_behalf_of
FROM fl_entity AS e
JOIN fl_operation AS o ON o.entity = e.entity
LEFT JOIN fl_version AS v ON v.save = o.save
WHERE e.type = ?1 AND e.id = ?2 AND o.save < coalesce(?3, 9223372036854775807)
ORDER BY o.save DESC
LIMIT ?4;

-- name: entry
-- ?1 save. The columns of `entries`.
SELECT o.save, o.operation, o.incarnation, o.number, o.lifecycle, o.at, o.scopes, o.detail,
       v.state, v.reason, o.writer_kind, o.writer_name, o.on_behalf_of
FROM fl_operation AS o
LEFT JOIN fl_version AS v ON v.save = o.save
WHERE o.save = ?1;

-- name: changes
-- ?1 save.
SELECT path, scope, old, new, strategy FROM fl_change WHERE save = ?1 ORDER BY position;

-- name: version
-- ?1 type, ?2 id, ?3 number.
SELECT v.save FROM fl_entity AS e
JOIN fl_version AS v ON v.entity = e.entity AND v.number = ?3
WHERE e.type = ?1 AND e.id = ?2;

-- name: newest_change
-- ?1 type, ?2 id, ?3 path. One look into the index per scope of the entity: a path may have moved between scopes.
SELECT max(
    (SELECT c.save FROM fl_change AS c
     WHERE c.entity = e.entity AND c.path = ?3 AND c.scope = s.scope
     ORDER BY c.version DESC LIMIT 1))
FROM fl_entity AS e
JOIN fl_scope AS s ON s.entity = e.entity
WHERE e.type = ?1 AND e.id = ?2;

-- name: base
-- ?1 type, ?2 id, ?3 path, ?4 scope, ?5 version. One row or none. Where changes after the version were pruned, the first
-- one that is left says nothing about it.
SELECT c.old FROM fl_entity AS e
JOIN fl_scope AS s ON s.entity = e.entity AND s.scope = ?4 AND s.pruned <= ?5
JOIN fl_change AS c
  ON c.entity = e.entity AND c.path = ?3 AND c.scope = ?4 AND c.version > ?5
WHERE e.type = ?1 AND e.id = ?2
ORDER BY c.version
LIMIT 1;
