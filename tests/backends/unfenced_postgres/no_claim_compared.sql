-- The claim of a scope is not compared.
-- instead of:
(_fence IS DISTINCT FROM _fences[_i]
                        OR _holder IS DISTINCT FROM _holders[_i] OR
-- this:
(
