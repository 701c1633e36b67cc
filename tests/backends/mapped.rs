//! Mapped mode on the servers: the published tables of three systems, types, and what others write.

mod guard;
mod published;
mod records;

use std::sync::Arc;

use fieldlease::{
    database::postgres::PostgresOptions,
    engine::{Engine, Outcome, Save},
    entity::EntityRef,
    registry::{self, Limits, Registry},
    store::{
        mysql::{MysqlOptions, MysqlStore},
        postgres::PostgresStore,
    },
    strategy::Strategies,
};
use serde_json::Value as Json;

use crate::servers::{Database, Dialect};

/// A database of a CMS with our tables beside its own.
pub(crate) struct Cms {
    pub(crate) database: Database<'static>,
}

impl Cms {
    pub(crate) async fn new(dialect: Dialect, ddl: &str) -> Self {
        let database = Database::new(dialect);
        let url = database.url();
        match dialect {
            Dialect::Postgres => {
                PostgresStore::migrate(PostgresOptions::new(&url).unwrap()).await.unwrap();
            }
            Dialect::MariaDb => {
                MysqlStore::migrate(MysqlOptions::new(&url).unwrap()).await.unwrap();
            }
        }
        let cms = Self { database };
        cms.sql(ddl);
        cms
    }

    /// As the CMS's own user.
    pub(crate) fn sql(&self, text: &str) {
        let own = match self.database.dialect() {
            Dialect::Postgres => format!("SET ROLE fl; {text}"),
            Dialect::MariaDb => format!("SET sql_mode = 'STRICT_ALL_TABLES'; {text}"),
        };
        self.database.sql(&own);
    }

    /// A printed file, as its client program reads it.
    pub(crate) fn sql_file(&self, text: &str) {
        self.database.sql(text);
    }

    pub(crate) async fn try_engine(&self, rules: &str) -> fieldlease::Result<Engine> {
        let builder = Engine::builder(Arc::new(rules_of(rules))).source(rules);
        let url = self.database.url();
        let builder = match self.database.dialect() {
            Dialect::Postgres => {
                let store = PostgresStore::connect(PostgresOptions::new(&url).unwrap()).await;
                builder.store(Arc::new(store.unwrap()))
            }
            Dialect::MariaDb => {
                let store = MysqlStore::connect(MysqlOptions::new(&url).unwrap()).await;
                builder.store(Arc::new(store.unwrap()))
            }
        };
        builder.build().await
    }

    pub(crate) async fn engine(&self, rules: &str) -> Engine {
        self.try_engine(rules).await.unwrap()
    }
}

pub(crate) fn rules_of(text: &str) -> Registry {
    let (raw, faults) = registry::read(text.as_bytes(), &Limits::default());
    assert!(raw.is_some(), "{faults:#?}");
    let (rules, faults) = registry::resolve(&raw.unwrap(), &Strategies::standard());
    rules.unwrap_or_else(|| panic!("{faults:#?}"))
}

pub(crate) fn product(id: &str) -> EntityRef {
    EntityRef::new("Product", id).unwrap()
}

/// The record as an editor loads it.
pub(crate) async fn loaded(engine: &Engine, id: &str) -> Json {
    let loaded = engine.editor("e").load(&product(id)).await.unwrap().unwrap();
    loaded.snapshot.record.to_json()
}

/// An editor's save on what is there now.
pub(crate) async fn edit(engine: &Engine, id: &str) -> Save {
    let editor = engine.editor("e");
    let loaded = editor.load(&product(id)).await.unwrap().unwrap();
    editor.save(&product(id)).seen(&loaded)
}

pub(crate) fn applied(outcome: Outcome) {
    let code = outcome.code();
    assert_eq!(code, "applied", "{outcome:?}");
}
