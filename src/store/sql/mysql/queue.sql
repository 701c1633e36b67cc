-- Waiting saves and events. What decides or writes is a procedure of schemas/sql/mysql/0005_queue.sql.

-- name: push_queue
-- operation, type, id, writer_kind, writer_name, on_behalf_of, scopes as a JSON array, body.
CALL fl_queue_push(?, ?, ?, ?, ?, ?, ?, ?);

-- name: ready_queue
-- after this place, at most. Those that are first in all their scopes.
SELECT q.place, q.operation, q.type, q.id, q.writer_kind, q.writer_name, q.on_behalf_of, q.scopes, q.body, q.at
FROM fl_queue AS q
WHERE q.place > ? AND NOT EXISTS (
    SELECT 1 FROM fl_queue_scope AS own
    JOIN fl_queue_scope AS before_it
      ON before_it.type = own.type AND before_it.id = own.id AND before_it.scope = own.scope AND before_it.place < own.place
    WHERE own.place = q.place)
ORDER BY q.place
LIMIT ?;

-- name: list_queue
-- after this place, at most. The columns of `ready_queue`.
SELECT place, operation, type, id, writer_kind, writer_name, on_behalf_of, scopes, body, at
FROM fl_queue
WHERE place > ?
ORDER BY place
LIMIT ?;

-- name: list_queue_of
-- type, id, after this place, at most. The columns of `ready_queue`.
SELECT place, operation, type, id, writer_kind, writer_name, on_behalf_of, scopes, body, at
FROM fl_queue
WHERE type = ? AND id = ? AND place > ?
ORDER BY place
LIMIT ?;

-- name: remove_queue
-- operation, kind, body.
CALL fl_queue_remove(?, ?, ?);

-- name: tell
-- type, id, operation, [kind, body] as a JSON array.
CALL fl_outbox_tell(?, ?, ?, ?);

-- name: pull
-- after this event, at most.
CALL fl_outbox_pull(?, ?);

-- name: acknowledge
-- reader, event or NULL.
CALL fl_outbox_ack(?, ?);
