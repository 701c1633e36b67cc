//! A save or a job with a key: what the key is, and what repeats are answered.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value as Json, json};
use tokio_util::sync::CancellationToken;

use crate::{
    commit::{KeyMode, KeyUse},
    engine::{
        Claim,
        core::Core,
        outcome::{Outcome, Refused, Replayed, Waiting, Why, effect_json, news_json},
        request::{Request, Shown},
    },
    entity::{Change, EntityRef, Value, Writer, WriterKind},
    error::{Error, Result},
    idempotency::BeginAsk,
    key::{
        ApiKey, Attempt, Begin, Ending, Finish, Finished, InputStamps, JobKey, Key, KeyKind,
        KeySource, Owner, RequestHash, stamps_of,
    },
    path::{Path, Pattern},
    plan::{Intent, Mode, Plan, decode_token, encode_token, news, report_json, token_of},
    snapshot::{EditToken, Snapshot},
};

/// A key as the caller named it.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    /// A request's; its hash where the caller knows the request better than we do.
    Api(ApiKey, Option<RequestHash>),
    Job(JobKey),
}

/// A key ready to be used.
#[derive(Clone, Debug)]
pub(super) struct Keyed {
    pub key: Key,
    pub hash: RequestHash,
    pub mode: KeyMode,
    pub retention: Duration,
    /// For a key made of content: inputs whose stamps are kept beside it.
    watched: Option<Vec<Pattern>>,
}

impl Keyed {
    /// A key that is acquired and completed by its save.
    pub(super) fn of(core: &Core, request: &Request, wish: &Wish) -> Result<Self> {
        let mode = KeyMode::Once(Owner::new(&*core.entropy));
        let target = format!("{}/{}", request.entity.kind, request.entity.id.as_str());
        let operation = operation(request);
        match wish {
            Wish::Api(key, hash) => {
                let hash = match hash {
                    Some(hash) => *hash,
                    None => {
                        let body = described(request);
                        RequestHash::of_json(KeyKind::Api, operation, &target, &body)?
                    }
                };
                let key = key.key(&request.asker.writer, operation);
                let retention = core.settings.api_key_retention;
                Ok(Self { key, hash, mode, retention, watched: None })
            }
            Wish::Job(key) => Self::of_job(core, &request.asker.writer, &request.entity, key),
        }
    }

    /// A worker's key.
    pub(super) fn of_job(
        core: &Core,
        writer: &Writer,
        entity: &EntityRef,
        key: &JobKey,
    ) -> Result<Self> {
        if writer.kind != WriterKind::Worker {
            let message = "a job key is for workers";
            let help = "work as a worker, or give an editor's request an api key";
            return Err(Error::invalid("job_key_editor", message, help));
        }
        Ok(Self {
            key: key.key(writer)?,
            hash: job_hash(key, entity)?,
            mode: KeyMode::Once(Owner::new(&*core.entropy)),
            retention: core.settings.job_key_retention,
            watched: key.watched().map(<[Pattern]>::to_vec),
        })
    }

    /// What a commit completes.
    pub(super) fn used(&self, result: String, snapshot: &Snapshot) -> KeyUse {
        KeyUse {
            key: self.key.clone(),
            hash: self.hash,
            mode: self.mode,
            result,
            retention: self.retention,
            inputs: self.inputs(snapshot),
        }
    }

    /// The stamps kept beside a key made of content.
    pub(super) fn inputs(&self, snapshot: &Snapshot) -> Option<InputStamps> {
        let watched = self.watched.as_ref()?;
        Some(stamps_of(watched, &snapshot.key_stamps()))
    }

    /// What a newcomer with this key would be answered; `None`: the work would be done.
    pub(super) async fn known(&self, core: &Core, entity: &EntityRef) -> Result<Option<Outcome>> {
        let deadline = core.after(core.settings.save_deadline);
        match core.ask(deadline, core.store.peek(&self.key, self.hash)).await? {
            Some(begin) => self.answer(core, entity, begin).await,
            None => Ok(None),
        }
    }

    /// Begins the work: an attempt, or the answer that there is nothing to do.
    pub(super) async fn begin(
        &self,
        core: &Core,
        entity: &EntityRef,
    ) -> Result<std::result::Result<Attempt, Outcome>> {
        let own = match self.mode {
            KeyMode::Once(own) => own,
            KeyMode::Claimed(attempt) => attempt.owner,
        };
        let (key, hash) = (self.key.clone(), self.hash);
        let ask = BeginAsk { key, hash, own, lease: core.settings.key_lease };
        let deadline = core.after(core.settings.save_deadline);
        let begin = core.ask(deadline, core.store.begin(&ask)).await?;
        if let Begin::Acquired { attempt, .. } = begin {
            return Ok(Ok(attempt));
        }
        let answer = self.answer(core, entity, begin).await?;
        answer.map(Err).ok_or_else(|| Error::internal("a key was neither acquired nor refused"))
    }

    /// The outcome of a key that is not acquired.
    async fn answer(
        &self,
        core: &Core,
        entity: &EntityRef,
        begin: Begin,
    ) -> Result<Option<Outcome>> {
        Ok(match begin {
            Begin::Acquired { .. } => None,
            Begin::Replay(finished) => Some(self.replayed(core, entity, *finished).await?),
            Begin::Mismatch => Some(Outcome::KeyMismatch),
            Begin::InProgress { retry_after } | Begin::RetryLater { retry_after } => {
                Some(Outcome::InProgress(Waiting { retry_after }))
            }
        })
    }

    /// What the first call was answered. A key made of content answers only while its inputs are those it was
    /// completed on: the same content may have come back (RULES 32).
    pub(super) async fn replayed(
        &self,
        core: &Core,
        entity: &EntityRef,
        finished: Finished,
    ) -> Result<Outcome> {
        if self.watched.is_some() && finished.ending == Ending::Completed {
            let deadline = core.after(core.settings.save_deadline);
            let now = core.ask(deadline, core.store.load(entity)).await?;
            let now = now.unwrap_or_else(|| Snapshot::missing(entity.clone()));
            if finished.inputs != self.inputs(&now) {
                return Ok(superseded(core));
            }
        }
        replay(core, finished).map(|replayed| Outcome::Replayed(Box::new(replayed)))
    }
}

fn superseded(core: &Core) -> Outcome {
    let message = "the key's work was done on other inputs, which had the same content";
    let why = Why::Rules { code: "superseded_key", message: message.to_owned() };
    let (plan, token, news) = (None, None, std::collections::BTreeMap::new());
    Outcome::Refused(Box::new(Refused { operation: core.operation(), why, plan, token, news }))
}

fn job_hash(key: &JobKey, entity: &EntityRef) -> Result<RequestHash> {
    let target = format!("{}/{}", entity.kind, entity.id.as_str());
    RequestHash::of_json(KeyKind::Job, key.job(), &target, &Json::Null)
}

/// The same words as the routes of the service.
fn operation(request: &Request) -> &'static str {
    match (request.intent, request.mode) {
        (Intent::Create, _) => "create",
        (Intent::Delete, _) => "delete",
        (Intent::Update, _) => "save",
    }
}

/// A request as JSON: everything that decides what it does, and nothing that differs between repeats of it.
fn described(request: &Request) -> Json {
    let value = |value: &Value| value.json().map(|json| json!({ "value": json }));
    let texts = |paths: &[Path]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    let by_path = |pairs: &mut dyn Iterator<Item = (&Path, Json)>| {
        pairs.map(|(path, json)| (path.to_string(), json)).collect::<Map<String, Json>>()
    };
    let seen = match &request.seen {
        Shown::Nothing => None,
        Shown::Token(token) => Some(encode_token(token, None)),
        Shown::Record(seen) => {
            Some(encode_token(&token_of(seen, crate::token::Generation([0; 32])), None))
        }
    };
    json!({
        "apply": match request.mode {
            Mode::Save => Json::Null,
            Mode::Apply { unordered } => json!({ "unordered": unordered }),
        },
        "changes": by_path(&mut request.changes.iter().map(|(path, change)| (path, changed(change)))),
        "seen": seen,
        "bases": by_path(&mut request.bases.iter().map(|(path, base)| (path, json!(value(base))))),
        "shown": texts(&request.shown),
        "force": texts(&request.force),
        "reason": request.reason,
        "all_or_nothing": request.all_or_nothing,
        "inputs": request.inputs.as_ref().map(|inputs| {
            by_path(&mut inputs.iter().map(|(path, stamp)| (path, json!(stamp))))
        }),
    })
}

fn changed(change: &Change) -> Json {
    match change {
        Change::Set(value) => json!({ "set": value }),
        Change::Unset => json!("unset"),
        Change::Add(delta) => json!({ "add": delta }),
        Change::Include(members) => json!({ "include": members }),
        Change::Exclude(members) => json!({ "exclude": members }),
    }
}

/// What a save leaves with its key: its answer without what only the store knows. Tokens are kept unsigned.
pub(super) fn stored_save(plan: &Plan, seen: &EditToken, shown: &Json, retries: u32) -> String {
    json!({
        "edit_token": encode_token(seen, None),
        "news": shown,
        "outcome": "applied",
        "plan": report_json(plan),
        "retries": retries,
    })
    .to_string()
}

/// The same for a save that found nothing to do.
pub(super) fn stored_no_op(core: &Core, answer: &Json) -> Result<String> {
    let mut answer = answer.clone();
    if let Some(token) = answer.get_mut("edit_token") {
        let text = token.as_str().unwrap_or_default();
        *token = encode_token(&decode_token(text, core.secret.as_ref())?, None).into();
    }
    Ok(answer.to_string())
}

/// The answer of the first call, put together again.
fn replay(core: &Core, finished: Finished) -> Result<Replayed> {
    let Finished { ending, result, effect, .. } = finished;
    if ending == Ending::Failed {
        return Ok(Replayed { failed: Some(result), effect: None, answer: Json::Null });
    }
    let broken = |what: &str| Error::internal(format!("the stored answer of a key: {what}"));
    let mut answer: Map<String, Json> =
        serde_json::from_str(&result).map_err(|error| broken(&error.to_string()))?;
    let token = answer.get("edit_token").and_then(Json::as_str);
    let token = token.map(|text| decode_token(text, None)).transpose()?;
    if let Some(mut token) = token {
        if let Some(effect) = &effect {
            token.incarnation = effect.incarnation;
            token.versions.extend(effect.versions.iter().map(|(scope, at)| (scope.clone(), *at)));
        }
        answer.insert("edit_token".to_owned(), core.token_text(&token).into());
    }
    if let Some(effect) = &effect {
        answer.extend(effect_json(effect));
    }
    Ok(Replayed { failed: None, effect, answer: Json::Object(answer) })
}

/// What a plan's answer says others changed.
pub(super) fn shown_news(input: &crate::plan::PlanInput<'_>, plan: &Plan) -> Json {
    news_json(&news(input, plan))
}

/// Keeps an acquired key while its work runs, and gives it back when that is dropped.
pub(super) struct Kept {
    core: Arc<Core>,
    pub keyed: Keyed,
    pub attempt: Attempt,
    /// Cancelled when the key is another attempt's.
    current: Mutex<Option<CancellationToken>>,
    lost: AtomicBool,
    /// The stamps beside a key made of content, as of the newest claim.
    inputs: Mutex<Option<InputStamps>>,
    /// Nobody has ended the attempt yet.
    open: bool,
}

impl Kept {
    pub(super) fn new(core: Arc<Core>, mut keyed: Keyed, attempt: Attempt) -> Self {
        keyed.mode = KeyMode::Claimed(attempt);
        let lost = AtomicBool::new(false);
        let (current, inputs) = (Mutex::default(), Mutex::default());
        Self { core, keyed, attempt, current, lost, inputs, open: true }
    }

    /// The claim that the next save is made under.
    pub(super) fn saw(&self, claim: &Claim) {
        let inputs = self.keyed.inputs(&claim.record());
        *self.inputs.lock().unwrap_or_else(PoisonError::into_inner) = inputs;
    }

    /// The stamps beside a key made of content.
    pub(super) fn inputs(&self) -> Option<InputStamps> {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The token of the work that runs now: cancelled when the lease or the key is lost.
    pub(super) fn watch(&self, lease: &CancellationToken) -> CancellationToken {
        let both = lease.child_token();
        if self.lost.load(Ordering::Acquire) {
            both.cancel();
        }
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(both.clone());
        both
    }

    /// Renews the key at half its lease, for as long as it is polled. A renewal that fails is tried again soon: only the
    /// store ends a key.
    pub(super) async fn keep(&self) {
        let (core, lease) = (&self.core, self.core.settings.key_lease);
        let mut wait = lease / 2;
        loop {
            core.clock.sleep_until(core.after(wait)).await;
            let renewal = core.store.renew(&self.keyed.key, self.attempt, lease);
            wait = match core.before(core.after(lease / 4), renewal).await {
                Some(Ok(true)) => lease / 2,
                Some(Ok(false)) => break,
                Some(Err(_)) | None => lease / 10,
            };
        }
        self.lost.store(true, Ordering::Release);
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(current) = current {
            current.cancel();
        }
        std::future::pending::<()>().await;
    }

    /// Ends the attempt without an effect. A store that does not answer leaves the key to its lease: whoever comes
    /// after that takes over, and nothing is done twice.
    pub(super) async fn finish(mut self, how: &Finish) {
        self.open = false;
        let deadline = self.core.after(self.core.settings.save_deadline);
        let finish = self.core.store.finish(&self.keyed.key, self.attempt, how);
        let _left_to_its_lease = self.core.before(deadline, finish).await;
    }

    /// The key was completed by a save, or is left to its lease.
    pub(super) fn leave(mut self) {
        self.open = false;
    }
}

/// Work that was dropped or that panicked gives its key back without waiting for it.
impl Drop for Kept {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (core, key, attempt) = (Arc::clone(&self.core), self.keyed.key.clone(), self.attempt);
        let release = async move {
            let deadline = core.after(core.settings.save_deadline);
            let finish = core.store.finish(&key, attempt, &Finish::Release);
            let _left_to_its_lease = core.before(deadline, finish).await;
        };
        drop(self.core.tasks.spawn_on(release, &runtime));
    }
}
