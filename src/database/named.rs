//! Statements kept in `.sql` files: each begins with a line `-- name: x`.

use std::collections::BTreeMap;

/// Splits the text of a `.sql` file into statements by name. Comment lines and the closing semicolon are left out.
///
/// # Errors
/// When text stands before the first name, or a name is given twice or is empty.
pub fn split(text: &str) -> Result<BTreeMap<&str, String>, String> {
    let mut statements: BTreeMap<&str, String> = BTreeMap::new();
    let mut current: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix("-- name:") {
            let name = name.trim();
            if name.is_empty() || statements.insert(name, String::new()).is_some() {
                return Err(format!("line {}: `{name}` is empty or given twice", index + 1));
            }
            current = Some(name);
            continue;
        }
        if line.trim().is_empty() || line.starts_with("--") {
            continue;
        }
        let Some(statement) = current.and_then(|name| statements.get_mut(name)) else {
            return Err(format!("line {}: a statement without a name", index + 1));
        };
        if !statement.is_empty() {
            statement.push('\n');
        }
        statement.push_str(line);
    }
    for statement in statements.values_mut() {
        let end = statement.trim_end().trim_end_matches(';').len();
        statement.truncate(end);
    }
    Ok(statements)
}

/// A struct with the text of every statement, and `build`, which makes it from statements by name: one that is missing,
/// and one that nobody uses, is an error.
macro_rules! statements {
    ($(#[$about:meta])* $sight:vis struct $Type:ident { $($name:ident),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Debug)]
        $sight struct $Type {
            $(pub(super) $name: ::std::sync::Arc<str>,)+
        }

        impl $Type {
            fn build(
                mut texts: ::std::collections::BTreeMap<&str, String>,
            ) -> Result<Self, String> {
                let statements = Self {
                    $($name: texts
                        .remove(stringify!($name))
                        .ok_or_else(|| concat!("the statement `", stringify!($name), "` is missing").to_owned())?
                        .into(),)+
                };
                match texts.keys().next() {
                    Some(name) => Err(format!("nobody uses a statement `{name}`")),
                    None => Ok(statements),
                }
            }
        }
    };
}

pub(crate) use statements;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_split_at_its_names() {
        let text =
            "-- a file\n\n-- name: one\n-- ?1 id.\nSELECT 1\nFROM t;\n\n-- name: two\nSELECT 2;\n";

        let statements = split(text).unwrap();

        assert_eq!(statements["one"], "SELECT 1\nFROM t");
        assert_eq!(statements["two"], "SELECT 2");
        assert_eq!(statements.len(), 2);
    }

    #[test]
    fn a_faulty_file_names_its_line() {
        let cases = [
            ("SELECT 1;", "line 1: a statement without a name"),
            ("-- name: a\nSELECT 1;\n-- name: a\n", "line 3: `a` is empty or given twice"),
            ("-- name:\n", "line 1: `` is empty or given twice"),
        ];

        for (text, message) in cases {
            assert_eq!(split(text).unwrap_err(), message);
        }
    }
}
