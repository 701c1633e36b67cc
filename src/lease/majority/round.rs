//! One request to every node at once, and what follows from the answers.

use std::{
    future::{Future, poll_fn},
    task::Poll,
    time::Duration,
};

use crate::{
    clock::{BoxFuture, Clock, Moment},
    error::{Error, Result},
    lease::{Acquire, Release, Renewal},
};

/// Requests in the air and the answers that came, by node.
pub(super) struct Round<T> {
    pub(super) flights: Vec<Option<BoxFuture<'static, T>>>,
    pub(super) answers: Vec<Option<T>>,
}

impl<T> Round<T> {
    pub(super) fn new(requests: impl IntoIterator<Item = BoxFuture<'static, T>>) -> Self {
        let flights: Vec<_> = requests.into_iter().map(Some).collect();
        let answers = flights.iter().map(|_| None).collect();
        Self { flights, answers }
    }

    /// Waits until the answers decide, until all have come, or until `end`. Every request is started before any answer
    /// is looked at. Safe to cancel: what is in the air stays in `flights`.
    pub(super) async fn until<R>(
        &mut self,
        clock: &dyn Clock,
        end: Moment,
        decide: impl Fn(&[Option<T>]) -> Option<R>,
    ) -> Option<R> {
        let mut alarm = clock.sleep_until(end);
        poll_fn(|context| {
            for (flight, answer) in self.flights.iter_mut().zip(&mut self.answers) {
                let Some(running) = flight else { continue };
                if let Poll::Ready(came) = running.as_mut().poll(context) {
                    *answer = Some(came);
                    *flight = None;
                }
            }
            if let Some(decision) = decide(&self.answers) {
                return Poll::Ready(Some(decision));
            }
            let over = self.flights.iter().all(Option::is_none);
            if over || alarm.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await
    }
}

/// Waits for a future until `end`.
pub(super) async fn within<T>(
    clock: &dyn Clock,
    end: Moment,
    future: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        answer = future => Some(answer),
        () = clock.sleep_until(end) => None,
    }
}

/// What is taken off a time to live for clocks that do not run alike: 1 %, at least 2 ms.
pub(super) fn drift(ttl: Duration) -> Duration {
    (ttl / 100).max(Duration::from_millis(2))
}

/// What the nodes said to an acquire, together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Granted,
    /// Others are in the way.
    Held,
    /// Too few nodes answer for anybody to be granted.
    Unreachable,
    /// This node refuses the request as such.
    Invalid(usize),
}

/// Decides as early as the answers allow; with `closed`, whoever has not answered counts as not reachable. An even
/// split is a refusal: then nobody can reach the quorum any more.
pub(super) fn decide(
    answers: &[Option<Result<Acquire>>],
    quorum: usize,
    closed: bool,
) -> Option<Verdict> {
    let spare = answers.len().saturating_sub(quorum);
    let (mut granted, mut held, mut failed) = (0, 0, 0);
    for (node, answer) in answers.iter().enumerate() {
        match answer {
            Some(Ok(Acquire::Granted { .. })) => granted += 1,
            Some(Ok(Acquire::Held { .. })) => held += 1,
            Some(Err(Error::Invalid { .. })) => return Some(Verdict::Invalid(node)),
            Some(Err(_)) => failed += 1,
            None if closed => failed += 1,
            None => {}
        }
    }
    if granted >= quorum {
        return Some(Verdict::Granted);
    }
    (held + failed > spare).then_some({
        if failed > spare || held == 0 { Verdict::Unreachable } else { Verdict::Held }
    })
}

/// One request of a batch of renewals; `None` while the nodes may still say otherwise.
pub(super) fn decide_renewal(
    answers: impl Iterator<Item = Option<Renewal>>,
    nodes: usize,
    quorum: usize,
) -> Option<Renewal> {
    let spare = nodes.saturating_sub(quorum);
    let (mut renewed, mut lost, mut open) = (0, 0, 0);
    for answer in answers {
        match answer {
            Some(Renewal::Renewed) => renewed += 1,
            Some(Renewal::Lost) => lost += 1,
            // Nobody is queued at a node.
            Some(Renewal::Unknown | Renewal::Placed { .. }) => {}
            None => open += 1,
        }
    }
    if renewed >= quorum {
        Some(Renewal::Renewed)
    } else if lost > spare {
        Some(Renewal::Lost)
    } else {
        (renewed + open < quorum && lost + open <= spare).then_some(Renewal::Unknown)
    }
}

/// What the nodes said to a release, together.
pub(super) fn decide_release(
    answers: &[Option<Option<Release>>],
    quorum: usize,
) -> Option<Release> {
    let count = |wanted| answers.iter().filter(|answer| **answer == Some(Some(wanted))).count();
    if count(Release::Released) >= quorum {
        return Some(Release::Released);
    }
    let spare = answers.len().saturating_sub(quorum);
    (count(Release::Lost) > spare).then_some(Release::Lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `g` granted, `h` held, `e` error, `i` invalid, `.` no answer.
    fn answers(text: &str) -> Vec<Option<Result<Acquire>>> {
        let answer = |c| match c {
            'g' => Some(Ok(Acquire::Granted { order: None })),
            'h' => Some(Ok(Acquire::Held { by: Vec::new(), place: None })),
            'e' => Some(Err(Error::unavailable("down"))),
            'i' => Some(Err(Error::invalid("bad", "bad", ""))),
            _ => None,
        };
        text.chars().map(answer).collect()
    }

    #[test]
    fn an_acquire_is_decided_as_early_as_the_answers_allow() {
        use Verdict::{Granted, Held, Invalid, Unreachable};
        let table = [
            ("g", Some(Granted)),
            ("h", Some(Held)),
            ("e", Some(Unreachable)),
            (".", None),
            ("g.", None),
            ("gg", Some(Granted)),
            ("gh", Some(Held)),
            ("ge", Some(Unreachable)),
            ("gg.", Some(Granted)),
            ("g..", None),
            ("gh.", None),
            ("ghh", Some(Held)),
            (".hh", Some(Held)),
            ("geh", Some(Held)),
            ("gee", Some(Unreachable)),
            (".ee", Some(Unreachable)),
            ("hee", Some(Unreachable)),
            // Four nodes need three: a tie is a refusal.
            ("gghh", Some(Held)),
            ("gg.h", None),
            ("ggg.", Some(Granted)),
            ("gghe", Some(Held)),
            ("ggee", Some(Unreachable)),
            ("i..", Some(Invalid(0))),
        ];
        for (text, want) in table {
            let answers = answers(text);
            let quorum = answers.len() / 2 + 1;

            assert_eq!(decide(&answers, quorum, false), want, "{text}");
        }
        assert_eq!(decide(&answers("g.h"), 2, true), Some(Held));
        assert_eq!(decide(&answers("g.."), 2, true), Some(Unreachable));
    }

    #[test]
    fn whatever_four_nodes_say_an_acquire_ends() {
        for code in 0..4_u32.pow(4) {
            let letter = |place| ['g', 'h', 'e', '.'][(code / 4_u32.pow(place) % 4) as usize];
            let answers = answers(&(0..4).map(letter).collect::<String>());

            assert!(decide(&answers, 3, true).is_some(), "{answers:?}");
        }
    }

    #[test]
    fn a_renewal_is_lost_only_when_no_majority_can_hold_it() {
        // `r` renewed, `l` lost, `u` unknown, `.` no answer.
        let table = [
            ("rr.", Some(Renewal::Renewed)),
            ("rl.", None),
            ("rlr", Some(Renewal::Renewed)),
            ("ll.", Some(Renewal::Lost)),
            ("rlu", Some(Renewal::Unknown)),
            ("ruu", Some(Renewal::Unknown)),
            ("uu.", Some(Renewal::Unknown)),
            ("rrl.", None),
            ("rrll", Some(Renewal::Lost)),
            ("rrrl", Some(Renewal::Renewed)),
            ("rrlu", Some(Renewal::Unknown)),
            ("rruu", Some(Renewal::Unknown)),
        ];
        for (text, want) in table {
            let answers = text.chars().map(|c| match c {
                'r' => Some(Renewal::Renewed),
                'l' => Some(Renewal::Lost),
                'u' => Some(Renewal::Unknown),
                _ => None,
            });

            assert_eq!(decide_renewal(answers, text.len(), text.len() / 2 + 1), want, "{text}");
        }
    }
}
