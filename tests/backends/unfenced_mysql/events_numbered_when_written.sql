-- An event has the number that was drawn when it was written.
-- procedure: fl_outbox_number
-- instead of:
SET v_event = v_event + 1;
-- stands:
SET v_event = v_told;
