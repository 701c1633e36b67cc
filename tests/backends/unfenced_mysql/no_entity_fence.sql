-- A whole-entity claim stops nobody who claimed a scope it does not name.
-- procedure: fl_apply
-- instead of:
v_fence <> p_entity_fence OR
-- stands:
FALSE OR
