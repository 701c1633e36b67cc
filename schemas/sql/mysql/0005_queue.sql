-- Saves that wait for a lease, and what others are to be told.

SET SESSION autocommit = 1;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO';
SET NAMES utf8mb4 COLLATE utf8mb4_bin;

-- One row per save that waits. It goes in the transaction of its effect, or with the event that says why there is none.
CREATE TABLE IF NOT EXISTS fl_queue (
    place        BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY, -- of one record: the order in which they came
    operation    BINARY(16)     NOT NULL,                            -- the name its effect will have in the history
    type         VARBINARY(64)  NOT NULL,
    id           VARBINARY(256) NOT NULL,
    writer_kind  VARBINARY(8)   NOT NULL,
    writer_name  TEXT           NOT NULL,
    on_behalf_of TEXT,
    scopes       LONGTEXT       NOT NULL, -- JSON list: what it was waiting for when it came
    body         LONGTEXT       NOT NULL, -- JSON: what is asked for
    at           BIGINT         NOT NULL,
    UNIQUE KEY fl_queue_operation (operation),
    KEY fl_queue_entity (type, id, place)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The scopes of `fl_queue.scopes`, one row each: who is first where.
CREATE TABLE IF NOT EXISTS fl_queue_scope (
    type  VARBINARY(64)   NOT NULL,
    id    VARBINARY(256)  NOT NULL,
    scope VARBINARY(1536) NOT NULL,
    place BIGINT          NOT NULL,
    PRIMARY KEY (type, id, scope, place),
    KEY fl_queue_scope_place (place)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Events, written in the transaction they tell of. Their number is given to them when they are first read: an
-- AUTO_INCREMENT is drawn long before its transaction ends, so a reader who went by it would pass over what commits late.
CREATE TABLE IF NOT EXISTS fl_outbox (
    told      BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY, -- of one record: in the order of commits
    event     BIGINT,                                             -- NULL until somebody reads
    type      VARBINARY(64)  NOT NULL,
    id        VARBINARY(256) NOT NULL,
    kind      VARBINARY(64)  NOT NULL, -- requeue, queue_refused, queue_unchanged, queue_cancelled
    operation BINARY(16)     NOT NULL, -- the save it comes from
    body      LONGTEXT       NOT NULL, -- JSON
    at        BIGINT         NOT NULL,
    UNIQUE KEY fl_outbox_event (event),
    KEY fl_outbox_entity (type, id),
    KEY fl_outbox_at (at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row: the number given out last. Whoever numbers events holds it until the COMMIT.
CREATE TABLE IF NOT EXISTS fl_outbox_last (
    id    TINYINT NOT NULL PRIMARY KEY,
    event BIGINT  NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- How far a named reader has come.
CREATE TABLE IF NOT EXISTS fl_outbox_reader (
    reader VARBINARY(1024) NOT NULL PRIMARY KEY,
    event  BIGINT          NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

DELIMITER //

-- Stores a save that waits. It has the row of its record for itself, so that places of one record are given out in the
-- order of commits, and none appears before one that was seen. One row: how many wait before it in one of its scopes.
-- p_scopes: ["scope", ..]
CREATE PROCEDURE IF NOT EXISTS fl_queue_push(
    IN p_operation BINARY(16), IN p_type VARBINARY(64), IN p_id VARBINARY(256), IN p_writer_kind VARBINARY(8),
    IN p_writer_name TEXT CHARACTER SET utf8mb4, IN p_on_behalf_of TEXT CHARACTER SET utf8mb4,
    IN p_scopes LONGTEXT CHARACTER SET utf8mb4, IN p_body LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_entity, v_place, v_before BIGINT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT entity INTO v_entity FROM fl_entity WHERE type = p_type AND id = p_id FOR UPDATE;
    INSERT INTO fl_queue (operation, type, id, writer_kind, writer_name, on_behalf_of, scopes, body, at)
    VALUES (p_operation, p_type, p_id, p_writer_kind, p_writer_name, p_on_behalf_of, p_scopes, p_body,
            TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)));
    SET v_place = LAST_INSERT_ID();
    INSERT INTO fl_queue_scope (type, id, scope, place)
    SELECT p_type, p_id, w.scope, v_place
    FROM JSON_TABLE(p_scopes, '$[*]' COLUMNS (scope VARBINARY(1536) PATH '$')) AS w;
    SELECT COUNT(DISTINCT before_it.place) INTO v_before
    FROM fl_queue_scope AS own
    JOIN fl_queue_scope AS before_it
      ON before_it.type = own.type AND before_it.id = own.id AND before_it.scope = own.scope AND before_it.place < own.place
    WHERE own.place = v_place;
    COMMIT;
    SELECT v_before AS waiting;
END //

-- Takes a waiting save out and tells why. One row: whether it was there.
CREATE PROCEDURE IF NOT EXISTS fl_queue_remove(
    IN p_operation BINARY(16), IN p_kind VARBINARY(64), IN p_body LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER MODIFIES SQL DATA
remove_it: BEGIN
    DECLARE v_type VARBINARY(64);
    DECLARE v_id VARBINARY(256);
    DECLARE v_entity, v_place BIGINT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    -- A row never changes: read without a lock, so that the record is locked before it.
    SELECT type, id INTO v_type, v_id FROM fl_queue WHERE operation = p_operation;
    IF v_type IS NOT NULL THEN
        SELECT entity INTO v_entity FROM fl_entity WHERE type = v_type AND id = v_id FOR UPDATE;
        SELECT place INTO v_place FROM fl_queue WHERE operation = p_operation FOR UPDATE;
    END IF;
    IF v_place IS NULL THEN
        ROLLBACK;
        SELECT FALSE AS removed;
        LEAVE remove_it;
    END IF;
    DELETE FROM fl_queue_scope WHERE place = v_place;
    DELETE FROM fl_queue WHERE place = v_place;
    INSERT INTO fl_outbox (type, id, kind, operation, body, at)
    VALUES (v_type, v_id, p_kind, p_operation, p_body,
            TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)));
    COMMIT;
    SELECT TRUE AS removed;
END //

-- Events that belong to no save that was made. p_events: [kind, body]
CREATE PROCEDURE IF NOT EXISTS fl_outbox_tell(
    IN p_type VARBINARY(64), IN p_id VARBINARY(256), IN p_operation BINARY(16),
    IN p_events LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_entity BIGINT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT entity INTO v_entity FROM fl_entity WHERE type = p_type AND id = p_id FOR UPDATE;
    INSERT INTO fl_outbox (type, id, kind, operation, body, at)
    SELECT p_type, p_id, w.kind, p_operation, w.body,
           TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))
    FROM JSON_TABLE(p_events, '$[*]' COLUMNS (
             place FOR ORDINALITY, kind VARBINARY(64) PATH '$[0]', body LONGTEXT CHARACTER SET utf8mb4 PATH '$[1]')) AS w
    ORDER BY w.place;
    COMMIT;
END //

-- Gives numbers to up to p_most events that have none: committed ones only, in the order they were told. One at a time
-- does so; what commits later gets a higher number, however early it was written.
CREATE PROCEDURE IF NOT EXISTS fl_outbox_number(IN p_most BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_told, v_event BIGINT;
    DECLARE v_done BOOLEAN DEFAULT FALSE;
    -- Reads without locks: it does not wait for whoever is still writing one.
    DECLARE c_events CURSOR FOR SELECT told FROM fl_outbox WHERE event IS NULL ORDER BY told LIMIT p_most;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    INSERT INTO fl_outbox_last (id, event) VALUES (1, 0) ON DUPLICATE KEY UPDATE event = fl_outbox_last.event;
    SELECT MAX(event) INTO v_event FROM fl_outbox_last WHERE id = 1 FOR UPDATE;
    OPEN c_events;
    numbered: LOOP
        FETCH c_events INTO v_told;
        IF v_done THEN
            LEAVE numbered;
        END IF;
        SET v_event = v_event + 1;
        UPDATE fl_outbox SET event = v_event WHERE told = v_told;
    END LOOP;
    CLOSE c_events;
    UPDATE fl_outbox_last SET event = v_event WHERE id = 1;
    COMMIT;
END //

-- Up to p_most events after p_after, in order of their numbers.
CREATE PROCEDURE IF NOT EXISTS fl_outbox_pull(IN p_after BIGINT, IN p_most BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_new BOOLEAN;

    -- Who polls and finds nothing new writes nothing.
    SELECT EXISTS (SELECT 1 FROM fl_outbox WHERE event IS NULL) INTO v_new;
    IF v_new THEN
        CALL fl_outbox_number(p_most);
    END IF;
    SELECT event, type, id, kind, operation, body, at
    FROM fl_outbox WHERE event > p_after ORDER BY event LIMIT p_most;
END //

-- How far a reader has come; with p_event it comes that far, and never back. One row.
CREATE PROCEDURE IF NOT EXISTS fl_outbox_ack(IN p_reader VARBINARY(1024), IN p_event BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    IF p_event IS NOT NULL THEN
        INSERT INTO fl_outbox_reader (reader, event) VALUES (p_reader, p_event)
        ON DUPLICATE KEY UPDATE event = GREATEST(fl_outbox_reader.event, VALUES(event));
    END IF;
    SELECT COALESCE(MAX(event), 0) AS event FROM fl_outbox_reader WHERE reader = p_reader;
END //

DELIMITER ;

-- fieldlease: entered
INSERT INTO fl_migration (number, name, checksum, applied_at)
VALUES (5, 'queue', UNHEX('57340a7d53975d0a644033b45ffb9d7f92a6951e07a5e81341a68dfb4f12c073'),
        TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)));
