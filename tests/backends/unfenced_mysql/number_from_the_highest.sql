-- The number of a version is the highest one and one more, and nobody holds the entity.
-- procedure: fl_apply
-- instead of:
SET o_number = IF(p_state IS NULL, NULL, v_number + 1);
-- stands:
SELECT COALESCE(MAX(number), 0) + 1 INTO v_number FROM fl_version WHERE entity = v_entity;
        SET o_number = IF(p_state IS NULL, NULL, v_number);
-- instead of:
IF p_exclusive THEN
-- stands:
IF FALSE THEN
-- instead of:
LOCK IN SHARE MODE;
        END IF;
        IF v_entity IS NULL AND p_lifecycle = 'create' AND p_incarnation = 0 THEN
-- stands:
;
        END IF;
        IF v_entity IS NULL AND p_lifecycle = 'create' AND p_incarnation = 0 THEN
