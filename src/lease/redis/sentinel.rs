//! Finds the primary: at a fixed address, or by asking sentinels.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use redis::Value;
use tokio::task::JoinSet;

use crate::lease::redis::{
    fault::Fault,
    link::LinkSettings,
    node::open_primary,
    stream,
    stream::Opened,
    url::{Address, Sentinels, Server},
    wait,
};

/// How the server of a node is found when a connection is opened.
pub(super) enum Finder {
    /// Always there.
    Fixed(Server),
    /// Wherever most sentinels say.
    Sentinel(Asking),
}

/// Sentinels, and what they said last.
pub(super) struct Asking {
    sentinels: Sentinels,
    last: Mutex<Option<Server>>,
}

/// What sentinels said: addresses, the one most of them named first, and why others said nothing.
struct Said {
    primaries: Vec<(Address, usize)>,
    faults: Vec<Fault>,
}

impl Finder {
    pub(super) async fn open(&self, settings: &LinkSettings) -> Result<(Server, Opened), Fault> {
        match self {
            Self::Fixed(server) => Ok((server.clone(), open_primary(server, settings).await?)),
            Self::Sentinel(asking) => asking.open(settings).await,
        }
    }
}

impl Asking {
    pub(super) fn new(sentinels: Sentinels) -> Self {
        Self { sentinels, last: Mutex::new(None) }
    }

    /// Connects to the first address that sentinels name and that says of itself that it is a primary: a sentinel may
    /// be behind. When none of them answers, to the primary known last, if it still is one.
    async fn open(&self, settings: &LinkSettings) -> Result<(Server, Opened), Fault> {
        let said = self.ask(settings).await;
        let mut faults = said.faults;
        let mut servers: Vec<_> =
            said.primaries.into_iter().map(|(address, _)| self.server(address)).collect();
        if servers.is_empty() {
            servers.extend(self.last.lock().unwrap_or_else(PoisonError::into_inner).clone());
        }
        for server in servers {
            match open_primary(&server, settings).await {
                Ok(opened) => {
                    let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                    *last = Some(server.clone());
                    return Ok((server, opened));
                }
                Err(fault) => faults.push(fault),
            }
        }
        let last = faults.pop();
        let all: Vec<_> = faults.iter().chain(&last).map(|fault| fault.message.clone()).collect();
        let message = format!("no primary `{}` found: {}", self.sentinels.primary, all.join("; "));
        Err(Fault::not_executed(last.as_ref().map_or("io", |fault| &fault.code), message))
    }

    /// The address that more than half of the sentinels name, if it is not this one and says that it is a primary.
    pub(super) async fn elsewhere(&self, now: &Address, settings: &LinkSettings) -> bool {
        let said = self.ask(settings).await;
        let Some((address, votes)) = said.primaries.into_iter().next() else { return false };
        let most = votes * 2 > self.sentinels.servers.len();
        most && address != *now && open_primary(&self.server(address), settings).await.is_ok()
    }

    fn server(&self, address: Address) -> Server {
        Server { address, access: self.sentinels.access.clone() }
    }

    /// Asks all at once, so that a dead one costs no time, until more than half agree or all have been heard.
    async fn ask(&self, settings: &LinkSettings) -> Said {
        let mut asked = JoinSet::new();
        for server in &self.sentinels.servers {
            let (server, name) = (server.clone(), self.sentinels.primary.clone());
            let settings = settings.clone();
            asked.spawn(async move { primary_by(&server, &name, &settings).await });
        }
        let mut said = Said { primaries: Vec::new(), faults: Vec::new() };
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(address)) => said.count(address),
                Ok(Err(fault)) => said.faults.push(fault),
                Err(error) => said.faults.push(Fault::not_executed("io", error.to_string())),
            }
            if said.primaries.iter().any(|(_, votes)| votes * 2 > self.sentinels.servers.len()) {
                break;
            }
        }
        said.primaries.sort_by_key(|(_, votes)| std::cmp::Reverse(*votes));
        said
    }
}

impl Said {
    fn count(&mut self, address: Address) {
        match self.primaries.iter_mut().find(|(known, _)| *known == address) {
            Some((_, votes)) => *votes += 1,
            None => self.primaries.push((address, 1)),
        }
    }
}

async fn primary_by(
    server: &Server,
    name: &str,
    settings: &LinkSettings,
) -> Result<Address, Fault> {
    let here = &server.address;
    // Half of the time, so that the primary known last can still be tried when sentinels are silent.
    let limit = settings.connect_timeout / 2;
    let opened = stream::open(server, &settings.name, limit, None).await?;
    let mut command = redis::cmd("SENTINEL");
    command.arg("get-master-addr-by-name").arg(name);
    let mut connection = opened.connection;
    let asked = connection.send_packed_command(&command);
    let answer = wait::within(settings.response_timeout.min(limit), asked).await;
    opened.driver.abort();
    match answer {
        None => Err(Fault::not_executed("timeout", format!("`{here}`: no answer"))),
        Some(Err(error)) => Err(Fault::not_executed("io", format!("`{here}`: {error}"))),
        Some(Ok(Value::ServerError(error))) => {
            let fault = Fault::of_answer(&error);
            let message = if fault.message.contains("unknown command") {
                format!("`{here}` is not a sentinel")
            } else {
                format!("`{here}`: {fault}")
            };
            Err(Fault { message, ..fault })
        }
        Some(Ok(answer)) => address_of(&answer).ok_or_else(|| {
            Fault::not_executed("config", format!("`{here}` knows no primary named `{name}`"))
        }),
    }
}

fn address_of(answer: &Value) -> Option<Address> {
    let Value::Array(parts) = answer else { return None };
    let host = parts.first().and_then(stream::text_of)?;
    let port = parts.get(1).and_then(stream::text_of)?.parse().ok()?;
    Some(Address::Tcp(host, port))
}

/// How often sentinels are asked although nothing seems wrong: an old primary that was cut off from them still
/// answers.
pub(super) const ASK_EVERY: Duration = Duration::from_secs(10);

impl fmt::Display for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(server) => server.address.fmt(f),
            Self::Sentinel(asking) => f.write_str(&asking.sentinels.primary),
        }
    }
}
