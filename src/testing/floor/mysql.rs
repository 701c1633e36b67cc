//! The floor on MariaDB and MySQL: prepared statements on connections set up as the store's are.

use std::sync::Arc;

use mysql_async::{Conn, Params, prelude::Queryable};

use crate::{
    clock::BoxFuture,
    database::{
        mysql::{Fault, MysqlOptions, session},
        named,
    },
    error::{Error, Result},
    testing::floor::{DATA, Floor, FloorUser, disturbed},
};

/// A database.
pub struct MysqlFloor {
    options: MysqlOptions,
    sql: Arc<Statements>,
}

struct Statements {
    make_row: String,
    make_entry: String,
    row: String,
    drop: String,
    update: String,
    select: String,
    insert: String,
}

impl MysqlFloor {
    /// `fl_bench..` are the only tables touched; the user must be allowed to make them.
    ///
    /// # Errors
    /// When the statements of this library are damaged.
    pub fn new(options: MysqlOptions) -> Result<Self> {
        let all = named::split(include_str!("floor_mysql.sql")).map_err(Error::internal)?;
        let get = |name: &str| all.get(name).cloned().unwrap_or_default();
        let sql = Statements {
            make_row: get("make_row"),
            make_entry: get("make_entry"),
            row: get("row"),
            drop: get("drop"),
            update: get("update"),
            select: get("select"),
            insert: get("insert"),
        };
        Ok(Self { options, sql: Arc::new(sql) })
    }

    async fn open(&self, row: i64) -> Result<User> {
        let place = self.options.place();
        let connection = session::open(&self.options).await;
        let (connection, _) = connection.map_err(|fault| fault.into_error(&place, None))?;
        Ok(User { connection, sql: self.sql.clone(), place, row, version: 0 })
    }
}

impl Floor for MysqlFloor {
    fn prepare(&self, rows: u32) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut user = self.open(0).await?;
            let sql = self.sql.clone();
            for statement in [&sql.drop, &sql.make_row, &sql.make_entry] {
                user.text(statement).await?;
            }
            for row in 0..rows {
                user.run(&sql.row, (row,)).await?;
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
        Box::pin(async move { self.open(0).await?.text(&self.sql.drop).await })
    }
}

struct User {
    connection: Conn,
    sql: Arc<Statements>,
    place: String,
    row: i64,
    version: i64,
}

impl User {
    async fn text(&mut self, sql: &str) -> Result<()> {
        let done = self.connection.query_drop(sql).await;
        done.map_err(|error| Fault::from(error).into_error(&self.place, None))
    }

    async fn run(&mut self, sql: &str, values: impl Into<Params> + Send) -> Result<u64> {
        let done = self.connection.exec_drop(sql, values).await;
        done.map_err(|error| Fault::from(error).into_error(&self.place, None))?;
        Ok(self.connection.affected_rows())
    }

    async fn update(&mut self) -> Result<()> {
        let sql = self.sql.clone();
        let changed = self.run(&sql.update, (DATA, self.row, self.version)).await?;
        if changed == 1 { Ok(()) } else { Err(disturbed()) }
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
            let sql = self.sql.clone();
            self.text("BEGIN").await?;
            let found: std::result::Result<Option<i64>, _> =
                self.connection.exec_first(&sql.select, (self.row,)).await;
            let found = found.map_err(|error| Fault::from(error).into_error(&self.place, None))?;
            self.version = found.unwrap_or(0);
            self.update().await?;
            self.run(&sql.insert, (self.row, self.version, DATA)).await?;
            self.text("COMMIT").await?;
            self.version += 1;
            Ok(())
        })
    }
}
