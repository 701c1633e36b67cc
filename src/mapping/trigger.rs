//! SQL for tables that other code writes too: triggers that find the writes nobody made known. They are printed for
//! people, never run by the engine.

use std::collections::BTreeMap;

use super::{
    Dialect, Mapping, expand,
    template::{Template, Vars},
};
use crate::{
    path::{AxisMatch, Pattern, Segment},
    registry::Rule,
};

/// A column the engine guards: its table, the column, and for rows that belong to somebody else a condition on the row.
struct Guarded {
    table: String,
    id: Vec<String>,
    column: String,
    /// One per rule; the column is guarded where any holds. Empty: everywhere.
    rows: Vec<String>,
}

impl Mapping {
    /// Triggers on the mapped tables that see writes to guarded columns made past the engine: into `fl_bypass`, or with
    /// `refuse` they end the statement. Columns whose name only the database can tell, and keys of JSON columns under
    /// `refuse`, are named in comments and left out.
    #[must_use]
    pub fn trigger_sql(&self, dialect: Dialect, refuse: bool) -> String {
        let mut text = format!(
            "-- Writes to columns of `{}` that neither the engine nor fl_guard stands for {}.\n",
            self.rules.kind,
            if refuse { "are refused" } else { "are entered into fl_bypass" }
        );
        let mut tables: BTreeMap<String, Vec<Guarded>> = BTreeMap::new();
        for guarded in self.guarded(refuse, &mut text) {
            tables.entry(guarded.table.clone()).or_default().push(guarded);
        }
        for (table, columns) in &tables {
            text.push_str(&self.trigger(dialect, refuse, table, columns));
        }
        text
    }

    fn guarded(&self, refuse: bool, text: &mut String) -> Vec<Guarded> {
        let mut found: Vec<Guarded> = Vec::new();
        for rule in self.rules.rules().iter().filter(|rule| rule.pattern.marker().is_none()) {
            let Some(place) = expand::closest(self, &rule.pattern) else { continue };
            let vars = fixed(rule, &place.pattern);
            for target in std::iter::once(&place.target).chain(&place.also) {
                let names = (target.row.table.fill(&vars), target.column.fill(&vars));
                let (Some(table), Some(column)) = names else {
                    text.push_str(&format!(
                        "-- left out: `{}`, a name of which is open\n",
                        rule.pattern
                    ));
                    continue;
                };
                if refuse && !target.keys.is_empty() {
                    text.push_str(&format!(
                        "-- left out: `{}`, a key inside `{table}.{column}`, whose other keys are free\n",
                        rule.pattern
                    ));
                    continue;
                }
                let row = condition(&target.row.row, &vars, &place.pattern, &rule.pattern);
                let known = found.iter_mut().find(|g| g.table == table && g.column == column);
                match known {
                    Some(known) if known.rows.is_empty() || row.is_empty() => known.rows.clear(),
                    Some(known) => known.rows.push(row),
                    None => found.push(Guarded {
                        table,
                        id: target.row.id.clone(),
                        column,
                        rows: Some(row).filter(|row| !row.is_empty()).into_iter().collect(),
                    }),
                }
            }
        }
        found
    }

    fn trigger(&self, dialect: Dialect, refuse: bool, table: &str, columns: &[Guarded]) -> String {
        let quote = |name: &str| dialect.quoted(name);
        let name = quote(&format!("fl_guard_{}_{}", self.rules.kind, table.replace('.', "_")));
        let on: Vec<String> = table.split('.').map(quote).collect();
        let on = on.join(".");
        let list: Vec<String> = columns.iter().map(|guarded| quote(&guarded.column)).collect();
        let blocks: Vec<String> =
            columns.iter().map(|guarded| self.block(dialect, refuse, guarded)).collect();
        let (list, blocks) = (list.join(", "), blocks.concat());
        match dialect {
            Dialect::Sqlite => format!(
                "DROP TRIGGER IF EXISTS {name};\n\
                 CREATE TRIGGER {name} AFTER UPDATE OF {list} ON {on}\n\
                 WHEN NOT EXISTS (SELECT 1 FROM fl_pass)\nBEGIN\n{blocks}END;\n"
            ),
            Dialect::Postgres => format!(
                "CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $guard$\nBEGIN\n\
                 IF coalesce(current_setting('fieldlease.pass', true), '') <> '1' THEN\n{blocks}END IF;\n\
                 RETURN NULL;\nEND $guard$;\n\
                 DROP TRIGGER IF EXISTS {name} ON {on};\n\
                 CREATE TRIGGER {name} AFTER UPDATE OF {list} ON {on} FOR EACH ROW EXECUTE FUNCTION {name}();\n"
            ),
            Dialect::Mysql => format!(
                "DROP TRIGGER IF EXISTS {name};\nDELIMITER //\n\
                 CREATE TRIGGER {name} AFTER UPDATE ON {on} FOR EACH ROW\nBEGIN\n\
                 IF NOT (@fl_pass <=> 1) THEN\n{blocks}END IF;\nEND //\nDELIMITER ;\n"
            ),
        }
    }

    /// What happens to one column.
    fn block(&self, dialect: Dialect, refuse: bool, guarded: &Guarded) -> String {
        let column = dialect.quoted(&guarded.column);
        let changed = match dialect {
            Dialect::Sqlite => format!("OLD.{column} IS NOT NEW.{column}"),
            Dialect::Postgres => format!("OLD.{column}::text IS DISTINCT FROM NEW.{column}::text"),
            Dialect::Mysql => format!("NOT (BINARY OLD.{column} <=> BINARY NEW.{column})"),
        };
        let rows = guarded.rows.join(" OR ");
        let rows = if rows.is_empty() { rows } else { format!(" AND ({rows})") };
        let rows = quoted_rows(dialect, &rows);
        let wrong = format!("{changed}{rows}");
        let kind = literal(self.rules.kind.as_str());
        let place = literal(&format!("{}.{}", guarded.table, guarded.column));
        let id = id_text(dialect, &guarded.id);
        let said = literal(&format!(
            "fieldlease: {}.{} of {} is written past the engine",
            guarded.table, guarded.column, self.rules.kind
        ));
        match (dialect, refuse) {
            (Dialect::Sqlite, true) => format!("SELECT RAISE(ABORT, {said}) WHERE {wrong};\n"),
            (Dialect::Postgres, true) => {
                format!("IF {wrong} THEN RAISE EXCEPTION USING MESSAGE = {said}; END IF;\n")
            }
            (Dialect::Mysql, true) => format!(
                "IF {wrong} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = {said}; END IF;\n"
            ),
            (Dialect::Sqlite, false) => format!(
                "INSERT INTO fl_bypass (type, id, place, first_at, last_at)\n\
                 SELECT {kind}, {id}, {place}, unixepoch() * 1000000, unixepoch() * 1000000 WHERE {wrong}\n\
                 ON CONFLICT (type, id, place) DO UPDATE SET times = times + 1, last_at = excluded.last_at;\n"
            ),
            (Dialect::Postgres, false) => format!(
                "INSERT INTO fl_bypass AS b (type, id, place, who)\nSELECT {kind}, {id}, {place}, session_user WHERE {wrong}\n\
                 ON CONFLICT (type, id, place) DO UPDATE SET times = b.times + 1, last_at = clock_timestamp(), who = excluded.who;\n"
            ),
            (Dialect::Mysql, false) => format!(
                "IF {wrong} THEN\nINSERT INTO fl_bypass (type, id, place, who) VALUES ({kind}, {id}, {place}, USER())\n\
                 ON DUPLICATE KEY UPDATE times = times + 1, last_at = CURRENT_TIMESTAMP(6), who = VALUES(who);\nEND IF;\n"
            ),
        }
    }
}

/// What a rule fixes of the placeholders of its place.
fn fixed(rule: &Rule, place: &Pattern) -> Vars {
    let mut vars = Vars::new();
    let mut star = 0;
    for (index, segment) in place.segments().iter().enumerate() {
        if matches!(segment, Segment::Key(_)) {
            continue;
        }
        star += 1;
        if let Some(Segment::Key(key)) = rule.pattern.segments().get(index) {
            vars.insert(star.to_string(), key.to_string());
        }
    }
    for (axis, value) in rule.pattern.axes() {
        if let AxisMatch::Exact(value) = value {
            vars.insert(axis.to_string(), value.to_string());
        }
    }
    vars
}

/// Which rows of a table belong to a rule: equal texts, and beginnings of keys. Empty: all.
fn condition(row: &[(String, Template)], vars: &Vars, place: &Pattern, rule: &Pattern) -> String {
    let mut parts = Vec::new();
    for (column, template) in row {
        if let Some(text) = template.fill(vars) {
            parts.push(format!("{{{column}}} = {}", literal(&text)));
            continue;
        }
        // `$2` of `meta.*.*` may be known by its beginning only.
        let mut starts = vars.clone();
        let mut star = 0;
        for (index, segment) in place.segments().iter().enumerate() {
            if matches!(segment, Segment::Key(_)) {
                continue;
            }
            star += 1;
            if let Some(Segment::Prefix(prefix)) = rule.segments().get(index) {
                starts.insert(star.to_string(), prefix.to_string());
            }
        }
        let open = template.vars().filter(|var| !vars.contains_key(*var)).count();
        if let Some(start) = template.fill(&starts).filter(|_| open == 1) {
            let length = start.chars().count();
            parts.push(format!("substr({{{column}}}, 1, {length}) = {}", literal(&start)));
        }
    }
    parts.join(" AND ")
}

/// `{column}` as the column of the new row.
fn quoted_rows(dialect: Dialect, text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((name, after)) = behind.split_once('}') else { break };
        out.push_str(before);
        out.push_str("NEW.");
        out.push_str(&dialect.quoted(name));
        rest = after;
    }
    out.push_str(rest);
    out
}

fn id_text(dialect: Dialect, id: &[String]) -> String {
    let new: Vec<String> = id.iter().map(|name| format!("NEW.{}", dialect.quoted(name))).collect();
    match dialect {
        Dialect::Sqlite => format!("CAST({} AS TEXT)", new.join(" || ',' || ")),
        Dialect::Postgres | Dialect::Mysql => format!("concat_ws(',', {})", new.join(", ")),
    }
}

/// A text of SQL; it comes from the registry, and a person reads it before it is run.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
