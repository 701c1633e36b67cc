//! Waiting saves and events the way the engine makes them, small enough to read in a case.

use serde_json::json;

use crate::{
    clock::StoreTime,
    commit::{Commit, Notice},
    entity::{EntityRef, Writer},
    queue::{Item, Told},
    testing::{
        queue_suite::Rig,
        store_suite::build::{Step, operation, save, scope, text_of},
    },
    token::OperationId,
};

pub(super) fn worker() -> Writer {
    Writer::worker("thumbnailer")
}

/// An item that waits for these scopes.
pub(super) fn item(entity: &EntityRef, scopes: &[&str]) -> Step<Item> {
    Ok(Item {
        place: 0,
        operation: operation(),
        writer: worker(),
        entity: entity.clone(),
        scopes: scopes.iter().map(|text| scope(text)).collect::<Step<_>>()?,
        body: "{}".to_owned(),
        at: StoreTime::default(),
    })
}

pub(super) fn notice(kind: &str, number: usize) -> Notice {
    Notice { kind: kind.to_owned(), body: json!({ "number": number }) }
}

pub(super) fn operations(items: &[Item]) -> Vec<OperationId> {
    items.iter().map(|item| item.operation).collect()
}

/// What tells one event from another, without number and time.
pub(super) fn seen(told: &[Told]) -> Vec<(EntityRef, String, OperationId, String)> {
    told.iter()
        .map(|it| (it.entity.clone(), it.kind.clone(), it.operation, it.body.to_string()))
        .collect()
}

impl Rig {
    pub(super) async fn push(&self, item: &Item) -> Step<u64> {
        self.queue.push(item).await.map_err(text_of)
    }

    pub(super) async fn ready(&self) -> Step<Vec<OperationId>> {
        Ok(operations(&self.queue.ready(0, 1_000).await.map_err(text_of)?))
    }

    pub(super) async fn waiting(&self) -> Step<Vec<OperationId>> {
        Ok(operations(&self.queue.waiting(None, 0, 1_000).await.map_err(text_of)?))
    }

    pub(super) async fn remove(&self, item: &Item, why: &Notice) -> Step<bool> {
        self.queue.remove(item.operation, why).await.map_err(text_of)
    }

    /// Everything that was told.
    pub(super) async fn told(&self) -> Step<Vec<Told>> {
        self.outbox.pull(0, 1_000).await.map_err(text_of)
    }

    /// A save of `media.width` on what is stored now, which is this waiting save.
    pub(super) async fn effect(&self, item: &Item, to: u64) -> Step<Commit> {
        let seen = self.stores.seen(&item.entity).await?;
        let mut commit = save(&seen, &item.writer, &[("media.width", json!(to))])?;
        commit.operation = item.operation;
        commit.queued = Some(item.operation);
        Ok(commit)
    }

    pub(super) async fn made(&self, id: &str) -> Step<EntityRef> {
        Ok(self.stores.made(id, &[("media.width", json!(0))]).await?.entity)
    }
}
