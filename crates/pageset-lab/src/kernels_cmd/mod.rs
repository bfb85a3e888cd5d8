//! `pageset-lab kernels`: boots distribution kernels under QEMU, records page traffic in them, replays the recordings, and
//! writes `docs/truth.csv`. Modules in call order: `packages`, `initramfs`, `guest`, `agent`, `replay`, `truth`. All use `definition`,
//! `tool` and `progress`. `predict` is a command of its own, which boots such guests.

mod agent;
mod definition;
mod guest;
mod initramfs;
mod packages;
pub(crate) mod predict;
mod progress;
mod replay;
mod tool;
mod truth;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use self::definition::{Boot, Kernel, Lab, matches_any};
use self::progress::Progress;
use crate::error::{Exit, Failure};

/// Boot distribution kernels under QEMU, record page traffic in them, and replay it
///
/// `lab/lab.toml` defines kernels, machines and workloads. After an interruption the command continues: it skips what is
/// done. Each gap costs one line, and the exit code is 1. Needs the sources of pageset, Debian, and root for `install`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder for kernels, recordings and results
    #[arg(long, global = true, value_name = "DIR", default_value = "target/lab")]
    dir: PathBuf,

    /// The definition file [default: lab/lab.toml]
    #[arg(long, global = true, value_name = "FILE")]
    definition: Option<PathBuf>,

    /// Repeat completed steps
    #[arg(long, global = true)]
    again: bool,

    /// Boot and replay on N threads [default: one per CPU of this host]
    #[arg(long, global = true, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    #[command(subcommand)]
    command: Part,
}

#[derive(clap::Subcommand)]
enum Part {
    /// Install QEMU, BusyBox and other missing tools (as root)
    Install,
    /// Download the kernels: all, or those named
    Fetch {
        /// Names of kernels; `*` stands for any text
        names: Vec<String>,
    },
    /// Boot and record: all boots, or those named
    Boot {
        /// Names KERNEL.MACHINE; `*` stands for any text
        names: Vec<String>,

        /// The `pageset` of amd64 guests, packed with its libraries [default: a static build of the repository's]
        #[arg(long, value_name = "FILE")]
        guest_pageset: Option<PathBuf>,
    },
    /// Replay the recordings: all, or those named
    Replay {
        /// Names KERNEL.MACHINE.WORKLOAD; `*` stands for any text
        names: Vec<String>,
    },
    /// Write the table of results, and print what it comes to
    Truth {
        /// Write the table to FILE [default: docs/truth.csv of the repository]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Compare what the agent said of the loads of agent.toml with the advice on their recordings
    Agent {
        /// Write the table to FILE [default: agent.csv of DIR]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Run install, boot, replay and truth in this order
    All,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match part(args) {
        Ok(true) => Ok(Exit::Done),
        Ok(false) => Ok(Exit::Failed),
        Err(error) => Err(Failure::new(Exit::Failed, error)),
    }
}

/// Runs a part. Returns whether all of it succeeded. Each failure has printed a line.
fn part(arguments: &Args) -> Result<bool, String> {
    let definition = arguments.definition.clone();
    let lab = Lab::read(&definition.unwrap_or_else(|| initramfs::repository().join("lab/lab.toml")))?;
    tool::at(&arguments.dir, fs::create_dir_all(&arguments.dir))?;
    let dir = tool::at(&arguments.dir, fs::canonicalize(&arguments.dir))?;
    let runner = Runner { lab: &lab, dir, again: arguments.again, jobs: arguments.jobs };
    match &arguments.command {
        Part::Install => runner.install(),
        Part::Fetch { names } => runner.kernels(names),
        Part::Boot { names, guest_pageset } => runner.boot(names, guest_pageset.as_deref()),
        Part::Replay { names } => runner.replay(names),
        Part::Truth { output } => runner.truth(output.clone()),
        Part::Agent { output } => runner.agent(output.clone()),
        Part::All => {
            runner.install()?;
            let booted = runner.boot(&[], None)?;
            let replayed = runner.replay(&[])?;
            Ok(runner.truth(None)? && booted && replayed)
        }
    }
}

struct Runner<'l> {
    lab: &'l Lab,
    dir: PathBuf,
    again: bool,
    jobs: Option<NonZeroUsize>,
}

/// Whether `names` contain `name`. An empty list contains every name.
fn chosen(names: &[String], name: &str) -> bool {
    names.is_empty() || matches_any(names, name)
}

impl<'l> Runner<'l> {
    fn install(&self) -> Result<bool, String> {
        let installed = packages::install(&self.lab.kernels.iter().collect::<Vec<_>>())?;
        eprintln!(
            "installed: {}",
            if installed.is_empty() { "nothing was missing".into() } else { installed.join(" ") }
        );
        Ok(true)
    }

    /// The number of parallel jobs. A guest and a replay each use one thread of the host.
    fn jobs(&self) -> usize {
        self.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
    }

    fn kernels(&self, names: &[String]) -> Result<bool, String> {
        let kernels: Vec<_> = self.lab.kernels.iter().filter(|kernel| chosen(names, &kernel.name)).collect();
        self.fetch(&kernels)
    }

    fn fetch(&self, kernels: &[&Kernel]) -> Result<bool, String> {
        let progress = Progress::new(kernels.len());
        packages::fetch(self.lab, kernels, &self.dir, self.again, &mut |what| progress.show("", &what))?;
        progress.clear();
        let gaps = kernels.iter().filter_map(|kernel| packages::unpacked(&self.dir, &kernel.name).err());
        Ok(gaps.map(|reason| eprintln!("gap: {reason}")).count() == 0)
    }

    fn boot(&self, names: &[String], guest_pageset: Option<&Path>) -> Result<bool, String> {
        let boots: Vec<_> = self.lab.boots().into_iter().filter(|boot| chosen(names, &boot.name())).collect();
        if boots.is_empty() {
            return Err(format!("no boot matches {}; names are KERNEL.MACHINE of lab.toml", names.join(" ")));
        }
        let is_done =
            |boot: &&Boot<'_>| guest::ended(&self.dir, &boot.name()).is_some_and(|ended| ended.failed.is_none());
        let (done, todo): (Vec<Boot<'_>>, Vec<Boot<'_>>) = boots.iter().partition(|boot| !self.again && is_done(boot));
        let mut kernels: Vec<&Kernel> = todo.iter().map(|boot| boot.kernel).collect();
        kernels.dedup_by_key(|kernel| &kernel.name);
        self.fetch(&kernels)?;
        let mut programs = BTreeMap::new();
        for arch in kernels.iter().map(|kernel| kernel.arch()) {
            let pageset = guest_pageset.filter(|_| arch == "amd64");
            let build = || initramfs::Programs::build(arch, &self.dir, &self.lab.suites, pageset);
            programs.entry(arch).or_insert_with(build);
        }
        let progress = Progress::new(todo.len());
        let failed = AtomicUsize::new(0);
        let begin = Instant::now();
        in_parallel(self.jobs(), &todo, |boot| {
            let ended = match &programs[boot.kernel.arch()] {
                Ok(programs) => self.boot_one(*boot, programs, &progress),
                Err(reason) => Err(reason.clone()),
            };
            progress.done(&boot.name());
            failed.fetch_add(usize::from(self.report(*boot, ended, &progress)), Ordering::Relaxed);
        });
        progress.clear();
        let failed = failed.into_inner();
        let (booted, before) = (todo.len() - failed, done.len());
        eprintln!("{booted} boots in {} s, {failed} failed, {before} done before", begin.elapsed().as_secs());
        Ok(failed == 0)
    }

    fn boot_one(
        &self,
        boot: Boot<'l>,
        programs: &initramfs::Programs,
        progress: &Progress,
    ) -> Result<guest::Ended, String> {
        let kernel = packages::unpacked(&self.dir, &boot.kernel.name)?;
        let initrd = initramfs::archive(self.lab, boot, programs, &kernel)?;
        let workloads = self.lab.workloads(boot);
        // An emulated CPU takes up to 40 s to the first workload. Most workloads end long before their limit.
        let seconds: u64 = workloads.iter().map(|workload| u64::from(workload.seconds())).sum();
        // The agent's loads run twice, in a guest whose time is slow.
        let limit = Duration::from_secs(120 + seconds * (1 + 3 * u64::from(self.lab.agent)));
        let root = match &self.lab.root {
            Some(root) if workloads.iter().any(|workload| workload.needs_root()) => {
                Some(packages::root_image(root, &self.dir)?)
            }
            _ => None,
        };
        let mut watch = |console: &str| {
            let now = console.lines().rfind(|line| line.contains("LAB start")).and_then(|line| line.rsplit(' ').next());
            progress.show(&boot.name(), now.unwrap_or("boots"));
        };
        guest::boot(boot, &kernel, &initrd, root.as_deref(), &self.dir, limit, &mut watch)
    }

    /// Prints a line for each gap. Returns whether the boot failed.
    fn report(&self, boot: Boot<'l>, ended: Result<guest::Ended, String>, progress: &Progress) -> bool {
        let ended = ended.unwrap_or_else(|reason| {
            let ended = guest::Ended { failed: Some(reason), ..guest::Ended::default() };
            let folder = self.dir.join("boots").join(boot.name());
            let json = serde_json::to_vec_pretty(&ended).unwrap_or_default();
            let _ = fs::create_dir_all(&folder)
                .map_err(|e| e.to_string())
                .and_then(|()| tool::write_whole(&folder.join("boot.json"), json));
            ended
        });
        for (workload, (code, note)) in ended.workloads.iter().filter(|(_, (code, _))| *code != 0) {
            progress.say(&format!("gap: {}.{workload}: exit code {code}: {note}", boot.name()));
        }
        if let Some(reason) = &ended.failed {
            progress.say(&format!("gap: {}: {reason}", boot.name()));
        }
        ended.failed.is_some()
    }

    fn recordings(&self, names: &[String]) -> BTreeMap<String, PathBuf> {
        let files = fs::read_dir(self.dir.join("recordings")).into_iter().flatten().flatten().map(|entry| entry.path());
        let named = files.filter(|path| path.extension().is_some_and(|extension| extension == "pstrace"));
        let named = named.filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), path)));
        named.filter(|(name, _)| chosen(names, name)).collect()
    }

    fn replay(&self, names: &[String]) -> Result<bool, String> {
        let recordings = self.recordings(names);
        if recordings.is_empty() {
            return Err("no recording has such a name; try `pageset-lab kernels boot` first".into());
        }
        let todo = recordings.iter().filter(|(_, path)| self.again || !replay::is_kept(path));
        let todo: Vec<_> = todo.collect();
        let progress = Progress::new(todo.len());
        let failed = AtomicUsize::new(0);
        in_parallel(self.jobs(), &todo, |(name, path)| {
            progress.show(name, "");
            let error = replay::replay(path).map_or_else(Some, |outcome| outcome.error);
            if let Some(error) = error {
                failed.fetch_add(1, Ordering::Relaxed);
                progress.say(&format!("gap: {name}: {error}"));
            }
            progress.done(name);
        });
        progress.clear();
        eprintln!("{} replays, {} failed", recordings.len(), failed.load(Ordering::Relaxed));
        Ok(failed.into_inner() == 0)
    }

    /// Writes the table of the agent's verdicts, and prints what it comes to. Each load without two verdicts prints a line.
    fn agent(&self, output: Option<PathBuf>) -> Result<bool, String> {
        if !self.lab.agent {
            return Err("the agent watches no load of this definition; try --definition lab/agent.toml".into());
        }
        let boots = self.lab.boots();
        let loads = boots.iter().flat_map(|boot| self.lab.workloads(*boot).into_iter().map(move |load| (boot, load)));
        let loads: Vec<_> = loads.filter(|(boot, _)| guest::ended(&self.dir, &boot.name()).is_some()).collect();
        if loads.is_empty() {
            return Err(format!("no guest of this definition has ended in {}; run `boot` first", self.dir.display()));
        }
        let (rows, progress) = (Mutex::new(BTreeMap::new()), Progress::new(loads.len()));
        in_parallel(self.jobs(), &(0..loads.len()).collect::<Vec<_>>(), |at| {
            let (boot, load) = loads[*at];
            let name = format!("{}.{}", boot.name(), load.name);
            progress.show(&name, "");
            match agent::Row::of(&self.dir, *boot, &load.name) {
                Ok(row) => drop(rows.lock().expect("no thread panicked").insert(*at, row)),
                Err(reason) => progress.say(&format!("gap: {name}: {reason}")),
            }
            progress.done(&name);
        });
        progress.clear();
        let rows: Vec<_> = rows.into_inner().expect("no thread panicked").into_values().collect();
        let path = output.unwrap_or_else(|| self.dir.join("agent.csv"));
        tool::write_whole(&path, agent::csv(&rows)?)?;
        let written = std::io::stdout().write_all(agent::summary(&rows).as_bytes());
        written.map_err(|error| format!("cannot write the summary: {error}"))?;
        eprintln!("{}", path.display());
        Ok(rows.len() == loads.len())
    }

    fn truth(&self, output: Option<PathBuf>) -> Result<bool, String> {
        let lab = initramfs::repository().join("lab/explained.toml");
        let explained = truth::Explained::parse(&tool::at(&lab, fs::read_to_string(&lab))?)?;
        let boots = self.lab.boots().into_iter();
        let boots = boots.filter_map(|boot| Some((boot.name(), guest::ended(&self.dir, &boot.name())?))).collect();
        let recordings = self.recordings(&[]).into_iter();
        let outcomes = recordings.filter_map(|(name, path)| Some((name, replay::read(&path).ok()?))).collect();
        let results = truth::Results { lab: self.lab, boots, outcomes, explained };
        let path = output.unwrap_or_else(|| initramfs::repository().join("docs/truth.csv"));
        tool::write_whole(&path, results.csv())?;
        let written = std::io::stdout().write_all(results.summary().as_bytes());
        written.map_err(|error| format!("cannot write the summary: {error}"))?;
        eprintln!("{}", path.display());
        Ok(true)
    }
}

fn in_parallel<T: Sync>(jobs: usize, items: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(item);
                }
            });
        }
    });
}
