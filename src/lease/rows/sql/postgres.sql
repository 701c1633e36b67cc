-- Leases in rows on PostgreSQL. Times are microseconds since 1970 on the server's clock.

-- name: lines
-- $1 namespace, $2 types, $3 ids. One row for each, in this order.
SELECT line.revision, line.leases, fl_micros() AS now
FROM unnest($2::text[], $3::bytea[]) WITH ORDINALITY AS asked (type, id, place)
LEFT JOIN fl_lease line ON line.namespace = $1 AND line.type = asked.type AND line.id = asked.id
ORDER BY asked.place;

-- name: page
-- $1 namespace, $2 type, $3 id of the first, $4 most. At least one row, without a type when there is nothing.
SELECT line.type, line.id, line.revision, line.leases, fl_micros() AS now
FROM (SELECT 1) AS one
LEFT JOIN LATERAL (
    SELECT type, id, revision, leases FROM fl_lease
    WHERE namespace = $1 AND (type, id) >= ($2, $3) ORDER BY type, id LIMIT $4
) AS line ON true
ORDER BY line.type, line.id;

-- name: write
-- $1 namespace; arrays: $2 types, $3 ids, $4 revisions read, $5 revisions written, $6 leases, $7 until, $8 told.
SELECT fl_lease_write($1, $2, $3, $4, $5, $6, $7, $8);

-- name: newest
-- The last one so old that none before it is still to come; 0 without one.
SELECT coalesce(max(notice), 0) FROM fl_lease_notice WHERE at < fl_micros() - 5000000;

-- name: told
-- $1 the notice up to which all were heard. Old ones were written so long ago that none before them is still to come.
SELECT notice, told, at < fl_micros() - 5000000 AS old FROM fl_lease_notice WHERE notice > $1 ORDER BY notice LIMIT 1000;

-- name: sweep
-- $1 microseconds since the last of a row ended.
DELETE FROM fl_lease WHERE until < fl_micros() - $1;

-- name: sweep_notices
-- $1 microseconds since they were written.
DELETE FROM fl_lease_notice WHERE at < fl_micros() - $1;

-- name: listen
LISTEN fl_lease;

-- name: alive
-- Whether a connection that only listens still lives.
SELECT 1;
