//! Editors and workers at one service, each with a log of what it sent and what it was told.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicUsize, Ordering},
};

use fieldlease::{
    clock::{Clock, SystemClock},
    entity::{EntityRef, Value, Writer},
    path::Path,
    scope::ScopeName,
    testing::checker::{Save, Told},
    token::{Fence, OperationId},
};
use serde_json::{Value as Json, json};

use crate::{
    Dice, PATIENCE,
    service::{Answer, Service, answer, request},
};

/// The records; those of [`MORTAL`] are deleted and made again.
pub(crate) const IDS: [&str; 4] = ["1", "2", "3", "4"];
const MORTAL: [&str; 2] = ["3", "4"];

/// Every field that is written.
pub(crate) const UNITS: [&str; 6] = ["name", "description", "thumbnail", "width", "cost", "stock"];
/// Fields of workers: a delete does not compare what it removes of them.
pub(crate) const SYSTEM: [&str; 3] = ["thumbnail", "width", "cost"];

pub(crate) fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}

pub(crate) fn product(id: &str) -> EntityRef {
    EntityRef::new("Product", id).unwrap()
}

fn route(id: &str) -> String {
    format!("/v1/entities/Product/{id}")
}

fn everything(value: impl Fn(&str) -> Value) -> BTreeMap<Path, Value> {
    UNITS.iter().map(|unit| (path(unit), value(unit))).collect()
}

/// How a save is found in the history when its operation was never told.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    /// The value it left there; nobody else writes it.
    Value(&'static str, String),
    /// Its job's name.
    Job(String),
    /// It is a delete. A writer has one save on its way at most.
    Delete,
}

/// One save: logged when it is sent, and again when its answer comes.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) save: Save,
    pub(crate) mark: Mark,
}

/// Why there is no answer.
enum NoAnswer {
    /// Nobody listens: the request was not sent.
    NotSent,
    /// The connection ended first: whether the request took effect is not known.
    Cut,
}

/// Asks a service that may end at any moment. Part of an answer is none.
fn ask(
    service: &Service,
    token: &str,
    method: &str,
    route: &str,
    body: Option<Json>,
) -> Result<Answer, NoAnswer> {
    let connected = TcpStream::connect_timeout(&service.address, PATIENCE);
    let mut stream = connected.map_err(|_| NoAnswer::NotSent)?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.write_all(request(token, method, route, &[], body).as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).map_err(|_| NoAnswer::Cut)?;
    let whole = answer(&text).filter(|whole| {
        let length = whole.header("content-length").and_then(|length| length.parse().ok());
        length == text.split_once("\r\n\r\n").map(|(_, body)| body.len())
    });
    whole.ok_or(NoAnswer::Cut)
}

/// What all clients of a service share.
#[derive(Default)]
pub(crate) struct Shared {
    /// Saves acknowledged.
    pub(crate) acknowledged: AtomicUsize,
    /// Leases held by clients.
    pub(crate) leases: AtomicUsize,
}

/// One writer with connections of its own.
pub(crate) struct Client<'a> {
    service: &'a Service,
    shared: &'a Shared,
    process: u32,
    token: &'static str,
    writer: Writer,
    dice: Dice,
    /// Makes values unique over restarts.
    round: u64,
    count: u64,
    pub(crate) sent: Vec<Sent>,
    /// Highest fence seen, by record and scope.
    pub(crate) fences: BTreeMap<(EntityRef, ScopeName), Fence>,
}

/// `None`: the service is gone.
type Step = Option<()>;

/// What a client does over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Edit,
    Compute,
    Price,
    Count,
}

/// Everybody who writes.
pub(crate) const CAST: [(&str, Part); 7] = [
    ("anna", Part::Edit),
    ("ben", Part::Edit),
    ("thumbs", Part::Compute),
    ("thumbs2", Part::Compute),
    ("prices", Part::Price),
    ("any", Part::Count),
    ("any", Part::Count),
];

impl<'a> Client<'a> {
    pub(crate) fn new(
        service: &'a Service,
        shared: &'a Shared,
        place: usize,
        round: u64,
        seed: u64,
    ) -> Self {
        let (token, part) = CAST[place];
        let process = u32::try_from(place).unwrap();
        let writer = match part {
            Part::Edit => Writer::editor(token),
            Part::Compute | Part::Price | Part::Count => Writer::worker(token),
        };
        let dice = Dice::new(seed, round * 100 + u64::from(process));
        let (sent, fences) = (Vec::new(), BTreeMap::new());
        Self { service, shared, process, token, writer, dice, round, count: 0, sent, fences }
    }

    /// Goes on until the service is gone or `enough` is true.
    pub(crate) fn play(mut self, enough: impl Fn() -> bool) -> Self {
        let mut going = true;
        while going && !enough() {
            going = match CAST[self.process as usize].1 {
                Part::Edit => self.edit(),
                Part::Compute => self.compute(),
                Part::Price => self.price(),
                Part::Count => self.count(),
            }
            .is_some();
        }
        self
    }

    fn ask(&self, method: &str, route: &str, body: Option<Json>) -> Option<Answer> {
        ask(self.service, self.token, method, route, body).ok()
    }

    fn unique(&mut self) -> String {
        self.count += 1;
        format!("{}-{}-{}-{}", self.token, self.process, self.round, self.count)
    }

    fn pick(&mut self) -> &'static str {
        IDS[usize::try_from(self.dice.below(IDS.len() as u64)).unwrap()]
    }

    fn started(&self, id: &str) -> Save {
        let now = SystemClock.now();
        Save {
            process: self.process,
            writer: self.writer.clone(),
            entity: product(id),
            key: None,
            read: now,
            invoked: now,
            returned: now,
            shown: everything(|_| Value::Absent),
            wanted: BTreeMap::new(),
            fences: BTreeMap::new(),
            told: Told::Unknown(None),
        }
    }

    /// Logs the save, sends it, and logs what came back.
    fn send(
        &mut self,
        mut save: Save,
        mark: Mark,
        method: &str,
        route: &str,
        body: Json,
    ) -> Option<Answer> {
        save.invoked = SystemClock.now();
        self.sent.push(Sent { save, mark });
        let answer = ask(self.service, self.token, method, route, Some(body));
        let returned = SystemClock.now();
        match answer {
            Ok(answer) => {
                let save = &mut self.sent.last_mut().unwrap().save;
                save.returned = returned;
                save.told = told(&answer);
                if matches!(save.told, Told::Applied(_)) {
                    self.shared.acknowledged.fetch_add(1, Ordering::Relaxed);
                }
                Some(answer)
            }
            Err(NoAnswer::Cut) => None,
            Err(NoAnswer::NotSent) => {
                self.sent.pop();
                None
            }
        }
    }

    /// An editor: makes the record, changes both texts of the form, or deletes it.
    fn edit(&mut self) -> Step {
        let id = self.pick();
        let read = SystemClock.now();
        let seen = self.ask("GET", &route(id), None)?;
        if seen.status != 200 {
            return self.create(id).map(drop);
        }
        let mut save = self.started(id);
        save.read = read;
        save.shown = everything(|unit| value(&seen.body["fields"], unit));
        let token = seen.text("edit_token");
        if MORTAL.contains(&id) && self.dice.below(6) == 0 {
            save.wanted = everything(|_| Value::Absent);
            let body = json!({"edit_token": token});
            return self.send(save, Mark::Delete, "DELETE", &route(id), body).map(drop);
        }
        let text = self.unique();
        save.wanted = both("name", "description", &text);
        let body = json!({
            "changes": {"name": text, "description": text}, "edit_token": token,
        });
        let mark = Mark::Value("name", text);
        self.send(save, mark, "POST", &format!("{}/save", route(id)), body).map(drop)
    }

    fn create(&mut self, id: &str) -> Option<Answer> {
        let mut save = self.started(id);
        let text = self.unique();
        save.wanted = both("name", "description", &text);
        let body = json!({"changes": {"name": text, "description": text}});
        self.send(save, Mark::Value("name", text), "POST", &route(id), body)
    }

    /// A worker under a lease of its own. One in four is not given back.
    fn compute(&mut self) -> Step {
        let id = self.pick();
        let Some((lease, _)) = self.claim(id, &["media"], 300)? else { return Some(()) };
        if self.dice.below(4) > 0 {
            self.ask("DELETE", &format!("/v1/leases/{lease}"), None)?;
            self.shared.leases.fetch_sub(1, Ordering::Relaxed);
        }
        Some(())
    }

    /// Claims groups and saves the picture under the claim. `None` inside: not granted, or refused.
    fn claim(
        &mut self,
        id: &str,
        groups: &[&str],
        wait_ms: u64,
    ) -> Option<Option<(String, Answer)>> {
        let entity = json!({"type": "Product", "id": id});
        let ask = json!({"entity": entity, "groups": groups, "ttl_ms": 200, "wait_ms": wait_ms});
        let read = SystemClock.now();
        let granted = self.ask("POST", "/v1/leases", Some(ask))?;
        if granted.status != 201 {
            assert!(matches!(granted.status, 404 | 410 | 423), "{granted:?}");
            return Some(None);
        }
        self.shared.leases.fetch_add(1, Ordering::Relaxed);
        let lease = granted.text("lease");
        let mut save = self.started(id);
        save.read = read;
        save.shown = everything(|unit| value(&granted.body["fields"], unit));
        for (scope, fence) in granted.body["fences"].as_object().unwrap() {
            let (scope, fence) = (ScopeName::parse(scope).unwrap(), Fence(fence.as_u64().unwrap()));
            let highest = self.fences.entry((product(id), scope.clone())).or_default();
            *highest = (*highest).max(fence);
            save.fences.insert(scope, fence);
        }
        let text = self.unique();
        save.wanted = both("thumbnail", "width", &text);
        let body = json!({
            "changes": {"thumbnail": text, "width": text}, "lease": lease, "job": text,
        });
        let mark = Mark::Value("thumbnail", text);
        let saved = self.send(save, mark, "POST", &format!("{}/save", route(id)), body)?;
        Some(Some((lease, saved)))
    }

    /// A worker that takes its lease within the save. Nobody else writes the field.
    fn price(&mut self) -> Step {
        let id = self.pick();
        let read = SystemClock.now();
        let seen = self.ask("GET", &route(id), None)?;
        if seen.status != 200 {
            return Some(());
        }
        let mut save = self.started(id);
        save.read = read;
        save.shown = everything(|unit| value(&seen.body["fields"], unit));
        let text = self.unique();
        save.wanted = [(path("cost"), Value::Present(text.clone().into()))].into();
        let body = json!({
            "changes": {"cost": text}, "edit_token": seen.text("edit_token"), "job": text,
        });
        let mark = Mark::Value("cost", text);
        self.send(save, mark, "POST", &format!("{}/save", route(id)), body).map(drop)
    }

    /// An optimistic save that needs to see nothing.
    fn count(&mut self) -> Step {
        let id = self.pick();
        self.add(id).map(drop)
    }

    fn add(&mut self, id: &str) -> Option<Answer> {
        let mut save = self.started(id);
        // Shown nothing, wanted one: the difference is what is added.
        save.wanted = [(path("stock"), Value::Present(1.into()))].into();
        let job = self.unique();
        let body = json!({"add": {"stock": 1}, "job": job});
        self.send(save, Mark::Job(job), "POST", &format!("{}/save", route(id)), body)
    }

    /// After a restart: nothing from before stands in anybody's way.
    ///
    /// The editor makes what is gone; the worker `any` then claims every group at once, without waiting, under a
    /// fence above all that were seen, saves under the claim, and adds without one.
    pub(crate) fn nothing_blocks(
        editor: &mut Self,
        any: &mut Self,
        fences: &BTreeMap<(EntityRef, ScopeName), Fence>,
    ) {
        for id in IDS {
            let seen = editor.ask("GET", &route(id), None).unwrap();
            if seen.status != 200 {
                assert!(matches!(seen.status, 404 | 410), "{seen:?}");
                let made = editor.create(id).unwrap();
                assert_eq!(made.status, 201, "{made:?}");
            }
            let claimed = any.claim(id, &["media", "pricing"], 0).unwrap();
            let (lease, saved) = claimed.unwrap_or_else(|| panic!("{id} is blocked"));
            assert_eq!(saved.status, 200, "{saved:?}");
            for (scope, fence) in &any.sent.last().unwrap().save.fences {
                let before = fences.get(&(product(id), scope.clone())).copied().unwrap_or_default();
                assert!(*fence > before, "{id} {scope}: {fence} after {before}");
            }
            let released = any.ask("DELETE", &format!("/v1/leases/{lease}"), None).unwrap();
            assert_eq!(released.status, 200, "{released:?}");
            let added = any.add(id).unwrap();
            assert_eq!(added.status, 200, "{added:?}");
        }
    }
}

fn value(fields: &Json, unit: &str) -> Value {
    fields.get(unit).map_or(Value::Absent, |json| Value::Present(json.clone()))
}

fn both(first: &str, second: &str, text: &str) -> BTreeMap<Path, Value> {
    [first, second].map(|unit| (path(unit), Value::Present(text.into()))).into()
}

fn told(answer: &Answer) -> Told {
    let operation = answer.body["operation"].as_str().and_then(OperationId::parse);
    match (answer.status, answer.body["outcome"].as_str(), answer.body["code"].as_str()) {
        (200 | 201, Some("applied"), _) => Told::Applied(operation.unwrap()),
        (200 | 201, Some("unchanged"), _) => Told::Unchanged,
        (503, _, Some("outcome_unknown")) => Told::Unknown(operation),
        (404 | 409 | 410 | 423 | 503, _, Some(_)) => {
            Told::Refused { operation, conflicts: Vec::new() }
        }
        _ => panic!("{answer:?}"),
    }
}
