//! A real service in a process of its own, and a client that says exactly what it is told to.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value as Json, json};
use tempfile::TempDir;

/// No answer takes this long; a test that waits longer hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Rules with one group of each kind, used by every test of the service.
pub(crate) const REGISTRY: &str = "field_ownership:
  Product:
    lifecycle: {create: [editor, media], delete: [editor]}
    editor_owned: [name, description]
    system_owned:
      media: {fields: [thumbnail, width], on_busy: fail}
      pricing: {fields: [cost], on_busy: fail}
    shared:
      price: {strategy: reject}
      stock: {strategy: counter}
      tags: {strategy: set_merge}
  Order:
    editor_owned: [note]
    system_owned:
      erp: {fields: [state], on_busy: fail}
";

/// Everybody who may call, with the token that stands for them.
pub(crate) const TOKENS: &[(&str, &str)] = &[
    ("anna", "kind: editor, name: anna"),
    ("anna2", "kind: editor, name: anna"),
    ("ben", "kind: editor, name: ben"),
    ("boss", "kind: editor, name: boss, permissions: [force, break_lease, metrics]"),
    ("thumbs", "kind: worker, name: thumbs, groups: [media]"),
    ("thumbs-new", "kind: worker, name: thumbs, groups: [media]"),
    ("thumbs2", "kind: worker, name: thumbs2, groups: [media]"),
    ("prices", "kind: worker, name: prices, groups: [pricing]"),
    ("any", "kind: worker, name: any"),
    ("orders", "kind: worker, name: orders, entity_types: [Order]"),
    ("probe", "kind: worker, name: probe, entity_types: []"),
];

pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    pub(crate) dir: TempDir,
    child: Child,
    _stdout: BufReader<std::process::ChildStdout>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Json,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// The code of a problem, and that its document and status agree.
    pub(crate) fn code(&self) -> &str {
        let code = self.body["code"].as_str().unwrap_or_else(|| panic!("no problem: {self:?}"));
        assert_eq!(self.body["status"], self.status, "{self:?}");
        assert_eq!(self.body["type"], format!("urn:fieldlease:problem:{code}"));
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        code
    }

    pub(crate) fn text(&self, member: &str) -> String {
        let text = self.body[member].as_str();
        text.unwrap_or_else(|| panic!("no `{member}`: {self:?}")).to_owned()
    }
}

pub(crate) fn sha256(token: &str) -> String {
    let hash = fieldlease::server::principals::hash(token);
    hash.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(crate) fn token_file(tokens: &[(&str, &str)]) -> String {
    let lines =
        tokens.iter().map(|(token, rest)| format!("  - {{sha256: {}, {rest}}}\n", sha256(token)));
    "tokens:\n".to_owned() + &lines.collect::<String>()
}

impl Service {
    /// Starts a service on a free port with the registry and tokens above.
    pub(crate) fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), &[])
    }

    /// Starts it in a directory, on what is there already, with more arguments.
    pub(crate) fn start_in(dir: TempDir, more: &[&str]) -> Self {
        let mut command = Self::command(dir.path());
        command.args(more);
        Self::spawn(dir, command)
    }

    /// The command line, for tests that change it.
    pub(crate) fn command(dir: &Path) -> Command {
        let (registry, tokens) = (dir.join("registry.yaml"), dir.join("tokens.yaml"));
        if !registry.exists() {
            fs::write(&registry, REGISTRY).unwrap();
        }
        if !tokens.exists() {
            fs::write(&tokens, token_file(TOKENS)).unwrap();
        }
        let mut command = binary(dir);
        command.args(["serve", "--json", "--listen", "127.0.0.1:0"]);
        command.arg("--registry").arg(registry).arg("--tokens").arg(tokens);
        command.arg("--data").arg(dir.join("data"));
        command
    }

    /// Runs a command line and waits until it says where it listens.
    pub(crate) fn spawn(dir: TempDir, mut command: Command) -> Self {
        let log = fs::File::create(dir.path().join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let said: Json = serde_json::from_str(&line).unwrap_or_else(|_| {
            let log = fs::read_to_string(dir.path().join("log")).unwrap();
            panic!("the service did not start: {line}{log}")
        });
        let address = said["address"].as_str().unwrap_or_else(|| panic!("no address: {said}"));
        let address = address.trim_start_matches("http://").parse().unwrap();
        assert!(is_listener(child.id(), address), "{address} is not our child's");
        Self { address, dir, child, _stdout: stdout }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.dir.path().join("data/fieldlease.db")
    }

    /// Asks for something.
    pub(crate) fn get(&self, token: &str, route: &str) -> Answer {
        self.call(token, "GET", route, None)
    }

    /// Sends something.
    pub(crate) fn post(&self, token: &str, route: &str, body: Json) -> Answer {
        self.call(token, "POST", route, Some(body))
    }

    pub(crate) fn call(
        &self,
        token: &str,
        method: &str,
        route: &str,
        body: Option<Json>,
    ) -> Answer {
        self.call_with(token, method, route, &[], body)
    }

    pub(crate) fn call_with(
        &self,
        token: &str,
        method: &str,
        route: &str,
        headers: &[(&str, &str)],
        body: Option<Json>,
    ) -> Answer {
        let request = request(token, method, route, headers, body);
        self.raw(request.as_bytes()).unwrap_or_else(|| panic!("no answer to {method} {route}"))
    }

    /// A connection with nothing sent yet.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes as they are, and reads until the service closes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Option<Answer> {
        let mut stream = self.connect();
        // The service may answer and close before it has read everything.
        let _ = stream.write_all(bytes);
        read_answer(&mut stream)
    }

    /// Asks the process to stop and waits for its end; whether it ended well.
    pub(crate) fn stop(self) -> (bool, TempDir) {
        signal(self.pid(), "TERM");
        self.ended()
    }

    /// Waits for the end of a process that was asked to stop; whether it ended well.
    pub(crate) fn ended(mut self) -> (bool, TempDir) {
        let ended = self.child.wait().unwrap();
        let dir = std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap());
        (ended.success(), dir)
    }

    /// Makes a product for a test of its own.
    pub(crate) fn product(&self, id: &str, fields: Json) -> String {
        let route = format!("/v1/entities/Product/{id}");
        let made = self.post("boss", &route, json!({"changes": fields}));
        assert_eq!(made.status, 201, "{made:?}");
        made.text("edit_token")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Everything until the end of the connection, as an answer; `None` when nothing came.
pub(crate) fn read_answer(stream: &mut TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    // A reset after the answer is no fault.
    let _ = stream.read_to_end(&mut bytes);
    answer(&String::from_utf8(bytes).unwrap())
}

/// A response as text.
pub(crate) fn answer(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = serde_json::from_str(body).unwrap_or_else(|_| Json::from(body));
    Some(Answer { status, head: head.to_owned(), body })
}

/// Runs a service that must not start: its exit, and what it said.
pub(crate) fn refused(mut command: Command) -> (Option<i32>, Json) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Json = serde_json::from_str(&line).unwrap();
    if said.get("address").is_some() {
        child.kill().unwrap();
    }
    (child.wait().unwrap().code(), said)
}

/// A request as text.
pub(crate) fn request(
    token: &str,
    method: &str,
    route: &str,
    headers: &[(&str, &str)],
    body: Option<Json>,
) -> String {
    let mut head = format!("{method} {route} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    if !token.is_empty() {
        let _ = write!(head, "authorization: Bearer {token}\r\n");
    }
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    if !body.is_empty() {
        head.push_str("content-type: application/json\r\n");
    }
    let _ = write!(head, "content-length: {}\r\n\r\n{body}", body.len());
    head
}

/// The program, without anything from the surroundings of the test.
pub(crate) fn binary(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fieldlease"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FIELDLEASE")) {
        command.env_remove(name);
    }
    command.current_dir(dir);
    command
}

pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status().unwrap();
    assert!(sent.success());
}

/// Whether it is this process that listens there: a test never talks to somebody else's service.
#[cfg(target_os = "linux")]
fn is_listener(pid: u32, address: SocketAddr) -> bool {
    let SocketAddr::V4(address) = address else { return true };
    let ip = u32::from_ne_bytes(address.ip().octets());
    let local = format!("{ip:08X}:{:04X}", address.port());
    let sockets = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    let rows = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let ours = rows.filter(|row| row.get(1) == Some(&&*local) && row.get(3) == Some(&"0A"));
    let sockets: Vec<_> = ours.map(|row| format!("socket:[{}]", row[9])).collect();
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    files
        .filter_map(|file| fs::read_link(file.ok()?.path()).ok())
        .any(|target| sockets.iter().any(|socket| target == Path::new(socket)))
}

#[cfg(not(target_os = "linux"))]
fn is_listener(_: u32, _: SocketAddr) -> bool {
    true
}
