-- Whoever knows the fence writes.
-- instead of:
                        OR _holder IS DISTINCT FROM _holders[_i] OR
-- this:
                        OR
