//! Strategies of shared entries: names, options, and what they need.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{
    StrategyUse, later,
    raw::RawShared,
    resolve::Findings,
    suggest::{nearest, or_known},
};
use crate::strategy::{Strategies, Strategy};

/// The strategy of an entry that names none.
const UNNAMED: &str = "reject";

/// Strategies by name, with placeholders for those that come later.
pub(crate) struct Known<'s> {
    strategies: &'s Strategies,
    later: Vec<Arc<dyn Strategy>>,
    nothing: Arc<Json>,
}

impl<'s> Known<'s> {
    pub(crate) fn new(strategies: &'s Strategies) -> Self {
        let later = strategies.later().iter().map(|name| later::find(name)).collect();
        Self { strategies, later, nothing: Arc::new(Json::Object(serde_json::Map::new())) }
    }

    /// Whether a strategy has a name but no behaviour yet.
    pub(crate) fn is_later(&self, name: &str) -> bool {
        self.strategies.find(name).is_none() && self.strategies.later().contains(&name)
    }

    fn find(&self, name: &str) -> Option<&Arc<dyn Strategy>> {
        let later = || self.later.iter().find(|strategy| strategy.name() == name);
        self.strategies.find(name).or_else(later)
    }

    /// Checks the entry's strategy and options; `None` when it cannot be used.
    pub(crate) fn strategy(
        &self,
        entry: &RawShared,
        findings: &mut Findings,
    ) -> Option<StrategyUse> {
        let Some(word) = &entry.strategy else {
            let pattern = &entry.pattern;
            let message =
                format!("`{}` is shared without a strategy: a conflict is refused", pattern.value);
            let help = "name one, `reject` if this is meant";
            findings.warning("no_strategy", pattern.span, message, help);
            return self.check(UNNAMED, entry, findings);
        };
        if self.find(&word.value).is_none() {
            let names = self.strategies.names().chain(self.strategies.later().iter().copied());
            let names: Vec<&str> = names.collect();
            let message = format!("`{}` is not a strategy", word.value);
            findings.error("unknown_strategy", word.span, message, or_known(&word.value, names));
            return None;
        }
        self.check(&word.value, entry, findings)
    }

    fn check(&self, name: &str, entry: &RawShared, findings: &mut Findings) -> Option<StrategyUse> {
        let strategy = self.find(name)?;
        let before = findings.errors();
        let known = strategy.options();
        for (key, _) in &entry.options {
            if known.contains(&key.value.as_str()) {
                continue;
            }
            // A key of the entry itself, misspelt, arrives here too.
            let own = ["strategy", "group", "locking", "ttl", "max_hold", "on_busy", "history"];
            let message = format!("`{name}` has no `{}`", key.value);
            let help = match nearest(&key.value, known.iter().copied().chain(own)) {
                Some(near) => format!("did you mean `{near}`?"),
                None if known.is_empty() => format!("`{name}` has no options"),
                None => format!("options of `{name}`: `{}`", known.join("`, `")),
            };
            findings.error("unknown_key", key.span, message, help);
        }
        let options = self.options(entry);
        let whole = entry.strategy.as_ref().map_or(entry.pattern.span, |word| word.span);
        for (key, problem) in strategy.check(&options) {
            match entry.options.iter().find(|(given, _)| given.value == key) {
                Some((_, value)) => findings.error("bad_option", value.span, problem, ""),
                None => {
                    let message = format!("`{name}` needs `{key}`");
                    let help = if problem.contains(&message) { String::new() } else { problem };
                    findings.error("strategy_needs", whole, message, help);
                }
            }
        }
        if findings.errors() > before {
            return None;
        }
        Some(StrategyUse { strategy: strategy.clone(), options })
    }

    fn options(&self, entry: &RawShared) -> Arc<Json> {
        if entry.options.is_empty() {
            return self.nothing.clone();
        }
        let options = entry.options.iter();
        Arc::new(options.map(|(key, value)| (key.value.clone(), value.value.clone())).collect())
    }
}
