//! Answers: what became of a save.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value as Json, json};

use crate::{
    commit::Refusal,
    engine::validator::Objection,
    entity::Value,
    event::LossReason,
    key::Effect,
    lease::Holder,
    path::Path,
    plan::{Plan, report_json},
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
    /// Somebody else holds a lease, and the save waits for it durably (RULES 36). What becomes of it is in the history or
    /// in the outbox, under this operation.
    Queued(Queued),
    /// The work of the key had ended before: this is what the first call was answered. Nothing was done now.
    Replayed(Box<Replayed>),
    /// Another attempt is at the work of the key, or it failed and is not to be tried again yet. Nothing was done.
    InProgress(Waiting),
    /// The key was used for other work. Nothing was done.
    KeyMismatch,
}

/// A save that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The name its effect will have in the history; cancelling needs it.
    pub operation: OperationId,
    /// 1 when nobody waits before it.
    pub place: u64,
}

/// What the first call with a key was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// Why the job failed for good, if it did.
    pub failed: Option<String>,
    /// What its save did; `None` when there was nothing to do.
    pub effect: Option<Effect>,
    /// The answer as JSON, equal to what [`Saved::to_json`] or [`Unchanged::to_json`] said; `null` after a failure.
    pub answer: Json,
}

/// When a key may be asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// After this time; sooner when the other attempt ends sooner.
    pub retry_after: Duration,
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

impl Saved {
    /// As the service answers it.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let mut answer = Map::from_iter([
            ("edit_token".to_owned(), self.token.clone().into()),
            ("news".to_owned(), news_json(&self.news)),
            ("outcome".to_owned(), "applied".into()),
            ("plan".to_owned(), report_json(&self.plan)),
            ("retries".to_owned(), self.retries.into()),
        ]);
        answer.extend(effect_json(&Effect {
            operation: self.operation,
            versions: self.versions.clone(),
            number: self.version,
            incarnation: self.incarnation,
        }));
        Json::Object(answer)
    }
}

impl Unchanged {
    /// As the service answers it.
    #[must_use]
    pub fn to_json(&self) -> Json {
        json!({
            "edit_token": self.token,
            "news": news_json(&self.news),
            "outcome": "unchanged",
            "plan": report_json(&self.plan),
        })
    }
}

/// The members of an answer that only the store knows.
pub(super) fn effect_json(effect: &Effect) -> Map<String, Json> {
    let versions = effect.versions.iter();
    let versions: Map<String, Json> =
        versions.map(|(scope, version)| (scope.to_string(), version.0.into())).collect();
    Map::from_iter([
        ("incarnation".to_owned(), effect.incarnation.0.into()),
        ("operation".to_owned(), effect.operation.to_string().into()),
        ("version".to_owned(), effect.number.map(|number| number.0).into()),
        ("versions".to_owned(), Json::Object(versions)),
    ])
}

/// Values that others changed since the form was loaded; paths whose value is gone stand in `removed`.
pub(crate) fn news_json(news: &BTreeMap<Path, Value>) -> Json {
    let present = news
        .iter()
        .filter_map(|(path, value)| value.json().map(|json| (path.to_string(), json.clone())));
    let absent: Vec<&Path> =
        news.iter().filter(|(_, value)| value.is_absent()).map(|(path, _)| path).collect();
    json!({"changed": present.collect::<Map<String, Json>>(), "removed": absent})
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
            Self::Queued(_) => "queued",
            Self::Replayed(_) => "replayed",
            Self::InProgress(_) => "in_progress",
            Self::KeyMismatch => "key_mismatch",
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
            Self::Lost(_)
            | Self::Queued(_)
            | Self::Replayed(_)
            | Self::InProgress(_)
            | Self::KeyMismatch => None,
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
            Self::Replayed(replayed) => replayed.answer.get("edit_token").and_then(Json::as_str),
            Self::Lost(_) | Self::Queued(_) | Self::InProgress(_) | Self::KeyMismatch => None,
        }
    }
}
