//! The command and the service over databases.

use std::process::Stdio;

use serde_json::{Value as Json, json};

use crate::{
    command::Ran,
    servers::{Database, DatabaseSetup, Dialect, Flavour, Server},
    service::{Service, binary},
};

/// The command in an empty folder, with this store in its surroundings.
fn ran(store: &str, args: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let mut command = binary(dir.path());
    let output = command.env("FIELDLEASE_STORE", store).args(args).stdin(Stdio::null()).output();
    let output = output.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran {
        code: output.status.code(),
        signal: None,
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

fn migrated(database: &Database<'_>) -> String {
    let url = database.url();
    let ran = ran(&url, &["migrate"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    url
}

#[test]
fn a_store_is_made_once_and_looked_at_without_a_change() {
    for dialect in Dialect::ALL {
        let server = DatabaseSetup::new(dialect).password("s3cret").start();
        let database = server.database();
        let url = database.url();
        let place = url.replace("fl:s3cret@", "");
        assert!(url.contains("s3cret"));

        let missing = ran(&url, &["migrate", "--dry-run", "--json"]).lines().remove(0);
        assert_eq!(missing["store"], json!(place));
        let names = missing["missing"].as_array().unwrap().clone();
        assert!(names.len() >= 2 && names[0] == "init", "{names:?}");
        let unmade = ran(&url, &["history", "Product/1", "--json"]);
        assert_eq!(unmade.code, Some(7), "{unmade:?}");
        assert!(unmade.out.contains("no_schema") && unmade.out.contains("fieldlease migrate"));

        let applied = ran(&url, &["migrate", "--json"]).lines().remove(0);
        assert_eq!(applied["applied"], json!(names));
        let again = ran(&url, &["migrate"]);
        assert_eq!(again.out, format!("{place}: up to date\n"), "{again:?}");
        assert_eq!(ran(&url, &["migrate", "--dry-run"]).out, again.out);
        let none = ran(&url, &["history", "Product/1"]);
        assert_eq!(none.code, Some(3), "{none:?}");

        let printed = ran(&url, &["migrate", "--print", "--json"]).lines();
        assert_eq!(printed.len(), names.len());
        assert!(printed[0]["sql"].as_str().unwrap().contains("CREATE TABLE"), "{dialect:?}");
        let entered = database.number("select count(*) from fl_migration");
        assert_eq!(entered, i64::try_from(names.len()).unwrap());
        for ran in [unmade, again, none] {
            assert!(!format!("{ran:?}").contains("s3cret"), "{ran:?}");
        }
    }
}

#[test]
fn services_share_their_records_over_one_database_and_their_leases_over_one_redis() {
    for dialect in Dialect::ALL {
        let database = Database::new(dialect);
        let url = migrated(&database);
        let redis = Server::start(Flavour::Redis7, &[]);
        let service = || {
            let more = ["--store", &url, "--leases", &redis.url()];
            Service::start_in(tempfile::tempdir().unwrap(), &more)
        };
        let (one, two) = (service(), service());
        one.product("1", json!({"name": "Stool"}));

        let save = json!({"changes": {"description": "Oak"}});
        let saved = two.post("anna", "/v1/entities/Product/1/save", save);
        assert_eq!(saved.status, 200, "{saved:?}");
        let save = json!({"changes": {"thumbnail": "a.webp"}});
        let saved = one.post("thumbs", "/v1/entities/Product/1/save", save);
        assert_eq!(saved.status, 200, "{saved:?}");

        let read = two.get("anna", "/v1/entities/Product/1").body;
        assert_eq!(read["fields"]["thumbnail"], "a.webp", "{read}");
        assert_eq!(read["fields"]["description"], "Oak", "{read}");
        let history = ran(&url, &["history", "Product/1", "--json"]).lines();
        let versions: Vec<&Json> = history.iter().map(|entry| &entry["version"]).collect();
        assert_eq!(versions, [&Json::Null, &json!(2), &json!(1)], "{dialect:?}");
        let blamed = ran(&url, &["blame", "Product/1", "thumbnail", "--json"]).lines().remove(0);
        assert_eq!(blamed["thumbnail"]["writer"]["name"], "thumbs", "{blamed}");
    }
}

#[test]
fn what_stands_against_a_store_is_told_with_a_remedy() {
    let database = Database::new(Dialect::MariaDb);
    let before = ran(&database.url(), &["doctor", "--json"]);
    assert_eq!(before.code, Some(1), "{before:?}");
    let codes = |ran: &Ran| -> Vec<String> {
        ran.lines().iter().map(|it| it["code"].as_str().unwrap().to_owned()).collect()
    };
    let url = migrated(&database);
    let after = ran(&url, &["doctor", "--json"]);
    assert_eq!(after.code, Some(0), "{after:?}");
    assert!(codes(&before).len() > codes(&after).len(), "{before:?} {after:?}");
    for finding in after.lines() {
        assert!(!finding["remedy"].as_str().unwrap().is_empty(), "{finding}");
        assert!(finding["place"].as_str().unwrap().starts_with("mysql://127.0.0.1:"), "{finding}");
    }

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.db");
    let url = format!("sqlite:{}", file.display());
    assert_eq!(ran(&url, &["doctor"]).code, Some(3), "looking makes no file");
    assert_eq!(ran(&url, &["migrate"]).code, Some(0));
    assert_eq!(codes(&ran(&url, &["doctor", "--json"])), ["one_machine"]);
    let mut bytes = std::fs::read(&file).unwrap();
    let end = bytes.len();
    bytes[4096..end].fill(0x5a);
    std::fs::write(&file, bytes).unwrap();
    let damaged = ran(&url, &["doctor", "--json"]);
    assert_eq!(damaged.code, Some(1), "{damaged:?}");
}

#[test]
fn columns_that_were_written_past_the_engine_are_named() {
    let entered = "INSERT INTO fl_bypass (type, id, place, times, who, first_at, last_at) \
                   SELECT 'Product', n.id, n.place, n.times, 'cron', NOW(), NOW() FROM (\
                   SELECT '1' AS id, 'product.title' AS place, 3 AS times UNION ALL \
                   SELECT '2', 'product.title', 4 UNION ALL SELECT '1', 'product.price', 2) AS n";
    let told = |url: &str| {
        // Servers of the tests do without `fsync`, which is a finding of its own.
        let found = ran(url, &["doctor", "--json"]);
        assert!(matches!(found.code, Some(0 | 1)), "{found:?}");
        let mut told = found.lines().into_iter().filter(|finding| finding["code"] == "bypassed");
        told.next().map(|finding| finding["message"].as_str().unwrap().to_owned())
    };
    let end = "product.title (7 times), product.price (2 times)";
    for dialect in Dialect::ALL {
        let database = Database::new(dialect);
        let url = migrated(&database);
        assert_eq!(told(&url), None);
        database.sql(entered);
        assert!(told(&url).unwrap().ends_with(end), "{dialect:?}: {:?}", told(&url));
    }
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("a.db").display());
    assert_eq!(ran(&url, &["migrate"]).code, Some(0));
    let file = rusqlite::Connection::open(dir.path().join("a.db")).unwrap();
    let entered = entered.replace(" who,", "").replace(" 'cron',", "").replace("NOW()", "0");
    file.execute(&entered, []).unwrap();
    assert!(told(&url).unwrap().ends_with(end), "{:?}", told(&url));
}

/// Every store the product has, with its tables.
fn every_store(test: impl Fn(&str)) {
    for dialect in Dialect::ALL {
        test(&migrated(&Database::new(dialect)));
    }
    let dir = tempfile::tempdir().unwrap();
    test(&format!("sqlite:{}", dir.path().join("a.db").display()));
}

#[test]
fn saves_are_measured_beside_two_bare_shapes() {
    every_store(|url| {
        let ran = ran(url, &["bench", "saves", "--tasks", "3", "--seconds", "0.3", "--json"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let lines = ran.lines();
        let shapes: Vec<&Json> = lines.iter().map(|line| &line["shape"]).collect();
        assert_eq!(shapes, ["bare_update", "fenced_save", "transaction"]);
        for line in &lines {
            assert!(line["saves_per_s"].as_u64().unwrap() > 0, "{line}");
            assert!(line["p99_us"].as_u64() >= line["p50_us"].as_u64(), "{line}");
        }
    });
}

#[test]
fn a_race_is_run_on_a_store_and_never_among_somebodys_own_records() {
    every_store(|url| {
        let race = ["race", "--store", url, "--saves", "300", "--records", "3", "--seed", "5"];
        let args = [&race[..], &["--json"]].concat();
        for turn in 0..2 {
            let ran = ran(url, &args);
            assert_eq!(ran.code, Some(0), "turn {turn}: {ran:?}");
            let line = ran.lines().remove(0);
            assert_eq!(line["engine"]["lost_updates"], 0, "{line}");
            assert_eq!(line["engine"]["saves"], 300, "{line}");
        }
    });

    let database = Database::new(Dialect::Postgres);
    let url = migrated(&database);
    let (ended, _) = Service::start_in(tempfile::tempdir().unwrap(), &["--store", &url]).stop();
    assert!(ended);
    let refused = ran(&url, &["race", "--store", &url, "--json"]);
    assert_eq!(refused.code, Some(7), "{refused:?}");
    assert!(refused.out.contains("foreign_rules"), "{refused:?}");
}
