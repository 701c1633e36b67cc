//! What a service does beside its requests: keys nobody can ask for any more are removed.

use std::{sync::Arc, time::Duration};

use crate::server::App;

/// How often it looks.
const PERIOD: Duration = Duration::from_secs(60);
/// Rows removed by one statement: other writers wait for no more than that.
const BATCH: u32 = 500;
/// Statements of one look; what is left waits for the next.
const BATCHES_MAX: u32 = 20;

/// Sweeps until the service stops. Several services over one store share the work.
pub(crate) async fn sweep_keys(app: Arc<App>) {
    loop {
        let next = app.clock.now().plus(PERIOD);
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = app.clock.sleep_until(next) => {}
        }
        for _ in 0..BATCHES_MAX {
            match app.engine.sweep_keys(BATCH).await {
                Ok(swept) if swept == BATCH => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "expired keys are left for the next time");
                    break;
                }
            }
        }
    }
}
