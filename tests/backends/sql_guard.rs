//! The statement `fieldlease sql guard` prints, sent to each database as a CMS would: inside its own transaction.

use std::{
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use fieldlease::{
    Engine, EntityRef, Path, Registry, Writer,
    commit::Trace,
    database::{mysql::MysqlOptions, postgres::PostgresOptions},
    engine::{Claiming, Outcome, Store},
    entity::Value,
    registry::{self, Limits},
    scope::ScopeName,
    store::{mysql::MysqlStore, postgres::PostgresStore, sqlite::SqliteStore},
    strategy::Strategies,
    token::VersionNumber,
};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::servers::{Database, DatabaseServer, Dialect};

const RULES: &str = "
field_ownership:
  Product:
    editor_owned: [title, text]
    system_owned:
      media: [image, thumbs.*]
      tags: {fields: ['label@locale'], split_by: [locale], locking: optimistic}
    shared:
      stock: {strategy: counter}
";

/// Numbers the rows of the callers.
static ASKED: AtomicU32 = AtomicU32::new(1);

/// Where the CMS and the engine both are.
enum Place {
    File(TempDir),
    Server(Box<Database<'static>>),
}

impl Place {
    fn new(dialect: &str) -> Self {
        let server = match dialect {
            "sqlite" => return Self::File(tempfile::tempdir().unwrap()),
            "postgres" => DatabaseServer::shared(Dialect::Postgres),
            _ => DatabaseServer::shared(Dialect::MariaDb),
        };
        let database = server.database();
        database.sql("CREATE TABLE theirs (x INT)");
        Self::Server(Box::new(database))
    }

    async fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::File(folder) => Arc::new(SqliteStore::open(folder.path().join("s.db")).unwrap()),
            Self::Server(database) if database.dialect() == Dialect::Postgres => {
                let options = PostgresOptions::new(&database.url()).unwrap();
                PostgresStore::migrate(options.clone()).await.unwrap();
                Arc::new(PostgresStore::connect(options).await.unwrap())
            }
            Self::Server(database) => {
                let options = MysqlOptions::new(&database.url()).unwrap();
                MysqlStore::migrate(options.clone()).await.unwrap();
                Arc::new(MysqlStore::connect(options).await.unwrap())
            }
        }
    }

    /// Sends a statement inside a transaction of the caller that also writes a row of its own; answers the word, and how
    /// many rows of the caller's are there when it has ended.
    fn asked(&self, statement: &str, end: &str) -> (String, i64) {
        let mine = ASKED.fetch_add(1, Ordering::Relaxed);
        match self {
            Self::File(folder) => {
                let db = rusqlite::Connection::open(folder.path().join("s.db")).unwrap();
                db.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
                db.execute_batch(&format!(
                    "CREATE TABLE IF NOT EXISTS theirs (x INT); \
                     BEGIN IMMEDIATE; INSERT INTO theirs VALUES ({mine})"
                ))
                .unwrap();
                let answer = match db.execute_batch(statement) {
                    Ok(()) => "applied".to_owned(),
                    Err(error) => error.to_string().split(' ').next().unwrap().to_owned(),
                };
                db.execute_batch(end).unwrap();
                let rows = db
                    .query_row("SELECT count(*) FROM theirs WHERE x = ?1", [mine], |row| row.get(0))
                    .unwrap();
                (answer, rows)
            }
            Self::Server(database) => {
                let text = format!(
                    "BEGIN; INSERT INTO theirs VALUES ({mine}); {statement}; {end}; \
                     SELECT 'rows', COUNT(*) FROM theirs WHERE x = {mine}"
                );
                let rows = database.rows(&text);
                let word = |row: &&Vec<String>| {
                    row.len() == 2
                        && (row[1].is_empty() || row[1].parse::<i64>().is_ok())
                        && row[0] != "rows"
                        && !row[0].contains(' ')
                };
                let answer =
                    rows.iter().find(word).unwrap_or_else(|| panic!("{rows:?}"))[0].clone();
                let count = rows.iter().find(|row| row[0] == "rows").unwrap()[1].parse().unwrap();
                (answer, count)
            }
        }
    }
}

/// The printed statement of a group, with every parameter replaced by a literal.
struct Printed {
    dialect: String,
    statement: String,
}

impl Printed {
    fn of(dialect: &str, group: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.yaml");
        std::fs::write(&file, RULES).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_fieldlease"))
            .args(["--json", "sql", "guard", "Product", group, "--dialect", dialect, "--registry"])
            .arg(&file)
            .args(more)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed: Json = serde_json::from_slice(&output.stdout).unwrap();
        let text = printed["statement"].as_str().unwrap();
        let code: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
        let statement = code.join(" ").trim_end_matches(';').to_owned();
        for parameter in printed["parameters"].as_array().unwrap() {
            let name = format!(":{}", parameter["name"].as_str().unwrap());
            assert!(statement.contains(&name), "{name} is named and not in {statement}");
        }
        Self { dialect: dialect.to_owned(), statement }
    }

    fn with(&self, operation: u8, parameters: &[(&str, &str)]) -> String {
        let hex = format!("{operation:02x}").repeat(16);
        let operation = match &*self.dialect {
            "sqlite" => format!("x'{hex}'"),
            _ => format!("'{hex}'"),
        };
        let mut text =
            self.statement.replace(":operation", &operation).replace(":writer", "'their cron'");
        for (name, value) in parameters {
            text = text.replace(&format!(":{name}"), value);
        }
        text
    }
}

fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}

fn entity() -> EntityRef {
    EntityRef::new("Product", "7").unwrap()
}

async fn engine(place: &Place) -> Engine {
    let (rules, found) =
        registry::load(RULES.as_bytes(), &Strategies::standard(), &Limits::default());
    let rules: Registry = rules.unwrap_or_else(|| panic!("{found:?}"));
    let built = Engine::builder(Arc::new(rules)).source(RULES).store(place.store().await).build();
    built.await.unwrap()
}

/// A place with a record of the editor's, and the statement of group `media`.
struct Tried {
    dialect: &'static str,
    place: Place,
    engine: Engine,
    media: Printed,
}

const CHANGE: &str = r#"'[{"path": "image", "old": 1.50, "new": {"b": 1, "a": null}}]'"#;

fn answer(word: &str, rows: i64) -> (String, i64) {
    (word.to_owned(), rows)
}

impl Tried {
    async fn new(dialect: &'static str) -> Self {
        let place = Place::new(dialect);
        let engine = engine(&place).await;
        let anna = engine.editor("anna");
        let created =
            anna.create(&entity()).set("title", "chair").set("text", "t").send().await.unwrap();
        assert!(matches!(created, Outcome::Applied(_)), "{created:?}");
        Self { dialect, place, engine, media: Printed::of(dialect, "media", &[]) }
    }

    fn ask(&self, operation: u8, version: &str, fence: &str, end: &str) -> (String, i64) {
        let parameters =
            [("id", "'7'"), ("version", version), ("fence", fence), ("changes", CHANGE)];
        self.place.asked(&self.media.with(operation, &parameters), end)
    }

    /// Versions: taken back with the caller's transaction, compared, or not.
    fn versions(&self) {
        assert_eq!(self.ask(1, "0", "NULL", "ROLLBACK"), answer("applied", 0));
        assert_eq!(self.ask(1, "0", "NULL", "COMMIT"), answer("applied", 1));
        assert_eq!(self.ask(1, "1", "NULL", "COMMIT"), answer("already", 1));
        assert_eq!(self.ask(2, "0", "NULL", "COMMIT"), answer("stale", 1));
        assert_eq!(self.ask(3, "NULL", "NULL", "COMMIT"), answer("applied", 1));
        for bad in [
            "'[]'",
            r#"'[{"path": "a..b"}]'"#,
            r#"'[{"path": "image"}, {"path": "image"}]'"#,
            r#"'[{"old": 1}]'"#,
        ] {
            let parameters =
                [("id", "'7'"), ("version", "NULL"), ("fence", "NULL"), ("changes", bad)];
            let asked = self.place.asked(&self.media.with(4, &parameters), "COMMIT");
            assert_eq!(asked, answer("bad_change", 1), "{bad}");
        }
    }

    /// Claims: whoever holds the group writes, nobody else, and nobody after a break.
    async fn claims(&self) {
        let worker = self.engine.worker("media");
        let Claiming::Claimed(claim) = worker.claim(&entity(), ["media"]).send().await.unwrap()
        else {
            panic!("nobody holds it")
        };
        let scope = ScopeName::parse("media").unwrap();
        let fence = claim.fences()[&scope].0;
        let (own, other) = (fence.to_string(), (fence + 1).to_string());
        assert_eq!(claim.record().versions[&scope].0, 2);
        assert_eq!(self.ask(5, "2", "NULL", "COMMIT"), answer("fenced", 1));
        assert_eq!(self.ask(5, "2", &other, "COMMIT"), answer("fenced", 1));
        assert_eq!(self.ask(5, "1", &own, "COMMIT"), answer("stale", 1));
        assert_eq!(self.ask(5, "2", &own, "COMMIT"), answer("applied", 1));
        claim.release().await;
        self.engine.break_lease(&entity(), &scope, "stuck").await.unwrap();
        assert_eq!(self.ask(6, "3", &own, "COMMIT"), answer("fenced", 1));
    }

    /// The stamp, the operation record with both values as they were written, and no version.
    async fn traces(&self) {
        let loaded = self.engine.editor("anna").load(&entity()).await.unwrap().unwrap();
        let stamp = &loaded.snapshot.stamps[&path("image")];
        assert_eq!((stamp.version.0, &stamp.writer), (3, &Writer::worker("their cron")));
        let entries = self.engine.history(&entity(), None, 10).await.unwrap();
        assert_eq!(entries.len(), 4, "three writes of the CMS and the creation");
        let changed = &entries[0].changed[0];
        assert_eq!(changed.old, Value::Present(json!(1.50)));
        assert_eq!(changed.new, Value::Present(json!({"a": null, "b": 1})));
        assert_eq!((entries[0].number, loaded.number.0), (None, 1));
    }

    /// An editor's write makes a version with the state it names.
    async fn editors(&self) {
        let edit = Printed::of(self.dialect, "editor", &[]);
        let state = r#"'{"title": "stool", "text": "t"}'"#;
        let change = r#"'[{"path": "title", "old": "chair", "new": "stool"}]'"#;
        let parameters = [("id", "'7'"), ("version", "1"), ("changes", change), ("state", state)];
        assert_eq!(self.place.asked(&edit.with(7, &parameters), "COMMIT"), answer("applied", 1));
        let version = self.engine.version(&entity(), VersionNumber(2)).await.unwrap().unwrap();
        let Trace::Version { state, .. } = version.trace else { panic!("a version") };
        assert_eq!(state.get(&path("title")), Value::Present(json!("stool")));
    }

    /// A split group, a record nobody had heard of, a shared group; then the record goes, and the rules change.
    async fn others(&self) {
        let label = Printed::of(self.dialect, "tags", &[]);
        let change = r#"'[{"path": "label@locale=de", "new": "x"}]'"#;
        let first = [
            ("id", "'new'"),
            ("scope", "'tags[locale=de]'"),
            ("version", "0"),
            ("changes", change),
        ];
        assert_eq!(self.place.asked(&label.with(8, &first), "COMMIT"), answer("applied", 1));
        let anna = self.engine.editor("anna");
        let new = anna.load(&EntityRef::new("Product", "new").unwrap()).await.unwrap().unwrap();
        assert_eq!(new.snapshot.stamps[&path("label@locale=de")].version.0, 1);
        let stock = Printed::of(self.dialect, "shared", &["--writer", "worker"]);
        let change = r#"'[{"path": "stock", "old": 1, "new": 2}]'"#;
        let shared = [("id", "'7'"), ("version", "NULL"), ("changes", change)];
        assert_eq!(self.place.asked(&stock.with(9, &shared), "COMMIT"), answer("applied", 1));
        let deleted = anna.delete(&entity()).send().await.unwrap();
        assert!(matches!(deleted, Outcome::Applied(_)), "{deleted:?}");
        assert_eq!(self.place.asked(&stock.with(10, &shared), "COMMIT"), answer("gone", 1));
        let turned = turn_a_hash(&stock.with(11, &shared));
        assert_eq!(self.place.asked(&turned, "COMMIT"), answer("stale_registry", 1));
    }
}

/// Every answer, and what `applied` leaves behind.
async fn answers(dialect: &'static str) {
    let tried = Tried::new(dialect).await;
    tried.versions();
    tried.claims().await;
    tried.traces().await;
    tried.editors().await;
    tried.others().await;
}

/// The statement with another hash of rules.
fn turn_a_hash(statement: &str) -> String {
    let is_hash = |word: &&str| word.len() == 64 && word.chars().all(|c| c.is_ascii_hexdigit());
    let words = statement.split(|c: char| !c.is_ascii_alphanumeric());
    let hash = words.map(|word| word.trim_start_matches('x')).find(is_hash).unwrap();
    let turned: String = hash.chars().rev().collect();
    statement.replace(hash, &turned)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cms_asks_inside_its_own_transaction_on_sqlite() {
    answers("sqlite").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cms_asks_inside_its_own_transaction_on_postgresql() {
    answers("postgres").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cms_asks_inside_its_own_transaction_on_mariadb() {
    answers("mysql").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_of_a_cms_and_of_the_engine_in_one_group_never_pass_over_each_other() {
    for dialect in ["sqlite", "postgres", "mysql"] {
        race(dialect).await;
    }
}

/// Two programs of the CMS and two workers of the engine, each writing at the version it has seen.
async fn race(dialect: &str) {
    let place = Arc::new(Place::new(dialect));
    let engine = engine(&place).await;
    let created = engine.editor("anna").create(&entity()).set("title", "t").send().await.unwrap();
    assert!(matches!(created, Outcome::Applied(_)), "{created:?}");
    let stock = Arc::new(Printed::of(dialect, "shared", &["--writer", "worker"]));
    let mut running = tokio::task::JoinSet::new();
    for program in 0..2_u8 {
        let (place, stock, editor) =
            (Arc::clone(&place), Arc::clone(&stock), engine.editor("reader"));
        running.spawn(async move {
            let mut applied = 0;
            for number in 0..20_u8 {
                let loaded = editor.load(&entity()).await.unwrap().unwrap();
                let scope = ScopeName::parse("shared").unwrap();
                let version = loaded.snapshot.version(&scope).0.to_string();
                let change = r#"'[{"path": "stock"}]'"#;
                let parameters = [("id", "'7'"), ("version", &*version), ("changes", change)];
                let statement = stock.with(100 + program * 20 + number, &parameters);
                let place = Arc::clone(&place);
                let asked = tokio::task::spawn_blocking(move || place.asked(&statement, "COMMIT"));
                let (answer, _) = asked.await.unwrap();
                assert!(["applied", "stale"].contains(&&*answer), "{answer}");
                applied += u64::from(answer == "applied");
            }
            applied
        });
        let worker = engine.worker("media");
        running.spawn(async move {
            for _ in 0..20 {
                let saved = worker.save(&entity()).add("stock", 1).send().await.unwrap();
                assert!(matches!(saved, Outcome::Applied(_)), "{saved:?}");
            }
            20
        });
    }
    let applied: u64 = running.join_all().await.into_iter().sum();
    let loaded = engine.editor("reader").load(&entity()).await.unwrap().unwrap();
    assert_eq!(
        loaded.snapshot.version(&ScopeName::parse("shared").unwrap()).0,
        applied,
        "{dialect}"
    );
    assert_eq!(loaded.get("stock"), Some(&json!(40)), "{dialect}");
}
