//! `pageset top` on a terminal that hangs up, is suspended, or whose output nobody reads.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::terminal::{self, PATIENCE, ended, is_readable, pty};
use crate::support::{command, ends, trace};

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

/// <https://no-color.org>: a value that is not empty disables all colours.
#[test]
fn no_color_disables_all_colours() {
    let top: &[&str] = &["top", "-n", "1", "-i", "0.1"];
    terminal::no_color_disables_all_colours(&[
        (top, true),
        (&["replay", "--no-such-option"], true),
        (&["replay", "--help"], false),
        (&["replay", "--list-rules"], false),
    ]);
}

/// A first result takes an interval: a terminal shows how long it lasts, a pipe shows nothing.
#[test]
fn an_agent_that_is_waited_for_says_so() {
    let screen = terminal::shown(command(&[&"agent", &"--once", &"-i", &"0.9"]));
    assert!(screen.contains("counting for 0.9 s, 0s so far; Ctrl-C stops without a result"), "{screen}");
    let (_, error) = ends(0, &[&"agent", &"--once", &"-i", &"0.9"]);
    assert!(!error.contains("so far; Ctrl-C"), "{error}");
}

/// On a terminal no command breaks a line inside a word: the terminal does so with lines that are too long.
#[test]
fn lines_fit_the_terminal() {
    let file = trace("sock-q1.events.zst").display().to_string();
    let looks = trace("lab/6.18-amd64.1g.purge.pstrace").display().to_string();
    let folder = tempfile::tempdir().unwrap();
    let made_up = folder.path().join("looks.json").display().to_string();
    std::fs::write(&made_up, crate::made_up::json("4x2", 2)).unwrap();
    let log =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../pageset-explain/tests/inputs/log-2.6.32-first-zone.txt").to_owned();
    for (words, wide) in [
        (&["advise", &file][..], false),
        (&["replay", &file, "--identify"], false),
        (&["replay", &file], false),
        (&["replay", &file, "--wide"], true),
        (&["trace", "info", &file], false),
        (&["top", "--once", "--plain", "--from", &looks], false),
        // It has processes, call sites and waits.
        (&["top", "--once", "--plain", "--from", &made_up], false),
        (&["fleet", crate::fleet::INPUT], false),
        (&["replay", "--list-rules"], false),
        (&["diff", "demo", &file], false),
        (&["explain", "auto_high"], false),
        (&["explain", "vm.min_free_kbytes"], false),
        (&["explain", &log], false),
    ] {
        let words: Vec<&dyn AsRef<Path>> = words.iter().map(|word| word as &dyn AsRef<Path>).collect();
        let screen = terminal::shown(command(&words));
        // What a line of progress leaves is overwritten by the next. Sequences of the terminal end in a letter and take no place.
        let lines: Vec<String> = screen
            .lines()
            .map(|line| {
                let mut parts = line.trim_end().rsplit('\r').next().unwrap_or_default().split("\u{1b}[");
                let first = parts.next().unwrap_or_default().to_owned();
                parts.fold(first, |text, part| {
                    text + part.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest)
                })
            })
            .collect();
        // With --wide, only tables of numbers may be wider.
        let is_words = |line: &&str| !wide || line.starts_with("warning: ") || line.starts_with("taken ");
        for line in lines.iter().map(String::as_str).filter(is_words) {
            assert!(line.chars().count() <= 80, "{line}\n{screen}");
        }
    }
}

/// What a narrow terminal does not show is named, and `--wide` shows it.
#[test]
fn a_fleet_fits_the_terminal() {
    let [narrow, wide] = [&[][..], &["--wide"]].map(|more: &[&str]| {
        let mut fleet = command(&[&"fleet", &crate::fleet::INPUT]);
        fleet.args(more);
        terminal::shown(fleet)
    });
    let head = |text: &str| text.lines().find(|line| line.starts_with(" verdict")).unwrap().trim_end().to_owned();
    assert!(head(&narrow).chars().count() <= 80 && !head(&narrow).contains("hosts"), "{narrow}");
    assert!(narrow.contains("not shown: CPUs that wait, wait %, kernels, hosts; --wide shows all columns"), "{narrow}");
    assert!(head(&wide).ends_with("hosts") && !wide.contains("not shown"), "{wide}");
}

/// An explanation is as wide as the terminal; in a pipe its width is fixed.
#[test]
fn an_explanation_has_the_width_of_the_terminal() {
    let widest = |text: &str| text.lines().map(|line| line.trim_end().chars().count()).max().unwrap();
    for name in ["auto_high", "vm.min_free_kbytes"] {
        let on_terminal = |columns: u32| {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("stty cols {columns}; {} explain {name}", crate::PROGRAM)]);
            widest(&terminal::shown(shell))
        };
        assert!((50..=70).contains(&on_terminal(70)), "{name}");
        assert!((110..=140).contains(&on_terminal(140)), "{name}");
        assert!((80..=100).contains(&widest(&ends(0, &[&"explain", &name]).0)), "{name}");
    }
}

/// A playback that has come to its last look says so, and stays until q.
#[test]
fn a_playback_stays_at_its_end() {
    let looks = trace("lab/6.18-amd64.1g.purge.pstrace");
    let (mut top, mut user) = on_terminal(command(&[&"top", &"-i", &"0.5", &"--from", &looks]));
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains("[end]") {
        assert!(is_readable(&user, PATIENCE), "{}", String::from_utf8_lossy(&shown));
        let mut part = [0; 4096];
        let length = user.read(&mut part).unwrap();
        shown.extend_from_slice(&part[..length]);
    }
    std::thread::sleep(Duration::from_millis(500));
    assert!(top.try_wait().unwrap().is_none());
    user.write_all(b"q").unwrap();
    assert_eq!(ended(&mut top).code(), Some(0));
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

/// The terminal hangs up: with SIGHUP for the terminal's own session, without it for another session.
#[test]
fn top_ends_when_its_terminal_hangs_up() {
    for with_signal in [true, false] {
        let program = crate::PROGRAM;
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
    top.args([crate::PROGRAM, "top", "--plain", "-i", "60", "--no-count"]);
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
