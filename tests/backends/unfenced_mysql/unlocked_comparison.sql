-- Versions are compared as they are, and not locked.
-- procedure: fl_apply
-- instead of:
LEFT JOIN fl_scope AS g ON g.entity = v_entity AND g.scope = w.scope
            FOR UPDATE;
            IF v_missing
-- stands:
LEFT JOIN fl_scope AS g ON g.entity = v_entity AND g.scope = w.scope;
            IF v_missing
