//! One connection: opened, set up, and looked at, because a proxy in between may change what was asked for.

use std::collections::BTreeMap;

use mysql_async::{
    ClientIdentity, Conn, Opts, OptsBuilder, PoolOpts, Row, SslOpts, prelude::Queryable,
};

use crate::{
    database::mysql::{
        Fault, MysqlOptions,
        url::{Password, TlsFiles},
    },
    error::Error,
};

/// What our statements and procedures are read by, whatever the server's default is.
pub(crate) const SQL_MODE: &str = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO";

/// Longest list that a statement gathers from rows. The server cuts longer ones off without an error.
const LIST_BYTES_MAX: u32 = 256 << 20;

/// Statements kept prepared on each connection: all of ours.
const PREPARED_MAX: usize = 64;

/// Opens a connection and sets it up; answers the largest packet the server takes, too.
pub(crate) async fn open(options: &MysqlOptions) -> Result<(Conn, u64), Fault> {
    let opts = opts(options).await.map_err(Fault::Invalid)?;
    let mut conn = match Conn::new(opts).await {
        Ok(conn) => conn,
        Err(mysql_async::Error::Server(error)) => return Err(Fault::Server(error)),
        Err(error) => return Err(Fault::Unreached(error.to_string())),
    };
    let variables = set_up(&mut conn, options).await?;
    let packet_max = variables.get("max_allowed_packet").and_then(|text| text.parse().ok());
    Ok((conn, packet_max.unwrap_or(u64::MAX)))
}

async fn opts(options: &MysqlOptions) -> Result<Opts, Error> {
    let target = &options.target;
    let password = match &target.password {
        Password::None => None,
        Password::Given(text) => Some(text.clone()),
        Password::File(path) => {
            let text = tokio::fs::read_to_string(path).await.map_err(|error| {
                let path = path.display();
                Error::unavailable(format!("cannot read the password file `{path}`: {error}"))
            })?;
            Some(text.trim_end_matches(['\r', '\n']).to_owned())
        }
    };
    let tls = target.tls.as_ref().map(ssl_opts).transpose()?;
    let socket = target.socket.as_ref().map(|path| path.display().to_string());
    let builder = OptsBuilder::default()
        .ip_or_hostname(target.host.clone())
        .tcp_port(target.port)
        .socket(socket)
        .user(target.user.clone())
        .pass(password)
        .db_name(Some(target.database.clone()))
        // Where an address is given, it is meant: a tunnel or proxy may stand there.
        .prefer_socket(false)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(std::time::Duration::from_secs(30)))
        .stmt_cache_size(PREPARED_MAX)
        .pool_opts(PoolOpts::default().with_reset_connection(false))
        .ssl_opts(tls);
    Ok(builder.into())
}

fn ssl_opts(files: &TlsFiles) -> Result<SslOpts, Error> {
    let roots = match &files.ca {
        Some(path) => vec![path.clone().into()],
        None => machine_roots()?.into_iter().map(Into::into).collect(),
    };
    let identity = files
        .identity
        .as_ref()
        .map(|(cert, key)| ClientIdentity::new(cert.clone().into(), key.clone().into()));
    Ok(SslOpts::default()
        .with_disable_built_in_roots(true)
        .with_root_certs(roots)
        .with_client_identity(identity))
}

/// The certificates this machine trusts. Those that cannot be read are left out.
fn machine_roots() -> Result<Vec<Vec<u8>>, Error> {
    let found = rustls_native_certs::load_native_certs().certs;
    let usable = found
        .into_iter()
        .filter(|certificate| rustls::RootCertStore::empty().add(certificate.clone()).is_ok());
    let roots: Vec<_> = usable.map(|certificate| certificate.to_vec()).collect();
    if roots.is_empty() {
        return Err(Error::invalid(
            "bad_url",
            "this machine has no certificates to trust",
            "name one with `ca=FILE`",
        ));
    }
    Ok(roots)
}

/// READ COMMITTED, our sql_mode, utf8mb4, UTC, a lock wait of our own, every statement its own transaction.
async fn set_up(
    conn: &mut Conn,
    options: &MysqlOptions,
) -> Result<BTreeMap<String, String>, Fault> {
    let lock_timeout = options.lock_timeout.as_secs().max(1);
    let statements = [
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin".to_owned(),
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
        format!(
            "SET SESSION sql_mode = '{SQL_MODE}', autocommit = 1, time_zone = '+00:00', \
             innodb_lock_wait_timeout = {lock_timeout}, group_concat_max_len = {LIST_BYTES_MAX}"
        ),
        // What triggers on tables of the CMS look at: on this connection only the engine writes.
        "SET @fl_pass = 1".to_owned(),
    ];
    for statement in statements {
        conn.query_drop(statement).await?;
    }
    let variables = variables(conn).await?;
    match changed(&variables) {
        None => Ok(variables),
        Some((name, value)) => Err(Fault::Invalid(Error::invalid(
            "session_changed",
            format!("a connection does not keep what is set on it: `{name}` is `{value}`"),
            "a proxy in between changes it or shares connections between sessions; connect to the server itself, \
             or let the proxy keep one connection per session",
        ))),
    }
}

/// The variables of a session that matter; those a server does not know are missing.
pub(crate) async fn variables(conn: &mut Conn) -> Result<BTreeMap<String, String>, Fault> {
    let rows: Vec<(String, String)> = conn
        .query(
            "SHOW SESSION VARIABLES WHERE Variable_name IN ('sql_mode', 'tx_isolation', 'transaction_isolation', \
             'autocommit', 'time_zone', 'character_set_client', 'innodb_lock_wait_timeout', 'max_allowed_packet', \
             'version', 'version_comment', 'read_only', 'innodb_read_only', 'log_bin', 'binlog_format', 'sync_binlog', \
             'innodb_flush_log_at_trx_commit', 'innodb_doublewrite', 'character_set_database', 'wait_timeout', \
             'max_connections', 'innodb_rollback_on_timeout', 'super_read_only', 'wsrep_on')",
        )
        .await?;
    Ok(rows.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect())
}

/// The first setting that is not what was asked for.
fn changed(variables: &BTreeMap<String, String>) -> Option<(&'static str, String)> {
    let value = |name: &str| variables.get(name).cloned().unwrap_or_default();
    let isolation = match variables.get("transaction_isolation") {
        Some(level) => level.clone(),
        None => value("tx_isolation"),
    };
    if isolation != "READ-COMMITTED" {
        return Some(("transaction_isolation", isolation));
    }
    if value("autocommit") != "ON" {
        return Some(("autocommit", value("autocommit")));
    }
    if value("character_set_client") != "utf8mb4" {
        return Some(("character_set_client", value("character_set_client")));
    }
    let modes = |text: &str| {
        let mut modes: Vec<String> = text.split(',').map(str::to_owned).collect();
        modes.sort();
        modes
    };
    let sql_mode = value("sql_mode");
    (modes(&sql_mode) != modes(SQL_MODE)).then_some(("sql_mode", sql_mode))
}

/// Whether a statement that changes nothing counts the rows it matched (a flag of the connection, which proxies set as
/// they like). Found out by trying, on a row that never changes; `None` where that is not possible.
pub(crate) async fn counts_matched_rows(conn: &mut Conn) -> Option<bool> {
    conn.query_drop("UPDATE fl_probe SET value = value WHERE id = 1").await.ok()?;
    let matched = conn.affected_rows();
    let there: Option<u8> =
        conn.query_first("SELECT value FROM fl_probe WHERE id = 1").await.ok()?;
    there.map(|_| matched > 0)
}

/// All sets of rows a statement answers; prepared once per connection.
pub(crate) async fn sets(
    conn: &mut Conn,
    sql: &str,
    params: Vec<mysql_async::Value>,
) -> Result<Vec<Vec<Row>>, Fault> {
    let params = if params.is_empty() {
        mysql_async::Params::Empty
    } else {
        mysql_async::Params::Positional(params)
    };
    let mut result = conn.exec_iter(sql, params).await?;
    let mut sets = Vec::new();
    while !result.is_empty() {
        sets.push(result.collect::<Row>().await?);
    }
    result.drop_result().await?;
    Ok(sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_is_not_as_asked_for_names_what_differs() {
        let asked = [
            ("transaction_isolation", "READ-COMMITTED"),
            ("autocommit", "ON"),
            ("character_set_client", "utf8mb4"),
            ("sql_mode", SQL_MODE),
        ];
        let with = |name: &'static str, value: &str| {
            let mut variables: BTreeMap<String, String> =
                asked.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            variables.insert(name.to_owned(), value.to_owned());
            changed(&variables).map(|(name, _)| name)
        };

        let mut turned: Vec<&str> = SQL_MODE.split(',').collect();
        turned.reverse();
        assert_eq!(with("sql_mode", &turned.join(",")), None);
        for (name, value) in [
            ("transaction_isolation", "REPEATABLE-READ"),
            ("autocommit", "OFF"),
            ("character_set_client", "latin1"),
            ("sql_mode", "SIMULTANEOUS_ASSIGNMENT"),
        ] {
            assert_eq!(with(name, value), Some(name));
        }
    }
}
