-- Last write wins.
-- procedure: fl_apply
-- instead of:
w.how <> 'unread' AND COALESCE(g.version, 0) <> w.version
-- stands:
w.how = 'claimed' AND COALESCE(g.version, 0) <> w.version
