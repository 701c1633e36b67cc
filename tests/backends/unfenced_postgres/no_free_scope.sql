-- An optimistic save writes where somebody holds the scope.
-- instead of:
                    OR _holders[_i] IS NULL AND _versions[_i] IS NOT NULL AND _holder IS NOT NULL
-- this:

