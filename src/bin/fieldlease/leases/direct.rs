//! Leases asked of Redis itself, without a service.

use fieldlease::{
    config::{LeaseUrl, NAMESPACE},
    entity::{EntityType, GroupName},
    error::Error,
    lease::{LeaseStore, redis::RedisOptions},
    scope::{Scope, ScopeName},
    server::holder_json,
};
use serde_json::{Value as Json, json};

use super::{Command, PAGES_MAX};
use crate::{
    history::entity,
    lease_store::{self, within},
    output::{Failure, Result},
    source::wait,
};

/// Holders of one page.
const PAGE: u32 = 500;

/// Redis, instead of a service.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct DirectArgs {
    /// Ask this Redis, Valkey or database instead of a service; the variable FIELDLEASE_REDIS counts where no service is named
    #[arg(long, value_name = "URL", global = true)]
    redis: Option<LeaseUrl>,
    /// What names of keys in Redis begin with
    #[arg(long, env = "FIELDLEASE_NAMESPACE", default_value = NAMESPACE, value_name = "NAME", global = true)]
    pub(super) namespace: String,
}

impl DirectArgs {
    /// The Redis to ask: the one named here, or, where no service is named, the one of the environment.
    ///
    /// What is named here goes before a service of the environment, but two that are named contradict each other.
    pub(super) fn url(&self, service: Option<&str>) -> Result<Option<LeaseUrl>> {
        let named = self.redis.clone().filter(|url| !url.is_memory());
        let of_environment = std::env::var("FIELDLEASE_URL").ok();
        if named.is_some() && service.is_some() && service != of_environment.as_deref() {
            let message = "--url asks a service and --redis asks Redis itself: only one can be";
            return Err(Failure::new("usage", message, "leave one of them out"));
        }
        let around = || std::env::var("FIELDLEASE_REDIS").ok().map(LeaseUrl::from);
        Ok(named.or_else(|| service.is_none().then(around).flatten()))
    }

    /// Carries the command out.
    pub(super) fn run(&self, url: &LeaseUrl, command: &Command) -> Result<Answer> {
        wait(async {
            let options = RedisOptions { groups: looked_at(command)?, ..within(&self.namespace) };
            let store = lease_store::open(Some(url), options).await?;
            match command {
                Command::List => all(&*store).await.map(Answer::Holders),
                Command::Show { entity: text, groups: _ } => {
                    let (holders, _) = store.inspect(Some(&entity(text)?), None, PAGE).await?;
                    Ok(Answer::Holders(holders.iter().map(holder_json).collect()))
                }
                Command::Break { entity: text, scope, reason, force_unfenced } => {
                    if !force_unfenced {
                        return Err(unfenced());
                    }
                    let scope = Scope { entity: entity(text)?, name: scope_name(scope)? };
                    let was = store.break_lease(&scope, reason).await?;
                    Ok(Answer::Broken(json!({
                        "broken": was.as_ref().map(holder_json),
                        "fenced": false,
                    })))
                }
            }
        })?
    }
}

/// What there is to print.
pub(super) enum Answer {
    Holders(Vec<Json>),
    Broken(Json),
}

/// Groups whose leases are to be seen although they are young.
fn looked_at(command: &Command) -> Result<Vec<(EntityType, Vec<GroupName>)>> {
    let Command::Show { entity: text, groups } = command else { return Ok(Vec::new()) };
    let groups = groups.iter().map(|group| Ok(GroupName::new(group).map_err(Error::from)?));
    Ok(vec![(entity(text)?.kind, groups.collect::<Result<_>>()?)])
}

async fn all(store: &dyn LeaseStore) -> Result<Vec<Json>> {
    let (mut holders, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let (page, next) = store.inspect(None, cursor.as_deref(), PAGE).await?;
        holders.extend(page.iter().map(holder_json));
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(holders)
}

fn unfenced() -> Failure {
    Failure::new(
        "unfenced",
        "a lease broken in Redis is not fenced in any database: its holder may write until its successor has claimed",
        "break it through the service, or stop the holder first and say --force-unfenced",
    )
}

/// A scope named on the command line.
pub(crate) fn scope_name(text: &str) -> Result<ScopeName> {
    ScopeName::parse(text).ok_or_else(|| {
        let message = format!("`{}` is not a scope", text.escape_debug());
        Failure::new("bad_scope", message, "as in media or translation[locale=de]")
    })
}
