//! `pageset advise`: whether another setting of the kernel serves a load better.

mod table;

use std::io::{self, Write as _};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;
use pageset_record::{Destination, HOLD, Limits, Note, Options, Phase};
use pageset_trace::Trace;
use pageset_trace::advise::{Advice, AdviceSet};

use crate::columns::Fit;
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{self, JsonOption, WideOption, is_standard, write_json};
use crate::recordings;
use crate::replay_cmd::progress::{Progress, waiting};
use crate::time;

/// Say whether another setting of the recorded kernel serves a load better, with its gain and its cost
///
/// Replays the recording under vm.percpu_pagelist_high_fraction = 0, 8, 12, 16, 25, 50, 100 and the value in force, as
/// far as its kernel offers them. Also replays it under values of vm.watermark_scale_factor, and with all frees on the
/// allocating CPU if another CPU frees many pages. For comparison, also replays it under the rules of other kernels.
/// The verdict is often to change nothing. The command does not change any setting.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The recordings, in any form that `pageset replay` reads; several recordings of one machine get one verdict
    #[arg(required_unless_present = "live", value_name = "TRACE")]
    trace: Vec<PathBuf>,

    /// Record this machine for SECONDS instead of reading a recording; requires root
    #[arg(long, value_name = "SECONDS", conflicts_with = "trace", value_parser = live)]
    live: Option<Duration>,

    #[command(flatten)]
    json: JsonOption,

    #[command(flatten)]
    wide: WideOption,
}

fn live(text: &str) -> Result<Duration, String> {
    let seconds = time::seconds(text).filter(|seconds| (1.0..=600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "allowed: 1 to 600 seconds".to_owned())
}

#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    pageset_trace::advise::NAMES.into_iter()
}

/// How long Ctrl-C waits at most. Short for people.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    // Before minutes of recording.
    let json = args.json.path()?;
    let folder;
    let paths = match (args.trace.as_slice(), args.live) {
        ([], Some(seconds)) => {
            folder = tempfile::tempdir()?;
            let path = folder.path().join("live.pstrace");
            record_for(seconds, &path)?;
            vec![path]
        }
        ([], None) => {
            return Err(Failure::new(Exit::Usage, "cannot advise: no recording given")
                .help("name a recording, or use --live SECONDS"));
        }
        (paths, _) => paths.to_vec(),
    };
    let interrupt = Interrupt::install()?;
    // A file that cannot be opened is reported before minutes are spent on another file.
    let traces = paths.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let names = recording_names(&traces, &paths);
    let works = traces.into_iter().zip(names).map(|(trace, name)| move || judge(&trace, name)).collect();
    let (recordings, ended) = each_of(works, || interrupt.keep_on());
    let judged = recordings.len();
    if judged > 0 {
        let told = tell(recordings, paths.len() > 1, Fit::new(&args.wide), json, &interrupt)?;
        if matches!(ended, Ok(Exit::Done)) {
            return Ok(told);
        }
    }
    if matches!(ended, Ok(Exit::Interrupted)) {
        let _ = writeln!(io::stderr(), "interrupted: {judged} of {} recordings were judged", paths.len());
    }
    ended
}

/// Opens a recording. A number that names no file is probably meant as the seconds of `--live`.
fn open(path: &Path) -> Result<Trace, Failure> {
    let seconds = path.to_str().filter(|text| live(text).is_ok() && !path.exists());
    recordings::open(path).map_err(|error| match seconds {
        Some(seconds) => {
            Failure::from(error).help(format!("`pageset advise --live {seconds}` records this machine for that time"))
        }
        None => error.into(),
    })
}

/// The advice on a recording.
fn judge(trace: &Trace, name: String) -> Result<Advice, Failure> {
    let mut progress = Progress::new(trace);
    let advice = Advice::of(trace, &mut |step| progress.step(step));
    progress.clear();
    Ok(Advice { trace: name, ..advice? })
}

/// The results of works, which run one after the other in a thread, and how that ended. After a failure, or once `keep_on` is
/// false, they are the results so far: a work that still runs then is left alone.
fn each_of<T: Send + 'static>(
    works: Vec<impl FnOnce() -> Result<T, Failure> + Send + 'static>,
    keep_on: impl Fn() -> bool,
) -> (Vec<T>, Result<Exit, Failure>) {
    let (sender, finished) = mpsc::channel();
    let all = works.len();
    let worker = thread::spawn(move || works.into_iter().map(|work| work()).try_for_each(|result| sender.send(result)));
    let mut results = Vec::new();
    while results.len() < all {
        if !keep_on() {
            // What has come since the last look.
            results.extend(finished.try_iter().map_while(Result::ok));
            return (results, Ok(Exit::Interrupted));
        }
        match finished.recv_timeout(LOOK) {
            Ok(Ok(result)) => results.push(result),
            Ok(Err(failure)) => return (results, Err(failure)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => resume_unwind(panic),
                Ok(_) => unreachable!("a worker sends each result"),
            },
        }
    }
    (results, Ok(Exit::Done))
}

/// Prints or writes the advice on one recording, or one verdict over those of `several` that are finished.
fn tell(
    recordings: Vec<Advice>,
    several: bool,
    fit: Fit,
    json: Option<&Path>,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let text = !json.is_some_and(is_standard);
    if let ([advice], false) = (&recordings[..], several) {
        if text {
            output::print(&table::text(advice, fit))?;
        }
        return json.map_or(Ok(Exit::Done), |path| write_json(path, &recordings, interrupt));
    }
    let set = AdviceSet::of(recordings);
    if text {
        output::print(&table::joint(&set, fit))?;
        set.recordings.iter().try_for_each(|advice| output::print(&format!("\n{}", table::text(advice, fit))))?;
    }
    json.map_or(Ok(Exit::Done), |path| write_json(path, &[set], interrupt))
}

/// The recordings' names. Recordings of one name have their paths instead.
fn recording_names(traces: &[Trace], paths: &[PathBuf]) -> Vec<String> {
    let is_shared = |name: &str| traces.iter().filter(|trace| trace.name() == name).count() > 1;
    let of = |(trace, path): (&Trace, &PathBuf)| match is_shared(trace.name()) {
        true => path.display().to_string(),
        false => trace.name().to_owned(),
    };
    traces.iter().zip(paths).map(of).collect()
}

/// Records this machine as it runs.
fn record_for(time: Duration, path: &Path) -> Result<(), Failure> {
    let options = Options {
        command: Vec::new(),
        output: Destination::File(path.to_owned()),
        buffer_bytes: None,
        empty_lists: false,
        limits: Limits { duration: Some(time), ..Limits::default() },
        launcher: vec!["/proc/self/exe".into(), HOLD.into()],
    };
    let line =
        format!("recording this machine for {} s, {{elapsed}} so far; Ctrl-C stops without advice", time.as_secs());
    let mut bar = ProgressBar::hidden();
    let mut note = |note: Note<'_>| {
        if matches!(note, Note::Phase(Phase::Recording)) {
            bar = waiting(&line);
        }
    };
    let summary = pageset_record::record(&options, &mut note).map_err(crate::record_cmd::failure)?;
    bar.finish_and_clear();
    match summary.interrupted {
        Some(signal) => Err(Failure::new(Exit::of_signal(signal), "cannot advise: interrupted while recording")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    type Work = Box<dyn FnOnce() -> Result<u32, Failure> + Send>;

    /// Ctrl-C in the middle of the second recording, which never ends, keeps the first.
    #[test]
    fn an_interrupt_keeps_what_is_finished() {
        let begun = Arc::new(AtomicBool::new(false));
        let second = Arc::clone(&begun);
        let endless = move || {
            second.store(true, Ordering::SeqCst);
            loop {
                thread::park();
            }
        };
        let works: Vec<Work> = vec![Box::new(|| Ok(1)), Box::new(endless), Box::new(|| Ok(3))];
        let (results, ended) = each_of(works, || !begun.load(Ordering::SeqCst));
        assert_eq!(results, [1]);
        assert!(matches!(ended, Ok(Exit::Interrupted)));
    }

    #[test]
    fn a_failure_keeps_what_is_finished() {
        let fails = || Err(Failure::new(Exit::Damaged, "cut"));
        let works: Vec<Work> = vec![Box::new(|| Ok(1)), Box::new(|| Ok(2)), Box::new(fails), Box::new(|| Ok(4))];
        let (results, ended) = each_of(works, || true);
        assert_eq!(results, [1, 2]);
        assert_eq!(ended.unwrap_err().to_string(), "error: cut");
    }
}
