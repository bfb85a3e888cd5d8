//! `pageset-lab interleave`: tries random interleavings of several CPUs, and checks the invariants.

use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::thread;

use pageset_sim::interleave::{self, Interleaving, MAX_CPUS, Tried, Violation, try_seeds};

use crate::columns::{grouped, numbers, trimmed};
use crate::error::{Exit, Failure};
use crate::rules;
use crate::sim::progress::{Interrupt, Progress};

/// Try random interleavings of several CPUs, and check the allocator's invariants
///
/// Virtual CPUs allocate, free and drain blocks of all orders and migratetypes in a small memory. The running CPU may
/// change at every lock and at every access to shared memory. The command checks that no page is allocated twice, that
/// no CPU waits forever, and that the counters add up whenever all CPUs are between two operations. A failure is
/// printed with the command that repeats it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The sets of rules: names of presets, `kernel` for the kernel of this machine, `all` for all
    /// presets, or rule files (.toml)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "pageset")]
    rules: Vec<String>,

    /// Change a rule of every named set, such as batch=63; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,

    /// Number of virtual CPUs, on two nodes
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_CPUS)))]
    cpus: u32,

    /// Number of interleavings under each set of rules, each with its own seed
    #[arg(long, value_name = "K", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,

    /// The seed of the first interleaving; the next ones follow
    #[arg(long, value_name = "SEED", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    seed: u64,

    /// Operations of each CPU between two checks of the counters
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    every: u32,

    /// Checks of the counters in each interleaving
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    checks: u32,

    /// Run on N threads [default: one per CPU of this host]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let sets = rules::on_this_machine(&args.rules, &args.settings)?.sets()?;
    let heads = ["rules", "interleavings", "operations", "switches"];
    let mut table = numbers(heads.into_iter(), 0..1);
    let interrupt = Interrupt::install()?;
    let progress = Progress::new();
    let of_each = usize::try_from(args.seeds).unwrap_or(usize::MAX);
    let all = of_each.saturating_mul(sets.len());
    let mut tried = 0;
    let workers = args.jobs.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    for (place, set) in sets.iter().enumerate() {
        let of_seed = |seed| Interleaving {
            tuning: set.tuning,
            high_fraction: set.high_fraction.unwrap_or(0),
            cpus: args.cpus,
            rounds: args.checks,
            operations: args.every,
            seed,
        };
        let before = place * of_each;
        progress.of(before, all);
        let seeds = args.seed..args.seed.saturating_add(args.seeds);
        let search =
            try_seeds(of_seed, seeds, workers, || interrupt.keep_on(), |ended| progress.of(before + ended, all));
        if let Some((seed, failure)) = search.first_failure {
            drop(progress);
            return Err(match failure {
                interleave::Failure::Violation(violation) => violated(&args, place, &set.name, seed, &violation),
                interleave::Failure::Run(error) => Failure::new(Exit::Usage, format!("{}: {error}", set.name)),
            });
        }
        let Tried { operations, switches } = search.tried;
        tried += search.interleavings;
        table.add_row([set.name.clone(), grouped(search.interleavings), grouped(operations), grouped(switches)]);
    }
    drop(progress);
    let tried = if tried == 1 { "1 interleaving".to_owned() } else { format!("{} interleavings", grouped(tried)) };
    let cpus = if args.cpus == 1 { "CPU" } else { "CPUs" };
    let answer = format!("No invariant was violated in {tried} of {} {cpus}.\n\n", args.cpus);
    io::stdout().write_all((answer + &trimmed(&table)).as_bytes())?;
    Ok(if interrupt.keep_on() { Exit::Done } else { Exit::Interrupted })
}

/// The failure for a violated invariant, with the command that repeats it.
fn violated(args: &Args, place: usize, name: &str, seed: u64, violation: &Violation) -> Failure {
    // `all` stands for many sets: the command then names the single set.
    let rules = args.rules.get(place).filter(|_| args.rules.iter().all(|rules| rules != "all"));
    let mut command = format!("pageset-lab interleave --rules {}", rules.map_or(name, String::as_str));
    args.settings.iter().for_each(|setting| command += &format!(" --set {setting}"));
    command += &format!(" --cpus {} --every {} --checks {}", args.cpus, args.every, args.checks);
    command += &format!(" --seed {seed} --seeds 1");
    Failure::new(Exit::Failed, format!("{name}, seed {seed}, {violation}")).help(format!("repeat with: {command}"))
}
