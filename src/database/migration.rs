//! Migrations: files that are applied in order, once, and never change again.
//!
//! A file ends with one marked statement that enters it into `fl_migration`, so that applying it by hand and by
//! `fieldlease migrate` leave the same. The SHA-256 entered there is of everything above the mark.

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The line above the statement that enters the file.
pub const MARK: &str = "-- fieldlease: entered";

/// One file.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its place in the order, from 1; gaps are allowed.
    pub number: u32,
    /// Its name without number and extension.
    pub name: &'static str,
    /// The whole file.
    pub sql: &'static str,
}

/// One that was applied, as `fl_migration` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Its number.
    pub number: u32,
    /// The SHA-256 of its text above the mark.
    pub checksum: Vec<u8>,
}

impl Migration {
    /// The text above the mark; all of it without one.
    #[must_use]
    pub fn body(&self) -> &'static str {
        self.sql.split_once(MARK).map_or(self.sql, |(body, _)| body)
    }

    /// SHA-256 of [`Migration::body`].
    #[must_use]
    pub fn checksum(&self) -> [u8; 32] {
        Sha256::digest(self.body().as_bytes()).into()
    }
}

/// Those of `all` that are missing, in order.
///
/// # Errors
/// `changed_schema` when one was applied from another text, `newer_schema` when one was applied that is not among them.
pub fn missing(all: &[Migration], applied: &[Applied], store: &str) -> Result<Vec<Migration>> {
    for found in applied {
        let Some(own) = all.iter().find(|own| own.number == found.number) else {
            return Err(Error::invalid(
                "newer_schema",
                format!(
                    "`{store}` was made by a newer version: it has migration {}, which this one does not know",
                    found.number
                ),
                "use the newer version, or restore a backup from before the upgrade",
            ));
        };
        if found.checksum != own.checksum() {
            return Err(Error::invalid(
                "changed_schema",
                format!(
                    "`{store}` was made by another text of `{:04}_{}.sql`",
                    own.number, own.name
                ),
                "use the version that made it, or a new database",
            ));
        }
    }
    let has = |own: &&Migration| applied.iter().any(|found| found.number == own.number);
    Ok(all.iter().filter(|own| !has(own)).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Migration =
        Migration { number: 1, name: "init", sql: "CREATE;\n-- fieldlease: entered\nINSERT;" };
    const TWO: Migration = Migration { number: 2, name: "keys", sql: "CREATE TWO;" };

    fn applied(of: Migration) -> Applied {
        Applied { number: of.number, checksum: of.checksum().to_vec() }
    }

    #[test]
    fn the_checksum_is_of_what_stands_above_the_mark() {
        let other = Migration { sql: "CREATE;\n-- fieldlease: entered\nINSERT OTHER;", ..ONE };

        assert_eq!(ONE.body(), "CREATE;\n");
        assert_eq!(other.checksum(), ONE.checksum());
        assert_ne!(TWO.checksum(), ONE.checksum());
    }

    #[test]
    fn what_is_missing_is_applied_in_order_and_nothing_is_applied_over_another_text() {
        let code = |all: &[Migration], has: &[Applied]| match missing(all, has, "db") {
            Ok(missing) => missing.iter().map(|own| own.name).collect::<Vec<_>>().join(" "),
            Err(error) => error.code().to_owned(),
        };
        let changed = Applied { number: 1, checksum: vec![0; 32] };

        assert_eq!(code(&[ONE, TWO], &[]), "init keys");
        assert_eq!(code(&[ONE, TWO], &[applied(ONE)]), "keys");
        assert_eq!(code(&[ONE, TWO], &[applied(ONE), applied(TWO)]), "");
        assert_eq!(code(&[ONE], &[applied(ONE), applied(TWO)]), "newer_schema");
        assert_eq!(code(&[ONE, TWO], &[changed]), "changed_schema");
    }
}
