//! The printed guard statement and triggers, on SQLite.

use fieldlease::mapping::{Dialect, Mapping};
use serde_json::json;

use super::{Cms, applied, edit, loaded, product, rules_of};

const TABLES: &str = "
CREATE TABLE product (id INTEGER PRIMARY KEY, title TEXT, thumb TEXT, stray TEXT);
CREATE TABLE meta (meta_id INTEGER PRIMARY KEY, post INTEGER NOT NULL, k TEXT, v TEXT);
INSERT INTO product VALUES (1, 'Chair', 't', 's');
INSERT INTO meta (post, k, v) VALUES (1, '_seo_title', 'a'), (1, 'foreign', 'b');
";

const RULES: &str = "field_ownership:
  Product:
    editor_owned: [title]
    system_owned: {media: [thumb], seo: [meta._seo_*]}
    storage:
      table: product
      id: id
      places:
        '*': $1
        meta.*: {table: meta, id: post, where: {k: $1}, column: v, unique: false}
";

fn mapping() -> Mapping {
    Mapping::of(rules_of(RULES).entity("Product").unwrap()).unwrap()
}

/// A write of the CMS after it asked; answers the new version.
fn guarded(cms: &Cms, version: &str, write: &str) -> Option<i64> {
    let hash = rules_of(RULES).entity("Product").unwrap().generation.0;
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    cms.sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    let asked = cms.sql.execute_batch(&format!(
        "INSERT INTO fl_guard (operation, type, id, generation, scope, version, changes, writer_kind, writer_name) \
         VALUES (randomblob(16), 'Product', '1', x'{hash}', 'media', {version}, '[{{\"path\": \"thumb\"}}]', 'worker', 'cms')"
    ));
    if asked.is_err() {
        cms.sql.execute_batch("ROLLBACK").unwrap();
        return None;
    }
    cms.sql.execute_batch(write).unwrap();
    cms.sql.execute_batch("DELETE FROM fl_pass; COMMIT").unwrap();
    let version = "SELECT version FROM fl_scope WHERE scope = 'media'";
    cms.sql.query_row(version, [], |row| row.get(0)).ok()
}

#[tokio::test]
async fn a_guarded_write_raises_the_version_and_a_claim_from_before_is_stale() {
    let cms = Cms::new(TABLES);
    let engine = cms.engine(RULES).await;
    assert_eq!(guarded(&cms, "NULL", "UPDATE product SET thumb = 'cms'"), Some(1));
    assert_eq!(guarded(&cms, "0", "UPDATE product SET thumb = 'late'"), None, "the version moved");
    assert_eq!(guarded(&cms, "1", "UPDATE product SET thumb = 'cms2'"), Some(2));

    assert_eq!(loaded(&engine, "1").await["thumb"], json!("cms2"));
    let worker = engine.worker("w");
    let claim = worker.claim(&product("1"), ["media"]).send().await.unwrap();
    let fieldlease::engine::Claiming::Claimed(claim) = claim else { panic!("{claim:?}") };
    assert_eq!(guarded(&cms, "2", "UPDATE product SET thumb = 'late'"), None, "it is claimed");
    assert_eq!(guarded(&cms, "NULL", "UPDATE product SET thumb = 'cms3'"), Some(3));
    let outcome = claim.save().set("thumb", "worker").send().await.unwrap();
    assert_eq!(cms.cells("SELECT version FROM fl_scope WHERE scope = 'media'").len(), 1);
    assert!(matches!(outcome.code(), "applied" | "stale" | "conflict"), "{}", outcome.code());
}

#[tokio::test]
async fn the_trigger_finds_writes_past_the_engine_and_lets_the_others_pass() {
    let cms = Cms::new(TABLES);
    let engine = cms.engine(RULES).await;
    cms.sql.execute_batch(&mapping().trigger_sql(Dialect::Sqlite, false)).unwrap();

    applied(edit(&engine, "1").await.set("title", "Ours").send().await.unwrap());
    guarded(&cms, "NULL", "UPDATE product SET thumb = 'guarded'").unwrap();
    cms.sql
        .execute_batch(
            "UPDATE product SET stray = 'x'; UPDATE meta SET v = 'x' WHERE k = 'foreign'",
        )
        .unwrap();
    assert_eq!(cms.cells("SELECT * FROM fl_bypass"), Vec::<String>::new());

    cms.sql.execute_batch("UPDATE product SET title = 'cron'; UPDATE product SET title = 'cron2'; UPDATE meta SET v = 'cron'").unwrap();
    assert_eq!(
        cms.cells("SELECT type, id, place, times FROM fl_bypass ORDER BY place"),
        [
            "'Product' | '1' | 'meta.v' | Integer(1)",
            "'Product' | '1' | 'product.title' | Integer(2)"
        ]
    );
    // An engine that starts afterwards takes the triggers for what they are.
    cms.engine(RULES).await;
}

#[tokio::test]
async fn the_refusing_trigger_ends_writes_past_the_engine() {
    let cms = Cms::new(TABLES);
    let engine = cms.engine(RULES).await;
    cms.sql.execute_batch(&mapping().trigger_sql(Dialect::Sqlite, true)).unwrap();

    let error = cms.sql.execute_batch("UPDATE product SET title = 'cron'").unwrap_err();
    assert!(
        error.to_string().contains("product.title of Product is written past the engine"),
        "{error}"
    );
    cms.sql.execute_batch("UPDATE product SET stray = 'x'").unwrap();
    applied(edit(&engine, "1").await.set("title", "Ours").send().await.unwrap());
    guarded(&cms, "NULL", "UPDATE product SET thumb = 'guarded'").unwrap();
    assert_eq!(cms.cells("SELECT title, thumb FROM product"), ["'Ours' | 'guarded'"]);
}
