//! The three dialects: how a name is quoted, a value passed and read, a key of a JSON column set.
//!
//! Names come from the catalogue, values are parameters; nothing else ever becomes part of a statement.

use super::{Cell, Kind};

/// Whose SQL is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MariaDB and MySQL.
    Mysql,
}

/// A statement with its parameters, in the order of their marks.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The text: `?` or `$1`.
    pub sql: String,
    /// The parameters.
    pub cells: Vec<Cell>,
}

/// A statement being written.
pub(super) struct Writing {
    dialect: Dialect,
    pub(super) sql: String,
    cells: Vec<Cell>,
}

impl Dialect {
    /// The only place that quotes a name.
    pub(super) fn quoted(self, name: &str) -> String {
        let mark = if self == Self::Mysql { '`' } else { '"' };
        let mut quoted = String::with_capacity(name.len() + 2);
        quoted.push(mark);
        for c in name.chars() {
            if c == mark {
                quoted.push(mark);
            }
            quoted.push(c);
        }
        quoted.push(mark);
        quoted
    }

    /// A column as [`Kind::json`] reads it: everything but SQLite's own values as text.
    pub(super) fn read(self, column: &str, kind: &Kind) -> String {
        const ISO: &str = "'YYYY-MM-DD\"T\"HH24:MI:SS.US";
        match (self, kind) {
            (Self::Sqlite, _) => column.to_owned(),
            (Self::Postgres, Kind::Date) => format!("to_char({column}, 'YYYY-MM-DD')"),
            (Self::Postgres, Kind::DateTime { .. }) => format!("to_char({column}, {ISO}')"),
            (Self::Postgres, Kind::Instant { .. }) => {
                format!("to_char({column} AT TIME ZONE 'UTC', {ISO}\"Z\"')")
            }
            (Self::Postgres, Kind::Binary) => {
                format!("replace(encode({column}, 'base64'), chr(10), '')")
            }
            (Self::Postgres, Kind::Array(_)) => format!("to_jsonb({column})::text"),
            (Self::Postgres, _) => format!("{column}::text"),
            (Self::Mysql, Kind::DateTime { .. }) => {
                format!("DATE_FORMAT({column}, '%Y-%m-%dT%H:%i:%s.%f')")
            }
            (Self::Mysql, Kind::Instant { .. }) => {
                format!("DATE_FORMAT({column}, '%Y-%m-%dT%H:%i:%s.%fZ')")
            }
            (Self::Mysql, Kind::Binary) => format!("REPLACE(TO_BASE64({column}), CHAR(10), '')"),
            (Self::Mysql, Kind::Text { .. } | Kind::Number | Kind::Json | Kind::Enum(_)) => {
                format!("CONVERT({column} USING utf8mb4)")
            }
            (Self::Mysql, _) => format!("CAST({column} AS CHAR)"),
        }
    }
}

impl Writing {
    pub(super) fn new(dialect: Dialect, start: &str) -> Self {
        Self { dialect, sql: start.to_owned(), cells: Vec::new() }
    }

    pub(super) fn push(&mut self, text: &str) -> &mut Self {
        self.sql.push_str(text);
        self
    }

    pub(super) fn done(self) -> Statement {
        Statement { sql: self.sql, cells: self.cells }
    }

    /// The mark of one more parameter.
    fn mark(&mut self, cell: Cell) -> String {
        self.cells.push(cell);
        match self.dialect {
            Dialect::Postgres => format!("${}::text", self.cells.len()),
            Dialect::Sqlite | Dialect::Mysql => "?".to_owned(),
        }
    }

    /// A value in the type of its column, which the database printed.
    pub(super) fn value(&mut self, kind: &Kind, declared: &str, cell: Cell) -> String {
        let mark = self.mark(cell);
        match (self.dialect, kind) {
            // A cast to `varchar(5)` would cut the value off.
            (Dialect::Postgres, Kind::Text { .. } | Kind::Number) => mark,
            (Dialect::Postgres, Kind::Binary) => format!("decode({mark}, 'base64')"),
            (Dialect::Postgres, Kind::Array(_)) => format!(
                "CASE WHEN {mark} IS NULL THEN NULL ELSE \
                 ARRAY(SELECT jsonb_array_elements_text({mark}::jsonb))::{declared} END"
            ),
            (Dialect::Postgres, _) => format!("{mark}::{declared}"),
            _ => mark,
        }
    }

    /// After a comparison with a column of text: byte for byte, whatever its collation takes for equal.
    pub(super) fn exactly(&mut self, column: &str, cell: Cell) {
        match self.dialect {
            Dialect::Sqlite => {
                self.push(" COLLATE BINARY");
            }
            Dialect::Mysql => {
                let mark = self.mark(cell);
                let own = format!("CAST(CONVERT({column} USING utf8mb4) AS BINARY)");
                self.push(&format!(" AND {own} = CAST({mark} AS BINARY)"));
            }
            Dialect::Postgres => {}
        }
    }

    /// A JSON column where NULL counts as an empty object.
    pub(super) fn document(&self, column: &str) -> String {
        match self.dialect {
            Dialect::Postgres => format!("coalesce({column}::jsonb, '{{}}'::jsonb)"),
            Dialect::Sqlite | Dialect::Mysql => format!("coalesce({column}, '{{}}')"),
        }
    }

    /// A whole JSON document as a parameter.
    pub(super) fn whole(&mut self, cell: Cell) -> String {
        let mark = self.mark(cell);
        if self.dialect == Dialect::Postgres { format!("{mark}::jsonb") } else { mark }
    }

    /// The document with a value at these keys, whose parents exist.
    pub(super) fn set_key(&mut self, document: &str, keys: &[String], value: Cell) -> String {
        let path = self.mark(path(self.dialect, keys));
        let value = self.mark(value);
        match self.dialect {
            Dialect::Sqlite => format!("json_set({document}, {path}, json({value}))"),
            Dialect::Postgres => {
                format!("jsonb_set({document}, {path}::text[], {value}::jsonb, true)")
            }
            Dialect::Mysql => format!("JSON_SET({document}, {path}, JSON_EXTRACT({value}, '$'))"),
        }
    }

    /// The document without these keys.
    pub(super) fn remove_key(&mut self, document: &str, keys: &[String]) -> String {
        let path = self.mark(path(self.dialect, keys));
        match self.dialect {
            Dialect::Sqlite => format!("json_remove({document}, {path})"),
            Dialect::Postgres => format!("({document} #- {path}::text[])"),
            Dialect::Mysql => format!("JSON_REMOVE({document}, {path})"),
        }
    }

    /// A document on its way into its column.
    pub(super) fn stored(&self, document: String, declared: &str) -> String {
        match self.dialect {
            Dialect::Postgres if declared == "json" => format!("({document})::json"),
            _ => document,
        }
    }
}

/// Whether a key can be written inside a JSON column of this dialect.
pub(super) fn writable(dialect: Dialect, key: &str) -> bool {
    match dialect {
        Dialect::Postgres => !key.contains('\0'),
        Dialect::Sqlite | Dialect::Mysql => {
            !key.contains(['"', '\\']) && !key.chars().any(char::is_control)
        }
    }
}

fn path(dialect: Dialect, keys: &[String]) -> Cell {
    let mut text = String::new();
    match dialect {
        Dialect::Postgres => {
            let quoted =
                |key: &String| format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
            let keys: Vec<String> = keys.iter().map(quoted).collect();
            text.push_str(&format!("{{{}}}", keys.join(",")));
        }
        Dialect::Sqlite | Dialect::Mysql => {
            text.push('$');
            for key in keys {
                text.push_str(&format!(".\"{key}\""));
            }
        }
    }
    Cell::Text(text)
}
