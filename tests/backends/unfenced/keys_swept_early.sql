-- A sweep that takes every row whose time has come.

-- name: sweep_keys
DELETE FROM fl_key WHERE rowid IN (
    SELECT rowid FROM fl_key
    WHERE until_at < ?1 AND ?2 IS NOT NULL
    ORDER BY until_at LIMIT ?3);
