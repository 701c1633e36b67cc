//! Where leases are kept: the memory of this process, Redis and Valkey, or rows of a database.

use std::sync::Arc;

use fieldlease::{
    config::{LeaseUrl, NAMESPACE, RowsAt},
    database::{mysql::MysqlOptions, postgres::PostgresOptions},
    event::EventSink,
    lease::{
        LeaseStore,
        memory::MemoryLeases,
        redis::{self, Opened, RedisOptions},
        rows::{self, RowOptions},
    },
};

use crate::output::{Failure, Result};

/// Which Redis or Valkey to ask.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct RedisArgs {
    /// Redis or Valkey that keeps the leases, as in redis://127.0.0.1:6379, or a database with rows for them, as in
    /// sqlite:FILE; with a password in it, use the variable
    #[arg(
        long,
        visible_alias = "leases",
        env = "FIELDLEASE_REDIS",
        hide_env_values = true,
        value_name = "URL"
    )]
    redis: Option<LeaseUrl>,
    /// What names of keys begin with there
    #[arg(long, env = "FIELDLEASE_NAMESPACE", default_value = NAMESPACE, value_name = "NAME")]
    pub(crate) namespace: String,
}

impl RedisArgs {
    /// The address, which must be named: a lease in the memory of this command would keep nobody away.
    pub(crate) fn url(&self) -> Result<&LeaseUrl> {
        self.redis.as_ref().filter(|url| !url.is_memory()).ok_or_else(|| {
            Failure::new(
                "no_redis",
                "no Redis is named: a lease between processes needs one that all of them reach",
                "pass --redis redis://127.0.0.1:6379 or set FIELDLEASE_REDIS",
            )
        })
    }

    /// Whether one was named.
    pub(crate) fn is_named(&self) -> bool {
        self.redis.as_ref().is_some_and(|url| !url.is_memory())
    }

    /// The options that lead another command there, without the address: it may hold a password.
    pub(crate) fn told(&self) -> String {
        let mut told = String::new();
        let around = std::env::var("FIELDLEASE_REDIS").ok().map(LeaseUrl::from);
        // Beside a service in the environment the variable would not count.
        if self.redis != around || std::env::var_os("FIELDLEASE_URL").is_some() {
            told.push_str(" --redis ...");
        }
        if self.namespace != std::env::var("FIELDLEASE_NAMESPACE").as_deref().unwrap_or(NAMESPACE) {
            told.push_str(&format!(" --namespace {}", self.namespace));
        }
        told
    }

    /// Connects to it.
    pub(crate) async fn open(&self, events: Arc<dyn EventSink>) -> Result<Arc<dyn LeaseStore>> {
        let namespace = self.namespace.clone();
        let options = RedisOptions { namespace, events, ..RedisOptions::default() };
        open(Some(self.url()?), options).await
    }
}

/// Connects to the address, or makes an empty place in memory where none is named.
pub(crate) async fn open(
    url: Option<&LeaseUrl>,
    options: RedisOptions,
) -> Result<Arc<dyn LeaseStore>> {
    Ok(open_all(url, options).await?.leases)
}

/// As [`open`], with the board of version guards that goes with it.
pub(crate) async fn open_all(url: Option<&LeaseUrl>, options: RedisOptions) -> Result<Opened> {
    let Some(url) = url.filter(|url| !url.is_memory()) else {
        let leases = Arc::new(MemoryLeases::with_events(options.clock, options.events));
        return Ok(Opened { leases, guards: None });
    };
    if let Some(at) = url.rows() {
        let RedisOptions { namespace, clock, events, .. } = options;
        let options = RowOptions { namespace, clock, events, ..RowOptions::default() };
        return Ok(Opened { leases: open_rows(at, options).await?, guards: None });
    }
    Ok(redis::open(url.reveal(), options).await?)
}

async fn open_rows(at: RowsAt<'_>, options: RowOptions) -> Result<Arc<dyn LeaseStore>> {
    Ok(match at {
        RowsAt::Sqlite(file) => Arc::new(rows::sqlite::open(file, options)?),
        RowsAt::Postgres(url) => {
            Arc::new(rows::postgres::connect(PostgresOptions::new(url)?, options).await?)
        }
        RowsAt::Mysql(url) => {
            Arc::new(rows::mysql::connect(MysqlOptions::new(url)?, options).await?)
        }
    })
}

/// Keys of this namespace, and all defaults.
pub(crate) fn within(namespace: &str) -> RedisOptions {
    RedisOptions { namespace: namespace.to_owned(), ..RedisOptions::default() }
}
