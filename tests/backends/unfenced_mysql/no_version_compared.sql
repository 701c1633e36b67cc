-- Last write wins.
-- procedure: fl_apply
-- instead of:
v_expect <> 'unread' AND v_at <> v_wanted
-- stands:
v_expect = 'claimed' AND v_at <> v_wanted
