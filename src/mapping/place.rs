//! Places bound to a database: which rows are looked at, and where in them every path lies.

use super::{
    Cell, Kind,
    template::{Template, Vars},
};
use crate::{
    diagnostic::Span,
    path::{AxisMatch, Path, Pattern, Segment, Tail},
    registry::takes,
};

/// A column of a statement: its name quoted, its type as the database prints it.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) sql: String,
    pub(super) kind: Kind,
    pub(super) declared: String,
    pub(super) nullable: bool,
}

/// Rows of one table that belong to a record: one for the record's own table, one per value of `open` elsewhere.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// As the registry names it.
    pub(super) table: String,
    pub(super) sql: String,
    pub(super) id: Vec<Field>,
    /// Columns with the same value in every row.
    pub(super) fixed: Vec<(Field, Cell)>,
    /// Columns whose value tells the rows apart.
    pub(super) open: Vec<(Field, Template)>,
    /// Columns that hold values of the record.
    pub(super) columns: Vec<Field>,
    /// Columns a new row must be given.
    pub(super) required: Vec<String>,
}

/// One step inside a JSON column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum KeyPart {
    One(Template),
    /// All keys of the path below the pattern.
    Rest,
}

/// Where a value lies.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// Index into the sources.
    pub(super) source: usize,
    /// Index into the columns of the source.
    pub(super) column: usize,
    pub(super) keys: Vec<KeyPart>,
}

/// A pattern and where its paths lie.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) pattern: Pattern,
    pub(super) at: Span,
    pub(super) target: Target,
    pub(super) also: Vec<Target>,
    /// An absent value removes its row.
    pub(super) delete: bool,
    pub(super) read_only: bool,
}

impl Place {
    /// Every target.
    pub(super) fn targets(&self) -> impl Iterator<Item = &Target> {
        std::iter::once(&self.target).chain(&self.also)
    }
}

/// What a path gives to the placeholders of a pattern that covers it, or lies as deep as it goes.
pub(super) fn vars_of(pattern: &Pattern, path: &Path) -> Vars {
    let mut vars = Vars::new();
    let mut star = 0;
    for (segment, key) in pattern.segments().iter().zip(path.keys()) {
        if !matches!(segment, Segment::Key(_)) {
            star += 1;
            vars.insert(star.to_string(), key.to_string());
        }
    }
    for (axis, _) in pattern.axes() {
        if let Some(value) = path.axis(axis) {
            vars.insert(axis.to_string(), value.to_owned());
        }
    }
    vars
}

/// The path of a pattern with these values; `None` when one is missing or the pattern does not take it.
pub(super) fn path_of(pattern: &Pattern, vars: &Vars) -> Option<Path> {
    let mut keys = Vec::with_capacity(pattern.segments().len());
    let mut star = 0;
    for segment in pattern.segments() {
        keys.push(match segment {
            Segment::Key(key) => key.clone(),
            open => {
                star += 1;
                let value = vars.get(&star.to_string())?;
                let taken = match open {
                    Segment::Prefix(prefix) => value.starts_with(&**prefix),
                    _ => true,
                };
                taken.then(|| value.as_str().into())?
            }
        });
    }
    let mut axes = Vec::with_capacity(pattern.axes().len());
    for (axis, wanted) in pattern.axes() {
        let value = match wanted {
            AxisMatch::Exact(value) => &**value,
            open => vars.get(&**axis).map(String::as_str).filter(|value| takes(open, value))?,
        };
        axes.push((axis.clone(), value.into()));
    }
    // Every path has keys that can be printed and parsed again.
    let path = Path::from_parts(keys, pattern.marker(), axes);
    Path::parse(path.as_str()).ok()
}

/// The pattern with these values put in; what they do not name stays open. `None` when it does not take one.
pub(super) fn narrowed(pattern: &Pattern, vars: &Vars) -> Option<Pattern> {
    let mut star = 0;
    let mut segments = Vec::with_capacity(pattern.segments().len());
    for segment in pattern.segments() {
        if matches!(segment, Segment::Key(_)) {
            segments.push(segment.clone());
            continue;
        }
        star += 1;
        let Some(value) = vars.get(&star.to_string()) else {
            segments.push(segment.clone());
            continue;
        };
        if let Segment::Prefix(prefix) = segment
            && !value.starts_with(&**prefix)
        {
            return None;
        }
        segments.push(Segment::Key(value.as_str().into()));
    }
    let mut axes = Vec::with_capacity(pattern.axes().len());
    for (axis, wanted) in pattern.axes() {
        let value = vars.get(&**axis);
        if value.is_some_and(|value| !takes(wanted, value)) {
            return None;
        }
        let exact = value.map(|value| AxisMatch::Exact(value.as_str().into()));
        axes.push((axis.clone(), exact.unwrap_or_else(|| wanted.clone())));
    }
    Some(Pattern::from_parts(segments, pattern.tail(), axes))
}

/// How many keys of a path say which row it lies in: up to the last star that `open` columns use.
pub(super) fn row_depth(pattern: &Pattern, source: &Source) -> usize {
    let used = |star: usize| {
        let name = star.to_string();
        source.open.iter().any(|(_, template)| template.vars().any(|var| var == name))
    };
    let (mut star, mut depth) = (0, 0);
    for (index, segment) in pattern.segments().iter().enumerate() {
        if !matches!(segment, Segment::Key(_)) {
            star += 1;
            if used(star) {
                depth = index + 1;
            }
        }
    }
    depth
}

/// Whether a pattern is one path.
pub(super) fn is_literal(pattern: &Pattern) -> bool {
    pattern.tail() != Tail::Subtree
        && pattern.segments().iter().all(|segment| matches!(segment, Segment::Key(_)))
        && pattern.axes().iter().all(|(_, value)| matches!(value, AxisMatch::Exact(_)))
}
