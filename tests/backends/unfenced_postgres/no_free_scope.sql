-- An optimistic save writes where somebody holds the scope.
-- instead of:
        OR _wanted_holder IS NULL AND _wanted_version IS NOT NULL AND _holder IS NOT NULL

-- this:

