//! Running the cells of a study that are not finished.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::{self, AssertUnwindSafe};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pageset_sim::run::{AllocTimes, RunError, RunRow, Sample};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cell::{Cell, Cells};
use crate::error::StoreError;
use crate::store::Store;

/// A part of the cells: each `of`-th, from `index` on. Neighbours differ least, so the parts take about the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    index: usize,
    of: usize,
}

impl Shard {
    /// All cells.
    pub const WHOLE: Shard = Shard { index: 0, of: 1 };
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        let shard = numbers.filter(|(index, of)| index < of).map(|(index, of)| Shard { index, of });
        shard.ok_or_else(|| "allowed: I/N with I from 0 to N-1, such as 0/4".to_owned())
    }
}

/// What became of the cells.
#[derive(Debug, Default)]
pub struct Summary {
    /// Cells of the shard.
    pub cells: usize,
    /// Cells that were already finished.
    pub found: usize,
    /// Cells that this call finished.
    pub ran: usize,
    /// Cells without an outcome, with their messages, in the order of the cells.
    pub failed: Vec<(Cell, String)>,
    /// Host time of the simulations alone.
    pub simulated: Duration,
    /// Host time of the whole call.
    pub elapsed: Duration,
}

/// The outcome of a cell, as it is stored.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Outcome {
    time_ns: u64,
    busy_ns: u64,
    #[schemars(extend("name" = ""))]
    pub(crate) sample: Sample,
    #[serde(default)]
    pub(crate) second: Second,
    pub(crate) alloc_ns: Option<AllocTimes>,
    /// The build that ran the cell; the store sets it.
    #[serde(default)]
    build: String,
}

/// The second kind of operations, if the workload has one.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Second {
    operations: Option<u64>,
    pub(crate) score: Option<f64>,
}

/// What became of one cell.
enum Fate {
    Found,
    Ran(Duration),
    Failed(String),
    Interrupted,
}

/// Limits how many threads simulate at the same time. Twice as many threads have cells, so that some simulate while
/// others wait for the disk.
struct Permits {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Permits {
    /// Calls `work` when a permit is free.
    fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        drop(free);
        let result = work();
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.freed.notify_one();
        result
    }
}

/// Runs the cells of `shard` that are not finished, on `workers` threads. A cell that fails, or whose file cannot be read or
/// written, does not affect the others. A damaged file counts as not finished. All threads poll `keep_on`; `false` stops the cells. `done` receives the number
/// of cells with a fate and the number of all cells.
///
/// # Errors
/// No result can be stored: see [`StoreError::concerns_all`]; or this host starts no thread. Finished cells are kept.
pub fn run(
    cells: &Cells<'_>,
    store: &Store,
    shard: Shard,
    workers: NonZeroUsize,
    keep_on: impl Fn() -> bool + Sync,
    done: impl Fn(usize, usize) + Sync,
) -> Result<Summary, StoreError> {
    run_with(cells, store, shard, workers, keep_on, done, |cell, keep_on| simulate(cells, cell, keep_on))
}

/// [`run`] with another simulator.
fn run_with(
    cells: &Cells<'_>,
    store: &Store,
    shard: Shard,
    workers: NonZeroUsize,
    keep_on: impl Fn() -> bool + Sync,
    done: impl Fn(usize, usize) + Sync,
    simulate: impl Fn(Cell, &dyn Fn() -> bool) -> Result<Value, RunError> + Sync,
) -> Result<Summary, StoreError> {
    let begin = Instant::now();
    store.prepare()?;
    let own: Vec<Cell> = cells.all().iter().copied().skip(shard.index).step_by(shard.of).collect();
    // Two processes with the same cells begin at different ones, so that each finds what the other has finished.
    let first = (std::process::id() as usize).wrapping_mul(0x9E37_79B1) % own.len().max(1);
    let (next, ended, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let summary = Mutex::new(Summary { cells: own.len(), ..Summary::default() });
    let (failed, failure) = (Mutex::new(BTreeMap::new()), Mutex::new(None));
    let permits = Permits { free: Mutex::new(workers.get()), freed: Condvar::new() };
    let goes_on = || keep_on() && !stop.load(Ordering::Relaxed);
    let lock = || summary.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut started, mut refused) = (0, None);
    done(0, own.len());
    thread::scope(|scope| {
        for _ in 0..workers.get().saturating_mul(2).min(own.len()) {
            let worker = thread::Builder::new().spawn_scoped(scope, || {
                // Relaxed: the counters only hand out and count cells; locks guard the results, and the scope joins
                // the threads. The flag guards no other data.
                while goes_on() {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= own.len() {
                        break;
                    }
                    let place = (first + index) % own.len();
                    match one(cells, store, own[place], &permits, || simulate(own[place], &goes_on)) {
                        Ok(Fate::Found) => lock().found += 1,
                        Ok(Fate::Ran(time)) => {
                            let mut summary = lock();
                            summary.ran += 1;
                            summary.simulated += time;
                        }
                        Ok(Fate::Failed(message)) => {
                            let fate = (own[place], message);
                            failed.lock().unwrap_or_else(PoisonError::into_inner).insert(place, fate);
                        }
                        Ok(Fate::Interrupted) => break,
                        Err(error) => {
                            stop.store(true, Ordering::Relaxed);
                            failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                            break;
                        }
                    }
                    done(ended.fetch_add(1, Ordering::Relaxed) + 1, own.len());
                }
            });
            match worker {
                Ok(_) => started += 1,
                // The threads that have started do all the work.
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
    });
    if let (0, Some(error)) = (started, refused) {
        return Err(StoreError::Thread(error));
    }
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect();
    summary.elapsed = begin.elapsed();
    Ok(summary)
}

fn one(
    cells: &Cells<'_>,
    store: &Store,
    cell: Cell,
    permits: &Permits,
    simulate: impl FnOnce() -> Result<Value, RunError>,
) -> Result<Fate, StoreError> {
    let description = match cells.description(cell) {
        Ok(description) => description,
        Err(error) => return Ok(Fate::Failed(error.to_string())),
    };
    match store.load(&description) {
        Ok(Some(_)) => return Ok(Fate::Found),
        Ok(None) | Err(StoreError::Damaged { .. }) => {}
        // Whether the cell is finished is not known. If the folder works, the other cells do not depend on it.
        Err(error) => return store.prepare().map(|()| Fate::Failed(error.to_string())),
    }
    let (simulated, time) = permits.with(|| {
        let begin = Instant::now();
        (panic::catch_unwind(AssertUnwindSafe(simulate)), begin.elapsed())
    });
    let message = match simulated {
        Ok(Ok(mut outcome)) => {
            outcome["host_ns"] = json!(time.as_nanos() as u64);
            return stored(store, Fate::Ran(time), || store.save(&description, &outcome));
        }
        Ok(Err(RunError::Interrupted)) => return Ok(Fate::Interrupted),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => RunError::of_panic(&*panic).to_string(),
    };
    stored(store, Fate::Failed(message.clone()), || store.save_failure(&description, &message))
}

/// Calls `write`, which stores the `fate` of a cell; once more if the folder works after all, as when somebody has removed a part of it.
/// An error then is the cell's own.
fn stored(store: &Store, fate: Fate, write: impl Fn() -> Result<(), StoreError>) -> Result<Fate, StoreError> {
    match write() {
        Ok(()) => Ok(fate),
        Err(error) if error.concerns_all() => Err(error),
        Err(_) => {
            store.prepare()?;
            Ok(write().map_or_else(|error| Fate::Failed(error.to_string()), |()| fate))
        }
    }
}

/// Simulates a cell: the outcome as it is stored.
fn simulate(cells: &Cells<'_>, cell: Cell, keep_on: &dyn Fn() -> bool) -> Result<Value, RunError> {
    let run = cells.run(cell);
    let outcome = run.run(keep_on)?;
    let (time, busy) = (outcome.time.whole_ns(), outcome.busy.whole_ns());
    let row = RunRow::new(&cells.rules(cell).set.name, &run, &[(cell.seed, outcome)]);
    let (sample, score, build) = (row.samples[0].clone(), row.second_score.map(|score| score.mean), String::new());
    let second = Second { operations: score.map(|_| sample.others), score };
    Ok(json!(Outcome { time_ns: time, busy_ns: busy, sample, second, alloc_ns: row.alloc_ns, build }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Study;

    #[test]
    fn a_cell_that_panics_fails_alone_and_runs_again() {
        let text = "machines = ['lkp-sb02']\nworkloads = ['malloc1']\ntasks = [1]\nseeds = 5\n";
        let study = Study::parse("s.toml", text).unwrap();
        let cells = Cells::of(&study).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path(), "test");
        let run = |panics: bool| {
            let simulator = |cell: Cell, _: &dyn Fn() -> bool| {
                assert!(!panics || cell.seed != 3, "seed {} is broken", cell.seed);
                Ok(json!({ "score": cell.seed }))
            };
            run_with(&cells, &store, Shard::WHOLE, NonZeroUsize::MIN, || true, |_, _| {}, simulator).unwrap()
        };
        let summary = run(true);
        assert_eq!((summary.cells, summary.ran, summary.found), (5, 4, 0));
        let [(cell, message)] = &summary.failed[..] else { panic!("{summary:?}") };
        assert_eq!((cell.seed, message.as_str()), (3, "the simulator panicked: seed 3 is broken"));
        // The others keep their results, and only the failed one runs again.
        let summary = run(false);
        assert_eq!((summary.ran, summary.found, summary.failed.len()), (1, 4, 0));
    }

    #[test]
    fn shards_are_parsed() {
        assert_eq!("3/4".parse(), Ok(Shard { index: 3, of: 4 }));
        for wrong in ["", "1", "4/4", "-1/4", "0/0", "a/b", "1/4/5"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
