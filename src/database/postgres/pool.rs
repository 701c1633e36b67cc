//! Connections, and statements carried through on tasks of their own.

use std::{sync::Arc, time::Duration};

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use tokio_postgres::{
    Row,
    config::SslMode,
    types::{ToSql, Type},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{
    clock::{Clock, SystemClock},
    database::postgres::{
        fault::{ATTEMPTS, Class, Fault},
        options::{Pooler, PostgresOptions},
        tls,
    },
    error::{Error, Result},
    token::{Entropy, SystemEntropy},
};

type Value = Box<dyn ToSql + Send + Sync>;

/// One statement with its parameters.
pub(crate) struct Call {
    sql: Arc<str>,
    values: Vec<Value>,
    types: Vec<Type>,
}

impl Call {
    pub(crate) fn new(sql: &Arc<str>) -> Self {
        Self { sql: sql.clone(), values: Vec::new(), types: Vec::new() }
    }

    /// The next parameter.
    pub(crate) fn with(mut self, kind: Type, value: impl ToSql + Send + Sync + 'static) -> Self {
        self.values.push(Box::new(value));
        self.types.push(kind);
        self
    }

    /// The parameters with their types, as a caller's own transaction wants them.
    pub(crate) fn typed(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let values = self.values.iter().map(|value| &**value as &(dyn ToSql + Sync));
        values.zip(self.types.iter().cloned()).collect()
    }

    pub(crate) fn sql(&self) -> &str {
        &self.sql
    }
}

/// A pool of connections to one database. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Postgres(Arc<Inner>);

struct Inner {
    pool: Pool,
    tls: MakeRustlsConnect,
    options: PostgresOptions,
    place: String,
    clock: SystemClock,
}

impl Postgres {
    /// Opens nothing yet.
    pub(crate) fn new(options: PostgresOptions) -> Result<Self> {
        let driver = options.driver()?;
        let wanted = driver.get_ssl_mode() != SslMode::Disable;
        let tls = tls::connector(&options.tls, wanted)?;
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_config(driver, tls.clone(), recycling))
            .max_size(options.connections)
            .wait_timeout(Some(options.wait))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| Error::internal(error.to_string()))?;
        let place = options.place();
        Ok(Self(Arc::new(Inner { pool, tls, options, place, clock: SystemClock })))
    }

    /// `HOST:PORT/DATABASE`.
    pub(crate) fn place(&self) -> &str {
        &self.0.place
    }

    pub(crate) fn options(&self) -> &PostgresOptions {
        &self.0.options
    }

    /// Carries a statement through, whatever becomes of the caller. One that lost against another transaction is sent
    /// again.
    pub(crate) async fn rows(&self, call: Call) -> std::result::Result<Vec<Row>, Fault> {
        let inner = self.0.clone();
        let task = tokio::spawn(async move { inner.carry(&call).await });
        task.await.unwrap_or_else(|error| {
            Err(Fault::new(Class::Unknown, format!("its task ended early: {error}")))
        })
    }

    pub(crate) fn tls(&self) -> MakeRustlsConnect {
        self.0.tls.clone()
    }

    /// The first row.
    pub(crate) async fn row(&self, call: Call) -> std::result::Result<Option<Row>, Fault> {
        Ok(self.rows(call).await?.into_iter().next())
    }

    /// A connection for a piece of work of several statements: migrating, looking. It goes back to the pool when dropped.
    pub(crate) async fn connection(&self) -> std::result::Result<Object, Fault> {
        self.0.connection().await
    }

    /// A connection outside of the pool, with what it is told: for `LISTEN`. It ends when the client is dropped.
    pub(crate) async fn plain(
        &self,
    ) -> Result<
        (
            tokio_postgres::Client,
            tokio_postgres::Connection<
                tokio_postgres::Socket,
                <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<
                    tokio_postgres::Socket,
                >>::Stream,
            >,
        ),
    > {
        let driver = self.0.options.driver()?;
        driver
            .connect(self.0.tls.clone())
            .await
            .map_err(|error| Fault::of_connecting(&error).into_error(&self.0.place, None))
    }

    /// Closes what is idle, and what comes back. Later calls answer `unavailable`.
    pub(crate) fn close(&self) {
        self.0.pool.close();
    }
}

impl Inner {
    async fn connection(&self) -> std::result::Result<Object, Fault> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => Fault::of_connecting(&error),
            PoolError::Timeout(_) => Fault::new(
                Class::Nothing,
                format!("no connection was free within {:?}", self.options.wait),
            ),
            PoolError::Closed => Fault::new(Class::Nothing, "the store was closed"),
            other => Fault::new(Class::Nothing, other.to_string()),
        })
    }

    async fn carry(&self, call: &Call) -> std::result::Result<Vec<Row>, Fault> {
        let mut attempt = 1;
        loop {
            match self.once(call).await {
                Err(fault) if fault.class == Class::Again && attempt < ATTEMPTS => {
                    self.clock.sleep_until(self.clock.now().plus(pause(attempt))).await;
                    attempt += 1;
                }
                done => return done,
            }
        }
    }

    /// Sends it once. A connection on which an answer is missing is closed, never given back.
    async fn once(&self, call: &Call) -> std::result::Result<Vec<Row>, Fault> {
        let client = self.connection().await?;
        let end = self.clock.now().plus(self.options.deadline);
        let answer = tokio::select! {
            answer = send(&client, call, self.options.pooler) => answer.map_err(|error| Fault::of(&error)),
            () = self.clock.sleep_until(end) => {
                let (token, tls) = (client.cancel_token(), self.tls.clone());
                // Best effort: the answer to the question whether it took effect does not depend on it.
                tokio::spawn(async move { token.cancel_query(tls).await.ok() });
                Err(Fault::new(Class::Unknown, format!("no answer within {:?}", self.options.deadline)))
            }
        };
        if answer.as_ref().is_err_and(Fault::poisons) {
            drop(Object::take(client));
        }
        answer
    }
}

async fn send(
    client: &Object,
    call: &Call,
    pooler: Pooler,
) -> std::result::Result<Vec<Row>, tokio_postgres::Error> {
    match pooler {
        Pooler::Transaction => client.query_typed(&call.sql, &call.typed()).await,
        Pooler::None => {
            let statement = client.prepare_typed_cached(&call.sql, &call.types).await?;
            let values: Vec<&(dyn ToSql + Sync)> =
                call.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
            client.query(&statement, &values).await
        }
    }
}

/// Longer with every attempt, and never the same for two who met.
fn pause(attempt: u32) -> Duration {
    let most = 2_000_u64 << attempt.min(6);
    let [low, high, ..] = SystemEntropy.bytes();
    Duration::from_micros(u64::from(u16::from_be_bytes([low, high])) * most / u64::from(u16::MAX))
}
