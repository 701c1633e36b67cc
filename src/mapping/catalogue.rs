//! What a database says about its tables: read by a store at start, compared here.

use super::{Dialect, Kind};

/// The tables a mapping may name.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// In no particular order.
    pub tables: Vec<Table>,
}

/// One table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its schema, where the dialect has them and the registry may name it.
    pub schema: Option<String>,
    /// Its name, as stored.
    pub name: String,
    /// Not a table but a view: nothing is written to it.
    pub view: bool,
    /// In table order.
    pub columns: Vec<Column>,
    /// Sets of columns that are unique, the primary key among them.
    pub unique: Vec<Vec<String>>,
    /// Triggers that fire for each row.
    pub triggers: Vec<Trigger>,
}

/// One column.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Its name, as stored.
    pub name: String,
    /// Its type, as the database prints it.
    pub declared: String,
    /// What it can hold; `None` for a type no value of a record fits.
    pub kind: Option<Kind>,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// Whether a row can be made without naming it: a default, an own counter.
    pub defaulted: bool,
    /// Computed by the database.
    pub generated: bool,
}

/// One trigger for rows.
#[derive(Clone, Debug, Default)]
pub struct Trigger {
    /// Its name.
    pub name: String,
    /// What it does, as text.
    pub text: String,
}

impl Catalogue {
    /// A table by the name a registry gives it: `name`, or `schema.name`.
    pub(crate) fn table(&self, name: &str) -> Option<&Table> {
        let plain = self.tables.iter().find(|table| table.name == name);
        plain.or_else(|| {
            let (schema, name) = name.split_once('.')?;
            self.tables.iter().find(|t| t.name == name && t.schema.as_deref() == Some(schema))
        })
    }
}

impl Table {
    pub(crate) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Whether some unique key lies inside these columns.
    pub(crate) fn is_unique(&self, columns: &[&str]) -> bool {
        let inside = |key: &Vec<String>| {
            !key.is_empty() && key.iter().all(|name| columns.contains(&name.as_str()))
        };
        self.unique.iter().any(inside)
    }

    /// The first trigger that gives the column another value than the one written.
    pub(crate) fn rewriter(&self, column: &str, dialect: Dialect) -> Option<&Trigger> {
        self.triggers.iter().find(|trigger| trigger.rewrites(column, dialect))
    }
}

impl Trigger {
    /// Whether its text assigns to the column: `NEW.x := ..` on PostgreSQL, `SET NEW.x = ..` on MySQL and MariaDB, an
    /// `UPDATE .. SET x = ..` on SQLite. A look at the words; what a called function does is not seen.
    fn rewrites(&self, column: &str, dialect: Dialect) -> bool {
        let words = words(&self.text);
        let column = column.to_lowercase();
        let mut seen_set = false;
        words.iter().enumerate().any(|(at, word)| {
            let next = |by: usize| words.get(at + by).map_or("", String::as_str);
            seen_set |= word == "set";
            let named = |by: usize| next(by).trim_matches(['"', '`', '[', ']']) == column;
            match dialect {
                Dialect::Sqlite => {
                    let after = at.checked_sub(1).and_then(|before| words.get(before));
                    let starts = after.is_some_and(|word| word == "set" || word == ",");
                    seen_set && starts && named(0) && next(1) == "="
                }
                Dialect::Postgres => {
                    word == "new"
                        && next(1) == "."
                        && named(2)
                        && matches!(next(3), ":=" | "=")
                        && at.checked_sub(1).and_then(|before| words.get(before)).is_none_or(
                            |before| matches!(before.as_str(), ";" | "begin" | "then" | "else"),
                        )
                }
                Dialect::Mysql => {
                    seen_set && word == "new" && next(1) == "." && named(2) && next(3) == "="
                }
            }
        })
    }
}

/// Words and signs of a piece of SQL, in lower case; comments are dropped.
fn words(sql: &str) -> Vec<String> {
    let mut words = Vec::new();
    for line in sql.lines() {
        let line = line.split("--").next().unwrap_or_default();
        let mut word = String::new();
        for c in line.chars() {
            if c.is_alphanumeric() || matches!(c, '_' | '"' | '`' | '[' | ']' | '$') {
                word.extend(c.to_lowercase());
                continue;
            }
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            match (words.last_mut(), c) {
                (Some(last), '=') if last == ":" => last.push('='),
                (_, c) if !c.is_whitespace() => words.push(c.to_string()),
                _ => {}
            }
        }
        if !word.is_empty() {
            words.push(word);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_that_assigns_to_a_column_is_told_from_one_that_reads_it() {
        let cases = [
            (
                Dialect::Postgres,
                "BEGIN NEW.slug := lower(NEW.title); RETURN NEW; END",
                "slug",
                true,
            ),
            (
                Dialect::Postgres,
                "BEGIN NEW.slug := lower(NEW.title); RETURN NEW; END",
                "title",
                false,
            ),
            (Dialect::Postgres, "BEGIN IF NEW.title = 'x' THEN NULL; END IF; END", "title", false),
            (Dialect::Mysql, "SET NEW.`slug` = LOWER(NEW.title)", "slug", true),
            (Dialect::Mysql, "SET NEW.slug = LOWER(NEW.title)", "title", false),
            (
                Dialect::Sqlite,
                "CREATE TRIGGER t AFTER UPDATE ON p BEGIN UPDATE p SET a = 1, \"slug\" = 2; END",
                "slug",
                true,
            ),
            (
                Dialect::Sqlite,
                "CREATE TRIGGER t AFTER UPDATE ON p WHEN new.slug = 1 BEGIN DELETE FROM q; END",
                "slug",
                false,
            ),
        ];
        for (dialect, text, column, rewrites) in cases {
            let trigger = Trigger { name: "t".to_owned(), text: text.to_owned() };
            assert_eq!(
                trigger.rewrites(column, dialect),
                rewrites,
                "{dialect:?}: {text} / {column}"
            );
        }
    }
}
