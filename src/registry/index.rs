//! The index of one entity type: a trie by key, so that a path meets only rules that can match it.

use std::collections::BTreeMap;

use super::{
    Rule,
    cover::{KeyWeight, takes},
};
use crate::path::{Marker, Path, Pattern, Segment, Tail};

/// Rules by the keys of their patterns.
#[derive(Debug)]
pub(crate) struct Index {
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    literals: BTreeMap<Box<str>, usize>,
    prefixes: Vec<(Box<str>, usize)>,
    any: Option<usize>,
    keys: Vec<usize>,
    order: Vec<usize>,
    /// Rules that end here, the most specific first.
    rules: Vec<usize>,
}

/// What the index says about a path.
#[derive(Debug, Default)]
pub(crate) struct Found<'r> {
    /// The winning rule.
    pub(crate) rule: Option<&'r Rule>,
    /// A rule for more specific keys that matches but for axes the path does not name.
    pub(crate) missing: Option<&'r Rule>,
    /// Whether rules lie further inside.
    pub(crate) inner: bool,
}

impl Index {
    pub(crate) fn new(rules: &[Rule]) -> Self {
        let mut index = Self { nodes: vec![Node::default()] };
        for (number, rule) in rules.iter().enumerate() {
            index.insert(&rule.pattern, number);
        }
        let weigh = |number: &usize| {
            let rule = rules.get(*number);
            (std::cmp::Reverse(rule.map(|rule| rule.weight)), *number)
        };
        for node in &mut index.nodes {
            for list in [&mut node.rules, &mut node.keys, &mut node.order] {
                list.sort_by_key(weigh);
            }
        }
        index
    }

    fn insert(&mut self, pattern: &Pattern, rule: usize) {
        let mut at = 0;
        for segment in pattern.segments() {
            let fresh = self.nodes.len();
            let Some(node) = self.nodes.get_mut(at) else { return };
            at = match segment {
                Segment::Key(key) => *node.literals.entry(key.clone()).or_insert(fresh),
                Segment::Prefix(prefix) => {
                    match node.prefixes.iter().find(|(known, _)| known == prefix) {
                        Some((_, next)) => *next,
                        None => {
                            node.prefixes.push((prefix.clone(), fresh));
                            fresh
                        }
                    }
                }
                Segment::Any => *node.any.get_or_insert(fresh),
            };
            if at == fresh {
                self.nodes.push(Node::default());
            }
        }
        let Some(node) = self.nodes.get_mut(at) else { return };
        match pattern.tail() {
            Tail::Marker(Marker::Keys) => node.keys.push(rule),
            Tail::Marker(Marker::Order) => node.order.push(rule),
            Tail::Node | Tail::Subtree => node.rules.push(rule),
        }
    }

    /// The rule of a path among `rules`, the list this index was made from.
    pub(crate) fn find<'r>(&self, rules: &'r [Rule], path: &Path) -> Found<'r> {
        let mut found = Found::default();
        self.walk(0, 0, path, rules, &mut found);
        let reached = found.rule.map_or(KeyWeight::default(), |rule| rule.weight.keys);
        found.missing =
            found.missing.filter(|rule| found.rule.is_none() || rule.weight.keys > reached);
        found
    }

    fn walk<'r>(
        &self,
        at: usize,
        depth: usize,
        path: &Path,
        rules: &'r [Rule],
        found: &mut Found<'r>,
    ) {
        let Some(node) = self.nodes.get(at) else { return };
        consider(&node.rules, path, rules, found);
        let Some(key) = path.keys().get(depth) else {
            match path.marker() {
                Some(Marker::Keys) => consider(&node.keys, path, rules, found),
                Some(Marker::Order) => consider(&node.order, path, rules, found),
                None => found.inner |= node.has_inner(),
            }
            return;
        };
        if let Some(next) = node.literals.get(key) {
            self.walk(*next, depth + 1, path, rules, found);
        }
        for (prefix, next) in &node.prefixes {
            if key.starts_with(&**prefix) {
                self.walk(*next, depth + 1, path, rules, found);
            }
        }
        if let Some(next) = node.any {
            self.walk(next, depth + 1, path, rules, found);
        }
    }

    /// Whether a wildcard stands for the last of these keys, in a rule that goes on below it.
    pub(crate) fn is_item(&self, rules: &[Rule], keys: &[Box<str>]) -> bool {
        keys.split_last().is_some_and(|(key, above)| self.holds_item(0, rules, above, key))
    }

    fn holds_item(&self, at: usize, rules: &[Rule], above: &[Box<str>], item: &str) -> bool {
        let Some(node) = self.nodes.get(at) else { return false };
        let Some((key, above)) = above.split_first() else {
            return node.wild(item).any(|next| self.goes_on(next, rules));
        };
        let literal = node.literals.get(key).copied();
        literal
            .into_iter()
            .chain(node.wild(key))
            .any(|next| self.holds_item(next, rules, above, item))
    }

    fn goes_on(&self, at: usize, rules: &[Rule]) -> bool {
        self.nodes.get(at).is_some_and(|node| {
            let mut own = node.rules.iter().filter_map(|number| rules.get(*number));
            node.has_inner() || own.any(|rule| rule.pattern.tail() == Tail::Subtree)
        })
    }
}

impl Node {
    /// Nodes of the wildcards that stand for a key.
    fn wild(&self, key: &str) -> impl Iterator<Item = usize> {
        let prefixes = self.prefixes.iter().filter(move |(prefix, _)| key.starts_with(&**prefix));
        prefixes.map(|(_, next)| *next).chain(self.any)
    }

    fn has_inner(&self) -> bool {
        !self.literals.is_empty()
            || !self.prefixes.is_empty()
            || self.any.is_some()
            || !self.keys.is_empty()
            || !self.order.is_empty()
    }
}

/// Takes the best of the rules that end at one node; they are sorted, so the first that matches is the best.
fn consider<'r>(list: &[usize], path: &Path, rules: &'r [Rule], found: &mut Found<'r>) {
    for rule in list.iter().filter_map(|number| rules.get(*number)) {
        let axes = rule.pattern.axes();
        let fits =
            axes.iter().all(|(axis, wanted)| path.axis(axis).is_none_or(|v| takes(wanted, v)));
        if !fits {
            continue;
        }
        let complete = axes.iter().all(|(axis, _)| path.axis(axis).is_some());
        let slot = if complete { &mut found.rule } else { &mut found.missing };
        let better = slot.is_none_or(|best| {
            (rule.weight, std::cmp::Reverse(rule.order))
                > (best.weight, std::cmp::Reverse(best.order))
        });
        if better {
            *slot = Some(rule);
        }
        if complete {
            return;
        }
    }
}
