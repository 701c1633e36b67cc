-- Calls of the routines in schemas/sql/postgres, which say what their parameters and answers are.

-- name: load
-- $1 type, $2 id.
SELECT * FROM fl_load($1, $2);

-- name: claim
-- $1 type, $2 id, $3 generation, $4 holder, $5 scopes, $6 whole.
SELECT * FROM fl_claim($1, $2, $3, $4, $5, $6);

-- name: commit
SELECT * FROM fl_commit(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26, $27, $28, $29, $30);

-- name: resolve
-- $1 operation. One row or none.
SELECT * FROM fl_resolve($1);

-- name: break_claim
-- $1 type, $2 id, $3 scope.
SELECT fl_break($1, $2, $3);

-- name: registry
-- $1 type. One row or none.
SELECT r.generation, r.text FROM fl_registry AS r WHERE r.type = $1;

-- name: activate
-- $1 type, $2 was, $3 generation, $4 text, $5 delay in microseconds.
SELECT fl_activate($1, $2, $3, $4, $5);
