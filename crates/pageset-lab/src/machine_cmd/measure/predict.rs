//! The prediction: the pace is fitted to the page faults of one process, and all rows are simulated.

use std::num::NonZeroUsize;
use std::thread;

use pageset_bench::hardware::KeepOn;
use pageset_bench::hardware::faults::Tasks;
use pageset_sim::calibrate::pace_of_one_task;
use pageset_sim::engine::LockKind;
use pageset_sim::machine::{Fitted, Host, Machine, describe};
use pageset_sim::os::History;
use pageset_sim::run::{Run, RunError};
use pageset_sim::sweep::{Effort, run_seeds};
use pageset_sim::time::Time;
use pageset_sim::workload::Workload;

use super::description::values;
use super::kernel::Kernel;
use super::result::{Fit, Measured};
use crate::error::{Exit, Failure};

/// The least virtual time of a simulation in s: enough for several regions of a task.
const LEAST_SECONDS: f64 = 0.1;
/// Task seconds of one simulation, above [`LEAST_SECONDS`]: more tasks are measured for less time.
const TASK_SECONDS: f64 = 30.0;

/// Say whether to go on.
pub(super) struct Limits<'k> {
    /// With the fit, which is short.
    pub(super) fit: KeepOn<'k>,
    pub(super) rows: KeepOn<'k>,
}

/// Fits the pace, writes the description, and simulates all measured rows. Rows without time have no prediction.
pub(super) fn predict(
    measured: &mut Measured,
    linux: &Host,
    pairs: [usize; 2],
    seconds: f64,
    limits: Limits<'_>,
) -> Result<(), Failure> {
    let failed = |error: RunError| Failure::new(Exit::Failed, format!("cannot simulate this host: {error}"));
    let simulation = Simulation { kernel: measured.kernel.clone(), workloads: workloads()?, seconds };

    let text = describe(&values(measured, linux, pairs, None));
    let machine = parse(&text)?;
    let of_one = measured.faults.iter_mut().find(|row| row.kind == Tasks::Processes && row.tasks == 1);
    if let Some((score, row)) = of_one.and_then(|row| Some((row.faults_per_s?, row))) {
        let simulate = |pace| {
            let machine = Machine { fitted: Fitted { pace }, ..machine.clone() };
            Ok(simulation.run(&machine, Tasks::Processes, 1).run(limits.fit)?.score())
        };
        match pace_of_one_task(score, machine.fitted.pace, simulate) {
            Ok(fit) => {
                row.fitted = true;
                measured.fit = Some(Fit { pace: fit.pace.get(), reached: fit.is_reached });
            }
            Err(RunError::Interrupted) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    measured.description = describe(&values(measured, linux, pairs, measured.fit));
    let machine = parse(&measured.description)?;
    // Without a fit, the predictions would be those of another machine.
    if measured.fit.is_none() {
        return Ok(());
    }
    let mut rows: Vec<_> = measured.faults.iter_mut().filter(|row| row.faults_per_s.is_some()).collect();
    // Few tasks first: these simulations are the shortest.
    rows.sort_by_key(|row| row.tasks);
    let runs: Vec<Run<'_>> = rows.iter().map(|row| simulation.run(&machine, row.kind, row.tasks)).collect();
    let workers = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    for (row, outcome) in rows.into_iter().zip(run_seeds(&runs, Effort { seeds: 1, workers }, limits.rows, |_, _| {})) {
        row.predicted_per_s = outcome.map_err(failed)?.first().map(|(_, outcome)| outcome.score());
    }
    Ok(())
}

fn parse(text: &str) -> Result<Machine, Failure> {
    Machine::parse("the description of this host", text).map_err(|error| Failure::new(Exit::Failed, error))
}

/// The workloads of processes and of threads.
fn workloads() -> Result<[&'static Workload; 2], Failure> {
    let find =
        |name| Workload::find(name).ok_or_else(|| Failure::new(Exit::Failed, format!("unknown workload `{name}`")));
    Ok([find("page_fault1")?, find("page_fault1-threads")?])
}

/// How all rows are simulated.
struct Simulation {
    kernel: Kernel,
    workloads: [&'static Workload; 2],
    seconds: f64,
}

impl Simulation {
    fn run<'m>(&self, machine: &'m Machine, kind: Tasks, tasks: usize) -> Run<'m> {
        let [processes, threads] = self.workloads;
        let least = LEAST_SECONDS.min(self.seconds);
        let seconds = (TASK_SECONDS / tasks as f64).clamp(least, self.seconds);
        Run {
            workload: if kind == Tasks::Threads { threads } else { processes },
            machine,
            tuning: self.kernel.tuning,
            era: self.kernel.era,
            high_fraction: 0,
            zone_lock: LockKind::Queue,
            tasks: tasks as u32,
            warm_up: Time::from_seconds(seconds / 2.0),
            time: Time::from_seconds(seconds),
            detect_warm_up: false,
            precision_pct: None,
            history: History::NONE,
            whole: false,
            held: 0,
            seed: 1,
        }
    }
}
