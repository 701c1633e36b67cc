//! One save: the builder.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use serde_json::Value as Json;

use crate::{
    engine::{
        Changes, InputStamps, IntoPath, Loaded, Outcome, Planned,
        core::{Core, Underway},
        hold::Hold,
        keyed::{Keyed, Wish},
        request::{Asker, Request, Shown},
        saving,
    },
    entity::{Change, EntityRef, Value, WriterKind},
    error::{Error, Result},
    key::{ApiKey, JobKey, RequestHash},
    path::Path,
    plan::{Intent, Mode, decode_token},
    registry::OnBusy,
};

/// A save to be sent. A path that is not named is never written.
#[derive(Clone)]
#[must_use = "a save does nothing until it is sent"]
pub struct Save {
    core: Arc<Core>,
    under: Option<Arc<Hold>>,
    changes: Changes,
    token: Option<String>,
    request: Request,
    wish: Option<Wish>,
    /// The first fault of what was passed in.
    fault: Option<(&'static str, String)>,
}

impl Save {
    pub(super) fn new(core: Arc<Core>, asker: Asker, entity: EntityRef) -> Self {
        let request = Request {
            asker,
            entity,
            intent: Intent::Update,
            mode: Mode::Save,
            changes: BTreeMap::new(),
            seen: Shown::Nothing,
            bases: BTreeMap::new(),
            shown: Vec::new(),
            force: Vec::new(),
            reason: None,
            all_or_nothing: false,
            job: None,
            on_busy: None,
            inputs: None,
            key: None,
        };
        Self {
            core,
            under: None,
            changes: Changes::new(),
            token: None,
            request,
            wish: None,
            fault: None,
        }
    }

    pub(super) fn under(mut self, hold: Arc<Hold>) -> Self {
        self.under = Some(hold);
        self
    }

    pub(super) fn creating(mut self) -> Self {
        self.request.intent = Intent::Create;
        self
    }

    pub(super) fn deleting(mut self) -> Self {
        self.request.intent = Intent::Delete;
        self
    }

    pub(super) fn applying(mut self) -> Self {
        self.request.mode = Mode::Apply { unordered: false };
        self
    }

    /// The token of what the form showed. Without it the base of a path others have changed is not known.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// What the writer had been shown: a load of this process, in place of its token. Its stamps are the inputs of
    /// a computed result (RULES 24).
    pub fn seen(mut self, loaded: &Loaded) -> Self {
        self.request.seen = Shown::Record(Box::new(loaded.snapshot.clone()));
        self
    }

    /// Puts a value at a path. `null` is a value.
    pub fn set(mut self, path: impl IntoPath, value: impl Into<Json>) -> Self {
        self.changes = self.changes.set(path, value);
        self
    }

    /// Removes what is at a path.
    pub fn unset(mut self, path: impl IntoPath) -> Self {
        self.changes = self.changes.unset(path);
        self
    }

    /// Adds to a number under strategy `counter`.
    pub fn add(mut self, path: impl IntoPath, delta: i64) -> Self {
        self.changes = self.changes.add(path, delta);
        self
    }

    /// Adds members to a list used as a set.
    pub fn include<J: Into<Json>>(
        mut self,
        path: impl IntoPath,
        members: impl IntoIterator<Item = J>,
    ) -> Self {
        self.changes = self.changes.include(path, members);
        self
    }

    /// Removes members from a list used as a set.
    pub fn exclude<J: Into<Json>>(
        mut self,
        path: impl IntoPath,
        members: impl IntoIterator<Item = J>,
    ) -> Self {
        self.changes = self.changes.exclude(path, members);
        self
    }

    /// Any change at a path.
    pub fn with(mut self, path: impl IntoPath, change: Change) -> Self {
        self.changes = self.changes.with(path, change);
        self
    }

    /// All of these changes too.
    pub fn changes(mut self, more: Changes) -> Self {
        self.changes = self.changes.and(more);
        self
    }

    /// The value the client saw at a path, or [`Value::Absent`]; goes before what the token says (RULES 9).
    pub fn base(mut self, path: impl IntoPath, value: impl Into<Value>) -> Self {
        if let Some(path) = self.read(path) {
            self.request.bases.insert(path, value.into());
        }
        self
    }

    /// Paths the form showed: one that was shown and not sent is removed (RULES 43).
    pub fn shown<P: IntoPath>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        for path in paths {
            let path = self.read(path);
            self.request.shown.extend(path);
        }
        self
    }

    /// Saves mine anyway at these paths: over a conflict, or taking a field over. The reason is kept in the record.
    pub fn force<P: IntoPath>(
        mut self,
        paths: impl IntoIterator<Item = P>,
        reason: impl Into<String>,
    ) -> Self {
        for path in paths {
            let path = self.read(path);
            self.request.force.extend(path);
        }
        let reason = reason.into();
        if reason.trim().is_empty() {
            self.fault.get_or_insert(("reason_missing", "`force` needs a reason".to_owned()));
        }
        self.request.reason = Some(reason);
        self
    }

    /// Why the save is made, for its record; a reason of `force` goes before it.
    pub(super) fn because(mut self, reason: String) -> Self {
        self.request.reason.get_or_insert(reason);
        self
    }

    /// For workers: refuses the whole save where otherwise denied paths are left out. Editors' saves are like that.
    pub fn all_or_nothing(mut self) -> Self {
        self.request.all_or_nothing = true;
        self
    }

    /// The worker's own name for the job, kept in the operation record.
    pub fn job(mut self, name: impl Into<String>) -> Self {
        self.request.job = Some(name.into());
        self
    }

    /// A client's key for this request: however often it is sent, it takes effect once, and repeats are answered what
    /// the first was. One that is refused leaves the key free. Kept for `api_key_retention`.
    pub fn api_key(self, key: ApiKey) -> Self {
        self.with_key(Wish::Api(key, None))
    }

    /// The same, for a caller that knows the request in a form of its own: what it came as, hashed.
    pub fn api_key_for(self, key: ApiKey, request: RequestHash) -> Self {
        self.with_key(Wish::Api(key, Some(request)))
    }

    /// A worker's key for this job: its result is saved once, however often the job is delivered (RULES 31, 32). Kept for
    /// `job_key_retention`. For work that is expensive, [`crate::engine::Run::job_key`] keeps others out while it runs.
    pub fn job_key(self, key: JobKey) -> Self {
        self.with_key(Wish::Job(key))
    }

    fn with_key(mut self, wish: Wish) -> Self {
        if self.wish.is_some() {
            let message = "a save has one key".to_owned();
            self.fault.get_or_insert(("two_keys", message));
        }
        self.wish = Some(wish);
        self
    }

    /// The key of a run, begun already.
    pub(super) fn keyed(mut self, keyed: Keyed) -> Self {
        self.request.key = Some(keyed);
        self
    }

    /// What a repeat of this save is answered; `None`: it has no key, or was not done yet. Writes nothing.
    ///
    /// # Errors
    /// As [`Save::send`].
    pub async fn known(self) -> Result<Option<Outcome>> {
        let (core, request, _) = self.checked()?;
        match &request.key {
            Some(keyed) => keyed.known(&core, &request.entity).await,
            None => Ok(None),
        }
    }

    /// What to do when a lease is held by somebody else. Default: the group's own policy; an editor waits 2 s at most.
    pub fn on_busy(mut self, policy: OnBusy) -> Self {
        self.request.on_busy = Some(policy);
        self
    }

    /// For `apply`: the values depend on nothing that could be newer than they are.
    pub fn unordered(mut self) -> Self {
        if let Mode::Apply { unordered } = &mut self.request.mode {
            *unordered = true;
        }
        self
    }

    /// Stamps of the inputs the values were computed from, as they travelled with the job (RULES 24).
    pub fn inputs(mut self, stamps: InputStamps) -> Self {
        self.request.inputs = Some(stamps);
        self
    }

    /// Says what the save would do now, without doing it: no lease, no claim, no write.
    ///
    /// # Errors
    /// When the call is not valid or the store cannot be reached.
    pub async fn plan(self) -> Result<Planned> {
        let (core, request, under) = self.checked()?;
        saving::dry_run(core, request, under).await
    }

    /// Saves. It runs on a task of its own with its own deadline: dropping this future never leaves half a save.
    ///
    /// # Errors
    /// When the call is not valid, a store cannot be reached, other writers were faster too often
    /// ([`Error::Contended`]), or the answer to a commit never came ([`Error::OutcomeUnknown`]).
    ///
    /// # Panics
    /// Goes on with a panic of a hook, such as the validator. Nothing was written then, and the leases are given back.
    pub async fn send(self) -> Result<Outcome> {
        let (core, request, under) = self.checked()?;
        let (writer, entity) = (request.asker.writer.clone(), request.entity.clone());
        let underway = Underway::default();
        // A save is large while it is under way, and callers' stacks are small.
        let work = Box::pin(saving::save(Arc::clone(&core), request, under, underway.clone()));
        let saving = Arc::clone(&core);
        let framed = async move { saving.in_frame(&writer, &entity, work).await };
        core.detached(underway, framed).await
    }

    fn read(&mut self, path: impl IntoPath) -> Option<Path> {
        match path.into_path() {
            Ok(path) => Some(path),
            Err(error) => {
                self.fault.get_or_insert(("bad_path", error.to_string()));
                None
            }
        }
    }

    /// Everything about the call that can be wrong whatever is stored.
    fn checked(self) -> Result<(Arc<Core>, Request, Option<Arc<Hold>>)> {
        let Self { core, under, changes, token, mut request, wish, fault } = self;
        if let Some((code, message)) = fault {
            return Err(Error::invalid(code, message, ""));
        }
        for (path, change) in changes.checked()? {
            match request.changes.entry(path) {
                Entry::Vacant(place) => {
                    place.insert(change);
                }
                Entry::Occupied(place) => {
                    let message = format!("`{}` is changed twice in one save", place.key());
                    return Err(Error::invalid(
                        "changed_twice",
                        message,
                        "send one change per path",
                    ));
                }
            }
        }
        if let Some(text) = token {
            request.seen = Shown::Token(decode_token(&text, core.secret.as_ref())?);
        }
        let editor = request.asker.writer.kind == WriterKind::Editor;
        if request.on_busy == Some(OnBusy::Enqueue) && (editor || under.is_some()) {
            let message = "`on_busy: enqueue` is for workers' saves without a claim";
            let help = "an editor waits for the lease, or asks again";
            return Err(Error::invalid("enqueue_editor", message, help));
        }
        check_apply(&request)?;
        if let Some(wish) = wish {
            request.key = Some(Keyed::of(&core, &request, &wish)?);
        }
        Ok((core, request, under))
    }
}

/// `apply` compares nothing in its own scope: only its inputs keep an older result from replacing a newer one.
fn check_apply(request: &Request) -> Result<()> {
    let Mode::Apply { unordered } = request.mode else { return Ok(()) };
    if request.asker.writer.kind != WriterKind::Worker {
        let message = "`apply` is for workers: an editor's values depend on what the form showed";
        return Err(Error::invalid("apply_editor", message, "use `save`"));
    }
    if !unordered && request.inputs.is_none() && !matches!(request.seen, Shown::Record(_)) {
        let help = "send the stamps the values were computed from, or say `unordered`";
        return Err(Error::invalid("inputs_missing", "`apply` without input stamps", help));
    }
    Ok(())
}
