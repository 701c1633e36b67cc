//! The map of a cluster, and how to get a newer one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use redis::{Cmd, Value};
use tokio::{runtime::Handle, sync::Mutex, time::Instant};

use crate::lease::redis::{
    fault::Fault,
    link::{LinkSettings, split},
    node::Node,
    sentinel::Finder,
    slots::{Map, known_host, ranges},
    stream,
    url::{Access, Address, Server},
    wait,
    wait::Backoff,
};

/// The map as known now. Fetched when something does not fit, by one task at a time, never in a storm.
pub(super) struct Atlas {
    seeds: Vec<Server>,
    access: Arc<Access>,
    settings: LinkSettings,
    map: ArcSwap<Map>,
    /// Counts fetched maps.
    version: AtomicU64,
    /// Held by whoever fetches.
    asking: Mutex<Backoff>,
    /// Whether a fetch is going to happen.
    planned: AtomicBool,
    runtime: Handle,
}

impl Atlas {
    pub(super) fn new(seeds: Vec<Server>, settings: LinkSettings) -> Arc<Self> {
        // All servers of one URL are entered the same way.
        let access = seeds.first().map(|seed| Arc::clone(&seed.access)).unwrap_or_default();
        Arc::new(Self {
            seeds,
            access,
            settings,
            map: ArcSwap::from_pointee(Map::empty()),
            version: AtomicU64::new(0),
            asking: Mutex::new(Backoff::new()),
            planned: AtomicBool::new(false),
            runtime: Handle::current(),
        })
    }

    pub(super) fn map(&self) -> Arc<Map> {
        self.map.load_full()
    }

    pub(super) fn keeper(&self, slot: u16) -> Option<Arc<Node>> {
        self.map.load().keeper(slot).cloned()
    }

    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// Enters where the slot is now, and has the whole map fetched: where one slot went, others did too.
    pub(super) fn moved(
        self: &Arc<Self>,
        slot: u16,
        from: Option<&Arc<Node>>,
        fault: &Fault,
    ) -> Option<Arc<Node>> {
        let address = self.told(from, fault)?;
        let known = self.keeper(slot);
        let node = self.node_at(&address);
        if known.is_none_or(|known| !Arc::ptr_eq(&known, &node)) {
            self.map.rcu(|map| map.with(slot, &address, |_| Arc::clone(&node)));
            self.refresh_later();
        }
        Some(node)
    }

    /// The address in a redirect: `3999 127.0.0.1:6381`.
    pub(super) fn told(&self, from: Option<&Arc<Node>>, fault: &Fault) -> Option<Address> {
        let text = fault.message.split_ascii_whitespace().nth(1)?;
        let Address::Tcp(host, port) = Address::announced(text)? else { return None };
        let from = from.and_then(|node| node.place().borrow().clone());
        let from = from.or_else(|| self.seeds.first().cloned())?;
        Some(known_host(host, port, &from.address))
    }

    /// The node at an address, with its connection if there is one.
    pub(super) fn node_at(&self, address: &Address) -> Arc<Node> {
        self.map.load().at(address).map_or_else(|| self.new_node(address), Arc::clone)
    }

    fn new_node(&self, address: &Address) -> Arc<Node> {
        Node::new(Finder::Fixed(self.server(address)), self.settings.clone())
    }

    fn server(&self, address: &Address) -> Server {
        Server { address: address.clone(), access: Arc::clone(&self.access) }
    }

    /// Fetches soon, when the cluster may be asked again; without waiting for it.
    pub(super) fn refresh_later(self: &Arc<Self>) {
        if self.planned.swap(true, Ordering::SeqCst) {
            return;
        }
        let atlas = Arc::clone(self);
        self.runtime.spawn(async move {
            let left = atlas.asking.lock().await.left();
            wait::pause(left).await;
            atlas.planned.store(false, Ordering::SeqCst);
            atlas.fetch(atlas.version()).await;
        });
    }

    /// Waits for a newer map than this version, as long as it makes sense. Answers why there is none.
    pub(super) async fn refresh(self: &Arc<Self>, version: u64, end: Instant) -> Option<Fault> {
        let atlas = Arc::clone(self);
        // A task of its own, so that a caller that gives up does not stop it for the others.
        let fetch = self.runtime.spawn(async move { atlas.fetch(version).await });
        let left = end.saturating_duration_since(Instant::now());
        wait::within(left, fetch).await?.ok()?
    }

    /// Fetches the map, unless somebody has meanwhile, or just tried. Answers why it could not.
    async fn fetch(&self, version: u64) -> Option<Fault> {
        let mut backoff = self.asking.lock().await;
        if self.version() != version || !backoff.left().is_zero() {
            return None;
        }
        match self.ask_around().await {
            Ok(map) => {
                self.enter(map);
                backoff.succeeded();
                None
            }
            Err(fault) => {
                backoff.failed(fault.asks_for_patience());
                Some(fault)
            }
        }
    }

    /// Fetches the first map.
    pub(super) async fn connect(&self) -> Result<(), Fault> {
        self.fetch(0).await.map_or(Ok(()), Err)
    }

    fn enter(&self, map: Map) {
        let old = self.map.swap(Arc::new(map));
        self.version.fetch_add(1, Ordering::SeqCst);
        let map = self.map.load();
        for (address, node) in old.nodes() {
            if map.at(address).is_none() {
                node.close();
            }
        }
    }

    /// Asks those we are connected with, then everybody known, until one answers.
    async fn ask_around(&self) -> Result<Map, Fault> {
        let map = self.map();
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let mut fault = Fault::not_executed("io", "no node of the cluster is known");
        for (address, node) in map.nodes().filter(|(_, node)| node.is_connected()) {
            let asked = node.ask(&command, None).await;
            match asked.and_then(|answer| self.read(&map, &answer, address)) {
                Ok(map) => return Ok(map),
                Err(other) => fault = other,
            }
        }
        let known = map.nodes().map(|(address, _)| address).chain(&map.replicas);
        for address in self.seeds.iter().map(|seed| &seed.address).chain(known) {
            let asked = ask_once(&self.server(address), &command, &self.settings).await;
            match asked.and_then(|answer| self.read(&map, &answer, address)) {
                Ok(map) => return Ok(map),
                Err(other) => fault = other,
            }
        }
        Err(fault)
    }

    fn read(&self, old: &Map, answer: &Value, asked: &Address) -> Result<Map, Fault> {
        let ranges = ranges(answer, asked).ok_or_else(|| {
            Fault::not_executed("protocol", format!("`{asked}`: `CLUSTER SLOTS` is not readable"))
        })?;
        let map = Map::of(&ranges, |address| {
            old.at(address).map_or_else(|| self.new_node(address), Arc::clone)
        });
        if map.is_empty() {
            return Err(Fault::not_executed("CLUSTERDOWN", format!("`{asked}` knows no slots")));
        }
        Ok(map)
    }

    pub(super) fn close(&self) {
        for (_, node) in self.map.load().nodes() {
            node.close();
        }
    }
}

/// On a connection for this one question.
async fn ask_once(server: &Server, command: &Cmd, settings: &LinkSettings) -> Result<Value, Fault> {
    let limit: Duration = settings.connect_timeout;
    let opened = stream::open(server, &settings.name, limit, None).await?;
    let mut connection = opened.connection;
    let asked = connection.send_packed_command(command);
    let answer = wait::within(settings.response_timeout, asked).await;
    opened.driver.abort();
    let here = &server.address;
    match answer {
        None => Err(Fault::not_executed("timeout", format!("`{here}`: no answer"))),
        Some(Err(error)) => Err(Fault::not_executed("io", format!("`{here}`: {error}"))),
        Some(Ok(answer)) => split(answer).map_err(|fault| {
            let message = format!("`{here}`: {fault}");
            Fault { message, ..fault }
        }),
    }
}
