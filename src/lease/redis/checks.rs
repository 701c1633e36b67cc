//! Looks at a server before leases are trusted to it: what it would lose, what it does not allow, what is in the way.
//!
//! `facts` asks, `findings` judges and is a plain function. Everything asked is harmless: one key of our own lives
//! for a moment, and lists are looked at in bounded pieces.

mod acl;
mod facts;
mod findings;
mod sample;

use crate::{
    error::Result,
    lease::redis::{
        RedisOptions, fault::Fault, keys::Keys, link::Link, node::NodeName, settings, stream,
        stream::Role, url::Target,
    },
};

pub use crate::database::finding::{Finding, Level};

pub(crate) use self::{
    facts::{Depth, gather},
    findings::findings,
};

/// What to do about findings when connecting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checks {
    /// A server that would lose leases by design, or does not allow what is needed, is not used. The default.
    #[default]
    Refuse,
    /// It is used, and the log says what is wrong with it.
    Warn,
    /// Nobody looks.
    Off,
}

/// What there is to say about the servers of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// By server, worst first.
    pub findings: Vec<Finding>,
    /// The least a user needs, as a command for these servers: `ACL SETUSER ...`.
    pub acl: String,
}

impl Report {
    /// Whether leases cannot be trusted to these servers.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.findings.iter().any(|finding| finding.level == Level::Refuse)
    }
}

/// Looks at every server of a URL as closely as can be without harm. Takes about a second.
///
/// # Errors
/// `bad_url`, `bad_namespace`; unavailable when a server cannot be reached.
pub async fn examine(url: &str, options: &RedisOptions) -> Result<Report> {
    let keys = Keys::new(&options.namespace)?;
    let target = Target::parse(url)?;
    let targets = match target {
        Target::Quorum(targets) => targets,
        target => vec![target],
    };
    let (mut all, mut clustered, mut database) = (Vec::new(), false, false);
    for target in &targets {
        clustered |= matches!(target, Target::Cluster(_));
        database |= matches!(target, Target::Single(server) if server.access.database != 0);
        match Link::connect(target, settings(options)).await {
            Ok(link) => all.extend(look(&link, &keys, options, Depth::Thorough).await),
            Err(error) => all.push(replica(target, options).await.ok_or(error)?),
        }
    }
    all.sort_by(|a, b| (&a.place, b.level, a.code).cmp(&(&b.place, a.level, b.code)));
    Ok(Report { findings: all, acl: acl::line(&options.namespace, clustered, database) })
}

/// The findings about every primary of a link.
async fn look(link: &Link, keys: &Keys, options: &RedisOptions, depth: Depth) -> Vec<Finding> {
    let mut all = Vec::new();
    for node in link.nodes() {
        let facts = gather(link, &node, keys, options, depth).await;
        all.extend(findings(&facts, &options.namespace));
    }
    all
}

/// A server that is no primary lets nobody in; that is a finding too.
async fn replica(target: &Target, options: &RedisOptions) -> Option<Finding> {
    let Target::Single(server) = target else { return None };
    let settings = settings(options);
    let opened = stream::open(server, &settings.name, settings.connect_timeout, None).await;
    let opened = opened.ok()?;
    opened.driver.abort();
    let Some(Role::Replica(primary)) = opened.role else { return None };
    Some(Finding {
        level: Level::Refuse,
        code: "replica",
        place: server.address.to_string(),
        message: format!("it is a replica of `{primary}`: it refuses writes and shows the past"),
        remedy: "name the primary, or its sentinels with `redis+sentinel://`".to_owned(),
    })
}

/// What is done about findings at a connect.
///
/// # Errors
/// `unsafe_server` for the first finding that refuses, unless told to warn only.
pub(crate) async fn at_connect(link: &Link, keys: &Keys, options: &RedisOptions) -> Result<()> {
    if options.checks == Checks::Off {
        return Ok(());
    }
    let mut refused = None;
    for finding in look(link, keys, options, Depth::Quick).await {
        let Finding { level, code, place, message, remedy } = &finding;
        match level {
            Level::Info => tracing::debug!(code, place, remedy, "lease server: {message}"),
            _ => tracing::warn!(code, place, remedy, "lease server: {message}"),
        }
        if *level == Level::Refuse && refused.is_none() {
            refused = Some(finding);
        }
    }
    match refused.filter(|_| options.checks == Checks::Refuse) {
        None => Ok(()),
        Some(Finding { code, place, message, remedy, .. }) => Err(crate::error::Error::invalid(
            "unsafe_server",
            format!("leases cannot be trusted to `{place}` ({code}): {message}"),
            format!("{remedy}; `fieldlease doctor --redis URL` says more"),
        )),
    }
}

/// Asks one node.
async fn ask(
    link: &Link,
    node: &NodeName,
    words: &[&str],
) -> std::result::Result<redis::Value, Fault> {
    let mut command = redis::Cmd::new();
    words.iter().for_each(|word| {
        command.arg(word);
    });
    link.send_to(node, &command).await
}
