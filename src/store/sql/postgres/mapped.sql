-- Records in tables of the CMS: how an entity row follows the CMS's own row, and what the database has.

-- name: meet
-- $1 type, $2 id. The CMS has the row. One we never saw is made; one that was deleted here is another incarnation.
INSERT INTO fl_entity AS e (type, id, incarnation) VALUES ($1, $2, 1)
ON CONFLICT (type, id) DO UPDATE SET incarnation = e.incarnation + 1, deleted_at = NULL
WHERE e.deleted_at IS NOT NULL;

-- name: miss
-- $1 type, $2 id. The CMS has no such row any more: whoever held a scope does no longer, and no value has a stamp.
WITH e AS (
    UPDATE fl_entity AS e SET deleted_at = clock_timestamp()
    WHERE e.type = $1 AND e.id = $2 AND e.deleted_at IS NULL
    RETURNING e.entity)
UPDATE fl_scope AS s SET fence = s.fence + 1, holder = NULL, stamps = '{}'
FROM e WHERE s.entity = e.entity;

-- name: let_pass
-- The triggers on tables of the CMS look at this; it ends with the transaction.
SELECT set_config('fieldlease.pass', '1', true);

-- name: now
SELECT clock_timestamp();

-- name: table_columns
-- Schema, table, view, column, type, nullable, default or own counter, generated, words of an enumeration.
SELECT n.nspname::text, c.relname::text, c.relkind NOT IN ('r', 'p'), a.attname::text,
       format_type(a.atttypid, a.atttypmod), NOT a.attnotnull,
       a.atthasdef AND a.attgenerated = '' OR a.attidentity <> '', a.attgenerated <> '' OR a.attidentity = 'a',
       array(SELECT e.enumlabel::text FROM pg_enum AS e WHERE e.enumtypid = a.atttypid ORDER BY e.enumsortorder),
       pg_table_is_visible(c.oid)
FROM pg_attribute AS a
JOIN pg_class AS c ON c.oid = a.attrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0 AND NOT a.attisdropped
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_toast%'
ORDER BY NOT pg_table_is_visible(c.oid), n.nspname, c.relname, a.attnum;

-- name: table_keys
-- Schema, table, columns of a unique index over whole columns and all rows.
SELECT n.nspname::text, c.relname::text,
       array(SELECT a.attname::text FROM unnest(i.indkey) AS k (attnum)
             JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.attnum)
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indisvalid
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_toast%';

-- name: table_triggers
-- Schema, table, trigger, what its function does.
SELECT n.nspname::text, c.relname::text, t.tgname::text, p.prosrc
FROM pg_trigger AS t
JOIN pg_class AS c ON c.oid = t.tgrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_proc AS p ON p.oid = t.tgfoid
WHERE NOT t.tgisinternal AND t.tgtype & 3 = 3;
