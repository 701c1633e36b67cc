//! A server of our own: started on a free port, known by its process id, killed when it goes out of scope.

use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use fieldlease::clock::{Clock, SystemClock};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::servers::{
    Flavour, PATIENCE, Reply, Setup, free_port, pause,
    resp::{Client, encode},
};

/// The name of the harness's own connections, by which they are left out of counts.
const NAME: &str = "harness";
/// Starts are repeated when the port was taken between the look and the start.
const STARTS: usize = 5;
/// The answer of a server that did not start yet, and how often it is looked at.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(5);

/// A running server.
pub(crate) struct Server {
    setup: Setup,
    port: u16,
    dir: TempDir,
    child: Mutex<Child>,
    control: Mutex<Option<Client>>,
    marks: AtomicU32,
}

/// What was seen on the wire of the server since [`Server::monitor`].
pub(crate) struct Monitor {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts one with further options of the command line.
    pub(crate) fn start(flavour: Flavour, arguments: &[&str]) -> Self {
        Setup::new(flavour).arguments(arguments).start()
    }

    pub(crate) fn of(setup: Setup) -> Self {
        let mut failed = String::new();
        for _ in 0..STARTS {
            let port = setup.port.unwrap_or_else(free_port);
            let dir = tempfile::Builder::new().prefix("fl-").tempdir().unwrap();
            let child = spawn(&setup, port, dir.path());
            let server = Self {
                setup: setup.clone(),
                port,
                dir,
                child: Mutex::new(child),
                control: Mutex::new(None),
                marks: AtomicU32::new(0),
            };
            match server.wait_until_up() {
                Ok(()) => return server,
                Err(why) => failed = why,
            }
        }
        panic!("{} did not start: {failed}", setup.flavour);
    }

    /// Waits until it is our child that answers. What ended, or is somebody else's, is told.
    fn wait_until_up(&self) -> Result<(), String> {
        let end = SystemClock.now().plus(PATIENCE);
        loop {
            if let Some(status) = self.child.lock().unwrap().try_wait().unwrap() {
                return Err(format!("it ended with {status}: {}", self.log()));
            }
            match self.try_command(&["PING"]) {
                Ok(Reply::Simple(pong)) if pong == "PONG" => break,
                // Still reading its data: up, and the test wants to see just that.
                Ok(Reply::Error(text)) if text.starts_with("LOADING") => break,
                Ok(Reply::Error(text)) if !text.starts_with("MASTERDOWN") => return Err(text),
                _ if SystemClock.now() > end => return Err(format!("silent: {}", self.log())),
                _ => pause(LOOK_EVERY),
            }
        }
        // One that said it was loading may have come to something it cannot read, and ended since.
        let info = self.try_command(&["INFO", "server"]).map_err(|error| error.to_string())?;
        let pid = pairs(&info.text()).get("process_id").cloned().unwrap_or_default();
        if pid == self.pid().to_string() { Ok(()) } else { Err(format!("process {pid} answers")) }
    }

    pub(crate) fn flavour(&self) -> Flavour {
        self.setup.flavour
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Where its folder is: log, configuration, data.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// `redis://127.0.0.1:PORT`, with the password if there is one, `rediss:` if it speaks TLS.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.setup.tls { "rediss" } else { "redis" };
        match &self.setup.password {
            Some(password) => format!("{scheme}://:{password}@127.0.0.1:{}", self.port),
            None => format!("{scheme}://127.0.0.1:{}", self.port),
        }
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its socket file, which speaks without TLS and is what the harness uses.
    pub(crate) fn unix_path(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.lock().unwrap().id()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// SIGSTOP: it keeps its connections and answers nobody.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        child.wait().unwrap();
        *self.control.lock().unwrap() = None;
    }

    /// SIGTERM, and waits until it ended: it writes what it keeps.
    pub(crate) fn stop(&self) {
        self.signal(Signal::TERM);
        self.child.lock().unwrap().wait().unwrap();
        *self.control.lock().unwrap() = None;
    }

    /// Whether it has not ended by itself.
    pub(crate) fn is_running(&self) -> bool {
        self.child.lock().unwrap().try_wait().unwrap().is_none()
    }

    /// Kills it if it runs, and starts it again on the same port, in the same folder, with the same options.
    pub(crate) fn restart(&self) {
        self.try_restart().unwrap_or_else(|why| panic!("it did not come back: {why}"));
    }

    /// As [`Server::restart`]; answers why it did not come back.
    pub(crate) fn try_restart(&self) -> Result<(), String> {
        self.kill();
        *self.child.lock().unwrap() = spawn(&self.setup, self.port, self.dir.path());
        self.wait_until_up()
    }

    /// Whether it answers, be it with a refusal. One that was stopped does not.
    pub(crate) fn answers(&self) -> bool {
        self.is_running() && !self.is_stopped() && self.try_command(&["PING"]).is_ok()
    }

    /// Whether it stands still after [`Server::pause`].
    fn is_stopped(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.info("replication").get("role").is_some_and(|role| role == "master")
    }

    /// A line of `CLUSTER INFO`.
    pub(crate) fn info_of_cluster(&self, name: &str) -> String {
        let text = self.run(&["CLUSTER", "INFO"]).text();
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_default().trim().to_owned()
    }

    /// A connection of its own, signed in.
    pub(crate) fn client(&self) -> Client {
        self.connect().unwrap()
    }

    fn connect(&self) -> std::io::Result<Client> {
        let mut client = Client::unix(&self.unix_path())?;
        if let Some(password) = &self.setup.password {
            client.command(&["AUTH", password])?;
        }
        client.command(&["CLIENT", "SETNAME", NAME])?;
        Ok(client)
    }

    /// Any command over the harness's own connection.
    pub(crate) fn try_command(&self, arguments: &[&str]) -> std::io::Result<Reply> {
        let mut control = self.control.lock().unwrap();
        if let Some(client) = control.as_mut() {
            match client.command(arguments) {
                // A server that changes its role closes its connections, ours too.
                Err(error) if error.kind() != ErrorKind::WouldBlock => *control = None,
                answer => return answer,
            }
        }
        let mut client = self.connect()?;
        let reply = client.command(arguments)?;
        *control = Some(client);
        Ok(reply)
    }

    /// As [`Server::try_command`]; an answer that is an error is an answer.
    pub(crate) fn command(&self, arguments: &[&str]) -> Reply {
        let reply = self.try_command(arguments);
        reply.unwrap_or_else(|error| panic!("{} on {arguments:?}: {error}", self.flavour()))
    }

    /// A command that must be carried out.
    pub(crate) fn run(&self, arguments: &[&str]) -> Reply {
        self.command(arguments).good()
    }

    pub(crate) fn set(&self, option: &str, value: &str) {
        self.run(&["CONFIG", "SET", option, value]);
    }

    /// `INFO section` as pairs.
    pub(crate) fn info(&self, section: &str) -> BTreeMap<String, String> {
        pairs(&self.command(&["INFO", section]).text())
    }

    /// How often each command was executed, those inside scripts included: `set` -> 3.
    pub(crate) fn commandstats(&self) -> BTreeMap<String, u64> {
        let calls = |(name, value): (String, String)| {
            let name = name.strip_prefix("cmdstat_")?.to_ascii_lowercase();
            let calls = value.strip_prefix("calls=")?.split(',').next()?.parse().ok()?;
            Some((name, calls))
        };
        self.info("commandstats").into_iter().filter_map(calls).collect()
    }

    pub(crate) fn reset_stats(&self) {
        self.run(&["CONFIG", "RESETSTAT"]);
    }

    /// All keys, in order.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys = self.run(&["KEYS", "*"]).texts();
        keys.sort();
        keys
    }

    /// Connections of others than the harness, as `CLIENT LIST` tells them.
    pub(crate) fn clients(&self) -> Vec<BTreeMap<String, String>> {
        let text = self.run(&["CLIENT", "LIST"]).text();
        let fields = |line: &str| -> BTreeMap<String, String> {
            let pairs = line.split(' ').filter_map(|pair| pair.split_once('='));
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let clients = text.lines().map(fields);
        clients.filter(|client| client.get("name").is_none_or(|name| name != NAME)).collect()
    }

    /// Channels somebody listens to.
    pub(crate) fn channels(&self) -> Vec<String> {
        let mut channels = self.run(&["PUBSUB", "CHANNELS"]).texts();
        channels.sort();
        channels
    }

    /// Writes down every command from now on until [`Server::monitored`].
    pub(crate) fn monitor(&self) -> Monitor {
        let mut client = self.client();
        client.command(&["MONITOR"]).unwrap().good();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::downgrade(&lines);
        std::thread::spawn(move || {
            while let Ok(line) = client.read() {
                let Some(lines) = written.upgrade() else { return };
                lines.lock().unwrap().push(line.text());
            }
        });
        Monitor { lines }
    }

    /// Every command the server executed since the monitor began, without those of the harness.
    pub(crate) fn monitored(&self, monitor: &Monitor) -> Vec<String> {
        let mark = format!("mark-{}", self.marks.fetch_add(1, Ordering::Relaxed));
        self.run(&["ECHO", &mark]);
        let seen = || monitor.lines.lock().unwrap().clone();
        super::until("the end of what is monitored", || {
            seen().last().is_some_and(|line| line.contains(&mark))
        });
        // Those of the harness, and nobody else's, come over the socket file.
        let ours = format!("unix:{}", self.unix_path().display());
        seen().into_iter().filter(|line| !line.contains(&ours)).collect()
    }

    /// Sends a command on a connection that is closed without waiting for the answer, which may never come.
    pub(crate) fn send_only(&self, arguments: &[&str]) -> std::os::unix::net::UnixStream {
        use std::io::Write;
        let mut stream = std::os::unix::net::UnixStream::connect(self.unix_path()).unwrap();
        stream.write_all(&encode(arguments)).unwrap();
        stream
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// An answer of `INFO` as pairs.
fn pairs(info: &str) -> BTreeMap<String, String> {
    let pairs = info.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

fn spawn(setup: &Setup, port: u16, dir: &Path) -> Child {
    let mut command: Command = setup.flavour.command();
    let configuration = dir.join("configuration");
    if let Some(text) = &setup.configuration {
        // Written once: what the server changed in it survives a restart.
        if !configuration.exists() {
            fs::write(&configuration, text).unwrap();
        }
        command.arg(&configuration);
    }
    let port = port.to_string();
    let ports = if setup.tls { ["0", port.as_str()] } else { [port.as_str(), "0"] };
    command.args(["--port", ports[0], "--bind", "127.0.0.1", "--daemonize", "no"]);
    if setup.tls {
        command.args(["--tls-port", ports[1]]);
    }
    if setup.sentinel {
        command.arg("--sentinel");
    } else {
        command.args(["--save", "", "--appendonly", "no"]);
    }
    if let Some(password) = &setup.password {
        command.args(["--requirepass", password]);
    }
    command.arg("--dir").arg(dir).arg("--logfile").arg(dir.join("log"));
    command.arg("--unixsocket").arg(dir.join("socket"));
    command.args(&setup.arguments);
    command.envs(setup.surroundings.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| {
        panic!("{} cannot be started: {error}", setup.flavour.program().display())
    })
}
