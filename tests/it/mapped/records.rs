//! Loading, claiming, saving, creating and deleting where the CMS keeps its records.

use fieldlease::{engine::Claiming, token::Incarnation};
use serde_json::json;

use super::{Cms, applied, edit, loaded, product};

const TABLES: &str = "
CREATE TABLE product (
    id INTEGER PRIMARY KEY,
    sku TEXT UNIQUE,
    title TEXT NOT NULL DEFAULT '',
    price DECIMAL(10,2),
    stock INTEGER,
    big BIGINT,
    active BOOLEAN,
    picture BLOB,
    weight DOUBLE,
    attributes JSON,
    kind TEXT NOT NULL DEFAULT 'product',
    touched TEXT DEFAULT 'never'
);
CREATE TABLE product_text (
    product_id INTEGER NOT NULL REFERENCES product (id),
    locale TEXT NOT NULL,
    name TEXT,
    teaser TEXT,
    PRIMARY KEY (product_id, locale)
);
CREATE TABLE image (
    product_id INTEGER NOT NULL REFERENCES product (id),
    uid TEXT NOT NULL,
    caption TEXT,
    width INTEGER,
    PRIMARY KEY (product_id, uid)
);
CREATE TABLE meta (meta_id INTEGER PRIMARY KEY, post INTEGER NOT NULL, k TEXT, v TEXT);
INSERT INTO product (id, sku, title, price, stock, attributes, kind)
VALUES (1, 's1', 'Chair', 12.5, 5, '{\"color\": \"red\", \"erp_code\": \"x\", \"foreign\": {\"n\": 1.50}}', 'product'),
       (2, 's2', 'Page', NULL, NULL, NULL, 'page');
INSERT INTO product_text VALUES (1, 'de', 'Stuhl', 'alt');
INSERT INTO image VALUES (1, 'a', NULL, NULL);
INSERT INTO meta (post, k, v) VALUES (1, '_note', 'hello'), (1, 'foreign', 'kept'), (1, '_twice', '1'), (1, '_twice', '2'), (1, '_count', '7');
";

const RULES: &str = "field_ownership:
  Product:
    editor_owned: [sku, title, price, big, active, picture, weight, name@locale, attributes.*, meta._*, gallery.#keys, gallery.*.caption]
    system_owned:
      erp: [attributes.erp_*]
      media: [gallery.*.width]
      teaser: {fields: [teaser@locale], split_by: [locale]}
    shared:
      stock: {strategy: counter}
      meta._count: {strategy: counter, group: count}
    storage:
      table: product
      id: id
      where: {kind: product}
      places:
        '*': $1
        attributes.*: {column: attributes, keys: [$1]}
        '*@locale': {table: product_text, id: product_id, where: {locale: $locale}, column: $1}
        meta.*: {table: meta, id: post, where: {k: $1}, column: v, unique: false, absent: delete}
        gallery.*.caption: {table: image, id: product_id, where: {uid: $1}, column: caption}
        gallery.*.width: {table: image, id: product_id, where: {uid: $1}, column: width}
";

#[tokio::test]
async fn a_row_the_engine_never_saw_is_a_record_with_its_types() {
    let cms = Cms::new(TABLES);
    let engine = cms.engine(RULES).await;

    let record = loaded(&engine, "1").await;

    assert_eq!(
        record,
        json!({
            "sku": "s1", "title": "Chair", "price": "12.50", "stock": 5,
            "attributes": {}, "attributes.color": "red", "attributes.erp_code": "x",
            "attributes.foreign": {}, "attributes.foreign.n": 1.5,
            "gallery": {}, "gallery.a": {},
            "name@locale=de": "Stuhl", "teaser@locale=de": "alt",
            "meta": {}, "meta._note": "hello", "meta._twice": "1", "meta._count": 7
        })
    );
    // Another type of the same table, an id that is no number as its column prints it, and one nobody has.
    for id in ["2", "01", "x", "99"] {
        assert!(engine.editor("e").load(&product(id)).await.unwrap().is_none(), "{id}");
    }
    assert_eq!(
        cms.cells("SELECT count(*) FROM fl_entity"),
        ["Integer(0)"],
        "a load writes nothing"
    );
}

#[tokio::test]
async fn a_save_writes_its_own_columns_keys_and_rows_and_nothing_else() {
    let cms = Cms::new(TABLES);
    let engine = cms.engine(RULES).await;
    cms.sql
        .execute_batch(
            "CREATE TABLE written (what TEXT);
             CREATE TRIGGER w AFTER UPDATE OF touched, kind, stock, title ON product BEGIN INSERT INTO written VALUES ('product'); END;
             CREATE TRIGGER t AFTER UPDATE OF teaser ON product_text BEGIN INSERT INTO written VALUES ('text'); END;
             CREATE TRIGGER m AFTER UPDATE ON meta BEGIN INSERT INTO written VALUES (new.k); END;",
        )
        .unwrap();

    let save = edit(&engine, "1")
        .await
        .set("price", "13.1")
        .set("attributes.color", "blue")
        .set("attributes.size", json!({"w": 1}))
        .set("name@locale=de", "Sessel")
        .set("name@locale=fr", "Chaise")
        .set("meta._note", "hi")
        .set("meta._new", "n")
        .set("gallery.a.caption", "front");
    applied(save.send().await.unwrap());

    assert_eq!(
        cms.cells("SELECT price, attributes, touched FROM product WHERE id = 1"),
        [
            r#"Real(13.1) | '{"color":"blue","erp_code":"x","foreign":{"n":1.50},"size":{"w":1}}' | 'never'"#
        ],
    );
    assert_eq!(
        cms.cells("SELECT locale, name, teaser FROM product_text ORDER BY locale"),
        ["'de' | 'Sessel' | 'alt'", "'fr' | 'Chaise' | Null"]
    );
    assert_eq!(
        cms.cells("SELECT group_concat(k || '=' || v) FROM (SELECT * FROM meta ORDER BY meta_id)"),
        ["'_note=hi,foreign=kept,_twice=1,_twice=2,_count=7,_new=n'"]
    );
    assert_eq!(cms.cells("SELECT what FROM written"), ["'_note'"]);
    assert_eq!(loaded(&engine, "1").await["gallery.a.caption"], "front");
}

#[tokio::test]
async fn values_keep_their_type_or_are_refused_before_anything_is_written() {
    let cms = Cms::new(TABLES);
    let engine = cms.engine(RULES).await;
    let save = edit(&engine, "1").await;
    let save = save.set("big", i64::MAX).set("active", true).set("picture", "AP8=");
    applied(save.set("weight", 0.1).set("price", 99).send().await.unwrap());
    let record = loaded(&engine, "1").await;

    for (path, value) in [
        ("big", json!(i64::MAX)),
        ("active", json!(true)),
        ("picture", json!("AP8=")),
        ("weight", json!(0.1)),
        ("price", json!("99.00")),
    ] {
        assert_eq!(record[path], value, "{path}");
    }
    assert_eq!(
        cms.cells("SELECT active, picture FROM product WHERE id = 1"),
        ["Integer(1) | Blob([0, 255])"]
    );
    // The same in another form is no change.
    let same =
        edit(&engine, "1").await.set("price", "99.0").set("big", i64::MAX).send().await.unwrap();
    assert_eq!(same.code(), "unchanged", "{same:#?}");
    for (path, value, code) in [
        ("price", json!("1.005"), "wrong_type"),
        ("price", json!("123456789.00"), "wrong_type"),
        ("big", json!("5"), "wrong_type"),
        ("active", json!(1), "wrong_type"),
        ("picture", json!("?"), "wrong_type"),
        ("title", json!(null), "not_null"),
        ("attributes.a\"b", json!(1), "bad_key"),
        ("meta._twice", json!("3"), "row_twice"),
    ] {
        let error = edit(&engine, "1").await.set(path, value.clone()).send().await.unwrap_err();
        assert_eq!(error.code(), code, "{path} {value}: {error}");
    }
    let taken = edit(&engine, "1").await.set("sku", "s2").send().await.unwrap_err();
    assert_eq!(taken.code(), "constraint", "{taken}");
    assert_eq!(loaded(&engine, "1").await, record);
}

#[tokio::test]
async fn null_in_a_column_is_absent_and_unset_writes_null() {
    let cms = Cms::new(TABLES);
    let engine = cms.engine(RULES).await;
    let editing = engine.clone();
    let null = |path: &'static str| {
        let engine = editing.clone();
        async move { edit(&engine, "1").await.set(path, json!(null)).send().await.unwrap() }
    };

    applied(null("sku").await);
    assert_eq!(cms.cells("SELECT sku FROM product WHERE id = 1"), ["Null"]);
    assert_eq!(loaded(&engine, "1").await.get("sku"), None);
    assert_eq!(null("sku").await.code(), "unchanged");

    // A row that goes when its value does; a key inside a document tells null from absent.
    applied(edit(&engine, "1").await.unset("meta._note").send().await.unwrap());
    assert_eq!(cms.cells("SELECT count(*) FROM meta WHERE k = '_note'"), ["Integer(0)"]);
    applied(null("attributes.color").await);
    assert_eq!(loaded(&engine, "1").await["attributes.color"], json!(null));
    applied(edit(&engine, "1").await.unset("attributes.color").send().await.unwrap());
    assert_eq!(loaded(&engine, "1").await.get("attributes.color"), None);
}

#[tokio::test]
async fn items_in_rows_come_and_go_with_everything_in_them() {
    let cms = Cms::new(TABLES);
    let engine = cms.engine(RULES).await;

    applied(
        edit(&engine, "1").await.set("gallery.b", json!({"caption": "side"})).send().await.unwrap(),
    );
    assert_eq!(cms.cells("SELECT count(*) FROM image"), ["Integer(2)"]);
    let worker = engine.worker("w");
    let claim = worker.claim(&product("1"), ["media"]).send().await.unwrap();
    let Claiming::Claimed(claim) = claim else { panic!("{claim:?}") };
    applied(claim.save().set("gallery.b.width", 80).send().await.unwrap());
    applied(edit(&engine, "1").await.unset("gallery.a").send().await.unwrap());

    assert_eq!(cms.cells("SELECT width FROM image"), ["Integer(80)"]);
    let dropped = claim.save().set("gallery.a.width", 1).send().await.unwrap();
    assert_eq!(dropped.code(), "parent_gone", "{dropped:#?}");
    assert_eq!(
        cms.cells("SELECT count(*) FROM image"),
        ["Integer(1)"],
        "the item is not made again"
    );
}

#[tokio::test]
async fn only_a_create_makes_the_row_of_the_cms() {
    let cms = Cms::new(TABLES);
    let engine = cms.engine(RULES).await;
    let editor = engine.editor("e");

    let missing = editor.save(&product("9")).set("title", "x").send().await.unwrap();
    assert_eq!(missing.code(), "not_found", "{missing:#?}");
    let applying = engine.worker("w").apply(&product("9")).set("attributes.erp_code", "x");
    let applying = applying.unordered().send().await.unwrap();
    assert_eq!(applying.code(), "not_found", "{applying:#?}");
    assert_eq!(cms.cells("SELECT count(*) FROM product WHERE id = 9"), ["Integer(0)"]);

    let create = editor.create(&product("9")).set("title", "Table").set("attributes.color", "red");
    applied(create.set("name@locale=de", "Tisch").send().await.unwrap());
    assert_eq!(
        cms.cells("SELECT title, attributes, kind FROM product WHERE id = 9"),
        [r#"'Table' | '{"color":"red"}' | 'product'"#]
    );
    assert_eq!(loaded(&engine, "9").await["name@locale=de"], "Tisch");
    assert_eq!(
        editor.create(&product("9")).set("title", "x").send().await.unwrap().code(),
        "exists"
    );

    applied(editor.delete(&product("9")).send().await.unwrap());
    assert_eq!(cms.cells("SELECT count(*) FROM product WHERE id = 9"), ["Integer(0)"]);
    assert_eq!(cms.cells("SELECT count(*) FROM product_text WHERE product_id = 9"), ["Integer(0)"]);
    let gone = editor.save(&product("9")).set("title", "x").send().await.unwrap();
    assert_eq!(gone.code(), "gone", "{gone:#?}");
}

#[tokio::test]
async fn what_the_cms_does_behind_our_back_is_seen_at_the_next_load_and_at_the_commit() {
    let cms = Cms::new(TABLES);
    let engine = cms.engine(RULES).await;
    let editor = engine.editor("e");
    applied(edit(&engine, "1").await.set("title", "Ours").send().await.unwrap());

    // A change, between load and save: a counter still counts on what is there.
    let form = editor.load(&product("1")).await.unwrap().unwrap();
    cms.sql.execute("UPDATE product SET stock = 100 WHERE id = 1", []).unwrap();
    applied(editor.save(&product("1")).seen(&form).set("stock", 4).send().await.unwrap());
    assert_eq!(cms.cells("SELECT stock FROM product WHERE id = 1"), ["Integer(99)"]);

    // A removal and a new row under the old id.
    cms.sql.execute_batch("PRAGMA foreign_keys = 0; DELETE FROM product WHERE id = 1").unwrap();
    let gone = editor.save(&product("1")).set("title", "x").send().await.unwrap();
    assert_eq!(gone.code(), "gone", "{gone:#?}");
    let worker = engine.worker("w").claim(&product("1"), ["erp"]).send().await.unwrap();
    assert!(matches!(worker, Claiming::Refused(_)), "{worker:?}");
    cms.sql.execute("INSERT INTO product (id, title) VALUES (1, 'New')", []).unwrap();
    let again = editor.load(&product("1")).await.unwrap().unwrap();
    assert_eq!(again.snapshot.incarnation, Incarnation(1), "nothing of ours saw it missing");
    applied(edit(&engine, "1").await.set("title", "Newer").send().await.unwrap());

    // One the engine removed itself is another record when it comes back.
    applied(editor.delete(&product("1")).send().await.unwrap());
    cms.sql.execute("INSERT INTO product (id, title) VALUES (1, 'Third')", []).unwrap();
    let third = editor.load(&product("1")).await.unwrap().unwrap();
    assert_eq!(third.snapshot.incarnation, Incarnation(2));
    let old = editor.save(&product("1")).seen(&again).set("title", "x").send().await.unwrap();
    assert_eq!(old.code(), "recreated", "{old:#?}");
    applied(editor.save(&product("1")).seen(&third).set("title", "Fourth").send().await.unwrap());
}
