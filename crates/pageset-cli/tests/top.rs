//! `pageset top`, as a user runs it.

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use support::{command, ends, json};

/// A process that does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_is_shown_is_what_zoneinfo_says() {
    let (text, _) = ends(0, &[&"top", &"--json", &"--once", &"--interval", &"0.2"]);
    let view = json(&text);
    assert_eq!(view["schema"], "pageset.top/1");
    let elapsed = view["elapsed_ns"].as_u64().unwrap();
    assert!((150_000_000..5_000_000_000).contains(&elapsed), "{elapsed}");
    let zoneinfo = fs::read_to_string("/proc/zoneinfo").unwrap();
    let managed = |zone: &serde_json::Value| zone["managed"].as_u64().unwrap();
    let zones = view["zones"].as_array().unwrap();
    assert!(!zones.is_empty());
    for zone in zones {
        assert!(zoneinfo.contains(&format!("managed  {}\n", managed(zone))), "{zone}");
        let held: u64 = zone["pagesets"].as_array().unwrap().iter().map(|set| set["count"].as_u64().unwrap()).sum();
        assert_eq!(zone["held"].as_u64(), Some(held));
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(view["kernel"]["release"], release.trim());
}

#[test]
fn a_block_a_look_in_a_pipe() {
    let (text, error) = ends(0, &[&"top", &"-n", &"2", &"-i", &"0.1"]);
    assert_eq!(text.lines().filter(|line| line.starts_with("live: ")).count(), 2, "{text}");
    assert!(text.contains("zone") && text.contains("held %"), "{text}");
    assert_eq!(error, "");
}

#[test]
fn saved_copies_are_shown_with_what_changed() {
    let folder = tempfile::tempdir().unwrap();
    let now = fs::read_to_string("/proc/zoneinfo").unwrap();
    let (one, two, bad) = (folder.path().join("one"), folder.path().join("two"), folder.path().join("bad"));
    fs::write(&one, &now).unwrap();
    fs::write(&two, now.replacen("count:    ", "count:    1", 1)).unwrap();
    fs::write(&bad, "nothing of the kind\n").unwrap();
    let (text, _) = ends(0, &[&"top", &"--from", &one, &two]);
    assert!(text.contains("one: unknown kernel, taken to have rules linux-"), "{text}");
    assert!(text.contains("two: "), "{text}");
    let (text, error) = ends(4, &[&"top", &"--from", &one, &bad]);
    assert_eq!(text, "", "nothing is shown of half of them");
    assert!(
        error.contains("bad: line 1: ") && error.contains("help: give files that are copies of /proc/zoneinfo"),
        "{error}"
    );
}

#[test]
fn wrong_intervals_and_addresses_are_refused() {
    for wrong in
        [["--interval", "0"], ["--interval", "x"], ["--listen", "0.0.0.0:9000"], ["--listen", "9000"], ["-n", "0"]]
    {
        ends(2, &[&"top", &wrong[0], &wrong[1]]);
    }
}

/// The reference parser of Prometheus' own client takes it.
#[test]
fn a_parser_takes_the_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("metrics");
    ends(0, &[&"top", &"--openmetrics", &file, &"--once"]);
    assert!(fs::read_to_string(&file).unwrap().ends_with("# EOF\n"));
    let program = "import sys\nfrom prometheus_client.openmetrics.parser import text_string_to_metric_families as parse\n\
                   families = list(parse(open(sys.argv[1]).read()))\n\
                   assert all(f.documentation and (f.unit or f.type == 'info') for f in families), families\n\
                   print(sum(len(f.samples) for f in families))\n";
    let parsed = Command::new("python3").args(["-c", program]).arg(&file).output();
    match parsed {
        Ok(parsed) if String::from_utf8_lossy(&parsed.stderr).contains("No module named") => {
            println!("SKIPPED a_parser_takes_the_metrics: no python3 module prometheus_client");
        }
        Ok(parsed) => {
            assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
            let samples: u64 = String::from_utf8(parsed.stdout).unwrap().trim().parse().unwrap();
            assert!(samples > 10, "{samples}");
        }
        Err(error) => println!("SKIPPED a_parser_takes_the_metrics: python3: {error}"),
    }
}

#[test]
fn a_scrape_is_answered_and_a_signal_ends_it() {
    let mut top = command(&[&"top", &"--listen", &"127.0.0.1:0"]);
    let mut top = Running(top.stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(top.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address =
        line.trim().strip_prefix("listening on http://").and_then(|rest| rest.strip_suffix("/metrics")).unwrap();
    let get = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = get("/metrics");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("application/openmetrics-text"), "{answer}");
    assert!(answer.contains("# EOF\n"), "{answer}");
    assert!(get("/etc/passwd").starts_with("HTTP/1.1 404"));
    let pid = top.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(top.0.wait().unwrap().code(), Some(130));
}

/// A terminal multiplexer's session, ended with the test.
struct Tmux(String);

impl Tmux {
    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").args(["-L", &self.0]).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The screen, once it shows `part`.
    fn shows(&self, part: &str) -> String {
        let begin = Instant::now();
        loop {
            let screen = self.run(&["capture-pane", "-p", "-t", "top"]);
            if screen.contains(part) {
                return screen;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{part:?} never came:\n{screen}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.0, "kill-server"]).status();
    }
}

/// Under a real terminal: what is drawn, keys, and the terminal as it was afterwards.
#[test]
fn on_a_terminal() {
    if Command::new("tmux").arg("-V").output().is_err() {
        return println!("SKIPPED on_a_terminal: no tmux");
    }
    let tmux = Tmux(format!("pageset-{}", std::process::id()));
    tmux.run(&["new-session", "-d", "-s", "top", "-x", "80", "-y", "24", "sh"]);
    let top = format!("{} top -i 0.2; echo ended with $?", env!("CARGO_BIN_EXE_pageset"));
    tmux.run(&["send-keys", "-t", "top", &top, "Enter"]);
    let screen = tmux.shows("q quit");
    assert!(screen.starts_with("pageset live: ") && screen.contains("Normal"), "{screen}");
    tmux.run(&["send-keys", "-t", "top", "h"]);
    tmux.shows("freeze what is shown");
    tmux.run(&["send-keys", "-t", "top", "x"]);
    tmux.run(&["send-keys", "-t", "top", "s"]);
    tmux.shows("by count");
    tmux.run(&["send-keys", "-t", "top", "Space"]);
    tmux.shows("[frozen]");
    tmux.run(&["send-keys", "-t", "top", "q"]);
    let screen = tmux.shows("ended with 0");
    assert!(!screen.contains("q quit"), "the screen is left behind:\n{screen}");
    // A signal puts the terminal back too.
    tmux.run(&["send-keys", "-t", "top", "clear", "Enter"]);
    tmux.run(&["send-keys", "-t", "top", &top, "Enter"]);
    tmux.shows("q quit");
    tmux.run(&["send-keys", "-t", "top", "C-c"]);
    tmux.shows("ended with 130");
}
