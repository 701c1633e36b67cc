//! How MariaDB is started and asked.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

use crate::servers::{
    daemon::{Account, Daemon, program, run},
    database::{DatabaseSetup, USER},
    template::Template,
};

/// Acknowledged saves survive a kill of the server, not a loss of power.
const SETTINGS: [(&str, &str); 10] = [
    ("innodb_flush_log_at_trx_commit", "2"),
    ("innodb_flush_method", "nosync"),
    ("innodb_doublewrite", "0"),
    ("innodb_log_file_size", "16M"),
    ("innodb_buffer_pool_size", "64M"),
    ("skip_name_resolve", "1"),
    ("performance_schema", "0"),
    ("max_connections", "300"),
    ("character_set_server", "utf8mb4"),
    ("default_time_zone", "+00:00"),
];

static TEMPLATE: Mutex<Option<Template>> = Mutex::new(None);

pub(crate) fn server() -> PathBuf {
    program("FIELDLEASE_MARIADB_SERVER", &["mariadbd", "mysqld"])
}

fn data(dir: &Path) -> PathBuf {
    dir.join("data")
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("socket")
}

/// Puts the files of a new server into the folder.
pub(crate) fn template(dir: &Path) {
    Template::copy(&TEMPLATE, &data(dir), |data| {
        Account::MYSQL.own(data.parent().unwrap());
        let install =
            program("FIELDLEASE_MARIADB_INSTALL", &["mariadb-install-db", "mysql_install_db"]);
        let mut command = Account::MYSQL.command(&install);
        command.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
        command.args(["--skip-test-db", "--innodb-log-file-size=16M"]);
        command.args(["--innodb-flush-method=nosync", "--skip-name-resolve"]);
        command.arg(format!("--datadir={}", data.display())).current_dir("/");
        run(&mut command);
    });
}

pub(crate) fn configure(setup: &DatabaseSetup, dir: &Path) {
    if let Some(tls) = &setup.tls {
        fs::copy(&tls.authority, dir.join("ca.crt")).unwrap();
        fs::copy(&tls.certificate, dir.join("server.crt")).unwrap();
        fs::copy(&tls.key, dir.join("server.key")).unwrap();
        run(Command::new("chmod").arg("600").arg(dir.join("server.key")));
    }
}

pub(crate) fn arguments(setup: &DatabaseSetup, port: u16, dir: &Path) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    let mut arguments = vec![
        "--no-defaults".to_owned(),
        format!("--datadir={}", data(dir).display()),
        format!("--socket={}", socket(dir).display()),
        format!("--pid-file={}", file("pid")),
        // At its start a server removes what others keep in a folder they share.
        format!("--tmpdir={}", dir.display()),
        format!("--port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
    ];
    arguments.extend(SETTINGS.iter().map(|(name, value)| format!("--{name}={value}")));
    if setup.tls.is_some() {
        arguments.push(format!("--ssl-ca={}", file("ca.crt")));
        arguments.push(format!("--ssl-cert={}", file("server.crt")));
        arguments.push(format!("--ssl-key={}", file("server.key")));
        arguments.push("--require-secure-transport=ON".to_owned());
    }
    arguments.extend(setup.settings.iter().map(|(name, value)| format!("--{name}={value}")));
    arguments
}

/// The process that answers, once one does.
pub(crate) fn ready(daemon: &Daemon) -> Option<String> {
    if !daemon.log().contains("ready for connections") {
        return None;
    }
    let pid = fs::read_to_string(daemon.dir().join("pid")).ok()?;
    Some(pid.trim().to_owned())
}

/// Whoever was killed left its process id behind.
pub(crate) fn forget(dir: &Path) {
    let _ = fs::remove_file(dir.join("pid"));
}

/// The administrator's client program.
pub(crate) fn client(dir: &Path, database: &str) -> Command {
    let mut command = Command::new(program("FIELDLEASE_MARIADB_CLIENT", &["mariadb", "mysql"]));
    command.args(["--no-defaults", "--user=root", "--batch", "--raw", "--skip-column-names"]);
    command.args(["--unbuffered", "--default-character-set=utf8mb4"]);
    command.arg(format!("--socket={}", socket(dir).display()));
    command.arg(format!("--database={database}"));
    command
}

/// Statements that make the account of the product. It may do everything in databases, and nothing an administrator does:
/// a server that may only be read is so for it.
pub(crate) fn account(password: Option<&str>) -> String {
    let password = password.map(|text| format!(" identified by '{text}'")).unwrap_or_default();
    format!(
        "create user '{USER}'@'127.0.0.1'{password};\n\
         grant select, insert, update, delete, create, drop, alter, index, references, trigger, create view, \
         create routine, alter routine, execute, create temporary tables, lock tables on *.* to '{USER}'@'127.0.0.1'"
    )
}
