//! Where history is read from: a running service, or the SQLite file itself.

use std::path::PathBuf;

use clap::Args;
use fieldlease::store::sqlite::SqliteStore;

use crate::{
    client::{Client, ServiceArgs},
    output::{Failure, Result},
};

/// A service or a file.
#[derive(Args, Clone, Debug)]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    service: ServiceArgs,
    /// SQLite file to read instead of asking a service
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

/// What was named.
pub(crate) enum Source {
    Service(Client),
    File(SqliteStore),
}

impl SourceArgs {
    /// The file where one is named, else the service.
    pub(crate) fn open(&self) -> Result<Source> {
        let Some(file) = &self.store else { return Ok(Source::Service(self.service.client()?)) };
        // Opening would make the file: a misspelt name must not.
        if !file.is_file() {
            let message = format!("there is no store `{}`", file.display());
            return Err(Failure::new("no_such_file", message, ""));
        }
        Ok(Source::File(SqliteStore::open(file)?))
    }
}

/// Waits for one answer of the library.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("unavailable", format!("cannot start: {error}"), ""))?;
    Ok(runtime.block_on(future))
}
