-- The version is compared, the claim is not: "fence at write only".
-- procedure: fl_apply
-- instead of:
v_fence <> p_entity_fence OR v_at_fence <> v_wanted_fence
                                           OR NOT (v_at_holder <=> UNHEX(v_wanted_holder))
-- stands:
v_fence <> p_entity_fence
