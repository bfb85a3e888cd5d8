//! `pageset-lab sim`: a workload on a simulated machine, under any rules.

mod combinations;
mod recording;
mod table;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pageset::Tuning;
use pageset_rules::KERNEL;
use pageset_sim::era::Era;
use pageset_sim::run::{Run, RunError, RunResult, RunRow};
use pageset_sim::workload::{WORKLOADS, Workload};
use pageset_trace::TraceError;
use pageset_trace::replay::RuleSet;

use crate::columns::{trimmed, wrapped};
use crate::error::{Exit, Failure};
use crate::rules::{self, suggestion};
use crate::sim::batch::Batch;
use crate::sim::machine;
use crate::sim::options::Effort;

/// Run a workload on a simulated machine under any rules
///
/// The CPUs of the machine run in virtual time; the allocator is the real one. Prints a row for each set of rules,
/// combination of values and number of tasks: the score, the share of the tasks' time spent waiting for zone and LRU
/// locks, and the duration of allocations. The same command gives the same result, byte for byte.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The workload by name, such as page_fault1; --list lists all. `trace` runs the processes of a recording
    #[arg(value_name = "WORKLOAD", required = true, value_parser = no_recording)]
    workload: Option<String>,

    /// The recording for the workload `trace`: its processes are spread over the tasks, and repeated if there are more
    /// tasks than processes
    #[arg(value_name = "FILE")]
    recording: Option<PathBuf>,

    /// List the workloads, one per line
    #[arg(long, exclusive = true)]
    list: bool,

    /// The machine by name (see `pageset-lab machine list`), or a description in a .toml file
    #[arg(long, value_name = "NAME", required = true)]
    machine: Option<String>,

    /// The sets of rules: names of presets, `kernel` for the recorded kernel of `trace`, else of this machine,
    /// `all` for all presets, or rule files (.toml)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "pageset")]
    rules: Vec<String>,

    /// Change a rule of every named set, such as batch=63; may be repeated
    ///
    /// Several values give a row for each combination: `--set batch=31,63 --set high_min=0,1000` gives four rows for each
    /// set of rules and number of tasks. The last `--set` changes fastest.
    #[arg(long = "set", value_name = "KEY=VALUE,…")]
    settings: Vec<String>,

    /// Numbers of tasks, each task on a CPU of its own [default: the machine's number of CPUs]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    tasks: Vec<u32>,

    /// The memory of the process in the workload `exit`, in GiB [default: 100]
    #[arg(long, value_name = "N")]
    size: Option<u32>,

    #[command(flatten)]
    effort: Effort,
}

impl Args {
    /// The sets of rules under all combinations of values.
    ///
    /// # Errors
    /// As [`Args::sets_with`], or there are too many combinations.
    fn sets(&self) -> Result<Vec<RuleSet>, Failure> {
        let combinations = combinations::of(&self.settings)?;
        Ok(combinations.iter().map(|settings| self.sets_with(settings)).collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// The sets of rules with these changes. `kernel` is the recorded kernel of the workload `trace`, else the kernel of
    /// this machine.
    ///
    /// # Errors
    /// A name, a file or a change is invalid or has no effect on a simulation, or the recording cannot be read.
    fn sets_with(&self, settings: &[String]) -> Result<Vec<RuleSet>, Failure> {
        let needs_kernel = self.rules.iter().any(|name| name == KERNEL);
        let chosen = match self.recording.as_deref().filter(|_| needs_kernel) {
            Some(file) => {
                let kernel = recording::kernel(file).map_err(|error| unread(file, error))?;
                rules::of_kernel(&self.rules, settings, || kernel)?
            }
            None => rules::on_this_machine(&self.rules, settings)?,
        };
        let sets = chosen.sets()?;
        if let Some(set) = sets.iter().find(|set| set.cache_slice_pages.is_some()) {
            let message = format!("{}: cache_slice_pages: a simulation takes the caches of its machine", set.name);
            return Err(Failure::new(Exit::Usage, message)
                .help("`pageset-lab machine show NAME` prints a file; change llc_kib there"));
        }
        Ok(sets)
    }
}

/// The name of the workload that is read from a file.
const TRACE: &str = "trace";

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    if args.list {
        io::stdout().write_all(list().as_bytes())?;
        return Ok(Exit::Done);
    }
    let sets = args.sets()?;
    let effort = &args.effort;
    // Both are present: without --list they are required.
    let workload = workload(args.workload.as_deref().unwrap_or_default(), args.recording.as_deref())?;
    let workload = &match args.size {
        Some(size) => {
            workload.with_size(size).map_err(|wrong| Failure::new(Exit::Usage, format!("--size: {wrong}")))?
        }
        None => workload,
    };
    let machine = machine(args.machine.as_deref().unwrap_or_default())?;
    let cpus = machine.topology().cpus();
    let tasks = if args.tasks.is_empty() { vec![cpus] } else { args.tasks.clone() };
    if let Some(&tasks) = tasks.iter().find(|&&tasks| tasks == 0 || tasks > cpus) {
        let message = format!("--tasks {tasks}: {}", RunError::Tasks { tasks, cpus });
        return Err(Failure::new(Exit::Usage, message));
    }
    let rows: Vec<(&RuleSet, u32)> = sets.iter().flat_map(|set| tasks.iter().map(move |&tasks| (set, tasks))).collect();
    let run_of = |&(set, tasks): &(&RuleSet, u32)| Run {
        high_fraction: set.high_fraction.unwrap_or(0),
        tasks,
        ..effort.run(workload, &machine, set.tuning, Era::of_rules(&set.name))
    };
    let runs: Vec<Run<'_>> = rows.iter().map(run_of).collect();
    let batch = Batch::begin(effort)?;
    let mut result =
        RunResult::new(&effort.run(workload, &machine, Tuning::default(), Era::default()), effort.of_each().seeds);
    let mut failures = Vec::new();
    for ((&(set, tasks), run), outcomes) in rows.iter().zip(&runs).zip(batch.run(&runs)) {
        let rules = &set.name;
        let name = format!("{rules}, {tasks} tasks");
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(error) => {
                failures.push(format!("{name}: {error}"));
                continue;
            }
        };
        result.rows.push(RunRow::new(rules, run, &outcomes));
    }
    // An hour of simulations is not lost because one of them failed.
    if result.rows.is_empty()
        && let Some(first) = failures.first()
    {
        return Err(Failure::new(Exit::Failed, first));
    }
    let lead = || vec![("workload", result.workload.clone()), ("machine", result.machine.clone())];
    let exit = batch.give(&result, table::text, result.rows.iter().map(|row| (lead(), row)))?;
    failures.iter().for_each(|failure| eprintln!("error: {failure}"));
    Ok(if exit == Exit::Done && !failures.is_empty() { Exit::Failed } else { exit })
}

/// The failure for a recording. The one that is built into `pageset` is no file.
fn unread(file: &Path, error: TraceError) -> Failure {
    let failure = Failure::from(error);
    match file.as_os_str() == "demo" && !file.exists() {
        true => failure.help("`pageset demo` writes the built-in recording to pageset-demo/demo.pstrace"),
        false => failure,
    }
}

fn workload(name: &str, recording: Option<&Path>) -> Result<Workload, Failure> {
    match (name, recording) {
        (TRACE, Some(file)) => recording::workload(file).map_err(|error| unread(file, error)),
        (TRACE, None) => Err(Failure::new(Exit::Usage, "the workload `trace` needs a recording: trace FILE")),
        (_, Some(file)) => {
            Err(Failure::new(Exit::Usage, format!("{}: only the workload `trace` takes a recording", file.display())))
        }
        (name, None) => Workload::find(name).cloned().ok_or_else(|| unknown(name)),
    }
}

/// The word, unless it names a recording. This comes before the complaint that no machine is named.
fn no_recording(word: &str) -> Result<String, String> {
    if word == TRACE || Workload::find(word).is_some() {
        return Ok(word.to_owned());
    }
    if word == "demo" {
        return Err("the recording `demo` is built into `pageset`; try `pageset replay demo`".to_owned());
    }
    if Path::new(word).exists() || word.ends_with(".pstrace") {
        return Err(format!(
            "this is a file, not a workload; try `pageset-lab sim trace {word} --machine NAME`, or `pageset replay {word}`, \
             which replays a recording as it was"
        ));
    }
    Ok(word.to_owned())
}

fn unknown(name: &str) -> Failure {
    let names = || WORKLOADS.iter().map(|workload| workload.name).chain([TRACE]);
    let message = format!("unknown workload `{name}`{}", suggestion(name, names()));
    Failure::new(Exit::Usage, message).help("`pageset-lab sim --list` lists all workloads")
}

/// A table of the workloads: name, description, and what each counts.
fn list() -> String {
    let mut table = wrapped(["workload", "what it does", "counted"].into_iter());
    for workload in WORKLOADS {
        let mut unit = workload.unit.to_owned();
        let about = match workload.size() {
            Some(gib) => format!("{} [{gib}]", workload.about),
            None => workload.about.to_owned(),
        };
        if let Some(second) = workload.second_unit {
            unit = format!("{unit}, {second}");
        }
        table.add_row([workload.name, &about, &unit]);
    }
    table.add_row([TRACE, "the processes of a recording, spread over the tasks", "calls"]);
    trimmed(&table)
}
