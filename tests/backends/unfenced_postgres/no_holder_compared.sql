-- Whoever knows the fence writes.
-- instead of:
OR _holder IS DISTINCT FROM _wanted_holder OR
-- this:
OR
