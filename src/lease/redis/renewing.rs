//! Renewing: one pipeline per node, one script call per entity.

use std::{collections::HashMap, time::Duration};

use redis::Value;

use crate::{
    entity::EntityRef,
    lease::{
        Renew, Renewal, Wake,
        redis::{RedisLeases, answer, keys, millis, names::Names, script::Call},
        whole_ms,
    },
};

/// One request of a batch: its place there, and its time to live in whole milliseconds.
type Item<'a> = (usize, &'a Renew, Duration);

impl RedisLeases {
    pub(super) async fn renew_now(&self, batch: &[Renew]) -> Vec<Renewal> {
        let mut answers = vec![Renewal::Unknown; batch.len()];
        let sound: Vec<Item<'_>> = batch
            .iter()
            .enumerate()
            .filter_map(|(at, renew)| Some((at, renew, whole_ms(renew.ttl).ok()?)))
            .collect();
        let Some(least) = sound.iter().map(|(_, _, ttl)| *ttl).min() else { return answers };
        let mut grouped: Vec<(&EntityRef, Vec<Item<'_>>)> = Vec::new();
        let mut places = HashMap::new();
        for item in sound {
            let entity = item.1.extent.entity();
            let place = *places.entry(entity).or_insert_with(|| {
                grouped.push((entity, Vec::new()));
                grouped.len() - 1
            });
            if let Some((_, items)) = grouped.get_mut(place) {
                items.push(item);
            }
        }
        let calls: Vec<Call> =
            grouped.iter().map(|(entity, items)| self.renew_call(entity, items)).collect();
        let given = self.scripts.renew.run_all(&self.link, &calls, self.within(least)).await;
        for ((_, items), given) in grouped.iter().zip(given) {
            let given = given.ok();
            let states = given.as_ref().and_then(answer::list).unwrap_or_default();
            for ((at, renew, _), state) in items.iter().zip(states.as_chunks::<2>().0) {
                if let Some(answer) = answers.get_mut(*at) {
                    *answer = self.renewed(renew, state);
                }
            }
        }
        answers
    }

    fn renew_call(&self, entity: &EntityRef, items: &[Item<'_>]) -> Call {
        let keys = self.keys.entity(entity);
        let names: Vec<Names> =
            items.iter().map(|(_, renew, _)| Names::of(&renew.extent)).collect();
        let leases: usize = names.iter().map(|names| names.keyed.len()).sum();
        let mut call = self.scripts.renew.call(self.slot(&keys), leases + 2);
        call.push_parts(&[keys.start(), keys::HASH]);
        call.push_parts(&[keys.start(), keys::QUEUE]);
        for names in &names {
            names.push_leases(&keys, &mut call);
        }
        for ((_, renew, ttl), names) in items.iter().zip(&names) {
            call.push(&*renew.token.hex());
            call.push_number(millis(*ttl));
            call.push(if names.whole { "w" } else { "" });
            call.push(&names.keyed.len().to_string());
            call.push(&names.bare.len().to_string());
            for name in names.keyed.iter().chain(&names.bare) {
                call.push(name);
            }
        }
        call
    }

    fn renewed(&self, renew: &Renew, [state, left]: &[Value; 2]) -> Renewal {
        let left = answer::number(left).unwrap_or(-1);
        match answer::number(state) {
            Some(0) => {
                self.local.forget(renew.token);
                Renewal::Lost
            }
            Some(state @ (1 | 2)) => {
                self.local.renewed(renew.token);
                if state == 2 {
                    self.wake(&Wake::Wanted(renew.token));
                }
                Renewal::Renewed
            }
            Some(3) => {
                self.local.waits(renew.token);
                Renewal::Placed {
                    again: match left {
                        -2 => Some(Duration::ZERO),
                        left => u64::try_from(left).ok().map(Duration::from_millis),
                    },
                }
            }
            _ => Renewal::Unknown,
        }
    }
}
