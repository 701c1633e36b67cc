//! Answers: what became of a save.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    commit::Refusal,
    engine::validator::Objection,
    entity::Value,
    event::LossReason,
    lease::Holder,
    path::Path,
    plan::Plan,
    scope::ScopeName,
    token::{Incarnation, OperationId, ScopeVersion, VersionNumber},
};

/// What became of a save. Only what is not an answer is an [`crate::error::Error`].
#[derive(Clone, Debug)]
#[must_use = "a refused save wrote nothing: look at the outcome"]
pub enum Outcome {
    /// It took effect, all of it or, for a worker, the part its plan lists as written.
    Applied(Box<Saved>),
    /// Everything was stored like that already: no version, no record.
    Unchanged(Box<Unchanged>),
    /// Nothing was written. The plan says which fields, who and by which rule.
    Refused(Box<Refused>),
    /// Somebody else holds a lease the save needs. Nothing was written.
    Busy(Box<Busy>),
    /// The same, under the policy `skip`.
    Skipped(Box<Busy>),
    /// The claim the save was made under has ended. Nothing was written.
    Lost(LossReason),
}

/// A save that took effect.
#[derive(Clone, Debug)]
pub struct Saved {
    /// Its name in history.
    pub operation: OperationId,
    /// The version it made; `None` for a worker's operation record.
    pub version: Option<VersionNumber>,
    /// New versions of the scopes it wrote.
    pub versions: BTreeMap<ScopeName, ScopeVersion>,
    /// Which creation of the id it belongs to.
    pub incarnation: Incarnation,
    /// What was decided, path by path.
    pub plan: Plan,
    /// Send it with the next save of the same form.
    pub token: String,
    /// Values others changed since the form was loaded. The token counts them as seen.
    pub news: BTreeMap<Path, Value>,
    /// How often it was planned again before it was accepted.
    pub retries: u32,
}

/// A save that changed nothing.
#[derive(Clone, Debug)]
pub struct Unchanged {
    /// What was decided, path by path.
    pub plan: Plan,
    /// Send it with the next save of the same form.
    pub token: String,
    /// Values others changed since the form was loaded. The token counts them as seen.
    pub news: BTreeMap<Path, Value>,
}

/// A save that was refused.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The name it would have had; the audit trail knows it.
    pub operation: OperationId,
    /// Why.
    pub why: Why,
    /// What was decided, path by path; `None` where it did not come to a plan.
    pub plan: Option<Plan>,
    /// "I have seen this": resolving the refusal is one more save with this token (RULES 42).
    pub token: Option<String>,
    /// Values others changed since the form was loaded. The token counts them as seen.
    pub news: BTreeMap<Path, Value>,
}

/// Why a save or claim was refused.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Why {
    /// The rules: somebody else's field, a conflict no strategy decides, a deleted record.
    Rules {
        /// The code of the plan's verdict: `conflict`, `denied`, `stale_input`, `gone` and so on.
        code: &'static str,
        /// What is wrong, where it concerns the save as a whole; else empty: see the plan.
        message: String,
    },
    /// The validator objects.
    Objections(Vec<Objection>),
    /// The store refused, and planning again cannot help.
    Store(Refusal),
}

/// Who is in the way of a save or claim.
#[derive(Clone, Debug)]
pub struct Busy {
    /// The holders.
    pub by: Vec<Holder>,
    /// When asking again makes sense.
    pub retry_after: Duration,
    /// What would be done; `None` for a claim.
    pub plan: Option<Plan>,
    /// The token as of now.
    pub token: Option<String>,
}

/// The answer of a dry run.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What a save would do now, path by path.
    pub plan: Plan,
    /// "I have seen this".
    pub token: String,
    /// Values others changed since the form was loaded. The token counts them as seen.
    pub news: BTreeMap<Path, Value>,
}

impl Why {
    /// The stable code, the same in JSON, logs and metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Rules { code, .. } => code,
            Self::Objections(_) => "not_valid",
            Self::Store(refusal) => refusal.code(),
        }
    }
}

impl Outcome {
    /// The stable code, the same in JSON, logs and metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Applied(_) => "applied",
            Self::Unchanged(_) => "unchanged",
            Self::Refused(refused) => refused.why.code(),
            Self::Busy(_) => "busy",
            Self::Skipped(_) => "skipped",
            Self::Lost(_) => "lost",
        }
    }

    /// The save that took effect, if it did.
    #[must_use]
    pub fn saved(&self) -> Option<&Saved> {
        match self {
            Self::Applied(saved) => Some(saved),
            _ => None,
        }
    }

    /// What was decided, where it came to a plan.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        match self {
            Self::Applied(saved) => Some(&saved.plan),
            Self::Unchanged(unchanged) => Some(&unchanged.plan),
            Self::Refused(refused) => refused.plan.as_ref(),
            Self::Busy(busy) | Self::Skipped(busy) => busy.plan.as_ref(),
            Self::Lost(_) => None,
        }
    }

    /// The token of the next save, where there is one.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        match self {
            Self::Applied(saved) => Some(&saved.token),
            Self::Unchanged(unchanged) => Some(&unchanged.token),
            Self::Refused(refused) => refused.token.as_deref(),
            Self::Busy(busy) | Self::Skipped(busy) => busy.token.as_deref(),
            Self::Lost(_) => None,
        }
    }
}
