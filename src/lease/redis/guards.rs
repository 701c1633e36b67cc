//! Version guards on the same server: one key per guard, with its time to live.
//!
//! A key a server lost makes a version: the safe side.

use std::{sync::Arc, time::Duration};

use redis::{Cmd, Value};

use crate::{
    clock::BoxFuture,
    entity::{EntityRef, WriterKind},
    error::{Error, Result},
    guard::{Guard, GuardBoard, GuardId, whole_ms},
    lease::redis::{RedisLeases, millis, slots::slot, stream::text_of, unavailable},
};

impl RedisLeases {
    fn guard_command(&self, id: GuardId, name: &str) -> (u16, Cmd) {
        let key = self.keys.guard(&id.to_string());
        let mut command = redis::cmd(name);
        command.arg(&key);
        (slot(key.as_bytes()), command)
    }

    async fn open_guard(&self, guard: &Guard, ttl: Duration) -> Result<GuardId> {
        let ttl = whole_ms(ttl)?;
        let id = GuardId::new(&*self.options.entropy);
        let (slot, mut set) = self.guard_command(id, "SET");
        set.arg(write(guard)).arg("NX").arg("PX").arg(millis(ttl));
        match self.link.send(slot, &set, None).await.map_err(unavailable)? {
            Value::Nil => Err(Error::unavailable("a version guard of this name is there already")),
            _ => Ok(id),
        }
    }

    async fn keep_guards(&self, ids: &[GuardId], ttl: Duration) -> Result<Vec<bool>> {
        let ttl = millis(whole_ms(ttl)?);
        let command = |id: &GuardId| {
            let (slot, mut command) = self.guard_command(*id, "PEXPIRE");
            command.arg(ttl);
            (slot, command)
        };
        let commands: Vec<(u16, Cmd)> = ids.iter().map(command).collect();
        let answers = self.link.send_all(&commands, None).await.into_iter();
        answers.map(|answer| Ok(answer.map_err(unavailable)? == Value::Int(1))).collect()
    }

    async fn close_guard(&self, id: GuardId) -> Result<bool> {
        let (slot, del) = self.guard_command(id, "DEL");
        let answer = self.link.send(slot, &del, None).await;
        Ok(answer.map_err(unavailable)? == Value::Int(1))
    }

    async fn look_at_guard(&self, id: GuardId) -> Result<Option<Guard>> {
        let (slot, get) = self.guard_command(id, "GET");
        let answer = self.link.send(slot, &get, None).await.map_err(unavailable)?;
        // Something else under the key is no guard.
        Ok(text_of(&answer).and_then(|text| read(&text)))
    }
}

/// Kind, owner, type and id, as a JSON array of texts.
fn write(guard: &Guard) -> String {
    let Guard { kind, owner, entity } = guard;
    serde_json::json!([kind.to_string(), owner, entity.kind.as_str(), entity.id.as_str()])
        .to_string()
}

fn read(text: &str) -> Option<Guard> {
    let (kind, owner, entity, id): (String, Arc<str>, String, String) =
        serde_json::from_str(text).ok()?;
    let kind = match kind.as_str() {
        "editor" => WriterKind::Editor,
        "worker" => WriterKind::Worker,
        _ => return None,
    };
    Some(Guard { kind, owner, entity: EntityRef::new(&entity, &id).ok()? })
}

impl GuardBoard for RedisLeases {
    fn open<'a>(&'a self, guard: &'a Guard, ttl: Duration) -> BoxFuture<'a, Result<GuardId>> {
        Box::pin(self.open_guard(guard, ttl))
    }

    fn keep<'a>(&'a self, ids: &'a [GuardId], ttl: Duration) -> BoxFuture<'a, Result<Vec<bool>>> {
        Box::pin(self.keep_guards(ids, ttl))
    }

    fn close(&self, id: GuardId) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.close_guard(id))
    }

    fn look(&self, id: GuardId) -> BoxFuture<'_, Result<Option<Guard>>> {
        Box::pin(self.look_at_guard(id))
    }
}
