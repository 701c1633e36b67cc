//! The printed guard statement and triggers, on both servers.

use fieldlease::mapping::{Dialect as Spoken, Mapping};

use super::{Cms, applied, edit, product, rules_of};
use crate::servers::Dialect;

const TABLES: &str = "
CREATE TABLE product (id integer PRIMARY KEY, title varchar(50), thumb varchar(50), stray varchar(50));
CREATE TABLE meta (meta_id integer PRIMARY KEY, post integer NOT NULL, k varchar(50), v varchar(50));
INSERT INTO product VALUES (1, 'Chair', 't', 's');
INSERT INTO meta (meta_id, post, k, v) VALUES (1, 1, '_seo_title', 'a'), (2, 1, 'foreign', 'b');
";

const RULES: &str = "field_ownership:
  Product:
    lifecycle: {create: []}
    editor_owned: [title]
    system_owned: {media: [thumb], seo: [meta._seo_*]}
    storage:
      table: product
      id: id
      places:
        '*': $1
        meta.*: {table: meta, id: post, where: {k: $1}, column: v, unique: false}
";

fn spoken(dialect: Dialect) -> Spoken {
    if dialect == Dialect::Postgres { Spoken::Postgres } else { Spoken::Mysql }
}

fn mapping() -> Mapping {
    Mapping::of(rules_of(RULES).entity("Product").unwrap()).unwrap()
}

/// A transaction of the CMS: it asks, then writes. Answers the new version when it was let.
fn guarded(cms: &Cms, dialect: Dialect, version: &str, write: &str) -> String {
    let hash = rules_of(RULES).entity("Product").unwrap().generation.0;
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let changes = r#"'[{"path": "thumb"}]'"#;
    let (begin, asked) = match dialect {
        Dialect::Postgres => (
            "SET ROLE fl; BEGIN;",
            format!(
                "SELECT answer, version FROM fl_guard(gen_random_uuid(), 'Product', '1', '\\x{hash}', 'media', \
                 {version}, NULL, {changes}, NULL, 'worker', 'cms');"
            ),
        ),
        Dialect::MariaDb => (
            "BEGIN;",
            format!(
                "CALL fl_guard(UNHEX(REPLACE(UUID(), '-', '')), 'Product', '1', UNHEX('{hash}'), 'media', \
                 {version}, NULL, {changes}, NULL, 'worker', 'cms');"
            ),
        ),
    };
    let said = cms.database.sql(&format!("{begin} {asked} {write}; COMMIT;"));
    let applied = said.lines().find_map(|line| line.strip_prefix("applied\t"));
    applied.unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn guard_and_trigger_tell_known_writes_from_those_past_the_engine() {
    for dialect in Dialect::ALL {
        let cms = Cms::new(dialect, TABLES).await;
        let engine = cms.engine(RULES).await;
        cms.sql_file(&mapping().trigger_sql(spoken(dialect), false));

        applied(edit(&engine, "1").await.set("title", "Ours").send().await.unwrap());
        assert_eq!(
            guarded(&cms, dialect, "NULL", "UPDATE product SET thumb = 'g'"),
            "1",
            "{dialect:?}"
        );
        assert_eq!(guarded(&cms, dialect, "0", "SELECT 'nothing'"), "", "{dialect:?}: stale");
        assert_eq!(
            guarded(&cms, dialect, "1", "UPDATE product SET thumb = 'h'"),
            "2",
            "{dialect:?}"
        );
        cms.sql("UPDATE product SET stray = 'x'; UPDATE meta SET v = 'x' WHERE k = 'foreign'");
        assert_eq!(cms.database.number("SELECT count(*) FROM fl_bypass"), 0, "{dialect:?}");

        cms.sql("UPDATE product SET title = 'cron'; UPDATE product SET title = 'cron2'; UPDATE meta SET v = 'cron'");
        assert_eq!(
            cms.database.rows("SELECT type, id, place, times FROM fl_bypass ORDER BY place"),
            [["Product", "1", "meta.v", "1"], ["Product", "1", "product.title", "2"]],
            "{dialect:?}"
        );

        cms.sql_file(&mapping().trigger_sql(spoken(dialect), true));
        let error = cms.database.try_sql("UPDATE product SET title = 'cron3'").unwrap_err();
        assert!(error.contains("is written past the engine"), "{dialect:?}: {error}");
        applied(edit(&engine, "1").await.set("title", "Ours again").send().await.unwrap());
        let worker = engine.worker("w").apply(&product("1")).set("thumb", "w").unordered();
        applied(worker.send().await.unwrap());
        cms.engine(RULES).await;
    }
}
