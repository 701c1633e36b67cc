//! An extent as scripts take it.

use crate::{
    lease::{
        Extent,
        redis::{
            keys::{self, EntityKeys},
            script::Call,
        },
    },
    scope::ScopeName,
};

/// The only scope, when it is unsplit and alone: a plain `SET` takes it.
pub(crate) fn plain_scope(extent: &Extent) -> Option<&ScopeName> {
    let Extent::Groups(scopes) = extent else { return None };
    let only = scopes.names().first().filter(|_| scopes.names().len() == 1)?;
    only.axes().is_empty().then_some(only)
}

/// The names of an extent as scripts take them.
pub(crate) struct Names {
    pub(crate) whole: bool,
    /// Unsplit scopes: each has a key.
    pub(crate) keyed: Vec<String>,
    /// Split scopes, and `*` for the whole entity.
    pub(crate) bare: Vec<String>,
}

impl Names {
    pub(crate) fn of(extent: &Extent) -> Self {
        let mut names =
            Self { whole: matches!(extent, Extent::Whole(_)), keyed: Vec::new(), bare: Vec::new() };
        for name in extent.scopes().names() {
            let list = if name.axes().is_empty() { &mut names.keyed } else { &mut names.bare };
            list.push(keys::write_scope(name));
        }
        if names.whole {
            names.bare.push("*".to_owned());
        }
        names
    }

    /// How many keys [`Names::push_keys`] pushes.
    pub(crate) fn key_count(&self) -> usize {
        self.keyed.len() + 2
    }

    pub(crate) fn push_keys(&self, keys: &EntityKeys, call: &mut Call) {
        call.push_parts(&[keys.start(), keys::HASH]);
        call.push_parts(&[keys.start(), keys::QUEUE]);
        self.push_leases(keys, call);
    }

    pub(crate) fn push_leases(&self, keys: &EntityKeys, call: &mut Call) {
        for name in &self.keyed {
            call.push_parts(&[keys.start(), keys::LEASE, name]);
        }
    }

    pub(crate) fn push_to(&self, call: &mut Call) {
        call.push_number(u64::try_from(self.keyed.len()).unwrap_or(u64::MAX));
        for name in self.keyed.iter().chain(&self.bare) {
            call.push(name);
        }
    }

    /// All of them, for a lease that covers more than its key says; nothing for one unsplit scope.
    pub(crate) fn joined(&self) -> String {
        if self.bare.is_empty() && self.keyed.len() == 1 {
            return String::new();
        }
        let all: Vec<&str> = self.keyed.iter().chain(&self.bare).map(String::as_str).collect();
        all.join(",")
    }
}
