-- History that goes: what was pruned, and what was erased.

-- Changes of this scope up to this version may be gone: what a unit was before is not known any more.
ALTER TABLE fl_scope ADD COLUMN pruned INTEGER NOT NULL DEFAULT 0;

-- A save stays as long as a key answers with it.
CREATE INDEX fl_key_operation ON fl_key (operation) WHERE operation IS NOT NULL;

-- That something was erased, when, by whom and why; never what it was.
CREATE TABLE fl_erasure (
    erasure INTEGER PRIMARY KEY,
    what    TEXT    NOT NULL, -- record or writer
    type    TEXT,             -- of a record
    id      TEXT,             -- of a record, until its tombstone is pruned
    saves   INTEGER NOT NULL, -- how many saves lost their values or their writer's name
    by_name TEXT    NOT NULL,
    reason  TEXT    NOT NULL,
    at      INTEGER NOT NULL
) STRICT;
