-- fieldlease on MariaDB 10.6 or later and MySQL 8: every table of ours begins with fl_.
-- Apply the files of this folder in order, with `fieldlease migrate` or with `mariadb DATABASE < FILE`: both leave the
-- same. A file may be applied again after it failed half way. A file that was applied never changes again.
--
-- Times are microseconds since 1970 (UTC) on the clock of this server.
-- Fences, versions and numbers only ever rise. Tokens, operation ids and hashes are binary.
-- Ids, paths and scopes are VARBINARY: compared byte for byte, blanks at the end and NUL included, whatever the
-- collation of the database is. JSON is kept as text, exactly as it was given.
-- There are no foreign keys: a save locks the row of its entity first, and a check would lock it once more per row.

SET SESSION autocommit = 1;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO';

-- The files of this folder that were applied, in order.
CREATE TABLE IF NOT EXISTS fl_migration (
    number     INT          NOT NULL PRIMARY KEY,
    name       VARCHAR(64)  NOT NULL,
    checksum   BINARY(32)   NOT NULL, -- SHA-256 of the file above its mark
    applied_at BIGINT       NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row that never changes: a connection finds out with it what the driver and the proxies in between count.
CREATE TABLE IF NOT EXISTS fl_probe (
    id    TINYINT NOT NULL PRIMARY KEY,
    value TINYINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT IGNORE INTO fl_probe (id, value) VALUES (1, 1);

-- One row per record that was ever created. Deleting keeps the row: a re-created id never meets an old number.
CREATE TABLE IF NOT EXISTS fl_entity (
    entity      BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    type        VARBINARY(64)  NOT NULL,           -- the registry's name of the type
    id          VARBINARY(256) NOT NULL,           -- 0 to 256 bytes of UTF-8, NUL included
    incarnation BIGINT         NOT NULL,           -- counts creations of the id, from 1
    deleted_at  BIGINT,                            -- NULL while it exists
    number      BIGINT         NOT NULL DEFAULT 0, -- number of the newest version
    fence       BIGINT         NOT NULL DEFAULT 0, -- raised by a whole-entity claim and by deleting
    UNIQUE KEY fl_entity_id (type, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The record: one row per leaf and per object above it, so that a save writes its own leaves and locks no other.
CREATE TABLE IF NOT EXISTS fl_leaf (
    entity BIGINT          NOT NULL,
    path   VARBINARY(1024) NOT NULL,
    value  LONGTEXT        NOT NULL, -- JSON; {} for an object, whose members have rows of their own
    PRIMARY KEY (entity, path)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row per scope (a group of fields of one record, with a value per axis the group is split by).
CREATE TABLE IF NOT EXISTS fl_scope (
    entity  BIGINT          NOT NULL,
    scope   VARBINARY(1536) NOT NULL,           -- media, or translation[locale=de]
    version BIGINT          NOT NULL DEFAULT 0, -- rises by one per save that changed something in the scope
    fence   BIGINT          NOT NULL DEFAULT 0, -- rises by one per claim, break and delete
    holder  BINARY(16),                         -- token of the last claim. It stays after a release; a break clears it
    pruned  BIGINT          NOT NULL DEFAULT 0, -- changes up to this version may be gone: nobody knows what was before
    PRIMARY KEY (entity, scope)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Where the present value of a unit comes from.
CREATE TABLE IF NOT EXISTS fl_stamp (
    entity       BIGINT          NOT NULL,
    path         VARBINARY(1024) NOT NULL,
    scope        VARBINARY(1536) NOT NULL, -- the scope the path belonged to at that save
    version      BIGINT          NOT NULL, -- that scope's version after the save
    operation    BINARY(16)      NOT NULL,
    writer_kind  VARBINARY(8)    NOT NULL, -- editor or worker
    writer_name  TEXT            NOT NULL,
    on_behalf_of TEXT,
    at           BIGINT          NOT NULL,
    PRIMARY KEY (entity, path)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row per save. An editor's save has a number and a row in fl_version; a worker's save has neither.
CREATE TABLE IF NOT EXISTS fl_operation (
    save         BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY, -- rises in the order of saves of one scope
    operation    BINARY(16)   NOT NULL,
    entity       BIGINT       NOT NULL,
    incarnation  BIGINT       NOT NULL, -- after the save
    number       BIGINT,
    lifecycle    VARBINARY(8) NOT NULL, -- update, create or delete
    writer_kind  VARBINARY(8) NOT NULL,
    writer_name  TEXT         NOT NULL,
    on_behalf_of TEXT,
    at           BIGINT       NOT NULL,
    generation   BINARY(32)   NOT NULL, -- hash of the rules it was decided by
    scopes       LONGTEXT     NOT NULL, -- JSON: scope -> {"before", "after", "fence"}
    detail       LONGTEXT     NOT NULL, -- JSON: job, waited_ms, held_ms, retries, left_out, reason
    UNIQUE KEY fl_operation_operation (operation),
    KEY fl_operation_entity (entity, save)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Operations that were asked for after their answer was lost, and had not taken effect: they never will. A row goes when
-- no commit of its name can be on its way any more.
CREATE TABLE IF NOT EXISTS fl_void (
    operation BINARY(16) NOT NULL PRIMARY KEY,
    at        BIGINT     NOT NULL,
    KEY fl_void_at (at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The units one save changed, with their values before and after. NULL is absent; JSON null is the text null.
CREATE TABLE IF NOT EXISTS fl_change (
    save     BIGINT          NOT NULL,
    position INT             NOT NULL,
    entity   BIGINT          NOT NULL,
    path     VARBINARY(1024) NOT NULL,
    scope    VARBINARY(1536) NOT NULL,
    version  BIGINT          NOT NULL, -- the scope's version after the save
    old      LONGTEXT,
    new      LONGTEXT,
    strategy TEXT,                     -- what decided a shared unit
    PRIMARY KEY (save, position),
    -- The value a unit had when its scope stood at version v: `old` of the first change with version > v.
    UNIQUE KEY fl_change_path (entity, path, scope, version)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What an editor's save leaves: every editor-owned value after it.
CREATE TABLE IF NOT EXISTS fl_version (
    save   BIGINT   NOT NULL PRIMARY KEY,
    entity BIGINT   NOT NULL,
    number BIGINT   NOT NULL, -- 1, 2, 3 .. without gaps
    state  LONGTEXT NOT NULL, -- JSON: path -> leaf
    reason TEXT,              -- why a refusal was overridden
    UNIQUE KEY fl_version_number (entity, number)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The rules in force. A save decided by other rules is refused.
CREATE TABLE IF NOT EXISTS fl_registry (
    type         VARBINARY(64) NOT NULL PRIMARY KEY,
    generation   BINARY(32)    NOT NULL,
    text         LONGTEXT      NOT NULL,
    effective_at BIGINT        NOT NULL, -- saves under it are refused before this moment
    previous     BINARY(32)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- fieldlease: entered
INSERT INTO fl_migration (number, name, checksum, applied_at)
VALUES (1, 'init', UNHEX('c0090cf91d3863b6e6ea247049b55ae8dc623164bfd085640931d92ba9e918d1'),
        TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)));
