-- A whole-entity claim voids nothing.
-- instead of:
 OR _entity_fence IS DISTINCT FROM _wanted_entity_fence)
-- this:
)
