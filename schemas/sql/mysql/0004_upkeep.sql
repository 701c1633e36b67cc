-- History that goes: by age and number, or because somebody must be forgotten. `fl_scope.pruned` of 0001 is the mark that
-- pruning leaves: what a unit was before is not known any more up to there.

SET SESSION autocommit = 1;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO';
SET NAMES utf8mb4 COLLATE utf8mb4_bin;

-- That something was erased, when, by whom and why; never what it was.
CREATE TABLE IF NOT EXISTS fl_erasure (
    erasure BIGINT        NOT NULL AUTO_INCREMENT PRIMARY KEY,
    what    VARBINARY(8)  NOT NULL, -- record or writer
    type    VARBINARY(64),          -- of a record
    id      VARBINARY(256),         -- of a record, until its tombstone is pruned
    saves   BIGINT        NOT NULL, -- how many saves lost their values or their writer's name
    by_name TEXT          NOT NULL,
    reason  TEXT          NOT NULL,
    at      BIGINT        NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

DELIMITER //

-- A record that was deleted long ago goes with its numbers, inside the caller's transaction.
CREATE PROCEDURE IF NOT EXISTS fl_forget(IN p_entity BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DELETE FROM fl_change WHERE entity = p_entity;
    DELETE FROM fl_version WHERE entity = p_entity;
    DELETE FROM fl_operation WHERE entity = p_entity;
    DELETE FROM fl_stamp WHERE entity = p_entity;
    DELETE FROM fl_leaf WHERE entity = p_entity;
    DELETE FROM fl_scope WHERE entity = p_entity;
    UPDATE fl_erasure AS x JOIN fl_entity AS e ON x.type = e.type AND x.id = e.id
    SET x.id = NULL
    WHERE e.entity = p_entity;
    DELETE FROM fl_entity WHERE entity = p_entity;
END //

-- Takes one save out, inside the caller's transaction, and leaves the mark that its changes are gone.
CREATE PROCEDURE IF NOT EXISTS fl_prune_save(IN p_entity BIGINT, IN p_save BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    UPDATE fl_scope AS s
    JOIN (SELECT scope, MAX(version) AS version FROM fl_change WHERE save = p_save GROUP BY scope) AS c ON c.scope = s.scope
    SET s.pruned = GREATEST(s.pruned, c.version)
    WHERE s.entity = p_entity;
    DELETE FROM fl_change WHERE save = p_save;
    DELETE FROM fl_version WHERE save = p_save;
    DELETE FROM fl_operation WHERE save = p_save;
END //

-- Prunes up to p_most saves of up to p_most records after p_after. Each record is a transaction of its own, so that saves
-- wait for the pruning of their own record only. NULL as an age or a number: that is not pruned. One row: versions,
-- operations, tombstones, and where to go on or NULL. With p_dry everything is done and taken back.
CREATE PROCEDURE IF NOT EXISTS fl_prune(
    IN p_type VARBINARY(64), IN p_keep BIGINT, IN p_versions_us BIGINT, IN p_operations_us BIGINT,
    IN p_tombstones_us BIGINT, IN p_window_us BIGINT, IN p_after BIGINT, IN p_most BIGINT, IN p_dry BOOLEAN)
SQL SECURITY INVOKER MODIFIES SQL DATA
prune: BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_floor BIGINT DEFAULT v_now - p_window_us;
    DECLARE v_versions_before BIGINT DEFAULT v_now - p_versions_us;
    DECLARE v_operations_before BIGINT DEFAULT v_now - p_operations_us;
    DECLARE v_entity, v_number, v_deleted, v_next, v_saves, v_keyed BIGINT;
    DECLARE v_looked, v_versions, v_operations, v_tombstones BIGINT DEFAULT 0;
    DECLARE v_left BIGINT DEFAULT p_most;
    DECLARE v_done, v_forgotten BOOLEAN DEFAULT FALSE;
    DECLARE c_entities CURSOR FOR
        SELECT entity, number, deleted_at FROM fl_entity
        WHERE entity > p_after AND (p_type IS NULL OR type = p_type)
        ORDER BY entity LIMIT p_most;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    IF p_operations_us IS NOT NULL THEN
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        START TRANSACTION;
        DELETE FROM fl_outbox WHERE at < v_now - GREATEST(p_operations_us, p_window_us) ORDER BY at LIMIT p_most;
        IF p_dry THEN
            ROLLBACK;
        ELSE
            COMMIT;
        END IF;
    END IF;

    OPEN c_entities;
    entities: LOOP
        FETCH c_entities INTO v_entity, v_number, v_deleted;
        IF v_done THEN
            LEAVE entities;
        END IF;
        SET v_looked = v_looked + 1, v_forgotten = FALSE, v_saves = 0;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        START TRANSACTION;
        IF v_deleted < LEAST(v_now - p_tombstones_us, v_floor) THEN
            -- It may have been created again by now.
            SELECT MAX(deleted_at) INTO v_deleted FROM fl_entity WHERE entity = v_entity FOR UPDATE;
            SELECT COUNT(*), COUNT(k.operation) INTO v_saves, v_keyed
            FROM fl_operation AS o LEFT JOIN fl_key AS k ON k.operation = o.operation
            WHERE o.entity = v_entity;
            SET v_forgotten = COALESCE(v_deleted < LEAST(v_now - p_tombstones_us, v_floor), FALSE) AND v_keyed = 0;
        END IF;
        IF v_forgotten THEN
            CALL fl_forget(v_entity);
            SET v_tombstones = v_tombstones + 1, v_left = v_left - v_saves;
        ELSE
            BEGIN
                DECLARE v_save, v_there BIGINT;
                DECLARE v_version, v_end BOOLEAN DEFAULT FALSE;
                DECLARE v_locked BIGINT;
                -- A save that is not a value's origin never becomes one again, and no key takes up an old save: what is
                -- found here without a lock is right under the lock, too, unless somebody else has pruned it.
                DECLARE c_saves CURSOR FOR
                    SELECT o.save, o.number IS NOT NULL FROM fl_operation AS o
                    WHERE o.entity = v_entity AND o.at < v_floor
                      AND IF(o.number IS NULL, o.at < v_operations_before,
                             o.number < v_number AND (p_keep IS NOT NULL OR p_versions_us IS NOT NULL)
                             AND (p_keep IS NULL OR o.number <= v_number - p_keep)
                             AND (p_versions_us IS NULL OR o.at < v_versions_before))
                      AND o.operation NOT IN (SELECT s.operation FROM fl_stamp AS s WHERE s.entity = v_entity)
                      AND NOT EXISTS (SELECT 1 FROM fl_key AS k WHERE k.operation = o.operation)
                    ORDER BY o.save LIMIT v_left;
                DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_end = TRUE;

                OPEN c_saves;
                saves: LOOP
                    FETCH c_saves INTO v_save, v_version;
                    IF v_end THEN
                        LEAVE saves;
                    END IF;
                    IF v_locked IS NULL THEN
                        SELECT COUNT(*) INTO v_locked FROM fl_entity WHERE entity = v_entity FOR UPDATE;
                    END IF;
                    SET v_left = v_left - 1;
                    SELECT COUNT(*) INTO v_there FROM fl_operation WHERE save = v_save FOR UPDATE;
                    IF v_there = 1 THEN
                        CALL fl_prune_save(v_entity, v_save);
                        SET v_versions = v_versions + v_version, v_operations = v_operations + (NOT v_version);
                    END IF;
                END LOOP;
                CLOSE c_saves;
            END;
        END IF;
        IF p_dry THEN
            ROLLBACK;
        ELSE
            COMMIT;
        END IF;
        IF v_left <= 0 THEN
            -- This record may have more.
            SET v_next = v_entity - 1;
            LEAVE entities;
        END IF;
        SET v_next = v_entity;
    END LOOP;
    CLOSE c_entities;
    IF v_left > 0 AND v_looked < p_most THEN
        SET v_next = NULL;
    END IF;
    SELECT v_versions AS versions, v_operations AS operations, v_tombstones AS tombstones, v_next AS next;
END //

-- Erases a record: its values wherever they are kept. It is deleted, if it was not yet. One row (saves, values), or none
-- where there is no such record.
CREATE PROCEDURE IF NOT EXISTS fl_erase_record(
    IN p_type VARBINARY(64), IN p_id VARBINARY(256), IN p_by TEXT CHARACTER SET utf8mb4,
    IN p_reason TEXT CHARACTER SET utf8mb4, IN p_dry BOOLEAN)
SQL SECURITY INVOKER MODIFIES SQL DATA
erase: BEGIN
    DECLARE v_entity, v_saves, v_values, v_now BIGINT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT entity INTO v_entity FROM fl_entity WHERE type = p_type AND id = p_id FOR UPDATE;
    IF v_entity IS NULL THEN
        ROLLBACK;
        LEAVE erase;
    END IF;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6));
    -- Nobody who saw or held anything goes on with it. First, as saves lock their scopes first.
    UPDATE fl_scope SET pruned = version + 1, version = version + 1, fence = fence + 1, holder = NULL
    WHERE entity = v_entity;
    UPDATE fl_entity SET deleted_at = COALESCE(deleted_at, v_now), fence = fence + 1 WHERE entity = v_entity;
    SELECT COUNT(*) INTO v_saves FROM fl_operation WHERE entity = v_entity FOR UPDATE;
    SELECT COUNT(*) INTO v_values FROM fl_stamp WHERE entity = v_entity FOR UPDATE;
    -- Repeats are answered that it was done, and not what.
    UPDATE fl_key AS k JOIN fl_operation AS o ON o.operation = k.operation
    SET k.result = NULL, k.inputs = NULL
    WHERE o.entity = v_entity;
    DELETE FROM fl_change WHERE entity = v_entity;
    UPDATE fl_version SET state = '{}', reason = NULL WHERE entity = v_entity;
    -- Who saved when stays; what, and why, goes.
    UPDATE fl_operation SET detail = '{"waited_ms":0,"held_ms":0,"retries":0}' WHERE entity = v_entity;
    DELETE FROM fl_leaf WHERE entity = v_entity;
    DELETE FROM fl_stamp WHERE entity = v_entity;
    DELETE FROM fl_queue_scope WHERE type = p_type AND id = p_id;
    DELETE FROM fl_queue WHERE type = p_type AND id = p_id;
    DELETE FROM fl_outbox WHERE type = p_type AND id = p_id;
    INSERT INTO fl_erasure (what, type, id, saves, by_name, reason, at)
    VALUES ('record', p_type, p_id, v_saves, p_by, p_reason, v_now);
    IF p_dry THEN
        ROLLBACK;
    ELSE
        COMMIT;
    END IF;
    SELECT v_saves AS saves, v_values AS stamps;
END //

-- Erases a writer: the name wherever it stands, also as the person somebody acted for. What was written stays. Reads all
-- records of saves and all stamps. One row (saves, values).
CREATE PROCEDURE IF NOT EXISTS fl_erase_writer(
    IN p_name TEXT CHARACTER SET utf8mb4, IN p_kind VARBINARY(8), IN p_by TEXT CHARACTER SET utf8mb4,
    IN p_reason TEXT CHARACTER SET utf8mb4, IN p_dry BOOLEAN)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_saves, v_values BIGINT;
    -- Byte for byte: a collation may take a blank at the end for nothing.
    DECLARE v_name LONGBLOB DEFAULT CAST(p_name AS BINARY);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT COUNT(*) INTO v_saves FROM fl_operation
    WHERE CAST(writer_name AS BINARY) = v_name AND writer_kind = p_kind OR CAST(on_behalf_of AS BINARY) = v_name
    FOR UPDATE;
    UPDATE fl_operation
    SET writer_name = IF(CAST(writer_name AS BINARY) = v_name AND writer_kind = p_kind, 'erased', writer_name),
        on_behalf_of = IF(CAST(on_behalf_of AS BINARY) = v_name, 'erased', on_behalf_of)
    WHERE CAST(writer_name AS BINARY) = v_name AND writer_kind = p_kind OR CAST(on_behalf_of AS BINARY) = v_name;
    SELECT COUNT(*) INTO v_values FROM fl_stamp
    WHERE CAST(writer_name AS BINARY) = v_name AND writer_kind = p_kind OR CAST(on_behalf_of AS BINARY) = v_name
    FOR UPDATE;
    UPDATE fl_stamp
    SET writer_name = IF(CAST(writer_name AS BINARY) = v_name AND writer_kind = p_kind, 'erased', writer_name),
        on_behalf_of = IF(CAST(on_behalf_of AS BINARY) = v_name, 'erased', on_behalf_of)
    WHERE CAST(writer_name AS BINARY) = v_name AND writer_kind = p_kind OR CAST(on_behalf_of AS BINARY) = v_name;
    UPDATE fl_queue
    SET writer_name = IF(CAST(writer_name AS BINARY) = v_name AND writer_kind = p_kind, 'erased', writer_name),
        on_behalf_of = IF(CAST(on_behalf_of AS BINARY) = v_name, 'erased', on_behalf_of)
    WHERE CAST(writer_name AS BINARY) = v_name AND writer_kind = p_kind OR CAST(on_behalf_of AS BINARY) = v_name;
    INSERT INTO fl_erasure (what, type, id, saves, by_name, reason, at)
    VALUES ('writer', NULL, NULL, v_saves, p_by, p_reason, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)));
    IF p_dry THEN
        ROLLBACK;
    ELSE
        COMMIT;
    END IF;
    SELECT v_saves AS saves, v_values AS stamps;
END //

DELIMITER ;

-- fieldlease: entered
INSERT INTO fl_migration (number, name, checksum, applied_at)
VALUES (4, 'upkeep', UNHEX('67c94c0ad0029a71693b56758072879a220c19039db4a9f7e88aa29f160c39ac'),
        TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)));
