//! How PostgreSQL is started and asked.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
};

use crate::servers::{
    DatabaseServer,
    daemon::{Account, Daemon, program, run},
    database::{DatabaseSetup, USER},
    template::Template,
};

/// Acknowledged saves survive a kill of the server, not a loss of power.
const SETTINGS: [(&str, &str); 10] = [
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    ("max_connections", "200"),
    ("shared_buffers", "64MB"),
    ("min_wal_size", "32MB"),
    ("max_wal_size", "256MB"),
    ("timezone", "UTC"),
    ("log_min_messages", "warning"),
];

static TEMPLATE: Mutex<Option<Template>> = Mutex::new(None);

fn binary(name: &str) -> PathBuf {
    let folder = std::env::var("FIELDLEASE_POSTGRES_BIN").unwrap_or_default();
    let own = format!("{folder}/{name}");
    let mut places = vec![own];
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<String> =
        versions.map(|entry| format!("{}/bin/{name}", entry.path().display())).collect();
    found.sort();
    places.extend(found.into_iter().rev());
    places.push(name.to_owned());
    let places: Vec<&str> = places.iter().map(String::as_str).collect();
    program("FIELDLEASE_POSTGRES_PROGRAM", &places)
}

pub(crate) fn server() -> PathBuf {
    binary("postgres")
}

fn data(dir: &Path) -> PathBuf {
    dir.join("data")
}

/// Puts the files of a new server into the folder.
pub(crate) fn template(dir: &Path) {
    Template::copy(&TEMPLATE, &data(dir), |data| {
        let folder = data.parent().unwrap();
        Account::POSTGRES.own(folder);
        let mut command = Account::POSTGRES.command(&binary("initdb"));
        command.arg("-D").arg(data).args(["-U", "postgres", "-A", "trust", "-E", "UTF8"]);
        command.args(["--locale=C.UTF-8", "--no-sync", "--no-instructions"]).current_dir("/");
        run(&mut command);
    });
}

pub(crate) fn configure(setup: &DatabaseSetup, dir: &Path) {
    let method = if setup.password.is_some() { "scram-sha-256" } else { "trust" };
    let mut kind = "host";
    let mut clients = "";
    if let Some(tls) = &setup.tls {
        fs::copy(&tls.authority, dir.join("ca.crt")).unwrap();
        fs::copy(&tls.certificate, dir.join("server.crt")).unwrap();
        fs::copy(&tls.key, dir.join("server.key")).unwrap();
        run(Command::new("chmod").arg("600").arg(dir.join("server.key")));
        kind = "hostssl";
        clients = if tls.clients { " clientcert=verify-ca" } else { "" };
    }
    let text = format!(
        "local all all trust\n\
         local replication all trust\n\
         host replication all 127.0.0.1/32 trust\n\
         {kind} all all 127.0.0.1/32 {method}{clients}\n"
    );
    fs::write(dir.join("access"), text).unwrap();
}

pub(crate) fn arguments(setup: &DatabaseSetup, port: u16, dir: &Path) -> Vec<String> {
    let mut settings: Vec<(String, String)> = vec![
        ("listen_addresses".into(), "127.0.0.1".into()),
        ("port".into(), port.to_string()),
        ("unix_socket_directories".into(), dir.display().to_string()),
        ("hba_file".into(), dir.join("access").display().to_string()),
    ];
    let own = SETTINGS.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    settings.extend(own);
    if setup.tls.is_some() {
        let file = |name: &str| dir.join(name).display().to_string();
        settings.push(("ssl".into(), "on".into()));
        settings.push(("ssl_ca_file".into(), file("ca.crt")));
        settings.push(("ssl_cert_file".into(), file("server.crt")));
        settings.push(("ssl_key_file".into(), file("server.key")));
    }
    settings.extend(setup.settings.clone());
    let mut arguments = vec!["-D".to_owned(), data(dir).display().to_string()];
    for (name, value) in settings {
        arguments.extend(["-c".to_owned(), format!("{name}={value}")]);
    }
    arguments
}

/// The process that answers, once one does.
pub(crate) fn ready(daemon: &Daemon) -> Option<String> {
    let text = fs::read_to_string(data(daemon.dir()).join("postmaster.pid")).ok()?;
    let state = text.lines().nth(7)?.trim();
    ["ready", "standby"].contains(&state).then(|| text.lines().next().map(str::to_owned))?
}

/// Whoever was killed left its process id behind.
pub(crate) fn forget(dir: &Path) {
    let _ = fs::remove_file(data(dir).join("postmaster.pid"));
}

/// The administrator's client program.
pub(crate) fn client(dir: &Path, port: u16, database: &str) -> Command {
    let mut command = Command::new(binary("psql"));
    command.args(["-X", "-q", "-A", "-t", "-F", "\t", "-U", "postgres", "-d", database]);
    command.args(["-v", "ON_ERROR_STOP=1", "-p", &port.to_string(), "-h"]).arg(dir);
    // What it is told by the surroundings of whoever runs the tests.
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("PGCLIENTENCODING", "UTF8").env("PGAPPNAME", "harness");
    command
}

/// Statements that make the account of the product.
pub(crate) fn account(password: Option<&str>) -> String {
    let password = password.map(|text| format!(" password '{text}'")).unwrap_or_default();
    format!("create role {USER} login{password}")
}

/// Copies a running server, as one that follows it.
pub(crate) fn base_backup(server: &DatabaseServer, dir: &Path) {
    let mut command = Account::POSTGRES.command(&binary("pg_basebackup"));
    command.args(["-U", "postgres", "-h", "127.0.0.1", "-p", &server.port().to_string()]);
    command.args(["-R", "-X", "stream", "-c", "fast", "--no-sync", "-D"]).arg(data(dir));
    run(command.current_dir("/").stdin(Stdio::null()));
}
