//! The database servers of the tests run, break and come back as the tests believe they do.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use mysql_async::prelude::Queryable;
use tokio_postgres::types::Type;

use crate::servers::{
    Action, Certificates, Database, DatabaseServer, DatabaseSetup, Dialect, Pooler, Proxy, Rule,
    until,
};

/// The variable that tells a test it is the process that will be killed.
const CHILD: &str = "FIELDLEASE_TEST_CHILD";

/// A connection of a driver, as the product uses them.
enum Connection {
    Postgres(tokio_postgres::Client),
    MariaDb(Box<mysql_async::Conn>),
}

impl Connection {
    async fn open(dialect: Dialect, url: &str) -> Result<Self, String> {
        match dialect {
            Dialect::Postgres => {
                let opened = tokio_postgres::connect(url, tokio_postgres::NoTls).await;
                let (client, connection) = opened.map_err(|error| format!("{error:?}"))?;
                tokio::spawn(connection);
                Ok(Self::Postgres(client))
            }
            Dialect::MariaDb => {
                let opened = mysql_async::Conn::from_url(url).await;
                opened.map(|it| Self::MariaDb(Box::new(it))).map_err(|error| format!("{error:?}"))
            }
        }
    }

    async fn run(&mut self, text: &str) -> Result<(), String> {
        match self {
            Self::Postgres(client) => {
                client.batch_execute(text).await.map_err(|error| format!("{error:?}"))
            }
            Self::MariaDb(conn) => {
                conn.query_drop(text).await.map_err(|error| format!("{error:?}"))
            }
        }
    }

    /// `number + 1`, with a parameter, in the way that needs one round trip once the statement is known.
    async fn next(&mut self, number: i64) -> i64 {
        match self {
            Self::Postgres(client) => {
                let rows = client.query_typed("select $1 + 1", &[(&number, Type::INT8)]).await;
                rows.unwrap()[0].get(0)
            }
            Self::MariaDb(conn) => {
                conn.exec_first("select ? + 1", (number,)).await.unwrap().unwrap()
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_test_has_a_database_of_its_own_on_one_server() {
    for dialect in Dialect::ALL {
        let (one, other) = (Database::new(dialect), Database::new(dialect));
        assert_eq!(one.server.pid(), other.server.pid());

        let mut connection = Connection::open(dialect, &one.url()).await.unwrap();
        connection.run("create table t (a integer)").await.unwrap();
        connection.run("insert into t values (7)").await.unwrap();

        assert_eq!(one.number("select a from t"), 7);
        assert_eq!(one.rows("select a, a + 1 from t"), [["7", "8"]]);
        assert!(other.try_sql("select a from t").is_err(), "{dialect:?}");
        assert_eq!(one.connected().len(), 1, "{:?}", one.connected());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_counts_what_goes_over_the_wire_at_once() {
    for dialect in Dialect::ALL {
        let database = Database::new(dialect);
        let proxy = Proxy::before(database.server);
        let mut connection =
            Connection::open(dialect, &database.url_on(proxy.port())).await.unwrap();
        connection.next(1).await;
        proxy.round_trips();

        assert_eq!(connection.next(41).await, 42);
        let seen = proxy.round_trips();
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert_eq!(seen[0].name, "SELECT");

        connection.run("select 1; select 2; select 3").await.unwrap();
        assert_eq!(proxy.round_trips().len(), 1, "several results are one answer");
        connection.run("begin").await.unwrap();
        connection.run("-- a remark\ncommit").await.unwrap();
        let names: Vec<String> = proxy.round_trips().into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["BEGIN", "COMMIT"]);
        // An error is an answer too, and what follows belongs to what follows.
        assert!(connection.run("select no_such_column").await.is_err());
        assert_eq!(connection.next(1).await, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_cut_before_or_after_its_commit() {
    for dialect in Dialect::ALL {
        for (action, written) in [(Action::CutBefore, 0), (Action::CutAfter, 1)] {
            let database = Database::new(dialect);
            database.sql("create table t (a integer)");
            let grant = dialect == Dialect::Postgres;
            database.sql(if grant { "grant all on t to fl" } else { "select 1" });
            let proxy = Proxy::before(database.server);
            let mut connection =
                Connection::open(dialect, &database.url_on(proxy.port())).await.unwrap();
            let fault = proxy.fault(Rule::on("COMMIT", action.clone()));

            connection.run("begin").await.unwrap();
            connection.run("insert into t values (1)").await.unwrap();
            assert!(connection.run("commit").await.is_err(), "{dialect:?} {action:?}");

            assert_eq!(fault.hits(), 1);
            until("the server notices", || database.connected().is_empty());
            assert_eq!(
                database.number("select count(*) from t"),
                written,
                "{dialect:?} {action:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_comes_back_with_what_it_acknowledged() {
    for dialect in Dialect::ALL {
        let server = DatabaseSetup::new(dialect).start();
        let database = server.database();
        let mut connection = Connection::open(dialect, &database.url()).await.unwrap();
        connection.run("create table t (a integer)").await.unwrap();
        connection.run("insert into t values (1)").await.unwrap();
        connection.run("begin").await.unwrap();
        connection.run("insert into t values (2)").await.unwrap();
        let before = server.pid();

        server.kill();
        assert!(connection.run("commit").await.is_err());
        server.restart();

        assert_ne!(server.pid(), before);
        assert_eq!(database.number("select count(*) from t"), 1, "{dialect:?}");
        server.stop();
        assert!(!server.is_running());
        server.restart();
        assert_eq!(database.number("select count(*) from t"), 1, "{dialect:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_is_killed_in_the_middle_of_its_transaction() {
    for dialect in Dialect::ALL {
        let server = DatabaseSetup::new(dialect).start();
        let database = server.database();
        let mut connection = Connection::open(dialect, &database.url()).await.unwrap();
        connection.run("create table t (a integer)").await.unwrap();
        connection.run("begin").await.unwrap();
        connection.run("insert into t values (1)").await.unwrap();
        let [connected] = <[_; 1]>::try_from(database.connected()).unwrap();

        server.kill_session(connected.id);

        assert!(connection.run("commit").await.is_err(), "{dialect:?}");
        until("the server answers again", || database.try_sql("select 1").is_ok());
        assert_eq!(database.number("select count(*) from t"), 0, "{dialect:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_only_be_read_until_it_takes_over() {
    let primary = DatabaseSetup::new(Dialect::Postgres)
        .setting("wal_level", "replica")
        .setting("max_wal_senders", "4")
        .start();
    let name = primary.database().name.clone();
    let standby = primary.standby();
    let on_standby = Database { server: &standby, name };
    assert!(standby.is_read_only() && !primary.is_read_only());
    let mut connection = Connection::open(Dialect::Postgres, &on_standby.url()).await.unwrap();
    let refused = connection.run("create table t (a integer)").await.unwrap_err();
    assert!(refused.contains("25006"), "{refused}");

    standby.promote();
    connection.run("create table t (a integer)").await.unwrap();

    let server = DatabaseSetup::new(Dialect::MariaDb).start();
    let database = server.database();
    server.set("read_only", "1");
    assert!(server.is_read_only());
    let mut connection = Connection::open(Dialect::MariaDb, &database.url()).await.unwrap();
    let refused = connection.run("create table t (a integer)").await.unwrap_err();
    assert!(refused.contains("1290"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_gives_several_clients_one_connection() {
    let server = DatabaseServer::shared(Dialect::Postgres);
    let database = server.database();
    let pooler = Pooler::start(server, &[("default_pool_size", "1")]);
    let url = pooler.url(&database);
    let mut one = Connection::open(Dialect::Postgres, &url).await.unwrap();
    let mut other = Connection::open(Dialect::Postgres, &url).await.unwrap();

    assert_eq!(one.next(1).await, 2);
    assert_eq!(other.next(2).await, 3);

    assert_eq!(database.connected().len(), 1, "{}", pooler.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_asks_for_a_password_and_for_tls() {
    for dialect in Dialect::ALL {
        let server = DatabaseSetup::new(dialect).password("secret").start();
        let database = server.database();
        assert!(Connection::open(dialect, &database.url()).await.is_ok(), "{dialect:?}");
        let wrong = database.url_as("fl", Some("wrong"), server.port());
        assert!(Connection::open(dialect, &wrong).await.is_err(), "{dialect:?}");

        let certificates = Certificates::make();
        let server = DatabaseSetup::new(dialect).tls(&certificates, "server", false).start();
        let database = server.database();
        assert!(Connection::open(dialect, &database.url()).await.is_err(), "{dialect:?}");
    }
}

#[test]
fn a_transaction_is_left_open_by_the_servers_own_program() {
    for dialect in Dialect::ALL {
        let database = Database::new(dialect);
        database.sql("create table t (a integer)");
        database.sql("insert into t values (1)");
        let (mut holder, mut waiter) = (database.session(), database.session());

        holder.run("begin");
        holder.run("update t set a = a + 1");
        waiter.send("update t set a = a * 10");
        assert!(holder.run("select a from nowhere").contains("nowhere"), "{dialect:?}");
        holder.run("rollback");

        assert!(!waiter.answer().to_lowercase().contains("error"));
        assert_eq!(database.number("select a from t"), 10, "{dialect:?}");
    }
}

#[test]
fn servers_are_gone_with_the_process_of_the_tests() {
    if std::env::var_os(CHILD).is_some() {
        for dialect in Dialect::ALL {
            let server = DatabaseServer::shared(dialect);
            std::fs::write(
                std::env::var(CHILD).unwrap() + &format!("/{dialect:?}"),
                format!("{}\n{}", server.pid(), server.dir().display()),
            )
            .unwrap();
        }
        std::process::abort();
    }
    let notes = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "databases::servers_are_gone_with_the_process_of_the_tests"]);
    command.env(CHILD, notes.path()).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());

    assert!(!command.status().unwrap().success());

    for dialect in Dialect::ALL {
        let note = std::fs::read_to_string(notes.path().join(format!("{dialect:?}"))).unwrap();
        let (pid, dir) = note.split_once('\n').unwrap();
        until("the server and its folder are gone", || {
            !Path::new(&format!("/proc/{pid}")).exists() && !Path::new(dir).exists()
        });
    }
}
