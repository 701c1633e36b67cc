//! The schema on a server: what was applied, and applying what is missing.

use mysql_async::{Conn, Row, prelude::Queryable};

use crate::{
    database::{
        migration::{Applied, Migration, missing},
        mysql::{Cells, Fault, script},
    },
    error::Error,
};

/// The files of this version.
pub(crate) const MIGRATIONS: [Migration; 8] = [
    Migration {
        number: 1,
        name: "init",
        sql: include_str!("../../../schemas/sql/mysql/0001_init.sql"),
    },
    Migration {
        number: 2,
        name: "keys",
        sql: include_str!("../../../schemas/sql/mysql/0002_keys.sql"),
    },
    Migration {
        number: 3,
        name: "routines",
        sql: include_str!("../../../schemas/sql/mysql/0003_routines.sql"),
    },
    Migration {
        number: 4,
        name: "upkeep",
        sql: include_str!("../../../schemas/sql/mysql/0004_upkeep.sql"),
    },
    Migration {
        number: 5,
        name: "queue",
        sql: include_str!("../../../schemas/sql/mysql/0005_queue.sql"),
    },
    Migration {
        number: 8,
        name: "guard",
        sql: include_str!("../../../schemas/sql/mysql/0008_guard.sql"),
    },
    Migration {
        number: 10,
        name: "lease",
        sql: include_str!("../../../schemas/sql/mysql/0010_lease.sql"),
    },
    Migration {
        number: 11,
        name: "mapped",
        sql: include_str!("../../../schemas/sql/mysql/0011_mapped.sql"),
    },
];

/// There is no such table.
const NO_TABLE: u16 = 1146;
/// A row with this key is there.
const DUPLICATE: u16 = 1062;

/// What `fl_migration` says; nothing when it does not exist.
pub(crate) async fn applied(conn: &mut Conn) -> Result<Vec<Applied>, Fault> {
    let rows: Result<Vec<Row>, mysql_async::Error> =
        conn.query("SELECT number, checksum FROM fl_migration ORDER BY number").await;
    let rows = match rows {
        Err(mysql_async::Error::Server(error)) if error.code == NO_TABLE => return Ok(Vec::new()),
        rows => rows?,
    };
    let read = |row| {
        let mut cells = Cells::new(row);
        let number = u32::try_from(cells.number()?).unwrap_or(u32::MAX);
        Ok(Applied { number, checksum: cells.bytes()? })
    };
    rows.into_iter().map(read).collect()
}

/// The files that are missing, after a look at those that are there.
pub(crate) async fn outstanding(conn: &mut Conn, place: &str) -> Result<Vec<Migration>, Fault> {
    let applied = applied(conn).await?;
    missing(&MIGRATIONS, &applied, place).map_err(Fault::Invalid)
}

/// Applies what is missing and names it. The server commits after every definition, so a file that failed half way is
/// applied from its beginning next time: its statements pass over what is there. Two that migrate at once are safe.
pub(crate) async fn migrate(conn: &mut Conn, place: &str) -> Result<Vec<&'static str>, Fault> {
    let outstanding = outstanding(conn, place).await?;
    let mut names = Vec::new();
    for file in outstanding {
        for statement in script::statements(file.sql) {
            match conn.query_drop(statement).await {
                // The other one entered it first.
                Err(mysql_async::Error::Server(error)) if error.code == DUPLICATE => {}
                done => done?,
            }
        }
        names.push(file.name);
    }
    Ok(names)
}

/// Refuses a database whose schema is not the one of this version.
pub(crate) async fn check(conn: &mut Conn, place: &str) -> Result<(), Fault> {
    let outstanding = outstanding(conn, place).await?;
    let Some(first) = outstanding.first() else { return Ok(()) };
    Err(Fault::Invalid(Error::invalid(
        "no_schema",
        format!("`{place}` lacks migration `{:04}_{}.sql`", first.number, first.name),
        "apply the migrations: `fieldlease migrate`, or the files of schemas/sql/mysql in order",
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_enters_itself_with_the_hash_of_its_own_text() {
        for file in MIGRATIONS {
            let hash: String = file.checksum().iter().map(|byte| format!("{byte:02x}")).collect();
            let (_, end) = file.sql.split_once(crate::database::migration::MARK).unwrap();
            let values = format!("VALUES ({}, '{}', UNHEX('{hash}')", file.number, file.name);
            assert!(end.contains(&values), "{:04}_{}.sql wants {hash}", file.number, file.name);
        }
    }
}
