-- The claim of a scope is not compared.
-- instead of:
(_fence IS DISTINCT FROM _wanted_fence
            OR _holder IS DISTINCT FROM _wanted_holder OR 
-- this:
(
