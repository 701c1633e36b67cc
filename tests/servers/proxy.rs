//! A wire with faults: a proxy in front of a server that understands commands and answers well enough to break a chosen
//! one.
//!
//! It has a thread of its own. What is done to everything (`hole`, `latency`, `cut_all`, ...) holds for connections that
//! are open and for those that come; what is done to one command is a [`Rule`].

use std::{
    collections::VecDeque,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fieldlease::clock::{Clock, Moment, SystemClock};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, mpsc, oneshot, watch},
};

use crate::servers::{
    Dialect,
    database::DatabaseServer,
    until,
    wire::{Frame, FrameReader, Request, Talk, Way, Wire, write_all},
};

/// What is done to one command or its answer.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// The request waits until [`Fault::let_go`].
    HoldRequest,
    /// It is executed; its answer waits until [`Fault::let_go`].
    HoldReply,
    /// Neither it nor any later request of this connection arrives. The connection stays open.
    DropRequest,
    /// It is executed. Neither its answer nor any later one of this connection arrives: the answer of a later request
    /// is never taken for the one of an earlier, as no network does that.
    DropReply,
    DelayRequest(Duration),
    DelayReply(Duration),
    /// The connection is reset and the server never sees the request.
    CutBefore,
    /// The server executes it, and the connection is reset instead of its answer.
    CutAfter,
    /// This many bytes of the answer arrive, then the connection is closed.
    Truncate(usize),
    /// These bytes arrive in front of the answer.
    Prefix(&'static str),
    /// These bytes are the answer; the server never sees the request.
    Answer(&'static str),
    /// The request arrives, then the server's side is gone and the client's side stays open and silent.
    HalfOpen,
}

type Matches = dyn Fn(&Request) -> bool + Send + Sync;

/// Which commands, and what is done to them.
pub(crate) struct Rule {
    matches: Box<Matches>,
    skip: usize,
    times: usize,
    action: Action,
}

impl Rule {
    /// The next command with this name, or any of several names: `"EVAL|EVALSHA"`.
    pub(crate) fn on(names: &'static str, action: Action) -> Self {
        Self::matching(move |request| names.split('|').any(|name| name == request.name), action)
    }

    pub(crate) fn matching(
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
        action: Action,
    ) -> Self {
        Self { matches: Box::new(matches), skip: 0, times: 1, action }
    }

    /// Not the first ones.
    pub(crate) fn after(mut self, skip: usize) -> Self {
        self.skip = skip;
        self
    }

    /// So many of them.
    pub(crate) fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    pub(crate) fn always(self) -> Self {
        self.times(usize::MAX)
    }
}

/// A rule that is in force.
#[derive(Clone)]
pub(crate) struct Fault {
    hits: Arc<AtomicUsize>,
    /// Whether what is held may go on.
    open: Arc<watch::Sender<bool>>,
}

impl Fault {
    /// How many commands it met.
    pub(crate) fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }

    /// Waits until it met one.
    pub(crate) fn wait(&self) {
        until("the command the fault is for", || self.hits() > 0);
    }

    /// Everything it holds goes on, and what it meets from now on is not held.
    pub(crate) fn let_go(&self) {
        self.open.send_replace(true);
    }

    async fn pass(&self) {
        let mut open = self.open.subscribe();
        let _ = open.wait_for(|open| *open).await;
    }
}

struct Active {
    rule: Rule,
    fault: Fault,
}

#[derive(Default)]
struct State {
    rules: Vec<Active>,
    seen: Vec<Request>,
    request_delay: Duration,
    reply_delay: Duration,
    refusing: bool,
    bytes_per_second: Option<u32>,
}

struct Shared {
    wire: Wire,
    state: Mutex<State>,
    /// Whether requests, and whether answers, do not get through.
    hole: watch::Sender<(bool, bool)>,
    /// Counts the calls of [`Proxy::cut_all`].
    cuts: watch::Sender<u64>,
    open: AtomicUsize,
    accepted: AtomicUsize,
}

/// A proxy; its connections are closed when it goes out of scope.
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    _stop: oneshot::Sender<()>,
}

impl Proxy {
    /// In front of a port of this machine where Redis answers.
    pub(crate) fn to(server: u16) -> Self {
        Self::speaking(Wire::Redis, server)
    }

    /// In front of a database. A command has the first word of its statement for a name (`"COMMIT|CALL"`), and one command
    /// is one round trip. [`Action::Prefix`] and [`Action::Answer`] are for Redis.
    pub(crate) fn before(server: &DatabaseServer) -> Self {
        Self::to_database(server.dialect(), server.port())
    }

    /// In front of a port where a database answers, or a pooler before it.
    pub(crate) fn to_database(dialect: Dialect, port: u16) -> Self {
        let wire = match dialect {
            Dialect::Postgres => Wire::Postgres,
            Dialect::MariaDb => Wire::Mysql,
        };
        Self::speaking(wire, port)
    }

    fn speaking(wire: Wire, server: u16) -> Self {
        let shared = Arc::new(Shared {
            wire,
            state: Mutex::default(),
            hole: watch::Sender::new((false, false)),
            cuts: watch::Sender::new(0),
            open: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
        });
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stop, stopped) = oneshot::channel();
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                tokio::select! {
                    () = serve(listener, server, serving) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { port, shared, _stop: stop }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:PORT`
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    /// Puts a rule in force. The first one that matches a command is the one that meets it.
    pub(crate) fn fault(&self, rule: Rule) -> Fault {
        let fault = Fault { hits: Arc::default(), open: Arc::new(watch::Sender::new(false)) };
        self.state().rules.push(Active { rule, fault: fault.clone() });
        fault
    }

    /// No rule is in force any more; what is held goes on.
    pub(crate) fn heal(&self) {
        for active in self.state().rules.drain(..) {
            active.fault.let_go();
        }
        self.hole(false, false);
        let mut state = self.state();
        *state = State { seen: std::mem::take(&mut state.seen), ..State::default() };
    }

    /// What comes later than this is late by so much, in each direction.
    pub(crate) fn latency(&self, request: Duration, reply: Duration) {
        let mut state = self.state();
        (state.request_delay, state.reply_delay) = (request, reply);
    }

    /// A slow line.
    pub(crate) fn bytes_per_second(&self, rate: Option<u32>) {
        self.state().bytes_per_second = rate;
    }

    /// A black hole for requests, for answers, or both. Nothing is reset, and new connections are accepted. What was sent
    /// into it arrives late, in order, when it is gone, also what was sent by those who have left.
    pub(crate) fn hole(&self, requests: bool, replies: bool) {
        self.shared.hole.send_replace((requests, replies));
    }

    /// Whether new connections are reset at once.
    pub(crate) fn refuse(&self, refuse: bool) {
        self.state().refusing = refuse;
    }

    /// Resets every connection.
    pub(crate) fn cut_all(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Every command that came, in order.
    pub(crate) fn seen(&self) -> Vec<Request> {
        self.state().seen.clone()
    }

    /// What came since this was last asked, without what belongs to opening and closing a connection: so many round trips.
    pub(crate) fn round_trips(&self) -> Vec<Request> {
        let aside = ["TLS", "STARTUP", "AUTHENTICATION", "TERMINATE", "CLOSE"];
        let mut seen = std::mem::take(&mut self.state().seen);
        seen.retain(|request| !aside.contains(&request.name.as_str()));
        seen
    }

    /// How often commands with these names came.
    pub(crate) fn count(&self, names: &str) -> usize {
        let named = |request: &&Request| names.split('|').any(|name| name == request.name);
        self.state().seen.iter().filter(named).count()
    }

    /// Connections that are open now.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Connections that came so far.
    pub(crate) fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Shared {
    /// Writes the command down and answers what is done to it.
    fn meet(&self, request: &Request) -> Option<(Action, Fault)> {
        let mut state = self.state.lock().unwrap();
        state.seen.push(request.clone());
        let position =
            state.rules.iter().position(|it| it.rule.times > 0 && (it.rule.matches)(request))?;
        let active = state.rules.get_mut(position)?;
        if active.rule.skip > 0 {
            active.rule.skip -= 1;
            return None;
        }
        active.rule.times -= 1;
        active.fault.hits.fetch_add(1, Ordering::SeqCst);
        Some((active.rule.action.clone(), active.fault.clone()))
    }

    /// Waits until there is no black hole in this direction.
    async fn through(&self, open: impl Fn((bool, bool)) -> bool) {
        let mut hole = self.hole.subscribe();
        let _ = hole.wait_for(|hole| open(*hole)).await;
    }

    fn delays(&self) -> (Duration, Duration) {
        let state = self.state.lock().unwrap();
        (state.request_delay, state.reply_delay)
    }

    /// Waits as long as a slow line takes for so many bytes.
    async fn line(&self, bytes: usize) {
        let rate = self.state.lock().unwrap().bytes_per_second;
        if let Some(rate) = rate {
            let seconds = f64::from(u32::try_from(bytes).unwrap()) / f64::from(rate);
            sleep(Duration::from_secs_f64(seconds)).await;
        }
    }
}

async fn sleep(time: Duration) {
    wait_until(SystemClock.now().plus(time)).await;
}

async fn wait_until(at: Moment) {
    SystemClock.sleep_until(at).await;
}

async fn serve(listener: std::net::TcpListener, server: u16, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        if shared.state.lock().unwrap().refusing {
            let _ = client.set_zero_linger();
            continue;
        }
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            shared.open.fetch_add(1, Ordering::SeqCst);
            connection(client, server, &shared).await;
            shared.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// How a connection ended.
enum End {
    Closed,
    Cut,
    HalfOpen,
}

/// An answer that is expected.
struct Expected {
    action: Option<(Action, Fault)>,
}

/// What the two directions of one connection share.
#[derive(Default)]
struct Pairing {
    expected: Mutex<VecDeque<Expected>>,
    more: Notify,
    /// Whether it has become a connection for messages, whose answers belong to no request.
    listens: std::sync::atomic::AtomicBool,
}

async fn connection(client: TcpStream, server: u16, shared: &Shared) {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server));
    let Ok(upstream) = TcpStream::connect(address).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), upstream.set_nodelay(true));
    let mut cuts = shared.cuts.subscribe();
    let pairing = Pairing::default();
    let talk = Arc::new(Mutex::new(Talk::new(shared.wire)));
    let (requests, to_server) = mpsc::unbounded_channel();
    let (replies, to_client) = mpsc::unbounded_channel();
    let end = tokio::select! {
        // What a client sent before it went away still arrives, late as it may be.
        () = async {
            let reader = FrameReader::new(Way::Requests, Arc::clone(&talk));
            read(&client, reader, requests, || shared.delays().0).await;
            std::future::pending().await
        } => End::Closed,
        end = write_requests(&upstream, to_server, shared, &pairing) => end,
        end = write_replies(&client, to_client, shared, &pairing) => end,
        // The channel ends with it; what is on its way is delivered before the connection is closed.
        () = async {
            let reader = FrameReader::new(Way::Replies, Arc::clone(&talk));
            read(&upstream, reader, replies, || shared.delays().1).await;
            std::future::pending().await
        } => End::Closed,
        _ = cuts.changed() => End::Cut,
    };
    match end {
        End::Closed => {}
        End::Cut => {
            let _ = client.set_zero_linger();
        }
        End::HalfOpen => {
            drop(upstream);
            let _ = cuts.changed().await;
        }
    }
}

type Timed = (Moment, Frame);

async fn read(
    from: &TcpStream,
    mut reader: FrameReader,
    to: mpsc::UnboundedSender<Timed>,
    delay: impl Fn() -> Duration,
) {
    while let Some(frame) = reader.next(from).await {
        let at = SystemClock.now().plus(delay());
        if to.send((at, frame)).is_err() {
            return;
        }
    }
}

async fn write_requests(
    server: &TcpStream,
    mut from: mpsc::UnboundedReceiver<Timed>,
    shared: &Shared,
    pairing: &Pairing,
) -> End {
    let mut silent = false;
    while let Some((at, frame)) = from.recv().await {
        wait_until(at).await;
        let request = frame.request();
        let met = shared.meet(&request);
        shared.line(frame.bytes.len()).await;
        silent |= matches!(met, Some((Action::DropRequest, _)));
        shared.through(|(requests, _)| !requests).await;
        let mut sends = !silent;
        match &met {
            Some((Action::HoldRequest, fault)) => fault.pass().await,
            Some((Action::DelayRequest(time), _)) => sleep(*time).await,
            Some((Action::CutBefore, _)) => return End::Cut,
            Some((Action::Answer(_), _)) => sends = false,
            _ => {}
        }
        let answered = matches!(met, Some((Action::Answer(_), _)));
        let half_open = matches!(met, Some((Action::HalfOpen, _)));
        if request.name.ends_with("SUBSCRIBE") || request.name == "MONITOR" {
            pairing.listens.store(true, Ordering::SeqCst);
        } else if frame.is_answered() && (sends || answered) {
            pairing.expected.lock().unwrap().push_back(Expected { action: met });
            pairing.more.notify_one();
        }
        if sends && write_all(server, &frame.bytes).await.is_err() {
            return End::Closed;
        }
        if half_open {
            return End::HalfOpen;
        }
    }
    End::Closed
}

async fn write_replies(
    client: &TcpStream,
    mut from: mpsc::UnboundedReceiver<Timed>,
    shared: &Shared,
    pairing: &Pairing,
) -> End {
    let mut silent = false;
    loop {
        let local = {
            let mut expected = pairing.expected.lock().unwrap();
            let answer = expected.front().and_then(|it| match it.action {
                Some((Action::Answer(text), _)) => Some(text),
                _ => None,
            });
            answer.inspect(|_| drop(expected.pop_front()))
        };
        if let Some(text) = local {
            let _ = write_all(client, text.as_bytes()).await;
            continue;
        }
        let (at, frame) = tokio::select! {
            next = from.recv() => match next {
                Some(next) => next,
                None => return End::Closed,
            },
            () = pairing.more.notified() => continue,
        };
        wait_until(at).await;
        let paired = !frame.is_push() && !pairing.listens.load(Ordering::SeqCst);
        let met = paired
            .then(|| pairing.expected.lock().unwrap().pop_front())
            .flatten()
            .and_then(|expected| expected.action);
        silent |= matches!(met, Some((Action::DropReply, _)));
        if silent {
            continue;
        }
        if let Err(end) = deliver(client, &frame.bytes, met, shared).await {
            return end;
        }
    }
}

/// One answer, with what is done to it.
async fn deliver(
    client: &TcpStream,
    bytes: &[u8],
    met: Option<(Action, Fault)>,
    shared: &Shared,
) -> Result<(), End> {
    let mut bytes = bytes.to_vec();
    let mut truncated = false;
    match met {
        Some((Action::HoldReply, fault)) => fault.pass().await,
        Some((Action::DelayReply(time), _)) => sleep(time).await,
        Some((Action::CutAfter, _)) => return Err(End::Cut),
        Some((Action::Truncate(length), _)) => {
            bytes.truncate(length);
            truncated = true;
        }
        Some((Action::Prefix(text), _)) => bytes.splice(0..0, text.bytes()).for_each(drop),
        _ => {}
    }
    shared.line(bytes.len()).await;
    shared.through(|(_, replies)| !replies).await;
    // A client that went away hears no answers; what it sent still arrives.
    let _ = write_all(client, &bytes).await;
    if truncated { Err(End::Closed) } else { Ok(()) }
}
