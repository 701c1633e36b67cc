-- One record; {id} is its id.
INSERT INTO wp_posts ({ID}, post_author, post_content, post_title, post_excerpt, post_name, to_ping, pinged, post_content_filtered, guid, menu_order, post_type) VALUES ({id}, 7, 'old', 'new', '', 'chair-{id}', '', '', 'kept: ''"\ä', 'https://shop.example/?p={id}', {id}, 'product');
INSERT INTO wp_postmeta (post_id, meta_key, meta_value) VALUES ({id}, '_edit_lock', '1700000000:1');
INSERT INTO wp_postmeta (post_id, meta_key, meta_value) VALUES ({id}, '_product_attributes', 'a:1:{s:5:"color";s:3:"red";}');
INSERT INTO wp_postmeta (post_id, meta_key, meta_value) VALUES ({id}, 'total_sales', '00012');
