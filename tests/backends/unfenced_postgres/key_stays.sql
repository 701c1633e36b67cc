-- A save that is refused leaves the key it made: repeats find it in use (an empty link of a chain of statements).
-- instead of:
    DELETE FROM fl_key AS k
    WHERE k.kind = _key ->> 'kind' AND k.scope = _key ->> 'scope' AND k.name = _key ->> 'name'
-- this:
    UPDATE fl_key AS k SET state = 'completed', result = '' WHERE k.kind = _key ->> 'kind' AND k.scope = _key ->> 'scope' AND k.name = _key ->> 'name'
