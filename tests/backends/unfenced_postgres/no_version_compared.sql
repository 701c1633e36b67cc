-- The version is not compared: last write wins.
-- instead of:
coalesce(_version, 0) <> _versions[_i]
-- this:
false
