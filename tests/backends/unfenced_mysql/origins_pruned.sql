-- The save a present value comes from is pruned like any other.
-- procedure: fl_prune
-- instead of:
AND o.operation NOT IN (SELECT s.operation FROM fl_stamp AS s WHERE s.entity = v_entity)
-- stands:
AND TRUE
