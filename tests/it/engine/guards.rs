//! The guard of a worker's save as a hook in another process sees it: through the board alone.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use fieldlease::{
    clock::{BoxFuture, SystemClock},
    engine::{Changes, Objection, Proposal, Validator},
    error::{Error, Result},
    guard::{GuardBoard, GuardId, makes_version, memory::MemoryGuards},
    token::SystemEntropy,
    version::VersionGuard,
};

use super::support::{File, PRODUCT, created, product, saved};

/// Looks at the board in the middle of every save, as a hook that was handed the id.
struct Hook {
    board: Arc<MemoryGuards>,
    seen: Mutex<Vec<(Option<GuardId>, bool)>>,
}

impl Hook {
    async fn look(&self) -> Result<()> {
        let id = VersionGuard::published().await?;
        assert_eq!(VersionGuard::published().await?, id, "one guard per save");
        let known = match id {
            Some(id) => self.board.look(id).await?,
            None => None,
        };
        self.seen.lock().unwrap().push((id, makes_version(known.as_ref())));
        Ok(())
    }
}

impl Validator for Hook {
    fn validate<'a>(&'a self, _: Proposal<'a>) -> BoxFuture<'a, Result<Vec<Objection>>> {
        Box::pin(async move { self.look().await.map(|()| Vec::new()) })
    }
}

fn board() -> Arc<MemoryGuards> {
    Arc::new(MemoryGuards::new(Arc::new(SystemClock), Arc::new(SystemEntropy)))
}

#[tokio::test]
async fn a_workers_save_is_seen_as_one_without_version_and_an_editors_beside_it_is_not() {
    let file = File::new();
    let board = board();
    let hook = Arc::new(Hook { board: board.clone(), seen: Mutex::default() });
    let builder = file.builder(PRODUCT).guards(board.clone()).validator(hook.clone());
    let engine = builder.build().await.unwrap();
    let chair = product("42");
    let token = created(&engine.editor("anna"), &chair).await;
    hook.seen.lock().unwrap().clear();

    let (worker, anna) = (engine.worker("thumbnailer"), engine.editor("anna"));
    let (one, other) = tokio::join!(
        worker.save(&chair).set("thumbnail", "t.webp").send(),
        anna.save(&chair).token(token).set("name", "Stool").send(),
    );
    saved(one.unwrap());
    saved(other.unwrap());

    let seen = hook.seen.lock().unwrap().clone();
    let of_worker: Vec<_> = seen.iter().filter(|(id, _)| id.is_some()).collect();
    let of_editor: Vec<_> = seen.iter().filter(|(id, _)| id.is_none()).collect();
    assert!(!of_worker.is_empty() && of_worker.iter().all(|(_, makes)| !makes), "{seen:?}");
    assert!(!of_editor.is_empty() && of_editor.iter().all(|(_, makes)| *makes), "{seen:?}");
    assert_eq!(board.count(), 0, "a guard ends with its save");
}

#[tokio::test]
async fn the_work_of_a_run_has_a_guard_that_ends_with_it_however_it_ends() {
    let file = File::new();
    let board = board();
    let engine = file.builder(PRODUCT).guards(board.clone()).build().await.unwrap();
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;
    let worker = engine.worker("thumbnailer");
    let up = Arc::new(AtomicUsize::new(0));

    let job = |_| {
        let (board, up) = (board.clone(), up.clone());
        async move {
            let id = VersionGuard::published().await?.expect("a board is set");
            assert!(!makes_version(board.look(id).await?.as_ref()));
            up.store(board.count(), Ordering::Relaxed);
            Ok::<_, Error>(Changes::new().set("thumbnail", "t.webp"))
        }
    };
    saved(worker.run(&chair, ["media"], job).await.unwrap());
    assert_eq!((up.load(Ordering::Relaxed), board.count()), (1, 0));

    // Dropped half way, and a panic.
    for panics in [false, true] {
        let job = move |_| async move {
            VersionGuard::published().await?;
            assert!(!panics, "a hook failed");
            std::future::pending::<std::result::Result<Changes, Error>>().await
        };
        let (worker, chair) = (engine.worker("thumbnailer"), chair.clone());
        let task = tokio::spawn(async move { worker.run(&chair, ["media"], job).await.is_ok() });
        while !panics && board.count() == 0 {
            tokio::task::yield_now().await;
        }
        if !panics {
            task.abort();
        }
        assert!(task.await.is_err());
        while board.count() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_save_that_nobody_asks_about_puts_nothing_up() {
    let file = File::new();
    let board = board();
    let engine = file.builder(PRODUCT).guards(board.clone()).build().await.unwrap();
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;

    saved(engine.worker("thumbnailer").save(&chair).set("thumbnail", "t").send().await.unwrap());

    assert_eq!(board.count(), 0);
    assert_eq!(VersionGuard::published().await.unwrap(), None, "outside of a save");
}
