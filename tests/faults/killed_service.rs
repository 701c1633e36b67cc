//! The service is killed at any moment, under load: every acknowledged save is there once, no save is half there,
//! and nothing from before the kill stands in anybody's way.
//!
//! `FIELDLEASE_KILLS` sets the number of kills, `FIELDLEASE_SEED` repeats a run's chances (not its timing).

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::Duration,
};

use fieldlease::{
    entity::EntityRef,
    scope::ScopeName,
    testing::checker::Told,
    token::{Entropy, Fence, SystemEntropy},
};
use rusqlite::Connection;
use serde_json::Value as Json;

use crate::{
    Dice,
    judge::Found,
    load::{CAST, Client, Mark, Sent, Shared},
    number, pause, say,
    service::{Service, signal},
    until,
};

type Fences = BTreeMap<(EntityRef, ScopeName), Fence>;

/// Everything the clients of all rounds know.
#[derive(Default)]
struct Known {
    sent: Vec<Sent>,
    /// How many of them are settled: what had no effect by then never has one.
    settled: usize,
    fences: Fences,
}

impl Known {
    fn add(&mut self, client: Client<'_>) {
        self.sent.extend(client.sent);
        for (place, fence) in client.fences {
            let highest = self.fences.entry(place).or_default();
            *highest = (*highest).max(fence);
        }
    }

    fn count(&self, told: impl Fn(&Told) -> bool) -> usize {
        self.sent.iter().filter(|one| told(&one.save.told)).count()
    }

    /// Takes up work where the last service left it.
    fn go_on(&mut self, service: &Service, round: u64, seed: u64) {
        let shared = Shared::default();
        // Streams and rounds of the load have other numbers, so values stay unique.
        let round = round + 1_000_000;
        let mut editor = Client::new(service, &shared, 0, round, seed);
        let mut any = Client::new(service, &shared, CAST.len() - 1, round, seed);
        Client::nothing_blocks(&mut editor, &mut any, &self.fences);
        self.add(editor);
        self.add(any);
    }

    fn check(&mut self, file: &Path, says: &str) {
        let found = Found::read(file);
        found.settle(&mut self.sent, self.settled);
        self.settled = self.sent.len();
        let faults = found.faults(&self.sent, file);
        assert!(faults.is_empty(), "{says}:\n{}", faults.join("\n"));
    }
}

fn file_in(dir: &Path) -> PathBuf {
    dir.join("data/fieldlease.db")
}

fn seed() -> u64 {
    let bytes = SystemEntropy.bytes();
    let seed =
        number("FIELDLEASE_SEED", || bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    say(format_args!("FIELDLEASE_SEED={seed}"));
    seed
}

#[test]
fn a_service_killed_at_any_moment_keeps_what_it_acknowledged_and_blocks_nobody() {
    let (seed, kills) = (seed(), number("FIELDLEASE_KILLS", || 50));
    let mut dice = Dice::new(seed, u64::MAX);
    let mut dir = tempfile::tempdir().unwrap();
    let mut known = Known::default();
    let mut leases_left = 0;

    for round in 0..kills {
        let service = Service::start_in(dir, &[]);
        known.go_on(&service, round, seed);
        let shared = Shared::default();
        let (enough, later) = (dice.below(40) + 5, Duration::from_micros(dice.below(4_000)));
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CAST.len())
                .map(|place| Client::new(&service, &shared, place, round, seed))
                .map(|client| scope.spawn(|| client.play(|| false)))
                .collect();
            until("saves are made", || {
                shared.acknowledged.load(Ordering::Relaxed) as u64 >= enough
                    || clients.iter().any(std::thread::ScopedJoinHandle::is_finished)
            });
            pause(later);
            signal(service.pid(), "KILL");
            clients.into_iter().for_each(|client| known.add(client.join().unwrap()));
        });
        leases_left += shared.leases.load(Ordering::Relaxed);
        assert!(!service.log().contains("panicked"), "{}", service.log());
        let (well, left) = service.stop();
        assert!(!well, "it was killed");
        dir = left;
        known.check(&file_in(dir.path()), &format!("seed {seed}, kill {round}"));
    }
    let service = Service::start_in(dir, &[]);
    known.go_on(&service, kills, seed);
    let (well, dir) = service.stop();
    assert!(well);
    known.check(&file_in(dir.path()), &format!("seed {seed}, at the end"));

    let acknowledged = known.count(|told| matches!(told, Told::Applied(_)));
    let there = known.count(|told| matches!(told, Told::Unknown(Some(_))));
    let not_there = known.count(|told| matches!(told, Told::Unknown(None)));
    say(format_args!(
        "{kills} kills: {acknowledged} saves acknowledged, {there} unknown and there, \
         {not_there} unknown and not there, {leases_left} leases left behind"
    ));
    // Kills that hit nothing would show nothing.
    assert!(there + not_there >= usize::try_from(kills).unwrap(), "no save was on its way");
    assert!(there > 0 && not_there > 0 || kills < 50, "{there} {not_there}");
    assert!(leases_left > 0, "no lease was held");
}

/// Sends SQL to a copy of the file.
type Surgery = fn(&Connection, &Sent);

/// What the checks say about files that lost something: a check nobody has seen fail shows nothing.
#[test]
fn a_file_that_lost_part_of_one_acknowledged_save_is_noticed() {
    let seed = seed();
    let service = Service::start();
    let mut known = Known::default();
    known.go_on(&service, 0, seed);
    let shared = Shared::default();
    std::thread::scope(|scope| {
        let enough = || shared.acknowledged.load(Ordering::Relaxed) > 100;
        let clients: Vec<_> = (0..CAST.len())
            .map(|place| Client::new(&service, &shared, place, 0, seed))
            .map(|client| scope.spawn(move || client.play(enough)))
            .collect();
        clients.into_iter().for_each(|client| known.add(client.join().unwrap()));
    });
    let (well, dir) = service.stop();
    assert!(well);
    known.check(&file_in(dir.path()), "before");
    let acknowledged = |mark: &str| -> &Sent {
        let told = |one: &&Sent| matches!(one.save.told, Told::Applied(_));
        let unit = |one: &&Sent| match &one.mark {
            Mark::Value(unit, _) => *unit == mark,
            Mark::Job(_) => mark == "stock",
            Mark::Delete => mark == "delete",
        };
        known.sent.iter().rev().filter(told).find(unit).unwrap()
    };

    let cases: [(&str, &str, Surgery, &str); 6] = [
        ("the whole save", "stock", forget, "C3 effect"),
        ("the whole save of an editor", "name", forget, "C3 effect"),
        (
            "its version",
            "name",
            |file, _| {
                run(file, "DELETE FROM fl_version WHERE save = (SELECT max(save) FROM fl_version)")
            },
            "a version, a worker's has none",
        ),
        (
            "its effect",
            "thumbnail",
            |file, sent| put_back(file, sent, &["thumbnail", "width"]),
            "C2 chain",
        ),
        (
            "half of its effect",
            "thumbnail",
            |file, sent| put_back(file, sent, &["width"]),
            "saved together are equal",
        ),
        (
            "its scope's version",
            "thumbnail",
            |file, _| {
                run(
                    file,
                    "UPDATE fl_scope SET version = version - 1 WHERE scope = 'media' AND version > 0",
                )
            },
            "C1 sequence",
        ),
    ];
    for (what, mark, surgery, says) in cases {
        let copy = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(dir.path().join("data")).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
        let file = copy.path().join("fieldlease.db");
        surgery(&Connection::open(&file).unwrap(), acknowledged(mark));

        let faults = Found::read(&file).faults(&known.sent, &file);

        assert!(faults.iter().any(|fault| fault.contains(says)), "{what}: {faults:#?}");
    }
}

fn run(file: &Connection, sql: &str) {
    assert!(file.execute(sql, []).unwrap() > 0, "{sql}");
}

fn save_of(file: &Connection, sent: &Sent) -> i64 {
    let (path, value) = match &sent.mark {
        Mark::Value(unit, text) => (*unit, Json::from(text.as_str()).to_string()),
        Mark::Job(job) => {
            let sql = "SELECT save FROM fl_operation WHERE json_extract(detail, '$.job') = ?";
            return file.query_row(sql, [job], |row| row.get(0)).unwrap();
        }
        Mark::Delete => panic!("not asked for"),
    };
    let sql = "SELECT save FROM fl_change WHERE path = ? AND new = ?";
    file.query_row(sql, (path, value), |row| row.get(0)).unwrap()
}

fn forget(file: &Connection, sent: &Sent) {
    let save = save_of(file, sent);
    file.execute("DELETE FROM fl_version WHERE save = ?", [save]).unwrap();
    for sql in ["DELETE FROM fl_change WHERE save = ?", "DELETE FROM fl_operation WHERE save = ?"] {
        assert!(file.execute(sql, [save]).unwrap() > 0);
    }
}

fn put_back(file: &Connection, sent: &Sent, units: &[&str]) {
    let id = sent.save.entity.id.as_str();
    for unit in units {
        let sql = "UPDATE fl_entity SET data = json_set(data, '$.' || ?1, 'before') WHERE id = ?2";
        assert_eq!(file.execute(sql, (unit, id)).unwrap(), 1);
    }
}
