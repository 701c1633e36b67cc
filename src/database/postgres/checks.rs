//! Looks at a database before records are trusted to it. `facts` asks, `findings` judges and is a plain function.
//! Everything asked is harmless: settings, rights, and which session answers.

use std::collections::BTreeMap;

use tokio_postgres::{config::SslMode, types::Type};

use crate::{
    clock::{Clock, SystemClock},
    database::{
        finding::{BYPASSED_MAX, Finding, Level, bypassed},
        postgres::{
            fault::Fault,
            options::{Pooler, PostgresOptions},
            pool::Postgres,
            values::Time,
        },
    },
    error::Result,
};

/// Clocks further apart than this are told: the server's counts.
const CLOCK_US_MAX: u64 = 5_000_000;
/// The oldest server the routines run on.
const VERSION_MIN: u32 = 130_000;

/// What our tables need; beside it, EXECUTE on the routines.
pub(crate) const RIGHTS: [(&str, &str); 6] = [
    ("fl_migration", "SELECT"),
    ("fl_entity", "SELECT, INSERT, UPDATE"),
    ("fl_scope", "SELECT, INSERT, UPDATE"),
    ("fl_registry", "SELECT, INSERT, UPDATE"),
    ("fl_operation", "SELECT, INSERT, UPDATE"),
    ("fl_key", "SELECT, INSERT, UPDATE, DELETE"),
];

const SETTINGS: [&str; 12] = [
    "server_version_num",
    "server_version",
    "server_encoding",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "transaction_read_only",
    "synchronous_commit",
    "fsync",
    "full_page_writes",
    "lock_timeout",
    "statement_timeout",
    "idle_in_transaction_session_timeout",
];

/// What was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) settings: BTreeMap<String, String>,
    /// Names of the migrations that are missing, or why they cannot be looked at.
    pub(crate) missing: Vec<String>,
    /// Rights that are missing, as `DELETE on fl_key`.
    pub(crate) denied: Vec<String>,
    /// Columns that were written past the engine, and how often.
    pub(crate) bypassed: Vec<(String, i64)>,
    /// The server's clock less ours.
    pub(crate) ahead_us: i64,
    pub(crate) standby: bool,
    /// Whether a pooler stands between.
    pub(crate) pooled: bool,
    /// Whether the session settings of [`Pooler::None`] are wanted.
    pub(crate) prepared: bool,
    /// Whether what is sent can be read on its way.
    pub(crate) readable: bool,
}

pub(crate) async fn gather(database: &Postgres) -> Result<Facts> {
    let options = database.options();
    let mut facts = Facts {
        prepared: options.pooler == Pooler::None,
        readable: is_readable(options),
        ..Facts::default()
    };
    let fault = |fault: Fault| fault.into_error(database.place(), None);
    ask_settings(database, &mut facts).await.map_err(fault)?;
    facts.missing = match database.missing().await {
        Ok(files) => files.iter().map(|file| format!("{:04}_{}", file.number, file.name)).collect(),
        Err(error) => vec![error.to_string()],
    };
    if facts.missing.is_empty() {
        facts.denied = denied(database).await.map_err(fault)?;
        facts.bypassed = written_past(database).await.map_err(fault)?;
    }
    Ok(facts)
}

fn is_readable(options: &PostgresOptions) -> bool {
    let local = options.config.get_hosts().iter().all(|host| match host {
        tokio_postgres::config::Host::Tcp(name) => {
            name == "localhost" || name == "::1" || name.starts_with("127.")
        }
        #[cfg(unix)]
        tokio_postgres::config::Host::Unix(_) => true,
    });
    !local && options.config.get_ssl_mode() != SslMode::Require
}

async fn ask_settings(database: &Postgres, facts: &mut Facts) -> std::result::Result<(), Fault> {
    let of = |error: tokio_postgres::Error| Fault::of(&error);
    let client = database.connection().await?;
    let names: Vec<&str> = SETTINGS.to_vec();
    let rows = client
        .query_typed(
            "SELECT s.name, current_setting(s.name, true) FROM unnest($1) AS s (name)",
            &[(&names, Type::TEXT_ARRAY)],
        )
        .await
        .map_err(of)?;
    for row in rows {
        let value: Option<String> = row.try_get(1).map_err(of)?;
        facts.settings.insert(row.try_get(0).map_err(of)?, value.unwrap_or_default());
    }
    let row = client
        .query_typed_one("SELECT clock_timestamp(), pg_is_in_recovery()", &[])
        .await
        .map_err(of)?;
    facts.ahead_us = row.try_get::<_, Time>(0).map_err(of)?.0.0 - SystemClock.wall().0;
    facts.standby = row.try_get(1).map_err(of)?;
    drop(client);
    facts.pooled = is_pooled(database).await?;
    Ok(())
}

/// A server takes a setting of ours when a connection opens; a pooler refuses it, or drops it.
async fn is_pooled(database: &Postgres) -> std::result::Result<bool, Fault> {
    let mut driver = database.options().config.clone();
    driver.options("-c fieldlease.probe=direct");
    let (client, connection) = match driver.connect(database.tls()).await {
        Ok(opened) => opened,
        Err(error) if error.as_db_error().is_some() => return Ok(true),
        Err(error) => return Err(Fault::of_connecting(&error)),
    };
    tokio::spawn(connection);
    let probe = client
        .query_typed_one("SELECT current_setting('fieldlease.probe', true)", &[])
        .await
        .map_err(|error| Fault::of(&error))?;
    let probe: Option<String> = probe.try_get(0).map_err(|error| Fault::of(&error))?;
    Ok(probe.as_deref() != Some("direct"))
}

/// Rights that are missing, as `DELETE on fl_key`.
async fn denied(database: &Postgres) -> std::result::Result<Vec<String>, Fault> {
    let of = |error: tokio_postgres::Error| Fault::of(&error);
    let client = database.connection().await?;
    let mut tables = Vec::new();
    let mut rights = Vec::new();
    for (table, all) in RIGHTS {
        for right in all.split(", ") {
            tables.push(table);
            rights.push(right);
        }
    }
    let mut denied = Vec::new();
    let rows = client
        .query_typed(
            "SELECT w.privilege || ' on ' || w.tab FROM unnest($1, $2) AS w (tab, privilege) \
             WHERE NOT has_table_privilege(w.tab, w.privilege) ORDER BY 1",
            &[(&tables, Type::TEXT_ARRAY), (&rights, Type::TEXT_ARRAY)],
        )
        .await
        .map_err(of)?;
    for row in rows {
        denied.push(row.try_get(0).map_err(of)?);
    }
    let routines = client
        .query_typed(
            "SELECT 'EXECUTE on ' || p.proname FROM pg_proc AS p \
             WHERE p.proname LIKE 'fl\\_%' AND p.pronamespace = (SELECT c.relnamespace FROM pg_class AS c \
                 WHERE c.oid = 'fl_entity'::regclass) \
               AND NOT has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1",
            &[],
        )
        .await
        .map_err(of)?;
    for row in routines {
        denied.push(row.try_get(0).map_err(of)?);
    }
    Ok(denied)
}

/// What the printed triggers counted; nothing for a role that may not read it.
async fn written_past(database: &Postgres) -> std::result::Result<Vec<(String, i64)>, Fault> {
    let of = |error: tokio_postgres::Error| Fault::of(&error);
    let client = database.connection().await?;
    let readable = client
        .query_typed_one("SELECT has_table_privilege('fl_bypass', 'SELECT')", &[])
        .await
        .map_err(of)?;
    if !readable.try_get::<_, bool>(0).map_err(of)? {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT place, SUM(times)::bigint FROM fl_bypass GROUP BY place ORDER BY 2 DESC, 1 LIMIT {BYPASSED_MAX}"
    );
    let rows = client.query_typed(&sql, &[]).await.map_err(of)?;
    rows.iter().map(|row| Ok((row.try_get(0).map_err(of)?, row.try_get(1).map_err(of)?))).collect()
}

/// Everything worth saying about a server, worst first.
pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut judge = Judge { facts, found: Vec::new() };
    judge.version();
    judge.schema();
    judge.writes();
    judge.durability();
    judge.waits();
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
        self.facts.settings.get(name).map_or("", String::as_str)
    }

    fn is_unset(&self, name: &str) -> bool {
        self.text(name) == "0"
    }

    fn version(&mut self) {
        let version = self.text("server_version_num").parse().unwrap_or(0);
        if version < VERSION_MIN {
            let message = format!("it is PostgreSQL {}", self.text("server_version"));
            self.add(Level::Refuse, "too_old", message, "use PostgreSQL 13 or later");
        }
        if self.text("server_encoding") != "UTF8" {
            let message = format!("its encoding is {}", self.text("server_encoding"));
            self.add(
                Level::Refuse,
                "encoding",
                message,
                "create the database with ENCODING 'UTF8'",
            );
        }
    }

    fn schema(&mut self) {
        if !self.facts.missing.is_empty() {
            let message = format!("the schema is not complete: {}", self.facts.missing.join(", "));
            self.add(
                Level::Refuse,
                "no_schema",
                message,
                "run `fieldlease migrate`, and see that the role's search_path names the schema they are in",
            );
        }
        if !self.facts.denied.is_empty() {
            let message = format!("this role lacks {}", self.facts.denied.join(", "));
            self.add(
                Level::Refuse,
                "denied",
                message,
                "grant what schemas/sql/postgres_service_role.sql lists",
            );
        }
    }

    fn writes(&mut self) {
        let by_setting = ["transaction_read_only", "default_transaction_read_only"];
        if self.facts.standby {
            self.add(
                Level::Refuse,
                "read_only",
                "it is a standby: it may only be read",
                "name the primary, or all hosts with `target_session_attrs=read-write`",
            );
        } else if by_setting.into_iter().any(|name| self.text(name) == "on") {
            self.add(
                Level::Refuse,
                "read_only",
                "its transactions are read-only by setting",
                "set `default_transaction_read_only` off for this role",
            );
        }
        let isolation = self.text("default_transaction_isolation").to_owned();
        if isolation != "read committed" {
            self.add(
                Level::Warn,
                "isolation",
                format!("transactions are {isolation} by default: saves of one record that meet are sent again"),
                "ALTER ROLE .. SET default_transaction_isolation = 'read committed'",
            );
        }
    }

    fn durability(&mut self) {
        if self.text("fsync") == "off" || self.text("full_page_writes") == "off" {
            self.add(
                Level::Refuse,
                "not_durable",
                "`fsync` or `full_page_writes` is off: a crash of the machine may destroy the database",
                "set both on",
            );
        }
        match self.text("synchronous_commit") {
            "off" => self.add(
                Level::Warn,
                "synchronous_commit",
                "`synchronous_commit` is off: a crash of the server takes acknowledged saves of the last moments",
                "ALTER ROLE .. SET synchronous_commit = on",
            ),
            "local" => self.add(
                Level::Info,
                "synchronous_commit",
                "`synchronous_commit` is local: a failover may take acknowledged saves",
                "set it to `on` where standbys are synchronous",
            ),
            _ => {}
        }
    }

    fn waits(&mut self) {
        if !self.facts.prepared
            && self.is_unset("lock_timeout")
            && self.is_unset("statement_timeout")
        {
            self.add(
                Level::Warn,
                "no_timeout",
                "neither `lock_timeout` nor `statement_timeout` is set for this role: a save waits for a locked row until this process gives it up",
                "ALTER ROLE .. SET lock_timeout = '5s'",
            );
        }
        if self.is_unset("idle_in_transaction_session_timeout") {
            self.add(
                Level::Info,
                "idle_transactions",
                "a transaction that is left open keeps its rows locked without end",
                "ALTER ROLE .. SET idle_in_transaction_session_timeout = '60s' for roles of people and scripts",
            );
        }
    }

    fn surroundings(&mut self) {
        if self.facts.pooled && self.facts.prepared {
            self.add(
                Level::Refuse,
                "pooler",
                "a pooler stands between, and statements are to be prepared and settings made per session",
                "leave the pooler at `transaction`, the default",
            );
        } else if self.facts.pooled {
            self.add(
                Level::Info,
                "pooler",
                "a pooler stands between: statements are sent whole every time",
                "nothing; connect to the server itself to have them prepared",
            );
        } else if !self.facts.prepared {
            self.add(
                Level::Info,
                "direct",
                "no pooler stands between: statements could be prepared once",
                "set the pooler to `none`: a save costs about a third less",
            );
        }
        if self.facts.ahead_us.unsigned_abs() > CLOCK_US_MAX {
            let message = format!(
                "its clock is {} s from this machine's; the times of records are the server's",
                self.facts.ahead_us / 1_000_000
            );
            self.add(Level::Warn, "clock", message, "synchronize both clocks (NTP)");
        }
        if self.facts.readable {
            self.add(
                Level::Warn,
                "no_tls",
                "records and the password may be read on their way: TLS is not asked for",
                "add `sslmode=verify-full` to the URL",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Facts {
        let settings = [
            ("server_version_num", "150008"),
            ("server_encoding", "UTF8"),
            ("default_transaction_isolation", "read committed"),
            ("default_transaction_read_only", "off"),
            ("transaction_read_only", "off"),
            ("synchronous_commit", "on"),
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("lock_timeout", "5s"),
            ("statement_timeout", "10s"),
            ("idle_in_transaction_session_timeout", "1min"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Facts { settings: settings.into(), prepared: true, ..Facts::default() }
    }

    fn codes(change: impl FnOnce(&mut Facts)) -> Vec<(Level, &'static str)> {
        let mut facts = good();
        change(&mut facts);
        findings(&facts).iter().map(|finding| (finding.level, finding.code)).collect()
    }

    #[test]
    fn each_finding_is_told_for_its_own_reason_only() {
        let set = |name: &'static str, value: &'static str| {
            move |facts: &mut Facts| {
                facts.settings.insert(name.to_owned(), value.to_owned());
            }
        };

        assert_eq!(codes(|_| ()), []);
        assert_eq!(codes(set("server_version_num", "120022")), [(Level::Refuse, "too_old")]);
        assert_eq!(codes(set("server_encoding", "SQL_ASCII")), [(Level::Refuse, "encoding")]);
        assert_eq!(codes(|facts| facts.standby = true), [(Level::Refuse, "read_only")]);
        assert_eq!(codes(set("transaction_read_only", "on")), [(Level::Refuse, "read_only")]);
        assert_eq!(codes(set("fsync", "off")), [(Level::Refuse, "not_durable")]);
        assert_eq!(codes(|facts| facts.pooled = true), [(Level::Refuse, "pooler")]);
        assert_eq!(codes(|facts| facts.denied = vec!["x".into()]), [(Level::Refuse, "denied")]);
        assert_eq!(codes(|facts| facts.missing = vec!["x".into()]), [(Level::Refuse, "no_schema")]);
        let isolation = set("default_transaction_isolation", "serializable");
        assert_eq!(codes(isolation), [(Level::Warn, "isolation")]);
        assert_eq!(codes(set("synchronous_commit", "off")), [(Level::Warn, "synchronous_commit")]);
        assert_eq!(
            codes(set("synchronous_commit", "local")),
            [(Level::Info, "synchronous_commit")]
        );
        assert_eq!(codes(|facts| facts.ahead_us = -6_000_000), [(Level::Warn, "clock")]);
        assert_eq!(codes(|facts| facts.readable = true), [(Level::Warn, "no_tls")]);
        assert_eq!(codes(|facts| facts.prepared = false), [(Level::Info, "direct")]);
        let waits = codes(|facts| {
            facts.prepared = false;
            facts.pooled = true;
            for name in ["lock_timeout", "statement_timeout"] {
                facts.settings.insert(name.to_owned(), "0".to_owned());
            }
        });
        assert_eq!(waits, [(Level::Warn, "no_timeout"), (Level::Info, "pooler")]);
    }
}
