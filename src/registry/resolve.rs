//! From the registry as written to the rules: every fault of meaning in one run.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, OnceLock},
};

use super::{
    Collection, EntityRules, HistoryValues, Lifecycle, Registry, Rule, ambiguous,
    buckets::Buckets,
    chain::Drafts,
    cover::weight,
    extends::{Draft, Home},
    groups::Groups,
    hash, lint, meaning,
    raw::{Enforcement, RawRegistry},
    shared::Known,
    twins,
};
use crate::{
    diagnostic::{Diagnostic, Level, Span},
    entity::{EntityType, GroupName},
    path::Pattern,
    strategy::Strategies,
    token::Generation,
};

/// What was found so far.
#[derive(Default)]
pub(crate) struct Findings {
    diagnostics: Vec<Diagnostic>,
    errors: usize,
}

impl Findings {
    pub(crate) fn error(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(Level::Error, code, span, message.into(), help.into(), Vec::new());
    }

    pub(crate) fn warning(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(Level::Warning, code, span, message.into(), help.into(), Vec::new());
    }

    /// An error with a second place that belongs to it.
    pub(crate) fn note(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
        note: (Span, String),
    ) {
        self.add(Level::Error, code, span, message.into(), help.into(), vec![note]);
    }

    fn add(
        &mut self,
        level: Level,
        code: &'static str,
        span: Span,
        message: String,
        help: String,
        notes: Vec<(Span, String)>,
    ) {
        self.errors += usize::from(level == Level::Error);
        self.diagnostics.push(Diagnostic { code, level, span, message, help, notes });
    }

    /// How many errors there are.
    pub(crate) fn errors(&self) -> usize {
        self.errors
    }

    /// In file order. What a base and its heirs have in common is said once.
    fn finish(mut self) -> Vec<Diagnostic> {
        self.diagnostics.sort_by_key(|d| (d.span.line, d.span.column));
        let mut seen: HashSet<(&'static str, Span, String)> = HashSet::new();
        self.diagnostics.retain(|d| {
            // The message of one fault may name the heir; its place and code do not.
            let detail = if d.code == "ambiguous" { d.message.clone() } else { String::new() };
            seen.insert((d.code, d.span, detail))
        });
        self.diagnostics
    }
}

/// Resolves a registry. There is none when anything is an error; the diagnostics come in file order.
#[must_use]
pub fn resolve(raw: &RawRegistry, strategies: &Strategies) -> (Option<Registry>, Vec<Diagnostic>) {
    let mut findings = Findings::default();
    let known = Known::new(strategies);
    let mut drafts = Drafts::new(raw, &mut findings);
    twins::entities(raw, &mut findings);
    let mut entities = Vec::with_capacity(raw.entities.len());
    for index in 0..raw.entities.len() {
        if let Some(draft) = drafts.draft(index, &mut findings) {
            entities.extend(entity(&draft, &known, &mut findings));
        }
    }
    let registry = (findings.errors() == 0).then(|| entities.into_iter().collect());
    (registry, findings.finish())
}

fn entity(draft: &Draft<'_>, known: &Known<'_>, findings: &mut Findings) -> Option<EntityRules> {
    let before = findings.errors();
    let groups = Groups::build(draft, findings);
    let listed = listed(draft, &groups, known, findings);
    meaning::check(draft, &groups, &listed, findings);
    let buckets = Buckets::new(&listed, |rule| &rule.rule.pattern);
    let ties = ambiguous::check(&buckets, findings);
    twins::fields(draft, findings);
    let lifecycle = lifecycle(draft, &groups, findings);
    lint::local(draft, &groups, findings);
    let kind = match EntityType::new(&draft.name.value) {
        Ok(kind) => kind,
        Err(error) => {
            findings.error("entity_name", draft.name.span, error.to_string(), "");
            return None;
        }
    };
    // Lints about what is missing are noise while something could not be understood.
    if draft.faulty || findings.errors() > before {
        return None;
    }
    lint::whole(draft, &groups, &listed, &buckets, findings);
    let not_yet = lint::not_yet(draft, known, findings);
    let mut rules = EntityRules {
        kind,
        generation: Generation([0; 32]),
        groups: groups.by_name,
        lifecycle,
        collections: collections(draft),
        axes: axes(draft),
        coupled: coupled(draft),
        enforcement: draft.enforcement.map_or(Enforcement::Enforce, |word| word.value),
        history: history(draft),
        storage: draft.storage.map(|storage| storage.value.clone()),
        storage_at: draft.storage.map_or_else(Span::default, |storage| storage.span),
        places: draft.places.to_vec(),
        rules_at: listed.iter().map(|listed| listed.span).collect(),
        select: draft.select.map(|select| select.value.clone()),
        not_yet,
        rules: listed.into_iter().map(|listed| listed.rule).collect(),
        default: groups.default,
        index: OnceLock::new(),
        answers: OnceLock::new(),
    };
    rules.generation = hash::generation(&rules, &ties);
    Some(rules)
}

/// A rule with its place in the file.
pub(crate) struct Listed {
    pub(crate) rule: Rule,
    pub(crate) span: Span,
    /// Equal for equal group and strategy.
    pub(crate) outcome: u32,
}

/// The rules whose group and strategy are sound.
fn listed(
    draft: &Draft<'_>,
    groups: &Groups,
    known: &Known<'_>,
    findings: &mut Findings,
) -> Vec<Listed> {
    let mut outcomes: Vec<Rule> = Vec::new();
    let mut listed = Vec::with_capacity(draft.rules.len());
    for (order, rule) in draft.rules.iter().enumerate() {
        let strategy = match rule.home {
            Home::Group(_) => None,
            Home::Shared(entry) => match known.strategy(entry, findings) {
                Some(strategy) => Some(strategy),
                None => continue,
            },
        };
        let Some(group) = groups.of(rule.home).cloned() else { continue };
        let pattern = rule.pattern.value.clone();
        let weight = weight(&pattern);
        let rule_made = Rule { pattern, group, strategy, weight, order };
        let same = |one: &Rule| {
            Arc::ptr_eq(&one.group, &rule_made.group) && one.strategy == rule_made.strategy
        };
        let outcome = outcomes.iter().position(same).unwrap_or_else(|| {
            outcomes.push(rule_made.clone());
            outcomes.len() - 1
        });
        let outcome = u32::try_from(outcome).unwrap_or(u32::MAX);
        listed.push(Listed { rule: rule_made, span: rule.pattern.span, outcome });
    }
    listed
}

fn lifecycle(draft: &Draft<'_>, groups: &Groups, findings: &mut Findings) -> Lifecycle {
    let mut read = |words: Option<&[crate::diagnostic::Spanned<String>]>| {
        let Some(words) = words else {
            return GroupName::new("editor").into_iter().collect();
        };
        let mut names: Vec<GroupName> = Vec::new();
        for word in words {
            match GroupName::new(&word.value) {
                Ok(name) if name.as_str() == "editor" || groups.by_name.contains_key(&name) => {
                    names.push(name);
                }
                _ => groups.unknown(draft, word, findings),
            }
        }
        names.sort();
        names.dedup();
        names
    };
    Lifecycle { create: read(draft.create), delete: read(draft.delete) }
}

fn collections(draft: &Draft<'_>) -> Vec<Collection> {
    let collections = draft.collections.iter().map(|(pattern, keys)| Collection {
        pattern: pattern.value.clone(),
        keys: keys.iter().map(|key| key.value.clone()).collect(),
    });
    collections.collect()
}

fn axes(draft: &Draft<'_>) -> Option<BTreeMap<String, Option<Vec<String>>>> {
    let axes = draft.axes.as_ref()?.iter().map(|axis| {
        let values = axis.values.as_ref();
        let values = values.map(|values| values.iter().map(|value| value.value.clone()).collect());
        (axis.name.value.clone(), values)
    });
    Some(axes.collect())
}

fn coupled(draft: &Draft<'_>) -> Vec<Vec<Pattern>> {
    let sets = draft.coupled.iter();
    sets.map(|set| set.value.iter().map(|member| member.value.clone()).collect()).collect()
}

fn history(draft: &Draft<'_>) -> HistoryValues {
    match draft.history.values.map(|word| word.value.as_str()) {
        Some("hash_only") => HistoryValues::HashOnly,
        Some("none") => HistoryValues::None,
        _ => HistoryValues::Full,
    }
}
