-- An optimistic save passes under somebody's claim.
-- procedure: fl_apply
-- instead of:
WHEN 'version' THEN v_at_holder IS NOT NULL
-- stands:
WHEN 'version' THEN FALSE
