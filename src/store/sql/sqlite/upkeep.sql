-- Statements that take history away. Each runs in a transaction with everything that belongs to it.

-- name: upkeep_entities
-- ?1 after this row, ?2 type or NULL, ?3 at most.
SELECT entity, number, deleted_at FROM fl_entity
WHERE entity > ?1 AND (?2 IS NULL OR type = ?2)
ORDER BY entity
LIMIT ?3;

-- name: prunable
-- ?1 entity, ?2 newest number, ?3 versions to keep or NULL, ?4 versions before or NULL, ?5 operations before or NULL,
-- ?6 never from this moment on, ?7 at most. Where a value comes from stays, and what a key answers with.
SELECT o.save, o.number IS NOT NULL FROM fl_operation AS o
WHERE o.entity = ?1 AND o.at < ?6
  AND CASE WHEN o.number IS NULL
           THEN o.at < ?5
           ELSE o.number < ?2
                AND (?3 IS NOT NULL OR ?4 IS NOT NULL)
                AND (?3 IS NULL OR o.number <= ?2 - ?3)
                AND (?4 IS NULL OR o.at < ?4)
      END
  AND NOT EXISTS (SELECT 1 FROM fl_stamp AS s WHERE s.entity = o.entity AND s.operation = o.operation)
  AND NOT EXISTS (SELECT 1 FROM fl_key AS k WHERE k.operation = o.operation)
ORDER BY o.save
LIMIT ?7;

-- name: mark_pruned
-- ?1 save, ?2 entity.
UPDATE fl_scope AS s SET pruned = max(s.pruned, c.version)
FROM (SELECT scope, max(version) AS version FROM fl_change WHERE save = ?1 GROUP BY scope) AS c
WHERE s.entity = ?2 AND s.scope = c.scope;

-- name: prune_changes
-- ?1 save.
DELETE FROM fl_change WHERE save = ?1;

-- name: prune_version
-- ?1 save.
DELETE FROM fl_version WHERE save = ?1;

-- name: prune_operation
-- ?1 save.
DELETE FROM fl_operation WHERE save = ?1;

-- name: saves_of
-- ?1 entity. How many, and how many of them a key answers with.
SELECT count(*), count(k.operation) FROM fl_operation AS o
LEFT JOIN fl_key AS k ON k.operation = o.operation
WHERE o.entity = ?1;

-- name: drop_changes
-- ?1 entity.
DELETE FROM fl_change WHERE save IN (SELECT save FROM fl_operation WHERE entity = ?1);

-- name: drop_versions
-- ?1 entity.
DELETE FROM fl_version WHERE save IN (SELECT save FROM fl_operation WHERE entity = ?1);

-- name: drop_operations
-- ?1 entity.
DELETE FROM fl_operation WHERE entity = ?1;

-- name: drop_scopes
-- ?1 entity.
DELETE FROM fl_scope WHERE entity = ?1;

-- name: drop_entity
-- ?1 entity.
DELETE FROM fl_entity WHERE entity = ?1;

-- name: forget_erased
-- ?1 entity. The id goes from the proofs, too.
UPDATE fl_erasure SET id = NULL
WHERE (type, id) = (SELECT type, id FROM fl_entity WHERE entity = ?1);

-- name: erase_versions
-- ?1 entity.
UPDATE fl_version SET state = '{}', reason = NULL WHERE entity = ?1;

-- name: erase_operations
-- ?1 entity. Who saved when stays; what, and why, goes.
UPDATE fl_operation SET detail = '{"waited_ms":0,"held_ms":0,"retries":0}' WHERE entity = ?1;

-- name: erase_keys
-- ?1 entity. Repeats are answered that it was done, and not what.
UPDATE fl_key SET result = NULL, inputs = NULL
WHERE operation IN (SELECT operation FROM fl_operation WHERE entity = ?1);

-- name: close_scopes
-- ?1 entity. Nobody who saw or held anything goes on with it.
UPDATE fl_scope SET version = version + 1, pruned = version + 1, fence = fence + 1, holder = NULL
WHERE entity = ?1;

-- name: close_entity
-- ?1 entity, ?2 now.
UPDATE fl_entity SET data = '{}', deleted_at = coalesce(deleted_at, ?2), fence = fence + 1
WHERE entity = ?1;

-- name: erase_writer_saves
-- ?1 name, ?2 kind.
UPDATE fl_operation
SET writer_name = CASE WHEN writer_name = ?1 AND writer_kind = ?2 THEN 'erased' ELSE writer_name END,
    on_behalf_of = CASE WHEN on_behalf_of = ?1 THEN 'erased' ELSE on_behalf_of END
WHERE (writer_name = ?1 AND writer_kind = ?2) OR on_behalf_of = ?1;

-- name: erase_writer_stamps
-- ?1 name, ?2 kind.
UPDATE fl_stamp
SET writer_name = CASE WHEN writer_name = ?1 AND writer_kind = ?2 THEN 'erased' ELSE writer_name END,
    on_behalf_of = CASE WHEN on_behalf_of = ?1 THEN 'erased' ELSE on_behalf_of END
WHERE (writer_name = ?1 AND writer_kind = ?2) OR on_behalf_of = ?1;

-- name: prove_erasure
-- ?1 what, ?2 type, ?3 id, ?4 saves, ?5 by, ?6 reason, ?7 now.
INSERT INTO fl_erasure (what, type, id, saves, by_name, reason, at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);
