//! A claim that arrives after its lease has ended and a successor has claimed (RULES 11, 12), on a real server: the
//! displaced holder, who is alive, goes on, and nothing is lost.

use std::{sync::Arc, time::Duration};

use fieldlease::{
    clock::SystemClock,
    engine::{Claim, Claiming, Engine},
    lease::{
        LeaseStore,
        redis::{RedisLeases, RedisOptions},
    },
    registry::OnBusy,
    testing::{Fault, FlakyRecords, Gate, flaky::Op},
};
use serde_json::json;

use crate::{
    redis::{eventually, nothing_is_left},
    servers::{Flavour, Proxy, Server},
    support::{File, PRODUCT, Wired, created, product, registry_of, saved},
};

const MEDIA: [&str; 1] = ["media"];
/// The time to live of `media` is 2 s.
const LEASE: &str = "fieldlease:{Product:42}:g:media";

struct Process {
    engine: Engine,
    records: Arc<FlakyRecords>,
}

impl Process {
    async fn new(file: &File, url: &str) -> Self {
        let options = RedisOptions {
            response_timeout: Duration::from_millis(250),
            ..RedisOptions::default()
        };
        let leases: Arc<dyn LeaseStore> =
            Arc::new(RedisLeases::connect(url, options).await.unwrap());
        let records = Arc::new(FlakyRecords::new(file.store.clone(), Arc::new(SystemClock)));
        let store = Arc::new(Wired { records: records.clone(), rest: file.store.clone() });
        let builder = Engine::builder(registry_of(PRODUCT)).source(PRODUCT).store(store);
        Self { engine: builder.leases(leases).build().await.unwrap(), records }
    }

    async fn claimed(&self, name: &str) -> Claim {
        let session = self.engine.worker(name);
        let wait = OnBusy::Wait(Duration::from_secs(30));
        match session.claim(&product("42"), MEDIA).on_busy(wait).send().await.unwrap() {
            Claiming::Claimed(claim) => claim,
            other => panic!("not claimed: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_arrives_after_its_successor_claimed_is_not_used_and_the_live_holder_goes_on()
{
    let server = Server::start(Flavour::Redis7, &[]);
    let proxy = Proxy::to(server.port());
    let file = File::new();
    let (a, b) =
        (Process::new(&file, &proxy.url()).await, Process::new(&file, &server.url()).await);
    let chair = product("42");
    created(&b.engine.editor("anna"), &chair).await;
    // A is granted; its claim stops on the way, and from then on nothing of A reaches the lease server.
    let late = Gate::new();
    a.records.script().next(Op::Claim, Fault::HoldRequest(late.clone()));
    let session = a.engine.worker("a");
    let a_claim = tokio::spawn({
        let chair = chair.clone();
        async move { session.claim(&chair, MEDIA).send().await }
    });
    eventually("A holds the lease", || server.keys().iter().any(|key| key == LEASE)).await;
    proxy.hole(true, true);

    let b_claim = b.claimed("b").await;
    let fences = b_claim.fences();
    late.open();
    let a_claim = a_claim.await.unwrap().unwrap();
    assert!(matches!(a_claim, Claiming::Lost(_)), "{a_claim:?}");
    let b_save = saved(b_claim.save().set("thumbnail", "b").send().await.unwrap());

    assert_eq!(b_save.retries, 1, "B was displaced and sent the same values again");
    assert!(b_claim.fences() > fences, "B has claimed again");
    assert_eq!(file.value(&chair, "thumbnail").await, json!("b"));
    b_claim.release().await;
    proxy.heal();
    for process in [a, b] {
        process.engine.shutdown(Duration::from_secs(5)).await;
    }
    nothing_is_left(&[&server], Vec::new()).await;
}
