//! `pageset replay`: a recording's allocations and frees through our own allocator, under any rules.
//!
//! | module | what it does |
//! | --- | --- |
//! | `progress` | the bar on a terminal, and Ctrl-C |
//! | `table` | the result as text |
//! | `timeline` | where in time it refilled and drained, for Perfetto |

pub(crate) mod progress;
mod table;
mod timeline;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pageset_trace::measure::{How, Measured, lost_on};
use pageset_trace::replay::Level;
use pageset_trace::replay::selection::Only;
use pageset_trace::{ErrorKind, OpenOptions, Trace, TraceError};

use self::progress::Progress;
use self::table::Parts;
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Output, is_standard, write_json};
use crate::rules::{self, Chosen};

/// Replay a recording under any rules, and compare with what the kernel did
///
/// The recording's allocations and frees run through our own allocator, once for each set of rules. A row a set says
/// how often pagesets were refilled and drained, how often the zone lock was taken, and how many pages were held; for
/// the recorded kernel's own rules also how near that comes to what the kernel did.
///
/// FILE is a recording of ours (.pstrace), a perf.data (with FILE.zoneinfo beside it), or NAME.events.zst with
/// NAME.snap.zst beside it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The recordings, each reported by itself; `-` is standard input
    #[arg(required_unless_present = "list_rules", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The sets of rules: presets by name, rule files (.toml), `kernel` for the recorded kernel's, `all` for all presets
    ///
    /// A rule file says `base = "linux-6.18"` or another preset, `name = "…"`, and what differs, by the keys of --set.
    #[arg(long, value_name = "NAME|FILE.toml,…", value_delimiter = ',', default_value = "kernel")]
    rules: Vec<String>,

    /// Change a rule of every named set; may be given again and again
    ///
    /// Such as batch=31, high=2000, high_fraction=8, auto_high=off. --list-rules shows all keys and what each may be.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,

    /// What the replay may use of the recording
    ///
    /// `input` takes the events that a pageset answers to and the state at the start; it is the level that predicts.
    /// `reconstructed` also takes what the kernel's own refills and drains reveal later on, such as allocations without
    /// an event. If unsure, leave it: the input-only result of the kernel's rules is then shown as well.
    #[arg(long, value_enum, default_value_t = LevelName::Reconstructed)]
    level: LevelName,

    /// Also the amounts of each CPU
    #[arg(long)]
    cpu: bool,

    /// Also the amounts of each zone; with --cpu, of each CPU's pageset of it
    #[arg(long)]
    zone: bool,

    /// Count only the refills and drains that some CPUs, processes or cgroups cause; may be given again
    ///
    /// cpu=0-3,8, process=NAME, process=NUMBER or cgroup=PATH. All of the recording is replayed, since all share the
    /// pagesets; locks, the most held and failures are of the whole machine.
    #[arg(long, value_name = "KIND=VALUE", value_parser = str::parse::<Only>)]
    only: Vec<Only>,

    /// Also write JSON of the schema pageset.replay/1; `-` is standard output, instead of the table
    ///
    /// One object, or with several recordings an array of them.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Also write when the kernel and each replay refilled and drained, as a trace that ui.perfetto.dev opens
    ///
    /// For one recording. A track a CPU; the kernel's count and high are counters.
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,

    /// End with exit code 1 unless every named set of rules does what the kernel did
    ///
    /// Refill pages within 2 % or 128, refills within 5 % or 2, drain pages within 6 % or 256, drains within 10 % or 3.
    #[arg(long)]
    check: bool,

    /// With --check, also ask that this share of the kernel's refills is made near the same place; 95 suits a steady load
    #[arg(long, value_name = "PERCENT", requires = "check", value_parser = percent)]
    near: Option<f64>,

    /// A copy of /proc/zoneinfo from the recording's start, for a perf.data
    #[arg(long, value_name = "FILE")]
    zoneinfo: Option<PathBuf>,

    /// The snapshots of a text form, where they are not beside it
    #[arg(long, value_name = "FILE")]
    snapshots: Option<PathBuf>,

    /// Replay also a recording that lost events; the result is wrong by an unknown amount
    #[arg(long)]
    lossy: bool,

    /// List the presets and what each changes, with the rule files of --rules after them, and the keys of --set
    #[arg(long, conflicts_with_all = ["files", "settings", "only", "cpu", "zone", "json", "timeline", "check", "zoneinfo", "snapshots", "lossy"])]
    list_rules: bool,
}

/// What heads the columns of the tables.
#[cfg(test)]
pub(crate) fn columns() -> impl Iterator<Item = &'static str> {
    table::AMOUNTS.into_iter().chain(table::NEARNESS)
}

/// The levels on the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
enum LevelName {
    Input,
    Reconstructed,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=100.0).contains(number));
    number.ok_or_else(|| "a share is from 0 to 100".to_owned())
}

/// Runs `pageset replay`.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let chosen = Chosen::parse(&args.rules, &args.settings, true)?;
    if args.list_rules {
        io::stdout().write_all(rules::list(&chosen).as_bytes())?;
        return Ok(Exit::Done);
    }
    let level = match args.level {
        LevelName::Input => Level::Input,
        LevelName::Reconstructed => Level::Reconstructed,
    };
    let how = How { level, only: args.only.clone() };
    let parts = Parts { by_cpu: args.cpu, by_zone: args.zone };
    if args.timeline.is_some() && args.files.len() > 1 {
        return Err(Failure::new(Exit::Usage, "a timeline is of one recording").help("give one recording at a time"));
    }
    let interrupt = Interrupt::at_once()?;
    // A file that cannot be opened is told before minutes are spent on another.
    let traces = args.files.iter().map(|file| open(file, &args)).collect::<Result<Vec<_>, _>>()?;
    let json_only = args.json.as_deref().is_some_and(is_standard);
    let (mut passed, mut results, mut timeline) = (true, Vec::new(), None);
    for (i, trace) in traces.iter().enumerate() {
        let mut progress = Progress::new(trace);
        let mut measured = Measured::new(trace, &chosen, &how, &mut |step| progress.step(step))?;
        progress.clear();
        if let Some(path) = &args.timeline {
            let mut file = Output::create(path)?;
            timeline::write(&measured, &mut file)?;
            timeline = Some(file);
        }
        if args.check {
            measured.result.check = Some(measured.result.checked(args.near));
        }
        let result = measured.result;
        passed &= result.check.as_ref().is_none_or(|check| check.passed);
        if args.check && measured.contradicted {
            passed = false;
            let name = trace.name();
            complain(&format!("check failed: {name}: the traffic contradicts the rules that its release names"));
        }
        if !json_only {
            let apart = if i > 0 { "\n" } else { "" };
            match io::stdout().write_all(format!("{apart}{}", table::text(&result, parts)).as_bytes()) {
                // Nobody reads on; the file and the exit code may still be wanted.
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe && (args.check || args.json.is_some()) => {}
                written => written?,
            }
        }
        table::failures(&result).iter().for_each(|line| complain(line));
        results.push(result);
    }
    if let Some(file) = timeline {
        file.commit()?;
    }
    if let Some(path) = &args.json
        && write_json(path, &results, &interrupt)? == Exit::Interrupted
    {
        return Ok(Exit::Interrupted);
    }
    Ok(if passed { Exit::Done } else { Exit::Failed })
}

/// Writes a line to standard error, which may be closed.
fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Opens a recording that can be replayed.
fn open(file: &Path, args: &Args) -> Result<Trace, Failure> {
    let (zoneinfo, snapshots) = (args.zoneinfo.clone(), args.snapshots.clone());
    let options = OpenOptions { zoneinfo, snapshots, without_snapshots: false };
    let trace = Trace::open_with(file, &options).map_err(unreadable)?;
    if trace.facts().lost_events() && !args.lossy {
        let lost_on = lost_on(trace.facts());
        let message = format!("{}: events were lost on {lost_on}, so a replay would be wrong", file.display());
        return Err(Failure::new(Exit::Damaged, message)
            .help("record with a larger --buffer, or give --lossy to replay it all the same"));
    }
    Ok(trace)
}

/// As any unreadable recording, exit code 4: 1 would say that a check failed.
fn unreadable(error: TraceError) -> Failure {
    match error.kind() {
        ErrorKind::Io => Failure::new(Exit::Damaged, error),
        _ => error.into(),
    }
}
