-- Versions are compared as they are, and not locked.
-- procedure: fl_apply
-- instead of:
INTO v_there, v_at, v_at_fence, v_at_holder
                FROM fl_scope WHERE entity = v_entity AND scope = v_scope FOR UPDATE;
-- stands:
INTO v_there, v_at, v_at_fence, v_at_holder
                FROM fl_scope WHERE entity = v_entity AND scope = v_scope;
