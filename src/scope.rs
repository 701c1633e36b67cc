//! Scopes: what a lease covers and what carries a version.

use std::{collections::BTreeSet, fmt, sync::Arc};

use crate::entity::{EntityRef, GroupName};

/// A group of one entity, with one value per axis the group is split by (RULES 1).
///
/// Prints as `media` or `translation[channel=web,locale=de]`, axes sorted, values escaped as in a path.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScopeName {
    group: GroupName,
    axes: Arc<[(Box<str>, Box<str>)]>,
}

impl ScopeName {
    /// The scope of an unsplit group.
    #[must_use]
    pub fn group(group: GroupName) -> Self {
        Self { group, axes: Arc::default() }
    }

    /// The scope of one axis value of a split group. Axes are sorted here.
    #[must_use]
    pub fn split(group: GroupName, mut axes: Vec<(Box<str>, Box<str>)>) -> Self {
        axes.sort();
        Self { group, axes: axes.into() }
    }

    /// The group's name.
    #[must_use]
    pub fn group_name(&self) -> &GroupName {
        &self.group
    }

    /// Axis values, sorted by axis name; empty for an unsplit group.
    #[must_use]
    pub fn axes(&self) -> &[(Box<str>, Box<str>)] {
        &self.axes
    }

    /// Reads the printed form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let Some((group, rest)) = text.split_once('[') else {
            return GroupName::new(text).ok().map(Self::group);
        };
        let group = GroupName::new(group).ok()?;
        let inside = rest.strip_suffix(']')?;
        let mut axes = Vec::new();
        let mut current = (String::new(), None::<String>);
        let mut chars = inside.chars();
        while let Some(c) = chars.next() {
            let (name, value) = &mut current;
            match (c, value.is_some()) {
                ('=', false) => *value = Some(String::new()),
                (',', true) => {
                    let (name, value) = std::mem::take(&mut current);
                    axes.push((name.into(), value.unwrap_or_default().into()));
                }
                ('\\', true) => value.get_or_insert_default().push(chars.next()?),
                (c, true) => value.get_or_insert_default().push(c),
                (c, false) => name.push(c),
            }
        }
        axes.push((current.0.into(), current.1?.into()));
        Some(Self::split(group, axes))
    }
}

impl fmt::Display for ScopeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.group.as_str())?;
        for (index, (name, value)) in self.axes.iter().enumerate() {
            write!(f, "{}{name}=", if index == 0 { '[' } else { ',' })?;
            for c in value.chars() {
                if matches!(c, ',' | ']' | '\\') {
                    write!(f, "\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        if self.axes.is_empty() { Ok(()) } else { write!(f, "]") }
    }
}

impl fmt::Debug for ScopeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScopeName({self})")
    }
}

impl serde::Serialize for ScopeName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for ScopeName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a scope"))
    }
}

/// A scope of one entity: the unit of leases, claims and versions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    /// The record.
    pub entity: EntityRef,
    /// Group and axis values.
    pub name: ScopeName,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.entity, self.name)
    }
}

/// The scopes of one entity, sorted and unique: the only order in which scopes are taken or locked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScopeSet {
    entity: EntityRef,
    /// Shared: a set goes unchanged from the caller into requests, tables and handles.
    names: Arc<BTreeSet<ScopeName>>,
}

impl ScopeSet {
    /// Scopes of one entity.
    pub fn new(entity: EntityRef, names: impl IntoIterator<Item = ScopeName>) -> Self {
        Self { entity, names: Arc::new(names.into_iter().collect()) }
    }

    /// The record.
    #[must_use]
    pub fn entity(&self) -> &EntityRef {
        &self.entity
    }

    /// The names in canonical order.
    #[must_use]
    pub fn names(&self) -> &BTreeSet<ScopeName> {
        &self.names
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The scopes in canonical order.
    pub fn iter(&self) -> impl Iterator<Item = Scope> + '_ {
        self.names.iter().map(|name| Scope { entity: self.entity.clone(), name: name.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_name_reads_back_as_printed() {
        let media = GroupName::new("media").unwrap();
        let names = [
            ScopeName::group(media.clone()),
            ScopeName::split(media.clone(), vec![("locale".into(), "de".into())]),
            ScopeName::split(media, vec![("l".into(), "a,b]=\\[".into()), ("c".into(), "".into())]),
        ];

        for name in names {
            assert_eq!(ScopeName::parse(&name.to_string()), Some(name));
        }
    }
}
