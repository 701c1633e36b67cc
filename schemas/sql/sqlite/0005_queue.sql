-- Saves that wait for a lease, and what others are to be told.

-- One row per save that waits. It goes in the transaction of its effect, or with the event that says why there is none.
CREATE TABLE fl_queue (
    place        INTEGER PRIMARY KEY AUTOINCREMENT, -- the order in which they came
    operation    BLOB    NOT NULL UNIQUE,           -- the name its effect will have in the history
    type         TEXT    NOT NULL,
    id           TEXT    NOT NULL,
    writer_kind  TEXT    NOT NULL,
    writer_name  TEXT    NOT NULL,
    on_behalf_of TEXT,
    scopes       TEXT    NOT NULL,                  -- JSON list: what it was waiting for when it came
    body         TEXT    NOT NULL,                  -- JSON: what is asked for
    at           INTEGER NOT NULL
) STRICT;

-- The scopes of `fl_queue.scopes`, one row each: who is first where.
CREATE TABLE fl_queue_scope (
    type  TEXT    NOT NULL,
    id    TEXT    NOT NULL,
    scope TEXT    NOT NULL,
    place INTEGER NOT NULL REFERENCES fl_queue ON DELETE CASCADE,
    PRIMARY KEY (type, id, scope, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX fl_queue_scope_place ON fl_queue_scope (place);

-- Events, written in the transaction they tell of, in the order of commits.
CREATE TABLE fl_outbox (
    event     INTEGER PRIMARY KEY AUTOINCREMENT,
    type      TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    kind      TEXT    NOT NULL, -- requeue, queue_refused, queue_unchanged, queue_cancelled
    operation BLOB    NOT NULL, -- the save it comes from
    body      TEXT    NOT NULL, -- JSON
    at        INTEGER NOT NULL
) STRICT;

CREATE INDEX fl_outbox_entity ON fl_outbox (type, id);

-- How far a named reader has come.
CREATE TABLE fl_outbox_reader (
    reader TEXT    PRIMARY KEY,
    event  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
