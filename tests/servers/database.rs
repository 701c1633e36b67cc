//! PostgreSQL and MariaDB for tests: one server for all tests of a process, with a database for each test, or a server of
//! its own for a test that breaks it.
//!
//! Two accounts are there: `fl`, which the product uses and which owns its database and nothing else, and the
//! administrator, whom the harness alone uses, over the socket file.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use fieldlease::clock::{Clock, SystemClock};
use rustix::process::Signal;

use crate::servers::{
    Certificates, PATIENCE,
    daemon::{Account, Daemon, run},
    free_port, mariadb, pause, postgres,
    session::Session,
};

/// The account of the product.
pub(crate) const USER: &str = "fl";
/// Starts are repeated when the port was taken between the look and the start.
const STARTS: usize = 5;

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    Postgres,
    MariaDb,
}

impl Dialect {
    pub(crate) const ALL: [Self; 2] = [Self::Postgres, Self::MariaDb];

    fn account(self) -> Account {
        match self {
            Self::Postgres => Account::POSTGRES,
            Self::MariaDb => Account::MYSQL,
        }
    }

    fn program(self) -> PathBuf {
        match self {
            Self::Postgres => postgres::server(),
            Self::MariaDb => mariadb::server(),
        }
    }

    fn template(self, dir: &Path) {
        match self {
            Self::Postgres => postgres::template(dir),
            Self::MariaDb => mariadb::template(dir),
        }
    }

    fn configure(self, setup: &DatabaseSetup, dir: &Path) {
        match self {
            Self::Postgres => postgres::configure(setup, dir),
            Self::MariaDb => mariadb::configure(setup, dir),
        }
    }

    fn arguments(self, setup: &DatabaseSetup, port: u16, dir: &Path) -> Vec<String> {
        match self {
            Self::Postgres => postgres::arguments(setup, port, dir),
            Self::MariaDb => mariadb::arguments(setup, port, dir),
        }
    }

    fn ready(self, daemon: &Daemon) -> Option<String> {
        match self {
            Self::Postgres => postgres::ready(daemon),
            Self::MariaDb => mariadb::ready(daemon),
        }
    }

    fn forget(self, dir: &Path) {
        match self {
            Self::Postgres => postgres::forget(dir),
            Self::MariaDb => mariadb::forget(dir),
        }
    }

    fn client(self, dir: &Path, port: u16, database: &str) -> Command {
        match self {
            Self::Postgres => postgres::client(dir, port, database),
            Self::MariaDb => mariadb::client(dir, database),
        }
    }
}

/// A server to be started; [`DatabaseSetup::start`] does. Without further words it is fast and keeps what it acknowledged
/// when it is killed, but not when the machine is.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseSetup {
    pub(crate) dialect: Dialect,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) password: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) tls: Option<Tls>,
    pub(crate) surroundings: Vec<(String, String)>,
}

/// Certificates of a server, as `NAME.crt` and `NAME.key` of a folder.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) clients: bool,
}

impl DatabaseSetup {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            settings: Vec::new(),
            password: None,
            port: None,
            tls: None,
            surroundings: Vec::new(),
        }
    }

    /// A setting by the name it has in the configuration file: `("max_connections", "5")`.
    pub(crate) fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A password for the account of the product.
    pub(crate) fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// This port instead of a free one.
    pub(crate) fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// A variable of its surroundings.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.surroundings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Its port speaks TLS only. With `clients` it wants a certificate of a client too.
    pub(crate) fn tls(mut self, certificates: &Certificates, name: &str, clients: bool) -> Self {
        let file = |end: &str| certificates.path(&format!("{name}.{end}"));
        let authority = certificates.path("ca.crt");
        self.tls = Some(Tls { authority, certificate: file("crt"), key: file("key"), clients });
        self
    }

    /// Starts it and waits until it answers.
    pub(crate) fn start(self) -> DatabaseServer {
        DatabaseServer::of(self, None)
    }
}

/// A running server.
pub(crate) struct DatabaseServer {
    setup: DatabaseSetup,
    port: u16,
    daemon: Daemon,
}

static COUNT: AtomicU32 = AtomicU32::new(1);

impl DatabaseServer {
    /// The server all tests of this process share. Who changes its settings or kills it takes one of their own.
    pub(crate) fn shared(dialect: Dialect) -> &'static Self {
        static POSTGRES: OnceLock<DatabaseServer> = OnceLock::new();
        static MARIADB: OnceLock<DatabaseServer> = OnceLock::new();
        let server = match dialect {
            Dialect::Postgres => &POSTGRES,
            Dialect::MariaDb => &MARIADB,
        };
        server.get_or_init(|| DatabaseSetup::new(dialect).start())
    }

    /// Starts one, on a copy of somebody's data if there is one.
    fn of(setup: DatabaseSetup, copied: Option<&dyn Fn(&Path)>) -> Self {
        let mut failed = String::new();
        for _ in 0..STARTS {
            let port = setup.port.unwrap_or_else(free_port);
            let server = Self::spawn(setup.clone(), port, copied);
            match server.wait_until_up() {
                Ok(()) => {
                    if copied.is_none() {
                        server.make_account();
                    }
                    return server;
                }
                Err(why) => failed = why,
            }
        }
        panic!("{:?} did not start: {failed}", setup.dialect);
    }

    fn spawn(setup: DatabaseSetup, port: u16, copied: Option<&dyn Fn(&Path)>) -> Self {
        let account = setup.dialect.account();
        let dir = account.folder();
        match copied {
            Some(copy) => copy(dir.path()),
            None => setup.dialect.template(dir.path()),
        }
        setup.dialect.configure(&setup, dir.path());
        account.own(dir.path());
        let arguments = setup.dialect.arguments(&setup, port, dir.path());
        let program = setup.dialect.program();
        let daemon = Daemon::start(account, dir, &program, &arguments, &setup.surroundings);
        Self { setup, port, daemon }
    }

    /// Waits until it is our child that answers. What ended, or is somebody else's, is told.
    fn wait_until_up(&self) -> Result<(), String> {
        let end = SystemClock.now().plus(PATIENCE);
        loop {
            if !self.daemon.is_running() {
                return Err(format!("it ended: {}", self.log()));
            }
            match self.dialect().ready(&self.daemon) {
                Some(pid) if pid == self.pid().to_string() => return Ok(()),
                Some(pid) => return Err(format!("process {pid} answers")),
                None if SystemClock.now() > end => return Err(format!("silent: {}", self.log())),
                None => pause(std::time::Duration::from_millis(5)),
            }
        }
    }

    fn make_account(&self) {
        let text = match self.dialect() {
            Dialect::Postgres => postgres::account(self.setup.password.as_deref()),
            Dialect::MariaDb => mariadb::account(self.setup.password.as_deref()),
        };
        self.admin().sql(&text);
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.setup.dialect
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Where its folder is: log, configuration, data, socket file.
    pub(crate) fn dir(&self) -> &Path {
        self.daemon.dir()
    }

    pub(crate) fn log(&self) -> String {
        self.daemon.log()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.daemon.is_running()
    }

    /// SIGSTOP for the process that accepts connections; on MariaDB that is all of it.
    pub(crate) fn pause(&self) {
        self.daemon.signal(Signal::STOP);
    }

    pub(crate) fn resume(&self) {
        self.daemon.signal(Signal::CONT);
    }

    /// SIGKILL, and waits until it and its processes are gone.
    pub(crate) fn kill(&self) {
        let children = children(self.pid());
        self.daemon.kill();
        // Those of PostgreSQL see that their parent is gone, and end.
        crate::servers::until("the processes of a killed server end", || {
            children.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists())
        });
    }

    /// Ends it as an administrator does: who is connected is told, and nothing is lost.
    pub(crate) fn stop(&self) {
        // The word for "now, orderly" of PostgreSQL; MariaDB has one only.
        self.daemon.signal(match self.dialect() {
            Dialect::Postgres => Signal::INT,
            Dialect::MariaDb => Signal::TERM,
        });
        self.daemon.wait();
    }

    /// Kills it if it runs, and starts it again on the same port, in the same folder, with the same settings.
    pub(crate) fn restart(&self) {
        self.try_restart().unwrap_or_else(|why| panic!("it did not come back: {why}"));
    }

    /// As [`DatabaseServer::restart`]; answers why it did not come back.
    pub(crate) fn try_restart(&self) -> Result<(), String> {
        if self.is_running() {
            self.kill();
        }
        let arguments = self.dialect().arguments(&self.setup, self.port, self.dir());
        self.dialect().forget(self.dir());
        self.daemon.again(&self.dialect().program(), &arguments, &self.setup.surroundings);
        self.wait_until_up()
    }

    /// Changes a setting of the running server: for those who connect from now on, and for those who are there if the
    /// setting is one of the whole server.
    pub(crate) fn set(&self, name: &str, value: &str) {
        let admin = self.admin();
        match self.dialect() {
            Dialect::Postgres => {
                admin.sql(&format!("alter system set {name} = '{value}'"));
                admin.sql("select pg_reload_conf()");
                crate::servers::until("the setting is in force", || {
                    let value_now = admin.sql(&format!("select current_setting('{name}')"));
                    value_now.trim() == value || value_now.contains(value)
                });
            }
            Dialect::MariaDb => {
                admin.sql(&format!("set global {name} = {value}"));
            }
        }
    }

    /// A server that follows this one and may only be read, until [`DatabaseServer::promote`]. This one must have been set
    /// up with `wal_level = replica` and `max_wal_senders`. PostgreSQL only.
    pub(crate) fn standby(&self) -> Self {
        let copy = |dir: &Path| postgres::base_backup(self, dir);
        Self::of(DatabaseSetup { port: None, ..self.setup.clone() }, Some(&copy))
    }

    /// The server that followed another takes its place.
    pub(crate) fn promote(&self) {
        self.admin().sql("select pg_promote(true, 30)");
    }

    /// Whether it may only be read.
    pub(crate) fn is_read_only(&self) -> bool {
        let text = match self.dialect() {
            Dialect::Postgres => {
                "select pg_is_in_recovery() or current_setting('transaction_read_only')::bool"
            }
            Dialect::MariaDb => "select if(@@global.read_only, 't', 'f')",
        };
        self.admin().sql(text).trim() == "t"
    }

    /// The administrator's own database.
    pub(crate) fn admin(&self) -> Database<'_> {
        let name = match self.dialect() {
            Dialect::Postgres => "postgres",
            Dialect::MariaDb => "mysql",
        };
        Database { server: self, name: name.to_owned() }
    }

    /// A new database with nothing in it, which belongs to the product's account.
    pub(crate) fn database(&self) -> Database<'_> {
        let name = format!("t{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let admin = self.admin();
        match self.dialect() {
            Dialect::Postgres => admin.sql(&format!("create database {name} owner {USER}")),
            Dialect::MariaDb => admin.sql(&format!("create database {name}")),
        };
        Database { server: self, name }
    }

    /// Ends the connection of a client the hard way: on PostgreSQL its process is killed, and with it the connections of
    /// all others, as the server starts anew; MariaDB has no processes, and its connection is ended.
    pub(crate) fn kill_session(&self, id: u32) {
        match self.dialect() {
            Dialect::Postgres => self.daemon.kill_child(id),
            Dialect::MariaDb => self.end_session(id),
        }
    }

    /// Ends the connection of one client as an administrator does.
    pub(crate) fn end_session(&self, id: u32) {
        let admin = self.admin();
        match self.dialect() {
            Dialect::Postgres => admin.sql(&format!("select pg_terminate_backend({id})")),
            Dialect::MariaDb => admin.sql(&format!("kill connection {id}")),
        };
    }
}

fn children(parent: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    text.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// A connection, as the server tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connected {
    pub(crate) id: u32,
    /// What it is doing, in the server's words: `active`, `idle in transaction`; `Query`, `Sleep`.
    pub(crate) state: String,
    pub(crate) query: String,
}

/// A database on a server.
pub(crate) struct Database<'a> {
    pub(crate) server: &'a DatabaseServer,
    pub(crate) name: String,
}

impl Database<'_> {
    /// A new one on the server all tests share.
    pub(crate) fn new(dialect: Dialect) -> Database<'static> {
        DatabaseServer::shared(dialect).database()
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.server.dialect()
    }

    /// `postgres://fl@127.0.0.1:PORT/NAME` or `mysql://..`, with the password if there is one.
    pub(crate) fn url(&self) -> String {
        self.url_on(self.server.port)
    }

    /// The same on another port: that of a proxy or a pooler.
    pub(crate) fn url_on(&self, port: u16) -> String {
        self.url_as(USER, self.server.setup.password.as_deref(), port)
    }

    pub(crate) fn url_as(&self, user: &str, password: Option<&str>, port: u16) -> String {
        let scheme = match self.dialect() {
            Dialect::Postgres => "postgres",
            Dialect::MariaDb => "mysql",
        };
        let password = password.map(|text| format!(":{text}")).unwrap_or_default();
        format!("{scheme}://{user}{password}@127.0.0.1:{port}/{}", self.name)
    }

    /// Carries statements out as the administrator, with the server's own client program, and answers what came: a line
    /// for each row, columns separated by tabs, nothing for NULL on PostgreSQL and `NULL` on MariaDB.
    pub(crate) fn sql(&self, text: &str) -> String {
        run(&mut self.client(text))
    }

    /// As [`Database::sql`]; answers what the program said when it failed.
    pub(crate) fn try_sql(&self, text: &str) -> Result<String, String> {
        let output = self.client(text).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// The rows of a query.
    pub(crate) fn rows(&self, text: &str) -> Vec<Vec<String>> {
        let answer = self.sql(text);
        answer.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    /// The one number a query answers with.
    pub(crate) fn number(&self, text: &str) -> i64 {
        let answer = self.sql(text);
        answer.trim().parse().unwrap_or_else(|_| panic!("{text}: {answer}"))
    }

    fn client(&self, text: &str) -> Command {
        let mut command = self.dialect().client(self.server.dir(), self.server.port, &self.name);
        let option = match self.dialect() {
            Dialect::Postgres => "-c",
            Dialect::MariaDb => "-e",
        };
        command.args([option, text]);
        command
    }

    /// A connection of the administrator that stays open: for transactions that are left open.
    pub(crate) fn session(&self) -> Session {
        let command = self.dialect().client(self.server.dir(), self.server.port, &self.name);
        Session::of(self.dialect(), command)
    }

    /// Connections of the product's account to this database.
    pub(crate) fn connected(&self) -> Vec<Connected> {
        let text = match self.dialect() {
            Dialect::Postgres => format!(
                "select pid, coalesce(state, ''), replace(replace(query, chr(10), ' '), chr(9), ' ') \
                 from pg_stat_activity where datname = '{}' and usename <> 'postgres' order by pid",
                self.name
            ),
            Dialect::MariaDb => format!(
                "select id, command, replace(replace(coalesce(info, ''), '\\n', ' '), '\\t', ' ') \
                 from information_schema.processlist where db = '{}' and user <> 'root' order by id",
                self.name
            ),
        };
        let connected = |row: Vec<String>| {
            let [id, state, query] = <[String; 3]>::try_from(row).unwrap();
            Connected { id: id.parse().unwrap(), state, query }
        };
        self.server.admin().rows(&text).into_iter().map(connected).collect()
    }
}
