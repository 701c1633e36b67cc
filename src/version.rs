//! The version guard: lets a hook of the CMS ask whether the save it runs in makes a version (RULES 34).
//!
//! The library's own records never ask it: a save leaves a version or an operation record by its writer's kind
//! alone. The guard is for code that cannot see the writer, such as a hook that copies a row on every update.
//!
//! It is carried by the save, not by the process: an editor's save beside a worker's save keeps its own answer.
//! A frame lasts as long as the future it was opened for, however that ends: with a value, an early return, a
//! panic, or because the future was dropped. Tasks spawned inside do not inherit it; see [`VersionGuard::carry`].
//!
//! A hook in another process is given the id of [`VersionGuard::published`] and asks the board.

use std::{
    convert::Infallible,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Notify, OnceCell};

use crate::{
    clock::Clock,
    entity::{EntityRef, Writer, WriterKind},
    error::Result,
    guard::{Guard, GuardBoard, GuardId},
};

/// How long a published guard outlives its process. It is kept three times as often while its save runs.
const GUARD_TTL: Duration = Duration::from_secs(30);
/// How long the end of a save waits for its guard to be taken down; after that the time to live is the net.
const CLOSE_WAIT: Duration = Duration::from_millis(500);

tokio::task_local! {
    static FRAME: Arc<Frame>;
}

/// One save: what its writer's kind says, and how many guards are open inside it.
#[derive(Debug)]
struct Frame {
    makes_version: bool,
    guards: AtomicU32,
    desk: Option<Desk>,
}

/// Where the guards of a program's saves are put up, so that other processes can ask about them.
#[derive(Clone)]
pub struct Publisher {
    board: Arc<dyn GuardBoard>,
    clock: Arc<dyn Clock>,
}

impl Publisher {
    /// Guards go up on this board.
    #[must_use]
    pub fn new(board: Arc<dyn GuardBoard>, clock: Arc<dyn Clock>) -> Self {
        Self { board, clock }
    }
}

/// Puts up the guard of one save, when it is asked for, and takes it down.
struct Desk {
    publisher: Publisher,
    guard: Guard,
    id: OnceCell<GuardId>,
    published: Notify,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("guard", &self.guard).finish_non_exhaustive()
    }
}

/// While it lives, the save it was made in answers "no version" to hooks. Guards nest: the last one to go
/// restores the answer. It never outlives its save in effect, even when it is kept longer.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use fieldlease::{entity::WriterKind, version::VersionGuard};
///
/// VersionGuard::scope(WriterKind::Editor, async {
///     assert_eq!(VersionGuard::makes_version(), Some(true));
///     let _quiet = VersionGuard::suppress();
///     assert_eq!(VersionGuard::makes_version(), Some(false));
/// })
/// .await;
/// assert_eq!(VersionGuard::makes_version(), None);
/// # });
/// ```
#[derive(Debug)]
#[must_use = "a guard that is dropped at once suppresses nothing"]
pub struct VersionGuard {
    frame: Option<Arc<Frame>>,
}

/// The save of a task, to be carried into a task spawned by it.
#[derive(Clone, Debug)]
pub struct Carried(Option<Arc<Frame>>);

impl VersionGuard {
    /// Runs a save's future in a frame of its own. A save inside another pushes its own frame; when it ends,
    /// the outer one answers again.
    pub async fn scope<F: Future>(kind: WriterKind, save: F) -> F::Output {
        FRAME.scope(Frame::new(kind, None), save).await
    }

    /// [`VersionGuard::scope`] for a save whose guard may be seen by other processes: nothing is sent until
    /// [`VersionGuard::published`] asks for it. From then on it is kept while the save runs, and it is taken down when
    /// the save ends, however it ends. A process that is killed leaves it for 30 s at most, and it answers for this
    /// save alone.
    pub async fn scope_on<F: Future>(
        publisher: Publisher,
        writer: &Writer,
        entity: &EntityRef,
        save: F,
    ) -> F::Output {
        let owner = format!("{} {}", writer.kind, writer.name).into();
        let guard = Guard { kind: writer.kind, owner, entity: entity.clone() };
        let desk = Desk { publisher, guard, id: OnceCell::new(), published: Notify::new() };
        let frame = Frame::new(writer.kind, Some(desk));
        let mut ending = Ending(Some(Arc::clone(&frame)));
        let output = FRAME.scope(Arc::clone(&frame), async {
            tokio::select! {
                biased;
                output = save => output,
                never = frame.keep() => match never {},
            }
        });
        let output = output.await;
        ending.0 = None;
        frame.take_down().await;
        output
    }

    /// The name under which other processes can ask whether the innermost save of this task makes a version; put up on
    /// the board when it is first asked for. `None` outside of a save, for an editor's save (which makes its version,
    /// as anything a board does not know), and where no board is set.
    ///
    /// # Errors
    /// When the board cannot be reached. A hook that is given no id makes a version.
    pub async fn published() -> Result<Option<GuardId>> {
        let Ok(frame) = FRAME.try_with(Arc::clone) else { return Ok(None) };
        let Some(desk) = frame.desk.as_ref().filter(|_| !frame.makes_version) else {
            return Ok(None);
        };
        let open = || desk.publisher.board.open(&desk.guard, GUARD_TTL);
        let id = *desk.id.get_or_try_init(open).await?;
        desk.published.notify_one();
        Ok(Some(id))
    }

    /// [`VersionGuard::scope`] for code that is not async.
    pub fn sync_scope<T>(kind: WriterKind, save: impl FnOnce() -> T) -> T {
        FRAME.sync_scope(Frame::new(kind, None), save)
    }

    /// Whether the innermost save of this task makes a version; `None` when no save runs here.
    #[must_use]
    pub fn makes_version() -> Option<bool> {
        FRAME.try_with(|frame| frame.answer()).ok()
    }

    /// Opens a guard in the innermost save of this task. Outside a save it does nothing.
    pub fn suppress() -> Self {
        let frame = FRAME.try_with(Arc::clone).ok();
        if let Some(frame) = &frame {
            frame.guards.fetch_add(1, Ordering::AcqRel);
        }
        Self { frame }
    }

    /// The innermost save of this task, for a task that this one spawns.
    #[must_use]
    pub fn carry() -> Carried {
        Carried(FRAME.try_with(Arc::clone).ok())
    }
}

impl Drop for VersionGuard {
    fn drop(&mut self) {
        if let Some(frame) = &self.frame {
            frame.guards.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Carried {
    /// Runs a future inside the carried save.
    pub async fn scope<F: Future>(self, part: F) -> F::Output {
        match self.0 {
            Some(frame) => FRAME.scope(frame, part).await,
            None => part.await,
        }
    }
}

impl Frame {
    fn new(kind: WriterKind, desk: Option<Desk>) -> Arc<Self> {
        let makes_version = kind == WriterKind::Editor;
        Arc::new(Self { makes_version, guards: AtomicU32::new(0), desk })
    }

    fn answer(&self) -> bool {
        self.makes_version && self.guards.load(Ordering::Acquire) == 0
    }

    /// Keeps the guard up from when it is published, for as long as this is polled.
    async fn keep(&self) -> Infallible {
        let Some(desk) = &self.desk else { return std::future::pending().await };
        desk.published.notified().await;
        let Publisher { board, clock } = &desk.publisher;
        loop {
            clock.sleep_until(clock.now().plus(GUARD_TTL / 3)).await;
            if let Some(id) = desk.id.get() {
                // Not kept once or twice, it lives on; not kept at all, its save makes a version.
                let _kept = board.keep(&[*id], GUARD_TTL).await;
            }
        }
    }

    async fn take_down(&self) {
        let Some(desk) = &self.desk else { return };
        let Some(id) = desk.id.get() else { return };
        let Publisher { board, clock } = &desk.publisher;
        let end = clock.now().plus(CLOSE_WAIT);
        tokio::select! {
            biased;
            // Gone already, or not reached: its time to live is the net.
            _closed = board.close(*id) => {}
            () = clock.sleep_until(end) => {}
        }
    }
}

/// Takes a guard down whose save was dropped or panicked, if there is a runtime to do it on.
struct Ending(Option<Arc<Frame>>);

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(frame) = self.0.take() else { return };
        let published = frame.desk.as_ref().is_some_and(|desk| desk.id.initialized());
        if let (true, Ok(runtime)) = (published, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { frame.take_down().await });
        }
    }
}
