-- fieldlease on MariaDB and MySQL: leases in rows, for teams without Redis.
-- Times are microseconds since 1970 (UTC) on the clock of this server.

SET SESSION autocommit = 1;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO';

-- One row per record with leases.
CREATE TABLE IF NOT EXISTS fl_lease (
    namespace VARBINARY(256) NOT NULL, -- who shares these leases
    type      VARBINARY(64)  NOT NULL, -- the registry's name of the type
    id        VARBINARY(256) NOT NULL, -- of the record
    revision  BIGINT         NOT NULL, -- random, another one with every write
    leases    LONGTEXT       NOT NULL, -- JSON: who holds what, who waits
    until     BIGINT         NOT NULL, -- when the last of it ends
    PRIMARY KEY (namespace, type, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What happened to which token. Rows are removed after a minute.
CREATE TABLE IF NOT EXISTS fl_lease_notice (
    notice BIGINT   NOT NULL AUTO_INCREMENT PRIMARY KEY,
    told   LONGTEXT NOT NULL,
    at     BIGINT   NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

DELIMITER //

-- Writes the row if it still has the revision it was read with, and tells what happened; answers 1, else 0.
-- p_was 0: there was no row. p_leases NULL: it goes. p_told empty: nobody is to hear of it.
CREATE PROCEDURE IF NOT EXISTS fl_lease_write(
    IN p_namespace VARBINARY(256), IN p_type VARBINARY(64), IN p_id VARBINARY(256), IN p_was BIGINT,
    IN p_revision BIGINT, IN p_leases LONGTEXT CHARACTER SET utf8mb4, IN p_until BIGINT,
    IN p_told LONGTEXT CHARACTER SET utf8mb4
)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE v_written INT DEFAULT 0;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    IF p_was = 0 THEN
        INSERT IGNORE INTO fl_lease (namespace, type, id, revision, leases, until)
        VALUES (p_namespace, p_type, p_id, p_revision, p_leases, p_until);
    ELSEIF p_leases IS NULL THEN
        DELETE FROM fl_lease
        WHERE namespace = p_namespace AND type = p_type AND id = p_id AND revision = p_was;
    ELSE
        -- The revision always changes, so that rows counted are rows matched.
        UPDATE fl_lease SET revision = p_revision, leases = p_leases, until = p_until
        WHERE namespace = p_namespace AND type = p_type AND id = p_id AND revision = p_was;
    END IF;
    SET v_written = ROW_COUNT();
    IF v_written = 1 AND p_told <> '' THEN
        INSERT INTO fl_lease_notice (told, at)
        VALUES (
            p_told,
            TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))
        );
    END IF;
    COMMIT;
    SELECT v_written AS written;
END //

DELIMITER ;

-- fieldlease: entered
INSERT INTO fl_migration (number, name, checksum, applied_at)
VALUES (10, 'lease', UNHEX('5861b86f6aca5e9ca8eb034bdf024304c96411612f848e490a12c4281e95e2cd'),
        TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)));
