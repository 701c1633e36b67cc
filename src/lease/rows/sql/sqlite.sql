-- Leases in rows on SQLite. Times are microseconds since 1970 of the process that asks: the machine's clock.

-- name: schema
-- Applied whenever the file is opened; the tables may stand beside those of the record store.
CREATE TABLE IF NOT EXISTS fl_lease (
    namespace TEXT    NOT NULL, -- who shares these leases
    type      TEXT    NOT NULL, -- the registry's name of the type
    id        TEXT    NOT NULL, -- of the record
    revision  INTEGER NOT NULL, -- random, another one with every write
    leases    TEXT    NOT NULL, -- JSON: who holds what, who waits
    until     INTEGER NOT NULL, -- when the last of it ends
    PRIMARY KEY (namespace, type, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS fl_lease_until ON fl_lease (until);
CREATE TABLE IF NOT EXISTS fl_lease_notice (
    notice INTEGER PRIMARY KEY AUTOINCREMENT,
    told   TEXT    NOT NULL,    -- who writes, then what happened to which token
    at     INTEGER NOT NULL
) STRICT;

-- name: line
-- ?1 namespace, ?2 type, ?3 id.
SELECT revision, leases FROM fl_lease WHERE namespace = ?1 AND type = ?2 AND id = ?3;

-- name: page
-- ?1 namespace, ?2 type, ?3 id of the first, ?4 most.
SELECT type, id, revision, leases FROM fl_lease
WHERE namespace = ?1 AND (type, id) >= (?2, ?3) ORDER BY type, id LIMIT ?4;

-- name: insert
-- ?1 namespace, ?2 type, ?3 id, ?4 revision, ?5 leases, ?6 until. Nothing when somebody was faster.
INSERT INTO fl_lease (namespace, type, id, revision, leases, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO NOTHING;

-- name: update
-- ?1 namespace, ?2 type, ?3 id, ?4 revision, ?5 leases, ?6 until, ?7 revision it was read with.
UPDATE fl_lease SET revision = ?4, leases = ?5, until = ?6
WHERE namespace = ?1 AND type = ?2 AND id = ?3 AND revision = ?7;

-- name: delete
-- ?1 namespace, ?2 type, ?3 id, ?4 revision it was read with.
DELETE FROM fl_lease WHERE namespace = ?1 AND type = ?2 AND id = ?3 AND revision = ?4;

-- name: tell
-- ?1 told, ?2 at.
INSERT INTO fl_lease_notice (told, at) VALUES (?1, ?2);

-- name: newest
-- The last notice there ever was; 0 before the first.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'fl_lease_notice'), 0);

-- name: told
-- ?1 the last one heard.
SELECT notice, told FROM fl_lease_notice WHERE notice > ?1 ORDER BY notice LIMIT 1000;

-- name: sweep
-- ?1 before this moment.
DELETE FROM fl_lease WHERE until < ?1;

-- name: sweep_notices
-- ?1 before this moment.
DELETE FROM fl_lease_notice WHERE at < ?1;
