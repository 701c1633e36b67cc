//! The resolved rules of one entity type, and the answer for one path.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

use dashmap::DashMap;
use serde_json::Value as Json;

use super::{
    Collection, Group, HistoryValues, Lifecycle, Owner, Resolved, Rule,
    cover::covers,
    index::{Found, Index},
    raw::Enforcement,
};
use crate::{
    diagnostic::{Span, Spanned},
    entity::{EntityType, GroupName},
    path::{AXES_MAX, AxisMatch, Path, Pattern, Segment, Tail},
    scope::ScopeName,
    token::Generation,
};

/// Most answers kept per entity type; then they are forgotten and asked anew.
const ANSWERS_MAX: usize = 8_192;

/// The resolved rules of one entity type.
pub struct EntityRules {
    /// The type.
    pub kind: EntityType,
    /// Hash of these rules.
    pub generation: Generation,
    /// Groups by name, `editor`, `system` and `shared` included where they have fields.
    pub groups: BTreeMap<GroupName, Arc<Group>>,
    /// Who may create and delete.
    pub lifecycle: Lifecycle,
    /// What tells the items of lists apart. Ask [`EntityRules::item_key`].
    pub collections: Vec<Collection>,
    /// Declared axes with their values, `None` for any; `None` when nothing is declared.
    pub axes: Option<BTreeMap<String, Option<Vec<String>>>>,
    /// Paths that move together.
    pub coupled: Vec<Vec<Pattern>>,
    /// What is done with a write that breaks a rule.
    pub enforcement: Enforcement,
    /// What history keeps.
    pub history: HistoryValues,
    /// `storage:` as written, defaults not filled in.
    pub storage: Option<Json>,
    /// Where it was written.
    pub storage_at: Span,
    /// Its places, in file order, each with where its path was written.
    pub places: Vec<(Spanned<Pattern>, Json)>,
    /// Where each of [`EntityRules::rules`] was written.
    pub rules_at: Vec<Span>,
    /// `select:` as written.
    pub select: Option<Json>,
    /// Keys that are parsed and checked but have no effect yet; saves are refused while there are any.
    pub not_yet: Vec<String>,
    pub(super) rules: Vec<Rule>,
    /// The group of a field nobody listed; `None` for `deny`.
    pub(super) default: Option<Arc<Group>>,
    pub(super) index: OnceLock<Index>,
    pub(super) answers: OnceLock<DashMap<Path, Arc<Resolved>>>,
}

/// A path the rules have no answer for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ResolveError {
    /// Stable code: `axis_required`, `unknown_axis`, `unknown_axis_value`, and from [`EntityRules::split`] also
    /// `list_without_keys`, `item_without_key`, `item_key_twice`, `path_too_deep`.
    pub code: &'static str,
    /// What is wrong, in the user's words.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

impl EntityRules {
    /// Who owns a path, in which scope, and what is compared as one value with it.
    ///
    /// # Errors
    /// When the path lacks an axis that the field has, or names one that is not declared.
    pub fn resolve(&self, path: &Path) -> Result<Resolved, ResolveError> {
        self.lookup(path).map(Arc::unwrap_or_clone)
    }

    /// [`EntityRules::resolve`] without a copy: the fastest way to ask again and again.
    ///
    /// # Errors
    /// As [`EntityRules::resolve`].
    pub fn lookup(&self, path: &Path) -> Result<Arc<Resolved>, ResolveError> {
        let answers = self.answers.get_or_init(DashMap::default);
        if let Some(known) = answers.get(path) {
            return Ok(known.clone());
        }
        let answer = Arc::new(self.answer(path)?);
        if answers.len() >= ANSWERS_MAX {
            answers.clear();
        }
        answers.insert(path.clone(), answer.clone());
        Ok(answer)
    }

    fn answer(&self, path: &Path) -> Result<Resolved, ResolveError> {
        self.check_axes(path)?;
        let found = self.find(path);
        if let Some(rule) = found.missing {
            let missing = rule.pattern.axes().iter().map(|(axis, _)| &**axis);
            return Err(axis_required(path, missing, &rule.pattern));
        }
        let group = found.rule.map(|rule| &rule.group).or(self.default.as_ref());
        let scope = group.map(|group| scope(group, path)).transpose()?;
        Ok(Resolved {
            owner: group.map_or(Owner::Deny, |group| group.owner),
            group: group.cloned(),
            scope,
            unit: found.rule.map_or_else(|| path.clone(), |rule| unit(&rule.pattern, path)),
            pattern: found.rule.map(|rule| rule.pattern.text().clone()),
            strategy: found.rule.and_then(|rule| rule.strategy.clone()),
            inner: found.inner,
        })
    }

    pub(super) fn find(&self, path: &Path) -> Found<'_> {
        self.index.get_or_init(|| Index::new(&self.rules)).find(&self.rules, path)
    }

    /// Whether the path stands for an item: a wildcard of a rule that goes on below it means its last key.
    pub(crate) fn is_item(&self, path: &Path) -> bool {
        let index = self.index.get_or_init(|| Index::new(&self.rules));
        path.marker().is_none() && index.is_item(&self.rules, path.keys())
    }

    fn check_axes(&self, path: &Path) -> Result<(), ResolveError> {
        let Some(declared) = &self.axes else { return Ok(()) };
        for (axis, value) in path.axes() {
            let Some(values) = declared.get(&**axis) else {
                let names = declared.keys().map(String::as_str);
                return Err(ResolveError {
                    code: "unknown_axis",
                    message: format!("`{path}` names the axis `{axis}`, which is not declared"),
                    help: super::suggest::or_known(axis, names),
                });
            };
            if let Some(values) = values
                && !values.iter().any(|known| **known == **value)
            {
                return Err(ResolveError {
                    code: "unknown_axis_value",
                    message: format!("`{value}` is not a declared value of the axis `{axis}`"),
                    help: super::suggest::or_known(value, values.iter().map(String::as_str)),
                });
            }
        }
        Ok(())
    }

    /// A group by name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&Arc<Group>> {
        self.groups.get(name)
    }

    /// The scope a path belongs to; `None` when it is denied.
    ///
    /// # Errors
    /// As [`EntityRules::resolve`].
    pub fn scope_of(&self, path: &Path) -> Result<Option<ScopeName>, ResolveError> {
        Ok(self.lookup(path)?.scope.clone())
    }

    /// Every rule, in file order.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The group that owns what nobody listed; `None` when that is denied.
    #[must_use]
    pub fn default_group(&self) -> Option<&Arc<Group>> {
        self.default.as_ref()
    }

    /// Whether rules lie further inside a path: it stands above units of their own.
    #[must_use]
    pub fn has_inner(&self, path: &Path) -> bool {
        self.find(path).inner
    }

    /// The members that tell the items of a list apart; `None` when the list is one value.
    #[must_use]
    pub fn item_key(&self, list: &Path) -> Option<&[String]> {
        let depth = list.keys().len();
        self.collections
            .iter()
            .find(|c| c.pattern.segments().len() == depth && covers(&c.pattern, list))
            .map(|c| c.keys.as_slice())
    }

    /// The inputs of a computed field: the patterns its group is derived from, with the keys and axis values that the
    /// field's own path gives put in. An input covers what lies below it; ask [`super::covers`].
    #[must_use]
    pub fn inputs(&self, field: &Path) -> Vec<Pattern> {
        let Some(rule) = self.find(field).rule else { return Vec::new() };
        rule.group.derived_from.iter().map(|input| bind(input, &rule.pattern, field)).collect()
    }
}

impl fmt::Debug for EntityRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntityRules")
            .field("kind", &self.kind)
            .field("generation", &self.generation)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

/// The wildcard prefix that input and field have in common, and axes both name, mean the same key and value.
fn bind(input: &Pattern, rule: &Pattern, field: &Path) -> Pattern {
    let mut common = true;
    let segments = input.segments().iter().enumerate().map(|(index, segment)| {
        common &= rule.segments().get(index) == Some(segment);
        match (segment, field.keys().get(index)) {
            (Segment::Any | Segment::Prefix(_), Some(key)) if common => Segment::Key(key.clone()),
            _ => segment.clone(),
        }
    });
    let segments = segments.collect();
    let axes = input.axes().iter().map(|(axis, wanted)| {
        let named = rule.axis(axis).is_some();
        match field.axis(axis) {
            Some(value) if named && super::takes(wanted, value) => {
                (axis.clone(), AxisMatch::Exact(value.into()))
            }
            _ => (axis.clone(), wanted.clone()),
        }
    });
    let axes = axes.collect();
    Pattern::from_parts(segments, input.tail(), axes)
}

/// The path that is one value together with `path` under the rule that owns it.
fn unit(pattern: &Pattern, path: &Path) -> Path {
    let depth = pattern.segments().len();
    match (pattern.tail(), path.keys().get(..depth)) {
        (Tail::Node, Some(keys)) if keys.len() < path.keys().len() || path.marker().is_some() => {
            Path::from_parts(keys.to_vec(), None, path.axes().to_vec())
        }
        _ => path.clone(),
    }
}

fn scope(group: &Group, path: &Path) -> Result<ScopeName, ResolveError> {
    if group.split_by.is_empty() {
        return Ok(ScopeName::group(group.name.clone()));
    }
    let mut axes = Vec::with_capacity(group.split_by.len().min(AXES_MAX));
    for axis in &group.split_by {
        let Some(value) = path.axis(axis) else {
            let message = format!("`{path}` names no value for the axis `{axis}`");
            let help =
                format!("the group `{}` is split by it: write `{path}@{axis}=..`", group.name);
            return Err(ResolveError { code: "axis_required", message, help });
        };
        axes.push((axis.clone(), value.into()));
    }
    Ok(ScopeName::split(group.name.clone(), axes))
}

fn axis_required<'a>(
    path: &Path,
    axes: impl Iterator<Item = &'a str>,
    pattern: &Pattern,
) -> ResolveError {
    let missing: Vec<&str> = axes.filter(|axis| path.axis(axis).is_none()).collect();
    let joint = if path.axes().is_empty() { '@' } else { '+' };
    let wanted: Vec<String> = missing.iter().map(|axis| format!("{axis}=..")).collect();
    ResolveError {
        code: "axis_required",
        message: format!(
            "`{path}` needs a value for `{}`: the rule is `{pattern}`",
            missing.join("`, `")
        ),
        help: format!("write `{path}{joint}{}`", wanted.join("+")),
    }
}
