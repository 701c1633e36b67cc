//! Every statement of the store, by name, from the files in `src/store/sql/postgres`.

use std::collections::BTreeMap;

use crate::database::named;

named::statements! {
    /// The statements in use.
    pub(super) struct Statements {
        load, claim, commit, resolve, break_claim, registry, activate,
        entries, operation, version, blame, bases,
        begin_key, peek_key, renew_key, end_key, release_key, sweep_keys, keys,
        meet, miss, let_pass, now, table_columns, table_keys, table_triggers,
    }
}

impl Statements {
    /// The statements this version ships.
    ///
    /// # Errors
    /// When the files and the code disagree about the names: a defect of the build.
    pub(super) fn standard() -> Result<Self, String> {
        let mut texts = BTreeMap::new();
        for file in [
            include_str!("../sql/postgres/record.sql"),
            include_str!("../sql/postgres/history.sql"),
            include_str!("../sql/postgres/keys.sql"),
            include_str!("../sql/postgres/mapped.sql"),
        ] {
            texts.extend(named::split(file)?);
        }
        Self::build(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_code_agree_about_the_names() {
        assert!(Statements::standard().is_ok());
    }
}
