//! `pageset-lab study`: many simulations from one file.
//!
//! | module | what it does |
//! | --- | --- |
//! | `summary` | what became of the cells, as text |
//! | `scheduler` | what a scheduler needs to know: the study, the folder, the shards |
//! | `slurm` | an array job |
//! | `kubernetes` | an indexed Job |

mod kubernetes;
mod scheduler;
mod slurm;
mod summary;

use std::io::{self, BufWriter, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;

use pageset_study::cell::{self, Cells};
use pageset_study::error::{FileError, StoreError};
use pageset_study::file::Study;
use pageset_study::store::Store;
use pageset_study::table::{self, Collected, ParquetError, TableError};
use pageset_study::work::{self, Shard};

use self::scheduler::Scheduled;
use crate::error::{Exit, Failure};
use crate::output::{Output, is_standard};
use crate::sim::progress::{Interrupt, Progress};

/// Run many simulations from one file: machines x workloads x rules x settings x tasks x seeds
///
/// Each combination is a cell. A finished cell is a file whose name is the hash of the cell's description, so a study
/// resumes after a kill, and several workers may share a folder. The results become one Parquet file.
///
/// Exit code 1: a cell failed or is missing, or results cannot be written.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print the number of cells, and each cell with its address
    Plan {
        /// The study file
        file: PathBuf,
    },
    Run(RunArgs),
    Collect(CollectArgs),
}

/// Run the cells that are not finished, then collect the results
#[derive(clap::Args)]
struct RunArgs {
    /// The study file
    file: PathBuf,

    /// The folder of results; cells that it already has do not run again
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Simulate on N threads [default: one per CPU of this host]; the results do not depend on N
    #[arg(long, value_name = "N", visible_alias = "workers")]
    jobs: Option<NonZeroUsize>,

    /// Run part I of N of the cells, with I from 0 to N-1, and do not collect
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,

    /// Where the cells run: here, as an array job of Slurm, or as an indexed Job of Kubernetes
    #[arg(long, value_enum, default_value = "local")]
    executor: Executor,

    #[command(flatten)]
    scheduled: Scheduled,
}

/// Write the results of the finished cells as one Parquet file
#[derive(clap::Args)]
struct CollectArgs {
    /// The study file
    file: PathBuf,

    /// The folder of results
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// The table [default: results.parquet in the folder of results]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What each cell says of the program that ran it: the version and the commit.
const BUILD: &str = pageset_report::program::VERSION;

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Executor {
    Local,
    Slurm,
    Kubernetes,
}

impl Executor {
    fn name(self) -> &'static str {
        match self {
            Executor::Local => "local",
            Executor::Slurm => "slurm",
            Executor::Kubernetes => "kubernetes",
        }
    }
}

fn wrong_file(error: FileError) -> Failure {
    if error.is_unreadable() {
        return Failure::new(Exit::Unreadable, format!("cannot read {error}"));
    }
    Failure::new(Exit::Damaged, error).help(
        "a study file has lines such as machines = ['vm-8'], workloads = ['page_fault1'], rules = ['linux-6.18'], \
         tasks = [1, 8], seeds = 3",
    )
}

/// The failure for a folder of results.
fn failed_store(error: StoreError) -> Failure {
    let failure = Failure::new(Exit::Failed, &error);
    match error {
        StoreError::Io { .. } => failure.help("finished cells are kept; mend the cause and run the study again"),
        StoreError::Thread(_) => failure.help("finished cells are kept; try fewer --jobs"),
        StoreError::Damaged { .. } => failure,
    }
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    match args.command {
        Command::Plan { file } => plan(&file),
        Command::Run(args) => {
            scheduler::check(&args)?;
            cells_of(&args.file, |cells| match args.executor {
                Executor::Local => local(cells, &args),
                Executor::Slurm => slurm::submit(cells, &args),
                Executor::Kubernetes => kubernetes::apply(cells, &args),
            })
        }
        Command::Collect(CollectArgs { file, out, output }) => cells_of(&file, |cells| {
            let table = output.unwrap_or_else(|| default_table(&out));
            let collected = collect(cells, &Store::new(&out, BUILD), &table)?;
            let text = summary::collected(cells, &collected, &table);
            // The table itself may go to standard output.
            if is_standard(&table) {
                eprint!("{text}");
            } else {
                io::stdout().write_all(text.as_bytes())?;
            }
            Ok(if collected.missing.is_empty() { Exit::Done } else { Exit::Failed })
        }),
    }
}

fn cells_of(file: &Path, with: impl FnOnce(&Cells<'_>) -> Result<Exit, Failure>) -> Result<Exit, Failure> {
    let study = Study::read(file).map_err(wrong_file)?;
    let cells = Cells::of(&study).map_err(io::Error::from)?;
    with(&cells)
}

fn plan(file: &Path) -> Result<Exit, Failure> {
    cells_of(file, |cells| {
        let mut out = BufWriter::new(io::stdout().lock());
        writeln!(out, "{}\n", summary::counted(cells))?;
        for &cell in cells.all() {
            let description = cells.description(cell).map_err(io::Error::from)?;
            writeln!(out, "{}  {}", cell::address(&description), cells.named(cell))?;
        }
        out.flush()?;
        Ok(Exit::Done)
    })
}

fn default_table(folder: &Path) -> PathBuf {
    folder.join("results.parquet")
}

/// Writes the table. Warns if several builds have run its cells.
fn collect(cells: &Cells<'_>, store: &Store, path: &Path) -> Result<Collected, Failure> {
    let mut out = Output::create(path)?;
    let collected = table::write(cells, store, &mut out).map_err(|error| match error {
        TableError::Store(error) => failed_store(error),
        TableError::Parquet(ParquetError::External(source))
            if source.downcast_ref::<io::Error>().is_some_and(is_closed) =>
        {
            io::Error::from(io::ErrorKind::BrokenPipe).into()
        }
        error => Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display())),
    })?;
    out.commit()?;
    if let Some(warning) = summary::of_builds(&collected) {
        eprintln!("warning: {warning}");
    }
    Ok(collected)
}

fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

fn local(cells: &Cells<'_>, args: &RunArgs) -> Result<Exit, Failure> {
    let store = Store::new(&args.out, BUILD);
    let interrupt = Interrupt::install()?;
    let workers = args.jobs.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let progress = Progress::new();
    let shard = args.shard.unwrap_or(Shard::WHOLE);
    let summary = work::run(cells, &store, shard, workers, || interrupt.keep_on(), |done, all| progress.of(done, all));
    drop(progress);
    let summary = summary.map_err(failed_store)?;
    let mut text = summary::ran(&summary, workers);
    if args.shard.is_some() || !interrupt.keep_on() {
        summary::failed(cells, &summary.failed, &mut text);
    }
    if !interrupt.keep_on() {
        io::stdout().write_all(text.as_bytes())?;
        return Ok(Exit::Interrupted);
    }
    let mut whole = true;
    if args.shard.is_none() {
        let table = default_table(&args.out);
        let collected = collect(cells, &store, &table)?;
        whole = collected.missing.is_empty();
        text += &summary::collected(cells, &collected, &table);
        // Cells that the table has, or lacks for another reason: they were not stored.
        let others: Vec<_> =
            summary.failed.iter().filter(|failed| !collected.missing.contains(failed)).cloned().collect();
        summary::failed(cells, &others, &mut text);
    }
    io::stdout().write_all(text.as_bytes())?;
    Ok(if whole && summary.failed.is_empty() { Exit::Done } else { Exit::Failed })
}
