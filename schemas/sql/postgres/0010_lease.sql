-- fieldlease on PostgreSQL: leases in rows, for teams without Redis. Needed only where --leases names this database.
-- Times are microseconds since 1970 on the server's clock.

CREATE TABLE fl_lease (
    namespace text COLLATE "C" NOT NULL, -- who shares these leases
    type      text COLLATE "C" NOT NULL, -- the registry's name of the type
    id        bytea            NOT NULL, -- of the record: UTF-8
    revision  bigint           NOT NULL, -- random, another one with every write
    leases    text             NOT NULL, -- JSON: who holds what, who waits
    until     bigint           NOT NULL, -- when the last of it ends; no index, so that an update stays in its page
    PRIMARY KEY (namespace, type, id)
) WITH (fillfactor = 50);

-- What happened to which token, for processes that cannot LISTEN. Rows are removed after a minute.
CREATE TABLE fl_lease_notice (
    notice bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    told   text   NOT NULL,
    at     bigint NOT NULL
);

CREATE FUNCTION fl_micros() RETURNS bigint LANGUAGE sql VOLATILE
AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- Writes each row that still has the revision it was read with, and tells on channel fl_lease what happened.
-- Answers row by row whether it was written. A revision of 0 means that there was no row, no text that it goes.
-- Rows come in order of type and id, so that two callers wait for each other and never in a circle.
CREATE FUNCTION fl_lease_write(
    p_namespace text, p_types text[], p_ids bytea[], p_was bigint[], p_revisions bigint[], p_leases text[],
    p_until bigint[], p_told text[]
) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    v_done boolean[] := '{}';
    v_written boolean;
BEGIN
    FOR i IN 1 .. coalesce(array_length(p_types, 1), 0) LOOP
        IF p_was[i] = 0 THEN
            INSERT INTO fl_lease (namespace, type, id, revision, leases, until)
            VALUES (p_namespace, p_types[i], p_ids[i], p_revisions[i], p_leases[i], p_until[i])
            ON CONFLICT DO NOTHING;
        ELSIF p_leases[i] IS NULL THEN
            DELETE FROM fl_lease
            WHERE namespace = p_namespace AND type = p_types[i] AND id = p_ids[i] AND revision = p_was[i];
        ELSE
            UPDATE fl_lease SET revision = p_revisions[i], leases = p_leases[i], until = p_until[i]
            WHERE namespace = p_namespace AND type = p_types[i] AND id = p_ids[i] AND revision = p_was[i];
        END IF;
        v_written := FOUND;
        v_done := v_done || v_written;
        IF v_written AND p_told[i] <> '' THEN
            INSERT INTO fl_lease_notice (told, at) VALUES (p_told[i], fl_micros());
            PERFORM pg_notify('fl_lease', p_told[i]);
        END IF;
    END LOOP;
    RETURN v_done;
END $$;

-- fieldlease: entered
INSERT INTO fl_migration (number, name, checksum)
VALUES (10, 'lease', '\x3139679dbd26e6c285781bd5aae64e6f743de5b6826359ce6ddee404b3aa0231');
