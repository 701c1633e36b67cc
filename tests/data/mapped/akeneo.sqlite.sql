-- Akeneo PIM, its columns on SQLite.
CREATE TABLE pim_catalog_product (
    id integer PRIMARY KEY AUTOINCREMENT,
    family_id int DEFAULT NULL,
    product_model_id int DEFAULT NULL,
    family_variant_id int DEFAULT NULL,
    is_enabled boolean NOT NULL,
    identifier varchar(255) NOT NULL UNIQUE,
    raw_values json NOT NULL,
    created datetime NOT NULL,
    updated datetime NOT NULL,
    quantified_associations json DEFAULT NULL
);
