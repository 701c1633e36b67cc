-- The guard: a CMS that writes its own tables asks, inside its own transaction, whether it may, and leaves the same traces
-- as a save through the engine. `fieldlease sql guard` prints the call for a group.

SET SESSION autocommit = 1;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO';

DELIMITER //

-- One write of one group that the caller makes itself, in the transaction it has open, at any isolation level. Answers
-- one row (answer, version):
--   applied         go on: the version of the scope is `version` now; your COMMIT makes it true, your ROLLBACK takes it back
--   already         this operation took effect before
--   stale           the scope moved: `version` is what it is at; load again
--   fenced          somebody else holds the scope, or your claim has been overtaken
--   gone            the record was deleted
--   stale_registry  other rules are in force: print the statement again
--   bad_change      p_changes names something that is no plain path
--   void            this operation was asked after and given up
-- Nothing is written unless it is `applied`. After an error the caller has to roll back.
--
-- p_version: the version the writer had seen, NULL to compare none. p_fence: the fence of the writer's claim, NULL without
-- one; then nobody may hold the scope. p_changes: [{"path": .., "old": .., "new": ..}], values as JSON, left out where
-- there is none. p_state: for a writer that is an editor, every editor-owned value after the write, {"path": ..}.
CREATE PROCEDURE IF NOT EXISTS fl_guard(
    IN p_operation BINARY(16), IN p_type VARBINARY(64), IN p_id VARBINARY(256), IN p_generation BINARY(32),
    IN p_scope VARBINARY(1536), IN p_version BIGINT, IN p_fence BIGINT, IN p_changes LONGTEXT CHARACTER SET utf8mb4,
    IN p_state LONGTEXT CHARACTER SET utf8mb4, IN p_writer_kind VARBINARY(8),
    IN p_writer_name TEXT CHARACTER SET utf8mb4
)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_answer VARCHAR(16) CHARACTER SET utf8mb4;
    DECLARE v_entity, v_incarnation, v_fence, v_version, v_number, v_many, v_plain BIGINT;
    DECLARE v_holder BINARY(16);
    DECLARE v_changed, v_list, v_scopes LONGTEXT CHARACTER SET utf8mb4;

    SAVEPOINT fl_guard;
    guard: BEGIN
        SELECT COUNT(*), COUNT(DISTINCT IF(w.path REGEXP
                   '^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*(@[A-Za-z0-9_]+=[A-Za-z0-9_-]+([+][A-Za-z0-9_]+=[A-Za-z0-9_-]+)*)?$',
                   w.path, NULL)),
               CONCAT('[', GROUP_CONCAT(CONCAT('[', JSON_QUOTE(w.path), ',', JSON_QUOTE(CONVERT(p_scope USING utf8mb4)), ',',
                   COALESCE(JSON_QUOTE(CONVERT(w.before_it USING utf8mb4)), 'null'), ',', COALESCE(JSON_QUOTE(CONVERT(w.after_it USING utf8mb4)), 'null'), ',null]')
                   ORDER BY w.place), ']')
        INTO v_many, v_plain, v_changed
        FROM (
            SELECT c.place, c.path, JSON_EXTRACT(p_changes, CONCAT('$[', c.place - 1, '].old')) AS before_it,
                   JSON_EXTRACT(p_changes, CONCAT('$[', c.place - 1, '].new')) AS after_it
            FROM JSON_TABLE(p_changes, '$[*]' COLUMNS (
                     place FOR ORDINALITY, path VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.path')) AS c) AS w;
        -- A list that the server cut at group_concat_max_len is told, never applied in part.
        IF v_many = 0 OR v_many <> v_plain OR NOT JSON_VALID(v_changed) OR (p_writer_kind = 'editor') <> (p_state IS NOT NULL) THEN
            SET v_answer = 'bad_change';
            LEAVE guard;
        END IF;
        SELECT entity, incarnation, fence INTO v_entity, v_incarnation, v_fence
        FROM fl_entity WHERE type = p_type AND id = p_id FOR UPDATE;
        IF v_entity IS NULL THEN
            -- First contact: the CMS has the record, and nothing is known of it here.
            INSERT INTO fl_entity (type, id, incarnation) VALUES (p_type, p_id, 1)
            ON DUPLICATE KEY UPDATE incarnation = fl_entity.incarnation;
            SELECT entity, incarnation, fence INTO v_entity, v_incarnation, v_fence
            FROM fl_entity WHERE type = p_type AND id = p_id FOR UPDATE;
        END IF;
        SELECT version, holder INTO v_version, v_holder
        FROM fl_scope WHERE entity = v_entity AND scope = p_scope FOR UPDATE;
        IF p_fence IS NOT NULL AND v_holder IS NULL THEN
            -- Its claim was broken, or there never was one.
            SET v_answer = 'fenced';
            LEAVE guard;
        END IF;
        SET v_scopes = JSON_ARRAY(JSON_ARRAY(CONVERT(p_scope USING utf8mb4),
            CASE WHEN p_fence IS NOT NULL THEN 'claimed' WHEN p_version IS NULL THEN 'unread' ELSE 'version' END, 1,
            COALESCE(p_version, v_version, 0), p_fence, HEX(v_holder)));
        CALL fl_apply(p_operation, p_type, p_id, 'update', v_incarnation, p_generation, v_fence, p_state IS NOT NULL,
                      p_writer_kind, p_writer_name, NULL, '{"waited_ms":0,"held_ms":0,"retries":0}', p_state, NULL,
                      v_scopes, NULL, NULL, NULL, NULL, NULL, NULL, NULL, v_changed, NULL, NULL, NULL,
                      v_answer, v_incarnation, v_number, v_list);
    END guard;
    IF v_answer = 'applied' THEN
        -- For the triggers that `fieldlease sql trigger` prints: until the caller sets it to NULL.
        SET @fl_pass = 1;
    ELSE
        ROLLBACK TO SAVEPOINT fl_guard;
    END IF;
    RELEASE SAVEPOINT fl_guard;
    SELECT v_answer AS answer, COALESCE((
        SELECT g.version FROM fl_scope AS g JOIN fl_entity AS e ON e.entity = g.entity
        WHERE e.type = p_type AND e.id = p_id AND g.scope = p_scope LOCK IN SHARE MODE), 0) AS version;
END //

DELIMITER ;

-- fieldlease: entered
INSERT INTO fl_migration (number, name, checksum, applied_at)
VALUES (8, 'guard', UNHEX('bb65f4945633e7d13b024457452ea0708295deca5c03bf363a20de89e7d6ccb2'),
        TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)));
