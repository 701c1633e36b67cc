-- A pattern match in place of a range: it takes neighbours along and leaves axis values behind.
-- name: remove_stamps_of_item
DELETE FROM fl_stamp WHERE entity = ?1 AND path LIKE ?2 || '.%';
