//! Mapped mode on SQLite: records in tables of a CMS.

mod fit;
mod guard;
mod published;
mod records;

use std::{path::PathBuf, sync::Arc, time::Duration};

use fieldlease::{
    engine::{Engine, Outcome, Save},
    entity::EntityRef,
    registry::{self, Limits, Registry},
    store::sqlite::{SqliteOptions, SqliteStore},
    strategy::Strategies,
};
use serde_json::Value as Json;

/// A file of a CMS, with its own tables and rows.
pub struct Cms {
    _folder: tempfile::TempDir,
    pub file: PathBuf,
    pub sql: rusqlite::Connection,
}

impl Cms {
    pub fn new(ddl: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cms.sqlite");
        let sql = rusqlite::Connection::open(&file).unwrap();
        sql.busy_timeout(Duration::from_secs(5)).unwrap();
        sql.execute_batch(ddl).unwrap();
        Self { _folder: folder, file, sql }
    }

    /// Every cell of a query as text with its type, to compare bytes.
    pub fn cells(&self, query: &str) -> Vec<String> {
        let mut statement = self.sql.prepare(query).unwrap();
        let count = statement.column_count();
        let rows = statement.query_map([], |row| {
            let cells = (0..count).map(|at| match row.get_ref(at).unwrap() {
                rusqlite::types::ValueRef::Text(text) => {
                    format!("'{}'", String::from_utf8_lossy(text))
                }
                other => format!("{other:?}"),
            });
            Ok(cells.collect::<Vec<_>>().join(" | "))
        });
        rows.unwrap().map(Result::unwrap).collect()
    }

    pub fn store(&self) -> SqliteStore {
        SqliteStore::open_with(&self.file, SqliteOptions::default().guest()).unwrap()
    }

    pub async fn engine(&self, rules: &str) -> Engine {
        self.try_engine(rules).await.unwrap()
    }

    pub async fn try_engine(&self, rules: &str) -> fieldlease::Result<Engine> {
        let builder = Engine::builder(Arc::new(rules_of(rules))).source(rules);
        builder.store(Arc::new(self.store())).build().await
    }
}

pub fn rules_of(text: &str) -> Registry {
    let (raw, faults) = registry::read(text.as_bytes(), &Limits::default());
    assert!(raw.is_some(), "{faults:#?}");
    let (rules, faults) = registry::resolve(&raw.unwrap(), &Strategies::standard());
    rules.unwrap_or_else(|| panic!("{faults:#?}"))
}

pub fn product(id: &str) -> EntityRef {
    EntityRef::new("Product", id).unwrap()
}

/// The record as an editor loads it.
pub async fn loaded(engine: &Engine, id: &str) -> Json {
    let loaded = engine.editor("e").load(&product(id)).await.unwrap().unwrap();
    loaded.snapshot.record.to_json()
}

/// An editor's save on what is there now.
pub async fn edit(engine: &Engine, id: &str) -> Save {
    let editor = engine.editor("e");
    let loaded = editor.load(&product(id)).await.unwrap().unwrap();
    editor.save(&product(id)).seen(&loaded)
}

pub fn applied(outcome: Outcome) {
    let code = outcome.code();
    assert_eq!(code, "applied", "{outcome:?}");
}
