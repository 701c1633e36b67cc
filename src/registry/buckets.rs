//! Rules that can have a path in common, without a look at all the others.

use crate::path::{Pattern, Segment};

/// Items by the first key of their patterns.
pub(crate) struct Buckets<'a, T> {
    /// Sorted by first key.
    literal: Vec<(&'a str, &'a T)>,
    /// Those whose first step is no literal key: they can meet everything.
    wide: Vec<&'a T>,
}

impl<'a, T> Buckets<'a, T> {
    pub(crate) fn new(items: &'a [T], pattern: impl Fn(&'a T) -> &'a Pattern) -> Self {
        let mut literal: Vec<(&str, &T)> = Vec::with_capacity(items.len());
        let mut wide = Vec::new();
        for item in items {
            match pattern(item).segments().first() {
                Some(Segment::Key(key)) => literal.push((key, item)),
                _ => wide.push(item),
            }
        }
        literal.sort_by_key(|(key, _)| *key);
        Self { literal, wide }
    }

    /// Everything that may contain a pattern.
    pub(crate) fn around<'b>(
        &'b self,
        pattern: &Pattern,
    ) -> impl Iterator<Item = &'a T> + use<'a, 'b, T> {
        let same: &'b [(&'a str, &'a T)] = match pattern.segments().first() {
            Some(Segment::Key(key)) => {
                let from = self.literal.partition_point(|(known, _)| *known < &**key);
                let rest = self.literal.get(from..).unwrap_or_default();
                let count = rest.partition_point(|(known, _)| *known == &**key);
                rest.get(..count).unwrap_or_default()
            }
            _ => &[],
        };
        same.iter().map(|(_, item)| *item).chain(self.wide.iter().copied())
    }

    /// Every pair that may overlap, once.
    pub(crate) fn pairs(&self, mut visit: impl FnMut(&'a T, &'a T)) {
        for bucket in self.literal.chunk_by(|a, b| a.0 == b.0) {
            for (index, (_, a)) in bucket.iter().enumerate() {
                bucket.iter().skip(index + 1).for_each(|(_, b)| visit(a, b));
            }
        }
        for (index, a) in self.wide.iter().enumerate() {
            self.wide.iter().skip(index + 1).for_each(|b| visit(a, b));
            self.literal.iter().for_each(|(_, b)| visit(a, b));
        }
    }
}
