//! `pageset demo`: a tour on a shipped recording, without root and without network.
//!
//! The recording is part of the program, so that the tour works from any kind of package.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use crate::error::{Exit, Failure};
use crate::output::Output;
use crate::recordings::DEMO_BYTES;

const NAMES: [&str; 2] = ["demo.pstrace", "demo.html"];

/// Show what pageset does, on a recording that comes with the command
///
/// Writes the recording and a report about it into a folder. Shows each command of the tour before its output, so that
/// you can repeat it. Needs no root, and reads nothing of this machine.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the recording and of the report, which is made if it does not exist
    #[arg(short, long, value_name = "FOLDER", default_value = "pageset-demo")]
    output: PathBuf,
}

/// A command of the tour.
struct Step {
    /// What the reader should look at.
    about: &'static str,
    /// The arguments; `RECORDING` and `REPORT` stand for the files.
    line: &'static str,
}

const STEPS: [Step; 3] = [
    Step {
        about: "A recorded stream between two CPUs of a Linux 6.18 machine, replayed under the rules of three kernels.\n\
                One column shows how often each takes the zone lock.",
        line: "replay RECORDING --rules linux-4.19,linux-5.18,kernel",
    },
    Step { about: "Would another setting of the recorded kernel be better?", line: "advise RECORDING" },
    Step { about: "The same recording as a page for a browser.", line: "report RECORDING -o REPORT" },
];

/// Runs `pageset demo`. `execute` runs a command line of this program.
pub(crate) fn run(args: &Args, execute: &dyn Fn(&[&str]) -> Result<Exit, Failure>) -> Result<Exit, Failure> {
    let folder = &args.output;
    fs::create_dir_all(folder).map_err(|error| {
        Failure::new(Exit::Unwritten, format!("cannot make the folder {}: {error}", folder.display()))
            .help("name a folder that you may write with -o FOLDER")
    })?;
    let [recording, report] = NAMES.map(|name| shown(&folder.join(name)));
    let mut out = Output::create(Path::new(&recording))?;
    out.write_all(DEMO_BYTES)?;
    out.commit()?;
    for step in &STEPS {
        let words = step.line.split(' ').map(|word| match word {
            "RECORDING" => recording.as_str(),
            "REPORT" => report.as_str(),
            word => word,
        });
        let words: Vec<&str> = words.collect();
        writeln!(io::stdout(), "{}\n\n$ pageset {}", step.about, words.join(" "))?;
        match execute(&words)? {
            Exit::Done => writeln!(io::stdout())?,
            other => return Ok(other),
        }
    }
    let open = if io::stdout().is_terminal() { "xdg-open " } else { "" };
    writeln!(io::stdout(), "Open the report in a browser: {open}{report}\nNow your own machine: pageset")?;
    Ok(Exit::Done)
}

/// A path as text. A folder whose name is not text was given as an argument, which prints in the same way.
fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
