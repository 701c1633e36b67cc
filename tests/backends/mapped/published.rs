//! Tables this project did not design, on both servers.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use fieldlease::testing::race::{Race, through_engine};

use super::Cms;
use crate::servers::Dialect;

/// What a CMS has, where the race's fields lie in it, and the columns nobody owns.
struct Published {
    postgres: &'static str,
    mysql: &'static str,
    rows: &'static str,
    places: &'static str,
    fields: u32,
    foreign: fn(Dialect) -> String,
}

const WOOCOMMERCE: Published = Published {
    postgres: include_str!("../../data/mapped/woocommerce.postgres.sql"),
    mysql: include_str!("../../data/mapped/woocommerce.mysql.sql"),
    rows: include_str!("../../data/mapped/woocommerce.rows.sql"),
    places: include_str!("../../data/mapped/woocommerce.places.yaml"),
    fields: 20,
    foreign: |dialect| {
        let id = quoted(dialect, "ID");
        format!(
            "SELECT p.{id}, p.post_author, p.post_name, p.post_content_filtered, p.guid, p.menu_order, \
             p.post_modified, m.meta_id, m.meta_key, m.meta_value FROM wp_posts p JOIN wp_postmeta m \
             ON m.post_id = p.{id} WHERE m.meta_key IN ('_edit_lock', '_product_attributes', 'total_sales') \
             ORDER BY m.meta_id"
        )
    },
};

const SYLIUS: Published = Published {
    postgres: include_str!("../../data/mapped/sylius.postgres.sql"),
    mysql: include_str!("../../data/mapped/sylius.mysql.sql"),
    rows: include_str!("../../data/mapped/sylius.rows.sql"),
    places: include_str!("../../data/mapped/sylius.places.yaml"),
    fields: 3,
    foreign: |_| {
        "SELECT p.id, p.main_taxon_id, p.code, p.created_at, p.enabled, p.average_rating, t.id, t.slug, t.locale, \
         CASE t.locale WHEN 'de_DE' THEN t.meta_keywords WHEN 'fr_FR' THEN t.name ELSE '' END \
         FROM sylius_product p JOIN sylius_product_translation t ON t.translatable_id = p.id ORDER BY t.id"
            .to_owned()
    },
};

const AKENEO: Published = Published {
    postgres: include_str!("../../data/mapped/akeneo.postgres.sql"),
    mysql: include_str!("../../data/mapped/akeneo.mysql.sql"),
    rows: include_str!("../../data/mapped/akeneo.rows.sql"),
    places: include_str!("../../data/mapped/akeneo.places.yaml"),
    fields: 20,
    foreign: |dialect| {
        let key = |key: &str| match dialect {
            Dialect::Postgres => format!("raw_values -> '{key}'"),
            Dialect::MariaDb => format!("JSON_COMPACT(JSON_EXTRACT(raw_values, '$.{key}'))"),
        };
        format!(
            "SELECT id, family_id, is_enabled, identifier, created, updated, quantified_associations, {}, {} \
             FROM pim_catalog_product ORDER BY id",
            key("weight"),
            key("packaging")
        )
    },
};

fn quoted(dialect: Dialect, name: &str) -> String {
    match dialect {
        Dialect::Postgres => format!("\"{name}\""),
        Dialect::MariaDb => name.to_owned(),
    }
}

async fn race_on(cms: &Published, dialect: Dialect) {
    let race = Race {
        editors: 20,
        fields: cms.fields,
        workers: 6,
        records: 5,
        saves: 520,
        think: Duration::from_millis(1),
        ..Race::default()
    };
    let mut ddl = match dialect {
        Dialect::Postgres => cms.postgres.to_owned(),
        Dialect::MariaDb => cms.mysql.to_owned(),
    };
    for id in 1..=race.records {
        let rows = cms.rows.replace("{id}", &id.to_string());
        let rows = rows.replace("{ID}", &quoted(dialect, "ID")).replace("{true}", "true");
        // A backslash is an escape in MariaDB's texts.
        ddl.push_str(&if dialect == Dialect::MariaDb { rows.replace('\\', "\\\\") } else { rows });
    }
    let database = Cms::new(dialect, &ddl).await;
    let foreign = (cms.foreign)(dialect);
    let before = database.database.rows(&foreign);
    let engine = database.engine(&(race.registry() + cms.places)).await;

    let run = through_engine(&race, &engine, Arc::new(AtomicU64::new(0))).await.unwrap();

    assert!(
        run.verdict.holds(),
        "{dialect:?} {:?} {:#?}",
        run.verdict.counts,
        run.verdict.findings
    );
    assert_eq!(run.verdict.saves, race.saves);
    assert!(before.len() >= 5, "{before:?}");
    assert_eq!(database.database.rows(&foreign), before, "a column nobody owns was touched");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_in_posts_and_postmeta_on_postgresql() {
    race_on(&WOOCOMMERCE, Dialect::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_in_posts_and_postmeta_on_mariadb() {
    race_on(&WOOCOMMERCE, Dialect::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_in_translation_rows_on_postgresql() {
    race_on(&SYLIUS, Dialect::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_in_translation_rows_on_mariadb() {
    race_on(&SYLIUS, Dialect::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_in_one_json_column_on_postgresql() {
    race_on(&AKENEO, Dialect::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_in_one_json_column_on_mariadb() {
    race_on(&AKENEO, Dialect::MariaDb).await;
}
