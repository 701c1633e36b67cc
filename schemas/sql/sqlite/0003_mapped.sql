-- Records in tables of the CMS: who writes, and who wrote past the engine.

-- One row while a transaction of the engine, or one with the guard statement, writes; none is ever committed.
-- Triggers on tables of the CMS look here: SQLite has one writer at a time.
CREATE TABLE fl_pass (
    pass INTEGER PRIMARY KEY CHECK (pass = 1)
) STRICT;

-- Writes to guarded columns that no save and no guard statement stood for, as the printed triggers see them.
CREATE TABLE fl_bypass (
    type     TEXT    NOT NULL, -- the registry's name of the type
    id       TEXT    NOT NULL,
    place    TEXT    NOT NULL, -- table.column
    times    INTEGER NOT NULL DEFAULT 1,
    first_at INTEGER NOT NULL, -- microseconds since 1970
    last_at  INTEGER NOT NULL,
    PRIMARY KEY (type, id, place)
) STRICT, WITHOUT ROWID;
