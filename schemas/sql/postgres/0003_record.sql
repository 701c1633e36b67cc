-- Routines over records: each is one round trip, decides everything under the lock of the entity row, and never raises
-- for a refusal, so that a caller's own transaction goes on.
--
-- They run with the rights of the caller. plpgsql takes a new snapshot for every statement under READ COMMITTED: what
-- is read after a lock was waited for is what the former holder of the lock committed. Under REPEATABLE READ
-- they fail with 40001 instead when the record moved since the transaction began.

-- The record as of one moment. No row: never created.
CREATE FUNCTION fl_load(
    _type text, _id text,
    OUT incarnation bigint, OUT deleted_at timestamptz, OUT number bigint, OUT fence bigint, OUT data text,
    OUT scopes text[], OUT versions bigint[], OUT stamps text[], OUT read_at timestamptz)
RETURNS SETOF record LANGUAGE sql STABLE AS $$
    SELECT e.incarnation, e.deleted_at, e.number, e.fence, e.data::text,
           s.scopes, s.versions, s.stamps, clock_timestamp()
    FROM fl_entity AS e
    CROSS JOIN LATERAL (
        SELECT array_agg(t.scope) AS scopes, array_agg(t.version) AS versions, array_agg(t.stamps::text) AS stamps
        FROM fl_scope AS t WHERE t.entity = e.entity) AS s
    WHERE e.type = _type AND e.id = _id
$$;

-- Raises the fence of each scope, writes the holder, and returns the record as it is under that lock.
-- `answer`: claimed, stale_registry, not_found or gone. Nothing is written unless it is `claimed`.
CREATE FUNCTION fl_claim(
    _type text, _id text, _generation bytea, _holder uuid, _scopes text[], _whole boolean,
    OUT answer text, OUT rules bytea, OUT fences bigint[],
    OUT incarnation bigint, OUT number bigint, OUT fence bigint, OUT data text,
    OUT scopes text[], OUT versions bigint[], OUT stamps text[], OUT read_at timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    _e fl_entity;
    _name text;
    _fence bigint;
BEGIN
    SELECT * INTO _e FROM fl_entity AS e WHERE e.type = _type AND e.id = _id FOR NO KEY UPDATE;
    SELECT r.generation INTO rules FROM fl_registry AS r
    WHERE r.type = _type AND (r.generation <> _generation OR clock_timestamp() < r.effective_at);
    answer := CASE
        WHEN rules IS NOT NULL THEN 'stale_registry'
        WHEN _e.entity IS NULL THEN 'not_found'
        WHEN _e.deleted_at IS NOT NULL THEN 'gone'
        ELSE 'claimed' END;
    IF answer <> 'claimed' THEN
        RETURN;
    END IF;
    IF _whole THEN
        UPDATE fl_entity AS e SET fence = e.fence + 1 WHERE e.entity = _e.entity RETURNING e.fence INTO _e.fence;
    END IF;
    FOREACH _name IN ARRAY _scopes LOOP
        UPDATE fl_scope AS s SET fence = s.fence + 1, holder = _holder
        WHERE s.entity = _e.entity AND s.scope = _name
        RETURNING s.fence INTO _fence;
        IF NOT FOUND THEN
            INSERT INTO fl_scope AS s (entity, scope, fence, holder) VALUES (_e.entity, _name, 1, _holder)
            RETURNING s.fence INTO _fence;
        END IF;
        fences := array_append(fences, _fence);
    END LOOP;
    SELECT array_agg(s.scope), array_agg(s.version), array_agg(s.stamps::text) INTO scopes, versions, stamps
    FROM fl_scope AS s WHERE s.entity = _e.entity;
    incarnation := _e.incarnation;
    number := _e.number;
    fence := _e.fence;
    data := _e.data::text;
    read_at := clock_timestamp();
END
$$;

-- A claim by nobody. An id that was never created has no claim to break: 0.
CREATE FUNCTION fl_break(_type text, _id text, _scope text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    _entity bigint;
    _fence bigint;
BEGIN
    SELECT e.entity INTO _entity FROM fl_entity AS e WHERE e.type = _type AND e.id = _id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    INSERT INTO fl_scope AS s (entity, scope, fence) VALUES (_entity, _scope, 1)
    ON CONFLICT (entity, scope) DO UPDATE SET fence = s.fence + 1, holder = NULL
    RETURNING s.fence INTO _fence;
    RETURN _fence;
END
$$;

-- Everything a save needs of the stored record, compared under the lock: why it is refused, or NULL.
-- Inputs are compared by the save that last changed them, and no path may have come to those they cover.
CREATE FUNCTION fl_moved_inputs(_entity bigint, _inputs text[], _operations uuid[], _open jsonb)
RETURNS text[] LANGUAGE sql VOLATILE AS $$
    SELECT array(
        SELECT w.path FROM unnest(_inputs, _operations) WITH ORDINALITY AS w (path, operation, place)
        WHERE w.operation IS DISTINCT FROM (
            SELECT (s.stamps -> w.path ->> 2)::uuid FROM fl_scope AS s
            WHERE s.entity = _entity AND s.stamps ? w.path
            ORDER BY (s.stamps -> w.path ->> 1)::bigint DESC LIMIT 1)
        ORDER BY w.place)
    || array(
        SELECT DISTINCT p.path COLLATE "C" FROM fl_scope AS s CROSS JOIN jsonb_object_keys(s.stamps) AS p (path)
        WHERE s.entity = _entity AND NOT p.path = ANY (_inputs)
          AND EXISTS (
              SELECT FROM jsonb_array_elements(_open) AS o (expressions)
              WHERE p.path ~ ALL (array(SELECT jsonb_array_elements_text(o.expressions))))
        ORDER BY 1)
$$;

-- Which of these items have nothing at or below them. `_expressions` holds for each the ones all of its paths match.
CREATE FUNCTION fl_gone_items(_data jsonb, _items text[], _expressions jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT array(
        SELECT w.item FROM unnest(_items) WITH ORDINALITY AS w (item, place)
        WHERE NOT _data ? w.item AND NOT EXISTS (
            SELECT FROM jsonb_object_keys(_data) AS k (path)
            WHERE k.path ~ ALL (array(SELECT jsonb_array_elements_text(_expressions -> (w.place - 1)::integer))))
        ORDER BY w.place)
$$;

-- The keys of an object that lie in one of these items.
CREATE FUNCTION fl_keys_in(_object jsonb, _expressions jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT array(
        SELECT k.path FROM jsonb_object_keys(_object) AS k (path)
        WHERE EXISTS (
            SELECT FROM jsonb_array_elements(_expressions) AS o (expressions)
            WHERE k.path ~ ALL (array(SELECT jsonb_array_elements_text(o.expressions)))))
$$;

-- A record without what lies below a path on the same axis values: a leaf takes the place of a node there.
CREATE FUNCTION fl_cleared(_data jsonb, _path text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT _data - array(
        SELECT k.path FROM jsonb_object_keys(_data) AS k (path)
        WHERE starts_with(k.path, p.parts[1] || '.')
          AND (regexp_match(k.path, '^(?:\\.|[^@\\])*(@.*)?$'))[1] IS NOT DISTINCT FROM p.parts[2])
    FROM (SELECT regexp_match(_path, '^((?:\\.|[^@\\])*)(@.*)?$') AS parts) AS p
$$;

-- Whether a save must not write a scope, by its claim: of both the present fence and holder, of the record's own fence
-- too. Compared for equality: a fence alone or a token alone is nobody. No holder wanted: nobody may hold it, unless no
-- version is compared either.
CREATE FUNCTION fl_is_fenced(
    _fence bigint, _holder uuid, _entity_fence bigint,
    _wanted_version bigint, _wanted_fence bigint, _wanted_holder uuid, _wanted_entity_fence bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT _wanted_holder IS NOT NULL AND (_fence IS DISTINCT FROM _wanted_fence
            OR _holder IS DISTINCT FROM _wanted_holder OR _entity_fence IS DISTINCT FROM _wanted_entity_fence)
        OR _wanted_holder IS NULL AND _wanted_version IS NOT NULL AND _holder IS NOT NULL
$$;

-- Whether a scope is at another version than wanted; it is at 0 without a row. NULL wants none.
CREATE FUNCTION fl_is_stale(_version bigint, _wanted bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(_version, 0) IS DISTINCT FROM coalesce(_wanted, _version, 0)
$$;

-- An object of these paths, at least one, each with the same stamp. An aggregate would do, as a subselect that costs 30 us
-- to start. A quote inside of a path stands behind a backslash: only a value can look like the one replaced.
CREATE FUNCTION fl_stamped(_paths text[], _stamp jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT replace(
        jsonb_object(_paths, array_fill('~'::text, ARRAY[cardinality(_paths)]))::text, ': "~"', ': ' || _stamp::text)::jsonb
$$;

-- One save: compared, applied and remembered, or nothing.
--
-- Scopes are given in the order of their names. Of each: by how much its version rises (0 or 1), the version expected
-- (NULL: none), and for a claimed one fence and holder, which must be equal. `_changed_in` says for each changed path
-- which scope it belongs to, from 1. `_put` is path -> leaf as JSON text; `_leaves` names those of its
-- paths that are no nodes.
--
-- `answer`: applied, already (this operation took effect before), void (it was asked after and given up), or a refusal:
-- stale_registry (`rules`), not_found, exists, gone, recreated, fenced and stale (`names`), input_moved and parent_gone
-- (`names`), key_lost, key_mismatch, key_replay and key_busy (`details`, as of fl_key_step). After anything but
-- `applied` nothing is written. What is wrong with the key is told before anything else.
CREATE FUNCTION fl_commit(
    _operation uuid, _type text, _id text, _lifecycle text, _incarnation bigint, _generation bytea,
    _entity_fence bigint,
    _scopes text[], _rises bigint[], _versions bigint[], _fences bigint[], _holders uuid[],
    _inputs text[], _input_operations uuid[], _open_inputs jsonb,
    _parents text[], _parent_expressions jsonb,
    _removed jsonb, _gone text[], _put jsonb, _leaves text[],
    _changed text[], _changed_in integer[],
    _changes jsonb, _detail json, _state jsonb,
    _writer_kind text, _writer_name text, _on_behalf_of text, _key jsonb,
    OUT answer text, OUT rules bytea, OUT names text[], OUT versions bigint[], OUT number bigint, OUT incarnation bigint,
    OUT details text)
LANGUAGE plpgsql AS $$
DECLARE
    _e fl_entity;
    _entity bigint;
    _now timestamptz;
    _version bigint;
    _fence bigint;
    _holder uuid;
    _fenced text[] := '{}';
    _stale text[] := '{}';
    _befores bigint[] := '{}'; -- NULL: the scope has no row yet
    _steps text;
    _save bigint;
    _found text;
    _data jsonb;
    _path text;
    _stamp jsonb;
    _stamps jsonb;
    _count integer := coalesce(cardinality(_scopes), 0);
    _attempt bigint;
    _made boolean := false;
    _key_refusal text;
BEGIN
    -- The usual save first: an update of one scope that compares nothing else. A statement costs about 15 us here and an
    -- expression one, since plpgsql starts both anew in every transaction, so this is done with the fewest. Whatever does
    -- not fit has written nothing, and goes the long way to hear why.
    IF _count = 1 AND _rises[1] = 1 AND _lifecycle = 'update' AND _key IS NULL AND _removed IS NULL
        AND _open_inputs IS NULL AND cardinality(_inputs) = 0 AND cardinality(_parents) = 0 AND cardinality(_changed) > 0
    THEN
        SELECT e.entity, e.fence, e.data - _gone, CASE WHEN _state IS NOT NULL THEN e.number + 1 END
        INTO _entity, _fence, _data, number
        FROM fl_entity AS e
        WHERE e.type = _type AND e.id = _id AND e.incarnation = _incarnation AND e.deleted_at IS NULL
        FOR NO KEY UPDATE;
        INSERT INTO fl_operation AS o
            (operation, entity, incarnation, number, lifecycle, at, generation, scopes,
             changes, detail, state, writer_kind, writer_name, on_behalf_of)
        SELECT _operation, _entity, _incarnation, number, _lifecycle, clock_timestamp(), _generation,
            jsonb_build_object(_scopes[1], jsonb_build_object('before', s.version, 'after', s.version + 1, 'fence',
                CASE WHEN _holders[1] IS NOT NULL THEN _fences[1] END)),
            _changes, _detail, _state, _writer_kind, _writer_name, _on_behalf_of
        FROM fl_scope AS s
        WHERE s.entity = _entity AND s.scope = _scopes[1] AND NOT fl_is_stale(s.version, _versions[1])
          AND NOT fl_is_fenced(s.fence, s.holder, _fence, _versions[1], _fences[1], _holders[1], _entity_fence)
          AND NOT EXISTS (
              SELECT FROM fl_registry AS r
              WHERE r.type = _type AND (r.generation <> _generation OR clock_timestamp() < r.effective_at))
        ON CONFLICT (operation) DO NOTHING
        RETURNING o.save, o.at INTO _save, _now;
        IF FOUND THEN
            UPDATE fl_scope AS s SET version = s.version + 1, stamps = s.stamps || fl_stamped(_changed, jsonb_build_array(
                s.version + 1, _save, _operation, (extract(epoch FROM _now) * 1000000)::bigint,
                _writer_kind, _writer_name, _on_behalf_of))
            WHERE s.entity = _entity AND s.scope = _scopes[1]
            RETURNING ARRAY[s.version], _scopes, _incarnation, 'applied' INTO versions, names, incarnation, answer;
            FOREACH _path IN ARRAY _leaves LOOP
                -- Another save may have put something below since this one was planned.
                IF _data ->> _path = '{}' THEN
                    _data := fl_cleared(_data, _path);
                END IF;
            END LOOP;
            UPDATE fl_entity AS e SET data = _data || _put, number = coalesce(fl_commit.number, e.number)
            WHERE e.entity = _entity;
            RETURN;
        END IF;
        number := NULL;
    END IF;
    IF _key IS NOT NULL THEN
        SELECT k.refusal, k.details, k.attempt, k.made INTO _key_refusal, details, _attempt, _made FROM fl_take_key(_key) AS k;
    END IF;
    <<again>>
    LOOP
        SELECT * INTO _e FROM fl_entity AS e WHERE e.type = _type AND e.id = _id FOR NO KEY UPDATE;
        SELECT r.generation INTO rules FROM fl_registry AS r
        WHERE r.type = _type AND (r.generation <> _generation OR clock_timestamp() < r.effective_at);
        answer := CASE
            WHEN _key_refusal IS NOT NULL THEN _key_refusal
            WHEN rules IS NOT NULL THEN 'stale_registry'
            WHEN _e.entity IS NULL AND _lifecycle <> 'create' THEN 'not_found'
            WHEN _e.entity IS NULL AND _incarnation <> 0 THEN 'recreated'
            WHEN _e.entity IS NULL THEN NULL
            WHEN _lifecycle = 'create' AND _e.deleted_at IS NULL THEN 'exists'
            WHEN _lifecycle <> 'create' AND _e.deleted_at IS NOT NULL THEN 'gone'
            WHEN _e.incarnation <> _incarnation THEN 'recreated' END;
        IF answer IS NULL THEN
            FOR _i IN 1 .. _count LOOP
                SELECT s.version, s.fence, s.holder INTO _version, _fence, _holder FROM fl_scope AS s
                WHERE s.entity = _e.entity AND s.scope = _scopes[_i] FOR NO KEY UPDATE;
                _befores[_i] := _version;
                IF fl_is_fenced(_fence, _holder, _e.fence, _versions[_i], _fences[_i], _holders[_i], _entity_fence) THEN
                    _fenced := _fenced || _scopes[_i];
                ELSIF fl_is_stale(_version, _versions[_i]) THEN
                    _stale := _stale || _scopes[_i];
                END IF;
            END LOOP;
            IF cardinality(_fenced) > 0 THEN
                answer := 'fenced';
                names := _fenced;
            ELSIF cardinality(_stale) > 0 THEN
                answer := 'stale';
                names := _stale;
            END IF;
        END IF;
        IF answer IS NULL AND (cardinality(_inputs) > 0 OR _open_inputs IS NOT NULL) THEN
            names := fl_moved_inputs(_e.entity, _inputs, _input_operations, _open_inputs);
            IF cardinality(names) > 0 THEN
                answer := 'input_moved';
            END IF;
        END IF;
        IF answer IS NULL AND cardinality(_parents) > 0 THEN
            names := fl_gone_items(coalesce(_e.data, '{}'), _parents, _parent_expressions);
            IF cardinality(names) > 0 THEN
                answer := 'parent_gone';
            END IF;
        END IF;
        -- An operation that took effect is not refused for what it did itself, nor for what others did since.
        IF answer IS NOT NULL OR _e.entity IS NULL THEN
            SELECT CASE WHEN o.lifecycle <> 'void' THEN 'already' WHEN answer IS NULL THEN 'void' ELSE answer END
            INTO _found FROM fl_operation AS o WHERE o.operation = _operation;
            answer := coalesce(_found, answer);
            IF answer IS NOT NULL THEN
                IF _made THEN
                    PERFORM fl_unmake_key(_key);
                END IF;
                RETURN;
            END IF;
        END IF;
        EXIT again WHEN _e.entity IS NOT NULL;
        -- The first creation of an id. Another session may be at the same: then look again at what it made.
        INSERT INTO fl_entity AS e (type, id, incarnation) VALUES (_type, _id, 0)
        ON CONFLICT (type, id) DO NOTHING
        RETURNING * INTO _e;
        EXIT again WHEN FOUND;
    END LOOP;

    -- Nothing is refused from here on.
    _now := clock_timestamp();
    incarnation := _e.incarnation + CASE WHEN _lifecycle = 'create' THEN 1 ELSE 0 END;
    number := CASE WHEN _state IS NOT NULL THEN _e.number + 1 END;
    IF _lifecycle = 'delete' THEN
        -- Every scope goes on, those the save does not name too.
        SELECT array_agg(t.scope ORDER BY t.scope), array_agg(t.version ORDER BY t.scope) INTO _scopes, _befores
        FROM (SELECT s.scope, s.version FROM fl_scope AS s WHERE s.entity = _e.entity
              UNION ALL
              SELECT w.scope, NULL FROM unnest(_scopes) AS w (scope) WHERE NOT EXISTS (
                  SELECT FROM fl_scope AS s WHERE s.entity = _e.entity AND s.scope = w.scope)) AS t;
        _count := coalesce(cardinality(_scopes), 0);
        _rises := array_fill(1::bigint, ARRAY[_count]);
        _holders := NULL;
    END IF;
    FOR _i IN 1 .. _count LOOP
        versions[_i] := coalesce(_befores[_i], 0) + _rises[_i];
        _steps := concat(_steps || ',', to_json(_scopes[_i]), ':{"before":', coalesce(_befores[_i], 0), ',"after":',
            versions[_i], ',"fence":' || CASE WHEN _holders[_i] IS NOT NULL THEN _fences[_i] END, '}');
    END LOOP;
    _steps := concat('{', _steps, '}');
    -- The first row of a record written: when the operation exists already, nothing was done.
    INSERT INTO fl_operation AS o
        (operation, entity, incarnation, number, lifecycle, at, generation, scopes, changes, detail, state,
         writer_kind, writer_name, on_behalf_of)
    VALUES (_operation, _e.entity, incarnation, number, _lifecycle, _now, _generation, _steps::jsonb,
        _changes, _detail, _state, _writer_kind, _writer_name, _on_behalf_of)
    ON CONFLICT (operation) DO NOTHING
    RETURNING o.save INTO _save;
    IF NOT FOUND THEN
        SELECT CASE WHEN o.lifecycle = 'void' THEN 'void' ELSE 'already' END INTO answer
        FROM fl_operation AS o WHERE o.operation = _operation;
        IF _made THEN
            PERFORM fl_unmake_key(_key);
        END IF;
        RETURN;
    END IF;
    IF _key IS NOT NULL THEN
        PERFORM fl_complete_key(_key, _attempt, _operation, incarnation, number, _steps);
    END IF;
    names := _scopes;
    IF _lifecycle = 'delete' THEN
        UPDATE fl_scope AS s SET version = s.version + 1, fence = s.fence + 1, holder = NULL, stamps = '{}'
        WHERE s.entity = _e.entity;
        INSERT INTO fl_scope (entity, scope, version, fence)
        SELECT _e.entity, w.scope, 1, 1 FROM unnest(_scopes, _befores) AS w (scope, version) WHERE w.version IS NULL;
        UPDATE fl_entity AS e SET data = '{}', number = coalesce(fl_commit.number, e.number), deleted_at = _now,
            fence = e.fence + 1
        WHERE e.entity = _e.entity;
        answer := 'applied';
        RETURN;
    END IF;
    FOR _i IN 1 .. _count LOOP
        CONTINUE WHEN _rises[_i] = 0 AND _befores[_i] IS NOT NULL;
        _stamp := jsonb_build_array(versions[_i], _save, _operation,
            (extract(epoch FROM _now) * 1000000)::bigint, _writer_kind, _writer_name, _on_behalf_of);
        IF _count = 1 AND cardinality(_changed) > 0 THEN
            _stamps := fl_stamped(_changed, _stamp);
        ELSE
            SELECT coalesce(jsonb_object_agg(c.path, _stamp), '{}') INTO _stamps
            FROM unnest(_changed, _changed_in) AS c (path, place) WHERE c.place = _i;
        END IF;
        IF _befores[_i] IS NULL THEN
            INSERT INTO fl_scope (entity, scope, version, stamps) VALUES (_e.entity, _scopes[_i], versions[_i], _stamps);
        ELSE
            UPDATE fl_scope AS s SET version = versions[_i], stamps = s.stamps || _stamps
            WHERE s.entity = _e.entity AND s.scope = _scopes[_i];
        END IF;
    END LOOP;
    IF _removed IS NOT NULL THEN
        UPDATE fl_scope AS s SET stamps = s.stamps - fl_keys_in(s.stamps, _removed) WHERE s.entity = _e.entity;
    END IF;
    IF _removed IS NOT NULL THEN
        _e.data := _e.data - fl_keys_in(_e.data, _removed);
    END IF;
    _data := _e.data - _gone;
    FOREACH _path IN ARRAY _leaves LOOP
        -- As above.
        IF _data ->> _path = '{}' THEN
            _data := fl_cleared(_data, _path);
        END IF;
    END LOOP;
    UPDATE fl_entity AS e SET data = _data || _put,
        number = coalesce(fl_commit.number, e.number), incarnation = fl_commit.incarnation, deleted_at = NULL
    WHERE e.entity = _e.entity;
    answer := 'applied';
END
$$;

-- What became of an operation. One that did not come is entered as void in the same moment, so that it never will: a
-- commit that is on its way is waited for, or finds the entry.
CREATE FUNCTION fl_resolve(
    _operation uuid, OUT incarnation bigint, OUT number bigint, OUT scopes text)
RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO fl_operation AS o (operation, lifecycle, at) VALUES (_operation, 'void', clock_timestamp())
    ON CONFLICT (operation) DO NOTHING;
    IF NOT FOUND THEN
        RETURN QUERY SELECT o.incarnation, o.number, o.scopes::text FROM fl_operation AS o
        WHERE o.operation = _operation AND o.lifecycle <> 'void';
    END IF;
END
$$;

-- Puts rules in force if those expected are; answers whether it did. The same generation again only replaces the
-- text. Claims under former rules end, or a group that became optimistic would be held for ever.
CREATE FUNCTION fl_activate(_type text, _was bytea, _generation bytea, _text text, _delay_us bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _now timestamptz := clock_timestamp();
BEGIN
    IF _was IS NULL THEN
        INSERT INTO fl_registry (type, generation, text, effective_at)
        VALUES (_type, _generation, _text, _now + _delay_us * interval '1 microsecond')
        ON CONFLICT (type) DO NOTHING;
    ELSE
        UPDATE fl_registry AS r SET generation = _generation, text = _text,
            effective_at = CASE WHEN _was = _generation THEN r.effective_at
                ELSE _now + _delay_us * interval '1 microsecond' END,
            previous = CASE WHEN _was = _generation THEN r.previous ELSE _was END
        WHERE r.type = _type AND r.generation = _was;
    END IF;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF _was IS DISTINCT FROM _generation THEN
        PERFORM FROM fl_entity AS e
        WHERE e.type = _type
          AND EXISTS (SELECT FROM fl_scope AS s WHERE s.entity = e.entity AND s.holder IS NOT NULL)
        ORDER BY e.entity FOR NO KEY UPDATE;
        UPDATE fl_scope AS s SET fence = s.fence + 1, holder = NULL
        WHERE s.holder IS NOT NULL AND s.entity IN (SELECT e.entity FROM fl_entity AS e WHERE e.type = _type);
    END IF;
    RETURN true;
END
$$;

-- fieldlease: entered
INSERT INTO fl_migration (number, name, checksum)
VALUES (3, 'record', '\x989d9aa584701dc37f98cdba631fac1b2988275143666f72f1fb8c78c547720e');
