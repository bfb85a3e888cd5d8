//! `pageset top` on a terminal that hangs up, is suspended, or whose output nobody reads.

mod support;

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use support::{command, ends, trace};

/// A terminal: its end for the user, and its end for programs.
fn pty() -> (OwnedFd, File) {
    let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&user).unwrap();
    unlockpt(&user).unwrap();
    let name = ptsname(&user, Vec::new()).unwrap().into_string().unwrap();
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&user, size).unwrap();
    (user, OpenOptions::new().read(true).write(true).open(name).unwrap())
}

/// Starts a command on a terminal and waits until it shows the screen of `top`. Returns the user's end.
fn on_terminal(mut command: Command) -> (Child, File) {
    let (user, terminal) = pty();
    let end = || Stdio::from(terminal.try_clone().unwrap());
    let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    // The screen comes last; keep the programs' end closed here, so that the user's end is the only one.
    drop((command, terminal));
    let mut user = File::from(user);
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains("quit") {
        let mut part = [0; 4096];
        let length = user.read(&mut part).unwrap();
        shown.extend_from_slice(&part[..length]);
    }
    (child, user)
}

/// All that a command shows on a terminal.
fn shown(mut command: Command) -> String {
    let (user, terminal) = pty();
    let end = || Stdio::from(terminal.try_clone().unwrap());
    let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    drop((command, terminal));
    let mut shown = Vec::new();
    // The end of the last program on the terminal is an error of input and output.
    let _ = File::from(user).read_to_end(&mut shown);
    ended(&mut child);
    String::from_utf8_lossy(&shown).into_owned()
}

/// Whether a text sets a colour. Bold, underlined and reversed text, and the terminal's own colours, are none.
fn is_coloured(text: &str) -> bool {
    let set = |sequence: &str| {
        let end = sequence.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(sequence.len());
        let numbers = sequence[..end].split(';').filter_map(|number| number.parse().ok());
        let mut colours = numbers.filter(|n: &u32| matches!(n, 30..=38 | 40..=48 | 90..=97 | 100..=107));
        sequence[end..].starts_with('m') && colours.next().is_some()
    };
    text.split("\u{1b}[").skip(1).any(set)
}

/// <https://no-color.org>: a value that is not empty disables all colours.
#[test]
fn no_color_disables_all_colours() {
    assert!(
        is_coloured("\u{1b}[1;31mx")
            && is_coloured("\u{1b}[38;5;6m")
            && !is_coloured("\u{1b}[39m\u{1b}[1m\u{1b}[31;5H")
    );
    let top: &[&str] = &["top", "--config", "/dev/null", "--made-up", "4", "-n", "1", "-i", "0.1"];
    let run: &[&str] = &["run", "page_fault1", "--machine", "vm-8", "--duration", "1ms", "--warm-up", "1ms"];
    for (words, has_colours) in [
        (top, true),
        (&["run", "--no-such-option"], true),
        (&["replay", "--help"], false),
        (&["machine", "list"], false),
        (run, false),
    ] {
        let with = |value: Option<&str>| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_pageset"));
            command.args(words).env("TERM", "xterm-256color").env_remove("NO_COLOR").env_remove("CLICOLOR");
            command.env_remove("CLICOLOR_FORCE");
            shown(match value {
                Some(value) => {
                    command.env("NO_COLOR", value);
                    command
                }
                None => command,
            })
        };
        for (value, coloured) in [(None, has_colours), (Some(""), has_colours), (Some("1"), false), (Some("0"), false)]
        {
            let text = with(value);
            assert!(!text.is_empty());
            assert_eq!(is_coloured(&text), coloured, "{words:?}, NO_COLOR = {value:?}: {text:?}");
        }
    }
}

/// On a terminal of 80 characters the tables of published and simulated rows fit, and a line names what they lack.
#[test]
fn wide_tables_fit_the_terminal() {
    let effort = "--seeds 1 --duration 4ms --warm-up 2ms";
    for (line, column) in [
        ("compare page_fault1-batch-sweep.csv --machine lkp-sb02", "spread %"),
        ("machine share --machine lkp-sb02,lkp-skl-d01", "costs of others"),
    ] {
        let on_terminal = |more: &str| {
            let line = format!("{line} {effort} {more}");
            let words: Vec<&str> = line.split_whitespace().collect();
            shown(command(&words.iter().map(|word| word as &dyn AsRef<Path>).collect::<Vec<_>>()))
        };
        let (narrow, wide) = (on_terminal(""), on_terminal("--wide"));
        let left = |text: &str| text.lines().find_map(|line| Some(line.split_once("not shown: ")?.1.to_owned()));
        assert!(left(&narrow).is_some_and(|left| left.contains(column)), "{line}: {narrow}");
        assert_eq!(left(&wide), None, "{line}: {wide}");
        let head = |text: &str| {
            text.lines().find(|line| line.trim_start().starts_with("machine ")).unwrap().trim_end().to_owned()
        };
        assert!(head(&narrow).chars().count() <= 80 && head(&wide).contains(column), "{line}: {wide}");
    }
}

/// Reading recordings for more than a second shows how far it is, on a terminal only.
#[test]
fn long_reading_shows_its_progress_on_a_terminal() {
    let file = trace("pf1-q1.events.zst").display().to_string();
    let many = |files: usize| vec![file.as_str(); files].join(",");
    let (user, terminal) = pty();
    let end = || Stdio::from(terminal.try_clone().unwrap());
    let mut diff = command(&[&"diff", &many(1000), &file]);
    let mut child = diff.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    drop((diff, terminal));
    let (mut user, mut shown) = (File::from(user), Vec::new());
    let begin = Instant::now();
    let is_shown = |shown: &[u8]| {
        let shown = String::from_utf8_lossy(shown);
        shown.contains("pf1-q1.events.zst")
            && (shown.contains(" % ") || shown.contains(" %,") || shown.contains(" events read"))
    };
    while !is_shown(&shown) {
        // Progress starts after a second of reading; all files take minutes.
        if begin.elapsed() > PATIENCE || !is_readable(&user, PATIENCE - begin.elapsed()) {
            child.kill().unwrap();
            panic!("no progress within {} s: {}", PATIENCE.as_secs(), String::from_utf8_lossy(&shown));
        }
        let mut part = [0; 4096];
        let length = user.read(&mut part).unwrap_or(0);
        assert!(length > 0, "the command ended without progress: {}", String::from_utf8_lossy(&shown));
        shown.extend_from_slice(&part[..length]);
    }
    child.kill().unwrap();
    ended(&mut child);
    let mut files = 8;
    // Twice as many, until one run is so long that a terminal would show its progress.
    loop {
        let begin = Instant::now();
        let (_, error) = ends(0, &[&"diff", &many(files), &file]);
        assert_eq!(error, "", "a pipe shows no progress");
        if begin.elapsed() > Duration::from_millis(1500) {
            break;
        }
        files *= 2;
    }
}

/// The longest wait for a process that has to show something or to end. A guess: much longer than on a loaded host.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a terminal has something to read, or has hung up. False if it has not within `time`.
fn is_readable(terminal: &File, time: Duration) -> bool {
    let mut ends = [PollFd::new(terminal, PollFlags::IN)];
    poll(&mut ends, Some(&Timespec::try_from(time).unwrap())).unwrap() > 0
}

/// Waits for the end of a process, at most [`PATIENCE`].
fn ended(child: &mut Child) -> ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begin.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("the process does not end");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The terminal hangs up: with SIGHUP for the terminal's own session, without it for another session.
#[test]
fn top_ends_when_its_terminal_hangs_up() {
    for with_signal in [true, false] {
        let program = env!("CARGO_BIN_EXE_pageset");
        let mut top = Command::new("setsid");
        top.args(with_signal.then_some("--ctty")).args([program, "top", "-i", "60", "--no-count"]);
        let (mut top, user) = on_terminal(top);
        drop(user);
        let status = ended(&mut top);
        assert_eq!(status.code(), Some(129), "{status}, with a signal: {with_signal}");
    }
}

/// Plain text on a terminal that hangs up.
#[test]
fn plain_text_ends_when_its_terminal_hangs_up() {
    let (user, terminal) = pty();
    let end = || Stdio::from(terminal.try_clone().unwrap());
    let mut top = Command::new("setsid");
    top.args([env!("CARGO_BIN_EXE_pageset"), "top", "--plain", "-i", "60", "--no-count"]);
    let mut child = top.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    drop((top, terminal));
    let mut line = String::new();
    let mut user = BufReader::new(File::from(user));
    user.read_line(&mut line).unwrap();
    drop(user);
    assert_eq!(ended(&mut child).code(), Some(129));
}

/// Nobody reads the pipe any more: the command ends now, not at the next look.
#[test]
fn top_ends_when_its_pipe_closes() {
    for form in ["--json", "--plain"] {
        let mut top = command(&[&"top", &form, &"-i", &"86400", &"--no-count"]);
        let mut top = top.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(top.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(ended(&mut top).code(), Some(0), "{form}");
    }
}

/// SIGTERM and SIGHUP have their own exit codes.
#[test]
fn each_signal_has_its_exit_code() {
    for (signal, code) in [("-HUP", 129), ("-INT", 130), ("-TERM", 143)] {
        let mut top = command(&[&"top", &"--json", &"-i", &"0.1", &"--no-count"]);
        let mut top = top.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(top.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        assert!(Command::new("kill").args([signal, &top.id().to_string()]).status().unwrap().success());
        assert_eq!(ended(&mut top).code(), Some(code), "{signal}");
    }
}
