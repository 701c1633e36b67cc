//! Leases on Redis and Valkey, for several processes.
//!
//! The protocol is DESIGN 5 with RULES 10-22: an uncontended lease is one `SET NX PX`, everything else one execution of
//! a script, whatever the number of groups. All times are the server's. A release grants directly to the next waiter
//! and tells its process alone.
//!
//! Where its guarantee ends: a server that loses keys (restart, failover, eviction) may grant a scope twice. The record
//! store's claim decides then, and nothing is lost (RULES 10).

mod answer;
mod atlas;
pub mod checks;
mod cluster;
mod pieces;
mod fault;
mod guards;
mod hearing;
mod keys;
mod link;
mod live;
mod local;
mod looking;
mod messages;
mod names;
mod node;
mod renewing;
mod script;
mod sentinel;
mod slots;
mod stream;
mod tls;
mod url;
mod wait;

#[cfg(test)]
mod trial;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use redis::{Cmd, Value};

use crate::{
    clock::{BoxFuture, Clock, SystemClock},
    entity::{EntityRef, EntityType, GroupName},
    error::{Error, Result},
    event::{Event, EventSink, NoEvents},
    guard::GuardBoard,
    lease::{
        Acquire, Ask, Extent, Holder, LeaseStore, Release, Renew, Renewal, Wake, WakeSink,
        majority::{Majority, MajoritySettings},
        redis::{
            answer::{Acquired, Anomaly},
            checks::Checks,
            fault::Fault,
            keys::{EntityKeys, Keys},
            link::{Link, LinkSettings},
            local::Local,
            names::{Names, plain_scope},
            script::{Call, Scripts},
            url::Target,
        },
        whole_ms,
    },
    scope::{Scope, ScopeName},
    table::PLACES_MAX,
    token::{Entropy, HolderToken, SystemEntropy},
};

/// How leases are kept on a server.
#[derive(Clone)]
pub struct RedisOptions {
    /// What all keys and channels start with, 1 to 32 of `A-Z a-z 0-9 _ . -`. Deployments that share a server need
    /// different ones. Default `fieldlease`.
    pub namespace: String,
    /// How long an answer may take; less for leases with a `ttl` below three times that. Default 1 s.
    pub response_timeout: Duration,
    /// How long a connection may take to come about. Default 2 s.
    pub connect_timeout: Duration,
    /// Unsplit groups by entity type, as a registry declares them. A look at one entity shows the leases of other
    /// processes at once in these groups, and in others when they are a second or two old. Default: none.
    pub groups: Vec<(EntityType, Vec<GroupName>)>,
    /// Whether to look at the server before it is used, and what then. Default: refuse one that would lose leases.
    pub checks: Checks,
    /// Measures trust. Default: the system's clock.
    pub clock: Arc<dyn Clock>,
    /// Names this process. Default: the system's.
    pub entropy: Arc<dyn Entropy>,
    /// Told of impossible times to live. Default: nobody.
    pub events: Arc<dyn EventSink>,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            namespace: "fieldlease".to_owned(),
            response_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(2),
            groups: Vec::new(),
            checks: Checks::Refuse,
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            events: Arc::new(NoEvents),
        }
    }
}

/// Leases on one Redis or Valkey: a single node, a primary found by Sentinel, or a cluster.
pub struct RedisLeases {
    link: Link,
    /// Only then slots matter.
    clustered: bool,
    keys: Keys,
    scripts: Scripts,
    /// Names this process's channel.
    inbox: String,
    local: Local,
    options: RedisOptions,
    sinks: Mutex<Vec<(u64, Arc<dyn WakeSink>)>>,
}

/// What a URL leads to.
pub struct Opened {
    /// The leases.
    pub leases: Arc<dyn LeaseStore>,
    /// Version guards on the same server; several independent servers keep none.
    pub guards: Option<Arc<dyn GuardBoard>>,
}

/// Opens what a URL names: one server, a primary found by Sentinel, or a cluster as [`RedisLeases`]; several
/// independent servers (`redis+quorum://`) as a [`Majority`] of them.
///
/// # Errors
/// As [`RedisLeases::connect`]. Of several independent servers none needs to be reachable yet.
pub async fn open(url: &str, options: RedisOptions) -> Result<Opened> {
    let Target::Quorum(targets) = Target::parse(url)? else {
        let leases = Arc::new(RedisLeases::connect(url, options).await?);
        return Ok(Opened { leases: Arc::clone(&leases) as _, guards: Some(leases) });
    };
    let node = |target: &Target| -> Result<Arc<dyn LeaseStore>> {
        Ok(Arc::new(RedisLeases::open(target, options.clone())?))
    };
    let nodes = targets.iter().map(node).collect::<Result<_>>()?;
    let settings = MajoritySettings::default();
    let (clock, entropy) = (Arc::clone(&options.clock), Arc::clone(&options.entropy));
    Ok(Opened { leases: Arc::new(Majority::new(nodes, settings, clock, entropy)?), guards: None })
}

/// As [`open`], for the leases alone.
///
/// # Errors
/// As [`open`].
pub async fn connect(url: &str, options: RedisOptions) -> Result<Arc<dyn LeaseStore>> {
    Ok(open(url, options).await?.leases)
}

impl RedisLeases {
    /// Connects. What URLs may say is in `docs/backends/redis-connections.md`.
    ///
    /// # Errors
    /// `bad_url`, `bad_namespace`; `unsafe_server` after a look at it ([`RedisOptions::checks`]); unavailable when the
    /// server cannot be reached.
    pub async fn connect(url: &str, options: RedisOptions) -> Result<Self> {
        let target = Target::parse(url)?;
        let keys = Keys::new(&options.namespace)?;
        let link = Link::connect(&target, settings(&options)).await?;
        checks::at_connect(&link, &keys, &options).await?;
        Ok(Self::over(link, &target, keys, options))
    }

    /// Without a connection yet.
    fn open(target: &Target, options: RedisOptions) -> Result<Self> {
        let keys = Keys::new(&options.namespace)?;
        let link = Link::open(target, settings(&options))?;
        Ok(Self::over(link, target, keys, options))
    }

    fn over(link: Link, target: &Target, keys: Keys, options: RedisOptions) -> Self {
        let random = u128::from_be_bytes(options.entropy.bytes());
        let inbox = format!("{:016x}", random & u128::from(u64::MAX));
        let local = Local::new(&options.groups);
        let clustered = matches!(target, Target::Cluster(_));
        let (scripts, sinks) = (Scripts::default(), Mutex::default());
        Self { link, clustered, keys, scripts, inbox, local, options, sinks }
    }

    fn slot(&self, keys: &EntityKeys) -> u16 {
        self.slot_of(keys.start())
    }

    fn slot_of(&self, key: &str) -> u16 {
        if self.clustered { slots::slot(key.as_bytes()) } else { 0 }
    }

    /// The longest this request may take.
    fn within(&self, ttl: Duration) -> Option<Duration> {
        let third = ttl / 3;
        (third < self.options.response_timeout).then_some(third)
    }

    fn wake(&self, wake: &Wake) {
        let sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (_, sink) in sinks {
            sink.wake(wake.clone());
        }
    }

    fn report(&self, entity: &EntityRef, anomalies: Vec<Anomaly>) {
        for (name, found_ms) in anomalies {
            let scope = Scope { entity: entity.clone(), name };
            self.options.events.emit(&Event::LeaseTtlAnomaly { scope, found_ms });
        }
    }

    async fn acquire_now(&self, ask: &Ask) -> Result<Acquire> {
        let ttl = whole_ms(ask.ttl)?;
        whole_ms(ask.ttl_max)?;
        let plain = match plain_scope(&ask.extent) {
            Some(name) if !ask.order && !self.local.is_queued(ask.token) => name,
            _ => return Box::pin(self.acquire_by_script(ask)).await,
        };
        let keys = self.keys.entity(ask.extent.entity());
        let set = self.set_command(ask, plain, millis(ttl), &keys);
        let answer = self.link.send(self.slot(&keys), &set, self.within(ttl)).await;
        if answer.map_err(unavailable)? == Value::Nil {
            return Box::pin(self.acquire_by_script(ask)).await;
        }
        self.local.hold(ask.token, &ask.extent, ttl);
        Ok(Acquire::Granted { order: None })
    }

    fn set_command(&self, ask: &Ask, name: &ScopeName, ttl: u64, keys: &EntityKeys) -> Cmd {
        let key = keys.lease(name.group_name().as_str());
        let lease = keys::write_lease(ask.token, &self.inbox, ttl, label(&ask.label));
        let mut set = Cmd::with_capacity(6, 256);
        set.arg("SET").arg(&*key).arg(&*lease).arg("NX").arg("PX").arg(ttl);
        set
    }

    async fn acquire_by_script(&self, ask: &Ask) -> Result<Acquire> {
        let (ttl, ttl_max) = (whole_ms(ask.ttl)?, whole_ms(ask.ttl_max)?);
        let entity = ask.extent.entity();
        let keys = self.keys.entity(entity);
        let call = self.acquire_call(ask, (ttl, ttl_max), &keys, self.slot(&keys));
        let answer = self.scripts.acquire.run(&self.link, &call, self.within(ttl)).await;
        let answer = answer.and_then(|answer| answer::acquired(entity, &answer));
        match answer.map_err(unavailable)? {
            Acquired::Granted { order, anomalies } => {
                self.report(entity, anomalies);
                self.local.hold(ask.token, &ask.extent, ttl);
                Ok(Acquire::Granted { order })
            }
            Acquired::Held { place, anomalies, by } => {
                self.report(entity, anomalies);
                match place {
                    Some(_) => self.local.queue(ask.token, &ask.extent, ttl),
                    None => drop(self.local.forget(ask.token)),
                }
                Ok(Acquire::Held { by, place })
            }
            Acquired::QueueFull => Err(Error::unavailable(format!(
                "the queue of `{entity}` has {PLACES_MAX} places already"
            ))),
        }
    }

    fn acquire_call(
        &self,
        ask: &Ask,
        (ttl, ttl_max): (Duration, Duration),
        keys: &EntityKeys,
        slot: u16,
    ) -> Call {
        let names = Names::of(&ask.extent);
        let count = names.key_count() + usize::from(ask.order);
        let mut call = self.scripts.acquire.call(slot, count);
        names.push_keys(keys, &mut call);
        if ask.order {
            call.push_parts(&[keys.start(), keys::ORDER]);
        }
        call.push(&*ask.token.hex());
        call.push(&self.inbox);
        call.push_number(millis(ttl));
        call.push_number(millis(ttl_max));
        let mut flags = String::new();
        for (flag, on) in [('q', ask.queue), ('w', names.whole), ('o', ask.order)] {
            if on {
                flags.push(flag);
            }
        }
        call.push(&flags);
        call.push(label(&ask.label));
        call.push(&names.joined());
        names.push_to(&mut call);
        call
    }

    async fn release_now(&self, extent: &Extent, token: HolderToken) -> Result<Release> {
        let listed = self.local.forget(token);
        let keys = self.keys.entity(extent.entity());
        let call = self.release_call(extent, token, "", &keys);
        let answer = match listed {
            false => self.scripts.release.run(&self.link, &call, None).await,
            true => Box::pin(self.release_listed(extent, &call)).await,
        };
        match answer.map_err(unavailable)? {
            Value::Int(0) => Ok(Release::Lost),
            Value::Int(_) => Ok(Release::Released),
            _ => Err(Error::unavailable("the lease server answered a release with something else")),
        }
    }

    fn release_call(
        &self,
        extent: &Extent,
        token: HolderToken,
        flags: &str,
        keys: &EntityKeys,
    ) -> Call {
        let slot = self.slot(keys);
        if let Some(name) = plain_scope(extent) {
            let name = name.group_name().as_str();
            let mut call = self.scripts.release.call(slot, 3);
            call.push_parts(&[keys.start(), keys::HASH]);
            call.push_parts(&[keys.start(), keys::QUEUE]);
            call.push_parts(&[keys.start(), keys::LEASE, name]);
            for arg in [&*token.hex(), flags, "1", name] {
                call.push(arg);
            }
            return call;
        }
        let names = Names::of(extent);
        let mut call = self.scripts.release.call(slot, names.key_count());
        names.push_keys(keys, &mut call);
        call.push(&*token.hex());
        let whole = if names.whole { "w" } else { "" };
        call.push(&[flags, whole].concat());
        names.push_to(&mut call);
        call
    }

    /// A release that also takes the lease off the list, in the same flight.
    async fn release_listed(
        &self,
        extent: &Extent,
        call: &Call,
    ) -> std::result::Result<Value, Fault> {
        let members: Vec<Vec<u8>> =
            extent.scopes().iter().map(|scope| keys::write_member(&scope)).collect();
        let mut commands = vec![(call.slot, call.command().clone())];
        for key in self.keys.roster() {
            let slot = self.slot_of(&key);
            let mut drop = redis::cmd("ZREM");
            drop.arg(key);
            for member in &members {
                drop.arg(member);
            }
            commands.push((slot, drop));
        }
        // Only the release counts: the list drops its members by itself.
        let mut answers = self.link.send_all(&commands, None).await;
        match answers.is_empty() {
            false => match answers.swap_remove(0) {
                Err(fault) if fault.code == "NOSCRIPT" => {
                    self.scripts.release.run(&self.link, call, None).await
                }
                answer => answer,
            },
            true => self.scripts.release.run(&self.link, call, None).await,
        }
    }
}

fn settings(options: &RedisOptions) -> LinkSettings {
    LinkSettings {
        response_timeout: options.response_timeout,
        connect_timeout: options.connect_timeout,
        name: "fieldlease".to_owned(),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Labels are for people; a line of them is enough.
fn label(label: &str) -> &str {
    label.char_indices().nth(200).and_then(|(end, _)| label.get(..end)).unwrap_or(label)
}

/// What a caller of the port is told.
fn unavailable(fault: Fault) -> Error {
    match fault.code.as_str() {
        "FOREIGN" | "WRONGTYPE" => Error::invalid(
            "foreign_key",
            format!("the lease server keeps something else under a key of ours: {}", fault.message),
            "choose another namespace, or remove that key: `fieldlease doctor --redis URL` lists such keys",
        ),
        _ => Error::unavailable(format!("the lease server cannot be used: {}", fault.told())),
    }
}

impl LeaseStore for RedisLeases {
    fn acquire<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Acquire>> {
        Box::pin(self.acquire_now(ask))
    }

    fn renew<'a>(&'a self, batch: &'a [Renew]) -> BoxFuture<'a, Vec<Renewal>> {
        Box::pin(self.renew_now(batch))
    }

    fn release<'a>(
        &'a self,
        extent: &'a Extent,
        token: HolderToken,
    ) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.release_now(extent, token))
    }

    fn watch<'a>(&'a self, sink: Arc<dyn WakeSink>) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.watch_now(sink))
    }

    fn inspect<'a>(
        &'a self,
        entity: Option<&'a EntityRef>,
        cursor: Option<&'a str>,
        most: u32,
    ) -> BoxFuture<'a, Result<(Vec<Holder>, Option<String>)>> {
        Box::pin(self.inspect_now(entity, cursor, most))
    }

    fn break_lease<'a>(
        &'a self,
        scope: &'a Scope,
        _reason: &'a str,
    ) -> BoxFuture<'a, Result<Option<Holder>>> {
        Box::pin(self.break_now(scope))
    }
}
