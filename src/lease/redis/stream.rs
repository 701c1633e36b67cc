//! Opens a socket to a server and says who we are: TCP, TLS or a socket file.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, PushInfo, RedisConnectionInfo, Value,
    aio::MultiplexedConnection,
    io::tcp::socket2::{SockRef, TcpKeepalive},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::mpsc::UnboundedSender,
};

use crate::lease::redis::{
    fault::{Class, Fault},
    pieces::Pieces,
    tls,
    url::{Access, Address, Password, Server},
    wait,
};

/// Requests that may wait for the connection's writer. Large, because a full one makes callers wait for each other.
const QUEUE: usize = 4_096;
/// An idle connection is probed after this long, three times at [`PROBE_EVERY`].
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;
/// Bytes nobody acknowledges for this long end the connection, should everything else have missed it.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);

/// A connection that has been let in, and the task that moves its bytes: aborting that ends every request under way.
pub(super) struct Opened {
    pub(super) connection: MultiplexedConnection,
    pub(super) driver: tokio::task::JoinHandle<()>,
    /// What the server said it is; `None` when it would not tell.
    pub(super) role: Option<Role>,
}

/// What a server is to its replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Primary,
    /// The replica of this one.
    Replica(Address),
    Sentinel,
}

/// Connects and introduces itself, in at most `limit`. With `messages`, what is published goes there.
pub(super) async fn open(
    server: &Server,
    name: &str,
    limit: Duration,
    messages: Option<UnboundedSender<PushInfo>>,
) -> Result<Opened, Fault> {
    let reached = AtomicBool::new(false);
    let attempt = connect(server, name, messages, &reached);
    match wait::within(limit, attempt).await {
        // Whatever happens while connecting, no command of ours has been sent.
        Some(Err(fault)) => {
            let hint = hint(server, &reached, &fault.code);
            let message = format!("`{}`: {}{hint}", server.address, fault.message);
            Err(Fault { class: Class::NotExecuted, message, ..fault })
        }
        Some(opened) => opened,
        None => Err(Fault::not_executed(
            "timeout",
            format!(
                "`{}` did not let us in within {limit:?}{}",
                server.address,
                hint(server, &reached, "timeout")
            ),
        )),
    }
}

/// Whoever is met by silence, a hang-up or nonsense may speak TLS where the other does not.
fn hint(server: &Server, reached: &AtomicBool, code: &str) -> &'static str {
    let puzzled = matches!(code, "io" | "protocol" | "timeout");
    match &server.access.tls {
        _ if !puzzled || !reached.load(Ordering::Relaxed) => "",
        Some(_) => "; if this server speaks no TLS, write `redis` in front (`redis://`)",
        None => "; if this server speaks TLS only, write `rediss` in front (`rediss://`)",
    }
}

async fn connect(
    server: &Server,
    name: &str,
    messages: Option<UnboundedSender<PushInfo>>,
    reached: &AtomicBool,
) -> Result<Opened, Fault> {
    let access = &server.access;
    match &server.address {
        Address::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(refused)?;
            settle(&stream).map_err(refused)?;
            reached.store(true, Ordering::Relaxed);
            match &access.tls {
                None => introduce(stream, access, name, messages).await,
                Some(files) => {
                    let stream = tls::secure(stream, host, files).await?;
                    introduce(stream, access, name, messages).await
                }
            }
        }
        #[cfg(unix)]
        Address::Unix(path) => {
            let stream = tokio::net::UnixStream::connect(path).await.map_err(refused)?;
            introduce(stream, access, name, messages).await
        }
        #[cfg(not(unix))]
        Address::Unix(_) => Err(Fault::not_executed("config", "this system has no socket files")),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form `map_err` wants")]
fn refused(error: std::io::Error) -> Fault {
    Fault::not_executed("io", format!("cannot connect: {error}"))
}

fn settle(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let probes = TcpKeepalive::new().with_time(PROBE_AFTER);
    #[cfg(any(target_os = "linux", target_os = "macos", windows))]
    let probes = probes.with_interval(PROBE_EVERY);
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    let probes = probes.with_retries(PROBES);
    socket.set_tcp_keepalive(&probes)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    Ok(())
}

/// Password, database, name and role in one round trip.
async fn introduce<S>(
    stream: S,
    access: &Access,
    name: &str,
    messages: Option<UnboundedSender<PushInfo>>,
) -> Result<Opened, Fault>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let secret = secret(access).await?;
    // The library name is not sent: Redis 7.0 has no permission by which it could be allowed.
    let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
    let mut config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(QUEUE);
    if let Some(messages) = messages {
        // Messages need RESP3, whose first command is sent by the client library.
        info = info.set_protocol(ProtocolVersion::RESP3);
        config = config.set_push_sender(messages);
        if let Some(secret) = &secret {
            info = info.set_password(secret);
            if let Some(user) = &access.user {
                info = info.set_username(user);
            }
        }
    }
    let with_hello = info.protocol() != ProtocolVersion::RESP2;
    let made = MultiplexedConnection::new_with_config(&info, Pieces::new(stream), config).await;
    let (mut connection, driver) = made.map_err(|error| Fault::of_connection(&error))?;
    let driver = tokio::spawn(driver);
    let greeting = Greeting::new(access, secret.filter(|_| !with_hello), name);
    let answers = greeting.send(&mut connection).await;
    match answers.and_then(|answers| greeting.judge(answers)) {
        Ok(role) => Ok(Opened { connection, driver, role }),
        Err(fault) => {
            driver.abort();
            Err(fault)
        }
    }
}

/// The commands of a new connection, and which of them must succeed.
struct Greeting {
    commands: Pipeline,
    must: Vec<bool>,
}

impl Greeting {
    fn new(access: &Access, secret: Option<String>, name: &str) -> Self {
        let mut greeting = Self { commands: Pipeline::new(), must: Vec::new() };
        if let Some(secret) = secret {
            let mut auth = redis::cmd("AUTH");
            if let Some(user) = &access.user {
                auth.arg(user);
            }
            auth.arg(secret);
            greeting.add(auth, true);
        }
        if access.database != 0 {
            let mut select = redis::cmd("SELECT");
            select.arg(access.database);
            greeting.add(select, true);
        }
        let mut client = redis::cmd("CLIENT");
        client.arg("SETNAME").arg(name);
        greeting.add(client, false);
        // Last, and always: its answer tells that the server talks to us at all.
        greeting.add(redis::cmd("ROLE"), true);
        greeting
    }

    fn add(&mut self, command: Cmd, must: bool) {
        self.commands.add_command(command);
        self.must.push(must);
    }

    async fn send(&self, connection: &mut MultiplexedConnection) -> Result<Vec<Value>, Fault> {
        let answers = connection.send_packed_commands(&self.commands, 0, self.must.len()).await;
        answers.map_err(|error| Fault::of_connection(&error))
    }

    fn judge(&self, answers: Vec<Value>) -> Result<Option<Role>, Fault> {
        let last = self.must.len().saturating_sub(1);
        let mut role = None;
        for (at, (answer, must)) in answers.into_iter().zip(&self.must).enumerate() {
            match answer {
                Value::ServerError(error) => {
                    let fault = Fault::of_answer(&error);
                    let not_for_us =
                        fault.code == "NOPERM" || fault.message.contains("unknown command");
                    if *must && !(at == last && not_for_us) {
                        return Err(Fault { message: fault.to_string(), ..fault });
                    }
                }
                value if at == last => role = role_of(&value),
                _ => {}
            }
        }
        Ok(role)
    }
}

fn role_of(answer: &Value) -> Option<Role> {
    let Value::Array(parts) = answer else { return None };
    let text = |at: usize| parts.get(at).and_then(text_of);
    match text(0)?.as_str() {
        "master" => Some(Role::Primary),
        "sentinel" => Some(Role::Sentinel),
        "slave" => {
            let port = match parts.get(2) {
                Some(Value::Int(port)) => u16::try_from(*port).unwrap_or(0),
                _ => 0,
            };
            Some(Role::Replica(Address::Tcp(text(1).unwrap_or_default(), port)))
        }
        _ => None,
    }
}

/// A text as servers answer it.
pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

async fn secret(access: &Access) -> Result<Option<String>, Fault> {
    match &access.password {
        Password::None => Ok(None),
        Password::Given(password) => Ok(Some(password.clone())),
        Password::File(path) => {
            let text = tokio::fs::read_to_string(path).await.map_err(|error| {
                Fault::not_executed("config", format!("cannot read `{}`: {error}", path.display()))
            })?;
            Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
        }
    }
}
