-- Statements over waiting saves and events.

-- name: push_queue
-- ?1 operation, ?2 type, ?3 id, ?4 writer_kind, ?5 writer_name, ?6 on_behalf_of, ?7 scopes, ?8 body, ?9 now.
INSERT INTO fl_queue
    (operation, type, id, writer_kind, writer_name, on_behalf_of, scopes, body, at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
RETURNING place;

-- name: push_queue_scope
-- ?1 type, ?2 id, ?3 scope, ?4 place.
INSERT INTO fl_queue_scope (type, id, scope, place) VALUES (?1, ?2, ?3, ?4);

-- name: queued_before
-- ?1 place. Others that wait for one of its scopes and came earlier.
SELECT count(DISTINCT before.place)
FROM fl_queue_scope AS own
JOIN fl_queue_scope AS before
  ON before.type = own.type AND before.id = own.id AND before.scope = own.scope AND before.place < own.place
WHERE own.place = ?1;

-- name: ready_queue
-- ?1 after this place, ?2 at most. Those that are first in all their scopes.
SELECT q.place, q.operation, q.type, q.id, q.writer_kind, q.writer_name, q.on_behalf_of, q.scopes, q.body, q.at
FROM fl_queue AS q
WHERE q.place > ?1 AND NOT EXISTS (
    SELECT 1 FROM fl_queue_scope AS own
    JOIN fl_queue_scope AS before
      ON before.type = own.type AND before.id = own.id AND before.scope = own.scope AND before.place < own.place
    WHERE own.place = q.place)
ORDER BY q.place
LIMIT ?2;

-- name: list_queue
-- ?1 after this place, ?2 at most, ?3 type or NULL, ?4 id or NULL. The columns of `ready_queue`.
SELECT place, operation, type, id, writer_kind, writer_name, on_behalf_of, scopes, body, at
FROM fl_queue
WHERE place > ?1 AND (?3 IS NULL OR (type = ?3 AND id = ?4))
ORDER BY place
LIMIT ?2;

-- name: remove_queue_scopes
-- ?1 operation.
DELETE FROM fl_queue_scope WHERE place = (SELECT place FROM fl_queue WHERE operation = ?1);

-- name: remove_queue
-- ?1 operation. One row, or somebody else was faster.
DELETE FROM fl_queue WHERE operation = ?1 RETURNING type, id;

-- name: tell
-- ?1 type, ?2 id, ?3 kind, ?4 operation, ?5 body, ?6 now.
INSERT INTO fl_outbox (type, id, kind, operation, body, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: pull
-- ?1 after this event, ?2 at most.
SELECT event, type, id, kind, operation, body, at FROM fl_outbox
WHERE event > ?1 ORDER BY event LIMIT ?2;

-- name: acknowledged
-- ?1 reader.
SELECT event FROM fl_outbox_reader WHERE reader = ?1;

-- name: acknowledge
-- ?1 reader, ?2 event. Never back.
INSERT INTO fl_outbox_reader (reader, event) VALUES (?1, ?2)
ON CONFLICT (reader) DO UPDATE SET event = max(event, excluded.event);

-- name: prune_events
-- ?1 before this moment, ?2 at most.
DELETE FROM fl_outbox WHERE event IN (SELECT event FROM fl_outbox WHERE at < ?1 ORDER BY event LIMIT ?2);

-- name: erase_queue_scopes
-- ?1 type, ?2 id.
DELETE FROM fl_queue_scope WHERE type = ?1 AND id = ?2;

-- name: erase_queue
-- ?1 type, ?2 id.
DELETE FROM fl_queue WHERE type = ?1 AND id = ?2;

-- name: erase_events
-- ?1 type, ?2 id.
DELETE FROM fl_outbox WHERE type = ?1 AND id = ?2;

-- name: erase_writer_queue
-- ?1 name, ?2 kind.
UPDATE fl_queue
SET writer_name = CASE WHEN writer_name = ?1 AND writer_kind = ?2 THEN 'erased' ELSE writer_name END,
    on_behalf_of = CASE WHEN on_behalf_of = ?1 THEN 'erased' ELSE on_behalf_of END
WHERE (writer_name = ?1 AND writer_kind = ?2) OR on_behalf_of = ?1;
