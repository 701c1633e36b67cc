-- name: base
SELECT c.old FROM fl_entity AS e
JOIN fl_change AS c
  ON c.entity = e.entity AND c.path = ?3 AND c.scope = ?4 AND c.version > ?5
WHERE e.type = ?1 AND e.id = ?2
ORDER BY c.version
LIMIT 1;
