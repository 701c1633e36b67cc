//! Reads a URL. Where a part is wrong, the error names its kind and says what to write instead. The part itself is never
//! repeated: where a `@` or `:` is missing, a password stands where a host, port or scheme was expected.

use std::{path::PathBuf, sync::Arc};

use crate::{
    error::{Error, Result},
    lease::redis::url::{Access, Address, Password, Sentinels, Server, Target, TlsFiles},
};

/// The parts of a URL after its scheme, still encoded where they may be.
struct Parts<'a> {
    user: Option<String>,
    password: Option<String>,
    hosts: &'a str,
    path: &'a str,
    query: Query,
}

/// The query, each key once; what is not taken in the end is an error.
struct Query(Vec<(String, String)>);

/// What a scheme stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Unix,
    Sentinel,
    Cluster,
    Quorum,
}

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
/// What may stand after `?`.
const WORDS: &[&str] = &[
    "db",
    "password_file",
    "ca",
    "cert",
    "key",
    "sentinel_user",
    "sentinel_password",
    "sentinel_password_file",
];

impl Target {
    /// Reads a URL.
    ///
    /// # Errors
    /// `bad_url`, naming the part that is wrong. The text of the URL is never repeated, because it may hold a
    /// password.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| {
            wrong(
                "the address of a server has no scheme",
                "begin it with `redis://` or `rediss://`",
            )
        })?;
        let (kind, tls) = kind_of(scheme)?;
        let mut parts = Parts::of(rest)?;
        let tls = tls_files(tls, &mut parts.query)?;
        let sentinel_access = match kind {
            Kind::Sentinel => Some(sentinel_access(&mut parts.query, tls.clone())?),
            _ => None,
        };
        let in_query = parts.query.take("db");
        let in_path = match kind {
            Kind::Unix | Kind::Sentinel => None,
            _ => Some(parts.path.trim_matches('/')).filter(|path| !path.is_empty()),
        };
        let database = match (in_path, in_query.as_deref()) {
            (Some(_), Some(_)) => {
                return Err(wrong("the database is given twice", "keep `/NUMBER` or `db=NUMBER`"));
            }
            (number, None) | (None, number) => number.map_or(Ok(0), database)?,
        };
        let password = password(parts.password.take(), "password_file", &mut parts.query)?;
        let user = parts.user.take();
        if user.is_some() && password == Password::None {
            return Err(wrong(
                "a user is given without a password",
                "write `redis://:PASSWORD@HOST` or `redis://USER:PASSWORD@HOST`; a user alone goes with \
                 `?password_file=FILE`",
            ));
        }
        let access = Access { user, password, database, tls };
        parts.query.done()?;
        Self::build(kind, &parts, access, sentinel_access)
    }

    fn build(
        kind: Kind,
        parts: &Parts<'_>,
        access: Access,
        sentinel_access: Option<Access>,
    ) -> Result<Self> {
        if kind == Kind::Unix {
            return unix(parts, access);
        }
        let port = if kind == Kind::Sentinel { SENTINEL_PORT } else { PORT };
        let addresses = addresses(parts.hosts, port)?;
        let database = access.database;
        let access = Arc::new(access);
        let servers = |access: &Arc<Access>| -> Vec<Server> {
            let server =
                |address: &Address| Server { address: address.clone(), access: Arc::clone(access) };
            addresses.iter().map(server).collect()
        };
        match (kind, sentinel_access, servers(&access)) {
            (Kind::Sentinel, Some(own), _) => Ok(Self::Sentinel(Sentinels {
                servers: servers(&Arc::new(own)),
                primary: primary_name(parts.path)?,
                access,
            })),
            (Kind::Quorum, _, servers) => {
                if servers.len() < 2 {
                    return Err(wrong(
                        "a quorum of one server protects against nothing",
                        "list three or five independent servers: `redis+quorum://a:6379,b:6379,c:6379`",
                    ));
                }
                Ok(Self::Quorum(servers.into_iter().map(Self::Single).collect()))
            }
            (Kind::Plain, _, mut servers) if servers.len() == 1 => match servers.pop() {
                Some(server) => Ok(Self::Single(server)),
                None => Err(wrong("no host is given", "write `redis://HOST:PORT`")),
            },
            (_, _, servers) => {
                if database != 0 {
                    return Err(wrong(
                        "a cluster has no database other than 0",
                        "leave the database out, or name one server",
                    ));
                }
                Ok(Self::Cluster(servers))
            }
        }
    }
}

impl<'a> Parts<'a> {
    fn of(rest: &'a str) -> Result<Self> {
        if rest.contains('#') {
            return Err(wrong(
                "the address of a server ends in a part after `#`, which means nothing here",
                "write `%23` for a `#` in a password; certificates are always checked, name yours with `ca=FILE`",
            ));
        }
        let (front, query) = rest.split_once('?').unwrap_or((rest, ""));
        let start = front.find('/').unwrap_or(front.len());
        let (authority, path) = front.split_at_checked(start).unwrap_or((front, ""));
        // Probably a password with a `/` or `?` in it: what was taken for hosts must not be repeated.
        if path.contains('@') || query.contains('@') {
            return Err(wrong(
                "a `@` stands after the first `/` or `?`",
                "in a user name or password write `%2F` for `/` and `%3F` for `?`; elsewhere write `%40` for `@`",
            ));
        }
        let (who, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match who.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (who, None),
        };
        let user = decode(user, "user name")?;
        let password = password.map(|text| decode(text, "password")).transpose()?;
        Ok(Self {
            user: Some(user).filter(|user| !user.is_empty()),
            password: password.filter(|password| !password.is_empty()),
            hosts,
            path,
            query: Query::of(query)?,
        })
    }
}

impl Query {
    fn of(text: &str) -> Result<Self> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            // Other words are not repeated: one may be the rest of a password.
            let what = WORDS.iter().find(|known| **known == key).map_or_else(
                || "word after `?`".to_owned(),
                |known| format!("`{known}` after `?`"),
            );
            if pairs.iter().any(|(known, _)| known == key) {
                return Err(wrong(format!("the {what} is given twice"), "keep one of them"));
            }
            pairs.push((key.to_owned(), decode(value, &what)?));
        }
        Ok(Self(pairs))
    }

    fn take(&mut self, key: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == key)?;
        Some(self.0.swap_remove(at).1)
    }

    fn path(&mut self, key: &str) -> Result<Option<PathBuf>> {
        match self.take(key) {
            Some(file) if file.is_empty() => {
                Err(wrong(format!("`{key}` names no file"), format!("write `{key}=FILE`")))
            }
            file => Ok(file.map(PathBuf::from)),
        }
    }

    fn done(&self) -> Result<()> {
        match self.0.first() {
            None => Ok(()),
            // Not repeated: it may be the rest of a password with a `&` in it.
            Some(_) => Err(wrong(
                "a word after `?` is not a setting of this kind of address",
                "after `?`: `db`, `password_file`; with TLS `ca`, `cert`, `key`; with sentinels `sentinel_user`, \
                 `sentinel_password`, `sentinel_password_file`",
            )),
        }
    }
}

/// Why an address may have fallen apart in the wrong place.
const ESCAPES: &str = "a `@`, `/` or `:` in a user name or password is written `%40`, `%2F`, `%3A`";

fn wrong(message: impl Into<String>, help: impl Into<String>) -> Error {
    Error::invalid("bad_url", message, help)
}

fn kind_of(scheme: &str) -> Result<(Kind, bool)> {
    let found = match scheme {
        "redis" | "valkey" => (Kind::Plain, false),
        "rediss" | "valkeys" => (Kind::Plain, true),
        "unix" | "redis+unix" | "valkey+unix" => (Kind::Unix, false),
        "redis+sentinel" => (Kind::Sentinel, false),
        "rediss+sentinel" => (Kind::Sentinel, true),
        "redis+cluster" => (Kind::Cluster, false),
        "rediss+cluster" => (Kind::Cluster, true),
        "redis+quorum" => (Kind::Quorum, false),
        "rediss+quorum" => (Kind::Quorum, true),
        _ => {
            return Err(wrong(
                "what stands before `://` is not a kind of server known here",
                "use redis, rediss, redis+unix, redis+sentinel, redis+cluster or redis+quorum; \
                 `rediss` in front means TLS",
            ));
        }
    };
    Ok(found)
}

fn tls_files(tls: bool, query: &mut Query) -> Result<Option<TlsFiles>> {
    let (ca, cert, key) = (query.path("ca")?, query.path("cert")?, query.path("key")?);
    if !tls {
        return match (ca, cert, key) {
            (None, None, None) => Ok(None),
            _ => Err(wrong(
                "certificates are given for a connection without TLS",
                "write `rediss` in front instead of `redis`",
            )),
        };
    }
    let identity = match (cert, key) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        (Some(_), None) => {
            return Err(wrong("`cert` is given without its key", "add `key=FILE`"));
        }
        (None, Some(_)) => {
            return Err(wrong("`key` is given without its certificate", "add `cert=FILE`"));
        }
    };
    Ok(Some(TlsFiles { ca, identity }))
}

fn sentinel_access(query: &mut Query, tls: Option<TlsFiles>) -> Result<Access> {
    let given = query.take("sentinel_password").filter(|text| !text.is_empty());
    let password = password(given, "sentinel_password_file", query)?;
    let user = query.take("sentinel_user").filter(|text| !text.is_empty());
    if user.is_some() && password == Password::None {
        return Err(wrong(
            "`sentinel_user` is given without a password",
            "add `sentinel_password_file=FILE` or `sentinel_password=PASSWORD`",
        ));
    }
    Ok(Access { user, password, database: 0, tls })
}

fn password(given: Option<String>, key: &str, query: &mut Query) -> Result<Password> {
    match (given, query.path(key)?) {
        (Some(_), Some(_)) => {
            Err(wrong(format!("a password and a `{key}` are given"), "keep one of them"))
        }
        (Some(password), None) => Ok(Password::Given(password)),
        (None, Some(file)) => Ok(Password::File(file)),
        (None, None) => Ok(Password::None),
    }
}

fn database(text: &str) -> Result<u32> {
    text.parse().map_err(|_| {
        wrong("the database is not a number", "write `/0` or leave it out; ".to_owned() + ESCAPES)
    })
}

fn primary_name(path: &str) -> Result<String> {
    let help = "write it after the sentinels: `redis+sentinel://a:26379,b:26379/mymaster`";
    let name = path.trim_matches('/');
    if name.is_empty() {
        return Err(wrong("the name of the primary is missing", help));
    }
    if name.contains('/') {
        return Err(wrong("more than one name follows the sentinels", help));
    }
    decode(name, "name of the primary")
}

fn unix(parts: &Parts<'_>, access: Access) -> Result<Target> {
    if !parts.hosts.is_empty() {
        return Err(wrong(
            "a socket file has no host, but something stands before its path",
            "write three slashes: `redis+unix:///run/redis.sock`",
        ));
    }
    let path = decode(parts.path, "socket file")?;
    if path.trim_matches('/').is_empty() {
        return Err(wrong("the socket file is missing", "write `redis+unix:///run/redis.sock`"));
    }
    let address = Address::Unix(PathBuf::from(path));
    Ok(Target::Single(Server { address, access: Arc::new(access) }))
}

fn addresses(hosts: &str, port: u16) -> Result<Vec<Address>> {
    let mut found = Vec::new();
    let many = hosts.contains(',');
    for (at, text) in hosts.split(',').enumerate() {
        // Its place in the list tells which one it is; its text may be a password.
        let which = if many { format!(" of server {}", at + 1) } else { String::new() };
        let address = address(text, port, &which)?;
        if found.contains(&address) {
            return Err(wrong(
                format!("the address{which} is listed twice"),
                "list every server once",
            ));
        }
        found.push(address);
    }
    Ok(found)
}

fn address(text: &str, port: u16, which: &str) -> Result<Address> {
    let (host, port_text) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or_else(|| {
                wrong(format!("the IPv6 address{which} is not closed"), "write it as `[::1]:6379`")
            })?;
            (host, after.strip_prefix(':').or(Some(after).filter(|rest| !rest.is_empty())))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(wrong(format!("the host{which} is missing"), "write `redis://HOST:PORT`"));
    }
    let port = match port_text {
        None => port,
        Some(text) => text.parse().ok().filter(|port| *port != 0).ok_or_else(|| {
            wrong(
                format!("the port{which} is not a number from 1 to 65535"),
                "write `redis://HOST:PORT` or `redis://USER:PASSWORD@HOST:PORT`; an IPv6 address stands in brackets, \
                 `[::1]:6379`; "
                    .to_owned()
                    + ESCAPES,
            )
        })?,
    };
    let host = decode(host, "host")?;
    if !is_host(&host, text.starts_with('[')) {
        return Err(wrong(
            format!("the host{which} has a character that no host has"),
            "write `redis://HOST:PORT` or `redis://USER:PASSWORD@HOST:PORT`; ".to_owned() + ESCAPES,
        ));
    }
    Ok(Address::Tcp(host, port))
}

/// Whether it looks like a name or an address; a password that lost its `@` mostly does not.
fn is_host(text: &str, bracketed: bool) -> bool {
    text.chars().all(|letter| {
        letter.is_alphanumeric() || ".-_".contains(letter) || bracketed && ":%".contains(letter)
    })
}

/// Resolves `%41`. A `+` stays one.
fn decode(text: &str, what: &str) -> Result<String> {
    let fault = || {
        wrong(
            format!("the {what} has a `%` that is not followed by two hexadecimal digits of UTF-8"),
            "write `%25` for a percent sign",
        )
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else {
            return Err(fault());
        };
        bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
    }
    String::from_utf8(bytes).map_err(|_| fault())
}
