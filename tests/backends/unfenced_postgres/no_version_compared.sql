-- The version is not compared: last write wins.
-- instead of:
coalesce(_version, 0) IS DISTINCT FROM coalesce(_wanted, _version, 0)
-- this:
false
