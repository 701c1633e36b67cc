-- Sylius on PostgreSQL.
CREATE TABLE sylius_product (
    id serial PRIMARY KEY,
    main_taxon_id integer DEFAULT NULL,
    code varchar(255) NOT NULL UNIQUE,
    created_at timestamp(0) NOT NULL,
    updated_at timestamp(0) DEFAULT NULL,
    enabled boolean NOT NULL,
    variant_selection_method varchar(255) NOT NULL,
    average_rating double precision NOT NULL DEFAULT 0
);

CREATE TABLE sylius_product_translation (
    id serial PRIMARY KEY,
    translatable_id integer NOT NULL REFERENCES sylius_product (id) ON DELETE CASCADE,
    name varchar(255) NOT NULL,
    slug varchar(255) NOT NULL,
    description text DEFAULT NULL,
    meta_keywords varchar(255) DEFAULT NULL,
    meta_description varchar(255) DEFAULT NULL,
    short_description text DEFAULT NULL,
    locale varchar(255) NOT NULL
);
CREATE UNIQUE INDEX uniq_105a9084180c698989d9b62 ON sylius_product_translation (locale, slug);
CREATE UNIQUE INDEX sylius_product_translation_uniq_trans ON sylius_product_translation (translatable_id, locale);
