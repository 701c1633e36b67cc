//! The version guard: lets a hook of the CMS ask whether the save it runs in makes a version (RULES 34).
//!
//! The library's own records never ask it: a save leaves a version or an operation record by its writer's kind
//! alone. The guard is for code that cannot see the writer, such as a hook that copies a row on every update.
//!
//! It is carried by the save, not by the process: an editor's save beside a worker's save keeps its own answer.
//! A frame lasts as long as the future it was opened for, however that ends: with a value, an early return, a
//! panic, or because the future was dropped. Tasks spawned inside do not inherit it; see [`VersionGuard::carry`].

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::entity::WriterKind;

tokio::task_local! {
    static FRAME: Arc<Frame>;
}

/// One save: what its writer's kind says, and how many guards are open inside it.
#[derive(Debug)]
struct Frame {
    makes_version: bool,
    guards: AtomicU32,
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
        FRAME.scope(Frame::new(kind), save).await
    }

    /// [`VersionGuard::scope`] for code that is not async.
    pub fn sync_scope<T>(kind: WriterKind, save: impl FnOnce() -> T) -> T {
        FRAME.sync_scope(Frame::new(kind), save)
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
    fn new(kind: WriterKind) -> Arc<Self> {
        let makes_version = kind == WriterKind::Editor;
        Arc::new(Self { makes_version, guards: AtomicU32::new(0) })
    }

    fn answer(&self) -> bool {
        self.makes_version && self.guards.load(Ordering::Acquire) == 0
    }
}
