//! Editors and workers on the same records, once as whole-record saves and once through an engine.
//!
//! Both runs have the same writers, the same records and the same pause between load and save, and both are judged by
//! the one [`crate::testing::checker`], from what the store holds and what each writer had been shown.

mod engine;
mod whole_record;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value as Json, json};

pub use self::{engine::through_engine, whole_record::whole_record};
use crate::{
    clock::{Clock, SystemClock},
    entity::{EntityRef, Writer},
    error::{Error, Result},
    path::Path,
    testing::checker::{Claimed, History, Read, Save, Verdict},
    token::{Entropy, OperationId, SystemEntropy},
};

/// The type of the records.
pub const KIND: &str = "Product";

/// A line among the rules of a race that tells them from others.
const MARK: &str = "    # the rules of a race of fieldlease\n";

/// Names of editors' fields; more are numbered.
const EDITED: [&str; 20] = [
    "name",
    "description",
    "summary",
    "brand",
    "material",
    "color",
    "size",
    "care",
    "season",
    "seo_title",
    "seo_text",
    "keywords",
    "slogan",
    "warranty",
    "origin",
    "label",
    "notes",
    "size_chart",
    "usage",
    "ingredients",
];

/// Groups of workers: group, its field, and who writes it.
const COMPUTED: [(&str, &str, &str); 6] = [
    ("media", "thumbnail", "thumbnailer"),
    ("search", "search_index", "indexer"),
    ("integrity", "checksum", "hasher"),
    ("stock", "stock_level", "importer"),
    ("translation", "name_de", "translator"),
    ("rating", "average_rating", "rater"),
];

/// Which saves are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scenario {
    /// Every writer saves again and again, on records drawn by chance.
    #[default]
    Crowd,
    /// One editor saves once, and every worker reacts to that one save.
    Reaction,
}

/// One race.
#[derive(Clone, Debug)]
pub struct Race {
    /// Which saves are made.
    pub scenario: Scenario,
    /// People. Default 8.
    pub editors: u32,
    /// Fields people may write, shared out among them; as many as editors: no two write the same field.
    pub fields: u32,
    /// Workers. Default 6, one per group; more share the groups.
    pub workers: u32,
    /// Records. Fewer means more writers at once on each. Default 10.
    pub records: u32,
    /// Acknowledged saves of all writers together. Default 2,000.
    pub saves: u64,
    /// Between load and save. Longer means more saves on what is no longer true. Default 2 ms.
    pub think: Duration,
    /// Draws the records. Who is faster is not drawn: that is the machine's.
    pub seed: u64,
}

impl Default for Race {
    fn default() -> Self {
        Self {
            scenario: Scenario::Crowd,
            editors: 8,
            fields: 8,
            workers: 6,
            records: 10,
            saves: 2_000,
            think: Duration::from_millis(2),
            seed: 1,
        }
    }
}

/// A finished run.
#[derive(Debug)]
pub struct Run {
    /// Everything that happened.
    pub history: History,
    /// What is wrong with it.
    pub verdict: Verdict,
    /// Saves refused as conflicts; each was made again on a fresh load.
    pub refused: u64,
    /// From the first load to the last answer.
    pub elapsed: Duration,
}

impl Race {
    /// The reference scenario: one save of an editor, six workers that react.
    #[must_use]
    pub fn reaction() -> Self {
        let scenario = Scenario::Reaction;
        Self {
            scenario,
            editors: 1,
            fields: 1,
            workers: 6,
            records: 1,
            saves: 7,
            ..Self::default()
        }
    }

    /// The rules of the engine's run.
    #[must_use]
    pub fn registry(&self) -> String {
        let mut text = format!("field_ownership:\n  {KIND}:\n{MARK}    editor_owned:\n");
        for field in 0..self.fields.max(1) {
            text.push_str(&format!("      - {}\n", edited(field)));
        }
        text.push_str("    system_owned:\n");
        for (group, field, _) in COMPUTED {
            text.push_str(&format!("      {group}: [{field}]\n"));
        }
        text
    }

    /// Whether these are rules of a race, be it of another one.
    #[must_use]
    pub fn is_registry(text: &str) -> bool {
        text.contains(MARK)
    }

    /// Saves that will be acknowledged.
    #[must_use]
    pub fn total(&self) -> u64 {
        match self.scenario {
            Scenario::Crowd => self.saves,
            Scenario::Reaction => u64::from(self.editors.min(1)) + u64::from(self.workers),
        }
    }

    /// The records.
    ///
    /// # Errors
    /// Never: the names are valid.
    pub fn entities(&self) -> Result<Vec<EntityRef>> {
        (1..=self.records.max(1)).map(|id| Ok(EntityRef::new(KIND, &id.to_string())?)).collect()
    }

    /// Every field there is.
    fn units(&self) -> Result<Vec<Path>> {
        let edited = (0..self.fields.max(1)).map(edited);
        let computed = COMPUTED.iter().map(|(_, field, _)| (*field).to_owned());
        edited.chain(computed).map(|field| Ok(Path::parse(&field)?)).collect()
    }

    /// Lets everybody play at once, each on a task of its own. A reaction begins when its editors have saved.
    async fn play<F, Fut>(&self, play: F) -> Result<(Log, Duration)>
    where
        F: Fn(Player) -> Fut,
        Fut: Future<Output = Result<Log>> + Send + 'static,
    {
        let began = SystemClock.now();
        let mut log = Log::default();
        let mut tasks = tokio::task::JoinSet::new();
        for player in self.players()? {
            if self.scenario == Scenario::Reaction && player.group.is_none() {
                log.add(play(player).await?);
            } else {
                tasks.spawn(play(player));
            }
        }
        while let Some(played) = tasks.join_next().await {
            log.add(played.map_err(|error| Error::internal(error.to_string()))??);
        }
        Ok((log, SystemClock.now().since(began)))
    }

    /// Everybody who writes, with a fair share of the saves.
    fn players(&self) -> Result<Vec<Player>> {
        let count = self.editors.saturating_add(self.workers).max(1);
        let (share, rest) = (self.saves / u64::from(count), self.saves % u64::from(count));
        let mut players = Vec::new();
        for number in 0..self.editors.saturating_add(self.workers) {
            let saves = match self.scenario {
                Scenario::Crowd => share + u64::from(u64::from(number) < rest),
                Scenario::Reaction => 1,
            };
            let (writer, group, field) = if number < self.editors {
                let name = format!("editor-{}", number + 1);
                (Writer::editor(&name), None, edited(number % self.fields.max(1)))
            } else {
                let worker = number - self.editors;
                let (group, field, name) = computed(worker);
                let name = format!("{name}-{}", worker + 1);
                (Writer::worker(&name), Some(group), field.to_owned())
            };
            let dice = Dice::new(self.seed, u64::from(number));
            let field = Path::parse(&field)?;
            players.push(Player { number, writer, group, field, saves, dice });
        }
        Ok(players)
    }
}

/// What one writer saw and did.
#[derive(Default)]
struct Log {
    saves: Vec<Save>,
    reads: Vec<Read>,
    claims: Vec<Claimed>,
    refused: u64,
}

impl Log {
    fn add(&mut self, mut other: Self) {
        self.saves.append(&mut other.saves);
        self.reads.append(&mut other.reads);
        self.claims.append(&mut other.claims);
        self.refused += other.refused;
    }
}

fn edited(number: u32) -> String {
    let known = usize::try_from(number).ok().and_then(|number| EDITED.get(number));
    known.map_or_else(|| format!("field_{}", number + 1), |name| (*name).to_owned())
}

fn computed(worker: u32) -> (&'static str, &'static str, &'static str) {
    let mut groups = COMPUTED.iter().cycle();
    let group = groups.nth(usize::try_from(worker).unwrap_or(0) % COMPUTED.len());
    group.copied().unwrap_or(("media", "thumbnail", "thumbnailer"))
}

/// One writer of a race.
#[derive(Clone, Debug)]
struct Player {
    number: u32,
    writer: Writer,
    /// The group to lease; `None` for editors.
    group: Option<&'static str>,
    field: Path,
    saves: u64,
    dice: Dice,
}

impl Player {
    /// A record by chance.
    fn pick(&mut self, entities: &[EntityRef]) -> Option<EntityRef> {
        let count = u64::try_from(entities.len()).ok().filter(|count| *count > 0)?;
        let place = usize::try_from(self.dice.next() % count).ok()?;
        entities.get(place).cloned()
    }

    /// A value nobody else writes, so that a value names its save.
    fn value(&self, turn: u64) -> Json {
        json!(format!("{} #{turn}", self.writer.name))
    }
}

/// Repeatable chance (splitmix64): one stream per writer.
#[derive(Clone, Debug)]
struct Dice(u64);

impl Dice {
    fn new(seed: u64, stream: u64) -> Self {
        let mut dice = Self(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// What all writers of a run share.
#[derive(Clone)]
struct Course {
    entities: Arc<[EntityRef]>,
    units: Arc<[Path]>,
    think: Duration,
    scenario: Scenario,
    /// Saves acknowledged so far, for a progress bar.
    done: Arc<AtomicU64>,
    /// Workers of a reaction start together.
    start: Arc<tokio::sync::Barrier>,
}

impl Course {
    fn new(race: &Race, done: Arc<AtomicU64>) -> Result<Self> {
        let workers = usize::try_from(race.workers).unwrap_or(1).max(1);
        Ok(Self {
            entities: race.entities()?.into(),
            units: race.units()?.into(),
            think: race.think,
            scenario: race.scenario,
            done,
            start: Arc::new(tokio::sync::Barrier::new(workers)),
        })
    }

    async fn think(&self) {
        SystemClock.sleep_until(SystemClock.now().plus(self.think)).await;
    }

    fn saved(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

fn operation() -> OperationId {
    OperationId::new(SystemClock.wall(), &SystemEntropy as &dyn Entropy)
}
