-- Akeneo PIM, its columns on PostgreSQL.
CREATE TABLE pim_catalog_product (
    id serial PRIMARY KEY,
    family_id integer DEFAULT NULL,
    product_model_id integer DEFAULT NULL,
    family_variant_id integer DEFAULT NULL,
    is_enabled boolean NOT NULL,
    identifier varchar(255) NOT NULL UNIQUE,
    raw_values jsonb NOT NULL,
    created timestamp NOT NULL,
    updated timestamp NOT NULL,
    quantified_associations jsonb DEFAULT NULL
);
