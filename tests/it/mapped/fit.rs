//! What does not fit is said at start, with the place in the registry.

use super::Cms;

const TABLES: &str = "
CREATE TABLE product (
    id INTEGER PRIMARY KEY,
    sku TEXT NOT NULL DEFAULT '',
    name TEXT,
    price NUMERIC(10, 2),
    total NUMERIC GENERATED ALWAYS AS (price * 2) VIRTUAL,
    attributes JSON,
    notes TEXT CHECK (json_valid(notes)),
    slug TEXT
);
CREATE TRIGGER slugs AFTER UPDATE ON product BEGIN UPDATE product SET slug = lower(new.name) WHERE id = new.id; END;
CREATE TABLE translation (product_id INTEGER NOT NULL, locale TEXT NOT NULL, name TEXT, UNIQUE (product_id, locale));
CREATE TABLE stray (product_id INTEGER NOT NULL, locale TEXT NOT NULL, name TEXT, kind TEXT NOT NULL);
CREATE VIEW shown AS SELECT * FROM product;
CREATE TABLE measured (id REAL PRIMARY KEY, name TEXT);
CREATE TABLE strict_product (id INTEGER PRIMARY KEY, name TEXT, owner TEXT NOT NULL);
";

/// Rules and `storage:` of one case; answers the code and the message.
async fn fault(rules: &str, storage: &str) -> (String, String) {
    let text = format!(
        "field_ownership:\n  Product:\n    editor_owned: [{rules}]\n    storage: {storage}\n"
    );
    let error = Cms::new(TABLES).try_engine(&text).await.map(|_| text).unwrap_err();
    (error.code().to_owned(), error.to_string())
}

/// Fields, storage, code, and words of the message.
const MISFITS: &[(&str, &str, &str, &str)] = &[
    (
        "name",
        "{table: produkt, id: id, places: {name: name}}",
        "table_missing",
        "line 4, column 5: the database has no table `produkt`",
    ),
    ("name", "{table: shown, id: id, places: {name: name}}", "table_missing", "`shown` is a view"),
    (
        "name",
        "{table: product, id: uid, places: {name: name}}",
        "column_missing",
        "the table `product` has no column `uid`",
    ),
    (
        "name",
        "{table: product, id: id, places: {name: title}}",
        "column_missing",
        "line 4, column 48: the table `product` has no column `title`",
    ),
    (
        "nmae",
        "{table: product, id: id, places: {'*': $1}}",
        "column_missing",
        "line 3, column 20: `nmae` lies in `*`",
    ),
    (
        "name",
        "{table: measured, id: id, places: {name: name}}",
        "id_type",
        "`measured.id` is `REAL`: no id of a record",
    ),
    (
        "total",
        "{table: product, id: id, places: {'*': $1}}",
        "generated_column",
        "`product.total` is a generated column",
    ),
    (
        "slug",
        "{table: product, id: id, places: {'*': $1}}",
        "trigger_rewrites",
        "the trigger `slugs` gives `product.slug` another value",
    ),
    (
        "name",
        "{table: product, id: id, places: {name: {column: sku, keys: [a]}}}",
        "not_json",
        "which is `TEXT` and not JSON",
    ),
    (
        "price.amount",
        "{table: product, id: id, places: {price: price}}",
        "column_type",
        "`price.amount` lies inside `price`",
    ),
    (
        "name@locale",
        "{table: product, id: id, places: {name@locale: {table: translation, id: product_id, where: {lang: $locale}, column: name}}}",
        "column_missing",
        "the table `translation` has no column `lang`",
    ),
    (
        "name@locale",
        "{table: product, id: id, places: {name@locale: {table: stray, id: product_id, where: {locale: $locale}, column: name}}}",
        "not_unique",
        "no unique index of `stray`",
    ),
    (
        "name@locale",
        "{table: product, id: id, places: {name@locale: {table: stray, id: product_id, where: {locale: $locale}, column: name, unique: false}}}",
        "column_required",
        "its column `kind` must have a value",
    ),
    (
        "name",
        "{table: strict_product, id: id, places: {name: name}}",
        "column_required",
        "its column `owner` must have a value",
    ),
    (
        "name",
        "{table: product, id: sku, places: {name: name}}",
        "not_unique",
        "no unique index of `product` lies in `sku`",
    ),
    (
        "name",
        "{table: product, id: [id, sku], where: {price: many}, places: {name: name}}",
        "column_type",
        "`many` is no value of `product.price`",
    ),
];

#[tokio::test]
async fn every_misfit_names_its_line_and_what_is_wrong() {
    for &(rules, storage, code, wanted) in MISFITS {
        let (found, message) = fault(rules, storage).await;
        assert_eq!(found, code, "{storage}: {message}");
        assert!(message.contains(wanted), "{message}\n{wanted}");
    }
}

#[tokio::test]
async fn all_misfits_of_a_registry_are_said_in_one_run_in_file_order() {
    let rules = "field_ownership:
  Product:
    editor_owned: [name, total, price]
    storage:
      table: product
      id: id
      places:
        name: title
        total: total
        price: cost
";
    let error = Cms::new(TABLES).try_engine(rules).await.map(|_| ()).unwrap_err();

    let message = error.to_string();
    let at = |text: &str| message.find(text).unwrap_or_else(|| panic!("{text}: {message}"));
    assert!(at("line 8, column 9") < at("line 9, column 9"));
    assert!(at("line 9, column 9") < at("line 10, column 9"));
}

#[tokio::test]
async fn a_strategy_that_counts_needs_a_column_with_numbers() {
    let rules = "field_ownership:
  Product:
    shared: {stock: {strategy: counter}}
    storage: {table: product, id: id, places: {stock: attributes2}}
";
    let tables = TABLES.replace("slug TEXT", "slug TEXT, attributes2 BLOB");
    let error = Cms::new(&tables).try_engine(rules).await.map(|_| ()).unwrap_err();

    assert_eq!(error.code(), "column_type", "{error}");
    assert!(error.to_string().contains("`counter` of `stock` needs whole numbers"), "{error}");
}
