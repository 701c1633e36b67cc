-- Sylius on SQLite.
CREATE TABLE sylius_product (
    id integer PRIMARY KEY AUTOINCREMENT NOT NULL,
    main_taxon_id integer DEFAULT NULL,
    code varchar(255) NOT NULL UNIQUE,
    created_at datetime NOT NULL,
    updated_at datetime DEFAULT NULL,
    enabled boolean NOT NULL,
    variant_selection_method varchar(255) NOT NULL,
    average_rating double precision NOT NULL DEFAULT 0
);

CREATE TABLE sylius_product_translation (
    id integer PRIMARY KEY AUTOINCREMENT NOT NULL,
    translatable_id integer NOT NULL REFERENCES sylius_product (id) ON DELETE CASCADE,
    name varchar(255) NOT NULL,
    slug varchar(255) NOT NULL,
    description clob DEFAULT NULL,
    meta_keywords varchar(255) DEFAULT NULL,
    meta_description varchar(255) DEFAULT NULL,
    short_description clob DEFAULT NULL,
    locale varchar(255) NOT NULL
);
CREATE UNIQUE INDEX UNIQ_105A9084180C698989D9B62 ON sylius_product_translation (locale, slug);
CREATE UNIQUE INDEX sylius_product_translation_uniq_trans ON sylius_product_translation (translatable_id, locale);
