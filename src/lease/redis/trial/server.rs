//! Starts a server of our own on a free port, and ends it.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::lease::redis::{
    fault::Fault,
    link::{Link, LinkSettings},
    url::Target,
    wait,
};

pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
    arguments: Vec<String>,
    folder: tempfile::TempDir,
}

/// `FIELDLEASE_REDIS_SERVER`, else what `./test.sh` installs, else `redis-server` on the path. Without any of them the
/// tests fail, they are not skipped.
pub(super) fn binary() -> String {
    let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/target/servers/redis-server");
    let ours = || std::path::Path::new(ours).exists().then(|| ours.to_owned());
    let named = std::env::var("FIELDLEASE_REDIS_SERVER").ok();
    named.or_else(ours).unwrap_or_else(|| "redis-server".to_owned())
}

pub(super) fn free_port() -> u16 {
    // Below the range the system gives to clients, so that nobody takes it in between; a cluster adds 10000.
    loop {
        let port = 10_000 + u16::try_from(getrandom::u32().unwrap() % 12_000).unwrap();
        let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if free(port) && free(port + 10_000) {
            return port;
        }
    }
}

impl Server {
    pub(super) fn start(arguments: &[&str]) -> Self {
        Self::start_at(free_port(), arguments)
    }

    fn start_at(port: u16, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut all = vec!["--save", "", "--appendonly", "no"];
        all.extend(arguments);
        Self::start_configured(port, folder, &all)
    }

    /// With a configuration file of its own in the folder.
    pub(super) fn start_configured(
        port: u16,
        folder: tempfile::TempDir,
        arguments: &[&str],
    ) -> Self {
        let mut all: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        all.extend(["--port".to_owned(), port.to_string()]);
        all.extend(["--dir".to_owned(), folder.path().to_string_lossy().into_owned()]);
        all.extend(["--bind", "127.0.0.1"].map(str::to_owned));
        let child = spawn(&all);
        let server = Self { child, port, arguments: all, folder };
        server.wait();
        server
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(super) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// How many connections of ours the server has.
    pub(super) fn ours(&self) -> usize {
        self.tell("CLIENT LIST").matches("name=fieldlease").count()
    }

    /// A number in `INFO`, or in a field of it: `cmdstat_auth` `failed_calls`.
    pub(super) fn info(&self, key: &str, field: Option<&str>) -> u64 {
        let all = self.tell("INFO all");
        let line = all.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let Some(line) = line else { return 0 };
        let value = match field {
            None => line,
            Some(field) => {
                let mut parts = line.split(',');
                parts.find_map(|part| part.strip_prefix(field)?.strip_prefix('=')).unwrap()
            }
        };
        value.trim().parse().unwrap()
    }

    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(super) fn restart(&mut self) {
        self.child = spawn(&self.arguments);
        self.wait();
    }

    /// Before it answers.
    pub(super) fn restart_unready(&mut self) {
        self.child = spawn(&self.arguments);
    }

    /// For the next start.
    pub(super) fn push_arguments(&mut self, arguments: &[&str]) {
        self.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    }

    pub(super) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Over a socket of its own, in the inline form: `CONFIG SET x y`.
    pub(super) fn tell(&self, line: &str) -> String {
        tell(self.port, line).unwrap()
    }

    fn wait(&self) {
        let pid = format!("process_id:{}", self.child.id());
        until("the server is up and ours", || {
            // With a password set it answers NOAUTH; then the port must do.
            tell(self.port, "INFO server")
                .is_ok_and(|answer| answer.contains(&pid) || answer.contains("NOAUTH"))
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(arguments: &[String]) -> Child {
    let binary = binary();
    let mut command = Command::new(&binary);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| {
        panic!("cannot start `{binary}`: {error}; install it or set FIELDLEASE_REDIS_SERVER")
    })
}

/// One command, several when separated by line ends; everything the server answers to them and to a final PING.
pub(super) fn tell(port: u16, lines: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "{lines}\r\nECHO the-end\r\n")?;
    let mut reader = BufReader::new(stream);
    let mut all = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.contains("the-end") {
            return Ok(all);
        }
        all.push_str(&line);
        // Without a password nothing else will be answered either.
        if line.starts_with("-NOAUTH") {
            return Ok(all);
        }
    }
}

/// Until it is so; fails after a time no healthy machine needs.
#[expect(clippy::disallowed_methods, reason = "real servers take real time")]
pub(super) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(30), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(super) fn echo(text: &str) -> redis::Cmd {
    let mut command = redis::cmd("ECHO");
    command.arg(text);
    command
}

pub(super) fn set(key: &str, value: &str) -> redis::Cmd {
    let mut command = redis::cmd("SET");
    command.arg(key).arg(value);
    command
}

pub(super) fn bulk(text: &str) -> redis::Value {
    redis::Value::BulkString(text.as_bytes().to_vec())
}

pub(super) async fn connect(url: &str) -> Link {
    Link::connect(&target(url), settings()).await.unwrap()
}

/// Sends until it succeeds, and returns the faults on the way.
pub(super) async fn eventually(link: &Link, slot: u16, command: &redis::Cmd) -> Vec<Fault> {
    let mut faults = Vec::new();
    let start = tokio::time::Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        match link.send(slot, command, None).await {
            Ok(_) => return faults,
            Err(fault) => faults.push(fault),
        }
        wait::pause(Duration::from_millis(10)).await;
    }
    panic!("never came back: {:?}", faults.last());
}

pub(super) fn target(url: &str) -> Target {
    Target::parse(url).unwrap_or_else(|error| panic!("{error}"))
}

pub(super) fn settings() -> LinkSettings {
    LinkSettings {
        response_timeout: Duration::from_millis(400),
        connect_timeout: Duration::from_secs(2),
        ..LinkSettings::default()
    }
}
