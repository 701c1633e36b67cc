-- fieldlease on PostgreSQL: every table and routine of ours begins with fl_.
--
-- The files of this folder are applied in order, each in one transaction, by `fieldlease migrate` or by hand:
--     psql --single-transaction -v ON_ERROR_STOP=1 -f 0001_init.sql
-- They make everything in the first schema of the search path. A database in UTF8 is needed.
--
-- Fences, versions and numbers only ever rise. Texts that are compared are compared byte for byte (COLLATE "C").
-- INVARIANT: whoever writes rows of an entity has locked its row in fl_entity first, then its rows in fl_scope in
-- the order of their names. So writers of one entity come one after the other, and none of them deadlock.

CREATE TABLE fl_migration (
    number     integer     PRIMARY KEY,
    name       text        NOT NULL,
    checksum   bytea       NOT NULL, -- SHA-256 of the file above its last line of comment
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE fl_migration IS 'The files of fieldlease that were applied; one that was applied never changes again';

-- One row per record that was ever created. Deleting keeps the row: a re-created id never meets an old number.
CREATE TABLE fl_entity (
    entity      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type        text        COLLATE "C" NOT NULL,     -- the registry's name of the type
    id          text        COLLATE "C" NOT NULL,     -- the id; a backslash is written twice, a zero byte as \0
    incarnation bigint      NOT NULL,                 -- counts creations of the id, from 1
    deleted_at  timestamptz,                          -- NULL while it exists
    number      bigint      NOT NULL DEFAULT 0,       -- number of the newest version
    fence       bigint      NOT NULL DEFAULT 0,       -- raised by a whole-entity claim and by deleting
    data        jsonb       NOT NULL DEFAULT '{}',    -- the record: path -> the leaf's JSON as text, so that 1.0 and -0.0 stay what they are
    UNIQUE (type, id)
) WITH (fillfactor = 70);
COMMENT ON TABLE fl_entity IS 'Records: one row per record that was ever created';

-- One row per scope: a group of fields of one record, with a value per axis the group is split by.
CREATE TABLE fl_scope (
    entity  bigint NOT NULL,
    scope   text   COLLATE "C" NOT NULL,  -- media, or translation[locale=de]
    version bigint NOT NULL DEFAULT 0,    -- rises by one per save that changed something in the scope
    fence   bigint NOT NULL DEFAULT 0,    -- rises by one per claim, break and delete
    holder  uuid,                         -- token of the last claim. It stays after a release; a break clears it
    -- Where present values come from: path -> [version, save, operation, microseconds since 1970, kind, name, on behalf of].
    -- A path that moved to another scope leaves its old stamp behind: of two stamps the one of the later save counts.
    stamps  jsonb  NOT NULL DEFAULT '{}',
    PRIMARY KEY (entity, scope)
) WITH (fillfactor = 60);
COMMENT ON TABLE fl_scope IS 'Scopes: version, fence and holder of a group of fields of one record';

-- The rules in force. A save decided by other rules is refused.
CREATE TABLE fl_registry (
    type         text        COLLATE "C" PRIMARY KEY,
    generation   bytea       NOT NULL, -- SHA-256 of the type's resolved rules
    text         text        NOT NULL,
    effective_at timestamptz NOT NULL, -- saves under it are refused before this moment
    previous     bytea
);
COMMENT ON TABLE fl_registry IS 'The rules in force, per type of record';

-- One row per save, and one per operation that was asked after and had not come. A row is never changed; history upkeep
-- may erase its values or delete it.
CREATE TABLE fl_operation (
    operation    uuid        PRIMARY KEY,
    save         bigint      GENERATED ALWAYS AS IDENTITY, -- rises in the order of commits of one entity
    entity       bigint,                 -- NULL only when void
    incarnation  bigint,                 -- after the save
    number       bigint,                 -- of the version it made: editors only
    lifecycle    text        NOT NULL,   -- update, create or delete; void: it never took effect and never will
    at           timestamptz NOT NULL,
    generation   bytea,                  -- hash of the rules it was decided by
    scopes       jsonb,                  -- scope -> {"before", "after", "fence"}
    changes      jsonb,                  -- [{"path", "scope", "old", "new", "strategy"}]; old and new are JSON as text
    detail       json,                   -- job, waited_ms, held_ms, retries, left_out, reason
    state        jsonb,                  -- of a version: every editor-owned value after it, path -> the leaf's JSON as text
    writer_kind  text,                   -- editor or worker
    writer_name  text,
    on_behalf_of text
);
COMMENT ON TABLE fl_operation IS 'Saves: what each changed, who made it; editors'' saves are versions';

CREATE INDEX fl_operation_entity ON fl_operation (entity, save);
CREATE UNIQUE INDEX fl_operation_number ON fl_operation (entity, number) WHERE number IS NOT NULL;

-- Idempotency keys of requests and jobs, and what repeats are answered. A save completes its key in its own transaction.
CREATE TABLE fl_key (
    kind           text        COLLATE "C" NOT NULL, -- api or job
    scope          text        COLLATE "C" NOT NULL, -- whose key it is
    name           text        COLLATE "C" NOT NULL, -- the key itself
    hash_algorithm text        NOT NULL,             -- how the request was hashed: jcs-sha256/1
    hash           bytea       NOT NULL,             -- SHA-256; never changed by finishing
    state          text        NOT NULL,             -- pending, retry, completed or failed
    owner          uuid        NOT NULL,             -- random, fresh for every attempt
    attempt        bigint      NOT NULL,             -- rises with every attempt, after an expiry too
    until_at       timestamptz NOT NULL,             -- pending: end of the lease; retry: not before; completed, failed: forgotten then
    class          text,                             -- retry: the class of the error
    result         text,                             -- completed, failed: what repeats are answered
    inputs         text,                             -- JSON: path -> operation, for a key made of a content hash
    operation      uuid,                             -- the save that completed it, and what it answered
    incarnation    bigint,
    number         bigint,
    scopes         text,                             -- as in fl_operation
    created_at     timestamptz NOT NULL,
    PRIMARY KEY (kind, scope, name)
) WITH (fillfactor = 70);
COMMENT ON TABLE fl_key IS 'Idempotency keys that are in use';

CREATE INDEX fl_key_until ON fl_key (until_at);

-- fieldlease: entered
INSERT INTO fl_migration (number, name, checksum)
VALUES (1, 'init', '\xc7ac98b79c1be5c24fc62ea100e5f5b4b1c1465e80d5c4f77bfb1f1808e60942');
