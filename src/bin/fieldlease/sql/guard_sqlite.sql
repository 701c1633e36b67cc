-- Inside your own transaction, which BEGIN IMMEDIATE began, before or after your UPDATE. When it goes through, go on. When
-- it fails, the error's text is the answer, nothing was written, and your transaction is as it was: roll back, or leave
-- the fields of this group alone. :operation is 16 bytes.
INSERT INTO fl_guard
    (operation, type, id, generation, scope, version, fence, changes, state, writer_kind, writer_name)
VALUES (:operation, {type}, :id, {generation}, {scope}, :version, {fence}, :changes, {state}, {kind}, :writer);
