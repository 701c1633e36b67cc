//! Every statement of the store, by name, from the files in `src/store/sql/mysql`.

use std::collections::BTreeMap;

use crate::database::named;

named::statements! {
    /// The statements in use.
    pub(super) struct Statements {
        load, claim, break_claim, resolve, commit, commit_in, activate, registry,
        operation, entries, entries_of, changes_of, version, newest_changes, bases,
        key_begin, key_move, key_sweep, key, keys,
        push_queue, ready_queue, list_queue, list_queue_of, remove_queue, tell, pull, acknowledge,
        prune, erase_record, erase_writer,
        meet, miss, forget, now, table_columns, table_keys, table_checks, table_triggers,
    }
}

const FILES: [&str; 6] = [
    include_str!("../sql/mysql/record.sql"),
    include_str!("../sql/mysql/history.sql"),
    include_str!("../sql/mysql/key.sql"),
    include_str!("../sql/mysql/mapped.sql"),
    include_str!("../sql/mysql/queue.sql"),
    include_str!("../sql/mysql/upkeep.sql"),
];

impl Statements {
    /// The statements this version ships; an error is a defect of the build.
    pub(super) fn standard() -> Result<Self, String> {
        let mut texts = BTreeMap::new();
        for file in FILES {
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
        let statements = Statements::standard().unwrap();
        assert_eq!(&*statements.load, "CALL fl_load(?, ?)");
    }
}
