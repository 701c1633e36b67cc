//! Every statement of the store, by name, from the files in `src/store/sql/postgres`.

use std::{collections::BTreeMap, sync::Arc};

use crate::database::named;

macro_rules! statements {
    ($($name:ident),+ $(,)?) => {
        /// The statements in use.
        #[derive(Clone, Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: Arc<str>,)+
        }

        impl Statements {
            fn build(mut texts: BTreeMap<&str, String>) -> Result<Self, String> {
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

statements! {
    load, claim, commit, resolve, break_claim, registry, activate,
    entries, operation, version, blame, bases,
    begin_key, peek_key, renew_key, end_key, release_key, sweep_keys, keys,
    meet, miss, let_pass, now, table_columns, table_keys, table_triggers,
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
