//! `pageset top`: shows what the kernel's pagesets do now.
//!
//! | module | what it does |
//! | --- | --- |
//! | `agent` | `pageset agent`: a look a minute as one line of JSON |
//! | `plain` | a view (`pageset_fleet::view`) as text |
//! | `figures` | numbers that may be missing, as text |
//! | `listen` | metrics over HTTP on a loopback address |
//! | `playback` | saved looks, recordings and copies of zoneinfo |
//! | `history` | the recent looks: sparklines, medians, percentiles |
//! | `unusual` | what is unusual now |
//! | `filter` | which CPUs to show |
//! | `source` | one look after the other, of a machine or saved |
//! | `order` | what the list shows, and its order |
//! | `state` | keys |
//! | `fit` | columns and lines that fit into a width, without a cut number |
//! | `screen` | the panels on a terminal |
//! | `terminal` | keys, mouse, hang-up and suspension of the terminal |

pub(crate) mod agent;
#[cfg(test)]
mod cut_tests;
mod figures;
mod filter;
mod fit;
mod history;
mod listen;
#[cfg(test)]
#[path = "../../tests/support/made_up.rs"]
mod made_up;
mod order;
mod plain;
mod playback;
#[cfg(test)]
mod process_tests;
mod screen;
mod source;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod unusual;

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use pageset_fleet::look;
use pageset_fleet::metrics::Exporter;
use pageset_fleet::view::{self, View};
use schemars::{Schema, schema_for};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::listen::Scrapes;
use self::playback::Apart;
use self::source::{Live, Saved};
use self::state::State;
use crate::columns::Fit;
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{self, Output, WideOption, is_standard};
use crate::time;
use pageset_fleet::look::{Counting, Look, Machine};

/// Watch the per-CPU pagesets of this machine: the pages they hold, their sizes, and the pages they move
///
/// Any user sees zones, watermarks and pagesets. Root also sees how many pages refills and drains move; the kernel
/// counts them, and no events are recorded. The command does not change the machine. In a pipe it prints a block of
/// text per look.
///
/// Ends with exit code 0 after q, --once or --count, and when the reader of its output closes the pipe. Ctrl-Z suspends
/// the screen, and `fg` shows it again.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds between looks [default: 1]
    #[arg(short, long, value_name = "SECONDS", value_parser = interval)]
    interval: Option<Duration>,

    /// Print one result and exit; if the output shows changes, this takes two looks, one interval apart. With --from, the
    /// last look; of a recording, with the changes over all of it
    #[arg(long, conflicts_with = "count")]
    once: bool,

    /// Exit after this number of looks
    #[arg(short = 'n', long, value_name = "LOOKS", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Print text, even on a terminal
    #[arg(long, conflicts_with_all = ["json", "openmetrics", "listen"])]
    plain: bool,

    #[command(flatten)]
    wide: WideOption,

    /// Print a line of JSON per look, of the schema pageset.top/1, in base units: ns, pages
    #[arg(long, conflicts_with_all = ["openmetrics", "listen"])]
    json: bool,

    /// Write OpenMetrics text to FILE, and replace it at each look; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    openmetrics: Option<PathBuf>,

    /// Serve OpenMetrics text over HTTP, on a loopback address only
    #[arg(long, value_name = "127.0.0.1:PORT", value_parser = listen::loopback)]
    listen: Option<SocketAddr>,

    /// Do not count refills and drains, even as root
    #[arg(long)]
    no_count: bool,

    /// Play saved looks instead of this machine's: output of --json, recordings, or copies of /proc/zoneinfo
    ///
    /// Name the oldest file first. On a terminal, space pauses, n and p step, and + and - change the speed; the last look, marked [end],
    /// stays until q. With --interval, a look at a recording is at least so many seconds after the previous one; without it, each
    /// snapshot of the recording is a look.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["listen", "openmetrics", "count", "no_count"])]
    from: Vec<PathBuf>,
}

/// The time between looks if nothing else is given.
const INTERVAL: Duration = Duration::from_secs(1);

/// The signals that end the command.
const STOPS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// The longest delay until a key, a signal or a scrape is noticed.
const STEP: Duration = Duration::from_millis(100);

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = time::seconds(text).filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "allowed: 0.1 to 86400 seconds".to_owned())
}

/// The names that no column has: of metrics, counters, and computed columns.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = String> {
    let counters = view::SHOWN.into_iter().map(|name| name.trim_end_matches('_').to_owned());
    pageset_fleet::metrics::names().chain(counters).chain(["mark", "fragmentation index"].map(str::to_owned))
}

/// Who reads standard output.
struct Reader {
    out: io::Stdout,
    /// The exit code after the reader has gone.
    end: Exit,
}

impl Reader {
    fn new() -> Reader {
        let out = io::stdout();
        // A terminal that hung up is no terminal any more, so look now.
        let end = if out.is_terminal() { Exit::HungUp } else { Exit::Done };
        Reader { out, end }
    }

    /// Whether the terminal hung up, or the other end of the pipe is closed.
    fn is_gone(&self) -> bool {
        terminal::is_closed(&self.out)
    }
}

/// Waits until a time, a signal, or the end of the reader of `out`. Returns the exit code if the command should end.
fn wait(until: Instant, interrupt: &Interrupt, out: Option<&Reader>) -> Option<Exit> {
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        if !interrupt.keep_on() {
            return Some(interrupt.exit());
        }
        if let Some(out) = out.filter(|out| out.is_gone()) {
            return Some(out.end);
        }
        thread::sleep(left.min(STEP));
    }
    (!interrupt.keep_on()).then(|| interrupt.exit())
}

/// The value of a look's member `schema`, and the JSON schema.
pub(crate) fn schema() -> (&'static str, Schema) {
    (view::SCHEMA, schema_for!(View))
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let interrupt = Interrupt::on(&STOPS, false)?;
    let on_screen = !args.plain && !args.json && io::stdout().is_terminal() && args.openmetrics.is_none() && !args.once;
    let interval = args.interval.unwrap_or(INTERVAL);
    if !args.from.is_empty() {
        // Text about a recording has the changes over all of it.
        let apart = match args.interval {
            None if args.once => Apart::Whole,
            interval => Apart::Least(interval.unwrap_or_default()),
        };
        let mut views = playback::views(&args.from, apart)?;
        if !on_screen {
            let first = if args.once { views.len().saturating_sub(1) } else { 0 };
            views.drain(..first);
            views.into_iter().try_for_each(|view| print(view, &args, &mut Exporter::default()))?;
            return Ok(Exit::Done);
        }
        let Some(mut saved) = Saved::new(views) else {
            return Err(Failure::new(Exit::Damaged, "cannot show anything: no file has a look"));
        };
        let state = State { frozen: !saved.is_timed(), ..begin(interval) };
        return terminal::screen(&mut saved, state, args.count, &interrupt);
    }
    let counting = if args.no_count { Counting::Off } else { Counting::All };
    let mut machine = Machine::new(counting);
    if let Some(address) = args.listen {
        let (scrapes, mut exporter) = (Scrapes::open(address)?, Exporter::default());
        while interrupt.keep_on() {
            scrapes.answer(&mut || Ok(exporter.text(machine.look()?, None)))?;
        }
        return Ok(interrupt.exit());
    }
    if on_screen {
        let mut source = Live::new(|| machine.look())?;
        return terminal::screen(&mut source, begin(interval), args.count, &interrupt);
    }
    lines(&mut || machine.look(), &args, interval, &interrupt)
}

/// What the screen shows at first.
fn begin(interval: Duration) -> State {
    let colour = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    State { interval, colour, ..State::new() }
}

/// Looks and prints until `--once`, `--count` or a signal ends the loop.
fn lines(
    look: &mut dyn FnMut() -> Result<Look, Failure>,
    args: &Args,
    pace: Duration,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let mut before: Option<Look> = None;
    let (mut printed, mut exporter) = (0, Exporter::default());
    let out = args.openmetrics.as_deref().is_none_or(is_standard).then(Reader::new);
    loop {
        let begin = Instant::now();
        let look = look()?;
        // The first look has no changes. Metrics are totals and need no changes.
        if !(args.once && before.is_none() && args.openmetrics.is_none()) {
            match (print(View::new(&look, before.as_ref()), args, &mut exporter), &out) {
                (Err(_), Some(out)) if out.is_gone() => return Ok(out.end),
                (printed, _) => printed?,
            }
            printed += 1;
        }
        if args.once && printed == 1 || args.count == Some(printed) {
            return Ok(Exit::Done);
        }
        before = Some(look);
        if let Some(exit) = wait(begin + pace, interrupt, out.as_ref()) {
            return Ok(exit);
        }
    }
}

fn print(view: View, args: &Args, exporter: &mut Exporter) -> Result<(), Failure> {
    if let Some(path) = &args.openmetrics {
        let text = exporter.of_view(view, None);
        let mut out = Output::create(Path::new(path))?;
        out.write_all(text.as_bytes())?;
        return Ok(out.commit()?);
    }
    if !args.json {
        return Ok(output::print(&format!("{}\n", plain::text(&view, Fit::new(&args.wide))))?);
    }
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &view).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(out.flush()?)
}
