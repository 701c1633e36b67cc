-- The stamps of a removed item stay.
-- procedure: fl_write_leaves
-- instead of:
DELETE l FROM fl_stamp AS l
        JOIN JSON_TABLE(p_removed,
-- stands:
DELETE l FROM fl_stamp AS l
        JOIN JSON_TABLE('[]',
