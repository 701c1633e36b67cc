-- A key is answered whatever it is used for.
-- instead of:
        WHEN _k.hash_algorithm <> _hash_algorithm OR _k.hash <> _hash THEN 'mismatch'
-- this:

