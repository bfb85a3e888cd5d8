//! `pageset agent` and `pageset fleet`, as a user runs them.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use pageset_fleet::{Fleet, Line};
use schemars::schema_for;

use crate::support::{command, ends, json, strict};

pub(crate) const INPUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../pageset-fleet/tests/inputs/agents.ndjson");

/// The line of an agent, which matches its schema and its model.
fn line(text: &str) -> Line {
    let value = json(text);
    let schema = schema_for!(Line);
    let errors: Vec<String> = strict(schema.as_value()).iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let line = Line::parse(text.trim().as_bytes()).unwrap();
    assert_eq!(serde_json::to_value(&line).unwrap(), value);
    line
}

#[test]
fn an_agent_says_what_it_can_tell() {
    let (text, error) = ends(0, &[&"agent", &"--once", &"-i", &"0.2"]);
    assert_eq!(text.lines().count(), 1, "{text}");
    let line = line(&text);
    assert!((150_000_000..5_000_000_000).contains(&line.interval_ns.unwrap()), "{line:?}");
    assert_eq!(line.counted_by.is_some(), line.refill_pages_per_s.is_some(), "{line:?}");
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let cpus = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
    assert_eq!(line.cpus as usize, cpus, "{line:?}");
    assert!(line.zones.iter().any(|zone| zone.managed > 0 && zone.zone.starts_with("0 ")));
    // One line, with the reasons that the result has. That the kernel shows no waits is known only at its end.
    let mut known = line.missing.iter().filter(|reason| !reason.contains("not measured so far")).peekable();
    assert_eq!(error.lines().count(), usize::from(known.peek().is_some()), "{error}");
    assert!(known.all(|reason| error.contains(reason)), "{error}: {line:?}");
    // `fleet` reads it.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one");
    fs::write(&file, &text).unwrap();
    let (merged, _) = ends(0, &[&"fleet", &file]);
    assert!(merged.contains("of 1 machines") && merged.contains(&line.verdict.key), "{merged}");
}

/// Without privileges the agent goes on with /proc, and says in one line what it cannot tell.
#[test]
fn an_agent_without_privileges_goes_on() {
    const NOBODY: u32 = 65534;
    let mut agent = command(&[&"agent", &"--once", &"-i", &"0.2"]);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        let reachable = Command::new(crate::PROGRAM).arg("--version").uid(NOBODY).gid(NOBODY).output();
        if !reachable.is_ok_and(|output| output.status.success()) {
            return println!("SKIPPED an_agent_without_privileges_goes_on: others cannot run the program");
        }
        agent.uid(NOBODY).gid(NOBODY);
    }
    let output = agent.stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{error}");
    let line = line(&String::from_utf8(output.stdout).unwrap());
    assert_eq!((line.counted_by, line.refill_pages_per_s, line.zone_lock_wait_ns_per_s), (None, None, None));
    assert!(["not-counted", "memory-short", "direct-reclaim"].contains(&line.verdict.key.as_str()), "{error}");
    assert!(error.lines().count() == 1 && error.contains("refills and drains are not counted: "), "{error}");
}

/// A disk that is full loses lines, with one message; the agent ends with the code of its signal.
#[test]
fn a_full_disk_does_not_end_an_agent() {
    let mut agent = command(&[&"agent", &"-i", &"0.1", &"--output", &"/dev/full"]);
    let mut agent = agent.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let pid = agent.id().to_string();
    let mut error = BufReader::new(agent.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("No space left") {
        assert_ne!(error.read_line(&mut text).unwrap(), 0, "{text}");
    }
    thread::sleep(Duration::from_millis(700));
    assert!(agent.try_wait().unwrap().is_none(), "the agent has ended");
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(agent.wait().unwrap().code(), Some(143));
    error.read_to_string(&mut text).unwrap();
    assert_eq!(text.matches("cannot write /dev/full").count(), 1, "{text}");
    assert!(text.contains("lines are dropped until it works again"), "{text}");
    // One result that cannot be written is an error, as is a file that cannot be opened.
    ends(6, &[&"agent", &"-i", &"0.1", &"--once", &"-o", &"/dev/full"]);
    ends(6, &[&"agent", &"-i", &"60", &"-o", &"/no-folder/lines"]);
}

/// Recordings need a folder, and nothing records without the option.
#[test]
fn an_agent_records_only_to_a_folder() {
    let (_, error) = ends(2, &[&"agent", &"-i", &"60", &"--record", &"/no-folder"]);
    assert!(error.contains("error: cannot record to /no-folder: No such file"), "{error}");
    let (_, error) = ends(2, &[&"agent", &"-i", &"60", &"--record", &"/dev/null"]);
    assert!(error.contains("it is no folder\nhelp: name a folder"), "{error}");
    ends(2, &[&"agent", &"--record-every", &"1h"]);
    for option in [["--record", "/tmp"], ["--record-size", "1M"], ["--record-every", "1h"]] {
        let (_, error) = ends(2, &[&"agent", &"--once", &option[0], &option[1]]);
        let refused = ["'--once' cannot be used with '".to_owned() + option[0], "pageset agent".to_owned()];
        assert!(refused.iter().all(|part| error.contains(part)), "{error}");
    }
    let (text, _) = ends(0, &[&"agent", &"--once", &"-i", &"0.1"]);
    assert_eq!(line(&text).recording, None);
}

/// The lines go to the end of a file that another program may move away, and scrapes are answered meanwhile.
#[test]
fn lines_survive_rotation_and_scrapes_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (file, old) = (folder.path().join("lines"), folder.path().join("lines.1"));
    fs::write(&file, "an earlier line\n").unwrap();
    let mut agent = command(&[&"agent", &"-i", &"0.2", &"-o", &file, &"--listen", &"127.0.0.1:0"]);
    let mut agent = agent.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(agent.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let address = said.trim().strip_prefix("listening on http://").unwrap().strip_suffix("/metrics").unwrap();
    let lines = |of: &std::path::Path| fs::read_to_string(of).unwrap_or_default().lines().count();
    let until = |done: &dyn Fn() -> bool| {
        (0..600)
            .find(|_| {
                done() || {
                    thread::sleep(Duration::from_millis(50));
                    false
                }
            })
            .expect("lines");
    };
    until(&|| lines(&file) >= 2);
    fs::rename(&file, &old).unwrap();
    until(&|| lines(&file) >= 1);
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("pageset_verdict_info{verdict=\"") && answer.ends_with("# EOF\n"), "{answer}");
    assert!(Command::new("kill").args(["-INT", &agent.id().to_string()]).status().unwrap().success());
    assert_eq!(agent.wait().unwrap().code(), Some(130));
    let (old, new) = (fs::read_to_string(&old).unwrap(), fs::read_to_string(&file).unwrap());
    assert!(old.starts_with("an earlier line\n{"), "{old}");
    assert!(old.lines().skip(1).chain(new.lines()).all(|text| Line::parse(text.as_bytes()).is_ok()));
}

/// An agent keeps no table of kernel functions, processes or call sites: with them it had 14 MB. As root;
/// without BPF programs it has none of them anyway.
#[test]
fn an_agent_is_small() {
    /// Memory that no file backs. Measured: 1,296 with two CPUs. Unit: KiB.
    const MOST_KIB: u64 = 6 << 10;
    let mut agent = command(&[&"agent", &"-i", &"0.1"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = BufReader::new(agent.stdout.take().unwrap());
    let mut line = String::new();
    (0..5).for_each(|_| assert_ne!(out.read_line(&mut line).unwrap(), 0));
    if !line.contains("\"counted_by\":\"bpf\"") {
        println!("SKIPPED an_agent_is_small: no BPF programs count here");
    }
    let status = fs::read_to_string(format!("/proc/{}/status", agent.id())).unwrap();
    agent.kill().unwrap();
    agent.wait().unwrap();
    let of = |line: &str| line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok();
    let kib = status.lines().find_map(of).unwrap();
    assert!(kib <= MOST_KIB, "{status}");
}

#[test]
fn a_fleet_has_one_answer() {
    let (text, error) = ends(0, &[&"fleet", &INPUT, &"--json"]);
    assert_eq!(error, "");
    let value = json(&text);
    let errors: Vec<String> =
        strict(schema_for!(Fleet).as_value()).iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let fleet: Fleet = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&fleet).unwrap(), value);
    // Standard input is a file, and wrong lines are named.
    let mut child = command(&[&"fleet", &"-"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = format!("{}no line\n", fs::read_to_string(INPUT).unwrap());
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let (text, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert!(text.starts_with(&fleet.sentence) && text.contains("15 lines of 14 machines; 1 are of no agent"), "{text}");
    assert_eq!(error, "warning: -: line 16: expected ident, at column 2\n");
}

#[test]
fn without_a_readable_line_there_is_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines");
    for (text, why) in [("", "there are no lines"), ("a\nb\n", "none of 2 lines is of an agent")] {
        fs::write(&file, text).unwrap();
        let (out, error) = ends(4, &[&"fleet", &file]);
        assert_eq!(out, "");
        assert!(error.contains(&format!("error: cannot merge: {why}\nhelp: ")), "{error}");
    }
    ends(5, &[&"fleet", &INPUT, &folder.path().join("missing")]);
    ends(2, &[&"fleet"]);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert_eq!(command(&[&"fleet", &INPUT]).stdout(full).status().unwrap().code(), Some(6));
}
