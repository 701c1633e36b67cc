//! What becomes of one unit.

use std::sync::Arc;

use crate::{
    entity::{Change, GroupName, Value},
    path::Path,
    registry::{Owner, Resolved},
    scope::ScopeName,
    snapshot::Stamp,
};

/// Why a path may not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DenyRule {
    /// Another kind of writer owns it.
    Owner,
    /// The group names its writers, and this is none of them.
    Writers,
    /// The credential does not include the group.
    Credential,
    /// Nobody owns it: it is not listed, and `default_owner` is `deny`.
    Unlisted,
    /// Only the owner of `#keys` creates and removes items.
    Structure,
    /// A value above units needs the right to every rule below it.
    Below,
    /// `apply` writes only to groups of workers.
    Apply,
}

/// Two writers changed the same unit, and no rule says whose value stays.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// What our writer had been shown; `None` when that is not known.
    pub base: Option<Value>,
    /// What our writer asks for.
    pub ours: Change,
    /// What is stored.
    pub theirs: Value,
    /// Where and by whom it was last changed; `None` when no stamp says so.
    pub since: Option<Stamp>,
    /// The strategy that was asked; `None` for a field with one owner.
    pub strategy: Option<String>,
    /// Which rule refused.
    pub rule: &'static str,
    /// Where inside the value, as paths relative to it; `""` is the value itself.
    pub at: Vec<String>,
}

/// A value written.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The value before.
    pub old: Value,
    /// The value after.
    pub new: Value,
    /// Foreign values that are gone afterwards and that the writer had not seen.
    pub lost: Vec<Value>,
    /// Whether a refusal was overridden.
    pub forced: bool,
}

/// What becomes of one unit.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Decision {
    /// It is written.
    Write(Written),
    /// A strategy merged it.
    Merge {
        /// The strategy.
        strategy: String,
        /// What our writer had been shown.
        base: Option<Value>,
        /// What our writer asked for.
        ours: Change,
        /// The result, `old` being what was stored.
        written: Written,
    },
    /// The submitted value is the stored one, or the one shown.
    Unchanged,
    /// A strategy kept the stored value.
    Kept {
        /// The strategy.
        strategy: String,
        /// Which of its rules.
        rule: &'static str,
        /// The value that stays.
        theirs: Value,
    },
    /// The writer may not write it.
    Denied {
        /// Whose it is.
        owner: Owner,
        /// Why.
        rule: DenyRule,
    },
    /// A person must decide.
    Conflict(Box<Conflict>),
    /// The result was computed from inputs that have changed.
    StaleInput {
        /// Which.
        inputs: Vec<Path>,
    },
    /// The item around it is gone.
    ParentGone {
        /// The item.
        parent: Path,
    },
    /// The request itself is wrong at this path.
    Invalid {
        /// Stable code.
        code: &'static str,
        /// What is wrong.
        message: String,
        /// What to do about it.
        help: String,
    },
}

/// One unit and what becomes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The unit, or the submitted path where there is none.
    pub path: Path,
    /// What the registry says about it; `None` where it has no answer.
    pub rules: Option<Arc<Resolved>>,
    /// What becomes of it.
    pub decision: Decision,
}

impl Decided {
    /// Its group; `None` when nobody owns it.
    #[must_use]
    pub fn group(&self) -> Option<&GroupName> {
        self.rules.as_ref().and_then(|rules| rules.group.as_ref()).map(|group| &group.name)
    }

    /// Its scope; `None` when nobody owns it.
    #[must_use]
    pub fn scope(&self) -> Option<&ScopeName> {
        self.rules.as_ref().and_then(|rules| rules.scope.as_ref())
    }
}

impl Decision {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Write(_) => "write",
            Self::Merge { .. } => "merge",
            Self::Unchanged => "unchanged",
            Self::Kept { .. } => "kept",
            Self::Denied { .. } => "denied",
            Self::Conflict(_) => "conflict",
            Self::StaleInput { .. } => "stale_input",
            Self::ParentGone { .. } => "parent_gone",
            Self::Invalid { .. } => "invalid",
        }
    }

    /// What is written, if anything is.
    #[must_use]
    pub fn written(&self) -> Option<&Written> {
        match self {
            Self::Write(written) | Self::Merge { written, .. } => Some(written),
            _ => None,
        }
    }

    /// Whether a worker's save goes on without it (RULES 5).
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        matches!(self, Self::Denied { .. } | Self::StaleInput { .. } | Self::ParentGone { .. })
    }
}

/// A request that is wrong at a unit, in words.
pub(super) fn wrong(code: &'static str, unit: &Path) -> Decision {
    let (message, help) = match code {
        "keys_not_a_list" => {
            (format!("`{unit}` is not a list of texts"), "send the keys of the items as a list")
        }
        "marker_below_unit" => {
            (format!("what is below `{unit}` is part of one value"), "send the whole value")
        }
        "inside_removed" => {
            (format!("`{unit}` lies in an item this save removes"), "send one of the two")
        }
        "unordered" => (
            format!("nothing says which value of `{unit}` is newer"),
            "give the group `derived_from`, or say that the order does not matter",
        ),
        "inputs_missing" => (
            format!("the inputs `{unit}` was computed from are not known"),
            "send the input stamps of the load",
        ),
        "not_an_integer" | "out_of_range" => {
            (format!("`{unit}` cannot be added to"), "send the new value instead")
        }
        "not_a_list" => (format!("`{unit}` is not a list"), "send the new value instead"),
        _ => (format!("the change of `{unit}` cannot be applied"), "send the whole value"),
    };
    Decision::Invalid { code, message, help: help.to_owned() }
}
