//! Boards of version guards: in memory with time moved by hand, and on every kind of server.

use std::{sync::Arc, time::Duration};

use fieldlease::{
    clock::{BoxFuture, Clock, SystemClock},
    entity::{EntityRef, WriterKind},
    guard::{Guard, GuardBoard, GuardId, makes_version, memory::MemoryGuards},
    lease::redis::{RedisLeases, RedisOptions},
    testing::{ManualClock, lease_suite::Passing},
    token::SystemEntropy,
};

use crate::servers::{Flavour, Reply, Server};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

struct Really;

impl Passing for Really {
    fn pass(&self, by: Duration) -> BoxFuture<'_, ()> {
        SystemClock.sleep_until(SystemClock.now().plus(by))
    }
}

fn guard(kind: WriterKind, id: &str) -> Guard {
    Guard { kind, owner: "worker thumbs".into(), entity: EntityRef::new("Product", id).unwrap() }
}

/// What every board must do.
async fn keeps_its_promises(board: &dyn GuardBoard, time: &dyn Passing) {
    opens_and_looks(board).await;
    keeps_and_closes(board, time).await;
    tells_saves_apart(board).await;
    refuses_impossible_times(board).await;
}

async fn opens_and_looks(board: &dyn GuardBoard) {
    let (worker, editor) = (guard(WriterKind::Worker, "1}\"\n"), guard(WriterKind::Editor, "1"));
    let one = board.open(&worker, ms(1_000)).await.unwrap();
    let other = board.open(&editor, ms(1_000)).await.unwrap();
    assert_ne!(one, other);
    for (id, guard, makes) in [(one, worker, false), (other, editor, true)] {
        let seen = board.look(id).await.unwrap();
        assert_eq!(makes_version(seen.as_ref()), makes);
        assert_eq!(seen, Some(guard));
        assert!(board.close(id).await.unwrap());
    }
}

async fn keeps_and_closes(board: &dyn GuardBoard, time: &dyn Passing) {
    let worker = guard(WriterKind::Worker, "1");
    let one = board.open(&worker, ms(1_000)).await.unwrap();
    let other = board.open(&worker, ms(1_000)).await.unwrap();

    // Kept from now on, and never put up by keeping.
    time.pass(ms(700)).await;
    let nobody = GuardId([7; 16]);
    assert_eq!(board.keep(&[one, nobody], ms(1_000)).await.unwrap(), [true, false]);
    assert_eq!(board.look(nobody).await.unwrap(), None);
    time.pass(ms(700)).await;
    assert!(board.look(one).await.unwrap().is_some(), "kept for a second from the last call");
    assert_eq!(board.look(other).await.unwrap(), None, "over");
    assert!(makes_version(board.look(other).await.unwrap().as_ref()));
    assert_eq!(board.keep(&[other], ms(1_000)).await.unwrap(), [false]);
    assert!(!board.close(other).await.unwrap());

    assert!(board.close(one).await.unwrap());
    assert!(!board.close(one).await.unwrap());
    assert_eq!(board.look(one).await.unwrap(), None);
}

async fn tells_saves_apart(board: &dyn GuardBoard) {
    let worker = guard(WriterKind::Worker, "1");
    let (outer, inner) = (
        board.open(&worker, ms(1_000)).await.unwrap(),
        board.open(&worker, ms(1_000)).await.unwrap(),
    );
    assert!(board.close(inner).await.unwrap());
    assert!(board.look(outer).await.unwrap().is_some());
    assert!(board.close(outer).await.unwrap());
}

async fn refuses_impossible_times(board: &dyn GuardBoard) {
    let worker = guard(WriterKind::Worker, "1");
    for (ttl, code) in [
        (Duration::ZERO, "ttl_too_small"),
        (ms(99), "ttl_too_small"),
        (Duration::from_secs(3_601), "ttl_too_large"),
        (Duration::MAX, "ttl_too_large"),
    ] {
        assert_eq!(board.open(&worker, ttl).await.unwrap_err().code(), code);
        assert_eq!(board.keep(&[GuardId([7; 16])], ttl).await.unwrap_err().code(), code);
    }
}

#[tokio::test]
async fn a_board_in_memory_keeps_its_promises() {
    let clock = Arc::new(ManualClock::new());
    let board = MemoryGuards::new(clock.clone(), Arc::new(SystemEntropy));

    keeps_its_promises(&board, &*clock).await;

    assert_eq!(board.count(), 0);
}

#[tokio::test]
async fn a_board_in_memory_has_room_for_others_whatever_one_owner_opens() {
    let clock = Arc::new(ManualClock::new());
    let board = MemoryGuards::new(clock.clone(), Arc::new(SystemEntropy));
    let (greedy, mut other) = (guard(WriterKind::Worker, "1"), guard(WriterKind::Worker, "1"));
    other.owner = "worker other".into();

    let mut opened = 0;
    while board.open(&greedy, ms(1_000)).await.is_ok() {
        opened += 1;
    }

    assert_eq!(opened, 10_000);
    board.open(&other, ms(5_000)).await.unwrap();
    clock.advance(ms(1_000)).await;
    assert_eq!(board.count(), 1, "what has ended takes no room");
    board.open(&greedy, ms(1_000)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn boards_on_servers_keep_their_promises_and_leave_nothing() {
    for flavour in Flavour::ALL {
        let server = Server::start(flavour, &[]);
        let options = RedisOptions { namespace: "g".to_owned(), ..RedisOptions::default() };
        let board = RedisLeases::connect(&server.url(), options).await.unwrap();

        keeps_its_promises(&board, &Really).await;
        assert_eq!(server.try_command(&["DBSIZE"]).unwrap(), Reply::Int(0), "{flavour}");

        // What somebody else wrote under the name of a guard is none.
        let id = GuardId([9; 16]);
        server.try_command(&["SET", &format!("g:{{guard:{id}}}"), "[\"boss\"]"]).unwrap();
        assert_eq!(board.look(id).await.unwrap(), None, "{flavour}");
    }
}
