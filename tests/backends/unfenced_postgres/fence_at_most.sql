-- A lower fence passes, as if fences were only ordered.
-- instead of:
(_fence IS DISTINCT FROM _wanted_fence

-- this:
(_fence IS NULL OR _fence < _wanted_fence

