//! `pageset bench`: how fast the pool is, beside floors that say what the hardware allows. The harness is
//! `pageset-bench`.

use std::io::{self, IsTerminal, Write as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use indicatif::{ProgressBar, ProgressDrawTarget};
use pageset_bench::Args;
use signal_hook::consts::SIGINT;

use crate::error::{Exit, Failure};

/// Runs the subcommand. Ctrl-C ends it with what was measured by then; a second one at once.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
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
