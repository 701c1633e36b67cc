//! Logs, counters and what a crash may leave behind, for `serve`.

use std::{io::IsTerminal, sync::Arc, time::Duration};

use fieldlease::{clock::Clock, server::RenderMetrics};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::output::{Failure, Result};

/// Buckets of waiting and holding times in seconds.
const BUCKETS_S: [f64; 10] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];
/// How often counted samples are folded into buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// Logs to standard error: text, or JSON. `FIELDLEASE_LOG` chooses what, as in `info,fieldlease=debug`.
pub(crate) fn start_log(json: bool) {
    let filter =
        EnvFilter::try_from_env("FIELDLEASE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // Starting twice is the only way to fail, and then the first one goes on.
    let _ = if json { log.json().try_init() } else { log.compact().try_init() };
}

/// Installs the recorder that everything is counted with.
pub(crate) fn start_metrics() -> Result<PrometheusHandle> {
    let fault = |error: &dyn std::fmt::Display| {
        Failure::new("internal", format!("cannot count: {error}"), "")
    };
    let builder =
        PrometheusBuilder::new().set_buckets(&BUCKETS_S).map_err(|error| fault(&error))?;
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| fault(&error))?;
    Ok(handle)
}

/// Renders the page.
pub(crate) fn render(handle: &PrometheusHandle) -> RenderMetrics {
    let handle = handle.clone();
    Arc::new(move || handle.render())
}

/// Folds samples until `stop`.
pub(crate) async fn upkeep(
    handle: PrometheusHandle,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = clock.sleep_until(clock.now().plus(UPKEEP)) => handle.run_upkeep(),
        }
    }
}

/// A core dump would hold tokens.
pub(crate) fn no_core_dumps() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        if let Err(error) = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })
        {
            tracing::warn!(%error, "core dumps cannot be turned off");
        }
    }
}
