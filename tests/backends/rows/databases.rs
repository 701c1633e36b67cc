//! PostgreSQL, directly and behind a transaction pooler, and MariaDB.

use std::sync::Arc;

use fieldlease::{
    database::{
        mysql::MysqlOptions,
        postgres::{Pooler as Between, PostgresOptions},
    },
    lease::{
        LeaseStore,
        rows::{RowLeases, RowOptions, mysql, postgres},
    },
    store::{mysql::MysqlStore, postgres::PostgresStore},
};

use crate::{
    rows::shared,
    servers::{Database, DatabaseServer, Dialect, Pooler, until},
};

/// Where leases are and how they are reached.
#[derive(Clone)]
enum At {
    /// Whether nothing stands between, and the address.
    Postgres(Between, String),
    MariaDb(String),
}

impl At {
    async fn migrated(&self, direct: &str) {
        match self {
            Self::Postgres(..) => {
                PostgresStore::migrate(PostgresOptions::new(direct).unwrap()).await.unwrap();
            }
            Self::MariaDb(_) => {
                MysqlStore::migrate(MysqlOptions::new(direct).unwrap()).await.unwrap();
            }
        }
    }

    async fn leases(&self, namespace: &str) -> Arc<RowLeases> {
        let options = RowOptions { namespace: namespace.to_owned(), ..RowOptions::default() };
        Arc::new(match self {
            Self::Postgres(between, url) => {
                let server = PostgresOptions::new(url).unwrap().pooler(*between).connections(2);
                postgres::connect(server, options).await.unwrap()
            }
            Self::MariaDb(url) => {
                let server = MysqlOptions::new(url).unwrap().connections(2);
                mysql::connect(server, options).await.unwrap()
            }
        })
    }

    /// All that is promised: alone, and with another process over the same rows.
    async fn keeps_its_promises(self, database: &Database<'_>) {
        self.migrated(&database.url()).await;
        let at = self.clone();
        let failures = shared::suite(move |case| {
            let at = at.clone();
            async move { at.leases(&format!("case {case}")).await as Arc<dyn LeaseStore> }
        })
        .await;
        assert!(failures.is_empty(), "{failures:#?}");

        let [here, there] = [self.leases("two").await, self.leases("two").await];
        shared::two_processes_hear_each_other(here, there).await;
        let stores = vec![self.leases("race").await, self.leases("race").await];
        shared::nobody_holds_what_another_holds(stores, 25).await;
        until("every connection is closed", || database.connected().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_on_postgresql_keep_their_promises_and_leave_no_connection() {
    let database = DatabaseServer::shared(Dialect::Postgres).database();

    At::Postgres(Between::None, database.url()).keeps_its_promises(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_on_postgresql_behind_a_transaction_pooler_keep_their_promises() {
    let server = DatabaseServer::shared(Dialect::Postgres);
    let database = server.database();
    let pooler = Pooler::start(server, &[]);
    let at = At::Postgres(Between::Transaction, pooler.url(&database));

    at.migrated(&database.url()).await;
    let [here, there] = [at.leases("two").await, at.leases("two").await];
    shared::two_processes_hear_each_other(here, there).await;
    let stores = vec![at.leases("race").await, at.leases("race").await];
    shared::nobody_holds_what_another_holds(stores, 25).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_on_mariadb_keep_their_promises_and_leave_no_connection() {
    let database = DatabaseServer::shared(Dialect::MariaDb).database();

    At::MariaDb(database.url()).keeps_its_promises(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_listens_and_is_cut_listens_again() {
    let database = DatabaseServer::shared(Dialect::Postgres).database();
    let at = At::Postgres(Between::None, database.url());
    at.migrated(&database.url()).await;
    let [here, there] = [at.leases("cut").await, at.leases("cut").await];

    shared::hears_again_after(here, there, || {
        database.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        );
    })
    .await;
}
