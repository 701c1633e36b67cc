//! Ports that drop, delay, repeat and lose requests and replies, by script.
//!
//! A request and its reply are two things here, as on a network: a request that was sent is carried out even if its
//! caller went away, and one that is held is carried out when its [`Gate`] opens, however late.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{
    clock::{BoxFuture, Clock},
    commit::{Commit, Committed},
    entity::EntityRef,
    error::{Error, Result},
    lease::{Acquire, Ask, Extent, Holder, LeaseStore, Release, Renew, Renewal, Wake, WakeSink},
    mapping::Layout,
    registry::EntityRules,
    scope::Scope,
    snapshot::Snapshot,
    store::{ClaimAsk, Claimed, RecordStore},
    token::{Fence, HolderToken, OperationId},
};

/// Holds what passes until it is opened.
#[derive(Clone, Debug, Default)]
pub struct Gate(CancellationToken);

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets through what is held, and everything after.
    pub fn open(&self) {
        self.0.cancel();
    }
}

/// What happens to one request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It never arrives, and the caller hears nothing.
    LoseRequest,
    /// It is carried out, and the caller hears nothing.
    LoseReply,
    /// It never arrives; the caller gets an error.
    RefuseRequest,
    /// It is carried out; the caller gets an error.
    BreakReply,
    /// It is carried out twice; the caller hears the second answer.
    Repeat,
    /// It arrives when the gate opens.
    HoldRequest(Gate),
    /// It is carried out at once; the caller hears of it when the gate opens.
    HoldReply(Gate),
    /// It waits for the gate in the caller's own hands, as for a connection: a caller that goes away never sends it.
    Stall(Gate),
    /// It arrives this much later.
    Delay(Duration),
}

/// Which request. The names are those of the ports' methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the port method of that name")]
pub enum Op {
    Acquire,
    Renew,
    Release,
    Watch,
    Inspect,
    BreakLease,
    Load,
    Claim,
    Commit,
    Resolve,
    BreakClaim,
}

/// The faults to come and the requests that came.
pub struct Script {
    clock: Arc<dyn Clock>,
    inner: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    /// Used up one by one.
    once: VecDeque<(Op, Option<Fault>)>,
    /// In force until cleared.
    always: Vec<(Op, Fault)>,
    seen: Vec<Op>,
}

impl Script {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, inner: Mutex::default() }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next request of this kind that has no line yet meets this fault.
    pub fn next(&self, op: Op, fault: Fault) {
        self.lines().once.push_back((op, Some(fault)));
    }

    /// One request of this kind passes unharmed before later lines count.
    pub fn pass(&self, op: Op) {
        self.lines().once.push_back((op, None));
    }

    /// Every request of this kind meets this fault, after the lines for single ones are used up.
    pub fn always(&self, op: Op, fault: Fault) {
        self.lines().always.push((op, fault));
    }

    /// Takes every line back.
    pub fn clear(&self) {
        let mut lines = self.lines();
        lines.once.clear();
        lines.always.clear();
    }

    /// How many requests of this kind were sent, whatever became of them.
    #[must_use]
    pub fn sent(&self, op: Op) -> usize {
        self.lines().seen.iter().filter(|seen| **seen == op).count()
    }

    fn fault(&self, op: Op) -> Option<Fault> {
        let mut lines = self.lines();
        lines.seen.push(op);
        if let Some(at) = lines.once.iter().position(|(other, _)| *other == op) {
            return lines.once.remove(at).and_then(|(_, fault)| fault);
        }
        lines.always.iter().find(|(other, _)| *other == op).map(|(_, fault)| fault.clone())
    }

    async fn run<T: Send + 'static>(
        &self,
        op: Op,
        request: impl Fn() -> BoxFuture<'static, T>,
        error: impl Fn() -> T,
    ) -> T {
        match self.fault(op) {
            None => request().await,
            Some(Fault::LoseRequest) => std::future::pending().await,
            Some(Fault::LoseReply) => {
                request().await;
                std::future::pending().await
            }
            Some(Fault::RefuseRequest) => error(),
            Some(Fault::BreakReply) => {
                request().await;
                error()
            }
            Some(Fault::Repeat) => {
                request().await;
                request().await
            }
            Some(Fault::HoldRequest(gate)) => {
                let request = request();
                detached(
                    async move {
                        gate.0.cancelled().await;
                        request.await
                    },
                    error,
                )
                .await
            }
            Some(Fault::Stall(gate)) => {
                gate.0.cancelled().await;
                request().await
            }
            Some(Fault::HoldReply(gate)) => {
                let answer = request().await;
                gate.0.cancelled().await;
                answer
            }
            Some(Fault::Delay(by)) => {
                let (clock, request) = (Arc::clone(&self.clock), request());
                detached(
                    async move {
                        clock.sleep_until(clock.now().plus(by)).await;
                        request.await
                    },
                    error,
                )
                .await
            }
        }
    }
}

/// Runs on even if its caller goes away.
async fn detached<T: Send + 'static>(
    request: impl Future<Output = T> + Send + 'static,
    error: impl Fn() -> T,
) -> T {
    tokio::spawn(request).await.unwrap_or_else(|_| error())
}

fn broken<T>() -> Result<T> {
    Err(Error::unavailable("the connection was cut"))
}

/// A lease store behind a bad network.
pub struct FlakyLeases {
    inner: Arc<dyn LeaseStore>,
    script: Script,
    lost: Arc<Mutex<Option<LostWake>>>,
}

/// Whether a wake-up gets lost.
type LostWake = fn(&Wake) -> bool;

/// A sink that some wake-ups never reach.
struct Leaky {
    inner: Arc<dyn WakeSink>,
    lost: Arc<Mutex<Option<LostWake>>>,
}

impl WakeSink for Leaky {
    fn wake(&self, wake: Wake) {
        let lost = *self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if !lost.is_some_and(|lost| lost(&wake)) {
            self.inner.wake(wake);
        }
    }
}

impl FlakyLeases {
    /// Passes everything on until the script says otherwise.
    #[must_use]
    pub fn new(inner: Arc<dyn LeaseStore>, clock: Arc<dyn Clock>) -> Self {
        Self { inner, script: Script::new(clock), lost: Arc::default() }
    }

    /// From now on these wake-ups never arrive, though the subscription seems to live.
    pub fn lose_wakes(&self, lost: fn(&Wake) -> bool) {
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(lost);
    }

    /// What goes wrong.
    #[must_use]
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// Nothing returns any more, without an error.
    pub fn black_hole(&self) {
        for op in [Op::Acquire, Op::Renew, Op::Release, Op::Inspect, Op::BreakLease] {
            self.script.always(op, Fault::LoseRequest);
        }
    }

    /// Every request fails at once.
    pub fn cut(&self) {
        for op in [Op::Acquire, Op::Renew, Op::Release, Op::Inspect, Op::BreakLease] {
            self.script.always(op, Fault::RefuseRequest);
        }
    }
}

impl LeaseStore for FlakyLeases {
    fn acquire<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Acquire>> {
        let request = move || -> BoxFuture<'static, _> {
            let (inner, ask) = (Arc::clone(&self.inner), ask.clone());
            Box::pin(async move { inner.acquire(&ask).await })
        };
        Box::pin(self.script.run(Op::Acquire, request, broken))
    }

    fn renew<'a>(&'a self, batch: &'a [Renew]) -> BoxFuture<'a, Vec<Renewal>> {
        let request = move || -> BoxFuture<'static, _> {
            let (inner, batch) = (Arc::clone(&self.inner), batch.to_vec());
            Box::pin(async move { inner.renew(&batch).await })
        };
        let error = || vec![Renewal::Unknown; batch.len()];
        Box::pin(self.script.run(Op::Renew, request, error))
    }

    fn release<'a>(
        &'a self,
        extent: &'a Extent,
        token: HolderToken,
    ) -> BoxFuture<'a, Result<Release>> {
        let request = move || -> BoxFuture<'static, _> {
            let (inner, extent) = (Arc::clone(&self.inner), extent.clone());
            Box::pin(async move { inner.release(&extent, token).await })
        };
        Box::pin(self.script.run(Op::Release, request, broken))
    }

    fn watch<'a>(&'a self, sink: Arc<dyn WakeSink>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match self.script.fault(Op::Watch) {
                None => {
                    let lost = Arc::clone(&self.lost);
                    self.inner.watch(Arc::new(Leaky { inner: sink, lost })).await
                }
                // Deaf: subscribed, as far as the caller knows.
                Some(Fault::LoseRequest | Fault::LoseReply) => std::future::pending().await,
                Some(_) => broken(),
            }
        })
    }

    fn inspect<'a>(
        &'a self,
        entity: Option<&'a EntityRef>,
        cursor: Option<&'a str>,
        most: u32,
    ) -> BoxFuture<'a, Result<(Vec<Holder>, Option<String>)>> {
        let request = move || -> BoxFuture<'static, _> {
            let (inner, entity) = (Arc::clone(&self.inner), entity.cloned());
            let cursor = cursor.map(str::to_owned);
            Box::pin(async move { inner.inspect(entity.as_ref(), cursor.as_deref(), most).await })
        };
        Box::pin(self.script.run(Op::Inspect, request, broken))
    }

    fn break_lease<'a>(
        &'a self,
        scope: &'a Scope,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<Option<Holder>>> {
        let request = move || -> BoxFuture<'static, _> {
            let (inner, scope, reason) =
                (Arc::clone(&self.inner), scope.clone(), reason.to_owned());
            Box::pin(async move { inner.break_lease(&scope, &reason).await })
        };
        Box::pin(self.script.run(Op::BreakLease, request, broken))
    }
}

/// A record store behind a bad network.
pub struct FlakyRecords {
    inner: Arc<dyn RecordStore>,
    script: Script,
}

impl FlakyRecords {
    /// Passes everything on until the script says otherwise.
    #[must_use]
    pub fn new(inner: Arc<dyn RecordStore>, clock: Arc<dyn Clock>) -> Self {
        Self { inner, script: Script::new(clock) }
    }

    /// What goes wrong.
    #[must_use]
    pub fn script(&self) -> &Script {
        &self.script
    }
}

impl RecordStore for FlakyRecords {
    fn load<'a>(&'a self, entity: &'a EntityRef) -> BoxFuture<'a, Result<Option<Snapshot>>> {
        let request = move || -> BoxFuture<'static, _> {
            let (inner, entity) = (Arc::clone(&self.inner), entity.clone());
            Box::pin(async move { inner.load(&entity).await })
        };
        Box::pin(self.script.run(Op::Load, request, broken))
    }

    fn claim<'a>(&'a self, ask: &'a ClaimAsk) -> BoxFuture<'a, Result<Claimed>> {
        let request = move || -> BoxFuture<'static, _> {
            let (inner, ask) = (Arc::clone(&self.inner), ask.clone());
            Box::pin(async move { inner.claim(&ask).await })
        };
        Box::pin(self.script.run(Op::Claim, request, broken))
    }

    /// A broken reply is an unknown outcome here, as a database client would report it.
    fn commit<'a>(&'a self, commit: &'a Commit) -> BoxFuture<'a, Result<Committed>> {
        let request = move || -> BoxFuture<'static, _> {
            let (inner, commit) = (Arc::clone(&self.inner), commit.clone());
            Box::pin(async move { inner.commit(&commit).await })
        };
        let error = move || Err(Error::OutcomeUnknown(commit.operation));
        Box::pin(self.script.run(Op::Commit, request, error))
    }

    fn resolve(&self, operation: OperationId) -> BoxFuture<'_, Result<Option<Committed>>> {
        let request = move || -> BoxFuture<'static, _> {
            let inner = Arc::clone(&self.inner);
            Box::pin(async move { inner.resolve(operation).await })
        };
        Box::pin(self.script.run(Op::Resolve, request, broken))
    }

    fn break_claim<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Result<Fence>> {
        let request = move || -> BoxFuture<'static, _> {
            let (inner, scope) = (Arc::clone(&self.inner), scope.clone());
            Box::pin(async move { inner.break_claim(&scope).await })
        };
        Box::pin(self.script.run(Op::BreakClaim, request, broken))
    }

    /// Asked once, at start: nothing is made to fail here.
    fn map<'a>(
        &'a self,
        rules: &'a Arc<EntityRules>,
    ) -> BoxFuture<'a, Result<Option<Arc<Layout>>>> {
        self.inner.map(rules)
    }
}
