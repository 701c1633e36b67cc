//! Where history is read from: a running service, or the store itself.

use std::sync::Arc;

use clap::Args;
use fieldlease::{config::StoreUrl, engine::Store};

use crate::{
    client::{Client, ServiceArgs},
    output::{Failure, Result},
    store_at::{self, Open},
};

/// A service or a store.
#[derive(Args, Clone, Debug)]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    service: ServiceArgs,
    /// Store to read instead of asking a service: a SQLite file, postgres://.. or mysql://..; with a password in it, use
    /// the variable
    #[arg(long, value_name = "URL")]
    store: Option<StoreUrl>,
}

/// What was named.
pub(crate) enum Source {
    Service(Client),
    Store(Reader),
}

/// A store, and what its connections live on.
pub(crate) struct Reader {
    runtime: tokio::runtime::Runtime,
    pub(crate) store: Arc<dyn Store>,
}

impl Reader {
    /// Waits for one answer of the store.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

impl SourceArgs {
    /// The store where one is named, else the service.
    pub(crate) fn open(&self) -> Result<Source> {
        let around = || std::env::var("FIELDLEASE_STORE").ok().map(StoreUrl::from);
        let around = if self.service.url.is_none() { around() } else { None };
        let Some(url) = self.store.clone().or(around) else {
            return Ok(Source::Service(self.service.client()?));
        };
        let runtime = runtime()?;
        let store = runtime.block_on(store_at::open(&url, Open::Existing))?;
        Ok(Source::Store(Reader { runtime, store }))
    }
}

/// Waits for one answer of the library.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> Result<T> {
    Ok(runtime()?.block_on(future))
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("unavailable", format!("cannot start: {error}"), ""))
}
