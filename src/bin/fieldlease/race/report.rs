//! What a race shows: a bar while it runs, then a table, or JSON.

use std::{
    io::IsTerminal,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fieldlease::{
    clock::{Clock, SystemClock},
    testing::{
        checker::Check,
        race::{Race, Run, Scenario},
    },
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;

use super::Runs;
use crate::{exit::Exit, output::Output};

/// How often the bar is drawn.
const FRAME: Duration = Duration::from_millis(100);
/// Findings shown to a person.
const FINDINGS_SHOWN: usize = 5;

/// Draws a progress bar, on a terminal only.
pub(crate) struct Watch {
    stop: CancellationToken,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Watch {
    /// The counter the run raises, and the watch over it.
    pub(crate) fn start(name: &'static str, total: u64, output: Output) -> (Arc<AtomicU64>, Self) {
        let done = Arc::new(AtomicU64::new(0));
        let stop = CancellationToken::new();
        let drawn = !output.json && std::io::stderr().is_terminal();
        let task = drawn.then(|| {
            let (done, stop) = (Arc::clone(&done), stop.clone());
            tokio::spawn(async move {
                let bar = ProgressBar::new(total).with_prefix(name);
                let shape = "{prefix:>14} {bar:40} {pos}/{len} saves, {per_sec}";
                if let Ok(style) = ProgressStyle::with_template(shape) {
                    bar.set_style(style);
                }
                while !stop.is_cancelled() {
                    bar.set_position(done.load(Ordering::Relaxed));
                    let next = SystemClock.now().plus(FRAME);
                    tokio::select! {
                        () = SystemClock.sleep_until(next) => {}
                        () = stop.cancelled() => {}
                    }
                }
                bar.finish_and_clear();
            })
        });
        (done, Self { stop, task })
    }

    /// Takes the bar away.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        if let Some(task) = self.task {
            // A bar that failed to draw is no reason to fail.
            let _ = task.await;
        }
    }
}

pub(crate) fn json(race: &Race, runs: &Runs) -> Json {
    json!({"seed": race.seed, "naive": side(&runs.naive), "engine": side(&runs.engine)})
}

fn side(run: &Run) -> Json {
    json!({
        "saves": run.verdict.saves,
        "lost_updates": run.verdict.count(Check::LostUpdate),
        "false_conflicts": run.verdict.count(Check::FalseConflict),
        "versions": run.verdict.versions,
        "operations": run.verdict.operations,
        "saves_per_s": saves_per_s(run),
    })
}

/// Rounded: the next run differs more.
fn saves_per_s(run: &Run) -> u64 {
    let micros = run.elapsed.as_micros().max(1);
    u64::try_from(u128::from(run.verdict.saves) * 1_000_000 / micros).unwrap_or(u64::MAX)
}

pub(crate) fn text(race: &Race, runs: &Runs) -> String {
    let what = match race.scenario {
        Scenario::Crowd => format!(
            "{} editors and {} workers, {} saves on {} records",
            race.editors, race.workers, race.saves, race.records
        ),
        Scenario::Reaction => format!("one editor's save and {} workers that react", race.workers),
    };
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["", "whole records", "engine"]);
    type Row = (&'static str, fn(&Run) -> u64);
    let rows: [Row; 7] = [
        ("saves", |run| run.verdict.saves),
        ("lost updates", |run| run.verdict.count(Check::LostUpdate)),
        ("false conflicts", |run| run.verdict.count(Check::FalseConflict)),
        ("true conflicts, told and saved again", |run| run.refused),
        ("versions", |run| run.verdict.versions),
        ("operation records", |run| run.verdict.operations),
        ("saves per second", saves_per_s),
    ];
    for (name, value) in rows {
        table.add_row([
            name.to_owned(),
            value(&runs.naive).to_string(),
            value(&runs.engine).to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(comfy_table::CellAlignment::Right);
    }
    format!("{what}, seed {}\n\n{table}", race.seed)
}

/// Says why the exit is not 0.
pub(crate) fn judgement(exit: Exit, runs: &Runs, output: Output) {
    match exit {
        Exit::Findings => {
            let found: u64 = runs.engine.verdict.counts.values().sum();
            output.note(format_args!("the engine's run is wrong in {found} places:"));
            for finding in runs.engine.verdict.findings.iter().take(FINDINGS_SHOWN) {
                output.note(format_args!("  {}: {}", finding.check, finding.message));
            }
        }
        Exit::Inconclusive => output.note(
            "inconclusive: whole-record saves lost nothing, so nothing is shown; try fewer records or more writers",
        ),
        _ => {}
    }
}
