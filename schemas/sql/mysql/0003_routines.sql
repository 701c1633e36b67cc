-- Procedures: one call, one round trip, one transaction each. Whatever they decide on is read by locking reads, in one
-- order everywhere: key, rules, entity, scopes as listed, then the rest; so that no save waits for another in a circle.
--
-- They run with the rights of whoever calls (SQL SECURITY INVOKER). The isolation level is pinned inside: READ COMMITTED
-- for what writes, one snapshot for what only reads. An error undoes everything and is passed on.
-- Lists come as JSON arrays of arrays; NULL is the empty list. Numbers of affected rows are never looked at: drivers and
-- proxies count them in different ways.
--
-- The time: UTC_TIMESTAMP() and NOW() stand still during a call, SYSDATE() goes on. Their difference does not depend on the
-- time zone of the session.

SET SESSION autocommit = 1;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO';
SET NAMES utf8mb4 COLLATE utf8mb4_bin;

DELIMITER //

-- The record as of one moment. First set: one row, or none when the id was never created. Then scopes, stamps, leaves.
CREATE PROCEDURE IF NOT EXISTS fl_load(IN p_type VARBINARY(64), IN p_id VARBINARY(256))
SQL SECURITY INVOKER READS SQL DATA
BEGIN
    DECLARE v_entity, v_incarnation, v_deleted, v_number, v_fence BIGINT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
    START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY;
    SELECT entity, incarnation, deleted_at, number, fence
    INTO v_entity, v_incarnation, v_deleted, v_number, v_fence
    FROM fl_entity WHERE type = p_type AND id = p_id;
    IF v_entity IS NOT NULL THEN
        SELECT 'found' AS outcome, v_incarnation AS incarnation, v_deleted AS deleted_at, v_number AS number,
               v_fence AS fence,
               TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)) AS now;
        SELECT scope, version, fence FROM fl_scope WHERE entity = v_entity;
        SELECT path, scope, version, operation, at, writer_kind, writer_name, on_behalf_of
        FROM fl_stamp WHERE entity = v_entity;
        SELECT path, value FROM fl_leaf WHERE entity = v_entity;
    END IF;
    COMMIT;
END //

-- Raises the fence of each scope, writes the holder, and answers the record read after that: it sees the former holder's
-- last commit. Versions and stamps are read before the leaves: those of other scopes may be older than the data, never
-- newer. The sets of `fl_load`; a refusal is one row with its outcome and the rules in force.
-- p_scopes: ["scope", ..] in the order scopes are locked in.
CREATE PROCEDURE IF NOT EXISTS fl_claim(
    IN p_type VARBINARY(64), IN p_id VARBINARY(256), IN p_generation BINARY(32), IN p_holder BINARY(16),
    IN p_whole BOOLEAN, IN p_scopes LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER MODIFIES SQL DATA
claim: BEGIN
    DECLARE v_rules BINARY(32);
    DECLARE v_effective, v_entity, v_incarnation, v_deleted, v_number, v_fence, v_now BIGINT;
    DECLARE v_outcome VARCHAR(16) CHARACTER SET utf8mb4 DEFAULT 'found';
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT generation, effective_at INTO v_rules, v_effective
    FROM fl_registry WHERE type = p_type LOCK IN SHARE MODE;
    IF p_whole THEN
        SELECT entity, incarnation, deleted_at, number, fence
        INTO v_entity, v_incarnation, v_deleted, v_number, v_fence
        FROM fl_entity WHERE type = p_type AND id = p_id FOR UPDATE;
    ELSE
        SELECT entity, incarnation, deleted_at, number, fence
        INTO v_entity, v_incarnation, v_deleted, v_number, v_fence
        FROM fl_entity WHERE type = p_type AND id = p_id LOCK IN SHARE MODE;
    END IF;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6));
    IF v_rules IS NOT NULL AND (v_rules <> p_generation OR v_now < v_effective) THEN
        SET v_outcome = 'stale_registry';
    ELSEIF v_entity IS NULL THEN
        SET v_outcome = 'not_found';
    ELSEIF v_deleted IS NOT NULL THEN
        SET v_outcome = 'gone';
    END IF;
    IF v_outcome <> 'found' THEN
        ROLLBACK;
        SELECT v_outcome AS outcome, v_rules AS rules;
        LEAVE claim;
    END IF;

    IF p_whole THEN
        SET v_fence = v_fence + 1;
        UPDATE fl_entity SET fence = v_fence WHERE entity = v_entity;
    END IF;
    BEGIN
        DECLARE v_place INT DEFAULT 0;
        DECLARE v_listed INT DEFAULT JSON_LENGTH(p_scopes);

        WHILE v_place < v_listed DO
            INSERT INTO fl_scope (entity, scope, version, fence, holder)
            VALUES (v_entity, JSON_UNQUOTE(JSON_EXTRACT(p_scopes, CONCAT('$[', v_place, ']'))), 0, 1, p_holder)
            ON DUPLICATE KEY UPDATE fence = fl_scope.fence + 1, holder = VALUES(holder);
            SET v_place = v_place + 1;
        END WHILE;
    END;

    SELECT v_outcome AS outcome, v_incarnation AS incarnation, v_deleted AS deleted_at, v_number AS number,
           v_fence AS fence, v_now AS now;
    SELECT scope, version, fence FROM fl_scope WHERE entity = v_entity;
    SELECT path, scope, version, operation, at, writer_kind, writer_name, on_behalf_of
    FROM fl_stamp WHERE entity = v_entity;
    SELECT path, value FROM fl_leaf WHERE entity = v_entity;
    COMMIT;
END //

-- A claim by nobody; answers the new fence, 0 for an id that was never created.
CREATE PROCEDURE IF NOT EXISTS fl_break(IN p_type VARBINARY(64), IN p_id VARBINARY(256), IN p_scope VARBINARY(1536))
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_entity, v_fence BIGINT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT entity INTO v_entity FROM fl_entity WHERE type = p_type AND id = p_id LOCK IN SHARE MODE;
    IF v_entity IS NOT NULL THEN
        INSERT INTO fl_scope (entity, scope, version, fence, holder) VALUES (v_entity, p_scope, 0, 1, NULL)
        ON DUPLICATE KEY UPDATE fence = fl_scope.fence + 1, holder = NULL;
        SELECT fence INTO v_fence FROM fl_scope WHERE entity = v_entity AND scope = p_scope;
    END IF;
    COMMIT;
    SELECT COALESCE(v_fence, 0) AS fence;
END //

-- One save inside a transaction that the caller began, and ends by o_outcome: all of it is there after `applied`; after
-- anything else the caller undoes what this call wrote.
--
-- p_exclusive: whether it needs the entity for itself (a version, a creation, a deletion; inputs, items).
-- p_scopes:   [scope, how, by, version, fence, holder] with how = version, claimed or unread; in lock order
-- p_inputs:   [path, operation or null]            p_patterns: regular expressions over paths
-- p_parents, p_removed: [path of the item's keys, LIKE over the axes or null]
-- p_unset:    path                                  p_set: [path, value, path of the keys, axes]
-- p_nodes:    paths of the objects above p_set      p_changed: [path, scope, old, new, strategy]
-- p_key:      kind, scope, name, algorithm, hash, how (claimed or once), owner, attempt, result, retention_us, inputs
-- p_queued:   the waiting save this is, or null     p_events: [kind, body]; then p_exclusive, so that a record's events
--             are written in the order of its commits
-- o_list:     what the outcome is about: scopes, paths, the steps of the scopes, or the rules in force.
CREATE PROCEDURE IF NOT EXISTS fl_apply(
    IN p_operation BINARY(16), IN p_type VARBINARY(64), IN p_id VARBINARY(256), IN p_lifecycle VARBINARY(8),
    IN p_incarnation BIGINT, IN p_generation BINARY(32), IN p_entity_fence BIGINT, IN p_exclusive BOOLEAN,
    IN p_writer_kind VARBINARY(8), IN p_writer_name TEXT CHARACTER SET utf8mb4,
    IN p_on_behalf_of TEXT CHARACTER SET utf8mb4, IN p_detail LONGTEXT CHARACTER SET utf8mb4,
    IN p_state LONGTEXT CHARACTER SET utf8mb4, IN p_reason TEXT CHARACTER SET utf8mb4,
    IN p_scopes LONGTEXT CHARACTER SET utf8mb4, IN p_inputs LONGTEXT CHARACTER SET utf8mb4,
    IN p_patterns LONGTEXT CHARACTER SET utf8mb4, IN p_parents LONGTEXT CHARACTER SET utf8mb4,
    IN p_removed LONGTEXT CHARACTER SET utf8mb4, IN p_unset LONGTEXT CHARACTER SET utf8mb4,
    IN p_set LONGTEXT CHARACTER SET utf8mb4, IN p_nodes LONGTEXT CHARACTER SET utf8mb4,
    IN p_changed LONGTEXT CHARACTER SET utf8mb4, IN p_key LONGTEXT CHARACTER SET utf8mb4,
    IN p_queued BINARY(16), IN p_events LONGTEXT CHARACTER SET utf8mb4,
    OUT o_outcome VARCHAR(16) CHARACTER SET utf8mb4, OUT o_incarnation BIGINT, OUT o_number BIGINT,
    OUT o_list LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_rules BINARY(32);
    DECLARE v_effective, v_entity, v_incarnation, v_deleted, v_number, v_fence, v_now, v_save, v_place BIGINT;
    -- How many scopes it writes or compares, and the version of the last of them after the save.
    DECLARE v_scopes, v_count INT DEFAULT 0;
    DECLARE v_after BIGINT;
    DECLARE v_list, v_fenced, v_stale LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_steps LONGTEXT CHARACTER SET utf8mb4 DEFAULT '';
    DECLARE v_again BOOLEAN DEFAULT FALSE;
    DECLARE v_kind VARBINARY(8);
    DECLARE v_key_scope, v_name VARBINARY(255);
    DECLARE v_algorithm, v_hash, v_how, v_owner VARCHAR(64) CHARACTER SET utf8mb4;
    DECLARE v_attempt, v_retention, v_wait BIGINT;
    DECLARE v_result, v_inputs LONGTEXT CHARACTER SET utf8mb4;

    SET o_outcome = NULL, o_incarnation = NULL, o_number = NULL, o_list = NULL;

    attempt: BEGIN
        -- The key comes first: a repeat is answered what the first call was, whatever has moved since.
        IF p_key IS NOT NULL THEN
            SELECT w.kind, w.scope, w.name, w.algorithm, w.hash, w.how, w.owner, w.attempt, w.result, w.retention, w.inputs
            INTO v_kind, v_key_scope, v_name, v_algorithm, v_hash, v_how, v_owner, v_attempt, v_result, v_retention, v_inputs
            FROM JSON_TABLE(p_key, '$' COLUMNS (
                     kind VARBINARY(8) PATH '$[0]', scope VARBINARY(255) PATH '$[1]', name VARBINARY(255) PATH '$[2]',
                     algorithm VARCHAR(32) CHARACTER SET utf8mb4 PATH '$[3]', hash VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[4]',
                     how VARCHAR(8) CHARACTER SET utf8mb4 PATH '$[5]', owner VARCHAR(32) CHARACTER SET utf8mb4 PATH '$[6]',
                     attempt BIGINT PATH '$[7]', result LONGTEXT CHARACTER SET utf8mb4 PATH '$[8]',
                     retention BIGINT PATH '$[9]', inputs LONGTEXT CHARACTER SET utf8mb4 PATH '$[10]')) AS w;
            IF v_how = 'claimed' THEN
                SELECT COUNT(*) INTO v_count FROM fl_key
                WHERE kind = v_kind AND scope = v_key_scope AND name = v_name
                  AND state = 'pending' AND owner = UNHEX(v_owner) AND attempt = v_attempt
                FOR UPDATE;
                SET o_outcome = IF(v_count = 1, NULL, 'key_lost');
            ELSE
                CALL fl_key_take(v_kind, v_key_scope, v_name, v_algorithm, UNHEX(v_hash), UNHEX(v_owner), 0,
                                 o_outcome, v_attempt, v_wait);
                SET o_list = v_wait;
                SET o_outcome = CASE o_outcome
                    WHEN 'acquired' THEN NULL WHEN 'taken_over' THEN NULL
                    WHEN 'replay' THEN 'key_replay' WHEN 'mismatch' THEN 'key_mismatch'
                    ELSE 'key_busy' END;
            END IF;
            IF o_outcome IS NOT NULL THEN
                LEAVE attempt;
            END IF;
            SET o_list = NULL;
        END IF;

        -- Rules.
        SELECT generation, effective_at INTO v_rules, v_effective
        FROM fl_registry WHERE type = p_type LOCK IN SHARE MODE;
        SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6));
        IF v_rules IS NOT NULL AND (v_rules <> p_generation OR v_now < v_effective) THEN
            SET o_outcome = 'stale_registry', o_list = HEX(v_rules);
            LEAVE attempt;
        END IF;

        -- The entity: shared by saves of different groups.
        IF p_exclusive THEN
            SELECT entity, incarnation, deleted_at, number, fence
            INTO v_entity, v_incarnation, v_deleted, v_number, v_fence
            FROM fl_entity WHERE type = p_type AND id = p_id FOR UPDATE;
        ELSE
            SELECT entity, incarnation, deleted_at, number, fence
            INTO v_entity, v_incarnation, v_deleted, v_number, v_fence
            FROM fl_entity WHERE type = p_type AND id = p_id LOCK IN SHARE MODE;
        END IF;
        IF v_entity IS NULL AND p_lifecycle = 'create' AND p_incarnation = 0 THEN
            -- Whoever creates it first wins; the other one waits here and finds it.
            INSERT INTO fl_entity (type, id, incarnation) VALUES (p_type, p_id, 0)
            ON DUPLICATE KEY UPDATE incarnation = fl_entity.incarnation;
            SELECT entity, incarnation, deleted_at, number, fence
            INTO v_entity, v_incarnation, v_deleted, v_number, v_fence
            FROM fl_entity WHERE type = p_type AND id = p_id FOR UPDATE;
            IF v_incarnation <> 0 AND v_deleted IS NULL THEN
                SET o_outcome = 'exists';
                LEAVE attempt;
            END IF;
        ELSEIF v_entity IS NOT NULL AND p_lifecycle = 'create' AND v_deleted IS NULL THEN
            SET o_outcome = 'exists';
            LEAVE attempt;
        ELSEIF v_entity IS NOT NULL AND p_lifecycle <> 'create' AND v_deleted IS NOT NULL THEN
            SET o_outcome = 'gone';
            LEAVE attempt;
        ELSEIF v_entity IS NULL AND p_lifecycle <> 'create' THEN
            SET o_outcome = 'not_found';
            LEAVE attempt;
        END IF;
        IF v_entity IS NULL OR v_incarnation <> p_incarnation THEN
            SET o_outcome = 'recreated';
            LEAVE attempt;
        END IF;

        -- The scopes: locked one by one in the order of the list, and compared for equality.
        BEGIN
            DECLARE v_scope VARBINARY(1536);
            DECLARE v_expect VARBINARY(8);
            DECLARE v_step, v_there INT;
            DECLARE v_wanted, v_wanted_fence, v_at, v_at_fence BIGINT;
            DECLARE v_wanted_holder VARCHAR(32) CHARACTER SET utf8mb4;
            DECLARE v_at_holder BINARY(16);
            DECLARE v_listed INT DEFAULT JSON_LENGTH(p_scopes);
            DECLARE v_one LONGTEXT CHARACTER SET utf8mb4;

            scopes: WHILE v_scopes < v_listed DO
                SET v_one = JSON_EXTRACT(p_scopes, CONCAT('$[', v_scopes, ']'));
                SET v_scope = JSON_UNQUOTE(JSON_EXTRACT(v_one, '$[0]')), v_expect = JSON_VALUE(v_one, '$[1]'),
                    v_step = JSON_VALUE(v_one, '$[2]'), v_wanted = JSON_VALUE(v_one, '$[3]'),
                    v_wanted_fence = JSON_VALUE(v_one, '$[4]'), v_wanted_holder = JSON_VALUE(v_one, '$[5]');
                SELECT COUNT(*), COALESCE(MAX(version), 0), COALESCE(MAX(fence), 0), MAX(holder)
                INTO v_there, v_at, v_at_fence, v_at_holder
                FROM fl_scope WHERE entity = v_entity AND scope = v_scope FOR UPDATE;
                IF v_there = 0 AND (v_expect = 'unread' OR v_expect = 'version' AND v_wanted = 0) THEN
                    -- A missing row means version 0. Losing this insert is waiting for the winner and comparing again.
                    INSERT INTO fl_scope (entity, scope) VALUES (v_entity, v_scope)
                    ON DUPLICATE KEY UPDATE version = fl_scope.version;
                    SELECT COUNT(*), COALESCE(MAX(version), 0), COALESCE(MAX(fence), 0), MAX(holder)
                    INTO v_there, v_at, v_at_fence, v_at_holder
                    FROM fl_scope WHERE entity = v_entity AND scope = v_scope FOR UPDATE;
                END IF;
                IF CASE v_expect
                       WHEN 'claimed' THEN v_fence <> p_entity_fence OR v_at_fence <> v_wanted_fence
                                           OR NOT (v_at_holder <=> UNHEX(v_wanted_holder))
                       WHEN 'version' THEN v_at_holder IS NOT NULL
                       ELSE FALSE END THEN
                    SET v_fenced = JSON_ARRAY_APPEND(COALESCE(v_fenced, '[]'), '$', CONVERT(v_scope USING utf8mb4));
                ELSEIF v_expect <> 'unread' AND v_at <> v_wanted THEN
                    SET v_stale = JSON_ARRAY_APPEND(COALESCE(v_stale, '[]'), '$', CONVERT(v_scope USING utf8mb4));
                END IF;
                SET v_scopes = v_scopes + 1, v_after = v_at + v_step,
                    v_steps = CONCAT(v_steps, IF(v_scopes = 1, '{', ','), JSON_QUOTE(CONVERT(v_scope USING utf8mb4)),
                        ':{"before":', v_at, ',"after":', v_after,
                        IF(v_wanted_fence IS NULL, '', CONCAT(',"fence":', v_wanted_fence)), '}');
                -- Undone with the rest where another scope refuses.
                IF v_step = 1 THEN
                    UPDATE fl_scope SET version = v_after WHERE entity = v_entity AND scope = v_scope;
                END IF;
            END WHILE;
        END;
        SET v_steps = IF(v_scopes = 0, '{}', CONCAT(v_steps, '}'));
        IF v_fenced IS NOT NULL OR v_stale IS NOT NULL THEN
            SET o_outcome = IF(v_fenced IS NULL, 'stale', 'fenced'), o_list = COALESCE(v_fenced, v_stale);
            LEAVE attempt;
        END IF;

        -- Inputs: by the save that last changed them; and there may be no others by now.
        IF p_inputs IS NOT NULL OR p_patterns IS NOT NULL THEN
            SELECT JSON_ARRAYAGG(CONVERT(w.path USING utf8mb4)) INTO o_list
            FROM JSON_TABLE(COALESCE(p_inputs, '[]'), '$[*]' COLUMNS (
                     path VARBINARY(1024) PATH '$[0]', operation VARCHAR(32) CHARACTER SET utf8mb4 PATH '$[1]')) AS w
            LEFT JOIN fl_stamp AS s ON s.entity = v_entity AND s.path = w.path
            WHERE NOT (s.operation <=> UNHEX(w.operation))
            LOCK IN SHARE MODE;
            IF p_patterns IS NOT NULL THEN
                SELECT JSON_ARRAYAGG(CONVERT(s.path USING utf8mb4)) INTO v_list
                FROM fl_stamp AS s
                JOIN JSON_TABLE(p_patterns, '$[*]' COLUMNS (
                         pattern LONGTEXT CHARACTER SET utf8mb4 PATH '$')) AS w
                  ON CONVERT(s.path USING utf8mb4) COLLATE utf8mb4_bin REGEXP w.pattern COLLATE utf8mb4_bin
                LEFT JOIN JSON_TABLE(COALESCE(p_inputs, '[]'), '$[*]' COLUMNS (path VARBINARY(1024) PATH '$[0]')) AS i
                  ON i.path = s.path
                WHERE s.entity = v_entity AND i.path IS NULL
                LOCK IN SHARE MODE;
                SET o_list = IF(o_list IS NULL OR v_list IS NULL, COALESCE(o_list, v_list), JSON_MERGE_PRESERVE(o_list, v_list));
            END IF;
            IF o_list IS NOT NULL THEN
                SET o_outcome = 'input_moved';
                LEAVE attempt;
            END IF;
        END IF;

        -- Items that must exist: something stands at or below their keys, on their axis values.
        IF p_parents IS NOT NULL THEN
            SELECT JSON_ARRAYAGG(CONVERT(w.item USING utf8mb4)) INTO o_list
            FROM JSON_TABLE(p_parents, '$[*]' COLUMNS (
                     item VARBINARY(1024) PATH '$[0]', path VARBINARY(1024) PATH '$[1]',
                     axes VARBINARY(4096) PATH '$[2]')) AS w
            WHERE NOT EXISTS (
                SELECT 1 FROM fl_leaf AS l
                WHERE l.entity = v_entity
                  AND (l.path = w.path
                       OR l.path >= CONCAT(w.path, '.') AND l.path < CONCAT(w.path, '/')
                       OR l.path >= CONCAT(w.path, '@') AND l.path < CONCAT(w.path, 'A'))
                  AND (w.axes IS NULL OR
                       CONCAT('+', REPLACE(SUBSTRING(REPLACE(REPLACE(REPLACE(l.path, '\\\\', '\\s'), '\\@', '\\a'), '\\+', '\\p'),
                           LOCATE('@', CONCAT(REPLACE(REPLACE(REPLACE(l.path, '\\\\', '\\s'), '\\@', '\\a'), '\\+', '\\p'), '@')) + 1),
                           '+', '++'), '+') LIKE w.axes ESCAPE '!'));
            IF o_list IS NOT NULL THEN
                SET o_outcome = 'parent_gone';
                LEAVE attempt;
            END IF;
        END IF;

        -- The row of a save that waited goes with its effect: of two that make it one finds none.
        IF p_queued IS NOT NULL THEN
            SELECT place INTO v_place FROM fl_queue WHERE operation = p_queued FOR UPDATE;
            IF v_place IS NULL THEN
                SET o_outcome = 'not_queued';
                LEAVE attempt;
            END IF;
        END IF;
        SET o_outcome = 'applied';
    END attempt;

    IF o_outcome <> 'applied' THEN
        -- It may be refused because it took effect before.
        SELECT COUNT(*) INTO v_count FROM fl_operation WHERE operation = p_operation LOCK IN SHARE MODE;
        IF v_count > 0 THEN
            SET o_outcome = 'already', o_list = NULL;
        END IF;
    ELSE
        SET o_incarnation = v_incarnation + (p_lifecycle = 'create');
        SET o_number = IF(p_state IS NULL, NULL, v_number + 1);
        -- Deleting raises every scope of the entity, those the save does not name too; nobody holds one any more.
        IF p_lifecycle = 'delete' THEN
            SELECT JSON_OBJECTAGG(CONVERT(g.scope USING utf8mb4),
                       IF(w.fence IS NULL,
                          JSON_OBJECT('before', g.version - (w.scope IS NOT NULL), 'after', g.version + (w.scope IS NULL)),
                          JSON_OBJECT('before', g.version - 1, 'after', g.version, 'fence', w.fence)))
            INTO o_list
            FROM fl_scope AS g
            LEFT JOIN JSON_TABLE(p_scopes, '$[*]' COLUMNS (
                scope VARBINARY(1536) PATH '$[0]', fence BIGINT PATH '$[4]')) AS w ON w.scope = g.scope
            WHERE g.entity = v_entity
            FOR UPDATE;
            UPDATE fl_scope AS g
            LEFT JOIN JSON_TABLE(p_scopes, '$[*]' COLUMNS (scope VARBINARY(1536) PATH '$[0]')) AS w ON w.scope = g.scope
            SET g.version = g.version + (w.scope IS NULL), g.fence = g.fence + 1, g.holder = NULL
            WHERE g.entity = v_entity;
        ELSE
            SET o_list = v_steps;
        END IF;
        SET o_list = COALESCE(o_list, '{}');

        BEGIN
            DECLARE CONTINUE HANDLER FOR 1062 SET v_again = TRUE;
            INSERT INTO fl_operation (operation, entity, incarnation, number, lifecycle, writer_kind, writer_name,
                                      on_behalf_of, at, generation, scopes, detail)
            VALUES (p_operation, v_entity, o_incarnation, o_number, p_lifecycle, p_writer_kind, p_writer_name,
                    p_on_behalf_of, v_now, p_generation, o_list, p_detail);
        END;
        SET v_save = LAST_INSERT_ID();
        -- A save that waited is made once by its row, and is made under its name however often somebody asked after it.
        IF p_queued IS NULL THEN
            SELECT COUNT(*) INTO v_count FROM fl_void WHERE operation = p_operation LOCK IN SHARE MODE;
        ELSE
            SET v_count = 0;
        END IF;
        IF v_again THEN
            SET o_outcome = 'already', o_list = NULL;
        ELSEIF v_count > 0 THEN
            SET o_outcome = 'void', o_list = NULL;
        END IF;
    END IF;

    IF o_outcome = 'applied' THEN
        IF p_queued IS NOT NULL THEN
            DELETE FROM fl_queue_scope WHERE place = v_place;
            DELETE FROM fl_queue WHERE place = v_place;
        END IF;
        IF p_events IS NOT NULL THEN
            INSERT INTO fl_outbox (type, id, kind, operation, body, at)
            SELECT p_type, p_id, w.kind, p_operation, w.body, v_now
            FROM JSON_TABLE(p_events, '$[*]' COLUMNS (
                     place FOR ORDINALITY, kind VARBINARY(64) PATH '$[0]',
                     body LONGTEXT CHARACTER SET utf8mb4 PATH '$[1]')) AS w
            ORDER BY w.place;
        END IF;
        IF p_key IS NOT NULL THEN
            UPDATE fl_key
            SET state = 'completed', until_at = IF(v_retention > 4611686018427387904, v_retention, v_now + v_retention),
                class = NULL, result = v_result, inputs = v_inputs, operation = p_operation,
                incarnation = o_incarnation, number = o_number, scopes = o_list
            WHERE kind = v_kind AND scope = v_key_scope AND name = v_name;
        END IF;
        IF o_number IS NOT NULL THEN
            INSERT INTO fl_version (save, entity, number, state, reason)
            VALUES (v_save, v_entity, o_number, p_state, p_reason);
        END IF;
        IF p_lifecycle <> 'update' OR o_number IS NOT NULL THEN
            UPDATE fl_entity
            SET number = COALESCE(o_number, v_number), incarnation = o_incarnation,
                deleted_at = IF(p_lifecycle = 'delete', v_now, NULL), fence = v_fence + (p_lifecycle = 'delete')
            WHERE entity = v_entity;
        END IF;
        IF p_changed IS NOT NULL THEN
            CALL fl_write_changes(p_operation, v_entity, v_save, IF(v_scopes = 1, v_after, NULL), p_lifecycle, p_writer_kind,
                                  p_writer_name, p_on_behalf_of, v_now, p_changed);
        END IF;
        IF p_lifecycle = 'delete' THEN
            DELETE FROM fl_leaf WHERE entity = v_entity;
            DELETE FROM fl_stamp WHERE entity = v_entity;
        ELSE
            CALL fl_write_leaves(v_entity, p_removed, p_unset, p_set, p_nodes);
        END IF;
    END IF;
END //

-- What a save leaves behind about each unit: the change and, unless the record is deleted, the stamp. A few are written one
-- by one, many by one statement, which costs as much as several (a temporary table, a join). p_version: the version after the save, where all are of
-- one scope; else NULL.
CREATE PROCEDURE IF NOT EXISTS fl_write_changes(
    IN p_operation BINARY(16), IN p_entity BIGINT, IN p_save BIGINT, IN p_version BIGINT, IN p_lifecycle VARBINARY(8),
    IN p_writer_kind VARBINARY(8), IN p_writer_name TEXT CHARACTER SET utf8mb4,
    IN p_on_behalf_of TEXT CHARACTER SET utf8mb4, IN p_now BIGINT, IN p_changed LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_path VARBINARY(1024);
    DECLARE v_scope, v_last VARBINARY(1536);
    DECLARE v_old, v_new LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_strategy TEXT CHARACTER SET utf8mb4;
    DECLARE v_version BIGINT DEFAULT p_version;
    DECLARE v_place INT DEFAULT 0;
    DECLARE v_listed INT DEFAULT JSON_LENGTH(p_changed);
    DECLARE v_one LONGTEXT CHARACTER SET utf8mb4;

    IF v_listed <= 4 THEN
        WHILE v_place < v_listed DO
            SET v_one = JSON_EXTRACT(p_changed, CONCAT('$[', v_place, ']'));
            SET v_path = JSON_UNQUOTE(JSON_EXTRACT(v_one, '$[0]')), v_scope = JSON_UNQUOTE(JSON_EXTRACT(v_one, '$[1]')),
                v_old = IF(JSON_TYPE(JSON_EXTRACT(v_one, '$[2]')) = 'NULL', NULL, JSON_UNQUOTE(JSON_EXTRACT(v_one, '$[2]'))),
                v_new = IF(JSON_TYPE(JSON_EXTRACT(v_one, '$[3]')) = 'NULL', NULL, JSON_UNQUOTE(JSON_EXTRACT(v_one, '$[3]'))),
                v_strategy = IF(JSON_TYPE(JSON_EXTRACT(v_one, '$[4]')) = 'NULL', NULL, JSON_UNQUOTE(JSON_EXTRACT(v_one, '$[4]')));
            IF p_version IS NULL AND NOT (v_scope <=> v_last) THEN
                SELECT MAX(version) INTO v_version FROM fl_scope
                WHERE entity = p_entity AND scope = v_scope LOCK IN SHARE MODE;
                SET v_last = v_scope;
            END IF;
            INSERT INTO fl_change (save, position, entity, path, scope, version, old, new, strategy)
            VALUES (p_save, v_place, p_entity, v_path, v_scope, v_version, v_old, v_new, v_strategy);
            IF p_lifecycle <> 'delete' THEN
                INSERT INTO fl_stamp (entity, path, scope, version, operation, writer_kind, writer_name, on_behalf_of, at)
                VALUES (p_entity, v_path, v_scope, v_version, p_operation, p_writer_kind, p_writer_name, p_on_behalf_of, p_now)
                ON DUPLICATE KEY UPDATE
                    scope = VALUES(scope), version = VALUES(version), operation = VALUES(operation),
                    writer_kind = VALUES(writer_kind), writer_name = VALUES(writer_name),
                    on_behalf_of = VALUES(on_behalf_of), at = VALUES(at);
            END IF;
            SET v_place = v_place + 1;
        END WHILE;
    ELSEIF p_version IS NOT NULL THEN
        INSERT INTO fl_change (save, position, entity, path, scope, version, old, new, strategy)
        SELECT p_save, w.place - 1, p_entity, w.path, w.scope, p_version, w.old, w.new, w.strategy
        FROM JSON_TABLE(p_changed, '$[*]' COLUMNS (
                 place FOR ORDINALITY, path VARBINARY(1024) PATH '$[0]', scope VARBINARY(1536) PATH '$[1]',
                 old LONGTEXT CHARACTER SET utf8mb4 PATH '$[2]', new LONGTEXT CHARACTER SET utf8mb4 PATH '$[3]',
                 strategy TEXT CHARACTER SET utf8mb4 PATH '$[4]')) AS w;
        IF p_lifecycle <> 'delete' THEN
            INSERT INTO fl_stamp (entity, path, scope, version, operation, writer_kind, writer_name, on_behalf_of, at)
            SELECT p_entity, w.path, w.scope, p_version, p_operation, p_writer_kind, p_writer_name, p_on_behalf_of, p_now
            FROM JSON_TABLE(p_changed, '$[*]' COLUMNS (
                     path VARBINARY(1024) PATH '$[0]', scope VARBINARY(1536) PATH '$[1]')) AS w
            ON DUPLICATE KEY UPDATE
                scope = VALUES(scope), version = VALUES(version), operation = VALUES(operation),
                writer_kind = VALUES(writer_kind), writer_name = VALUES(writer_name),
                on_behalf_of = VALUES(on_behalf_of), at = VALUES(at);
        END IF;
    ELSE
        INSERT INTO fl_change (save, position, entity, path, scope, version, old, new, strategy)
        SELECT p_save, w.place - 1, p_entity, w.path, w.scope, g.version, w.old, w.new, w.strategy
        FROM JSON_TABLE(p_changed, '$[*]' COLUMNS (
                 place FOR ORDINALITY, path VARBINARY(1024) PATH '$[0]', scope VARBINARY(1536) PATH '$[1]',
                 old LONGTEXT CHARACTER SET utf8mb4 PATH '$[2]', new LONGTEXT CHARACTER SET utf8mb4 PATH '$[3]',
                 strategy TEXT CHARACTER SET utf8mb4 PATH '$[4]')) AS w
        JOIN fl_scope AS g ON g.entity = p_entity AND g.scope = w.scope;
        IF p_lifecycle <> 'delete' THEN
            INSERT INTO fl_stamp (entity, path, scope, version, operation, writer_kind, writer_name, on_behalf_of, at)
            SELECT p_entity, w.path, w.scope, g.version, p_operation, p_writer_kind, p_writer_name, p_on_behalf_of, p_now
            FROM JSON_TABLE(p_changed, '$[*]' COLUMNS (
                     place FOR ORDINALITY, path VARBINARY(1024) PATH '$[0]', scope VARBINARY(1536) PATH '$[1]')) AS w
            JOIN fl_scope AS g ON g.entity = p_entity AND g.scope = w.scope
            ORDER BY w.place
            ON DUPLICATE KEY UPDATE
                scope = VALUES(scope), version = VALUES(version), operation = VALUES(operation),
                writer_kind = VALUES(writer_kind), writer_name = VALUES(writer_name),
                on_behalf_of = VALUES(on_behalf_of), at = VALUES(at);
        END IF;
    END IF;
END //

-- The part of a save that changes the record: removes items with their stamps, removes leaves, writes leaves and the
-- objects above them. A leaf that takes the place of an object takes what was in it, on the same axis values.
CREATE PROCEDURE IF NOT EXISTS fl_write_leaves(
    IN p_entity BIGINT, IN p_removed LONGTEXT CHARACTER SET utf8mb4, IN p_unset LONGTEXT CHARACTER SET utf8mb4,
    IN p_set LONGTEXT CHARACTER SET utf8mb4, IN p_nodes LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_count INT;
    DECLARE v_path VARBINARY(1024);
    DECLARE v_value LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_place INT DEFAULT 0;
    DECLARE v_listed INT;
    DECLARE v_one LONGTEXT CHARACTER SET utf8mb4;

    IF p_removed IS NOT NULL THEN
        DELETE l FROM fl_leaf AS l
        JOIN JSON_TABLE(p_removed, '$[*]' COLUMNS (
                 path VARBINARY(1024) PATH '$[1]', axes VARBINARY(4096) PATH '$[2]')) AS w
        WHERE l.entity = p_entity
          AND (l.path = w.path
               OR l.path >= CONCAT(w.path, '.') AND l.path < CONCAT(w.path, '/')
               OR l.path >= CONCAT(w.path, '@') AND l.path < CONCAT(w.path, 'A'))
          AND (w.axes IS NULL OR
               CONCAT('+', REPLACE(SUBSTRING(REPLACE(REPLACE(REPLACE(l.path, '\\\\', '\\s'), '\\@', '\\a'), '\\+', '\\p'),
                   LOCATE('@', CONCAT(REPLACE(REPLACE(REPLACE(l.path, '\\\\', '\\s'), '\\@', '\\a'), '\\+', '\\p'), '@')) + 1),
                   '+', '++'), '+') LIKE w.axes ESCAPE '!');
        DELETE l FROM fl_stamp AS l
        JOIN JSON_TABLE(p_removed, '$[*]' COLUMNS (
                 path VARBINARY(1024) PATH '$[1]', axes VARBINARY(4096) PATH '$[2]')) AS w
        WHERE l.entity = p_entity
          AND (l.path = w.path
               OR l.path >= CONCAT(w.path, '.') AND l.path < CONCAT(w.path, '/')
               OR l.path >= CONCAT(w.path, '@') AND l.path < CONCAT(w.path, 'A'))
          AND (w.axes IS NULL OR
               CONCAT('+', REPLACE(SUBSTRING(REPLACE(REPLACE(REPLACE(l.path, '\\\\', '\\s'), '\\@', '\\a'), '\\+', '\\p'),
                   LOCATE('@', CONCAT(REPLACE(REPLACE(REPLACE(l.path, '\\\\', '\\s'), '\\@', '\\a'), '\\+', '\\p'), '@')) + 1),
                   '+', '++'), '+') LIKE w.axes ESCAPE '!');
    END IF;
    IF p_unset IS NOT NULL THEN
        DELETE l
        FROM JSON_TABLE(p_unset, '$[*]' COLUMNS (path VARBINARY(1024) PATH '$')) AS w
        STRAIGHT_JOIN fl_leaf AS l
        WHERE l.entity = p_entity AND l.path = w.path;
    END IF;
    -- Leaves and nodes are written one by one where they are few; many by one statement, which costs as much as several.
    IF JSON_LENGTH(p_set) <= 4 THEN
        SET v_listed = JSON_LENGTH(p_set);
        WHILE v_place < v_listed DO
            SET v_one = JSON_EXTRACT(p_set, CONCAT('$[', v_place, ']'));
            SET v_path = JSON_UNQUOTE(JSON_EXTRACT(v_one, '$[0]')), v_value = JSON_UNQUOTE(JSON_EXTRACT(v_one, '$[1]'));
            IF v_value <> '{}' THEN
                SELECT COUNT(*) INTO v_count FROM fl_leaf
                WHERE entity = p_entity AND path = v_path AND value = '{}' FOR UPDATE;
                IF v_count > 0 THEN
                    CALL fl_clear_object(p_entity, CONCAT('[', v_one, ']'));
                END IF;
            END IF;
            INSERT INTO fl_leaf (entity, path, value) VALUES (p_entity, v_path, v_value)
            ON DUPLICATE KEY UPDATE value = VALUES(value);
            SET v_place = v_place + 1;
        END WHILE;
    ELSEIF p_set IS NOT NULL THEN
        SELECT COUNT(*) INTO v_count
        FROM JSON_TABLE(p_set, '$[*]' COLUMNS (
                 path VARBINARY(1024) PATH '$[0]', value LONGTEXT CHARACTER SET utf8mb4 PATH '$[1]')) AS w
        STRAIGHT_JOIN fl_leaf AS l
        WHERE l.entity = p_entity AND l.path = w.path AND l.value = '{}' AND w.value <> '{}'
        FOR UPDATE;
        IF v_count > 0 THEN
            CALL fl_clear_object(p_entity, p_set);
        END IF;
        INSERT INTO fl_leaf (entity, path, value)
        SELECT p_entity, w.path, w.value
        FROM JSON_TABLE(p_set, '$[*]' COLUMNS (
                 place FOR ORDINALITY, path VARBINARY(1024) PATH '$[0]',
                 value LONGTEXT CHARACTER SET utf8mb4 PATH '$[1]')) AS w
        ORDER BY w.place
        ON DUPLICATE KEY UPDATE value = VALUES(value);
    END IF;
    IF p_nodes IS NOT NULL THEN
        SET v_place = 0, v_listed = JSON_LENGTH(p_nodes);
        WHILE v_place < v_listed DO
            SET v_path = JSON_UNQUOTE(JSON_EXTRACT(p_nodes, CONCAT('$[', v_place, ']')));
            SELECT COUNT(*) INTO v_count FROM fl_leaf
            WHERE entity = p_entity AND path = v_path AND value = '{}' LOCK IN SHARE MODE;
            IF v_count = 0 THEN
                INSERT INTO fl_leaf (entity, path, value) VALUES (p_entity, v_path, '{}')
                ON DUPLICATE KEY UPDATE value = '{}';
            END IF;
            SET v_place = v_place + 1;
        END WHILE;
    END IF;
END //

-- What was in an object goes where a leaf takes its place, on the same axis values. p_set: as `fl_apply`.
CREATE PROCEDURE IF NOT EXISTS fl_clear_object(IN p_entity BIGINT, IN p_set LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DELETE l FROM fl_leaf AS l
    JOIN JSON_TABLE(p_set, '$[*]' COLUMNS (
             path VARBINARY(1024) PATH '$[2]', axes VARBINARY(4096) PATH '$[3]',
             value LONGTEXT CHARACTER SET utf8mb4 PATH '$[1]')) AS w
    WHERE l.entity = p_entity AND w.value <> '{}'
      AND l.path >= CONCAT(w.path, '.') AND l.path < CONCAT(w.path, '/')
      AND CONCAT('+', REPLACE(SUBSTRING(REPLACE(REPLACE(REPLACE(l.path, '\\\\', '\\s'), '\\@', '\\a'), '\\+', '\\p'),
              LOCATE('@', CONCAT(REPLACE(REPLACE(REPLACE(l.path, '\\\\', '\\s'), '\\@', '\\a'), '\\+', '\\p'), '@')) + 1),
              '+', '++'), '+') = w.axes;
END //

-- One save in a transaction of its own. One row: outcome, incarnation, number, list. After `key_replay` a second set: the
-- row of the key.
CREATE PROCEDURE IF NOT EXISTS fl_commit(
    IN p_operation BINARY(16), IN p_type VARBINARY(64), IN p_id VARBINARY(256), IN p_lifecycle VARBINARY(8),
    IN p_incarnation BIGINT, IN p_generation BINARY(32), IN p_entity_fence BIGINT, IN p_exclusive BOOLEAN,
    IN p_writer_kind VARBINARY(8), IN p_writer_name TEXT CHARACTER SET utf8mb4,
    IN p_on_behalf_of TEXT CHARACTER SET utf8mb4, IN p_detail LONGTEXT CHARACTER SET utf8mb4,
    IN p_state LONGTEXT CHARACTER SET utf8mb4, IN p_reason TEXT CHARACTER SET utf8mb4,
    IN p_scopes LONGTEXT CHARACTER SET utf8mb4, IN p_inputs LONGTEXT CHARACTER SET utf8mb4,
    IN p_patterns LONGTEXT CHARACTER SET utf8mb4, IN p_parents LONGTEXT CHARACTER SET utf8mb4,
    IN p_removed LONGTEXT CHARACTER SET utf8mb4, IN p_unset LONGTEXT CHARACTER SET utf8mb4,
    IN p_set LONGTEXT CHARACTER SET utf8mb4, IN p_nodes LONGTEXT CHARACTER SET utf8mb4,
    IN p_changed LONGTEXT CHARACTER SET utf8mb4, IN p_key LONGTEXT CHARACTER SET utf8mb4,
    IN p_queued BINARY(16), IN p_events LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_outcome VARCHAR(16) CHARACTER SET utf8mb4;
    DECLARE v_incarnation, v_number BIGINT;
    DECLARE v_list LONGTEXT CHARACTER SET utf8mb4;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    CALL fl_apply(p_operation, p_type, p_id, p_lifecycle, p_incarnation, p_generation, p_entity_fence, p_exclusive,
                  p_writer_kind, p_writer_name, p_on_behalf_of, p_detail, p_state, p_reason, p_scopes, p_inputs,
                  p_patterns, p_parents, p_removed, p_unset, p_set, p_nodes, p_changed, p_key, p_queued, p_events,
                  v_outcome, v_incarnation, v_number, v_list);
    IF v_outcome = 'applied' THEN
        COMMIT;
        SELECT v_outcome AS outcome, v_incarnation AS incarnation, v_number AS number, v_list AS list;
    ELSE
        SELECT v_outcome AS outcome, v_incarnation AS incarnation, v_number AS number, v_list AS list;
        IF v_outcome = 'key_replay' THEN
            SELECT k.state, k.owner, k.attempt, k.until_at, k.hash_algorithm, k.hash, k.result, k.inputs, k.operation,
                   k.incarnation, k.number, k.scopes
            FROM JSON_TABLE(p_key, '$' COLUMNS (
                     kind VARBINARY(8) PATH '$[0]', scope VARBINARY(255) PATH '$[1]', name VARBINARY(255) PATH '$[2]')) AS w
            JOIN fl_key AS k ON k.kind = w.kind AND k.scope = w.scope AND k.name = w.name;
        END IF;
        ROLLBACK;
    END IF;
END //

-- One save inside the transaction of whoever calls, at any isolation level; a refusal leaves nothing of it and the
-- caller's own work as it was. After an error the caller has to roll back. The row of `fl_commit`.
CREATE PROCEDURE IF NOT EXISTS fl_commit_in(
    IN p_operation BINARY(16), IN p_type VARBINARY(64), IN p_id VARBINARY(256), IN p_lifecycle VARBINARY(8),
    IN p_incarnation BIGINT, IN p_generation BINARY(32), IN p_entity_fence BIGINT, IN p_exclusive BOOLEAN,
    IN p_writer_kind VARBINARY(8), IN p_writer_name TEXT CHARACTER SET utf8mb4,
    IN p_on_behalf_of TEXT CHARACTER SET utf8mb4, IN p_detail LONGTEXT CHARACTER SET utf8mb4,
    IN p_state LONGTEXT CHARACTER SET utf8mb4, IN p_reason TEXT CHARACTER SET utf8mb4,
    IN p_scopes LONGTEXT CHARACTER SET utf8mb4, IN p_inputs LONGTEXT CHARACTER SET utf8mb4,
    IN p_patterns LONGTEXT CHARACTER SET utf8mb4, IN p_parents LONGTEXT CHARACTER SET utf8mb4,
    IN p_removed LONGTEXT CHARACTER SET utf8mb4, IN p_unset LONGTEXT CHARACTER SET utf8mb4,
    IN p_set LONGTEXT CHARACTER SET utf8mb4, IN p_nodes LONGTEXT CHARACTER SET utf8mb4,
    IN p_changed LONGTEXT CHARACTER SET utf8mb4, IN p_key LONGTEXT CHARACTER SET utf8mb4,
    IN p_queued BINARY(16), IN p_events LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_outcome VARCHAR(16) CHARACTER SET utf8mb4;
    DECLARE v_incarnation, v_number BIGINT;
    DECLARE v_list LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_limit BIGINT UNSIGNED DEFAULT @@SESSION.group_concat_max_len;

    -- Lists longer than the caller's limit would be cut off.
    SET SESSION group_concat_max_len = 268435456;
    SAVEPOINT fl_save;
    CALL fl_apply(p_operation, p_type, p_id, p_lifecycle, p_incarnation, p_generation, p_entity_fence, p_exclusive,
                  p_writer_kind, p_writer_name, p_on_behalf_of, p_detail, p_state, p_reason, p_scopes, p_inputs,
                  p_patterns, p_parents, p_removed, p_unset, p_set, p_nodes, p_changed, p_key, p_queued, p_events,
                  v_outcome, v_incarnation, v_number, v_list);
    SET SESSION group_concat_max_len = v_limit;
    IF v_outcome = 'applied' THEN
        SELECT v_outcome AS outcome, v_incarnation AS incarnation, v_number AS number, v_list AS list;
    ELSE
        SELECT v_outcome AS outcome, v_incarnation AS incarnation, v_number AS number, v_list AS list;
        IF v_outcome = 'key_replay' THEN
            SELECT k.state, k.owner, k.attempt, k.until_at, k.hash_algorithm, k.hash, k.result, k.inputs, k.operation,
                   k.incarnation, k.number, k.scopes
            FROM JSON_TABLE(p_key, '$' COLUMNS (
                     kind VARBINARY(8) PATH '$[0]', scope VARBINARY(255) PATH '$[1]', name VARBINARY(255) PATH '$[2]')) AS w
            JOIN fl_key AS k ON k.kind = w.kind AND k.scope = w.scope AND k.name = w.name
            LOCK IN SHARE MODE;
        END IF;
        ROLLBACK TO SAVEPOINT fl_save;
    END IF;
    RELEASE SAVEPOINT fl_save;
END //

-- Did this operation take effect? One row when it did. Without a row it did not, and never will: its name is void now, and
-- a commit that is still under way finds that out after it entered itself. Names void for a week are forgotten, a few per
-- call: a commit lives no longer than its connection does, and the server ends a silent one after `wait_timeout` (8 h).
CREATE PROCEDURE IF NOT EXISTS fl_resolve(IN p_operation BINARY(16))
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_save BIGINT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT save INTO v_save FROM fl_operation WHERE operation = p_operation;
    IF v_save IS NULL THEN
        INSERT INTO fl_void (operation, at)
        VALUES (p_operation, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))
        ON DUPLICATE KEY UPDATE at = fl_void.at;
        -- Waits for a commit that has entered itself and not ended.
        SELECT save INTO v_save FROM fl_operation WHERE operation = p_operation LOCK IN SHARE MODE;
    END IF;
    IF v_save IS NULL THEN
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        START TRANSACTION;
        DELETE FROM fl_void
        WHERE at < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - 604800000000
        ORDER BY at LIMIT 16;
        COMMIT;
    ELSE
        ROLLBACK;
    END IF;
    SELECT incarnation, number, scopes FROM fl_operation WHERE save = v_save;
END //

-- Replaces the rules of a type if p_was is in force (NULL: none). The same generation again only replaces the text. Claims
-- under former rules end, or a group that became optimistic would be held for ever. One row: whether it was done.
CREATE PROCEDURE IF NOT EXISTS fl_activate(
    IN p_type VARBINARY(64), IN p_was BINARY(32), IN p_generation BINARY(32), IN p_text LONGTEXT CHARACTER SET utf8mb4,
    IN p_delay_us BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
activate: BEGIN
    DECLARE v_generation BINARY(32);
    DECLARE v_effective, v_now BIGINT;
    DECLARE v_lost BOOLEAN DEFAULT FALSE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT generation, effective_at INTO v_generation, v_effective FROM fl_registry WHERE type = p_type FOR UPDATE;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6));
    IF NOT (v_generation <=> p_was) THEN
        ROLLBACK;
        SELECT FALSE AS done;
        LEAVE activate;
    END IF;
    IF v_generation IS NULL THEN
        BEGIN
            DECLARE CONTINUE HANDLER FOR 1062 SET v_lost = TRUE;
            INSERT INTO fl_registry (type, generation, text, effective_at, previous)
            VALUES (p_type, p_generation, p_text, v_now + p_delay_us, NULL);
        END;
    ELSEIF v_generation = p_generation THEN
        UPDATE fl_registry SET text = p_text WHERE type = p_type;
    ELSE
        UPDATE fl_registry
        SET previous = generation, generation = p_generation, text = p_text, effective_at = v_now + p_delay_us
        WHERE type = p_type;
    END IF;
    IF v_lost THEN
        ROLLBACK;
        SELECT FALSE AS done;
        LEAVE activate;
    END IF;
    IF NOT (p_was <=> p_generation) THEN
        UPDATE fl_scope AS g JOIN fl_entity AS e ON e.entity = g.entity
        SET g.fence = g.fence + 1, g.holder = NULL
        WHERE e.type = p_type AND g.holder IS NOT NULL;
    END IF;
    COMMIT;
    SELECT TRUE AS done;
END //

DELIMITER ;

-- fieldlease: entered
INSERT INTO fl_migration (number, name, checksum, applied_at)
VALUES (3, 'routines', UNHEX('710ecc15d7c8cffe3fa2d73e775e4799a9648a1e9472532fb4812f9864edaeec'),
        TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)));
