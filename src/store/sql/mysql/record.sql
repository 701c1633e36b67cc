-- Calls of the procedures in schemas/sql/mysql. One call, one round trip, one transaction.

-- name: load
-- type, id.
CALL fl_load(?, ?);

-- name: claim
-- type, id, generation, holder, whole, scopes.
CALL fl_claim(?, ?, ?, ?, ?, ?);

-- name: break_claim
-- type, id, scope.
CALL fl_break(?, ?, ?);

-- name: resolve
-- operation.
CALL fl_resolve(?);

-- name: commit
-- operation, type, id, lifecycle, incarnation, generation, entity_fence, exclusive, writer_kind, writer_name,
-- on_behalf_of, detail, state, reason, scopes, inputs, patterns, parents, removed, unset, set, nodes, changed, key, queued, events.
CALL fl_commit(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: commit_in
-- The parameters of `commit`; in the transaction of the caller.
CALL fl_commit_in(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: activate
-- type, was, generation, text, delay_us.
CALL fl_activate(?, ?, ?, ?, ?);

-- name: registry
-- type. One row or none.
SELECT generation, text FROM fl_registry WHERE type = ?;
