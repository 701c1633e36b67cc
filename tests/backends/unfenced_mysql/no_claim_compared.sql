-- The version is compared, the claim is not: "fence at write only".
-- procedure: fl_apply
-- instead of:
v_fence <> p_entity_fence OR COALESCE(g.fence, 0) <> w.fence
                                           OR NOT (g.holder <=> UNHEX(w.holder))
-- stands:
v_fence <> p_entity_fence
