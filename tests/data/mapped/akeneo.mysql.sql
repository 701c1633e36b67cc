-- Akeneo PIM: the columns of pim_catalog_product; every value of a product lies in raw_values.
CREATE TABLE pim_catalog_product (
    id int(11) NOT NULL AUTO_INCREMENT,
    family_id int(11) DEFAULT NULL,
    product_model_id int(11) DEFAULT NULL,
    family_variant_id int(11) DEFAULT NULL,
    is_enabled tinyint(1) NOT NULL,
    identifier varchar(255) NOT NULL,
    raw_values json NOT NULL,
    created datetime NOT NULL,
    updated datetime NOT NULL,
    quantified_associations json DEFAULT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY UNIQ_91CD19C0772E836A (identifier),
    KEY IDX_91CD19C0C35E566A (family_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_unicode_ci;
