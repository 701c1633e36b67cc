//! Every statement of the store, by name, from the files in `src/store/sql/sqlite`.

use std::collections::BTreeMap;

use crate::database::named;

named::statements! {
    /// The statements in use. [`Statements::standard`] unless a test shows what happens without a predicate.
    pub struct Statements {
        entity, scopes, scope, stamps, stamp_operation, claim_scope, break_scope, raise_entity_fence, make_scope,
        advance_claimed, advance_optimistic, advance_unread, retire_scope, insert_entity, update_entity, put_stamp,
        remove_stamps_of_item, remove_stamps, stamp_paths, remove_stamp, disturb,
        insert_operation, insert_version, insert_change, operation, entries, entry, changes, version, newest_change,
        base,
        registry, rules, put_registry, void_claims,
        key, acquire_key, renew_key, end_key, release_key, sweep_keys, keys,
        push_queue, push_queue_scope, queued_before, ready_queue, list_queue, remove_queue_scopes, remove_queue, tell,
        pull, acknowledged, acknowledge, prune_events, erase_queue_scopes, erase_queue, erase_events, erase_writer_queue,
        upkeep_entities, prunable, mark_pruned, prune_changes, prune_version, prune_operation, saves_of, drop_changes,
        drop_versions, drop_operations, drop_scopes, drop_entity, forget_erased, erase_versions, erase_operations,
        erase_keys, close_scopes, close_entity, erase_writer_saves, erase_writer_stamps, prove_erasure,
        tables, table_columns, table_keys, table_triggers, let_pass, end_pass,
    }
}

const FILES: [&str; 7] = [
    include_str!("../sql/sqlite/record.sql"),
    include_str!("../sql/sqlite/history.sql"),
    include_str!("../sql/sqlite/registry.sql"),
    include_str!("../sql/sqlite/keys.sql"),
    include_str!("../sql/sqlite/catalogue.sql"),
    include_str!("../sql/sqlite/upkeep.sql"),
    include_str!("../sql/sqlite/queue.sql"),
];

impl Statements {
    /// The statements this version ships.
    ///
    /// # Errors
    /// When the files and the code disagree about the names: a defect of the build.
    pub fn standard() -> Result<Self, String> {
        Self::with("")
    }

    /// The standard statements, with those named in `text` in place of ours. For tests that show what a predicate
    /// is there for; parameters and columns must be the same.
    ///
    /// # Errors
    /// When a name is unknown or given twice.
    pub fn with(text: &str) -> Result<Self, String> {
        let mut texts = BTreeMap::new();
        for file in FILES {
            texts.extend(named::split(file)?);
        }
        texts.extend(named::split(text)?);
        Self::build(texts)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn files_and_code_agree_about_the_names() {
        assert!(Statements::standard().is_ok());
        let error = Statements::with("-- name: other\nSELECT 1;").unwrap_err();
        assert_eq!(error, "nobody uses a statement `other`");
    }

    #[test]
    fn no_name_is_used_in_two_files() {
        let names = FILES.iter().flat_map(|file| named::split(file).unwrap().into_keys());
        let names: Vec<_> = names.collect();
        assert_eq!(BTreeSet::from_iter(&names).len(), names.len());
    }
}
