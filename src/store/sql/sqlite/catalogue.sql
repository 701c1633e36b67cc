-- What this file has: tables of the CMS, read when an engine starts.

-- name: tables
-- Names of all tables and views.
SELECT name, type, coalesce(sql, '') FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name;

-- name: table_columns
-- ?1 table. hidden 2 and 3 are generated columns.
SELECT name, type, "notnull", dflt_value IS NOT NULL, pk, hidden FROM pragma_table_xinfo(?1);

-- name: table_keys
-- ?1 table. Columns of its unique indexes; partial ones and those of expressions do not count.
SELECT list.name, info.name
FROM pragma_index_list(?1) AS list, pragma_index_info(list.name) AS info
WHERE list."unique" = 1 AND list.partial = 0
ORDER BY list.name, info.seqno;

-- name: table_triggers
-- ?1 table.
SELECT name, coalesce(sql, '') FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1;

-- name: let_pass
-- A writing transaction is alone: whatever it writes while this row is there, the engine writes.
INSERT INTO fl_pass (pass) VALUES (1) ON CONFLICT (pass) DO NOTHING;

-- name: end_pass
-- Before the transaction ends.
DELETE FROM fl_pass;
