INSERT INTO sylius_product (id, main_taxon_id, code, created_at, enabled, variant_selection_method, average_rating) VALUES ({id}, 3, 'chair-{id}', '2026-01-02 03:04:05', {true}, 'match', 4.5);
INSERT INTO sylius_product_translation (translatable_id, name, slug, locale) VALUES ({id}, 'new', 'chair-{id}', 'en_US');
INSERT INTO sylius_product_translation (translatable_id, name, slug, meta_keywords, locale) VALUES ({id}, 'neu', 'stuhl-{id}', 'bleibt', 'de_DE');
INSERT INTO sylius_product_translation (translatable_id, name, slug, locale) VALUES ({id}, 'nouveau', 'chaise-{id}', 'fr_FR');
