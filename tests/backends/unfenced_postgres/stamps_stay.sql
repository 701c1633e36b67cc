-- The stamps of a removed item stay.
-- instead of:
stamps = s.stamps - fl_keys_in(s.stamps, _removed)
-- this:
stamps = s.stamps
