-- A whole-entity claim voids nothing.
-- instead of:
 OR _e.fence IS DISTINCT FROM _entity_fence)
-- this:
)
