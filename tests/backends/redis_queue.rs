//! Waiting on Redis: first come first served between processes, no herd, and little lost to those that died in line.
//! A process is a [`RedisLeases`] with a [`Manager`] over it: its own connections, its own inbox.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use fieldlease::{
    clock::{Clock, SystemClock},
    entity::EntityRef,
    event::NoEvents,
    hold::{AcquireAsk, Acquired, Background, Lease, Manager, Settings},
    lease::{
        Acquire, Ask, Extent, LeaseStore,
        redis::{RedisLeases, RedisOptions},
    },
    registry::OnBusy,
    scope::{ScopeName, ScopeSet},
    token::{Generation, HolderToken, SystemEntropy},
};
use tokio::task::JoinSet;

use crate::servers::{Flavour, Server, until};

const FOREVER: Duration = Duration::MAX;

fn extent(id: &str, group: &str) -> Extent {
    let name = ScopeName::parse(group).unwrap();
    Extent::Groups(ScopeSet::new(EntityRef::new("Product", id).unwrap(), [name]))
}

struct Process {
    manager: Manager,
}

impl Process {
    async fn start(server: &Server) -> Self {
        let store = RedisLeases::connect(&server.url(), RedisOptions::default()).await.unwrap();
        let settings = Settings { background: Background::Runtime, ..Settings::default() };
        let manager = Manager::new(
            Arc::new(store),
            Arc::new(SystemClock),
            Arc::new(SystemEntropy),
            Arc::new(NoEvents),
            settings,
        );
        Self { manager: manager.unwrap() }
    }

    async fn acquire(&self, ttl: Duration, on_busy: OnBusy) -> Acquired {
        acquire(&self.manager, ttl, on_busy).await
    }

    async fn hold(&self, ttl: Duration) -> Lease {
        held(self.acquire(ttl, OnBusy::Wait(FOREVER)).await)
    }
}

async fn acquire(manager: &Manager, ttl: Duration, on_busy: OnBusy) -> Acquired {
    let ask = AcquireAsk {
        extent: extent("1", "media"),
        ttl,
        ttl_max: ttl,
        max_hold: Duration::from_secs(600),
        on_busy,
        label: "worker".into(),
        generation: Generation([7; 32]),
        reentrant: false,
        owner: None,
    };
    manager.acquire(ask).await.unwrap()
}

fn held(acquired: Acquired) -> Lease {
    match acquired {
        Acquired::Held(lease) => lease,
        other => panic!("not held: {other:?}"),
    }
}

/// Places in the queue, as the server has them.
fn places(server: &Server) -> usize {
    server.command(&["ZCARD", "fieldlease:{Product:1}:q"]).text().parse().unwrap()
}

fn nothing_left(server: &Server) {
    until("no key is left", || server.keys().is_empty());
    until("no connection is left", || server.clients().is_empty());
    assert_eq!(server.channels(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_different_processes_are_served_in_the_order_they_came() {
    for flavour in [Flavour::Redis7, Flavour::Redis62, Flavour::Valkey9] {
        let server = Server::start(flavour, &[]);
        let mut processes = Vec::new();
        for _ in 0..8 {
            processes.push(Arc::new(Process::start(&server).await));
        }
        let first = processes[0].hold(Duration::from_secs(60)).await;
        let served = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = JoinSet::new();
        for (at, process) in processes.iter().enumerate().skip(1) {
            let (process, served) = (Arc::clone(process), Arc::clone(&served));
            waiting.spawn(async move {
                let lease = process.hold(Duration::from_secs(60)).await;
                served.lock().unwrap().push(at);
                lease.release().await;
            });
            until("it stands in line", || places(&server) == at);
        }

        first.release().await;
        waiting.join_all().await;

        assert_eq!(*served.lock().unwrap(), [1, 2, 3, 4, 5, 6, 7], "{flavour}");
        drop(processes);
        nothing_left(&server);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lc_08_waiters_that_leave_or_die_cost_little_and_the_others_are_all_served() {
    let server = Server::start(Flavour::Redis7, &[]);
    let ttl = Duration::from_secs(60);
    let mut processes = Vec::new();
    for _ in 0..10 {
        processes.push(Arc::new(Process::start(&server).await));
    }
    let first = processes[0].hold(ttl).await;
    // A process that dies in line, at its head: nothing more is ever heard of it.
    let dead = Ask {
        extent: extent("1", "media"),
        token: HolderToken([9; 16]),
        ttl,
        ttl_max: ttl,
        label: "dead".into(),
        generation: Generation([7; 32]),
        queue: true,
        order: false,
    };
    let dying = RedisLeases::connect(&server.url(), RedisOptions::default()).await.unwrap();
    let placed = dying.acquire(&dead).await.unwrap();
    assert!(matches!(placed, Acquire::Held { place: Some(1), .. }), "{placed:?}");
    drop(dying);

    let (served, inside) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut living = JoinSet::new();
    let mut leaving = JoinSet::new();
    for n in 0..900_u64 {
        let process = Arc::clone(&processes[usize::try_from(n % 9).unwrap() + 1]);
        let patience = Duration::from_millis(10 + n * 37 % 490);
        match n % 9 {
            // 400 lose patience, 300 are dropped, 200 live.
            0..4 => drop(leaving.spawn(async move {
                let answer = process.acquire(ttl, OnBusy::Wait(patience)).await;
                assert!(matches!(answer, Acquired::Busy { .. }), "{answer:?}");
            })),
            4..7 => drop(leaving.spawn(async move {
                let waiting = process.hold(ttl);
                let end = SystemClock.sleep_until(SystemClock.now().plus(patience));
                tokio::select! {
                    _ = waiting => panic!("nobody released"),
                    () = end => {}
                }
            })),
            _ => {
                let (served, inside) = (Arc::clone(&served), Arc::clone(&inside));
                living.spawn(async move {
                    let lease = process.hold(ttl).await;
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    served.fetch_add(1, Ordering::SeqCst);
                    lease.release().await;
                });
            }
        }
    }
    leaving.join_all().await;
    // One connection for commands and one for messages for each process, whatever the number of its waiters.
    assert!(server.clients().len() <= 20, "{}", server.clients().len());

    first.release().await;
    living.join_all().await;

    assert_eq!(served.load(Ordering::SeqCst), 200);
    drop(processes);
    nothing_left(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_waiters_make_no_herd() {
    let server = Server::start(Flavour::Redis7, &["--maxclients", "4000"]);
    let ttl = Duration::from_secs(60);
    let mut processes = Vec::new();
    for _ in 0..100 {
        processes.push(Arc::new(Process::start(&server).await));
    }
    let first = processes[0].hold(ttl).await;
    let mut waiting = JoinSet::new();
    for n in 0..1_000 {
        let process = Arc::clone(&processes[n % 100]);
        waiting.spawn(async move {
            process.hold(ttl).await.release().await;
        });
    }
    until("all stand in line", || places(&server) >= 99);
    let monitor = server.monitor();

    first.release().await;
    waiting.join_all().await;

    let lines = server.monitored(&monitor);
    let sent = lines.iter().filter(|line| !line.contains(" lua]")).count();
    // Ten hand-overs in memory for each between processes. Places are renewed meanwhile, which costs the same whether
    // anybody hands over or not; they are in the bound.
    assert!(sent <= 4 * 100 + 100, "{sent} commands");
    drop(processes);
    nothing_left(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_others_wait_for_hands_over_in_time() {
    let server = Server::start(Flavour::Redis7, &[]);
    let ttl = Duration::from_secs(60);
    let (busy, other) = (Arc::new(Process::start(&server).await), Process::start(&server).await);
    let counted = Arc::new(AtomicU32::new(0));
    let mut greedy = JoinSet::new();
    for _ in 0..4 {
        let (busy, counted) = (Arc::clone(&busy), Arc::clone(&counted));
        greedy.spawn(async move {
            loop {
                busy.hold(ttl).await.release().await;
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    until("the key is kept busy", || counted.load(Ordering::SeqCst) > 1_000);

    for _ in 0..20 {
        other.hold(ttl).await.release().await;
    }

    greedy.shutdown().await;
    drop((busy, other));
    nothing_left(&server);
}
