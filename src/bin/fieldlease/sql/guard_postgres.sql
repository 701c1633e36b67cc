-- Inside your own transaction, before or after your UPDATE. Go on only when `answer` is `applied`; after any other
-- answer nothing was written, and your transaction is as it was: roll back, or leave the fields of this group alone.
SELECT answer, version FROM fl_guard(
    CAST(:operation AS uuid), {type}, CAST(:id AS text), CAST({generation} AS bytea), {scope},
    CAST(:version AS bigint), {fence}, CAST(:changes AS json), {state}, {kind}, CAST(:writer AS text));
