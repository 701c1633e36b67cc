//! Looking and breaking: the list of long leases, and the entities it names.

use std::sync::Arc;

use redis::Value;

use crate::{
    entity::{EntityRef, GroupName},
    error::Result,
    lease::{
        Extent, Holder, page,
        redis::{
            RedisLeases,
            answer::{self, Found},
            fault::Fault,
            keys, millis,
            script::Call,
            unavailable,
        },
    },
    scope::{Scope, ScopeName, ScopeSet},
};

impl RedisLeases {
    /// Puts leases that are held for some time on the list; `all`: those taken just now too.
    pub(super) async fn list(&self, all: bool) -> std::result::Result<(), Fault> {
        let roster = self.keys.roster();
        let Some(first) = roster.first() else { return Ok(()) };
        let slot = self.slot_of(first);
        let calls: Vec<Call> = self
            .local
            .to_list(all)
            .into_iter()
            .map(|(life, members)| {
                let mut call = self.scripts.roster.call(slot, roster.len());
                for key in &roster {
                    call.push(key);
                }
                call.push_number(millis(life));
                for member in members {
                    call.push(&member);
                }
                call
            })
            .collect();
        for answer in self.scripts.roster.run_all(&self.link, &calls, None).await {
            answer?;
        }
        Ok(())
    }

    /// The holders of one entity, of the scopes named.
    fn inspect_call(&self, entity: &EntityRef, names: &[String]) -> Call {
        let keys = self.keys.entity(entity);
        let mut call = self.scripts.inspect.call(self.slot(&keys), names.len() + 2);
        call.push_parts(&[keys.start(), keys::HASH]);
        call.push_parts(&[keys.start(), keys::QUEUE]);
        for name in names {
            call.push_parts(&[keys.start(), keys::LEASE, name]);
        }
        for name in names {
            call.push(name);
        }
        call
    }

    /// A page of the list: members from `start` on.
    async fn page(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        most: usize,
    ) -> std::result::Result<Vec<Scope>, Fault> {
        let [list, _] = self.keys.roster();
        let bound = |mark: &[u8], bytes: &[u8]| [mark, bytes].concat();
        let mut command = redis::cmd("ZRANGEBYLEX");
        command.arg(&list).arg(bound(b"[", start));
        match end {
            Some(end) => command.arg(bound(b"(", end)),
            None => command.arg("+"),
        };
        command.arg("LIMIT").arg(0).arg(most);
        let answer = self.link.send(self.slot_of(&list), &command, None).await?;
        let members = answer::list(&answer).unwrap_or_default();
        Ok(members.iter().filter_map(|value| keys::read_member(answer::bytes(value)?)).collect())
    }

    async fn holders(&self, scopes: &[Scope]) -> std::result::Result<Vec<Holder>, Fault> {
        let mut entities: Vec<(&EntityRef, Vec<String>)> = Vec::new();
        for scope in scopes {
            let name = keys::write_scope(&scope.name);
            match entities.last_mut() {
                Some((entity, names)) if **entity == scope.entity => names.push(name),
                _ => entities.push((&scope.entity, vec![name])),
            }
        }
        let calls: Vec<Call> = entities
            .iter()
            .map(|(entity, names)| {
                let unsplit = |name: &&String| !name.contains(';');
                let names: Vec<String> = names.iter().filter(unsplit).cloned().collect();
                self.inspect_call(entity, &names)
            })
            .collect();
        let answers = self.scripts.inspect.run_all(&self.link, &calls, None).await;
        let mut holders = Vec::new();
        for ((entity, _), answer) in entities.iter().zip(answers) {
            for found in answer::found(&answer?)? {
                holders.extend(holder(entity, found));
            }
        }
        holders.sort_by(|a, b| a.scope.cmp(&b.scope));
        Ok(holders)
    }

    pub(super) async fn inspect_now(
        &self,
        entity: Option<&EntityRef>,
        cursor: Option<&str>,
        most: u32,
    ) -> Result<(Vec<Holder>, Option<String>)> {
        let after = cursor.map(page::read_cursor).transpose()?;
        let most = usize::try_from(most.max(1)).unwrap_or(usize::MAX);
        self.list(true).await.map_err(unavailable)?;
        if let Some(entity) = entity {
            let start = keys::entity_start(entity);
            let mut end = start.clone();
            end.push(255);
            let mut scopes = self.page(&start, Some(&end), 10_000).await.map_err(unavailable)?;
            scopes.extend(
                self.local
                    .names_of(&entity.kind)
                    .into_iter()
                    .map(|name| Scope { entity: entity.clone(), name }),
            );
            if scopes.is_empty() {
                // Split scopes are known by the entity itself.
                let Ok(group) = GroupName::new("_") else { return Ok((Vec::new(), None)) };
                scopes.push(Scope { entity: entity.clone(), name: ScopeName::group(group) });
            }
            scopes.sort();
            scopes.dedup();
            let mut found = self.holders(&scopes).await.map_err(unavailable)?;
            found.retain(|held| after.as_ref().is_none_or(|after| held.scope > *after));
            return Ok(page::cut(found, most));
        }
        let mut start = after.as_ref().map(keys::write_member).unwrap_or_default();
        let mut found: Vec<Holder> = Vec::new();
        loop {
            let scopes = self.page(&start, None, most + 2).await.map_err(unavailable)?;
            let full = scopes.len() > most + 1;
            let Some(last) = scopes.last().cloned() else { break };
            let seen = self.holders(&scopes).await.map_err(unavailable)?;
            // An entity names all its split scopes, those before and after this page too.
            let fits = |held: &Holder| {
                scopes.contains(&held.scope)
                    && after.as_ref().is_none_or(|after| held.scope > *after)
            };
            let known: Vec<Scope> = found.iter().map(|held| held.scope.clone()).collect();
            found
                .extend(seen.into_iter().filter(|held| fits(held) && !known.contains(&held.scope)));
            if found.len() > most || !full {
                break;
            }
            start = keys::write_member(&last);
        }
        Ok(page::cut(found, most))
    }

    pub(super) async fn break_now(&self, scope: &Scope) -> Result<Option<Holder>> {
        let name = keys::write_scope(&scope.name);
        let names = if name.contains(';') { Vec::new() } else { vec![name] };
        let call = self.inspect_call(&scope.entity, &names);
        let answer = self.scripts.inspect.run(&self.link, &call, None).await;
        let found = answer.and_then(|answer| answer::found(&answer)).map_err(unavailable)?;
        let by_scope = |found: &&Found| found.name.as_ref() == Some(&scope.name);
        let by_whole = |found: &&Found| found.name.is_none();
        let Some(holder_found) = found.iter().find(by_scope).or(found.iter().find(by_whole)) else {
            return Ok(None);
        };
        let Some((token, covered, _)) = keys::read_lease(&holder_found.lease) else {
            return Ok(None);
        };
        let whole = covered.iter().any(|name| name == "*");
        let mut names: Vec<ScopeName> =
            covered.iter().filter_map(|name| keys::read_scope(name)).collect();
        if names.is_empty() {
            names.push(scope.name.clone());
        }
        let set = ScopeSet::new(scope.entity.clone(), names);
        let extent = if whole { Extent::Whole(set) } else { Extent::Groups(set) };
        let call = self.release_call(&extent, token, "b", &self.keys.entity(&scope.entity));
        let answer = self.scripts.release.run(&self.link, &call, None).await;
        if answer.map_err(unavailable)? == Value::Int(0) {
            return Ok(None);
        }
        Ok(Some(Holder {
            scope: scope.clone(),
            label: label_of(&holder_found.lease),
            remaining: holder_found.left,
            held: holder_found.held,
            waiting: holder_found.waiting,
        }))
    }
}

fn holder(entity: &EntityRef, found: Found) -> Option<Holder> {
    Some(Holder {
        scope: Scope { entity: entity.clone(), name: found.name? },
        label: label_of(&found.lease),
        remaining: found.left,
        held: found.held,
        waiting: found.waiting,
    })
}

fn label_of(lease: &[u8]) -> Arc<str> {
    keys::read_lease(lease).map_or_else(|| Arc::from(""), |(_, _, label)| Arc::from(label))
}
