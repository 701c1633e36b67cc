//! What `run` asks for: scopes, times and policy, from its arguments and the registry.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    path::Path as FilePath,
    sync::Arc,
    time::Duration,
};

use fieldlease::{
    diagnostic::Level,
    entity::EntityRef,
    hold::{AcquireAsk, Lease, WeakFence},
    lease::{Extent, TTL_MAX},
    registry::{EntityRules, Group, Locking, OnBusy},
    scope::{ScopeName, ScopeSet},
    token::Generation,
};
use rustix::process::Signal;
use serde_json::{Map, Value as Json, json};

use super::{Args, signals};
use crate::{
    history::entity,
    leases::scope_name,
    output::{Failure, Output, Result},
    registry_file,
};

/// Time to live where neither argument nor registry says one.
const TTL: Duration = Duration::from_secs(30);
/// Policy where neither argument nor registry says one.
const ON_BUSY: OnBusy = OnBusy::Wait(Duration::from_secs(5));
/// What to write instead of a policy that is none.
const POLICIES: &str = "write skip, fail, 'wait 5s' or 'retry 3 backoff 100ms..2s'";
/// Longest label.
const LABEL_CHARS_MAX: usize = 200;

/// Everything asked for.
pub(super) struct Wanted {
    pub(super) ask: AcquireAsk,
    pub(super) kill_after: Duration,
    pub(super) signal_on_loss: Signal,
}

/// What the arguments say, read by the registry's own grammar.
struct Said {
    ttl: Option<Duration>,
    max_hold: Option<Duration>,
    on_busy: Option<OnBusy>,
}

impl Wanted {
    pub(super) fn of(args: &Args, output: Output) -> Result<Self> {
        let entity = entity(&args.entity)?;
        let said = said(args)?;
        let rules =
            args.registry.as_deref().map(|file| rules(file, &entity, output)).transpose()?;
        let rules = rules.as_deref();
        let scopes = scopes(args, rules)?;
        let named = scopes.iter().map(ScopeName::group_name);
        let groups: Vec<&Arc<Group>> = match rules {
            Some(rules) => named.filter_map(|name| rules.groups.get(name)).collect(),
            None => Vec::new(),
        };
        let longest = groups.iter().map(|group| group.ttl).max();
        let ttl = said.ttl.or(longest).unwrap_or(TTL);
        let max_hold = said.max_hold.or(groups.iter().map(|group| group.max_hold).min());
        let policy = groups.first().map_or(ON_BUSY, |group| group.on_busy);
        let policy = match (said.on_busy.unwrap_or(policy), said.on_busy.is_some()) {
            (OnBusy::Enqueue, true) => return Err(no_queue()),
            // What the group says of saves; a command cannot be kept for later.
            (OnBusy::Enqueue, false) => OnBusy::Fail,
            (policy, _) => policy,
        };
        let set = ScopeSet::new(entity, scopes);
        let ask = AcquireAsk {
            extent: if args.whole { Extent::Whole(set) } else { Extent::Groups(set) },
            ttl,
            // Nobody's bound is known without a registry, and a lease of another caller must not be cut to ours.
            ttl_max: longest.map_or(TTL_MAX, |longest| longest.max(ttl)),
            max_hold: max_hold.unwrap_or(Duration::MAX),
            on_busy: policy,
            label: label(args),
            generation: rules.map_or(Generation([0; 32]), |rules| rules.generation),
            reentrant: false,
            owner: None,
        };
        let kill_after = time("kill-after", &args.kill_after)?;
        Ok(Self { ask, kill_after, signal_on_loss: signals::named(&args.signal_on_loss)? })
    }

    /// What the command is told.
    pub(super) fn environment(&self, fence: WeakFence) -> BTreeMap<&'static str, String> {
        let (entity, ttl_ms) = (self.ask.extent.entity(), self.ask.ttl.as_millis().to_string());
        BTreeMap::from([
            ("FIELDLEASE_ENTITY", format!("{}/{}", entity.kind, entity.id.as_str())),
            ("FIELDLEASE_GROUPS", self.groups().join(" ")),
            ("FIELDLEASE_TTL_MS", ttl_ms),
            ("FIELDLEASE_FENCE", fence.to_string()),
        ])
    }

    /// The lease, for programs.
    pub(super) fn described(&self, lease: &Lease, fence: WeakFence) -> Json {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        json!({
            "entity": self.ask.extent.entity(),
            "groups": self.groups(),
            "fence": fence,
            "ttl_ms": ms(self.ask.ttl),
            "waited_ms": ms(lease.waited()),
        })
    }

    fn groups(&self) -> Vec<String> {
        self.ask.extent.scopes().names().iter().map(ToString::to_string).collect()
    }
}

/// Which scopes: those named, or every unsplit leased group of the type.
fn scopes(args: &Args, rules: Option<&EntityRules>) -> Result<BTreeSet<ScopeName>> {
    let named: BTreeSet<ScopeName> =
        args.groups.iter().map(|text| scope_name(text)).collect::<Result<_>>()?;
    match rules {
        Some(rules) if args.whole => {
            if !named.is_empty() {
                let help = "leave the groups out, or leave --whole out";
                return Err(Failure::new("bad_scope", "--whole takes all groups", help));
            }
            let leased = rules.groups.values().filter(|group| group.locking == Locking::Lease);
            let unsplit = leased.filter(|group| group.split_by.is_empty());
            Ok(unsplit.map(|group| ScopeName::group(group.name.clone())).collect())
        }
        Some(rules) => {
            named.iter().try_for_each(|scope| check(scope, rules))?;
            some(named)
        }
        None => some(named),
    }
}

fn some(scopes: BTreeSet<ScopeName>) -> Result<BTreeSet<ScopeName>> {
    if scopes.is_empty() {
        let help = "name one: `fieldlease run Job/nightly import -- ./import.sh`";
        return Err(Failure::new("no_groups", "no group is named", help));
    }
    Ok(scopes)
}

/// A scope must be one that writers of this registry lease as well.
fn check(scope: &ScopeName, rules: &EntityRules) -> Result<()> {
    let leased = rules.groups.get(scope.group_name()).is_some_and(|group| {
        let axes: BTreeSet<&str> = scope.axes().iter().map(|(axis, _)| &**axis).collect();
        let split: BTreeSet<&str> = group.split_by.iter().map(|axis| &**axis).collect();
        group.locking == Locking::Lease && axes == split
    });
    if leased {
        return Ok(());
    }
    let message = format!("`{scope}` is not a leased scope of `{}`", rules.kind);
    Err(Failure::new("bad_scope", message, "`fieldlease explain` shows the scope of a field"))
}

fn rules(file: &FilePath, entity: &EntityRef, output: Output) -> Result<Arc<EntityRules>> {
    let registry = registry_file::must_load_file(file, output)?;
    registry.entity(entity.kind.as_str()).cloned().ok_or_else(|| {
        let message = format!("the registry has no type `{}`", entity.kind);
        Failure::new("unknown_type", message, "")
    })
}

/// Times and policy by the grammar of the registry, as one with nothing else in it.
fn said(args: &Args) -> Result<Said> {
    let given = [("ttl", &args.ttl), ("max_hold", &args.max_hold), ("on_busy", &args.on_busy)];
    let members = given.iter().filter_map(|(name, text)| Some((*name, text.as_deref()?)));
    let group = read_group(members).map_err(|failure| of_policy(args, failure))?;
    Ok(Said {
        ttl: args.ttl.as_ref().map(|_| group.ttl),
        max_hold: args.max_hold.as_ref().map(|_| group.max_hold),
        on_busy: args.on_busy.as_ref().map(|_| group.on_busy),
    })
}

/// One time, by the same grammar.
fn time(name: &str, text: &str) -> Result<Duration> {
    match read_group([("on_busy", format!("wait {text}").as_str())].into_iter())?.on_busy {
        OnBusy::Wait(time) => Ok(time),
        _ => Err(Failure::new("bad_duration", format!("`--{name}` is not a time"), "")),
    }
}

fn read_group<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Group> {
    let mut group: Map<String, Json> =
        members.map(|(name, text)| (name.to_owned(), text.into())).collect();
    group.insert("fields".to_owned(), json!(["field"]));
    let registry = json!({"field_ownership": {"Command": {"system_owned": {"command": group}}}});
    let (registry, faults) = registry_file::read(registry.to_string().as_bytes());
    let read = registry.as_ref().and_then(|registry| registry.entity("Command"));
    let read = read.and_then(|rules| rules.groups.get("command"));
    read.map(|group| Group::clone(group)).ok_or_else(|| {
        let first = faults.into_iter().find(|fault| fault.level == Level::Error);
        first.map_or_else(
            || Failure::new("internal", "the times cannot be read", ""),
            |fault| Failure::new(fault.code, fault.message, fault.help),
        )
    })
}

/// The registry's words about a policy, without those that are of use in a registry only.
fn of_policy(args: &Args, mut failure: Failure) -> Failure {
    let Some(policy) = args.on_busy.as_deref() else { return failure };
    if matches!(policy.trim(), "wait" | "retry") {
        failure.message = format!("`{}` is not a whole policy: a shell divides it", policy.trim());
        failure.help =
            "put it in quotes: --on-busy 'wait 5s', or 'retry 3 backoff 100ms..2s'".into();
    } else if failure.help.contains("enqueue") {
        failure.help = POLICIES.to_owned();
    }
    failure
}

fn no_queue() -> Failure {
    Failure::new("bad_on_busy", "`enqueue` keeps saves, and cannot keep a command", POLICIES)
}

fn label(args: &Args) -> Arc<str> {
    let label = args.label.clone().unwrap_or_else(|| {
        let command = args.command.first().map(OsString::as_os_str).unwrap_or_default();
        let name = FilePath::new(command).file_name().unwrap_or(command).display().to_string();
        let system = rustix::system::uname();
        format!("{name}@{}:{}", system.nodename().to_string_lossy(), std::process::id())
    });
    label.chars().take(LABEL_CHARS_MAX).collect::<String>().into()
}
