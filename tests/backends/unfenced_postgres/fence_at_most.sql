-- A lower fence passes, as if fences were only ordered.
-- instead of:
(_fence IS DISTINCT FROM _fences[_i]
                        OR _holder IS DISTINCT FROM _holders[_i]
-- this:
(_fence IS NULL OR _fence < _fences[_i]
                        OR _holder IS DISTINCT FROM _holders[_i]
