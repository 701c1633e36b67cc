-- fieldlease on SQLite: every table of ours begins with fl_.
-- Times are microseconds since 1970 (UTC) on the clock of the process that wrote them.
-- Fences, versions and numbers only ever rise. Tokens, operation ids and hashes are blobs.

-- The files of this folder that were applied, in order. A file that was applied never changes again.
CREATE TABLE fl_migration (
    number     INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    checksum   BLOB    NOT NULL, -- SHA-256 of the file
    applied_at INTEGER NOT NULL
) STRICT;

-- Numbers about the file itself.
CREATE TABLE fl_meta (
    name  TEXT    PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per record that was ever created. Deleting keeps the row: a re-created id never meets an old number.
CREATE TABLE fl_entity (
    entity      INTEGER PRIMARY KEY,
    type        TEXT    NOT NULL,              -- the registry's name of the type
    id          TEXT    NOT NULL,              -- 0 to 256 bytes of UTF-8, NUL included
    incarnation INTEGER NOT NULL,              -- counts creations of the id, from 1
    deleted_at  INTEGER,                       -- NULL while it exists
    number      INTEGER NOT NULL DEFAULT 0,    -- number of the newest version
    fence       INTEGER NOT NULL DEFAULT 0,    -- raised by a whole-entity claim and by deleting
    data        TEXT    NOT NULL DEFAULT '{}', -- the record: one flat JSON object, path -> leaf
    UNIQUE (type, id)
) STRICT;

-- One row per scope (a group of fields of one record, with a value per axis the group is split by).
CREATE TABLE fl_scope (
    entity  INTEGER NOT NULL REFERENCES fl_entity,
    scope   TEXT    NOT NULL,           -- media, or translation[locale=de]
    version INTEGER NOT NULL DEFAULT 0, -- rises by one per save that changed something in the scope
    fence   INTEGER NOT NULL DEFAULT 0, -- rises by one per claim, break and delete
    holder  BLOB,                       -- token of the last claim. It stays after a release; a break clears it
    PRIMARY KEY (entity, scope)
) STRICT, WITHOUT ROWID;

-- Where the present value of a unit comes from.
CREATE TABLE fl_stamp (
    entity       INTEGER NOT NULL REFERENCES fl_entity,
    path         TEXT    NOT NULL,
    scope        TEXT    NOT NULL, -- the scope the path belonged to at that save
    version      INTEGER NOT NULL, -- that scope's version after the save
    operation    BLOB    NOT NULL,
    writer_kind  TEXT    NOT NULL, -- editor or worker
    writer_name  TEXT    NOT NULL,
    on_behalf_of TEXT,
    at           INTEGER NOT NULL,
    PRIMARY KEY (entity, path)
) STRICT, WITHOUT ROWID;

-- One row per save. An editor's save has a number and a row in fl_version; a worker's save has neither.
CREATE TABLE fl_operation (
    save         INTEGER PRIMARY KEY, -- rises in the order of commits
    operation    BLOB    NOT NULL UNIQUE,
    entity       INTEGER NOT NULL REFERENCES fl_entity,
    incarnation  INTEGER NOT NULL,    -- after the save
    number       INTEGER,
    lifecycle    TEXT    NOT NULL,    -- update, create or delete
    writer_kind  TEXT    NOT NULL,
    writer_name  TEXT    NOT NULL,
    on_behalf_of TEXT,
    at           INTEGER NOT NULL,
    generation   BLOB    NOT NULL,    -- hash of the rules it was decided by
    scopes       TEXT    NOT NULL,    -- JSON: scope -> {"before", "after", "fence"}
    detail       TEXT    NOT NULL     -- JSON: job, waited_ms, held_ms, retries, left_out, reason
) STRICT;

CREATE INDEX fl_operation_entity ON fl_operation (entity, save);

-- The units one save changed, with their values before and after. NULL is absent; JSON null is the text null.
CREATE TABLE fl_change (
    save     INTEGER NOT NULL REFERENCES fl_operation,
    position INTEGER NOT NULL,
    entity   INTEGER NOT NULL,
    path     TEXT    NOT NULL,
    scope    TEXT    NOT NULL,
    version  INTEGER NOT NULL, -- the scope's version after the save
    old      TEXT,
    new      TEXT,
    strategy TEXT,             -- what decided a shared unit
    PRIMARY KEY (save, position)
) STRICT, WITHOUT ROWID;

-- The value a unit had when its scope stood at version v: `old` of the first change with version > v.
CREATE UNIQUE INDEX fl_change_path ON fl_change (entity, path, scope, version);

-- What an editor's save leaves: every editor-owned value after it.
CREATE TABLE fl_version (
    save   INTEGER PRIMARY KEY REFERENCES fl_operation,
    entity INTEGER NOT NULL,
    number INTEGER NOT NULL,  -- 1, 2, 3 .. without gaps
    state  TEXT    NOT NULL,  -- JSON: path -> leaf
    reason TEXT,              -- why a refusal was overridden
    UNIQUE (entity, number)
) STRICT;

-- The rules in force. A save decided by other rules is refused.
CREATE TABLE fl_registry (
    type         TEXT    PRIMARY KEY,
    generation   BLOB    NOT NULL,
    text         TEXT    NOT NULL,
    effective_at INTEGER NOT NULL, -- saves under it are refused before this moment
    previous     BLOB
) STRICT, WITHOUT ROWID;
