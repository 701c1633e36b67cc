//! Types, first contact, creating and deleting, on both servers.

use fieldlease::{engine::Claiming, token::Incarnation};
use serde_json::json;

use super::{Cms, applied, edit, loaded, product};
use crate::servers::Dialect;

const POSTGRES: &str = r#"
CREATE TYPE mood AS ENUM ('calm', 'it''s');
CREATE TABLE product (
    id uuid PRIMARY KEY, title varchar(10) NOT NULL DEFAULT '', price numeric(20,4), stock integer, big bigint,
    active boolean, picture bytea, weight double precision, attributes jsonb, plain json, at timestamptz,
    local timestamp(3), day date, hour time, mood mood, tags text[], sizes integer[], kind text NOT NULL DEFAULT 'product',
    doubled integer GENERATED ALWAYS AS (stock * 2) STORED);
CREATE TABLE product_text (
    product_id uuid NOT NULL REFERENCES product (id), locale text NOT NULL, name text, teaser text,
    PRIMARY KEY (product_id, locale));
INSERT INTO product (id, title, price, stock, attributes)
VALUES ('00000000-0000-4000-8000-000000000001', 'Chair', 12.5, 5, '{"color": "red", "foreign": {"n": 1.50}}');
INSERT INTO product_text VALUES ('00000000-0000-4000-8000-000000000001', 'de', 'Stuhl', 'alt');
"#;

const MARIADB: &str = r#"
CREATE TABLE product (
    id varchar(36) PRIMARY KEY, title varchar(10) NOT NULL DEFAULT '', price decimal(20,4), stock int, big bigint unsigned,
    active tinyint(1), picture blob, weight double, attributes json, plain json, at timestamp(6) NULL,
    local datetime(3), day date, hour time, mood enum('calm', 'it''s'), kind varchar(20) NOT NULL DEFAULT 'product',
    doubled int GENERATED ALWAYS AS (stock * 2) STORED) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
CREATE TABLE product_text (
    product_id varchar(36) NOT NULL, locale varchar(10) NOT NULL, name text, teaser text, PRIMARY KEY (product_id, locale),
    FOREIGN KEY (product_id) REFERENCES product (id)) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
INSERT INTO product (id, title, price, stock, attributes)
VALUES ('00000000-0000-4000-8000-000000000001', 'Chair', 12.5, 5, '{"color": "red", "foreign": {"n": 1.50}}');
INSERT INTO product_text VALUES ('00000000-0000-4000-8000-000000000001', 'de', 'Stuhl', 'alt');
"#;

const ONE: &str = "00000000-0000-4000-8000-000000000001";
const NINE: &str = "00000000-0000-4000-8000-00000000000a";

fn rules(dialect: Dialect) -> String {
    let lists = if dialect == Dialect::Postgres { ", tags, sizes" } else { "" };
    format!(
        "field_ownership:
  Product:
    editor_owned: [title, price, big, active, picture, weight, plain, at, local, day, hour, mood, name@locale, attributes.color, attributes.size{lists}]
    system_owned:
      erp: [attributes.erp_*]
      teaser: {{fields: [teaser@locale], split_by: [locale]}}
    shared: {{stock: {{strategy: counter}}}}
    storage:
      table: product
      id: id
      where: {{kind: product}}
      places:
        '*': $1
        attributes.*: {{column: attributes, keys: [$1]}}
        '*@locale': {{table: product_text, id: product_id, where: {{locale: $locale}}, column: $1}}
"
    )
}

async fn cms(dialect: Dialect) -> Cms {
    Cms::new(dialect, if dialect == Dialect::Postgres { POSTGRES } else { MARIADB }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_comes_back_as_it_was_written() {
    for dialect in Dialect::ALL {
        let cms = cms(dialect).await;
        let engine = cms.engine(&rules(dialect)).await;
        let mut values = vec![
            ("title", json!("Stühle")),
            ("price", json!("1234567890123456.7890")),
            ("big", json!(9_223_372_036_854_775_807_i64)),
            ("active", json!(true)),
            ("picture", json!("AP8AJw==")),
            ("weight", json!(0.1)),
            ("plain", json!({"a": [1, "x", null]})),
            ("at", json!("2026-03-29T00:30:00.25Z")),
            ("local", json!("2026-03-29T02:30:00.125")),
            ("day", json!("2026-02-28")),
            ("hour", json!("23:59:59")),
            ("mood", json!("it's")),
            ("name@locale=fr", json!("Chaise \\ \"x\" '%_")),
            ("attributes.size", json!({"w": 1.25, "list": []})),
        ];
        if dialect == Dialect::Postgres {
            values.push(("tags", json!(["a", "b,c", "\"q\"", null])));
            values.push(("sizes", json!([1, -2])));
        }
        let mut save = edit(&engine, ONE).await;
        for (path, value) in &values {
            save = save.set(*path, value.clone());
        }
        applied(save.send().await.unwrap());

        let loaded = engine.editor("e").load(&product(ONE)).await.unwrap().unwrap();
        for (path, value) in values {
            let path = fieldlease::path::Path::parse(path).unwrap();
            assert_eq!(
                loaded.snapshot.record.get(&path).json(),
                Some(&value),
                "{dialect:?} {path}"
            );
        }
        let foreign = match dialect {
            Dialect::Postgres => "SELECT attributes #>> '{foreign,n}' FROM product",
            Dialect::MariaDb => "SELECT JSON_EXTRACT(attributes, '$.foreign.n') FROM product",
        };
        assert_eq!(cms.database.rows(foreign), [["1.50"]], "{dialect:?}");
        let same = edit(&engine, ONE).await.set("price", "1234567890123456.789");
        let same = same.set("at", "2026-03-29T02:30:00.250+02:00").send().await.unwrap();
        assert_eq!(same.code(), "unchanged", "{dialect:?}");
        for (path, value, code) in [
            ("price", json!("1.00001"), "wrong_type"),
            ("big", json!(-1.5), "wrong_type"),
            ("title", json!("longer than ten"), "wrong_type"),
            ("title", json!(null), "not_null"),
            ("mood", json!("angry"), "wrong_type"),
            ("local", json!("2026-03-29T02:30:00.1234"), "wrong_type"),
        ] {
            let error = edit(&engine, ONE).await.set(path, value).send().await.unwrap_err();
            assert_eq!(error.code(), code, "{dialect:?} {path}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn first_contact_create_and_delete_are_alike_everywhere() {
    for dialect in Dialect::ALL {
        let cms = cms(dialect).await;
        let engine = cms.engine(&rules(dialect)).await;
        let editor = engine.editor("e");

        // A claim is the first the engine hears of the row.
        let claim = engine.worker("w").claim(&product(ONE), ["erp"]).send().await.unwrap();
        let Claiming::Claimed(claim) = claim else { panic!("{dialect:?} {claim:?}") };
        assert_eq!(claim.record().record.to_json()["attributes.color"], "red");
        applied(claim.save().set("attributes.erp_code", "x").send().await.unwrap());
        assert_eq!(loaded(&engine, ONE).await["attributes.erp_code"], "x");
        // An id in other letters is the same to the database, and no record.
        assert!(editor.load(&product(&NINE.to_uppercase())).await.unwrap().is_none());

        let missing = editor.save(&product(NINE)).set("title", "x").send().await.unwrap();
        assert_eq!(missing.code(), "not_found", "{dialect:?}");
        let create =
            editor.create(&product(NINE)).set("title", "Table").set("attributes.color", "red");
        applied(create.set("name@locale=de", "Tisch").send().await.unwrap());
        assert_eq!(loaded(&engine, NINE).await["name@locale=de"], "Tisch");
        let again = editor.create(&product(NINE)).set("title", "x").send().await.unwrap();
        assert_eq!(again.code(), "exists", "{dialect:?}");
        applied(editor.delete(&product(NINE)).send().await.unwrap());
        assert_eq!(cms.database.number("SELECT count(*) FROM product_text"), 1);
        let gone = editor.save(&product(NINE)).set("title", "x").send().await.unwrap();
        assert_eq!(gone.code(), "gone", "{dialect:?}");
        cms.sql(&format!("INSERT INTO product (id, title) VALUES ('{NINE}', 'New')"));
        let second = editor.load(&product(NINE)).await.unwrap().unwrap();
        assert_eq!(second.snapshot.incarnation, Incarnation(2), "{dialect:?}");
        applied(
            editor.save(&product(NINE)).seen(&second).set("title", "Newer").send().await.unwrap(),
        );

        // The CMS changes and removes rows by itself.
        let form = editor.load(&product(ONE)).await.unwrap().unwrap();
        cms.sql("UPDATE product SET stock = 100");
        applied(editor.save(&product(ONE)).seen(&form).set("stock", 4).send().await.unwrap());
        assert_eq!(
            cms.database.number(&format!("SELECT stock FROM product WHERE id = '{ONE}'")),
            99
        );
        cms.sql(&format!("DELETE FROM product WHERE id = '{NINE}'"));
        let refused = engine.worker("w").claim(&product(NINE), ["erp"]).send().await.unwrap();
        assert!(matches!(refused, Claiming::Refused(_)), "{dialect:?} {refused:?}");
        let gone = editor.save(&product(NINE)).set("title", "x").send().await.unwrap();
        assert_eq!(gone.code(), "gone", "{dialect:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_said_at_start_with_its_line() {
    for dialect in Dialect::ALL {
        let cms = cms(dialect).await;
        let trigger = match dialect {
            Dialect::Postgres => {
                "CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.title := upper(NEW.title); RETURN NEW; END'; \
                 CREATE TRIGGER shout BEFORE UPDATE ON product FOR EACH ROW EXECUTE FUNCTION t()"
            }
            Dialect::MariaDb => {
                "CREATE TRIGGER shout BEFORE UPDATE ON product FOR EACH ROW SET NEW.title = UPPER(NEW.title)"
            }
        };
        cms.sql(trigger);
        for (field, place, code) in [
            ("doubled", "$1", "generated_column"),
            ("title", "$1", "trigger_rewrites"),
            ("titel", "$1", "column_missing"),
            ("x", "{column: kind, keys: [$1]}", "not_json"),
        ] {
            let text = format!(
                "field_ownership:\n  Product:\n    editor_owned: [{field}]\n    storage:\n      table: product\n      id: id\n      places:\n        '*': {place}\n"
            );
            let error = cms.try_engine(&text).await.map(|_| ()).unwrap_err();
            assert_eq!(error.code(), code, "{dialect:?}: {error}");
            assert!(error.to_string().contains("line "), "{error}");
        }
    }
}
