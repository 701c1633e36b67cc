//! Keys of jobs: made of who, what and the stamps of the inputs, so that a delivery that comes twice has the key of the
//! first, and a changed input has another.
//!
//! Stamps and not values: an image that was A, then B, then A again must be worked on three times (RULES 32).

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::{
    entity::{EntityRef, Writer},
    error::{Error, Result},
    key::{
        InputStamps, Key, KeyKind,
        text::{NAME_CHARS_MAX, check, scope},
    },
    path::{Path, Pattern, Segment},
    registry::covers,
    snapshot::Snapshot,
    token::OperationId,
};

/// Longest name of a job in a key that is built.
const JOB_CHARS_MAX: usize = 64;
/// Longest entity that a built key shows in words; a longer one is in its hash alone.
const ENTITY_CHARS_MAX: usize = 100;

/// Where a job's inputs were read: a claim, a loaded record, or a snapshot.
pub trait KeySource {
    /// The record.
    fn key_entity(&self) -> EntityRef;
    /// The stamp of every unit that has one.
    fn key_stamps(&self) -> InputStamps;
}

impl KeySource for Snapshot {
    fn key_entity(&self) -> EntityRef {
        self.entity.clone()
    }

    fn key_stamps(&self) -> InputStamps {
        let stamps = self.stamps.iter();
        stamps.map(|(path, stamp)| (path.clone(), Some(stamp.operation))).collect()
    }
}

/// A worker's name for one job: the same for every delivery of the same work, another one for other work.
///
/// ```
/// use fieldlease::key::JobKey;
///
/// // Made by a scheduler: once per night.
/// assert!(JobKey::text("nightly-export/2026-11-30").is_ok());
/// // A random name would be new for every delivery.
/// assert!(JobKey::text("7c9e6679-7425-40de-944b-e07fc1f90ae7").is_err());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a key does nothing until a save or a run is given it"]
pub struct JobKey(Made);

#[derive(Clone, Debug, PartialEq)]
enum Made {
    Text(Box<str>),
    Built(Built),
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Built {
    job: Box<str>,
    entity: Option<EntityRef>,
    stamps: Option<InputStamps>,
    inputs: Vec<Pattern>,
    content: Option<Box<str>>,
    /// The first fault of what was passed in.
    fault: Option<String>,
}

impl JobKey {
    /// A key made by the worker itself, or by its scheduler: `nightly-export/2026-11-30`.
    ///
    /// # Errors
    /// `bad_key` when it is empty, too long, or has other characters than visible ASCII; `random_key` when it is a
    /// random or time-based UUID, which is new for every delivery and so protects from nothing.
    pub fn text(text: &str) -> Result<Self> {
        check(text)?;
        if is_random(text) {
            return Err(Error::invalid(
                "random_key",
                format!(
                    "`{text}` is a random UUID: another delivery of the same job would have another"
                ),
                "build the key from the job, the record and its inputs",
            ));
        }
        Ok(Self(Made::Text(text.into())))
    }

    /// The key of one kind of job, to be built on: `JobKey::new("thumbnail").of(&claim).input("image")`.
    pub fn new(job: &str) -> Self {
        Self(Made::Built(Built { job: job.into(), ..Built::default() }))
    }

    /// The record the job is about and the stamps of its inputs, as they were read.
    pub fn of(self, source: &impl KeySource) -> Self {
        self.with(|built| {
            built.entity = Some(source.key_entity());
            built.stamps = Some(source.key_stamps());
        })
    }

    /// The record the job is about, where its stamps are not known: for [`JobKey::content`].
    pub fn about(self, entity: &EntityRef) -> Self {
        self.with(|built| built.entity = Some(entity.clone()))
    }

    /// A field the result is computed from, or a pattern of fields.
    pub fn input(self, pattern: &str) -> Self {
        self.with(|built| match Pattern::parse(pattern) {
            Ok(pattern) => built.inputs.push(pattern),
            Err(error) => {
                let shown = pattern.escape_debug();
                built.fault.get_or_insert(format!("the input `{shown}` is no path: {error}"));
            }
        })
    }

    /// A hash of the inputs' content in place of their stamps, for producers that have nothing else. A repeat is then
    /// answered only while the inputs have the stamps they had; else it is refused as `superseded_key`, for the same
    /// content may have come back (RULES 32).
    pub fn content(self, hash: impl Into<String>) -> Self {
        self.with(|built| built.content = Some(hash.into().into()))
    }

    fn with(mut self, change: impl FnOnce(&mut Built)) -> Self {
        match &mut self.0 {
            Made::Built(built) => change(built),
            // A text says everything already.
            Made::Text(text) => {
                let fault = Some(format!("the key `{text}` is complete and cannot be built on"));
                self.0 = Made::Built(Built { fault, ..Built::default() });
            }
        }
        self
    }

    /// The key as text.
    ///
    /// # Errors
    /// `bad_key` when it says too little or what it was built of is not valid.
    pub fn name(&self) -> Result<String> {
        match &self.0 {
            Made::Text(text) => Ok(text.to_string()),
            Made::Built(built) => built.name(),
        }
    }

    /// The row of this key for one worker.
    ///
    /// # Errors
    /// As [`JobKey::name`].
    pub fn key(&self, writer: &Writer) -> Result<Key> {
        let scope = scope(&format!("{}:{}", writer.kind, writer.name));
        Ok(Key { kind: KeyKind::Job, scope, name: self.name()?.into() })
    }

    /// What kind of job it is, where that is known: hashed with the record.
    #[must_use]
    pub fn job(&self) -> &str {
        match &self.0 {
            Made::Text(_) => "",
            Made::Built(built) => &built.job,
        }
    }

    /// For a key made of content: the inputs whose stamps are kept beside it.
    #[must_use]
    pub fn watched(&self) -> Option<&[Pattern]> {
        match &self.0 {
            Made::Built(built) if built.content.is_some() => Some(&built.inputs),
            _ => None,
        }
    }
}

impl Built {
    fn name(&self) -> Result<String> {
        let (entity, stamps) = self.checked()?;
        let mut hash = Sha256::new();
        let mut add = |part: &str| {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part.as_bytes());
        };
        add(&self.job);
        add(entity.kind.as_str());
        add(entity.id.as_str());
        match &self.content {
            Some(content) => {
                add("content");
                add(content);
                self.inputs.iter().for_each(|input| add(&input.to_string()));
            }
            None => {
                add("stamps");
                for (path, operation) in stamps_of(&self.inputs, stamps) {
                    add(path.as_str());
                    add(&operation.map(|operation| operation.to_string()).unwrap_or_default());
                }
            }
        }
        let mut name = format!("{}:", self.job);
        let about = format!("{}/{}", entity.kind, entity.id.as_str());
        if about.len() <= ENTITY_CHARS_MAX && about.bytes().all(|b| b.is_ascii_graphic()) {
            name.push_str(&about);
            name.push(':');
        }
        for byte in hash.finalize() {
            // Writing to a string cannot fail.
            let _written = write!(name, "{byte:02x}");
        }
        debug_assert!(name.len() <= NAME_CHARS_MAX, "bounded by the parts");
        Ok(name)
    }

    fn checked(&self) -> Result<(&EntityRef, &InputStamps)> {
        static NONE: InputStamps = InputStamps::new();
        let fault = |message: &str, help: &str| Err(Error::invalid("bad_key", message, help));
        if let Some(message) = &self.fault {
            return fault(message, "");
        }
        let graphic = self.job.bytes().all(|byte| byte.is_ascii_graphic());
        if self.job.is_empty() || self.job.len() > JOB_CHARS_MAX || !graphic {
            let help = format!("a job's name is 1 to {JOB_CHARS_MAX} visible ASCII characters");
            return fault("a job key without the name of a job", &help);
        }
        if self.inputs.is_empty() {
            let help = "name what the result is computed from: `.input(\"image\")`; for a job that has no inputs, give the whole key as text";
            return fault("a job key without inputs", help);
        }
        match (&self.entity, &self.stamps) {
            (Some(entity), Some(stamps)) => Ok((entity, stamps)),
            (Some(entity), None) if self.content.is_some() => Ok((entity, &NONE)),
            _ => fault("a job key of no record", "say where the inputs were read: `.of(&claim)`"),
        }
    }
}

/// The stamps of inputs, out of all there are. An input without any stamp is listed with `None`.
#[must_use]
pub fn stamps_of(inputs: &[Pattern], stamps: &InputStamps) -> InputStamps {
    let mut found = InputStamps::new();
    for input in inputs {
        let literal = literal(input);
        let mut any = false;
        for (path, operation) in stamps {
            // A stamp of the whole stands for its parts.
            let inside = literal.as_ref().is_some_and(|literal| literal.is_part_of(path));
            if covers(input, path) || inside {
                found.insert(path.clone(), *operation);
                any = true;
            }
        }
        if let Some(literal) = literal.filter(|_| !any) {
            found.insert(literal, None::<OperationId>);
        }
    }
    found
}

fn literal(pattern: &Pattern) -> Option<Path> {
    let plain = pattern.segments().iter().all(|segment| matches!(segment, Segment::Key(_)));
    if plain { Path::parse(&pattern.to_string()).ok() } else { None }
}

/// A UUID of a version that is random or the time: 1, 4, 6 or 7. Others are made from a name.
fn is_random(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = bytes.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    let version = bytes.get(14);
    bytes.len() == 36 && digits && version.is_some_and(|version| b"1467".contains(version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::EntityId;

    fn stamps(pairs: &[(&str, u128)]) -> InputStamps {
        pairs
            .iter()
            .map(|(path, operation)| (Path::parse(path).unwrap(), Some(OperationId(*operation))))
            .collect()
    }

    struct Read(EntityRef, InputStamps);

    impl KeySource for Read {
        fn key_entity(&self) -> EntityRef {
            self.0.clone()
        }
        fn key_stamps(&self) -> InputStamps {
            self.1.clone()
        }
    }

    fn read(id: &str, pairs: &[(&str, u128)]) -> Read {
        Read(EntityRef::new("Product", id).unwrap(), stamps(pairs))
    }

    fn name(key: &JobKey) -> String {
        key.name().unwrap()
    }

    #[test]
    fn a_key_is_the_same_for_the_same_work_and_another_for_anything_else() {
        let thumbnail = || JobKey::new("thumbnail");
        let now = read("42", &[("image", 1), ("name", 2), ("gallery.a.src", 3)]);
        let key = thumbnail().of(&now).input("image");

        assert_eq!(name(&key), name(&thumbnail().of(&now).input("image")));
        // Nothing but the inputs counts.
        let renamed = read("42", &[("image", 1), ("name", 9), ("gallery.a.src", 3)]);
        assert_eq!(name(&key), name(&thumbnail().of(&renamed).input("image")));
        let others = [
            thumbnail().of(&read("42", &[("image", 7)])).input("image"),
            thumbnail().of(&read("42", &[])).input("image"),
            thumbnail().of(&read("43", &[("image", 1)])).input("image"),
            JobKey::new("preview").of(&now).input("image"),
            thumbnail().of(&now).input("gallery.*.src"),
            thumbnail().of(&now).input("image").input("name"),
            thumbnail().of(&now).input("image").content("sha256:1"),
            thumbnail().of(&now).input("image").content("sha256:2"),
        ];
        for (index, other) in others.iter().enumerate() {
            assert_ne!(name(&key), name(other), "{index}");
            assert!(others.iter().skip(index + 1).all(|next| name(next) != name(other)), "{index}");
        }
    }

    #[test]
    fn the_stamp_of_a_whole_is_the_stamp_of_its_parts_and_the_other_way_round() {
        let of = |input: &str, pairs| stamps_of(&[Pattern::parse(input).unwrap()], &stamps(pairs));

        assert_eq!(of("image.url", &[("image", 1), ("name", 2)]), stamps(&[("image", 1)]));
        assert_eq!(of("image", &[("image.url", 1), ("imagery", 2)]), stamps(&[("image.url", 1)]));
        assert_eq!(of("g.*.src", &[("g.a.src", 1), ("g.a.alt", 2)]), stamps(&[("g.a.src", 1)]));
        let none = InputStamps::from([(Path::parse("image").unwrap(), None)]);
        assert_eq!(of("image", &[("name", 1)]), none);
    }

    #[test]
    fn a_key_of_content_needs_no_stamps_and_is_watched() {
        let entity = EntityRef::new("Product", "42").unwrap();
        let key = JobKey::new("thumbnail").about(&entity).input("image").content("sha256:1");

        assert!(name(&key).starts_with("thumbnail:Product/42:"));
        assert_eq!(key.watched().map(<[Pattern]>::len), Some(1));
        assert!(JobKey::new("t").of(&read("1", &[])).input("image").watched().is_none());
    }

    #[test]
    fn what_says_too_little_is_refused_and_every_name_is_a_valid_key() {
        let here = read("42", &[]);
        let bad = [
            JobKey::new("thumbnail").of(&here),
            JobKey::new("thumbnail").input("image"),
            JobKey::new("").of(&here).input("image"),
            JobKey::new("two words").of(&here).input("image"),
            JobKey::new("thumbnail").of(&here).input("a..b"),
            JobKey::new("thumbnail").about(&here.0).input("image"),
            JobKey::text("complete").unwrap().input("image"),
        ];
        for key in bad {
            assert_eq!(key.name().unwrap_err().code(), "bad_key", "{key:?}");
        }
        for id in ["", "a b", "\0", &"x".repeat(256), &"\u{1f600}".repeat(64)] {
            let mut here = read("42", &[]);
            here.0.id = EntityId::new(id).unwrap();
            let long = "j".repeat(JOB_CHARS_MAX);
            assert!(check(&name(&JobKey::new(&long).of(&here).input("image"))).is_ok(), "{id}");
        }
    }

    #[test]
    fn a_random_uuid_is_refused_with_the_reason() {
        for random in [
            "7c9e6679-7425-40de-944b-e07fc1f90ae7",
            "7C9E6679-7425-40DE-944B-E07FC1F90AE7",
            "0190a5b0-0000-7000-8000-000000000001",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        ] {
            let error = JobKey::text(random).unwrap_err();
            assert_eq!(error.code(), "random_key", "{random}");
            assert!(error.to_string().contains("another delivery"), "{error}");
        }
        for named in ["2ed6657d-e927-568b-95e1-2665a8aea6a2", "7c9e6679", "a-b-c", "invoice/7"] {
            assert!(JobKey::text(named).is_ok(), "{named}");
        }
    }
}
