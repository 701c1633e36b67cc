-- Whoever tells does not wait for whoever is telling.
-- procedure: fl_outbox_tell
-- instead of:
FOR UPDATE
-- stands:
LIMIT 1
