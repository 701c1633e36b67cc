-- WordPress with WooCommerce, its columns on PostgreSQL.
CREATE TABLE wp_posts (
    "ID" bigserial PRIMARY KEY,
    post_author bigint NOT NULL DEFAULT 0,
    post_date timestamp NOT NULL DEFAULT '1970-01-01 00:00:00',
    post_date_gmt timestamp NOT NULL DEFAULT '1970-01-01 00:00:00',
    post_content text NOT NULL,
    post_title text NOT NULL,
    post_excerpt text NOT NULL,
    post_status varchar(20) NOT NULL DEFAULT 'publish',
    comment_status varchar(20) NOT NULL DEFAULT 'open',
    ping_status varchar(20) NOT NULL DEFAULT 'open',
    post_password varchar(255) NOT NULL DEFAULT '',
    post_name varchar(200) NOT NULL DEFAULT '',
    to_ping text NOT NULL,
    pinged text NOT NULL,
    post_modified timestamp NOT NULL DEFAULT '1970-01-01 00:00:00',
    post_modified_gmt timestamp NOT NULL DEFAULT '1970-01-01 00:00:00',
    post_content_filtered text NOT NULL,
    post_parent bigint NOT NULL DEFAULT 0,
    guid varchar(255) NOT NULL DEFAULT '',
    menu_order integer NOT NULL DEFAULT 0,
    post_type varchar(20) NOT NULL DEFAULT 'post',
    post_mime_type varchar(100) NOT NULL DEFAULT '',
    comment_count bigint NOT NULL DEFAULT 0
);

CREATE TABLE wp_postmeta (
    meta_id bigserial PRIMARY KEY,
    post_id bigint NOT NULL DEFAULT 0,
    meta_key varchar(255) DEFAULT NULL,
    meta_value text
);
CREATE INDEX post_id ON wp_postmeta (post_id);
CREATE INDEX meta_key ON wp_postmeta (meta_key);
