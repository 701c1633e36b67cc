-- The guard: a CMS that writes its own tables asks, inside its own transaction, whether it may, and leaves the same traces
-- as a save through the engine. `fieldlease sql guard` prints the call for a group.

-- One write of one group that the caller makes itself, in the transaction it has open. `answer`:
--   applied         go on: the version of the scope is `version` now; your COMMIT makes it true, your ROLLBACK takes it back
--   already         this operation took effect before
--   stale           the scope moved: `version` is what it is at; load again
--   fenced          somebody else holds the scope, or your claim has been overtaken
--   gone            the record was deleted
--   stale_registry  other rules are in force: print the statement again
--   bad_change      `_changes` names something that is no plain path
--   void            this operation was asked after and given up
-- Nothing is raised and nothing is written unless it is `applied`.
--
-- _version: the version the writer had seen, NULL to compare none. _fence: the fence of the writer's claim, NULL without
-- one; then nobody may hold the scope. _changes: [{"path": .., "old": .., "new": ..}], values as JSON, left out where there
-- is none. _state: for a writer that is an editor, every editor-owned value after the write, {"path": ..}; makes a version.
CREATE FUNCTION fl_guard(
    _operation uuid, _type text, _id text, _generation bytea, _scope text, _version bigint, _fence bigint,
    _changes json, _state json, _writer_kind text, _writer_name text,
    OUT answer text, OUT version bigint)
LANGUAGE plpgsql AS $$
DECLARE
    -- As fl_entity keeps it.
    _stored_id text := replace(_id, '\', '\\');
    _e fl_entity;
    _made boolean := false;
    _holder uuid;
    _paths text[];
    _kept jsonb;
    _kept_state jsonb;
BEGIN
    SELECT array_agg(c.change ->> 'path' ORDER BY c.place),
           jsonb_agg(jsonb_build_object(
               'path', c.change ->> 'path', 'scope', _scope, 'old', (c.change -> 'old')::text,
               'new', (c.change -> 'new')::text, 'strategy', NULL) ORDER BY c.place)
    INTO _paths, _kept
    FROM json_array_elements(_changes) WITH ORDINALITY AS c (change, place);
    SELECT jsonb_object_agg(s.key, s.value::text) INTO _kept_state FROM json_each(_state) AS s;
    IF _paths IS NULL OR cardinality(_paths) <> (SELECT count(DISTINCT p.path) FROM unnest(_paths) AS p (path))
        OR EXISTS (SELECT FROM unnest(_paths) AS p (path) WHERE fl_is_plain(p.path) IS NOT TRUE)
        OR EXISTS (SELECT FROM jsonb_object_keys(_kept_state) AS p (path) WHERE fl_is_plain(p.path) IS NOT TRUE)
        OR (_writer_kind = 'editor') <> (_state IS NOT NULL)
    THEN
        answer := 'bad_change';
        RETURN;
    END IF;
    LOOP
        SELECT * INTO _e FROM fl_entity AS e WHERE e.type = _type AND e.id = _stored_id FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        -- First contact: the CMS has the record, and nothing is known of it here.
        INSERT INTO fl_entity (type, id, incarnation) VALUES (_type, _stored_id, 1) ON CONFLICT (type, id) DO NOTHING;
        _made := FOUND;
    END LOOP;
    SELECT s.holder INTO _holder FROM fl_scope AS s WHERE s.entity = _e.entity AND s.scope = _scope FOR NO KEY UPDATE;
    IF _fence IS NOT NULL AND _holder IS NULL THEN
        -- Its claim was broken, or there never was one.
        answer := 'fenced';
    ELSE
        SELECT c.answer, c.versions[1] INTO answer, version
        FROM fl_commit(
            _operation, _type, _stored_id, 'update', _e.incarnation, _generation, _e.fence,
            ARRAY[_scope], ARRAY[1::bigint], ARRAY[_version], ARRAY[_fence],
            ARRAY[CASE WHEN _fence IS NOT NULL THEN _holder END],
            '{}', '{}', NULL, '{}', NULL, NULL, '{}', '{}', '{}',
            _paths, array_fill(1, ARRAY[cardinality(_paths)]), _kept,
            '{"waited_ms":0,"held_ms":0,"retries":0}', _kept_state, _writer_kind, _writer_name, NULL, NULL) AS c;
    END IF;
    IF answer = 'applied' THEN
        -- For the triggers that `fieldlease sql trigger` prints: until this transaction ends.
        PERFORM set_config('fieldlease.pass', '1', true);
    ELSE
        SELECT s.version INTO version FROM fl_scope AS s WHERE s.entity = _e.entity AND s.scope = _scope;
        version := coalesce(version, 0);
        IF _made THEN
            DELETE FROM fl_entity AS e WHERE e.entity = _e.entity;
        END IF;
    END IF;
END
$$;

-- Whether a text is a path of plain keys, as in seo.title@locale=de: letters, digits, _ and - only. Others can be saved
-- through the engine.
CREATE FUNCTION fl_is_plain(_path text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT length(_path) <= 512
       AND _path ~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(@[A-Za-z0-9_]+=[A-Za-z0-9_-]+(\+[A-Za-z0-9_]+=[A-Za-z0-9_-]+)*)?$'
$$;

-- fieldlease: entered
INSERT INTO fl_migration (number, name, checksum)
VALUES (8, 'guard', '\x61535e21442180fac45fb25e2094f83697257a6b08f829ca2446f3cac7394618');
