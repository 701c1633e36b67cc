//! The keys of a registry: one table that drives reading, "did you mean" and the JSON Schema.

mod json;

use std::time::Duration;

pub use json::json_schema;

/// A key of a map.
#[derive(Debug)]
pub(crate) struct Key {
    /// As written.
    pub(crate) name: &'static str,
    /// What its value looks like.
    pub(crate) shape: Shape,
    /// One sentence for the schema and for editors that show it.
    pub(crate) about: &'static str,
}

/// What a value looks like.
#[derive(Debug)]
pub(crate) enum Shape {
    /// Any text.
    Text,
    /// One of a few words.
    Word(&'static [&'static str]),
    /// A whole number with its unit, inside a range.
    Duration(Duration, Duration),
    /// `skip`, `fail`, `wait <d>`, `retry <n> backoff <d>..<d>`, `enqueue`.
    OnBusy,
    /// A list of names.
    Texts,
    /// A text, or a list of texts.
    TextOrTexts,
    /// A list of paths.
    Paths,
    /// A list of lists of paths.
    PathSets,
    /// A map of axis names to `any` or a list of values.
    Axes,
    /// A map of paths to a text or a list of texts.
    Collections,
    /// A list of paths, or a map of names to groups.
    Groups,
    /// A list of paths, or a map of paths to strategies.
    Shared,
    /// A map of column names to texts.
    Constants,
    /// A map of paths to places.
    Places,
    /// A list of places.
    PlaceList,
    /// A map with its own keys.
    Map(&'static [Key]),
    /// A map of entity types.
    Entities,
    /// Anything.
    Any,
}

const fn key(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, shape, about }
}

const TTL_LEAST: Duration = Duration::from_millis(100);
const TTL_MOST: Duration = Duration::from_secs(24 * 3600);
const HOLD_MOST: Duration = Duration::from_secs(7 * 24 * 3600);
/// The shortest pause or wait of a policy.
pub(crate) const WAIT_LEAST: Duration = Duration::from_millis(1);
/// The longest pause or wait of a policy.
pub(crate) const WAIT_MOST: Duration = Duration::from_secs(3600);
/// Most tries of `retry`.
pub(crate) const RETRIES_MOST: u32 = 1_000;

const LOCKING: Shape = Shape::Word(&["lease", "optimistic"]);
const TTL: Key =
    key("ttl", Shape::Duration(TTL_LEAST, TTL_MOST), "Time to live of a lease. Default 30s.");
const MAX_HOLD: Key = key(
    "max_hold",
    Shape::Duration(TTL_LEAST, HOLD_MOST),
    "A heartbeat never keeps a lease longer. Default 10m.",
);
const ON_BUSY: Key =
    key("on_busy", Shape::OnBusy, "What a writer does when the lease is held. Default `wait 5s`.");
const GROUP_HISTORY: Key =
    key("history", Shape::Map(HISTORY), "What history keeps, for this group.");

/// The top of a file.
pub(crate) const REGISTRY: &[Key] =
    &[key("field_ownership", Shape::Entities, "Entity types and their rules.")];

/// An entity type.
pub(crate) const ENTITY: &[Key] = &[
    key(
        "default_owner",
        Shape::Text,
        "`deny`, `editor` or a group: who owns a field nobody listed. Default deny.",
    ),
    key(
        "enforcement",
        Shape::Word(&["observe", "warn", "enforce"]),
        "What is done with a forbidden write. Default enforce.",
    ),
    key("lifecycle", Shape::Map(LIFECYCLE), "Who may create and delete. Default: editors."),
    key("extends", Shape::Text, "Take over the rules of another type."),
    key("drop", Shape::Paths, "Rules of the extended type that are left out."),
    key("axes", Shape::Axes, "Declared axes; then any other axis is an error."),
    key("collections", Shape::Collections, "What tells the items of a list apart."),
    key("editor_owned", Shape::Groups, "Fields of people."),
    key("system_owned", Shape::Groups, "Fields of workers."),
    key("shared", Shape::Shared, "Fields of everybody, each under a strategy."),
    key("coupled", Shape::PathSets, "Paths that move together: one writer, one decision."),
    key("history", Shape::Map(HISTORY), "What history keeps."),
    key("storage", Shape::Map(STORAGE), "Where the fields lie in the database of the CMS."),
    key("select", Shape::Any, "Attributes by group, family, tag or prefix."),
];

/// `lifecycle`.
pub(crate) const LIFECYCLE: &[Key] = &[
    key("create", Shape::Texts, "Groups that may create. Default: editor."),
    key("delete", Shape::Texts, "Groups that may delete. Default: editor."),
];

/// `history`.
pub(crate) const HISTORY: &[Key] = &[
    key("editor", Shape::Word(&["version"]), "What an editor's save leaves."),
    key("worker", Shape::Word(&["operation"]), "What a worker's save leaves."),
    key(
        "values",
        Shape::Word(&["full", "hash_only", "none"]),
        "What is kept of the values. Default full.",
    ),
];

/// A named group.
pub(crate) const GROUP: &[Key] = &[
    key("fields", Shape::Paths, "The fields of the group."),
    key("writers", Shape::Texts, "Who may write it. Default: anyone of the owner's kind."),
    key("locking", LOCKING, "Default lease for system groups, optimistic for editor groups."),
    TTL,
    MAX_HOLD,
    ON_BUSY,
    key(
        "derived_from",
        Shape::Paths,
        "Inputs; a result computed from inputs that have changed is dropped.",
    ),
    key("on_stale", Shape::Word(&["drop_and_requeue"]), "What becomes of a stale result."),
    key("split_by", Shape::Texts, "Axes that split the group into scopes of their own."),
    GROUP_HISTORY,
];

/// A shared entry. Every other key is an option of the strategy.
pub(crate) const SHARED: &[Key] = &[
    key("strategy", Shape::Text, "How two writers' values become one."),
    key("group", Shape::Text, "A group of its own, with its own version."),
    key("locking", LOCKING, "Default optimistic."),
    TTL,
    MAX_HOLD,
    ON_BUSY,
    GROUP_HISTORY,
];

/// `storage`.
pub(crate) const STORAGE: &[Key] = &[
    key("table", Shape::Text, "The table of the record."),
    key("id", Shape::TextOrTexts, "Its key column or columns."),
    key("where", Shape::Constants, "Constant columns of the row."),
    key("places", Shape::Places, "Path to place."),
];

/// A place in the database.
pub(crate) const PLACE: &[Key] = &[
    key("table", Shape::Text, "Another table; a row per `where`."),
    key("id", Shape::TextOrTexts, "The column or columns that hold the record's id."),
    key("where", Shape::Constants, "Columns that pick the row."),
    key("column", Shape::Text, "The column."),
    key("keys", Shape::Texts, "Keys inside a JSON column."),
    key(
        "unique",
        Shape::Word(&["true", "false"]),
        "Whether id and where are a unique index. Default true.",
    ),
    key(
        "format",
        Shape::Word(&["php_serialize"]),
        "How the column is encoded; such a place is read only.",
    ),
    key("also", Shape::PlaceList, "Further places that get the same value."),
    key("absent", Shape::Word(&["null", "delete"]), "What an absent value becomes."),
];

/// Names of a table.
pub(crate) fn names(keys: &'static [Key]) -> impl Iterator<Item = &'static str> {
    keys.iter().map(|key| key.name)
}
