//! Statements of a file, split the way the `mariadb` and `mysql` clients split it: at the delimiter, which a line
//! `DELIMITER x` changes.

/// The statements in order, without their delimiters; comment lines between statements are left out.
///
/// Only what our own files use is understood: `--` comments on lines of their own or at the end of one, strings in single
/// quotes, and the delimiter at the end of a line.
pub(crate) fn statements(text: &str) -> Vec<String> {
    let mut statements = Vec::new();
    let mut delimiter = ";".to_owned();
    let mut current = String::new();
    for line in text.lines() {
        let bare = line.trim();
        if current.is_empty() && (bare.is_empty() || bare.starts_with("--")) {
            continue;
        }
        if current.is_empty()
            && let Some(other) = bare.strip_prefix("DELIMITER ")
        {
            delimiter = other.trim().to_owned();
            continue;
        }
        match bare.strip_suffix(&delimiter) {
            Some(last) => {
                current.push_str(last.trim_end());
                statements.push(std::mem::take(&mut current));
            }
            None => {
                current.push_str(line);
                current.push('\n');
            }
        }
    }
    if !current.trim().is_empty() {
        statements.push(current.trim().to_owned());
    }
    statements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_split_at_its_delimiters() {
        let text = "-- a file\nSET x = 1;\n\nCREATE TABLE t (\n    a INT -- one; two\n);\nDELIMITER //\n\
                    -- what it does\nCREATE PROCEDURE p()\nBEGIN\n    SELECT 1;\nEND //\nDELIMITER ;\nSELECT 2;\n";

        let statements = statements(text);

        assert_eq!(
            statements,
            [
                "SET x = 1",
                "CREATE TABLE t (\n    a INT -- one; two\n)",
                "CREATE PROCEDURE p()\nBEGIN\n    SELECT 1;\nEND",
                "SELECT 2"
            ]
        );
    }
}
