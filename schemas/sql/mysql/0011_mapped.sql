-- Records in tables of the CMS: who wrote past the engine, as the printed triggers see it.

SET SESSION autocommit = 1;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO';

CREATE TABLE IF NOT EXISTS fl_bypass (
    type     VARBINARY(64)  NOT NULL, -- the registry's name of the type
    id       VARBINARY(256) NOT NULL,
    place    VARBINARY(200) NOT NULL, -- table.column
    times    BIGINT         NOT NULL DEFAULT 1,
    who      VARCHAR(400)   NOT NULL, -- the database user of the last of them
    first_at DATETIME(6)    NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    last_at  DATETIME(6)    NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    PRIMARY KEY (type, id, place)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- fieldlease: entered
INSERT INTO fl_migration (number, name, checksum, applied_at)
VALUES (11, 'mapped', UNHEX('1f6495323d5b6cb22181b201ca86968af65ffe05549d02f55a685b6ffe3191a7'),
        TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)));
