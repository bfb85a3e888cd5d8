//! `pageset replay`: runs a recording's allocations and frees through our own allocator, under any rules.
//!
//! | module | what it does |
//! | --- | --- |
//! | `identify` | which kernel's rules produced a recording |
//! | `progress` | the progress bar on a terminal |
//! | `table` | the result as text |
//! | `timeline` | the times of refills and drains, for Perfetto |

mod identify;
pub(crate) mod progress;
mod table;
mod timeline;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pageset_trace::measure::{How, Measured, lost_on};
use pageset_trace::replay::Level;
use pageset_trace::replay::selection::Only;
use pageset_trace::{OpenOptions, Trace};

use self::progress::Progress;
use self::table::Parts;
use crate::columns::Fit;
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{self, CsvOption, Forms, JsonOption, Output, WideOption};
use crate::recordings;
use crate::rules;

/// Replay a recording under any rules, and compare with what the kernel did
///
/// Runs the recording's allocations and frees through our own allocator, once for each set of rules. The row of a set
/// shows how often pagesets were refilled and drained, how often zone locks were taken, and how many pages pagesets
/// held. For the rules of the recorded kernel, a second table shows how closely the replay follows the kernel.
///
/// FILE is a recording of `pageset record` (.pstrace), a perf.data with FILE.zoneinfo in the same folder, or
/// NAME.events.zst with NAME.snap.zst in the same folder.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The recordings, each with its own result; `-` is standard input
    #[arg(required_unless_present = "list_rules", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The sets of rules: names of presets, rule files (.toml), `kernel` for the recorded kernel's rules, or `all` for
    /// all presets
    ///
    /// A rule file has `base = "linux-6.18"` or another preset, `name = "…"`, and the rules that differ, with the keys of
    /// --set. If unsure, omit this option.
    #[arg(long, value_name = "NAME|FILE.toml,…", value_delimiter = ',', default_value = "kernel")]
    rules: Vec<String>,

    /// Change a rule of every named set; may be repeated
    ///
    /// Examples: batch=31, high=2000, high_fraction=8, auto_high=off. --list-rules shows all keys and their values.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,

    /// Which parts of the recording the replay uses
    ///
    /// `input` uses the events that cause a pageset to act and the state at the start. Use `input` for predictions.
    /// `reconstructed` also uses what the kernel's own refills and drains reveal, such as allocations without an event.
    /// If unsure, omit this option: the result then also has the kernel's rules at level `input`.
    #[arg(long, value_enum, default_value_t = LevelName::Reconstructed)]
    level: LevelName,

    /// Rank the rules of all kernels by the share of the moved pages that they explain, the best match first
    ///
    /// Each row shows the share of the pages that the replay and the kernel move near the same place, and the amounts of
    /// refills and drains. With `--rules all` the table has all presets instead of the best matches only.
    #[arg(long, conflicts_with_all = ["settings", "level", "cpu", "zone", "only", "csv", "timeline", "check", "zoneinfo", "snapshots", "lossy", "list_rules"])]
    identify: bool,

    /// Also show the amounts of each CPU
    #[arg(long)]
    cpu: bool,

    /// Also show the amounts of each zone; with --cpu, of each CPU's pageset of each zone
    #[arg(long)]
    zone: bool,

    /// Count only the refills and drains that some CPUs, processes or cgroups cause; may be repeated
    ///
    /// KIND=VALUE is cpu=0-3,8, process=NAME, process=NUMBER or cgroup=PATH. The whole recording is replayed, because
    /// all processes share the pagesets. Zone-lock holds, pages held and failures are of the whole machine.
    #[arg(long, value_name = "KIND=VALUE", value_parser = str::parse::<Only>)]
    only: Vec<Only>,

    #[command(flatten)]
    json: JsonOption,

    #[command(flatten)]
    csv: CsvOption,

    #[command(flatten)]
    wide: WideOption,

    /// Also write the times of the refills and drains, of the kernel and of each replay, as a trace for ui.perfetto.dev
    ///
    /// Allowed for one recording only. Each CPU has a track; the kernel's count and high are counters.
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,

    /// Exit with code 1 unless every named set of rules stays within limits of what the kernel did
    ///
    /// The limits: refill pages within 2 % or 128, refills within 5 % or 2, drain pages within 6 % or 256, drains
    /// within 10 % or 3.
    #[arg(long)]
    check: bool,

    /// With --check, also require that the replay makes this share of the kernel's refills near the same place; 95
    /// suits a steady load
    #[arg(long, value_name = "PERCENT", requires = "check", value_parser = percent)]
    near: Option<f64>,

    /// A copy of /proc/zoneinfo from the recording's start, for a perf.data
    #[arg(long, value_name = "FILE")]
    zoneinfo: Option<PathBuf>,

    /// The snapshots of a recording in text form, if NAME.snap[.zst] is not in the same folder
    #[arg(long, value_name = "FILE")]
    snapshots: Option<PathBuf>,

    /// Also replay a recording that lost events; the result is wrong by an unknown amount
    #[arg(long)]
    lossy: bool,

    /// List the presets and the rule files of --rules with the rules that each changes, and the keys of --set
    #[arg(long, conflicts_with_all = ["files", "settings", "only", "cpu", "zone", "json", "csv", "timeline", "check", "zoneinfo", "snapshots", "lossy"])]
    list_rules: bool,
}

/// The levels on the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
enum LevelName {
    Input,
    Reconstructed,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=100.0).contains(number));
    number.ok_or_else(|| "allowed: 0 to 100 percent".to_owned())
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    if args.identify {
        let all = match args.rules.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["kernel"] => false,
            ["all"] => true,
            _ => {
                let message = "--identify compares the presets of all kernels, not the named rules";
                return Err(Failure::new(Exit::Usage, message).help("omit --rules, or give --rules all for all rows"));
            }
        };
        return identify::run(&args.files, all, &args.json, Fit::new(&args.wide));
    }
    let chosen = rules::of_recording(&args.rules, &args.settings)?;
    if args.list_rules {
        io::stdout().write_all(rules::list(&chosen).as_bytes())?;
        return Ok(Exit::Done);
    }
    let level = match args.level {
        LevelName::Input => Level::Input,
        LevelName::Reconstructed => Level::Reconstructed,
    };
    let how = How { level, only: args.only.clone() };
    let parts = Parts { by_cpu: args.cpu, by_zone: args.zone, whole_warnings: args.wide.wide };
    if args.timeline.is_some() && args.files.len() > 1 {
        return Err(Failure::new(Exit::Usage, "--timeline takes one recording").help("replay one recording at a time"));
    }
    let interrupt = Interrupt::at_once()?;
    // A file that cannot be opened is reported before minutes are spent on another file.
    let traces = args.files.iter().map(|file| open(file, &args)).collect::<Result<Vec<_>, _>>()?;
    let (forms, fit) = (Forms::new(&args.json, &args.csv)?, Fit::new(&args.wide));
    args.timeline.as_deref().map_or(Ok(()), output::check)?;
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
        if forms.text() {
            let apart = if i > 0 { "\n" } else { "" };
            match output::print(&format!("{apart}{}", table::text(&result, parts, fit))) {
                // The reader of standard output has gone; the JSON file and the exit code may still be wanted.
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe && (args.check || forms.any()) => {}
                written => written?,
            }
        }
        table::failures(&result).iter().for_each(|line| complain(line));
        results.push(result);
    }
    if let Some(file) = timeline {
        file.commit()?;
    }
    let rows = results.iter().flat_map(|result| {
        let lead = vec![("recording", result.trace.name.clone()), ("kernel", result.kernel.rules.clone())];
        result.rules.iter().map(move |row| (lead.clone(), row))
    });
    if forms.write(&results, rows, &interrupt)? == Exit::Interrupted {
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
    let trace = recordings::open_with(file, &options)?;
    if trace.facts().lost_events() && !args.lossy {
        let lost_on = lost_on(trace.facts());
        let message = format!("cannot replay {}: events were lost on {lost_on}", file.display());
        return Err(Failure::new(Exit::Damaged, message)
            .help("record with a larger --buffer, or add --lossy to replay the recording anyway"));
    }
    Ok(trace)
}
