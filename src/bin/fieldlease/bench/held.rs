//! What many leases cost that are held and nothing else: memory, time of the processor, punctuality.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fieldlease::{
    clock::{Clock, Moment, SystemClock},
    event::{Event, EventSink},
    hold::{Acquired, Lease, Manager, Settings},
    token::HolderToken,
};
use hdrhistogram::Histogram;
use serde_json::{Value as Json, json};
use tokio::task::JoinSet;

use super::{LeasesArgs, bare, broken};
use crate::output::{Failure, Result};

/// Acquires under way at once.
const ACQUIRES: u32 = 64;
/// How long all leases may take to be given back.
const SHUTDOWN_MAX: Duration = Duration::from_secs(60);

pub(super) async fn line(args: &LeasesArgs, count: u32) -> Result<Json> {
    let beats = Arc::new(Beats::new()?);
    let room = usize::try_from(count).unwrap_or(usize::MAX).saturating_add(1_000);
    let settings = Settings { leases_max: room, ..Settings::default() };
    let manager = args.manager(Arc::clone(&beats) as Arc<dyn EventSink>, settings).await?;
    let mut server = Server::of(args).await;

    let (here, there) = (resident_bytes(), server.used_bytes().await);
    let began = SystemClock.now();
    let leases = take(&manager, args, count).await?;
    let taking = SystemClock.now().since(began);
    let (here, there) =
        (grown(here, resident_bytes(), count), grown(there, server.used_bytes().await, count));
    let one = server.key_bytes(args).await;

    beats.counting.store(true, Ordering::Release);
    let (cpu, began) = (cpu_time(), SystemClock.now());
    SystemClock.sleep_until(began.plus(args.length())).await;
    let (cpu, passed) = (cpu_time().saturating_sub(cpu), SystemClock.now().since(began));
    beats.counting.store(false, Ordering::Release);
    let valid = leases.iter().filter(|lease| lease.is_valid()).count();
    let given_back = manager.shutdown(SHUTDOWN_MAX).await;
    drop(leases);

    let percent = |part: Duration, whole: Duration| {
        let hundredths = part.as_micros().saturating_mul(10_000) / whole.as_micros().max(1);
        u32::try_from(hundredths).map_or(f64::MAX, |hundredths| f64::from(hundredths) / 100.0)
    };
    let gaps = beats.gaps.lock().unwrap_or_else(PoisonError::into_inner);
    let gap =
        |quantile| percent(Duration::from_micros(gaps.value_at_quantile(quantile)), args.ttl());
    Ok(json!({
        "peer": "fieldlease",
        "held": count,
        "ttl_ms": args.ttl_ms,
        "acquired_per_s": u128::from(count).saturating_mul(1_000_000) / taking.as_micros().max(1),
        "bytes_per_lease_here": here,
        "bytes_per_lease_redis": there,
        "bytes_of_one_key": one,
        "cpu_percent": percent(cpu, passed),
        "renewed": beats.renewed.load(Ordering::Relaxed),
        "renew_failed": beats.failed.load(Ordering::Relaxed),
        "renewed_after_percent_of_ttl_p50": gap(0.5),
        "renewed_after_percent_of_ttl_max": gap(1.0),
        "lost": usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(valid),
        "not_given_back": given_back.failed,
    }))
}

async fn take(manager: &Manager, args: &LeasesArgs, count: u32) -> Result<Vec<Lease>> {
    let mut tasks = JoinSet::new();
    for first in 0..ACQUIRES.min(count) {
        let asks = (first..count).step_by(usize::try_from(ACQUIRES).unwrap_or(1));
        let asks: Vec<_> = asks.map(|number| args.ask(number)).collect::<Result<_>>()?;
        let manager = manager.clone();
        tasks.spawn(async move {
            let mut leases = Vec::with_capacity(asks.len());
            for ask in asks {
                let Acquired::Held(lease) = manager.acquire(ask).await? else {
                    return Err(Failure::new("busy", "somebody else holds a lease of these", ""));
                };
                leases.push(lease);
            }
            Ok(leases)
        });
    }
    let mut all = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        all.extend(ended.map_err(|error| broken(&error))??);
    }
    Ok(all)
}

/// Hears when which lease was renewed.
struct Beats {
    counting: AtomicBool,
    renewed: AtomicU64,
    failed: AtomicU64,
    last: Mutex<HashMap<HolderToken, Moment>>,
    /// Microseconds between two renewals of one lease.
    gaps: Mutex<Histogram<u64>>,
}

impl Beats {
    fn new() -> Result<Self> {
        Ok(Self {
            counting: AtomicBool::new(false),
            renewed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            last: Mutex::default(),
            gaps: Mutex::new(Histogram::new(3).map_err(|error| broken(&error))?),
        })
    }
}

impl EventSink for Beats {
    fn emit(&self, event: &Event) {
        if !self.counting.load(Ordering::Acquire) {
            return;
        }
        match event {
            Event::LeaseRenewed { holder, .. } => {
                self.renewed.fetch_add(1, Ordering::Relaxed);
                let now = SystemClock.now();
                let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(before) = last.insert(*holder, now) {
                    let micros = u64::try_from(now.since(before).as_micros()).unwrap_or(u64::MAX);
                    let mut gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
                    // It grows by itself; no gap between two heartbeats is too long for it.
                    let _ = gaps.record(micros);
                }
            }
            Event::LeaseRenewFailed { .. } => {
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

/// The server's own view of its memory; only of a single node, over a connection that is not the leases'.
struct Server(Option<redis::aio::MultiplexedConnection>);

impl Server {
    async fn of(args: &LeasesArgs) -> Self {
        let Some(url) = args.redis.as_ref().filter(|url| !url.is_memory()) else {
            return Self(None);
        };
        // Other topologies have more than one memory: nothing is said of them.
        Self(bare::connect(url.reveal()).await.ok())
    }

    async fn used_bytes(&mut self) -> Option<u64> {
        let mut info = redis::cmd("INFO");
        let info: String = info.arg("memory").query_async(self.0.as_mut()?).await.ok()?;
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"))?;
        line.trim().parse().ok()
    }

    async fn key_bytes(&mut self, args: &LeasesArgs) -> Option<u64> {
        let key = format!("{}:{{Bench:{}-0}}:g:lease", args.namespace, std::process::id());
        let mut usage = redis::cmd("MEMORY");
        usage.arg("USAGE").arg(key).query_async(self.0.as_mut()?).await.ok()?
    }
}

/// Growth per lease; `None` where it is not known.
fn grown(before: Option<u64>, after: Option<u64>, count: u32) -> Option<u64> {
    Some(after?.saturating_sub(before?) / u64::from(count.max(1)))
}

/// Memory of this process that is in use; Linux only.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes.saturating_mul(1_024))
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
