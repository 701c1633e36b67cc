-- Idempotency keys of requests and jobs, and what repeats are answered.

-- One row per key that is in use. A save completes its key in its own transaction.
CREATE TABLE fl_key (
    kind           TEXT    NOT NULL, -- api or job
    scope          TEXT    NOT NULL, -- whose key it is, visible ASCII
    name           TEXT    NOT NULL, -- the key itself, visible ASCII
    hash_algorithm TEXT    NOT NULL, -- how the request was hashed: jcs-sha256/1
    hash           BLOB    NOT NULL, -- SHA-256; never changed by finishing
    state          TEXT    NOT NULL, -- pending, retry, completed or failed
    owner          BLOB    NOT NULL, -- random, fresh for every attempt
    attempt        INTEGER NOT NULL, -- rises with every attempt, after an expiry too
    until_at       INTEGER NOT NULL, -- pending: end of the lease; retry: not before; completed, failed: forgotten then
    class          TEXT,             -- retry: the class of the error
    result         TEXT,             -- completed, failed: what repeats are answered
    inputs         TEXT,             -- JSON: path -> operation, for a key made of a content hash
    operation      BLOB,             -- the save that completed it, and what it answered
    incarnation    INTEGER,
    number         INTEGER,
    scopes         TEXT,             -- as in fl_operation
    created_at     INTEGER NOT NULL,
    PRIMARY KEY (kind, scope, name)
) STRICT;

CREATE INDEX fl_key_until ON fl_key (until_at);
