//! Hearing by asking: where a database wakes nobody, or a pooler stands between.

use std::{collections::BTreeSet, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    clock::{BoxFuture, Clock},
    error::Result,
    lease::rows::line::Ear,
};

/// How often somebody looks whether notices are needed while nobody needs them.
const IDLE: Duration = Duration::from_millis(250);

/// One notice, as it is read.
pub(super) struct Notice {
    /// Rises, but one may be seen before a lower one is committed.
    pub(super) number: i64,
    pub(super) told: String,
    /// Written so long ago that no lower one is still to come.
    pub(super) old: bool,
}

/// Notices in a table.
pub(super) trait Notices: Send + Sync {
    /// The highest number of which no lower one is still to come.
    fn newest(&self) -> BoxFuture<'_, Result<i64>>;
    /// Those above a number, lowest first.
    fn told(&self, after: i64) -> BoxFuture<'_, Result<Vec<Notice>>>;
}

/// What was heard: all up to a number, and some above it.
#[derive(Default)]
struct Heard {
    all_to: i64,
    above: BTreeSet<i64>,
}

impl Heard {
    /// Whether it is new.
    fn note(&mut self, notice: &Notice) -> bool {
        let new = notice.number > self.all_to && self.above.insert(notice.number);
        if notice.old {
            self.all_to = self.all_to.max(notice.number);
            let rest = self.above.split_off(&self.all_to.saturating_add(1));
            self.above = rest;
        }
        new
    }
}

/// Hears until it is cancelled. After a failed look everybody looks, as a notice may be gone when the next one succeeds.
pub(super) async fn listen(
    notices: &dyn Notices,
    clock: &dyn Clock,
    ear: &dyn Ear,
    end: CancellationToken,
) -> Result<()> {
    // What was up to this number is looked at by everybody.
    let newest = notices.newest().await?;
    let mut heard = Heard { all_to: newest, above: BTreeSet::new() };
    ear.missed();
    let mut gap = false;
    loop {
        let patience = ear.patience();
        let until = clock.now().plus(patience.unwrap_or(IDLE));
        // Both arms are safe to cancel.
        tokio::select! {
            () = end.cancelled() => return Ok(()),
            () = clock.sleep_until(until) => {}
        }
        if patience.is_none() {
            continue;
        }
        match notices.told(heard.all_to).await {
            Ok(told) => {
                for notice in told {
                    if heard.note(&notice) {
                        ear.hear(&notice.told);
                    }
                }
                if std::mem::take(&mut gap) {
                    ear.missed();
                }
            }
            Err(error) => {
                gap = true;
                tracing::warn!(%error, "notices about leases were not read");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(number: i64, old: bool) -> Notice {
        Notice { number, told: String::new(), old }
    }

    #[test]
    fn a_notice_that_is_committed_late_is_heard_once_and_so_is_every_other() {
        let mut heard = Heard { all_to: 10, above: BTreeSet::new() };

        assert!(heard.note(&notice(12, false)));
        assert!(!heard.note(&notice(12, false)), "seen in the look before");
        assert!(heard.note(&notice(11, false)), "it had a lower number and was committed later");
        assert!(!heard.note(&notice(12, true)));
        assert_eq!((heard.all_to, heard.above.len()), (12, 0));
        assert!(!heard.note(&notice(11, true)), "below what was heard");
        assert!(heard.note(&notice(13, true)));
    }
}
