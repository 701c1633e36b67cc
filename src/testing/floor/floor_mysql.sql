-- name: make_row
CREATE TABLE fl_bench (id bigint PRIMARY KEY, version bigint NOT NULL, data text NOT NULL) ENGINE = InnoDB;

-- name: make_entry
CREATE TABLE fl_bench_entry (id bigint NOT NULL, version bigint NOT NULL, data text NOT NULL, PRIMARY KEY (id, version)) ENGINE = InnoDB;

-- name: row
INSERT INTO fl_bench (id, version, data) VALUES (?, 0, '{}');

-- name: drop
DROP TABLE IF EXISTS fl_bench, fl_bench_entry;

-- name: update
UPDATE fl_bench SET version = version + 1, data = ? WHERE id = ? AND version = ?;

-- name: select
SELECT version FROM fl_bench WHERE id = ?;

-- name: insert
INSERT INTO fl_bench_entry (id, version, data) VALUES (?, ?, ?);
