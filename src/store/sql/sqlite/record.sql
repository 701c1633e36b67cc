-- Statements over records and scopes. Every transaction that writes is BEGIN IMMEDIATE, so that what it read
-- cannot change before it commits.

-- name: entity
-- ?1 type, ?2 id. No row: never created.
SELECT entity, incarnation, deleted_at, number, fence, data
FROM fl_entity WHERE type = ?1 AND id = ?2;

-- name: scopes
-- ?1 entity. In canonical order of the text.
SELECT scope, version FROM fl_scope WHERE entity = ?1 ORDER BY scope;

-- name: scope
-- ?1 entity, ?2 scope. Why an advance matched no row.
SELECT version, fence, holder FROM fl_scope WHERE entity = ?1 AND scope = ?2;

-- name: stamps
-- ?1 entity.
SELECT path, scope, version, operation, at, writer_kind, writer_name, on_behalf_of
FROM fl_stamp WHERE entity = ?1;

-- name: stamp_operation
-- ?1 entity, ?2 path. The save that last changed an input.
SELECT operation FROM fl_stamp WHERE entity = ?1 AND path = ?2;

-- name: claim_scope
-- ?1 entity, ?2 scope, ?3 holder. Always answers with the new fence; the version stays.
INSERT INTO fl_scope (entity, scope, version, fence, holder) VALUES (?1, ?2, 0, 1, ?3)
ON CONFLICT (entity, scope) DO UPDATE SET fence = fence + 1, holder = excluded.holder
RETURNING fence;

-- name: break_scope
-- ?1 entity, ?2 scope. A claim by nobody.
INSERT INTO fl_scope (entity, scope, version, fence, holder) VALUES (?1, ?2, 0, 1, NULL)
ON CONFLICT (entity, scope) DO UPDATE SET fence = fence + 1, holder = NULL
RETURNING fence;

-- name: raise_entity_fence
-- ?1 entity. A claim of the whole entity.
UPDATE fl_entity SET fence = fence + 1 WHERE entity = ?1 RETURNING fence;

-- name: make_scope
-- ?1 entity, ?2 scope. A missing row means version 0.
INSERT INTO fl_scope (entity, scope) VALUES (?1, ?2) ON CONFLICT (entity, scope) DO NOTHING;

-- name: advance_claimed
-- ?1 entity, ?2 scope, ?3 by 0 or 1, ?4 version, ?5 fence, ?6 holder, ?7 entity fence. Equal, never <=.
UPDATE fl_scope SET version = version + ?3
WHERE entity = ?1 AND scope = ?2 AND version = ?4 AND fence = ?5 AND holder = ?6
  AND ?7 = (SELECT fence FROM fl_entity WHERE entity = ?1)
RETURNING version;

-- name: advance_optimistic
-- ?1 entity, ?2 scope, ?3 by 0 or 1, ?4 version. Nobody may hold it.
UPDATE fl_scope SET version = version + ?3
WHERE entity = ?1 AND scope = ?2 AND version = ?4 AND holder IS NULL
RETURNING version;

-- name: advance_unread
-- ?1 entity, ?2 scope, ?3 by 0 or 1. Fence and holder stay.
UPDATE fl_scope SET version = version + ?3
WHERE entity = ?1 AND scope = ?2
RETURNING version;

-- name: retire_scope
-- ?1 entity, ?2 scope, ?3 by 0 or 1. The entity is deleted: whoever held the scope does no longer.
UPDATE fl_scope SET version = version + ?3, fence = fence + 1, holder = NULL
WHERE entity = ?1 AND scope = ?2
RETURNING version;

-- name: insert_entity
-- ?1 type, ?2 id. The first creation of an id.
INSERT INTO fl_entity (type, id, incarnation) VALUES (?1, ?2, 0) RETURNING entity;

-- name: update_entity
-- ?1 entity, ?2 data, ?3 number, ?4 incarnation, ?5 deleted_at, ?6 raise the fence by 0 or 1.
UPDATE fl_entity
SET data = ?2, number = ?3, incarnation = ?4, deleted_at = ?5, fence = fence + ?6
WHERE entity = ?1;

-- name: put_stamp
-- ?1 entity, ?2 path, ?3 scope, ?4 version, ?5 operation, ?6 at, ?7 writer_kind, ?8 writer_name, ?9 on_behalf_of.
INSERT INTO fl_stamp
    (entity, path, scope, version, operation, at, writer_kind, writer_name, on_behalf_of)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (entity, path) DO UPDATE SET
    scope = excluded.scope, version = excluded.version, operation = excluded.operation,
    at = excluded.at, writer_kind = excluded.writer_kind, writer_name = excluded.writer_name,
    on_behalf_of = excluded.on_behalf_of;

-- name: stamp_paths
-- ?1 entity.
SELECT path FROM fl_stamp WHERE entity = ?1;

-- name: remove_stamp
-- ?1 entity, ?2 path.
DELETE FROM fl_stamp WHERE entity = ?1 AND path = ?2;

-- name: remove_stamps_of_item
-- ?1 entity, ?2 item. At the item or below, on any axis values: after it comes a dot, an @, or the end.
DELETE FROM fl_stamp
WHERE entity = ?1
  AND (path = ?2
       OR (path >= ?2 || '.' AND path < ?2 || '/')
       OR (path >= ?2 || '@' AND path < ?2 || 'A'));

-- name: remove_stamps
-- ?1 entity.
DELETE FROM fl_stamp WHERE entity = ?1;

-- name: disturb
-- Any write at all: its commit overwrites what a failed commit may have left at the end of the log.
INSERT INTO fl_meta (name, value) VALUES ('disturbed', 1)
ON CONFLICT (name) DO UPDATE SET value = value + 1;
