-- name: make
DROP TABLE IF EXISTS fl_bench;
DROP TABLE IF EXISTS fl_bench_entry;
CREATE TABLE fl_bench (id INTEGER PRIMARY KEY, version INTEGER NOT NULL, data TEXT NOT NULL);
CREATE TABLE fl_bench_entry (id INTEGER NOT NULL, version INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (id, version)) WITHOUT ROWID;

-- name: row
INSERT INTO fl_bench (id, version, data) VALUES (?1, 0, '{}');

-- name: drop
DROP TABLE IF EXISTS fl_bench;
DROP TABLE IF EXISTS fl_bench_entry;

-- name: update
UPDATE fl_bench SET version = version + 1, data = ?3 WHERE id = ?1 AND version = ?2;

-- name: select
SELECT version FROM fl_bench WHERE id = ?1;

-- name: insert
INSERT INTO fl_bench_entry (id, version, data) VALUES (?1, ?2, ?3);
