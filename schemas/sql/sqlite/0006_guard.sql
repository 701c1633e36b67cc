-- The guard: a CMS that writes its own tables asks, inside its own transaction, whether it may, and leaves the same traces
-- as a save through the engine. `fieldlease sql guard` prints the statement for a group.
--
-- One row put into this view is one write of one group that the caller makes itself, in the transaction it has open
-- (BEGIN IMMEDIATE, or another writer may come between). When it goes through, the version of the scope has risen by
-- one. Otherwise the statement fails with one of these words, writes nothing, and the transaction goes on:
--   already         this operation took effect before
--   stale           the scope moved: load again
--   fenced          somebody else holds the scope, or your claim has been overtaken
--   gone            the record was deleted
--   stale_registry  other rules are in force: print the statement again
--   bad_change      `changes` names something that is no plain path
--
-- version: the version the writer had seen, NULL to compare none. fence: the fence of the writer's claim, NULL without
-- one; then nobody may hold the scope. changes: [{"path": .., "old": .., "new": ..}], values as JSON, left out where there
-- is none. state: for a writer that is an editor, every editor-owned value after the write, {"path": ..}.
CREATE VIEW fl_guard AS
SELECT NULL AS operation, NULL AS type, NULL AS id, NULL AS generation, NULL AS scope, NULL AS version, NULL AS fence,
       NULL AS changes, NULL AS state, NULL AS writer_kind, NULL AS writer_name
WHERE 0;

CREATE TRIGGER fl_guard_insert INSTEAD OF INSERT ON fl_guard
BEGIN
    SELECT RAISE(ABORT, 'bad_change') WHERE NOT json_valid(NEW.changes) OR json_type(NEW.changes) <> 'array'
        OR json_array_length(NEW.changes) = 0
        OR NEW.writer_kind NOT IN ('editor', 'worker')
        OR (NEW.writer_kind = 'editor') <> (NEW.state IS NOT NULL);
    SELECT RAISE(ABORT, 'bad_change')
    FROM (SELECT value ->> '$.path' AS path FROM json_each(NEW.changes)
          UNION ALL SELECT key FROM json_each(coalesce(NEW.state, '{}')))
    WHERE path IS NULL OR path = '' OR length(path) > 512 OR path GLOB '*[^A-Za-z0-9_.@=+-]*'
       OR path GLOB '*[.@=+][.@=+]*' OR path GLOB '[.@=+]*' OR path GLOB '*[.@=+]'
       OR path GLOB '*@*[.@]*' OR path GLOB '*[=+]*@*' OR path NOT GLOB '*@*' AND path GLOB '*[=+]*';
    -- Behind the @ every piece between two + is an axis, one = and a value. Quotes cannot occur any more.
    SELECT RAISE(ABORT, 'bad_change')
    FROM (SELECT value ->> '$.path' AS path FROM json_each(NEW.changes)
          UNION ALL SELECT key FROM json_each(coalesce(NEW.state, '{}'))) AS named,
         json_each('["' || replace(substr(named.path, instr(named.path, '@') + 1), '+', '","') || '"]') AS axis
    WHERE instr(named.path, '@') > 0 AND length(axis.value) - length(replace(axis.value, '=', '')) <> 1;
    SELECT RAISE(ABORT, 'bad_change') FROM json_each(NEW.changes) GROUP BY value ->> '$.path' HAVING count(*) > 1;
    SELECT RAISE(ABORT, 'already') FROM fl_operation WHERE operation = NEW.operation;
    SELECT RAISE(ABORT, 'stale_registry') FROM fl_registry
    WHERE type = NEW.type AND (generation <> NEW.generation
          OR effective_at > CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER));
    SELECT RAISE(ABORT, 'gone') FROM fl_entity WHERE type = NEW.type AND id = NEW.id AND deleted_at IS NOT NULL;
    -- First contact: the CMS has the record, and nothing is known of it here.
    INSERT INTO fl_entity (type, id, incarnation) VALUES (NEW.type, NEW.id, 1) ON CONFLICT DO NOTHING;
    INSERT INTO fl_scope (entity, scope)
    SELECT entity, NEW.scope FROM fl_entity WHERE type = NEW.type AND id = NEW.id
    ON CONFLICT DO NOTHING;
    SELECT RAISE(ABORT, 'fenced') FROM fl_scope JOIN fl_entity USING (entity)
    WHERE type = NEW.type AND id = NEW.id AND scope = NEW.scope
      AND CASE WHEN NEW.fence IS NOT NULL THEN holder IS NULL OR fl_scope.fence <> NEW.fence
               ELSE NEW.version IS NOT NULL AND holder IS NOT NULL END;
    SELECT RAISE(ABORT, 'stale') FROM fl_scope JOIN fl_entity USING (entity)
    WHERE type = NEW.type AND id = NEW.id AND scope = NEW.scope AND version <> NEW.version;

    UPDATE fl_entity SET number = number + 1 WHERE type = NEW.type AND id = NEW.id AND NEW.state IS NOT NULL;
    UPDATE fl_scope SET version = version + 1
    WHERE scope = NEW.scope AND entity = (SELECT entity FROM fl_entity WHERE type = NEW.type AND id = NEW.id);
    INSERT INTO fl_operation (operation, entity, incarnation, number, lifecycle, at, generation, scopes, detail,
                              writer_kind, writer_name)
    SELECT NEW.operation, entity, incarnation, CASE WHEN NEW.state IS NOT NULL THEN number END, 'update',
           CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER), NEW.generation,
           CASE WHEN NEW.fence IS NULL
               THEN json_object(NEW.scope, json_object('before', version - 1, 'after', version))
               ELSE json_object(NEW.scope, json_object('before', version - 1, 'after', version, 'fence', NEW.fence)) END,
           '{"waited_ms":0,"held_ms":0,"retries":0}', NEW.writer_kind, NEW.writer_name
    FROM fl_entity JOIN fl_scope USING (entity)
    WHERE type = NEW.type AND id = NEW.id AND scope = NEW.scope;
    INSERT INTO fl_version (save, entity, number, state)
    SELECT save, entity, number, NEW.state FROM fl_operation WHERE operation = NEW.operation AND NEW.state IS NOT NULL;
    INSERT INTO fl_change (save, position, entity, path, scope, version, old, new)
    SELECT save, change.key, entity, change.value ->> '$.path', NEW.scope,
           (SELECT version FROM fl_scope AS g WHERE g.entity = o.entity AND g.scope = NEW.scope),
           change.value -> '$.old', change.value -> '$.new'
    FROM fl_operation AS o, json_each(NEW.changes) AS change WHERE o.operation = NEW.operation;
    INSERT INTO fl_stamp (entity, path, scope, version, operation, writer_kind, writer_name, at)
    SELECT o.entity, c.path, c.scope, c.version, o.operation, o.writer_kind, o.writer_name, o.at
    FROM fl_operation AS o JOIN fl_change AS c USING (save) WHERE o.operation = NEW.operation
    ON CONFLICT (entity, path) DO UPDATE SET
        scope = excluded.scope, version = excluded.version, operation = excluded.operation,
        writer_kind = excluded.writer_kind, writer_name = excluded.writer_name, on_behalf_of = NULL, at = excluded.at;
    -- For the triggers that `fieldlease sql trigger` prints: until the caller deletes it, before COMMIT.
    INSERT INTO fl_pass (pass) VALUES (1) ON CONFLICT (pass) DO NOTHING;
END;
