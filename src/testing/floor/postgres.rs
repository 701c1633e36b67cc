//! The floor on PostgreSQL: statements go out as those of the store do, prepared or whole, by the same option.

use std::sync::Arc;

use deadpool_postgres::Object;
use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};

use crate::{
    clock::BoxFuture,
    database::{
        named,
        postgres::{Fault, Pooler, Postgres, PostgresOptions},
    },
    error::{Error, Result},
    testing::floor::{DATA, Floor, FloorUser, disturbed},
};

/// A database.
pub struct PostgresFloor {
    database: Postgres,
    sql: Arc<Statements>,
}

struct Statements {
    make: String,
    row: String,
    drop: String,
    update: String,
    select: String,
    insert: String,
}

impl PostgresFloor {
    /// `fl_bench..` are the only tables touched; the role must be allowed to make them.
    ///
    /// # Errors
    /// As [`crate::store::postgres::PostgresStore::connect`], before anything is sent.
    pub fn new(options: PostgresOptions) -> Result<Self> {
        let all = named::split(include_str!("floor_postgres.sql")).map_err(Error::internal)?;
        let get = |name: &str| all.get(name).cloned().unwrap_or_default();
        let sql = Statements {
            make: get("make"),
            row: get("row"),
            drop: get("drop"),
            update: get("update"),
            select: get("select"),
            insert: get("insert"),
        };
        Ok(Self { database: Postgres::new(options)?, sql: Arc::new(sql) })
    }

    async fn open(&self, row: i64) -> Result<User> {
        let place = self.database.place().to_owned();
        let connection = self.database.connection().await;
        let connection = connection.map_err(|fault| fault.into_error(&place, None))?;
        let pooler = self.database.options().pooler;
        Ok(User { connection, sql: self.sql.clone(), place, pooler, row, version: 0 })
    }
}

impl Floor for PostgresFloor {
    fn prepare(&self, rows: u32) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let user = self.open(0).await?;
            user.batch(&self.sql.make).await?;
            for row in 0..rows {
                user.rows(&self.sql.row, &[(&i64::from(row), Type::INT8)]).await?;
            }
            Ok(())
        })
    }

    fn user(&self, row: u32) -> BoxFuture<'_, Result<Box<dyn FloorUser>>> {
        Box::pin(async move {
            let user = self.open(i64::from(row)).await?;
            Ok(Box::new(user) as Box<dyn FloorUser>)
        })
    }

    fn clear(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.open(0).await?.batch(&self.sql.drop).await })
    }
}

struct User {
    connection: Object,
    sql: Arc<Statements>,
    place: String,
    pooler: Pooler,
    row: i64,
    version: i64,
}

impl User {
    fn error(&self, error: &tokio_postgres::Error) -> Error {
        Fault::of(error).into_error(&self.place, None)
    }

    async fn batch(&self, sql: &str) -> Result<()> {
        self.connection.batch_execute(sql).await.map_err(|error| self.error(&error))
    }

    async fn rows(&self, sql: &str, values: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>> {
        let answer = match self.pooler {
            Pooler::Transaction => self.connection.query_typed(sql, values).await,
            Pooler::None => {
                let statement = self.connection.prepare_cached(sql).await;
                let statement = statement.map_err(|error| self.error(&error))?;
                let values: Vec<&(dyn ToSql + Sync)> =
                    values.iter().map(|(value, _)| *value).collect();
                self.connection.query(&statement, &values).await
            }
        };
        answer.map_err(|error| self.error(&error))
    }

    async fn update(&self) -> Result<()> {
        let values: [(&(dyn ToSql + Sync), Type); 3] =
            [(&self.row, Type::INT8), (&self.version, Type::INT8), (&DATA, Type::TEXT)];
        // The row itself comes back: a count of rows is not told on this way.
        let sql = &self.sql.update;
        if self.rows(sql, &values).await?.len() == 1 { Ok(()) } else { Err(disturbed()) }
    }
}

impl FloorUser for User {
    fn bare_update(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.update().await?;
            self.version += 1;
            Ok(())
        })
    }

    fn transaction(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.batch("BEGIN").await?;
            let rows = self.rows(&self.sql.select, &[(&self.row, Type::INT8)]).await?;
            self.version = rows.first().map_or(0, |row| row.get(0));
            self.update().await?;
            let values: [(&(dyn ToSql + Sync), Type); 3] =
                [(&self.row, Type::INT8), (&self.version, Type::INT8), (&DATA, Type::TEXT)];
            self.rows(&self.sql.insert, &values).await?;
            self.batch("COMMIT").await?;
            self.version += 1;
            Ok(())
        })
    }
}
