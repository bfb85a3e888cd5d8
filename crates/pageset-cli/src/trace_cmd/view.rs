//! `pageset trace view`: shows a timeline in Perfetto's viewer.
//!
//! The viewer is a page that runs in the user's browser. It fetches the timeline from this command over the loopback
//! address, so nothing is uploaded.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pageset_trace::OpenOptions;
use pageset_trace::measure::{How, Measured};
use pageset_trace::replay::Level;
use tiny_http::{Header, Method, Request, Response, Server};

use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::recordings;
use crate::replay_cmd::progress::Progress;
use crate::replay_cmd::timeline;
use crate::rules::Chosen;

/// The viewer. Only its pages may fetch the timeline.
const VIEWER: &str = "https://ui.perfetto.dev";
/// The one port of the loopback address from which the viewer's own policy lets it fetch. Source: Perfetto's script
/// `open_trace_in_ui`.
const PORT: u16 = 9001;
/// The name of the timeline in its address.
const NAME: &str = "/timeline.json";

/// Show a recording or a timeline in Perfetto's viewer, in your browser
///
/// FILE is a recording, or a timeline that `replay --timeline` wrote. A recording is replayed, and the kernel and each set of
/// rules become a group of tracks. The command prints the address of the viewer and opens the address in a browser. The
/// viewer fetches the timeline from this command over a loopback address and uploads nothing. The command ends when the
/// viewer has the timeline.
#[derive(clap::Args)]
pub(super) struct ViewArgs {
    /// The recording or the timeline
    file: PathBuf,

    /// The sets of rules under which to replay a recording: presets, rule files, or `kernel` for the recorded kernel's
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", default_value = "kernel")]
    rules: Vec<String>,

    /// The port to offer the timeline at; the viewer fetches from no other port than the default one; 0 chooses a free
    /// port
    #[arg(long, default_value_t = PORT)]
    port: u16,

    /// Only print the address
    #[arg(long)]
    no_browser: bool,
}

/// Runs `pageset trace view`.
pub(super) fn run(args: &ViewArgs) -> Result<Exit, Failure> {
    let _interrupt = Interrupt::at_once()?;
    let file = timeline(args)?;
    let server = Server::http((Ipv4Addr::LOCALHOST, args.port)).map_err(|error| {
        let message = format!("cannot listen on port {} of {}: {error}", args.port, Ipv4Addr::LOCALHOST);
        Failure::new(Exit::Failed, message)
            .help("end the program that uses the port, such as another `pageset trace view`")
    })?;
    let address = format!("{VIEWER}/#!/?url=http://{}{NAME}", server.server_addr());
    writeln!(io::stdout(), "{address}")?;
    eprintln!("waiting for the viewer to fetch the timeline; Ctrl-C ends");
    if !args.no_browser {
        let browser = Command::new("xdg-open")
            .arg(&address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if browser.is_err() {
            eprintln!("note: there is no xdg-open; open the address in a browser");
        }
    }
    loop {
        if answer(server.recv()?, &file)? {
            return Ok(Exit::Done);
        }
    }
}

/// The timeline of a recording, or the given one.
fn timeline(args: &ViewArgs) -> Result<File, Failure> {
    if !recordings::is_demo(&args.file) && begins_like_json(&args.file)? {
        return Ok(File::open(&args.file)?);
    }
    let chosen = Chosen::parse(&args.rules, &[], true)?;
    let trace = recordings::open_with(&args.file, &OpenOptions::default())?;
    let mut progress = Progress::new(&trace);
    let how = How { level: Level::Reconstructed, only: Vec::new() };
    let measured = Measured::new(&trace, &chosen, &how, &mut |step| progress.step(step))?;
    progress.clear();
    let mut file = tempfile::tempfile()?;
    timeline::write(&measured, &mut file)?;
    Ok(file)
}

fn begins_like_json(path: &Path) -> Result<bool, Failure> {
    let unreadable = |error| Failure::new(Exit::Unreadable, format!("cannot read {}: {error}", path.display()));
    let mut begin = Vec::new();
    File::open(path).and_then(|file| file.take(64).read_to_end(&mut begin)).map_err(unreadable)?;
    Ok(begin.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{'))
}

/// Answers a request. Returns whether the viewer has the timeline.
fn answer(request: Request, file: &File) -> io::Result<bool> {
    let headers = [
        ("Access-Control-Allow-Origin", VIEWER),
        // Browsers ask before a page of the network may fetch from this machine.
        ("Access-Control-Allow-Private-Network", "true"),
        ("Cache-Control", "no-store"),
        ("Content-Type", "application/json"),
    ];
    let headers = headers.into_iter().filter_map(|(name, value)| Header::from_bytes(name, value).ok());
    let path = request.url().split('?').next().unwrap_or_default();
    let method = request.method().clone();
    match (method, path) {
        (Method::Get, NAME) => {
            let mut file = file.try_clone()?;
            io::Seek::rewind(&mut file)?;
            let response = headers.fold(Response::from_file(file), |response, header| response.with_header(header));
            // A viewer that has disconnected may ask again.
            Ok(request.respond(response).is_ok())
        }
        (Method::Head | Method::Options, NAME) => {
            let response = headers.fold(Response::empty(204), |response, header| response.with_header(header));
            let _ = request.respond(response);
            Ok(false)
        }
        _ => {
            let _ = request.respond(Response::from_string("not found\n").with_status_code(404));
            Ok(false)
        }
    }
}
