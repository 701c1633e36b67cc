//! Strategies that this version knows by name and checks, but does not carry out yet.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::strategy::{MergeInput, Merged, Strategy};

/// A strategy without behaviour. An entity type that uses one is `not_yet`, and its saves are refused.
struct Later {
    name: &'static str,
    options: &'static [&'static str],
    needs: &'static [&'static str],
    needs_base: bool,
}

/// The placeholder for a name out of `Strategies::later`.
pub(crate) fn find(name: &'static str) -> Arc<dyn Strategy> {
    let (options, needs, needs_base): (&[&str], &[&str], bool) = match name {
        "priority" => (&["order", "max_age"], &["order"], false),
        "keyed_merge" => (&["key", "order"], &["key"], true),
        "map_merge" => (&["depth"], &[], true),
        "transition" => (&["allowed"], &["allowed"], false),
        "append_only" => (&["max"], &[], false),
        "text_merge" => (&[], &[], true),
        _ => (&[], &[], false),
    };
    Arc::new(Later { name, options, needs, needs_base })
}

impl Strategy for Later {
    fn name(&self) -> &str {
        self.name
    }

    fn options(&self) -> &'static [&'static str] {
        self.options
    }

    fn check(&self, options: &Json) -> Vec<(&'static str, String)> {
        let missing = self.needs.iter().filter(|key| options.get(**key).is_none());
        missing.map(|key| (*key, format!("`{}` needs `{key}`", self.name))).collect()
    }

    fn needs_base(&self) -> bool {
        self.needs_base
    }

    fn merge(&self, _: MergeInput<'_>) -> Merged {
        Merged::Keep { rule: "not_yet" }
    }
}
