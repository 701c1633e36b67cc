//! Applying the files of `schemas/sql/postgres`.

use tokio_postgres::error::SqlState;

use crate::{
    database::{
        migration::{self, Applied, Migration},
        postgres::{
            fault::{Class, Fault},
            pool::Postgres,
        },
    },
    error::{Error, Result},
};

/// Names our migrations among the advisory locks of a database; held to the end of one transaction.
const LOCK: i64 = 0x666c_5f6d_6967_7261;

/// Every file, in order.
pub(crate) const FILES: &[Migration] = &[
    Migration {
        number: 1,
        name: "init",
        sql: include_str!("../../../schemas/sql/postgres/0001_init.sql"),
    },
    Migration {
        number: 2,
        name: "keys",
        sql: include_str!("../../../schemas/sql/postgres/0002_keys.sql"),
    },
    Migration {
        number: 3,
        name: "record",
        sql: include_str!("../../../schemas/sql/postgres/0003_record.sql"),
    },
    Migration {
        number: 8,
        name: "guard",
        sql: include_str!("../../../schemas/sql/postgres/0008_guard.sql"),
    },
    Migration {
        number: 10,
        name: "lease",
        sql: include_str!("../../../schemas/sql/postgres/0010_lease.sql"),
    },
    Migration {
        number: 11,
        name: "mapped",
        sql: include_str!("../../../schemas/sql/postgres/0011_mapped.sql"),
    },
];

impl Postgres {
    /// Applies what is missing, each file in one transaction; answers what was applied. Two processes that migrate at
    /// the same time do it one after the other.
    pub(crate) async fn migrate(&self) -> Result<Vec<Migration>> {
        let fault = |fault: Fault| fault.into_error(self.place(), None);
        let of = |error: tokio_postgres::Error| Fault::of(&error).into_error(self.place(), None);
        let mut connection = self.connection().await.map_err(fault)?;
        let mut done = Vec::new();
        loop {
            let transaction = connection.transaction().await.map_err(of)?;
            transaction
                .batch_execute(&format!("SELECT pg_advisory_xact_lock({LOCK})"))
                .await
                .map_err(of)?;
            let found = applied(&transaction).await.map_err(fault)?;
            let missing = migration::missing(FILES, &found, self.place())?;
            let Some(next) = missing.first() else { return Ok(done) };
            transaction.batch_execute(next.sql).await.map_err(|error| {
                let Fault { message, .. } = Fault::of(&error);
                Error::invalid(
                    "migration_failed",
                    format!("`{}`: {:04}_{}.sql: {message}", self.place(), next.number, next.name),
                    "migrate as a role that may create tables and routines in the schema, in a database in UTF8",
                )
            })?;
            transaction.commit().await.map_err(of)?;
            done.push(*next);
        }
    }

    /// What is not applied yet.
    pub(crate) async fn missing(&self) -> Result<Vec<Migration>> {
        let fault = |fault: Fault| fault.into_error(self.place(), None);
        let mut connection = self.connection().await.map_err(fault)?;
        let of = |error: tokio_postgres::Error| Fault::of(&error).into_error(self.place(), None);
        let transaction = connection.transaction().await.map_err(of)?;
        let found = applied(&transaction).await.map_err(fault)?;
        migration::missing(FILES, &found, self.place())
    }
}

/// What `fl_migration` says; nothing in a database that has none of our tables.
async fn applied(
    transaction: &deadpool_postgres::Transaction<'_>,
) -> std::result::Result<Vec<Applied>, Fault> {
    let of = |error: tokio_postgres::Error| Fault::of(&error);
    let there = transaction
        .query_typed_one("SELECT to_regclass('fl_migration') IS NOT NULL", &[])
        .await
        .map_err(of)?;
    if !there.try_get::<_, bool>(0).map_err(of)? {
        return Ok(Vec::new());
    }
    let rows = transaction
        .query_typed("SELECT number, checksum FROM fl_migration ORDER BY number", &[])
        .await;
    let rows = rows.map_err(|error| {
        let mut fault = Fault::of(&error);
        if error.code() == Some(&SqlState::UNDEFINED_COLUMN) {
            fault = Fault::new(Class::NoSchema, "its table `fl_migration` is not one of ours");
        }
        fault
    })?;
    let mut found = Vec::new();
    for row in rows {
        let number: i32 = row.try_get(0).map_err(of)?;
        let number = u32::try_from(number)
            .map_err(|_| Fault::new(Class::Broken, format!("migration {number} is below zero")))?;
        found.push(Applied { number, checksum: row.try_get(1).map_err(of)? });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_enters_itself_with_its_own_checksum() {
        for file in FILES {
            let hex: String = file.checksum().iter().map(|byte| format!("{byte:02x}")).collect();
            let (_, entered) = file.sql.split_once(migration::MARK).unwrap();
            let wanted = format!("VALUES ({}, '{}', '\\x{hex}')", file.number, file.name);
            assert!(entered.contains(&wanted), "{:04}: {wanted}", file.number);
        }
    }
}
