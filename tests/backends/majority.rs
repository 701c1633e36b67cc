//! A majority of leases in memory passes the suite but for what it cannot promise, loses nothing when callers go away,
//! and never lets two holders be valid at once while its nodes keep their memory.

mod chance;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fieldlease::{
    clock::{Clock, Moment},
    entity::{EntityRef, GroupName},
    lease::{
        Acquire, Ask, Extent, LeaseStore, Release, Renew, Renewal, Wake, WakeSink,
        majority::{Majority, MajoritySettings},
        memory::MemoryLeases,
    },
    scope::{Scope, ScopeName, ScopeSet},
    testing::{
        FlakyLeases, ManualClock,
        flaky::{Fault, Gate, Op},
        lease_suite::{Passing, cases, failures},
    },
    token::{Entropy, Generation, HolderToken},
};

const TTL: Duration = Duration::from_secs(10);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Counted, so that a run repeats.
struct Counted(AtomicU64);

impl Entropy for Counted {
    fn bytes(&self) -> [u8; 16] {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        let (high, low) = (mix(n), mix(n ^ 0x5555_5555));
        ((u128::from(high) << 64) | u128::from(low)).to_be_bytes()
    }
}

fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

fn majority(nodes: Vec<Arc<dyn LeaseStore>>, clock: &Arc<ManualClock>, seed: u64) -> Majority {
    let entropy = Arc::new(Counted(AtomicU64::new(seed << 32)));
    Majority::new(nodes, MajoritySettings::default(), clock.clone(), entropy).unwrap()
}

/// Promises of the suite that a majority does not keep, and why. Everything else holds.
const NOT_PROMISED: [(&str, &str); 4] = [
    (
        "a confirmed grant lasts its whole time to live",
        "a place is never granted without another acquire, so its renewal confirms no grant",
    ),
    (
        "a renewal of a place tells that it has been granted meanwhile",
        "a place is never granted without another acquire",
    ),
    (
        "a renewed place is told when what stands in its way ends",
        "no node knows who is granted next: it is told of the holder it was refused for, and asks in between",
    ),
    (
        "waiters of another scope are left alone",
        "nothing announces a release in another process, so the first in line is woken by a timer",
    ),
];

#[tokio::test]
async fn majorities_pass_the_suite_but_for_what_they_do_not_promise() {
    // So many nodes, of which so many are down.
    for (nodes, down) in [(1, 0), (3, 0), (4, 0), (3, 1), (4, 1), (5, 2)] {
        let fresh = || -> (Arc<dyn LeaseStore>, Arc<dyn Passing>) {
            let clock = Arc::new(ManualClock::new());
            let node = |at| -> Arc<dyn LeaseStore> {
                let node =
                    FlakyLeases::new(Arc::new(MemoryLeases::new(clock.clone())), clock.clone());
                if at < down {
                    node.cut();
                }
                Arc::new(node)
            };
            let store = majority((0..nodes).map(node).collect(), &clock, 1);
            (Arc::new(store), clock)
        };
        let promised = |name| !NOT_PROMISED.iter().any(|(other, _)| name == *other);
        let kept = cases().into_iter().filter(|case| promised(case.name)).collect();

        let failing = failures(&format!("{nodes} nodes, {down} down"), kept, fresh).await;

        assert!(failing.is_empty(), "{failing:#?}");
    }
}

/// Nodes in memory behind a bad network, and stores over them: each is a process.
struct Rig {
    clock: Arc<ManualClock>,
    memories: Vec<Arc<MemoryLeases>>,
    /// The nodes as whole: what is cut here reaches nobody, also if it was sent long ago.
    nodes: Vec<Arc<FlakyLeases>>,
    tokens: AtomicU64,
}

struct Process {
    store: Arc<Majority>,
    wires: Vec<Arc<FlakyLeases>>,
}

impl Rig {
    fn new(nodes: usize) -> Self {
        let clock = Arc::new(ManualClock::new());
        let memories: Vec<_> =
            (0..nodes).map(|_| Arc::new(MemoryLeases::new(clock.clone()))).collect();
        let node =
            |memory: &Arc<MemoryLeases>| Arc::new(FlakyLeases::new(memory.clone(), clock.clone()));
        let nodes = memories.iter().map(node).collect();
        Self { clock, memories, nodes, tokens: AtomicU64::new(1) }
    }

    fn process(&self, seed: u64) -> Process {
        let wire =
            |node: &Arc<FlakyLeases>| Arc::new(FlakyLeases::new(node.clone(), self.clock.clone()));
        let wires: Vec<_> = self.nodes.iter().map(wire).collect();
        let nodes = wires.iter().map(|wire| wire.clone() as Arc<dyn LeaseStore>).collect();
        Process { store: Arc::new(majority(nodes, &self.clock, seed)), wires }
    }

    fn ask(&self, queue: bool) -> Ask {
        let entity = EntityRef::new("Product", "1").unwrap();
        let name = ScopeName::group(GroupName::new("media").unwrap());
        let n = u128::from(self.tokens.fetch_add(1, Ordering::Relaxed));
        Ask {
            extent: Extent::Groups(ScopeSet::new(entity, [name])),
            token: HolderToken(n.to_be_bytes()),
            ttl: TTL,
            ttl_max: TTL,
            label: "worker".into(),
            generation: Generation([7; 32]),
            queue,
            order: false,
        }
    }

    /// How many nodes hold something.
    fn holding(&self) -> usize {
        self.memories.iter().filter(|memory| !memory.is_empty()).count()
    }
}

fn scope() -> Scope {
    let name = ScopeName::group(GroupName::new("media").unwrap());
    Scope { entity: EntityRef::new("Product", "1").unwrap(), name }
}

fn granted(answer: &fieldlease::Result<Acquire>) -> bool {
    matches!(answer, Ok(Acquire::Granted { .. }))
}

fn renew(ask: &Ask) -> [Renew; 1] {
    [Renew { extent: ask.extent.clone(), token: ask.token, ttl: ask.ttl }]
}

#[tokio::test]
async fn a_majority_needs_nodes_and_takes_fifteen_at_most() {
    let clock = Arc::new(ManualClock::new());
    for (count, quorum) in
        [(0, None), (1, Some(1)), (2, Some(2)), (4, Some(3)), (15, Some(8)), (16, None)]
    {
        let nodes = (0..count).map(|_| Arc::new(MemoryLeases::new(clock.clone())) as _).collect();
        let entropy = Arc::new(Counted(AtomicU64::new(0)));

        let made = Majority::new(nodes, MajoritySettings::default(), clock.clone(), entropy);

        assert_eq!(made.as_ref().ok().map(Majority::quorum), quorum, "{count} nodes");
        assert_eq!(
            made.err().map(|error| error.code()),
            quorum.map_or(Some("bad_nodes"), |_| None)
        );
    }
}

#[tokio::test]
async fn a_hanging_minority_delays_nobody_and_a_hanging_majority_is_told_from_contention() {
    let rig = Rig::new(3);
    let one = rig.process(1);
    one.wires[0].black_hole();
    let ask = rig.ask(false);

    // No time passes: the two others decide.
    assert!(granted(&one.store.acquire(&ask).await));
    assert_eq!(one.store.renew(&renew(&ask)).await, [Renewal::Renewed]);
    let other = one.store.acquire(&rig.ask(false)).await.unwrap();
    let Acquire::Held { by, .. } = other else { panic!("{other:?}") };
    assert_eq!(&*by[0].label, "worker");

    one.wires[1].black_hole();
    let (store, asked) = (one.store.clone(), rig.ask(false));
    let pending = tokio::spawn(async move { store.acquire(&asked).await });
    rig.clock.advance(ms(490)).await;
    assert!(!pending.is_finished(), "5 % of 10 s have not passed");
    rig.clock.advance(ms(20)).await;
    assert_eq!(pending.await.unwrap().unwrap_err().code(), "unavailable");

    let (store, again) = (one.store.clone(), renew(&ask));
    let pending = tokio::spawn(async move { store.renew(&again).await });
    rig.clock.advance(ms(510)).await;
    assert_eq!(pending.await.unwrap(), [Renewal::Unknown], "it lives on until its deadline");
}

#[tokio::test]
async fn an_even_split_is_a_refusal_and_leaves_nothing() {
    let rig = Rig::new(4);
    let (one, two, three) = (rig.process(1), rig.process(2), rig.process(3));
    // Each of two reaches two nodes first.
    for at in [0, 1] {
        two.wires[at].script().next(Op::Acquire, Fault::Delay(ms(30)));
        one.wires[at + 2].script().next(Op::Acquire, Fault::Delay(ms(30)));
    }
    let (a, b) = (rig.ask(false), rig.ask(false));
    let attempts = [(one.store.clone(), a), (two.store.clone(), b)]
        .map(|(store, ask)| tokio::spawn(async move { store.acquire(&ask).await }));
    rig.clock.advance(ms(100)).await;

    for attempt in attempts {
        assert!(attempt.is_finished());
        let answer = attempt.await.unwrap().unwrap();
        assert!(matches!(answer, Acquire::Held { .. }), "{answer:?}");
    }
    rig.clock.advance(ms(100)).await;
    assert_eq!(rig.holding(), 0);
    assert!(granted(&three.store.acquire(&rig.ask(false)).await));
}

#[tokio::test]
async fn a_late_success_is_given_back_though_its_caller_went_away() {
    for watched in [false, true] {
        let rig = Rig::new(3);
        let one = rig.process(1);
        let watch = watched.then(|| {
            let store = one.store.clone();
            tokio::spawn(async move { store.watch(Arc::new(Deaf)).await })
        });
        rig.clock.settle().await;
        let gates = [Gate::new(), Gate::new()];
        for (wire, gate) in one.wires.iter().zip(&gates) {
            wire.script().next(Op::Acquire, Fault::HoldRequest(gate.clone()));
        }
        let (store, ask) = (one.store.clone(), rig.ask(false));
        let attempt = tokio::spawn(async move { store.acquire(&ask).await });
        rig.clock.settle().await;
        assert_eq!(rig.holding(), 1);

        attempt.abort();
        rig.clock.settle().await;
        assert_eq!(rig.holding(), 0, "what was taken is given back at once");
        gates.iter().for_each(Gate::open);
        rig.clock.settle().await;

        assert_eq!(rig.holding(), 0, "and what is taken late, as soon as it is");
        rig.clock.advance(ms(11_000)).await;
        assert!(one.store.is_idle(), "watched: {watched}");
        if let Some(watch) = watch {
            watch.abort();
        }
    }
}

#[test]
fn work_left_behind_without_a_runtime_waits_for_the_next_watch() {
    let rig = Rig::new(3);
    let one = rig.process(1);
    let gate = Gate::new();
    for wire in &one.wires[..2] {
        wire.script().next(Op::Acquire, Fault::Stall(gate.clone()));
    }
    let ask = rig.ask(false);
    let mut attempt = one.store.acquire(&ask);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(attempt.as_mut().poll(&mut context).is_pending());
    assert_eq!(rig.holding(), 1);

    // On a thread without any runtime.
    drop(attempt);
    assert_eq!(rig.holding(), 1);

    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = one.store.clone();
        let watch = tokio::spawn(async move { store.watch(Arc::new(Deaf)).await });
        rig.clock.settle().await;
        gate.open();
        rig.clock.settle().await;
        watch.abort();
    });
    assert_eq!(rig.holding(), 0);
}

#[tokio::test]
async fn a_clean_up_that_is_late_takes_no_vote_from_the_next_attempt_of_the_same_token() {
    let rig = Rig::new(3);
    let (one, two) = (rig.process(1), rig.process(2));
    let (ask, late) = (rig.ask(false), Gate::new());
    one.wires[1].cut();
    one.wires[2].cut();
    one.wires[0].script().next(Op::Release, Fault::HoldRequest(late.clone()));
    assert_eq!(one.store.acquire(&ask).await.unwrap_err().code(), "unavailable");
    rig.clock.settle().await;
    one.wires[1].script().clear();

    // The first attempt's vote is still there, under the name of the first attempt.
    let second = one.store.acquire(&ask).await.unwrap();
    assert!(matches!(second, Acquire::Held { .. }), "{second:?}");
    rig.clock.advance(ms(50)).await;
    late.open();
    rig.clock.settle().await;
    assert!(granted(&one.store.acquire(&ask).await));
    rig.clock.settle().await;

    assert!(!granted(&two.store.acquire(&rig.ask(false)).await), "two valid holders");
    assert_eq!(one.store.renew(&renew(&ask)).await, [Renewal::Renewed]);
}

#[tokio::test]
async fn a_node_that_forgot_a_lease_is_not_told_again_and_a_lost_majority_is_lost() {
    let rig = Rig::new(3);
    let one = rig.process(1);
    let ask = rig.ask(false);
    assert!(granted(&one.store.acquire(&ask).await));
    assert_eq!(rig.holding(), 3);

    rig.memories[0].break_lease(&scope(), "restarted").await.unwrap();
    assert_eq!(one.store.renew(&renew(&ask)).await, [Renewal::Renewed]);
    assert_eq!(rig.holding(), 2, "a renewal never creates");
    rig.memories[1].break_lease(&scope(), "restarted").await.unwrap();
    assert_eq!(one.store.renew(&renew(&ask)).await, [Renewal::Lost]);

    rig.clock.settle().await;
    assert_eq!(rig.holding(), 0, "a minority is given back, so that it is in nobody's way");
    assert_eq!(one.store.release(&ask.extent, ask.token).await.unwrap(), Release::Lost);
}

#[tokio::test]
async fn an_answer_that_ate_the_time_to_live_is_no_lease() {
    let rig = Rig::new(1);
    let one = rig.process(1);
    let ask = Ask { ttl: ms(100), ..rig.ask(false) };
    let gate = Gate::new();
    one.wires[0].script().next(Op::Acquire, Fault::HoldReply(gate.clone()));
    let (store, asked) = (one.store.clone(), ask);
    let attempt = tokio::spawn(async move { store.acquire(&asked).await });
    rig.clock.settle().await;

    // The machine was suspended: the alarm and the answer come at the same time.
    rig.clock.jump(ms(99));
    gate.open();
    rig.clock.settle().await;

    assert_eq!(attempt.await.unwrap().unwrap_err().code(), "unavailable");
    assert_eq!(rig.holding(), 0);
}

struct Deaf;

impl WakeSink for Deaf {
    fn wake(&self, _: Wake) {}
}

#[derive(Default)]
struct Heard(std::sync::Mutex<Vec<Wake>>);

impl WakeSink for Heard {
    fn wake(&self, wake: Wake) {
        self.0.lock().unwrap().push(wake);
    }
}

#[tokio::test]
async fn a_waiter_tries_by_itself_and_is_granted_soon_after_another_process_released() {
    let rig = Rig::new(3);
    let (one, two) = (rig.process(1), rig.process(2));
    let heard = Arc::new(Heard::default());
    let (store, sink) = (two.store.clone(), heard.clone());
    let watch = tokio::spawn(async move { store.watch(sink).await });
    let (holder, waiter) = (rig.ask(false), rig.ask(true));
    assert!(granted(&one.store.acquire(&holder).await));
    let refused = two.store.acquire(&waiter).await.unwrap();
    assert!(matches!(refused, Acquire::Held { place: Some(1), .. }), "{refused:?}");

    let (mut tries, mut waited) = (0, 0);
    while waited < 4_000 {
        rig.clock.advance(ms(10)).await;
        waited += 10;
        if waited == 3_000 {
            one.store.release(&holder.extent, holder.token).await.unwrap();
        }
        let placed = two.store.renew(&renew(&waiter)).await;
        assert!(matches!(placed[..], [Renewal::Placed { again: Some(_) }]), "{placed:?}");
        let woken = std::mem::take(&mut *heard.0.lock().unwrap());
        if woken.contains(&Wake::Try(waiter.token)) {
            tries += 1;
            if granted(&two.store.acquire(&waiter).await) {
                break;
            }
        }
    }

    // At most a quarter of what it had been held.
    assert!((3_000..=3_760).contains(&waited), "granted after {waited} ms");
    assert!((5..=40).contains(&tries), "{tries} tries in 3 s");
    watch.abort();
}

#[tokio::test]
async fn a_holder_is_told_to_give_way_once_it_has_been_renewed() {
    let rig = Rig::new(3);
    let one = rig.process(1);
    let heard = Arc::new(Heard::default());
    let (store, sink) = (one.store.clone(), heard.clone());
    let watch = tokio::spawn(async move { store.watch(sink).await });
    rig.clock.settle().await;
    let ask = rig.ask(false);
    assert!(granted(&one.store.acquire(&ask).await));
    assert_eq!(heard.0.lock().unwrap()[..], [Wake::CheckAll]);

    for _ in 0..3 {
        assert_eq!(one.store.renew(&renew(&ask)).await, [Renewal::Renewed]);
    }

    assert_eq!(heard.0.lock().unwrap()[..], [Wake::CheckAll, Wake::Wanted(ask.token)]);
    watch.abort();
}

#[tokio::test]
async fn one_node_that_broke_a_lease_does_not_end_it_and_a_majority_does() {
    let rig = Rig::new(3);
    let one = rig.process(1);
    let heard = Arc::new(Heard::default());
    let (store, sink) = (one.store.clone(), heard.clone());
    let watch = tokio::spawn(async move { store.watch(sink).await });
    rig.clock.settle().await;
    let ask = rig.ask(false);
    assert!(granted(&one.store.acquire(&ask).await));

    for (node, ended) in [(2, false), (0, true)] {
        rig.memories[node].break_lease(&scope(), "stuck").await.unwrap();
        let broken = heard.0.lock().unwrap().contains(&Wake::Broken(ask.token));
        assert_eq!(broken, ended, "node {node}");
    }
    rig.clock.settle().await;
    assert_eq!(rig.holding(), 0);
    watch.abort();
}
