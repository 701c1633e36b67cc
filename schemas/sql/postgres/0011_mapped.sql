-- Records in tables of the CMS: who wrote past the engine, as the printed triggers see it.

CREATE TABLE fl_bypass (
    type     text        NOT NULL, -- the registry's name of the type
    id       text        NOT NULL,
    place    text        NOT NULL, -- table.column
    times    bigint      NOT NULL DEFAULT 1,
    who      text        NOT NULL, -- the database user of the last of them
    first_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (type, id, place)
);

-- fieldlease: entered
INSERT INTO fl_migration (number, name, checksum)
VALUES (11, 'mapped', '\x3939cca2148ead0e99eddf9984d0a2732b1146dd8f6ff27ee05661360cee8d5a');
