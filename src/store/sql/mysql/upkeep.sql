-- Calls that take history away.

-- name: prune
-- type or NULL, versions to keep or NULL, ages in microseconds of versions, operations, tombstones or NULL, base window,
-- after this record, at most, dry run.
CALL fl_prune(?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: erase_record
-- type, id, by, reason, dry run.
CALL fl_erase_record(?, ?, ?, ?, ?);

-- name: erase_writer
-- name, kind, by, reason, dry run.
CALL fl_erase_writer(?, ?, ?, ?, ?);
