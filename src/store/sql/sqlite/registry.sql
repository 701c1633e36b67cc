-- Statements over the rules in force.

-- name: registry
-- ?1 type. One row or none.
SELECT generation, text, effective_at FROM fl_registry WHERE type = ?1;

-- name: rules
-- ?1 type. The part of `registry` that every claim and commit compares.
SELECT generation, effective_at FROM fl_registry WHERE type = ?1;

-- name: put_registry
-- ?1 type, ?2 generation, ?3 text, ?4 effective_at, ?5 previous. The same generation again keeps `previous`.
INSERT INTO fl_registry (type, generation, text, effective_at, previous) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (type) DO UPDATE SET
    generation = excluded.generation, text = excluded.text,
    effective_at = excluded.effective_at,
    previous = CASE WHEN generation = excluded.generation THEN previous ELSE excluded.previous END;

-- name: void_claims
-- ?1 type. Claims under former rules end, or a group that became optimistic would be held for ever.
UPDATE fl_scope SET fence = fence + 1, holder = NULL
WHERE holder IS NOT NULL AND entity IN (SELECT entity FROM fl_entity WHERE type = ?1);
