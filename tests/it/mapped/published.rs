//! Tables this project did not design: the published columns of WooCommerce, Sylius and Akeneo.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use fieldlease::testing::race::{Race, through_engine};

use super::{Cms, rules_of};

/// What a CMS has, where the race's fields lie in it, and the columns nobody owns.
struct Published {
    ddl: &'static str,
    rows: &'static str,
    places: &'static str,
    fields: u32,
    foreign: &'static str,
}

const WOOCOMMERCE: Published = Published {
    ddl: include_str!("../../data/mapped/woocommerce.sqlite.sql"),
    rows: include_str!("../../data/mapped/woocommerce.rows.sql"),
    places: include_str!("../../data/mapped/woocommerce.places.yaml"),
    fields: 20,
    foreign: "SELECT ID, post_author, post_name, post_content_filtered, guid, menu_order, post_modified, \
              (SELECT group_concat(meta_id || meta_key || meta_value, ';') FROM wp_postmeta \
               WHERE post_id = ID AND meta_key IN ('_edit_lock', '_product_attributes', 'total_sales')) \
              FROM wp_posts ORDER BY ID",
};

const SYLIUS: Published = Published {
    ddl: include_str!("../../data/mapped/sylius.sqlite.sql"),
    rows: include_str!("../../data/mapped/sylius.rows.sql"),
    places: include_str!("../../data/mapped/sylius.places.yaml"),
    fields: 3,
    foreign: "SELECT p.id, p.main_taxon_id, p.code, p.created_at, p.enabled, p.average_rating, t.id, t.slug, \
              t.locale, iif(t.locale = 'de_DE', t.meta_keywords, iif(t.locale = 'fr_FR', t.name, '')) \
              FROM sylius_product p JOIN sylius_product_translation t ON t.translatable_id = p.id ORDER BY t.id",
};

const AKENEO: Published = Published {
    ddl: include_str!("../../data/mapped/akeneo.sqlite.sql"),
    rows: include_str!("../../data/mapped/akeneo.rows.sql"),
    places: include_str!("../../data/mapped/akeneo.places.yaml"),
    fields: 20,
    foreign: "SELECT id, family_id, is_enabled, identifier, created, updated, quantified_associations, \
              raw_values -> '$.weight', raw_values -> '$.packaging' FROM pim_catalog_product ORDER BY id",
};

async fn race_on(cms: &Published) {
    let race = Race {
        editors: 20,
        fields: cms.fields,
        workers: 6,
        records: 5,
        saves: 1_300,
        think: Duration::from_millis(1),
        ..Race::default()
    };
    let mut ddl = cms.ddl.to_owned();
    for id in 1..=race.records {
        let rows = cms.rows.replace("{id}", &id.to_string()).replace("{ID}", "ID");
        ddl.push_str(&rows.replace("{true}", "1"));
    }
    let file = Cms::new(&ddl);
    let before = file.cells(cms.foreign);
    let rules = race.registry() + cms.places;
    assert!(rules_of(&rules).entity("Product").unwrap().not_yet.is_empty());
    let engine = file.engine(&rules).await;

    let run = through_engine(&race, &engine, Arc::new(AtomicU64::new(0))).await.unwrap();

    assert!(run.verdict.holds(), "{:?} {:#?}", run.verdict.counts, run.verdict.findings);
    assert_eq!(run.verdict.saves, race.saves);
    assert!(!before.is_empty());
    assert_eq!(file.cells(cms.foreign), before, "a column nobody owns was touched");
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_editors_and_six_workers_lose_nothing_in_posts_and_postmeta() {
    race_on(&WOOCOMMERCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_editors_and_six_workers_lose_nothing_in_translation_rows() {
    race_on(&SYLIUS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_editors_and_six_workers_lose_nothing_in_one_json_column() {
    race_on(&AKENEO).await;
}
