-- Routines over idempotency keys. Ownership decides, not time: an attempt whose lease lapsed may still finish until
-- another one took over.

-- A moment so many microseconds from another; at most a hundred years.
CREATE FUNCTION fl_later(_now timestamptz, _us bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT _now + least(_us, 3155760000000000) * interval '1 microsecond'
$$;

-- What a stored key answers whoever begins: fresh, same or taken_over (the key may be acquired), mismatch, replay,
-- in_progress or retry_later. `details` is JSON: what ended it, or for how many microseconds it is busy.
CREATE FUNCTION fl_key_step(
    _k fl_key, _now timestamptz, _hash_algorithm text, _hash bytea, _owner uuid, OUT step text, OUT details text)
LANGUAGE sql IMMUTABLE AS $$
    SELECT t.step, CASE t.step
        WHEN 'replay' THEN jsonb_build_object('state', _k.state, 'result', _k.result, 'inputs', _k.inputs,
            'operation', _k.operation, 'incarnation', _k.incarnation, 'number', _k.number, 'scopes', _k.scopes)::text
        WHEN 'in_progress' THEN ((extract(epoch FROM _k.until_at - _now) * 1000000)::bigint)::text
        WHEN 'retry_later' THEN ((extract(epoch FROM _k.until_at - _now) * 1000000)::bigint)::text END
    FROM (SELECT CASE
        WHEN _k.state IN ('completed', 'failed') AND _k.until_at <= _now THEN 'fresh'
        WHEN _k.hash_algorithm <> _hash_algorithm OR _k.hash <> _hash THEN 'mismatch'
        WHEN _k.state IN ('completed', 'failed') THEN 'replay'
        WHEN _k.state = 'pending' AND _k.owner = _owner THEN 'same'
        WHEN _k.state = 'pending' AND _now < _k.until_at THEN 'in_progress'
        WHEN _k.state = 'pending' THEN 'taken_over'
        WHEN _now < _k.until_at THEN 'retry_later'
        ELSE 'fresh' END AS step) AS t
$$;

-- Locks the row of a key, which is made when there is none, and says what it answers: as `fl_key_step`, and `new` for a
-- row that was made. It is pending then, and its lease over.
CREATE FUNCTION fl_lock_key(
    _kind text, _scope text, _name text, _hash_algorithm text, _hash bytea, _owner uuid,
    OUT step text, OUT details text, OUT attempt bigint)
LANGUAGE plpgsql AS $$
DECLARE
    _k fl_key;
    _now timestamptz;
BEGIN
    LOOP
        SELECT * INTO _k FROM fl_key AS k
        WHERE k.kind = _kind AND k.scope = _scope AND k.name = _name FOR NO KEY UPDATE;
        _now := clock_timestamp();
        IF FOUND THEN
            SELECT s.step, s.details INTO step, details FROM fl_key_step(_k, _now, _hash_algorithm, _hash, _owner) AS s;
            attempt := _k.attempt + CASE WHEN step = 'same' THEN 0 ELSE 1 END;
            RETURN;
        END IF;
        -- Whoever makes it at the same time is waited for, and looked at again.
        INSERT INTO fl_key (kind, scope, name, hash_algorithm, hash, state, owner, attempt, until_at, created_at)
        VALUES (_kind, _scope, _name, _hash_algorithm, _hash, 'pending', _owner, 1, _now, _now)
        ON CONFLICT (kind, scope, name) DO NOTHING;
        IF FOUND THEN
            step := 'new';
            attempt := 1;
            RETURN;
        END IF;
    END LOOP;
END
$$;

-- Acquires a key, or says why not. It always answers, and of any number of calls at once exactly one acquires.
CREATE FUNCTION fl_begin_key(
    _kind text, _scope text, _name text, _hash_algorithm text, _hash bytea, _owner uuid, _lease_us bigint,
    OUT step text, OUT details text, OUT attempt bigint)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT t.step, t.details, t.attempt INTO step, details, attempt
    FROM fl_lock_key(_kind, _scope, _name, _hash_algorithm, _hash, _owner) AS t;
    IF step IN ('new', 'fresh', 'same', 'taken_over') THEN
        UPDATE fl_key AS k SET hash_algorithm = _hash_algorithm, hash = _hash, state = 'pending', owner = _owner,
            attempt = fl_begin_key.attempt, until_at = fl_later(clock_timestamp(), _lease_us),
            class = NULL, result = NULL, inputs = NULL,
            operation = NULL, incarnation = NULL, number = NULL, scopes = NULL
        WHERE k.kind = _kind AND k.scope = _scope AND k.name = _name;
    END IF;
END
$$;

-- The first step of a save with a key: locks the key, and says why the save must not happen. `_key` is what the
-- library sends: kind, scope, name, algorithm, hash, owner, attempt (of a key that was begun before), until_us, result, inputs.
CREATE FUNCTION fl_take_key(
    _key jsonb, OUT refusal text, OUT details text, OUT attempt bigint, OUT made boolean)
LANGUAGE plpgsql AS $$
DECLARE
    _step text;
BEGIN
    made := false;
    attempt := (_key ->> 'attempt')::bigint;
    IF attempt IS NOT NULL THEN
        PERFORM FROM fl_key AS k
        WHERE k.kind = _key ->> 'kind' AND k.scope = _key ->> 'scope' AND k.name = _key ->> 'name'
          AND k.state = 'pending' AND k.owner = (_key ->> 'owner')::uuid AND k.attempt = fl_take_key.attempt
        FOR NO KEY UPDATE;
        refusal := CASE WHEN NOT FOUND THEN 'key_lost' END;
        RETURN;
    END IF;
    SELECT t.step, t.details, t.attempt INTO _step, details, attempt
    FROM fl_lock_key(_key ->> 'kind', _key ->> 'scope', _key ->> 'name', _key ->> 'algorithm',
        decode(_key ->> 'hash', 'hex'), (_key ->> 'owner')::uuid) AS t;
    made := _step = 'new';
    refusal := CASE _step
        WHEN 'mismatch' THEN 'key_mismatch'
        WHEN 'replay' THEN 'key_replay'
        WHEN 'in_progress' THEN 'key_busy'
        WHEN 'retry_later' THEN 'key_busy' END;
END
$$;

-- A key the save made for itself goes with the save that is refused.
CREATE FUNCTION fl_unmake_key(_key jsonb) RETURNS void LANGUAGE sql AS $$
    DELETE FROM fl_key AS k
    WHERE k.kind = _key ->> 'kind' AND k.scope = _key ->> 'scope' AND k.name = _key ->> 'name'
$$;

-- The last step of a save with a key. The row has been locked since the first. A key that was begun before keeps its hash.
CREATE FUNCTION fl_complete_key(
    _key jsonb, _attempt bigint, _operation uuid, _incarnation bigint, _number bigint, _scopes text)
RETURNS void LANGUAGE sql AS $$
    UPDATE fl_key AS k SET
        hash_algorithm = CASE WHEN _key ->> 'attempt' IS NULL THEN _key ->> 'algorithm' ELSE k.hash_algorithm END,
        hash = CASE WHEN _key ->> 'attempt' IS NULL THEN decode(_key ->> 'hash', 'hex') ELSE k.hash END,
        state = 'completed',
        owner = (_key ->> 'owner')::uuid, attempt = _attempt,
        until_at = fl_later(clock_timestamp(), (_key ->> 'until_us')::bigint), class = NULL,
        result = _key ->> 'result', inputs = _key ->> 'inputs',
        operation = _operation, incarnation = _incarnation, number = _number, scopes = _scopes
    WHERE k.kind = _key ->> 'kind' AND k.scope = _key ->> 'scope' AND k.name = _key ->> 'name'
$$;

-- fieldlease: entered
INSERT INTO fl_migration (number, name, checksum)
VALUES (2, 'keys', '\x135636e32e10ee8a59f21247cff511f80385302b90e81f748bd3304ac7100232');
