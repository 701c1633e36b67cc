-- The record is read, not locked: what is compared is as old as the statement (an EXISTS on an unlocked row).
-- instead of:
        SELECT * INTO _e FROM fl_entity AS e WHERE e.type = _type AND e.id = _id FOR NO KEY UPDATE;
        SELECT r.generation INTO rules FROM fl_registry AS r
        WHERE r.type = _type AND (r.generation <> _generation OR clock_timestamp() < r.effective_at);
        answer := CASE
            WHEN _key_refusal
-- this:
        SELECT * INTO _e FROM fl_entity AS e WHERE e.type = _type AND e.id = _id;
        SELECT r.generation INTO rules FROM fl_registry AS r
        WHERE r.type = _type AND (r.generation <> _generation OR clock_timestamp() < r.effective_at);
        answer := CASE
            WHEN _key_refusal
-- instead of:
        WHERE e.type = _type AND e.id = _id AND e.incarnation = _incarnation AND e.deleted_at IS NULL
        FOR NO KEY UPDATE;
-- this:
        WHERE e.type = _type AND e.id = _id AND e.incarnation = _incarnation AND e.deleted_at IS NULL;
