-- Leases in rows on MariaDB and MySQL. Times are microseconds since 1970 (UTC) on the server's clock.

-- name: line
-- 1 namespace, 2 type, 3 id. One row, without a revision when there is none.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now, line.revision, line.leases
FROM (SELECT 1 AS one) AS one
LEFT JOIN fl_lease AS line ON line.namespace = ? AND line.type = ? AND line.id = ?;

-- name: page
-- 1 namespace, 2 type, 3 type, 4 id of the first, 5 most.
SELECT type, id, revision, leases FROM fl_lease
WHERE namespace = ? AND type >= ? AND (type, id) >= (?, ?) ORDER BY type, id LIMIT ?;

-- name: now
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now;

-- name: write
-- 1 namespace, 2 type, 3 id, 4 revision read, 5 revision written, 6 leases, 7 until, 8 told.
CALL fl_lease_write(?, ?, ?, ?, ?, ?, ?, ?);

-- name: newest
-- The last notice so old that none before it is still to come; 0 without one.
SELECT COALESCE(MAX(notice), 0) FROM fl_lease_notice
WHERE at < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - 5000000;

-- name: told
-- 1 the notice up to which all were heard. Old ones were written so long ago that none before them is still to come.
SELECT notice, told, at < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - 5000000 AS old
FROM fl_lease_notice WHERE notice > ? ORDER BY notice LIMIT 1000;

-- name: sweep
-- 1 microseconds since the last of a row ended.
DELETE FROM fl_lease WHERE until < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - ?;

-- name: sweep_notices
-- 1 microseconds since they were written.
DELETE FROM fl_lease_notice WHERE at < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - ?;
