//! Where the server is: reads a URL once, with every password kept out of sight.

use std::{fmt, path::PathBuf};

use crate::error::{Error, Result};

const PORT: u16 = 3306;

/// A server and a database on it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) user: Option<String>,
    pub(crate) password: Password,
    pub(crate) database: String,
    pub(crate) tls: Option<TlsFiles>,
}

/// A password, or where it is kept.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) enum Password {
    #[default]
    None,
    Given(String),
    /// Read anew for every connection, so that a changed password is found.
    File(PathBuf),
}

/// Files in PEM form, read anew for every connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// Whom to trust; without it, the certificates of the machine.
    pub(crate) ca: Option<PathBuf>,
    /// Our certificate chain and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// The address and database only: fit for logs.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(socket) => write!(f, "{}/{}", socket.display(), self.database),
            None if self.host.contains(':') => {
                write!(f, "[{}]:{}/{}", self.host, self.port, self.database)
            }
            None => write!(f, "{}:{}/{}", self.host, self.port, self.database),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

/// What stands after `?`, each word once.
struct Query(Vec<(String, String)>);

impl Query {
    fn parse(text: &str) -> Result<Self> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if pairs.iter().any(|(known, _)| known == key) {
                return Err(wrong("a word after `?` is given twice", "keep one of them"));
            }
            pairs.push((key.to_owned(), decode(value, "word after `?`")?));
        }
        Ok(Self(pairs))
    }

    fn file(&mut self, key: &str) -> Result<Option<PathBuf>> {
        let Some(at) = self.0.iter().position(|(known, _)| known == key) else { return Ok(None) };
        match self.0.remove(at).1 {
            empty if empty.is_empty() => {
                Err(wrong(format!("`{key}` names no file"), format!("write `{key}=FILE`")))
            }
            path => Ok(Some(path.into())),
        }
    }

    fn finish(self) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(wrong(
            "a word after `?` is not a setting of this kind of address",
            "after `?`: `socket`, `password_file`; with TLS `ca`, `cert`, `key`",
        ))
    }
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| {
            wrong(
                "the address of the database has no scheme",
                "begin it with `mysql://` or `mysqls://`",
            )
        })?;
        let secure = match scheme {
            "mysql" | "mariadb" => false,
            "mysqls" | "mariadbs" => true,
            _ => {
                return Err(wrong(
                    "what stands before `://` is not a kind of server known here",
                    "use mysql, mariadb, or with TLS mysqls, mariadbs",
                ));
            }
        };
        let (front, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut query = Query::parse(query)?;
        let (authority, database) = front.split_once('/').unwrap_or((front, ""));
        if database.is_empty() || database.contains(['/', '@']) {
            return Err(wrong(
                "no database is named, or more than one",
                "write `mysql://USER:PASSWORD@HOST:PORT/DATABASE`; in a user name or password write `%2F` for `/`",
            ));
        }
        let (who, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match who.split_once(':') {
            Some((user, password)) => (user, Some(decode(password, "password")?)),
            None => (who, None),
        };
        let user = Some(decode(user, "user name")?).filter(|user| !user.is_empty());
        let socket = query.file("socket")?;
        let (host, port) = address(host, socket.is_some())?;
        let password =
            match (password.filter(|text| !text.is_empty()), query.file("password_file")?) {
                (None, None) => Password::None,
                (Some(given), None) => Password::Given(given),
                (None, Some(file)) => Password::File(file),
                (Some(_), Some(_)) => {
                    return Err(wrong(
                        "a password and a `password_file` are given",
                        "keep one of them",
                    ));
                }
            };
        let tls = tls(&mut query, secure, socket.is_some())?;
        query.finish()?;
        let database = decode(database, "database")?;
        Ok(Self { host, port, socket, user, password, database, tls })
    }

    pub(super) fn trust(&mut self, file: PathBuf) -> Result<()> {
        match &mut self.tls {
            Some(files) => files.ca = Some(file),
            None => return Err(plain_with_certificates()),
        }
        Ok(())
    }
}

fn tls(query: &mut Query, secure: bool, socket: bool) -> Result<Option<TlsFiles>> {
    let (ca, cert, key) = (query.file("ca")?, query.file("cert")?, query.file("key")?);
    if !secure {
        let none = ca.is_none() && cert.is_none() && key.is_none();
        return if none { Ok(None) } else { Err(plain_with_certificates()) };
    }
    if socket {
        return Err(wrong(
            "TLS is asked for over a socket file",
            "write `mysql://`: nothing leaves the machine",
        ));
    }
    let identity = match (cert, key) {
        (None, None) => None,
        (Some(cert), Some(key)) => Some((cert, key)),
        (Some(_), None) => return Err(wrong("`cert` is given without its key", "add `key=FILE`")),
        (None, Some(_)) => {
            return Err(wrong("`key` is given without its certificate", "add `cert=FILE`"));
        }
    };
    Ok(Some(TlsFiles { ca, identity }))
}

fn plain_with_certificates() -> Error {
    wrong(
        "certificates are given for a connection without TLS",
        "write `mysqls://` in front instead of `mysql://`",
    )
}

fn address(text: &str, socket: bool) -> Result<(String, u16)> {
    let help = "write `mysql://USER:PASSWORD@HOST:PORT/DATABASE`; an IPv6 address stands in brackets, \
                a `@`, `/` or `:` in a password is written `%40`, `%2F`, `%3A`";
    if text.is_empty() {
        return if socket {
            Ok(("localhost".to_owned(), PORT))
        } else {
            Err(wrong("no host is given", help))
        };
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => return Err(wrong("the IPv6 address is not closed", help)),
        },
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        None => PORT,
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| wrong("the port is not a number from 1 to 65535", help))?,
    };
    Ok((host.to_owned(), port))
}

/// Resolves `%XX`.
fn decode(text: &str, what: &str) -> Result<String> {
    let fault = || {
        wrong(
            format!("the {what} is not encoded as in a URL"),
            "write `%25` for a `%`, and `%XX` for bytes that are no printable characters",
        )
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (high, low) = (digit().ok_or_else(fault)?, digit().ok_or_else(fault)?);
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| fault())?);
    }
    String::from_utf8(bytes).map_err(|_| fault())
}

fn wrong(message: impl Into<String>, help: impl Into<String>) -> Error {
    Error::invalid("bad_url", message, help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_whole_and_shown_without_its_password() {
        let target = Target::parse("mariadb://anna:p%40ss@db.example:3307/cms").unwrap();
        assert_eq!(target.to_string(), "db.example:3307/cms");
        assert_eq!(format!("{target:?}"), "Target(db.example:3307/cms)");
        assert_eq!(target.user.as_deref(), Some("anna"));
        assert!(target.password == Password::Given("p@ss".to_owned()));

        let target = Target::parse("mysqls://a@[::1]/cms?ca=/ca.pem&password_file=/run/p").unwrap();
        assert_eq!((target.host.as_str(), target.port), ("::1", 3306));
        assert_eq!(target.tls, Some(TlsFiles { ca: Some("/ca.pem".into()), identity: None }));
        assert!(target.password == Password::File("/run/p".into()));

        let target = Target::parse("mysql://a@/cms?socket=/run/m.sock").unwrap();
        assert_eq!(target.to_string(), "/run/m.sock/cms");
    }

    #[test]
    fn a_wrong_address_names_its_part_and_never_repeats_it() {
        let cases = [
            ("db/cms", "the address of the database has no scheme"),
            ("redis://db/cms", "what stands before `://` is not a kind of server known here"),
            ("mysql://secret@db", "no database is named, or more than one"),
            ("mysql://a:sec/ret@db/cms", "no database is named, or more than one"),
            ("mysql:///cms", "no host is given"),
            ("mysql://db:0/cms", "the port is not a number from 1 to 65535"),
            ("mysql://[::1/cms", "the IPv6 address is not closed"),
            ("mysql://a:%zz@db/cms", "the password is not encoded as in a URL"),
            ("mysql://db/cms?ca=x", "certificates are given for a connection without TLS"),
            ("mysqls://db/cms?cert=x", "`cert` is given without its key"),
            ("mysqls://db/cms?key=x", "`key` is given without its certificate"),
            ("mysqls://db/cms?socket=x", "TLS is asked for over a socket file"),
            ("mysql://db/cms?socket=", "`socket` names no file"),
            (
                "mysql://a:secret@db/cms?password_file=x",
                "a password and a `password_file` are given",
            ),
            ("mysql://db/cms?socket=x&socket=y", "a word after `?` is given twice"),
            (
                "mysql://db/cms?secret=1",
                "a word after `?` is not a setting of this kind of address",
            ),
        ];

        for (url, message) in cases {
            let error = Target::parse(url).err().unwrap();
            assert_eq!((error.code(), error.to_string().as_str()), ("bad_url", message), "{url}");
            assert!(!format!("{error:?}").contains("secret"), "{url}");
        }
    }
}
