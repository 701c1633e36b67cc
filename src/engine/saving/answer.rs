//! Answers of a save, each with the token of the next one (RULES 42).

use std::collections::BTreeMap;

use crate::{
    commit::Commit,
    engine::{
        hold::{State, advance},
        outcome::{Outcome, Refused, Saved, Unchanged, Why},
        saving::Saving,
    },
    entity::Value,
    event::Event,
    path::Path,
    plan::{Plan, news, next_token, token_of},
    scope::ScopeName,
    token::{Incarnation, ScopeVersion, VersionNumber},
};

/// What a commit raised.
pub(super) type Raised<'a> = (&'a BTreeMap<ScopeName, ScopeVersion>, Incarnation);

impl Saving {
    /// The next token, and what it counts as seen.
    pub(super) fn next(
        &self,
        plan: &Plan,
        raised: Option<Raised<'_>>,
    ) -> (String, BTreeMap<Path, Value>) {
        let generation = self.rules.generation;
        let token = match raised {
            Some((versions, incarnation)) => {
                next_token(&self.snapshot, generation, versions, incarnation)
            }
            None => token_of(&self.snapshot, generation),
        };
        (self.core.token_text(&token), news(&self.input(), plan))
    }

    pub(super) fn unchanged(&self, plan: &Plan) -> Outcome {
        let (token, news) = self.next(plan, None);
        let entity = self.request.entity.clone();
        self.core.emit(&Event::Unchanged { entity, writer: self.request.asker.writer.clone() });
        Outcome::Unchanged(Box::new(Unchanged { plan: plan.clone(), token, news }))
    }

    pub(super) fn refused(&self, why: Why, plan: &Plan) -> Outcome {
        let (token, news) = self.next(plan, None);
        self.core.emit(&Event::Refused {
            entity: self.request.entity.clone(),
            operation: self.operation,
            writer: self.request.asker.writer.clone(),
            code: why.code(),
        });
        let plan = Some(plan.clone());
        Outcome::Refused(Box::new(Refused {
            operation: self.operation,
            why,
            plan,
            token: Some(token),
            news,
        }))
    }

    /// It took effect. A claim goes on from the record as this save left it, so that the next save under it is no
    /// conflict with this one.
    pub(super) fn applied(
        &mut self,
        plan: Plan,
        commit: &Commit,
        versions: BTreeMap<ScopeName, ScopeVersion>,
        number: Option<VersionNumber>,
        incarnation: Incarnation,
    ) -> Outcome {
        let (token, news) = self.next(&plan, Some((&versions, incarnation)));
        if let Some(standing) = &self.hold {
            let mut snapshot = self.snapshot.clone();
            advance(&mut snapshot, commit, &versions);
            snapshot.number = number.unwrap_or(snapshot.number);
            snapshot.incarnation = incarnation;
            let fences = standing.hold.state().fences;
            standing.hold.set_state(State { snapshot, fences });
        }
        self.core.emit(&Event::Saved {
            entity: commit.entity.clone(),
            operation: commit.operation,
            writer: commit.writer.clone(),
            version: number,
            paths: commit.changed.len(),
        });
        let operation = commit.operation;
        let retries = self.retries;
        Outcome::Applied(Box::new(Saved {
            operation,
            version: number,
            versions,
            incarnation,
            plan,
            token,
            news,
            retries,
        }))
    }
}
