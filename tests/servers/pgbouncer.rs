//! A pooler in front of PostgreSQL.

use std::{fmt::Write, fs, net::TcpStream};

use crate::servers::{
    Database, DatabaseServer,
    daemon::{Account, Daemon, program},
    database::USER,
    free_port, until,
};

/// A running pgbouncer.
pub(crate) struct Pooler {
    port: u16,
    daemon: Daemon,
}

impl Pooler {
    /// Starts one in transaction mode, with further settings: `[("default_pool_size", "2")]`.
    pub(crate) fn start(server: &DatabaseServer, settings: &[(&str, &str)]) -> Self {
        let port = free_port();
        let dir = Account::POSTGRES.folder();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let mut text = format!(
            "[databases]\n* = host=127.0.0.1 port={} user={USER}\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir = {}\n\
             auth_type = trust\nauth_file = {}\npidfile = {}\npool_mode = transaction\n\
             ignore_startup_parameters = extra_float_digits\n",
            server.port(),
            dir.path().display(),
            path("users"),
            path("pid"),
        );
        for (name, value) in settings {
            writeln!(text, "{name} = {value}").unwrap();
        }
        fs::write(dir.path().join("configuration"), text).unwrap();
        fs::write(dir.path().join("users"), format!("\"{USER}\" \"\"\n")).unwrap();
        Account::POSTGRES.own(dir.path());
        let arguments = [path("configuration")];
        let pooler = program("FIELDLEASE_PGBOUNCER", &["pgbouncer"]);
        let daemon = Daemon::start(Account::POSTGRES, dir, &pooler, &arguments, &[]);
        let this = Self { port, daemon };
        this.wait_until_up();
        this
    }

    fn wait_until_up(&self) {
        let mut pid = String::new();
        until("pgbouncer answers", || {
            assert!(self.daemon.is_running(), "pgbouncer ended: {}", self.daemon.log());
            pid = fs::read_to_string(self.daemon.dir().join("pid")).unwrap_or_default();
            !pid.is_empty() && TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
        assert_eq!(pid.trim(), self.daemon.pid().to_string(), "another pgbouncer answers");
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn log(&self) -> String {
        self.daemon.log()
    }

    /// The database as it is seen through the pooler.
    pub(crate) fn url(&self, database: &Database<'_>) -> String {
        database.url_on(self.port)
    }
}
