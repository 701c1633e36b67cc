-- Idempotency keys of requests and jobs, and what repeats are answered.

SET SESSION autocommit = 1;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO';
SET NAMES utf8mb4 COLLATE utf8mb4_bin;

-- One row per key that is in use. A save completes its key in its own transaction.
CREATE TABLE IF NOT EXISTS fl_key (
    kind           VARBINARY(8)   NOT NULL, -- api or job
    scope          VARBINARY(255) NOT NULL, -- whose key it is, visible ASCII
    name           VARBINARY(255) NOT NULL, -- the key itself, visible ASCII
    hash_algorithm VARBINARY(32)  NOT NULL, -- how the request was hashed: jcs-sha256/1
    hash           BINARY(32)     NOT NULL, -- SHA-256; never changed by finishing
    state          VARBINARY(16)  NOT NULL, -- pending, retry, completed or failed
    owner          BINARY(16)     NOT NULL, -- random, fresh for every attempt
    attempt        BIGINT         NOT NULL, -- rises with every attempt, after an expiry too
    until_at       BIGINT         NOT NULL, -- pending: end of the lease; retry: not before; completed, failed: forgotten then
    class          TEXT,                    -- retry: the class of the error
    result         LONGTEXT,                -- completed, failed: what repeats are answered
    inputs         LONGTEXT,                -- JSON: path -> operation, for a key made of a content hash
    operation      BINARY(16),              -- the save that completed it, and what it answered
    incarnation    BIGINT,
    number         BIGINT,
    scopes         LONGTEXT,                -- as in fl_operation
    created_at     BIGINT         NOT NULL,
    PRIMARY KEY (kind, scope, name),
    KEY fl_key_until (until_at),
    KEY fl_key_operation (operation) -- a save stays as long as a key answers with it
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

DELIMITER //

-- Locks a key inside the caller's transaction and decides whose it is; acquires it where it may be acquired. In this order:
-- an expired end is forgotten, another hash is a mismatch whatever the state, an end is replayed, a live attempt keeps
-- others out, a stale one is taken over, a failure is tried again when it is due. The owner of the pending attempt asking
-- again acquires what it has. o_outcome: acquired, taken_over, replay, mismatch, in_progress or retry_later; o_wait_us: how
-- long until the latter two may be asked again.
CREATE PROCEDURE IF NOT EXISTS fl_key_take(
    IN p_kind VARBINARY(8), IN p_scope VARBINARY(255), IN p_name VARBINARY(255), IN p_algorithm VARBINARY(32),
    IN p_hash BINARY(32), IN p_owner BINARY(16), IN p_lease_us BIGINT,
    OUT o_outcome VARCHAR(16) CHARACTER SET utf8mb4, OUT o_attempt BIGINT, OUT o_wait_us BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_state VARBINARY(16);
    DECLARE v_owner BINARY(16);
    DECLARE v_attempt, v_until, v_now BIGINT;
    DECLARE v_same BOOLEAN;

    SELECT state, owner, attempt, until_at, hash_algorithm = p_algorithm AND hash = p_hash
    INTO v_state, v_owner, v_attempt, v_until, v_same
    FROM fl_key WHERE kind = p_kind AND scope = p_scope AND name = p_name FOR UPDATE;
    IF v_state IS NULL THEN
        -- Of several that find no row one inserts it; the others wait here and find it.
        SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6));
        INSERT INTO fl_key (kind, scope, name, hash_algorithm, hash, state, owner, attempt, until_at, created_at)
        VALUES (p_kind, p_scope, p_name, p_algorithm, p_hash, 'pending', p_owner, 1, v_now, v_now)
        ON DUPLICATE KEY UPDATE attempt = fl_key.attempt;
        SELECT state, owner, attempt, until_at, hash_algorithm = p_algorithm AND hash = p_hash
        INTO v_state, v_owner, v_attempt, v_until, v_same
        FROM fl_key WHERE kind = p_kind AND scope = p_scope AND name = p_name FOR UPDATE;
    END IF;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6));
    SET o_attempt = v_attempt + 1, o_wait_us = v_until - v_now;
    IF v_state IN ('completed', 'failed') AND v_until <= v_now THEN
        SET o_outcome = 'acquired';
    ELSEIF NOT v_same THEN
        SET o_outcome = 'mismatch';
    ELSEIF v_state IN ('completed', 'failed') THEN
        SET o_outcome = 'replay';
    ELSEIF v_state = 'pending' AND v_owner = p_owner THEN
        SET o_outcome = 'acquired', o_attempt = v_attempt;
    ELSEIF v_state = 'pending' AND v_now < v_until THEN
        SET o_outcome = 'in_progress';
    ELSEIF v_state = 'pending' THEN
        SET o_outcome = 'taken_over';
    ELSEIF v_now < v_until THEN
        SET o_outcome = 'retry_later';
    ELSE
        SET o_outcome = 'acquired';
    END IF;
    IF o_outcome IN ('acquired', 'taken_over') THEN
        UPDATE fl_key
        SET hash_algorithm = p_algorithm, hash = p_hash, state = 'pending', owner = p_owner, attempt = o_attempt,
            until_at = v_now + p_lease_us, class = NULL, result = NULL, inputs = NULL, operation = NULL,
            incarnation = NULL, number = NULL, scopes = NULL
        WHERE kind = p_kind AND scope = p_scope AND name = p_name;
    END IF;
END //

-- Begins the work of a key. First set: outcome, attempt, how long to wait. After `replay` a second one: the row.
CREATE PROCEDURE IF NOT EXISTS fl_key_begin(
    IN p_kind VARBINARY(8), IN p_scope VARBINARY(255), IN p_name VARBINARY(255), IN p_algorithm VARBINARY(32),
    IN p_hash BINARY(32), IN p_owner BINARY(16), IN p_lease_us BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_outcome VARCHAR(16) CHARACTER SET utf8mb4;
    DECLARE v_attempt, v_wait BIGINT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    CALL fl_key_take(p_kind, p_scope, p_name, p_algorithm, p_hash, p_owner, p_lease_us, v_outcome, v_attempt, v_wait);
    IF v_outcome IN ('acquired', 'taken_over') THEN
        COMMIT;
        SELECT v_outcome AS outcome, v_attempt AS attempt, v_wait AS wait_us;
    ELSE
        SELECT v_outcome AS outcome, v_attempt AS attempt, v_wait AS wait_us;
        IF v_outcome = 'replay' THEN
            SELECT state, owner, attempt, until_at, hash_algorithm, hash, result, inputs, operation, incarnation, number, scopes
            FROM fl_key WHERE kind = p_kind AND scope = p_scope AND name = p_name;
        END IF;
        ROLLBACK;
    END IF;
END //

-- A transition of an attempt, by owner and number; time does not decide. p_how: renew, end or release. One row: whether it
-- was this attempt's.
CREATE PROCEDURE IF NOT EXISTS fl_key_move(
    IN p_kind VARBINARY(8), IN p_scope VARBINARY(255), IN p_name VARBINARY(255), IN p_owner BINARY(16),
    IN p_attempt BIGINT, IN p_how VARBINARY(8), IN p_state VARBINARY(16), IN p_until_us BIGINT,
    IN p_class TEXT CHARACTER SET utf8mb4, IN p_result LONGTEXT CHARACTER SET utf8mb4,
    IN p_inputs LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_own INT DEFAULT 0;
    DECLARE v_now BIGINT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT state = 'pending' AND owner = p_owner AND attempt = p_attempt INTO v_own
    FROM fl_key WHERE kind = p_kind AND scope = p_scope AND name = p_name FOR UPDATE;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6));
    IF v_own = 1 AND p_how = 'renew' THEN
        UPDATE fl_key SET until_at = v_now + p_until_us
        WHERE kind = p_kind AND scope = p_scope AND name = p_name;
    ELSEIF v_own = 1 AND p_how = 'end' THEN
        UPDATE fl_key
        SET state = p_state, until_at = IF(p_until_us > 4611686018427387904, p_until_us, v_now + p_until_us),
            class = p_class, result = p_result, inputs = p_inputs,
            operation = NULL, incarnation = NULL, number = NULL, scopes = NULL
        WHERE kind = p_kind AND scope = p_scope AND name = p_name;
    ELSEIF v_own = 1 THEN
        DELETE FROM fl_key WHERE kind = p_kind AND scope = p_scope AND name = p_name;
    END IF;
    COMMIT;
    SELECT v_own AS own;
END //

-- Removes up to p_most rows: ends that expired p_ended_us ago, and attempts and failures whose time came p_abandoned_us ago.
-- Rows that another sweeper, or an attempt, is at are passed over. One row: how many.
CREATE PROCEDURE IF NOT EXISTS fl_key_sweep(IN p_ended_us BIGINT, IN p_abandoned_us BIGINT, IN p_most INT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_kind VARBINARY(8);
    DECLARE v_scope, v_name VARBINARY(255);
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_count INT DEFAULT 0;
    DECLARE v_done BOOLEAN DEFAULT FALSE;
    DECLARE c_rows CURSOR FOR
        SELECT kind, scope, name FROM fl_key
        WHERE until_at < v_now - p_abandoned_us OR until_at < v_now - p_ended_us AND state IN ('completed', 'failed')
        ORDER BY until_at LIMIT p_most FOR UPDATE SKIP LOCKED;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    OPEN c_rows;
    swept: LOOP
        FETCH c_rows INTO v_kind, v_scope, v_name;
        IF v_done THEN
            LEAVE swept;
        END IF;
        DELETE FROM fl_key WHERE kind = v_kind AND scope = v_scope AND name = v_name;
        SET v_count = v_count + 1;
    END LOOP;
    CLOSE c_rows;
    COMMIT;
    SELECT v_count AS swept;
END //

DELIMITER ;

-- fieldlease: entered
INSERT INTO fl_migration (number, name, checksum, applied_at)
VALUES (2, 'keys', UNHEX('fccdae8aeeb1e130f01dd56080c8e3822ce9a2f18697f382cf191327a5ff64c4'),
        TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)));
