//! Looking up one path after the other, in path order, without searching from the root each time.

use std::{
    collections::{BTreeMap, btree_map::Range},
    iter::Peekable,
};

use crate::path::Path;

/// Entries passed over before it is quicker to search.
const STEPS_MAX: usize = 6;

/// A place in a map that moves forward with what is looked up.
pub(super) struct Walk<'a, V> {
    map: &'a BTreeMap<Path, V>,
    rest: Peekable<Range<'a, Path, V>>,
}

impl<'a, V> Walk<'a, V> {
    pub(super) fn new(map: &'a BTreeMap<Path, V>) -> Self {
        Self { map, rest: map.range::<Path, _>(..).peekable() }
    }

    /// The value at a path. Paths are asked for in ascending order.
    pub(super) fn find(&mut self, path: &Path) -> Option<&'a V> {
        for _ in 0..STEPS_MAX {
            let (at, value) = self.rest.peek()?;
            match (*at).cmp(path) {
                std::cmp::Ordering::Less => self.rest.next(),
                std::cmp::Ordering::Equal => return Some(*value),
                std::cmp::Ordering::Greater => return None,
            };
        }
        self.rest = self.map.range(path..).peekable();
        let (at, value) = self.rest.peek()?;
        (*at == path).then_some(*value)
    }
}
