-- What is due is swept, not what expired long ago.
-- procedure: fl_key_sweep
-- instead of:
until_at < v_now - p_abandoned_us OR until_at < v_now - p_ended_us AND
-- stands:
until_at < v_now OR until_at < v_now - p_ended_us AND
