//! `pageset-lab machine measure`: measures what a machine's description needs on this host, and compares the host's page
//! faults with those of the simulator.
//!
//! | module | contents |
//! | --- | --- |
//! | `kernel` | the rules that the simulator uses for this host's kernel |
//! | `result` | the result, as JSON |
//! | `description` | the measured values as a machine's description |
//! | `predict` | the fit of the pace, and the simulations |
//! | `table` | the result as text |

mod description;
mod kernel;
mod predict;
mod result;
mod table;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget};
use pageset_bench::hardware::faults::{REGION_BYTES, Tasks, faults};
use pageset_bench::hardware::{Effort, Figure, Host, Place, Quantity, memory, page_bytes};
use pageset_bench::rounds;
use pageset_bench::sample::allowed_cpus;
use pageset_sim::machine;
use schemars::{Schema, schema_for};

use crate::error::{Exit, Failure};
use crate::output::{self, JsonOption, Output, is_standard};
use crate::sim::progress::Interrupt;
use kernel::Kernel;
use pageset_report::progress::style;
use result::{Measured, Measurement, Row, SCHEMA};

/// Measure this host's latencies and page faults, and compare the page faults with the simulator's
///
/// Measures latencies of caches and memory, lines of other cores, atomic operations, clearing of pages, and page faults
/// by number of tasks. It then fits the description's `pace` to the page faults of one process, and simulates
/// all other rows. Takes at most a minute and needs no privilege. Let nothing else run meanwhile.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Write the description of this host to FILE; `-` writes it to standard output instead of the tables
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Numbers of tasks for the page faults [default: 1, 2, 4 and so on, the number of cores, and of CPUs]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    tasks: Vec<usize>,

    /// Take few and short samples, to try the command: the figures mean little
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    json: JsonOption,
}

/// The time of the whole command. Simulations that are not finished by then are left out.
const MOST: Duration = Duration::from_secs(58);
/// The time after which no sample begins: on a busy machine, samples take longer than planned.
const MEASURED: Duration = Duration::from_secs(45);
/// The time of all page faults together.
const FAULTS: Duration = Duration::from_secs(20);
/// A guess of the time of a quantity's preparation, for the time left.
const PREPARATION: Duration = Duration::from_millis(400);
/// The simulator's page size.
const PAGE_BYTES: usize = 4096;
/// Memory that a task of the page faults needs: its region, and page tables of one part in 512.
const TASK_BYTES: u64 = (REGION_BYTES + REGION_BYTES / 256) as u64;

/// How long and how often everything is measured.
struct Plan {
    quantity: Effort,
    faults: Effort,
    memory_bytes: u64,
    /// Virtual seconds of a simulation of one task.
    seconds: f64,
}

impl Plan {
    fn new(quick: bool, rows: usize, free_bytes: u64) -> Plan {
        let ms = Duration::from_millis;
        if quick {
            let quantity = Effort { samples: 2, window: ms(1), limit: ms(10) };
            let faults = Effort { samples: 1, window: ms(1), limit: ms(10) };
            return Plan { quantity, faults, memory_bytes: free_bytes.min(128 << 20), seconds: 0.02 };
        }
        let limit = (FAULTS / rows.max(1) as u32).min(Duration::from_secs(2));
        Plan {
            // Shorter than a time slice of the scheduler, so that some samples are quiet on a busy machine.
            quantity: Effort { samples: 15, window: ms(1), limit: ms(1000) },
            faults: Effort { samples: 5, window: ms(200), limit },
            memory_bytes: free_bytes / 4,
            seconds: 0.5,
        }
    }
}

/// The value of the result's member `schema`, and the JSON schema.
pub(crate) fn schema() -> (&'static str, Schema) {
    (SCHEMA, schema_for!(Measured))
}

/// Runs `pageset-lab machine measure`. The first Ctrl-C ends the measurement and keeps what was measured.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let begin = Instant::now();
    let on_stdout = [&args.output, &args.json.json].into_iter().flatten().filter(|path| is_standard(path)).count();
    if on_stdout > 1 {
        let message = "cannot write the description and the JSON to standard output; allowed: one of them, \
                       the other to a file";
        return Err(Failure::new(Exit::Usage, message));
    }
    if page_bytes() != PAGE_BYTES {
        let message =
            format!("cannot measure pages of {} bytes; the simulator has pages of {PAGE_BYTES}", page_bytes());
        return Err(Failure::new(Exit::Missing, message));
    }
    let linux = machine::Host::read(Path::new("/")).map_err(|error| Failure::new(Exit::Missing, error))?;
    let allowed = allowed_cpus();
    let places = places(&linux, &allowed);
    let counts = counts(&args.tasks, &places)?;
    // Before the measurement: a minute is lost if a file cannot be written.
    let description_file = args.output.as_deref().map(Output::create).transpose()?;
    let json_file = args.json.json.as_deref().map(Output::create).transpose()?;

    let free_bytes = memory::free_bytes(Path::new("/")).unwrap_or(0);
    let plan = Plan::new(args.quick, 2 * counts.len(), free_bytes);
    let interrupt = Interrupt::install()?;
    let keep_on = || interrupt.keep_on() && begin.elapsed() < MEASURED;
    let host = Host {
        places,
        cache_bytes: [linux.l1_kib, linux.l2_kib, linux.llc_kib].map(|kib| (kib as usize) << 10),
        memory_bytes: usize::try_from(plan.memory_bytes).unwrap_or(usize::MAX),
    };
    let kernel = Kernel::of_this_host();
    let mut steps = Steps::new(&plan, counts.len());

    let mut quantities = vec![];
    for quantity in Quantity::ALL {
        steps.begin(quantity.about());
        quantities.push(Measurement::new(quantity, host.measure(quantity, plan.quantity, &keep_on)));
        steps.end(plan.quantity_time());
    }
    let mut rows = vec![];
    for tasks in Tasks::ALL {
        for &count in &counts {
            steps.begin(&format!("page faults, {count} {}", tasks.name()));
            let cpus: Vec<usize> = host.places[..count].iter().map(|place| place.cpu).collect();
            let needed = count as u64 * TASK_BYTES;
            let figure = if needed > free_bytes / 4 * 3 {
                let [needed, free] = [needed, free_bytes].map(|bytes| bytes >> 20);
                Figure::none(format!("tasks need {needed} MiB; {free} MiB of memory are free"))
            } else {
                faults(tasks, &cpus, REGION_BYTES, plan.faults, &keep_on)
            };
            rows.push(Row::new(tasks, count, figure));
            steps.end(plan.faults_time());
        }
    }
    let mut measured = Measured {
        schema: SCHEMA.to_owned(),
        host: rounds::machine(host.places.len()),
        online_cpus: linux.cpus.len(),
        kernel: kernel.clone(),
        huge_pages: memory::has_huge_pages(Path::new("/")),
        quick: args.quick,
        interrupted: false,
        quantities,
        faults: rows,
        fit: None,
        description: String::new(),
    };
    steps.begin("simulating");
    let limits =
        predict::Limits { fit: &|| interrupt.keep_on(), rows: &|| interrupt.keep_on() && begin.elapsed() < MOST };
    predict::predict(&mut measured, &linux, host.pairs_in_socket(), plan.seconds, limits)?;
    measured.interrupted = !interrupt.keep_on();
    steps.clear();

    for warning in measured.warnings() {
        eprintln!("warning: {warning}");
    }
    // The files come first: who reads the text may have gone.
    if let Some(mut file) = description_file {
        file.write_all(measured.description.as_bytes())?;
        file.commit()?;
    }
    if let Some(mut file) = json_file {
        output::json(&mut file, &measured)?;
        file.commit()?;
    }
    if on_stdout == 0 {
        io::stdout().write_all(table::text(&measured).as_bytes())?;
    }
    Ok(if measured.interrupted { Exit::Interrupted } else { Exit::Done })
}

/// The allowed CPUs in the order in which tasks fill a simulated machine.
fn places(linux: &machine::Host, allowed: &[usize]) -> Vec<Place> {
    let order = linux.in_order_of_tasks();
    let core_of = |cpu: &machine::HostCpu| order.iter().position(|it| (it.socket, it.core) == (cpu.socket, cpu.core));
    let place = |cpu: &machine::HostCpu| Place {
        cpu: cpu.cpu as usize,
        socket: cpu.socket as usize,
        core: core_of(cpu).unwrap_or(0),
        last_level: cpu.last_level as usize,
    };
    order.iter().map(place).filter(|place| allowed.contains(&place.cpu)).collect()
}

/// The numbers of tasks, ascending.
fn counts(wanted: &[usize], places: &[Place]) -> Result<Vec<usize>, Failure> {
    let cpus = places.len();
    if cpus == 0 {
        return Err(Failure::new(Exit::Missing, "cannot measure: none of the CPUs that are online may be used"));
    }
    if let Some(tasks) = wanted.iter().find(|&&tasks| tasks == 0 || tasks > cpus) {
        let message = format!("cannot use {tasks} tasks; allowed: 1 to {cpus}, one for each CPU that may be used");
        return Err(Failure::new(Exit::Usage, message));
    }
    let mut counts: BTreeSet<usize> = wanted.iter().copied().collect();
    if counts.is_empty() {
        let cores: BTreeSet<usize> = places.iter().map(|place| place.core).collect();
        counts.extend((0..).map(|shift| 1 << shift).take_while(|&count| count < cpus));
        counts.extend([cores.len(), cpus]);
    }
    Ok(counts.into_iter().collect())
}

impl Plan {
    fn quantity_time(&self) -> Duration {
        self.quantity.window * self.quantity.samples + PREPARATION
    }

    fn faults_time(&self) -> Duration {
        (self.faults.window * self.faults.samples * 3 / 2).min(self.faults.limit * 3 / 2)
    }
}

/// The steps on standard error: the name of the step and the time left. Hidden if standard error is not a terminal.
struct Steps(ProgressBar);

/// A guess of the time of all simulations, for the time left.
const SIMULATIONS: Duration = Duration::from_secs(5);

impl Steps {
    fn new(plan: &Plan, counts: usize) -> Steps {
        let shown = io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let all =
            plan.quantity_time() * Quantity::ALL.len() as u32 + plan.faults_time() * 2 * counts as u32 + SIMULATIONS;
        let bar = ProgressBar::with_draw_target(Some(all.as_millis() as u64), target);
        bar.set_style(style("[{bar:30}] about {prefix} s left: {msg}"));
        Steps(bar)
    }

    fn begin(&self, step: &str) {
        let left = self.0.length().unwrap_or(0).saturating_sub(self.0.position());
        self.0.set_prefix(left.div_ceil(1000).to_string());
        self.0.set_message(step.to_owned());
        self.0.tick();
    }

    fn end(&mut self, took: Duration) {
        self.0.inc(took.as_millis() as u64);
    }

    fn clear(&self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(cpu: usize, core: usize) -> Place {
        Place { cpu, socket: 0, core, last_level: 0 }
    }

    #[test]
    fn tasks_are_powers_of_two_all_cores_and_all_cpus() {
        let places: Vec<Place> = (0..12).map(|cpu| place(cpu, cpu % 6)).collect();
        assert_eq!(counts(&[], &places).unwrap(), [1, 2, 4, 6, 8, 12]);
        assert_eq!(counts(&[], &places[..1]).unwrap(), [1]);
        assert_eq!(counts(&[3, 1, 3], &places).unwrap(), [1, 3]);
        for wrong in [0, 13] {
            let error = counts(&[1, wrong], &places).unwrap_err();
            assert_eq!(error.exit(), Exit::Usage);
            let message =
                format!("error: cannot use {wrong} tasks; allowed: 1 to 12, one for each CPU that may be used");
            assert_eq!(error.to_string(), message);
        }
        assert_eq!(counts(&[], &[]).unwrap_err().exit(), Exit::Missing);
    }

    #[test]
    fn tasks_use_only_allowed_cpus() {
        let cpu = |cpu, core| machine::HostCpu { cpu, socket: 0, core, last_level: 0 };
        let linux = machine::Host {
            sockets: 1,
            cores_per_socket: 2,
            threads_per_core: 2,
            memory_gib: 1,
            l1_kib: 32,
            l2_kib: 256,
            llc_kib: 8192,
            last_levels: (1, 8192),
            cpus: vec![cpu(0, 0), cpu(1, 0), cpu(2, 1), cpu(3, 1)],
        };
        let of = |allowed: &[usize]| places(&linux, allowed).iter().map(|place| place.cpu).collect::<Vec<_>>();
        assert_eq!(of(&[0, 1, 2, 3]), [0, 2, 1, 3], "a core's second thread comes after all cores");
        assert_eq!(of(&[1, 2]), [2, 1]);
        assert!(of(&[7]).is_empty());
    }

    #[test]
    fn the_plan_fits_into_a_minute() {
        for counts in [1, 2, 10] {
            let plan = Plan::new(false, 2 * counts, 64 << 30);
            let longest = plan.quantity.limit * 15 + (plan.faults.limit + plan.faults.window * 2) * 2 * counts as u32;
            assert!(longest < MEASURED, "{longest:?}");
        }
    }
}
