-- Inside your own transaction, before or after your UPDATE. It answers one row; read it and whatever follows, as after
-- every procedure. Go on only when `answer` is `applied`; after any other answer nothing was written, and your
-- transaction is as it was: roll back, or leave the fields of this group alone.
CALL fl_guard(
    UNHEX(REPLACE(:operation, '-', '')), {type}, :id, UNHEX({generation}), {scope},
    :version, {fence}, :changes, {state}, {kind}, :writer);
