//! What may happen to a key: the one place that decides who acquires it.

use std::time::Duration;

use crate::{
    clock::StoreTime,
    key::{Attempt, Begin, Finished, Owner},
};

/// Where the work of a key stands.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// An attempt is at it, or was.
    Pending {
        /// Whose attempt.
        owner: Owner,
        /// From then on another may take over. Until somebody does, the owner may still finish.
        lease_until: StoreTime,
    },
    /// It ended; repeats are answered this.
    Ended {
        /// What it ended with.
        finished: Box<Finished>,
        /// From then on the key may be used for other work.
        expires_at: StoreTime,
    },
    /// It failed and may be tried again.
    Failed {
        /// From when on.
        retry_at: StoreTime,
    },
}

/// A stored key.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Where it stands.
    pub state: State,
    /// Whether it was begun for the same request.
    pub same_hash: bool,
    /// Number of the newest attempt.
    pub attempt: u64,
}

/// What a store does when the work of a key is begun.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Writes the row as pending, with this attempt, this hash and a lease from now.
    Acquire {
        /// The attempt to write.
        attempt: Attempt,
        /// An attempt before it went away without finishing.
        taken_over: bool,
    },
    /// Writes nothing and answers.
    Answer(Begin),
}

/// Who may begin. `row` is the stored one, locked; `now` is the store's clock.
///
/// In this order: an expired end is forgotten, another hash is a mismatch whatever the state, an end is replayed, a
/// live attempt keeps others out, a stale one is taken over, and a failure is tried again when it is due. The same owner
/// asking again, because the answer was lost, acquires what it has.
#[must_use]
pub fn begin(row: Option<&Row>, own: Owner, now: StoreTime) -> Step {
    let Some(row) = row else {
        let attempt = Attempt { owner: own, number: 1 };
        return Step::Acquire { attempt, taken_over: false };
    };
    let next = Attempt { owner: own, number: row.attempt.saturating_add(1) };
    let fresh = Step::Acquire { attempt: next, taken_over: false };
    if let State::Ended { expires_at, .. } = &row.state
        && *expires_at <= now
    {
        return fresh;
    }
    if !row.same_hash {
        return Step::Answer(Begin::Mismatch);
    }
    match &row.state {
        State::Ended { finished, .. } => Step::Answer(Begin::Replay(finished.clone())),
        State::Pending { owner, .. } if *owner == own => {
            let attempt = Attempt { owner: own, number: row.attempt };
            Step::Acquire { attempt, taken_over: false }
        }
        State::Pending { lease_until, .. } if now < *lease_until => {
            Step::Answer(Begin::InProgress { retry_after: until(*lease_until, now) })
        }
        State::Pending { .. } => Step::Acquire { attempt: next, taken_over: true },
        State::Failed { retry_at } if now < *retry_at => {
            Step::Answer(Begin::RetryLater { retry_after: until(*retry_at, now) })
        }
        State::Failed { .. } => fresh,
    }
}

fn until(then: StoreTime, now: StoreTime) -> Duration {
    let micros = then.0.saturating_sub(now.0);
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Ending;

    const OWN: Owner = Owner([1; 16]);
    const OTHER: Owner = Owner([2; 16]);
    const NOW: StoreTime = StoreTime(1_000_000);

    fn ended() -> Box<Finished> {
        let result = "r".to_owned();
        Box::new(Finished { ending: Ending::Completed, result, effect: None, inputs: None })
    }

    fn acquired(owner: Owner, number: u64, taken_over: bool) -> Step {
        Step::Acquire { attempt: Attempt { owner, number }, taken_over }
    }

    #[test]
    fn whoever_begins_learns_exactly_one_of_acquired_replay_busy_and_mismatch() {
        let second = Duration::from_secs(1);
        let at = |seconds: i64| StoreTime(NOW.0 + seconds * 1_000_000);
        let pending = |owner, seconds| State::Pending { owner, lease_until: at(seconds) };
        let over = |seconds| State::Ended { finished: ended(), expires_at: at(seconds) };
        let failed = |seconds| State::Failed { retry_at: at(seconds) };
        let mismatch = || Step::Answer(Begin::Mismatch);
        let cases = [
            // (state, the same hash, step)
            (over(0), true, acquired(OWN, 6, false)),
            (over(0), false, acquired(OWN, 6, false)),
            (over(1), true, Step::Answer(Begin::Replay(ended()))),
            (over(1), false, mismatch()),
            (pending(OTHER, 1), true, Step::Answer(Begin::InProgress { retry_after: second })),
            (pending(OTHER, 1), false, mismatch()),
            (pending(OTHER, 0), true, acquired(OWN, 6, true)),
            (pending(OTHER, 0), false, mismatch()),
            (pending(OWN, 1), true, acquired(OWN, 5, false)),
            (pending(OWN, -1), true, acquired(OWN, 5, false)),
            (failed(1), true, Step::Answer(Begin::RetryLater { retry_after: second })),
            (failed(1), false, mismatch()),
            (failed(0), true, acquired(OWN, 6, false)),
            (failed(0), false, mismatch()),
        ];

        for (state, same_hash, expected) in cases {
            let row = Row { state, same_hash, attempt: 5 };
            assert_eq!(begin(Some(&row), OWN, NOW), expected, "{row:?}");
        }
        assert_eq!(begin(None, OWN, NOW), acquired(OWN, 1, false));
    }
}
