//! Stores by their address: SQLite in a file, PostgreSQL, MariaDB and MySQL.

use std::{path::Path as FilePath, sync::Arc};

use fieldlease::{
    config::{StoreAt, StoreUrl},
    database::{finding::Finding, migration::Migration, postgres::PostgresOptions},
    engine::Store,
    store::{
        mysql::{MysqlOptions, MysqlStore},
        postgres::PostgresStore,
        sqlite::SqliteStore,
    },
};

use crate::output::{Failure, Result};

/// Connections of a service to its server at most, as the stores have by themselves.
const CONNECTIONS: u32 = 8;

/// What is to be done with a SQLite file; servers are shared by all in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    /// It must be there: a misspelt name makes no file.
    Existing,
    /// It is made when it is not there.
    Shared,
    /// As above, and no other service has it.
    Alone,
}

/// Connects to a store whose tables are there.
pub(crate) async fn open(url: &StoreUrl, how: Open) -> Result<Arc<dyn Store>> {
    open_with(url, how, CONNECTIONS).await
}

/// As [`open`], with so many connections to a server at most.
pub(crate) async fn open_with(
    url: &StoreUrl,
    how: Open,
    connections: u32,
) -> Result<Arc<dyn Store>> {
    let connections = usize::try_from(connections).unwrap_or(usize::MAX);
    Ok(match url.at() {
        StoreAt::Sqlite(file) => {
            if how == Open::Existing {
                must_exist(file)?;
            }
            let alone = how == Open::Alone;
            let open = if alone { SqliteStore::open_exclusive } else { SqliteStore::open };
            Arc::new(open(file)?)
        }
        StoreAt::Postgres(url) => {
            let options = PostgresOptions::new(url)?.connections(connections);
            Arc::new(PostgresStore::connect(options).await?)
        }
        StoreAt::Mysql(url) => {
            let options = MysqlOptions::new(url)?.connections(connections);
            Arc::new(MysqlStore::connect(options).await?)
        }
        _ => return Err(unknown(url)),
    })
}

/// Makes what is missing of its tables; answers the names of what was applied.
pub(crate) async fn migrate(url: &StoreUrl) -> Result<Vec<&'static str>> {
    Ok(match url.at() {
        StoreAt::Sqlite(file) => {
            let missing = SqliteStore::outstanding(file)?;
            SqliteStore::open(file)?.close().await;
            missing
        }
        StoreAt::Postgres(url) => PostgresStore::migrate(PostgresOptions::new(url)?).await?,
        StoreAt::Mysql(url) => MysqlStore::migrate(MysqlOptions::new(url)?).await?,
        _ => return Err(unknown(url)),
    })
}

/// What is missing of its tables; nothing is changed.
pub(crate) async fn outstanding(url: &StoreUrl) -> Result<Vec<&'static str>> {
    Ok(match url.at() {
        StoreAt::Sqlite(file) => SqliteStore::outstanding(file)?,
        StoreAt::Postgres(url) => PostgresStore::outstanding(PostgresOptions::new(url)?).await?,
        StoreAt::Mysql(url) => MysqlStore::outstanding(MysqlOptions::new(url)?).await?,
        _ => return Err(unknown(url)),
    })
}

/// Every file its tables are made by, in order.
pub(crate) fn migrations(url: &StoreUrl) -> Result<&'static [Migration]> {
    Ok(match url.at() {
        StoreAt::Sqlite(_) => SqliteStore::migrations(),
        StoreAt::Postgres(_) => PostgresStore::migrations(),
        StoreAt::Mysql(_) => MysqlStore::migrations(),
        _ => return Err(unknown(url)),
    })
}

/// What there is to say about it before records are trusted to it.
pub(crate) async fn checks(url: &StoreUrl) -> Result<Vec<Finding>> {
    Ok(match url.at() {
        StoreAt::Sqlite(file) => {
            must_exist(file)?;
            SqliteStore::checks(file)?
        }
        StoreAt::Postgres(url) => PostgresStore::checks(PostgresOptions::new(url)?).await?,
        StoreAt::Mysql(url) => MysqlStore::checks(MysqlOptions::new(url)?).await?,
        _ => return Err(unknown(url)),
    })
}

fn must_exist(file: &FilePath) -> Result<()> {
    if file.is_file() {
        return Ok(());
    }
    let message = format!("there is no store `{}`", file.display());
    Err(Failure::new("no_such_file", message, ""))
}

pub(crate) fn unknown(url: &StoreUrl) -> Failure {
    Failure::new(
        "bad_store",
        format!("`{url}` names no store"),
        "name a file, or an address like postgres://HOST/DATABASE or mysql://HOST/DATABASE",
    )
}
