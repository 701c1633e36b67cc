-- Records in tables of the CMS: how an entity row follows the CMS's own row, and what the database has.

-- name: meet
-- type, id. The CMS has the row. One we never saw is made; one that was deleted here is another incarnation.
INSERT INTO fl_entity (type, id, incarnation) VALUES (?, ?, 1)
ON DUPLICATE KEY UPDATE incarnation = IF(deleted_at IS NULL, incarnation, incarnation + 1), deleted_at = NULL;

-- name: miss
-- type, id. The CMS has no such row any more: whoever held a scope does no longer.
UPDATE fl_entity AS e LEFT JOIN fl_scope AS s ON s.entity = e.entity
SET e.deleted_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
    s.fence = s.fence + 1, s.holder = NULL
WHERE e.type = ? AND e.id = ? AND e.deleted_at IS NULL;

-- name: forget
-- type, id. No value of a missing record has a stamp.
DELETE t FROM fl_stamp AS t JOIN fl_entity AS e ON e.entity = t.entity
WHERE e.type = ? AND e.id = ? AND e.deleted_at IS NOT NULL;

-- name: now
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now;

-- name: table_columns
-- table, type, column, its type, nullable, default or own counter, generated, known to be JSON.
SELECT c.TABLE_NAME, t.TABLE_TYPE <> 'BASE TABLE', c.COLUMN_NAME, c.COLUMN_TYPE, c.IS_NULLABLE = 'YES',
       c.COLUMN_DEFAULT IS NOT NULL OR c.EXTRA LIKE '%auto_increment%', c.EXTRA LIKE '%GENERATED%'
FROM information_schema.COLUMNS AS c
JOIN information_schema.TABLES AS t ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME
WHERE c.TABLE_SCHEMA = DATABASE()
ORDER BY c.TABLE_NAME, c.ORDINAL_POSITION;

-- name: table_keys
-- table, key, column; an index over part of a column counts for nothing.
SELECT TABLE_NAME, INDEX_NAME, IF(SUB_PART IS NULL, COLUMN_NAME, '')
FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = DATABASE() AND NON_UNIQUE = 0
ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX;

-- name: table_checks
-- table, condition.
SELECT t.TABLE_NAME, c.CHECK_CLAUSE
FROM information_schema.CHECK_CONSTRAINTS AS c
JOIN information_schema.TABLE_CONSTRAINTS AS t
  ON t.CONSTRAINT_SCHEMA = c.CONSTRAINT_SCHEMA AND t.CONSTRAINT_NAME = c.CONSTRAINT_NAME AND t.TABLE_NAME = c.TABLE_NAME
WHERE t.TABLE_SCHEMA = DATABASE();

-- name: table_triggers
-- table, trigger, what it does.
SELECT EVENT_OBJECT_TABLE, TRIGGER_NAME, ACTION_STATEMENT
FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE();
