//! Commands on a terminal.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The longest wait for a process that has to show something or to end. A guess: much longer than on a loaded host.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal: its end for the user, and its end for programs.
pub(crate) fn pty() -> (OwnedFd, File) {
    let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&user).unwrap();
    unlockpt(&user).unwrap();
    let name = ptsname(&user, Vec::new()).unwrap().into_string().unwrap();
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&user, size).unwrap();
    (user, OpenOptions::new().read(true).write(true).open(name).unwrap())
}

/// All that a command shows on a terminal.
pub(crate) fn shown(mut command: Command) -> String {
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
pub(crate) fn is_coloured(text: &str) -> bool {
    let set = |sequence: &str| {
        let end = sequence.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(sequence.len());
        let numbers = sequence[..end].split(';').filter_map(|number| number.parse().ok());
        let mut colours = numbers.filter(|n: &u32| matches!(n, 30..=38 | 40..=48 | 90..=97 | 100..=107));
        sequence[end..].starts_with('m') && colours.next().is_some()
    };
    text.split("\u{1b}[").skip(1).any(set)
}

/// Waits until a terminal has something to read, or has hung up. False if it has not within `time`.
pub(crate) fn is_readable(terminal: &File, time: Duration) -> bool {
    let mut ends = [PollFd::new(terminal, PollFlags::IN)];
    poll(&mut ends, Some(&Timespec::try_from(time).unwrap())).unwrap() > 0
}

/// Waits for the end of a process, at most [`PATIENCE`].
pub(crate) fn ended(child: &mut Child) -> ExitStatus {
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

/// <https://no-color.org>: a value that is not empty disables all colours. Each command line has colours or none.
pub(crate) fn no_color_disables_all_colours(lines: &[(&[&str], bool)]) {
    assert!(
        is_coloured("\u{1b}[1;31mx")
            && is_coloured("\u{1b}[38;5;6m")
            && !is_coloured("\u{1b}[39m\u{1b}[1m\u{1b}[31;5H")
    );
    for &(words, has_colours) in lines {
        let with = |value: Option<&str>| {
            let mut command = Command::new(crate::PROGRAM);
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
