-- Sylius: the columns of sylius_product and sylius_product_translation.
CREATE TABLE sylius_product (
    id int AUTO_INCREMENT NOT NULL,
    main_taxon_id int DEFAULT NULL,
    code varchar(255) NOT NULL,
    created_at datetime NOT NULL,
    updated_at datetime DEFAULT NULL,
    enabled tinyint(1) NOT NULL,
    variant_selection_method varchar(255) NOT NULL,
    average_rating double NOT NULL DEFAULT 0,
    UNIQUE INDEX UNIQ_677B9B7477153098 (code),
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_unicode_ci;

CREATE TABLE sylius_product_translation (
    id int AUTO_INCREMENT NOT NULL,
    translatable_id int NOT NULL,
    name varchar(255) NOT NULL,
    slug varchar(255) NOT NULL,
    description longtext DEFAULT NULL,
    meta_keywords varchar(255) DEFAULT NULL,
    meta_description varchar(255) DEFAULT NULL,
    short_description longtext DEFAULT NULL,
    locale varchar(255) NOT NULL,
    UNIQUE INDEX UNIQ_105A9084180C698989D9B62 (locale, slug),
    UNIQUE INDEX sylius_product_translation_uniq_trans (translatable_id, locale),
    PRIMARY KEY (id),
    CONSTRAINT FK_105A9082C2AC5D3 FOREIGN KEY (translatable_id) REFERENCES sylius_product (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_unicode_ci;
