//! Looks at a server before records are trusted to it. `facts` asks, `findings` judges and is a plain function.
//! Everything asked is harmless: rights are found out by statements that match no row.

use std::collections::BTreeMap;

use mysql_async::{Conn, prelude::Queryable};

use crate::database::{
    finding::{BYPASSED_MAX, Finding, Level, bypassed},
    mysql::{Fault, MysqlOptions, fault, migrate, session},
};

/// Clocks further apart than this are told: the server's counts.
const CLOCK_US_MAX: u64 = 5_000_000;
/// A save of a large record must fit.
const PACKET_MIN: u64 = 16 << 20;

/// What the tables need beside SELECT; beside it, EXECUTE on the procedures.
pub(crate) const RIGHTS: [(&str, &[&str]); 17] = [
    ("fl_migration", &[]),
    ("fl_probe", &["UPDATE"]),
    ("fl_entity", &["INSERT", "UPDATE"]),
    ("fl_leaf", &["INSERT", "UPDATE", "DELETE"]),
    ("fl_scope", &["INSERT", "UPDATE"]),
    ("fl_stamp", &["INSERT", "UPDATE", "DELETE"]),
    ("fl_operation", &["INSERT"]),
    ("fl_void", &["INSERT", "UPDATE", "DELETE"]),
    ("fl_change", &["INSERT"]),
    ("fl_version", &["INSERT"]),
    ("fl_registry", &["INSERT", "UPDATE"]),
    ("fl_key", &["INSERT", "UPDATE", "DELETE"]),
    ("fl_queue", &["INSERT", "DELETE"]),
    ("fl_queue_scope", &["INSERT", "DELETE"]),
    ("fl_outbox", &["INSERT", "UPDATE"]),
    ("fl_outbox_last", &["INSERT", "UPDATE"]),
    ("fl_outbox_reader", &["INSERT", "UPDATE"]),
];

/// What was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) counts_matched_rows: Option<bool>,
    /// Names of the migrations that are missing, or why they cannot be looked at.
    pub(crate) missing: Vec<String>,
    /// Rights that are missing, as `DELETE on fl_leaf`.
    pub(crate) denied: Vec<String>,
    /// Columns that were written past the engine, and how often.
    pub(crate) bypassed: Vec<(String, i64)>,
    /// The server's clock less ours.
    pub(crate) ahead_us: i64,
    /// Whether what is sent can be read on its way.
    pub(crate) readable: bool,
}

pub(crate) async fn gather(conn: &mut Conn, options: &MysqlOptions) -> Result<Facts, Fault> {
    let target = &options.target;
    let variables = session::variables(conn).await?;
    let time: Option<i64> = conn
        .query_first("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
        .await?;
    let ahead_us = time.map_or(0, |time| time - options.clock.wall().0);
    let missing = match migrate::outstanding(conn, &target.to_string()).await {
        Ok(files) => files.iter().map(|file| format!("{:04}_{}", file.number, file.name)).collect(),
        Err(Fault::Invalid(error)) => vec![error.to_string()],
        Err(fault) => return Err(fault),
    };
    let local = target.socket.is_some()
        || matches!(target.host.as_str(), "localhost" | "::1")
        || target.host.starts_with("127.");
    let mut facts = Facts {
        variables,
        missing,
        ahead_us,
        readable: target.tls.is_none() && !local,
        ..Facts::default()
    };
    if facts.missing.is_empty() {
        facts.counts_matched_rows = session::counts_matched_rows(conn).await;
        facts.denied = denied(conn).await?;
        facts.bypassed = written_past(conn).await?;
    }
    Ok(facts)
}

async fn denied(conn: &mut Conn) -> Result<Vec<String>, Fault> {
    let mut denied = Vec::new();
    for (table, rights) in RIGHTS {
        for right in ["SELECT"].iter().chain(rights) {
            let statement = match *right {
                "SELECT" => format!("SELECT 1 FROM {table} WHERE FALSE"),
                "INSERT" => format!("INSERT INTO {table} SELECT * FROM {table} WHERE FALSE"),
                "UPDATE" => {
                    let column = column_of(table);
                    format!("UPDATE {table} SET {column} = {column} WHERE FALSE")
                }
                _ => format!("DELETE FROM {table} WHERE FALSE"),
            };
            if is_denied(conn, &statement).await? {
                denied.push(format!("{right} on {table}"));
            }
        }
    }
    if is_denied(conn, "CALL fl_load('', '')").await? {
        denied.push("EXECUTE on the procedures".to_owned());
    }
    Ok(denied)
}

/// What the printed triggers counted; nothing for a user who may not read it.
async fn written_past(conn: &mut Conn) -> Result<Vec<(String, i64)>, Fault> {
    if is_denied(conn, "SELECT 1 FROM fl_bypass WHERE FALSE").await? {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT CONVERT(place USING utf8mb4), CAST(SUM(times) AS SIGNED) FROM fl_bypass GROUP BY place \
         ORDER BY 2 DESC, 1 LIMIT {BYPASSED_MAX}"
    );
    Ok(conn.query(sql).await?)
}

/// A column that every row of the table has.
fn column_of(table: &str) -> &'static str {
    match table {
        "fl_probe" => "value",
        "fl_void" | "fl_stamp" | "fl_outbox" => "at",
        "fl_outbox_last" | "fl_outbox_reader" => "event",
        "fl_registry" => "effective_at",
        "fl_key" => "state",
        "fl_leaf" => "value",
        _ => "fence",
    }
}

/// Only that counts here; that the server is read-only is a finding of its own.
async fn is_denied(conn: &mut Conn, statement: &str) -> Result<bool, Fault> {
    match conn.query_drop(statement).await {
        Ok(()) => Ok(false),
        Err(mysql_async::Error::Server(error)) => Ok(fault::class(&error) == fault::Class::Denied),
        Err(error) => Err(error.into()),
    }
}

/// Everything worth saying about a server, worst first.
pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut judge = Judge { facts, found: Vec::new() };
    judge.version();
    judge.schema();
    judge.writes();
    judge.durability();
    judge.limits();
    judge.surroundings();
    judge.found.extend(bypassed(&facts.bypassed));
    judge.found.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    judge.found
}

struct Judge<'a> {
    facts: &'a Facts,
    found: Vec<Finding>,
}

impl Judge<'_> {
    fn add(&mut self, level: Level, code: &'static str, message: impl Into<String>, remedy: &str) {
        self.found.push(Finding::new(level, code, message, remedy));
    }

    fn text(&self, name: &str) -> &str {
        self.facts.variables.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }

    fn is_on(&self, name: &str) -> bool {
        matches!(self.text(name), "ON" | "1")
    }

    fn version(&mut self) {
        let shown = self.text("version").to_owned();
        let maria = shown.to_ascii_lowercase().contains("mariadb");
        let mut numbers = shown.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        let mut next = || numbers.next().and_then(Result::ok).unwrap_or_default();
        let version = (next(), next(), next());
        let remedy = "use MariaDB 10.6 or later, or MySQL 8.0.29 or later";
        if maria && version < (10, 6, 0) || !maria && version < (8, 0, 29) {
            self.add(Level::Refuse, "too_old", format!("it is {shown}"), remedy);
        } else if !maria {
            let message =
                format!("it is MySQL {shown}: the tests of this version run on MariaDB only");
            self.add(Level::Info, "untested", message, "try your own saves before you rely on it");
        }
    }

    fn schema(&mut self) {
        if !self.facts.missing.is_empty() {
            let message = format!("the schema is not complete: {}", self.facts.missing.join(", "));
            self.add(
                Level::Refuse,
                "no_schema",
                message,
                "apply the migrations: `fieldlease migrate`, or the files of schemas/sql/mysql in order",
            );
        }
        if !self.facts.denied.is_empty() {
            let message = format!("this user lacks {}", self.facts.denied.join(", "));
            self.add(
                Level::Refuse,
                "denied",
                message,
                "grant what docs/backends/mysql.md lists, and EXECUTE on the database",
            );
        }
    }

    fn writes(&mut self) {
        let read_only = ["read_only", "super_read_only", "innodb_read_only"];
        if let Some(name) = read_only.into_iter().find(|name| self.is_on(name)) {
            self.add(
                Level::Refuse,
                "read_only",
                format!(
                    "it may only be read (`{name}` is on): it is a replica, or being looked after"
                ),
                "name the primary",
            );
        }
        if self.is_on("log_bin") && self.text("binlog_format") == "STATEMENT" {
            self.add(
                Level::Refuse,
                "binlog_format",
                "`binlog_format` is STATEMENT, with which it refuses writes under READ COMMITTED",
                "set `binlog_format` to ROW or MIXED",
            );
        }
        if self.is_on("wsrep_on") {
            self.add(
                Level::Warn,
                "galera",
                "it is a node of a Galera cluster, whose nodes do not see each other's row locks",
                "send every write of records to one node; the others may serve reads",
            );
        }
    }

    fn durability(&mut self) {
        if self.number("innodb_flush_log_at_trx_commit").is_some_and(|level| level != 1) {
            let level = self.text("innodb_flush_log_at_trx_commit").to_owned();
            self.add(
                Level::Warn,
                "flush_log",
                format!("`innodb_flush_log_at_trx_commit` is {level}: a power cut takes up to a second of saves that were answered"),
                "set it to 1, or accept the loss",
            );
        }
        if self.is_on("log_bin") && self.number("sync_binlog").is_some_and(|every| every != 1) {
            self.add(
                Level::Info,
                "sync_binlog",
                "`sync_binlog` is not 1: after a power cut replicas may have saves the primary lost, or lack some it has",
                "set it to 1 where replicas take over",
            );
        }
    }

    fn limits(&mut self) {
        if let Some(bytes) = self.number("max_allowed_packet").filter(|bytes| *bytes < PACKET_MIN) {
            self.add(
                Level::Warn,
                "max_allowed_packet",
                format!(
                    "`max_allowed_packet` is {bytes} bytes: larger saves are refused as `too_large`"
                ),
                "set it to 64M",
            );
        }
        if let Some(seconds) = self.number("wait_timeout").filter(|seconds| *seconds < 60) {
            self.add(
                Level::Info,
                "wait_timeout",
                format!(
                    "it closes connections that are idle for {seconds} s: many are opened anew"
                ),
                "set `wait_timeout` to 600 or more",
            );
        }
        if let Some(most) = self.number("max_connections").filter(|most| *most < 32) {
            self.add(
                Level::Info,
                "max_connections",
                format!("it takes {most} connections in all"),
                "keep `connections` times the number of processes below it",
            );
        }
    }

    fn surroundings(&mut self) {
        if self.facts.ahead_us.unsigned_abs() > CLOCK_US_MAX {
            let seconds = self.facts.ahead_us / 1_000_000;
            self.add(
                Level::Warn,
                "clock",
                format!(
                    "its clock is {seconds} s ahead of this machine's; times of records are its own"
                ),
                "let both machines set their clocks from the same source",
            );
        }
        if self.facts.readable {
            self.add(
                Level::Warn,
                "plain_text",
                "the connection leaves this machine without TLS: records and password can be read on the way",
                "write `mysqls://` in the URL",
            );
        }
        if self.text("character_set_database") != "utf8mb4" {
            let found = self.text("character_set_database").to_owned();
            self.add(
                Level::Info,
                "character_set",
                format!("the database's character set is `{found}`; our tables have utf8mb4 whatever it is"),
                "nothing, unless tables of the CMS are mapped",
            );
        }
        if self.facts.counts_matched_rows == Some(true) {
            self.add(
                Level::Info,
                "matched_rows",
                "the connection counts matched rows, not changed ones",
                "nothing: no decision is made by such numbers",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Facts {
        let variables = [
            ("version", "10.11.19-MariaDB-log"),
            ("read_only", "OFF"),
            ("log_bin", "ON"),
            ("binlog_format", "MIXED"),
            ("sync_binlog", "1"),
            ("innodb_flush_log_at_trx_commit", "1"),
            ("max_allowed_packet", "67108864"),
            ("wait_timeout", "28800"),
            ("max_connections", "151"),
            ("character_set_database", "utf8mb4"),
            ("wsrep_on", "OFF"),
        ];
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Facts { variables: variables.into_iter().map(own).collect(), ..Facts::default() }
    }

    #[test]
    fn a_good_server_has_no_findings_and_each_fault_has_one() {
        assert_eq!(findings(&good()), []);
        let cases = [
            ("version", "10.5.2-MariaDB", "too_old", Level::Refuse),
            ("version", "8.0.28", "too_old", Level::Refuse),
            ("version", "8.0.29", "untested", Level::Info),
            ("read_only", "ON", "read_only", Level::Refuse),
            ("super_read_only", "ON", "read_only", Level::Refuse),
            ("binlog_format", "STATEMENT", "binlog_format", Level::Refuse),
            ("wsrep_on", "ON", "galera", Level::Warn),
            ("innodb_flush_log_at_trx_commit", "2", "flush_log", Level::Warn),
            ("sync_binlog", "0", "sync_binlog", Level::Info),
            ("max_allowed_packet", "1048576", "max_allowed_packet", Level::Warn),
            ("wait_timeout", "30", "wait_timeout", Level::Info),
            ("max_connections", "10", "max_connections", Level::Info),
            ("character_set_database", "latin1", "character_set", Level::Info),
        ];

        for (name, value, code, level) in cases {
            let mut facts = good();
            facts.variables.insert(name.to_owned(), value.to_owned());
            let found: Vec<_> =
                findings(&facts).into_iter().map(|found| (found.code, found.level)).collect();
            assert_eq!(found, [(code, level)], "{name} = {value}");
        }
    }

    #[test]
    fn what_is_not_a_setting_is_found_too() {
        let facts = Facts {
            missing: vec!["0002_keys".to_owned()],
            denied: vec!["DELETE on fl_leaf".to_owned()],
            ahead_us: -60_000_000,
            readable: true,
            counts_matched_rows: Some(true),
            ..good()
        };

        let found: Vec<_> = findings(&facts).into_iter().map(|finding| finding.code).collect();

        assert_eq!(found, ["no_schema", "denied", "clock", "plain_text", "matched_rows"]);
        assert!(findings(&facts).iter().all(|finding| !finding.remedy.is_empty()));
    }
}
