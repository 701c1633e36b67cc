//! The operations of the port, over all nodes.

use std::sync::Arc;

use crate::{
    clock::{BoxFuture, Moment},
    entity::EntityRef,
    error::{Error, Result},
    lease::{
        Acquire, Ask, Extent, Holder, LeaseStore, Release, Renew, Renewal, Wake,
        majority::{
            attempt::Attempt,
            book::{Begin, Known},
            round::{Round, Verdict, decide_release, decide_renewal, drift},
            shared::Shared,
            views,
        },
        page, whole_ms,
    },
    scope::{Scope, ScopeSet},
    token::HolderToken,
};

/// A release under way; dropped, it goes on.
struct Farewell {
    shared: Arc<Shared>,
    round: Round<Option<Release>>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        for flight in self.round.flights.iter_mut().filter_map(Option::take) {
            self.shared.hand_over(Box::pin(async move {
                flight.await;
            }));
        }
    }
}

impl Shared {
    pub(super) async fn take(self: &Arc<Self>, ask: &Ask) -> Result<Acquire> {
        let (ttl, _) = (whole_ms(ask.ttl)?, whole_ms(ask.ttl_max)?);
        self.drive();
        let begin = self.clock.now();
        let begun = self.book().begin(ask, begin)?;
        let name = match begun {
            Begin::Ask(name) => name,
            Begin::Wait { by, place, wanted } => {
                self.tell(wanted.into_iter().map(Wake::Wanted));
                self.turns.notify_waiters();
                return Ok(Acquire::Held { by, place });
            }
        };
        let mut attempt = Attempt::start(self, ask, name, begin);
        let verdict = attempt.decide().await;
        let until = begin.plus(ttl.saturating_sub(drift(ttl)));
        match verdict {
            Verdict::Granted => self.keep(ask, attempt, until),
            Verdict::Held => self.refuse(ask, attempt),
            Verdict::Unreachable => Err(self.unreachable()),
            Verdict::Invalid(node) => {
                let error = attempt.error_of(node);
                Err(error.unwrap_or_else(|| self.unreachable()))
            }
        }
    }

    /// A majority granted: that is a lease if there is time left to use it.
    fn keep(&self, ask: &Ask, mut attempt: Attempt, until: Moment) -> Result<Acquire> {
        let now = self.clock.now();
        if now >= until || !self.book().granted(ask, &attempt.name, until, now) {
            return Err(Error::unavailable("the lease servers answered after the lease had ended"));
        }
        let order = match ask.order {
            true => self.book().order(&ask.extent, ask.token, attempt.order()),
            false => None,
        };
        attempt.leave_behind();
        Ok(Acquire::Granted { order })
    }

    fn refuse(&self, ask: &Ask, mut attempt: Attempt) -> Result<Acquire> {
        let by = attempt.holders();
        attempt.give_up();
        let now = self.clock.now();
        let refused = self.book().refused(ask, &by, self.entropy.bytes(), now);
        let (place, wanted) = refused?;
        if place.is_none() && !attempt.name.is_gone() {
            self.book().forget_unused(&ask.extent, ask.token, now);
        }
        self.tell(wanted.into_iter().map(Wake::Wanted));
        self.turns.notify_waiters();
        Ok(Acquire::Held { by, place })
    }

    pub(super) async fn prolong(self: &Arc<Self>, batch: &[Renew]) -> Vec<Renewal> {
        self.drive();
        let begin = self.clock.now();
        let mut answers = vec![Renewal::Unknown; batch.len()];
        let mut told = Vec::new();
        for (at, (renew, answer)) in batch.iter().zip(&mut answers).enumerate() {
            let Ok(ttl) = whole_ms(renew.ttl) else { continue };
            match self.book().look_up(&renew.extent, renew.token, begin) {
                Known::Placed { again } => *answer = Renewal::Placed { again },
                Known::Nothing => *answer = Renewal::Lost,
                Known::Nodes(name) => {
                    told.push((at, Renew { extent: renew.extent.clone(), token: name, ttl }));
                }
            }
        }
        let (places, asked): (Vec<usize>, Vec<Renew>) = told.into_iter().unzip();
        let Some(shortest) = asked.iter().map(|renew| renew.ttl).min() else { return answers };
        let asked = Arc::new(asked);
        let mut round = Round::new(self.nodes.iter().map(|node| -> BoxFuture<'static, _> {
            let (node, asked) = (Arc::clone(node), Arc::clone(&asked));
            Box::pin(async move { node.renew(&asked).await })
        }));
        let (nodes, quorum) = (self.nodes.len(), self.quorum);
        let one = |answers: &[Option<Vec<Renewal>>], item: usize| {
            let said = answers.iter().map(|said| {
                said.as_ref().map(|said| said.get(item).copied().unwrap_or(Renewal::Unknown))
            });
            decide_renewal(said, nodes, quorum)
        };
        let all = |answers: &[Option<Vec<Renewal>>]| {
            (0..asked.len()).all(|item| one(answers, item).is_some()).then_some(())
        };
        round.until(&*self.clock, self.patience(shortest, begin), all).await;
        for (item, (at, told)) in places.iter().zip(&*asked).enumerate() {
            let decided = one(&round.answers, item).unwrap_or(Renewal::Unknown);
            let known = batch.get(*at).zip(answers.get_mut(*at));
            let Some((renew, answer)) = known else { continue };
            *answer = self.renewed(renew, told, decided, begin);
        }
        answers
    }

    fn renewed(
        self: &Arc<Self>,
        renew: &Renew,
        told: &Renew,
        decided: Renewal,
        begin: Moment,
    ) -> Renewal {
        let now = self.clock.now();
        let until = begin.plus(told.ttl.saturating_sub(drift(told.ttl)));
        let answer = match decided {
            Renewal::Renewed if now >= until => Renewal::Unknown,
            other => other,
        };
        let token = (&renew.extent, renew.token);
        let announce = self.book().renewed(token, answer, until, now);
        if announce {
            self.tell([Wake::Wanted(renew.token)]);
        }
        if answer == Renewal::Lost {
            // A minority may hold it still, and would be in the way of others.
            self.give_back_everywhere(&renew.extent, told.token);
            self.book().bury(&renew.extent, renew.token, &*self.entropy, now);
        }
        answer
    }

    pub(super) async fn give_up(
        self: &Arc<Self>,
        extent: &Extent,
        token: HolderToken,
    ) -> Result<Release> {
        self.drive();
        let known = self.book().look_up(extent, token, self.clock.now());
        self.book().remove(extent, token);
        let answer = match known {
            Known::Nothing => return Ok(Release::Lost),
            Known::Placed { .. } => Ok(Release::Released),
            Known::Nodes(name) => self.release_everywhere(extent, token, name).await,
        };
        let woken = self.book().freed(extent, self.clock.now());
        self.tell(woken.into_iter().map(Wake::Try));
        answer
    }

    async fn release_everywhere(
        self: &Arc<Self>,
        extent: &Extent,
        token: HolderToken,
        name: HolderToken,
    ) -> Result<Release> {
        let requests = self.nodes.iter().map(|node| -> BoxFuture<'static, _> {
            let shared = Arc::clone(self);
            Box::pin(shared.give_back(Arc::clone(node), extent.clone(), name))
        });
        let mut farewell = Farewell { shared: Arc::clone(self), round: Round::new(requests) };
        let end = self.moment_of_patience();
        let quorum = self.quorum;
        let decision = |answers: &[_]| decide_release(answers, quorum);
        let decided = farewell.round.until(&*self.clock, end, decision).await;
        if farewell.round.flights.iter().any(Option::is_some) {
            self.book().bury(extent, token, &*self.entropy, self.clock.now());
        }
        decided.ok_or_else(|| self.unreachable())
    }

    /// Asks every node and waits for all of them, at most the node timeout.
    async fn ask_all<T: Send + 'static>(
        self: &Arc<Self>,
        request: impl Fn(Arc<dyn LeaseStore>) -> BoxFuture<'static, Result<T>>,
    ) -> Result<Vec<T>> {
        self.drive();
        let mut round = Round::new(self.nodes.iter().map(|node| request(Arc::clone(node))));
        let end = self.moment_of_patience();
        let invalid = |answers: &[Option<Result<T>>]| {
            answers.iter().position(|answer| matches!(answer, Some(Err(Error::Invalid { .. }))))
        };
        if let Some(at) = round.until(&*self.clock, end, invalid).await {
            let error = round.answers.swap_remove(at).and_then(Result::err);
            return Err(error.unwrap_or_else(|| self.unreachable()));
        }
        let answers: Vec<T> = round.answers.into_iter().flatten().filter_map(Result::ok).collect();
        if answers.len() < self.quorum { Err(self.unreachable()) } else { Ok(answers) }
    }

    pub(super) async fn look(
        self: &Arc<Self>,
        entity: Option<&EntityRef>,
        cursor: Option<&str>,
        most: u32,
    ) -> Result<(Vec<Holder>, Option<String>)> {
        let after = cursor.map(page::read_cursor).transpose()?;
        let entity = entity.cloned();
        let answers = self.ask_all(|node| Box::pin(views::gather(node, entity.clone()))).await?;
        let mut found = views::agreed(answers, self.quorum);
        found.retain(|holder| after.as_ref().is_none_or(|after| holder.scope > *after));
        let most = usize::try_from(most.max(1)).unwrap_or(usize::MAX);
        let book = self.book();
        for holder in &mut found {
            holder.waiting = holder.waiting.saturating_add(book.waiting(&holder.scope));
        }
        Ok(page::cut(found, most))
    }

    pub(super) async fn break_everywhere(
        self: &Arc<Self>,
        scope: &Scope,
        reason: &str,
    ) -> Result<Option<Holder>> {
        let (of, why) = (scope.clone(), Arc::<str>::from(reason));
        let request = |node: Arc<dyn LeaseStore>| -> BoxFuture<'static, _> {
            let (of, why) = (of.clone(), Arc::clone(&why));
            Box::pin(async move { node.break_lease(&of, &why).await })
        };
        let answers = self.ask_all(request).await?;
        let broken = views::in_the_way(answers.into_iter().map(|held| held.into_iter().collect()));
        let names = [scope.name.clone()];
        let freed = Extent::Groups(ScopeSet::new(scope.entity.clone(), names));
        let woken = self.book().freed(&freed, self.clock.now());
        self.tell(woken.into_iter().map(Wake::Try));
        Ok(broken.into_iter().next())
    }
}
