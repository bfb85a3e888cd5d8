//! `pageset bench`: how fast the pool is, beside floors that say what the hardware allows. The harness is
//! `pageset-bench`.
//!
//! Allocators from outside are measured by a program of their own, `pageset-bench-peers`, that has all of this as well and
//! takes the same arguments: where it is found it is run instead, so that all take part in the same rounds.

use std::env;
use std::io::{self, IsTerminal, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use indicatif::{ProgressBar, ProgressDrawTarget};
use pageset_bench::Args;
use signal_hook::consts::SIGINT;

use crate::error::{Exit, Failure};

/// The program with allocators from outside.
const PEERS: &str = "pageset-bench-peers";

/// Where it is: beside this command, or in a folder of `PATH`.
fn peers() -> Option<PathBuf> {
    let beside = env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let path = env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = beside.into_iter().chain(env::split_paths(&path)).collect();
    places.into_iter().map(|place| place.join(PEERS)).find(|program| program.is_file())
}

/// Runs the subcommand. Ctrl-C ends it with what was measured by then; a second one at once.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    if !args.no_peers {
        match peers() {
            Some(program) => {
                let own = env::args_os().skip_while(|arg| arg != "bench").skip(1);
                // Comes back only when it could not be run.
                let error = Command::new(&program).args(own).exec();
                return Err(io::Error::new(error.kind(), format!("{}: {error}", program.display())).into());
            }
            None => eprintln!(
                "note: no allocators from outside: {PEERS} is neither beside this command nor in PATH; \
                 it is built from bench-peers/"
            ),
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register_conditional_shutdown(SIGINT, Exit::Interrupted as i32, Arc::clone(&stop))?;
    signal_hook::flag::register(SIGINT, Arc::clone(&stop))?;
    let target = if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    let report = pageset_bench::run(args, &pageset_bench::entries(), &stop, |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    })
    .map_err(|error| Failure::new(Exit::Usage, error))?;
    bar.finish_and_clear();
    for warning in report.warnings() {
        eprintln!("warning: {warning}");
    }
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", report.table())?;
    }
    Ok(if report.interrupted { Exit::Interrupted } else { Exit::Done })
}
