-- How many a CMS saves: the whole record, read and written back, and a version for every save.
-- `truth` is no part of it: it notes, in the same transaction, what each save really replaced.

-- name: schema
CREATE TABLE record (id TEXT PRIMARY KEY, data TEXT NOT NULL, version INTEGER NOT NULL) STRICT;
CREATE TABLE version (id TEXT NOT NULL, number INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (id, number)) STRICT;
CREATE TABLE truth (
    operation TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    number INTEGER NOT NULL,
    replaced TEXT NOT NULL,
    written TEXT NOT NULL
) STRICT;

-- name: create
INSERT INTO record (id, data, version) VALUES (?1, '{}', 0);

-- name: load
SELECT data, version FROM record WHERE id = ?1;

-- name: write
UPDATE record SET data = ?2, version = version + 1 WHERE id = ?1 RETURNING version;

-- name: keep
INSERT INTO version (id, number, data) VALUES (?1, ?2, ?3);

-- name: note
INSERT INTO truth (operation, id, number, replaced, written) VALUES (?1, ?2, ?3, ?4, ?5);

-- name: truth
SELECT operation, number, replaced, written FROM truth WHERE id = ?1 ORDER BY number;
