//! The version guard is carried by one save of one task: nothing outlives it, and nobody else is touched.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use fieldlease::{
    entity::WriterKind::{Editor, Worker},
    version::VersionGuard,
};

#[tokio::test]
async fn the_answer_is_the_writers_kind_and_none_outside_a_save() {
    let editor = VersionGuard::scope(Editor, async { VersionGuard::makes_version() }).await;
    let worker = VersionGuard::scope(Worker, async { VersionGuard::makes_version() }).await;

    assert_eq!((editor, worker), (Some(true), Some(false)));
    assert_eq!(VersionGuard::makes_version(), None);
    assert_eq!(VersionGuard::sync_scope(Editor, VersionGuard::makes_version), Some(true));
}

#[tokio::test]
async fn guards_of_one_save_nest_by_count_in_any_order() {
    VersionGuard::scope(Editor, async {
        let outer = VersionGuard::suppress();
        let inner = VersionGuard::suppress();
        drop(outer);
        assert_eq!(VersionGuard::makes_version(), Some(false));
        drop(inner);
        assert_eq!(VersionGuard::makes_version(), Some(true));
    })
    .await;
}

#[tokio::test]
async fn a_save_inside_another_has_its_own_answer_and_the_outer_one_comes_back() {
    VersionGuard::scope(Worker, async {
        let _quiet = VersionGuard::suppress();
        let inner = VersionGuard::scope(Editor, async { VersionGuard::makes_version() }).await;
        assert_eq!(inner, Some(true));
        assert_eq!(VersionGuard::makes_version(), Some(false));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_editors_save_beside_a_workers_still_makes_its_version() {
    let both = std::sync::Arc::new(tokio::sync::Barrier::new(2));
    let save = |kind| {
        let both = both.clone();
        tokio::spawn(VersionGuard::scope(kind, async move {
            let _quiet = (kind == Worker).then(VersionGuard::suppress);
            both.wait().await;
            let answer = VersionGuard::makes_version();
            both.wait().await;
            answer
        }))
    };
    let (worker, editor) = (save(Worker), save(Editor));

    assert_eq!(worker.await.unwrap(), Some(false));
    assert_eq!(editor.await.unwrap(), Some(true));
}

#[tokio::test]
async fn a_panic_inside_a_save_leaves_nothing_suppressed() {
    let task = tokio::spawn(async {
        let save = VersionGuard::scope(Worker, async {
            let _quiet = VersionGuard::suppress();
            panic!("a hook failed");
        });
        let caught = CatchPanic(Box::pin(save)).await;
        (caught, VersionGuard::makes_version())
    });

    let (caught, after) = task.await.unwrap();

    assert!(caught);
    assert_eq!(after, None);
}

#[tokio::test]
async fn a_panic_in_an_inner_save_gives_the_outer_one_its_answer_back() {
    VersionGuard::scope(Editor, async {
        let inner = VersionGuard::scope(Worker, async { panic!("a hook failed") });
        assert!(CatchPanic(Box::pin(inner)).await);
        assert_eq!(VersionGuard::makes_version(), Some(true));
    })
    .await;
}

#[tokio::test]
async fn an_early_return_restores_the_answer() {
    async fn hook(stop: bool) -> Result<(), ()> {
        let _quiet = VersionGuard::suppress();
        if stop {
            return Err(());
        }
        Ok(())
    }

    VersionGuard::scope(Editor, async {
        assert!(hook(true).await.is_err());
        assert_eq!(VersionGuard::makes_version(), Some(true));
    })
    .await;
}

#[test]
fn a_future_dropped_half_way_leaves_nothing_behind() {
    VersionGuard::sync_scope(Editor, || {
        {
            let inner = VersionGuard::scope(Worker, async {
                let _quiet = VersionGuard::suppress();
                std::future::pending::<()>().await;
            });
            let hook = async {
                let _quiet = VersionGuard::suppress();
                std::future::pending::<()>().await;
            };
            let mut context = Context::from_waker(Waker::noop());
            assert!(pin!(inner).as_mut().poll(&mut context).is_pending());
            assert_eq!(VersionGuard::makes_version(), Some(true));
            let mut hook = Box::pin(hook);
            assert!(hook.as_mut().poll(&mut context).is_pending());
            assert_eq!(VersionGuard::makes_version(), Some(false));
        }

        assert_eq!(VersionGuard::makes_version(), Some(true));
    });
}

#[tokio::test]
async fn a_guard_kept_longer_than_its_save_changes_no_other_save() {
    let kept = VersionGuard::scope(Editor, async { VersionGuard::suppress() }).await;

    let next = VersionGuard::scope(Editor, async { VersionGuard::makes_version() }).await;

    assert_eq!(next, Some(true));
    drop(kept);
}

#[tokio::test]
async fn a_spawned_task_knows_the_save_only_if_it_is_carried_there() {
    VersionGuard::scope(Editor, async {
        let bare = tokio::spawn(async { VersionGuard::makes_version() }).await.unwrap();
        let carried = VersionGuard::carry();
        let _quiet = VersionGuard::suppress();
        let asked = carried.scope(async { VersionGuard::makes_version() });
        assert_eq!(bare, None);
        assert_eq!(tokio::spawn(asked).await.unwrap(), Some(false));
    })
    .await;
}

/// `true` when the future panicked.
struct CatchPanic<F>(std::pin::Pin<Box<F>>);

impl<F: Future<Output = ()>> Future for CatchPanic<F> {
    type Output = bool;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let poll = std::panic::AssertUnwindSafe(|| self.0.as_mut().poll(context));
        match std::panic::catch_unwind(poll) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => Poll::Ready(false),
            Err(_) => Poll::Ready(true),
        }
    }
}
