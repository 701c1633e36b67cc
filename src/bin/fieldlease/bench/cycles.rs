//! Cycles of acquire and release, and the line that all lock benchmarks of this kind print.

use std::time::Duration;

use fieldlease::{
    clock::{Clock, Moment, SystemClock},
    event::NoEvents,
    hold::{AcquireAsk, Acquired, Manager, Released, Settings},
};
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use super::{LeasesArgs, Mode, broken};
use crate::output::{Failure, Result};

/// How long leases may take to be given back at the end.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// Latencies of whole cycles in microseconds.
pub(super) struct Cycles(Histogram<u64>);

impl Cycles {
    pub(super) fn new() -> Result<Self> {
        Histogram::new(3).map(Self).map_err(|error| broken(&error))
    }

    /// Records the cycle that began then.
    pub(super) fn record(&mut self, began: Moment) -> Result<()> {
        let micros = SystemClock.now().since(began).as_micros();
        // Not the saturating way: that one never makes room for longer times.
        self.0.record(u64::try_from(micros).unwrap_or(u64::MAX)).map_err(|error| broken(&error))
    }

    /// All tasks together.
    pub(super) async fn of(mut tasks: JoinSet<Result<Self>>) -> Result<Self> {
        let mut all = Self::new()?;
        while let Some(ended) = tasks.join_next().await {
            let Self(one) = ended.map_err(|error| broken(&error))??;
            all.0.add(one).map_err(|error| broken(&error))?;
        }
        Ok(all)
    }

    /// How many there were, and quantiles of how long they took.
    pub(super) fn numbers(&self, length: Duration) -> (u128, u64, u64) {
        let per_second = u128::from(self.0.len()).saturating_mul(1_000_000);
        let per_second = per_second / length.as_micros().max(1);
        (per_second, self.0.value_at_quantile(0.5), self.0.value_at_quantile(0.99))
    }

    pub(super) fn line(&self, peer: &str, args: &LeasesArgs) -> String {
        let mode = match args.mode {
            Mode::OwnKey => "own-key",
            Mode::OneKey => "one-key",
        };
        let (per_second, p50, p99) = self.numbers(args.length());
        format!(
            "{{\"peer\":\"{peer}\",\"mode\":\"{mode}\",\"concurrency\":{},\"cycles_per_s\":{per_second},\
             \"p50_us\":{p50},\"p99_us\":{p99}}}",
            args.tasks,
        )
    }
}

/// Lease cycles through a manager, without a claim.
pub(super) async fn line(args: &LeasesArgs) -> Result<String> {
    let manager = args.manager(std::sync::Arc::new(NoEvents), Settings::default()).await?;
    let until = SystemClock.now().plus(args.length());
    let mut tasks = JoinSet::new();
    for task in 0..args.tasks {
        tasks.spawn(cycle(manager.clone(), args.ask(task)?, until));
    }
    let all = Cycles::of(tasks).await?;
    manager.shutdown(SHUTDOWN_MAX).await;
    Ok(all.line("fieldlease", args))
}

async fn cycle(manager: Manager, ask: AcquireAsk, until: Moment) -> Result<Cycles> {
    let mut cycles = Cycles::new()?;
    loop {
        let began = SystemClock.now();
        if began >= until {
            return Ok(cycles);
        }
        let Acquired::Held(lease) = manager.acquire(ask.clone()).await? else {
            return Err(Failure::new("timed_out", "a lease was never free", ""));
        };
        let released = lease.release().await;
        if released != Released::Released {
            let message = format!("a lease was not given back: {released:?}");
            return Err(Failure::new("unavailable", message, ""));
        }
        cycles.record(began)?;
    }
}
