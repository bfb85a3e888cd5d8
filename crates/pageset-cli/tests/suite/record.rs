//! `pageset record` on this machine: what it writes, and that it restores all settings of the machine.
//!
//! `ends` has how a recording ends, `disks` what becomes of its file.
//!
//! If tracing is not allowed, each test prints that and checks only that the command reports it.

use std::collections::HashSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

mod disks;
mod ends;

use pageset::Order;
use pageset_trace::{Event, Facts, Kind, Trace};

const HIGH_FRACTION: &str = "/proc/sys/vm/percpu_pagelist_high_fraction";

/// A folder of its own for each test, removed when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pageset-record-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("a.pstrace")
    }

    fn names(&self) -> Vec<String> {
        fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn pageset(arguments: &[&str], output: &Path, command: &[&str]) -> Command {
    let mut pageset = Command::new(crate::PROGRAM);
    pageset.arg("record").args(arguments).arg("-o").arg(output).arg("--").args(command);
    pageset.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    pageset
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The folder of the tracing instances. There is one tracefs; where debugfs is mounted, it shows up there once more.
fn instances() -> &'static str {
    let places = ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"];
    places.into_iter().find(|place| Path::new(place).is_dir()).unwrap_or(places[0])
}

/// Our tracing instances that belong to `pid`.
fn instances_of(pid: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir(instances()).into_iter().flatten().flatten();
    let ours = format!("pageset-{pid}-");
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours)).map(|entry| entry.path()).collect()
}

/// Whether this process may trace. If not, checks that the command names what is missing, and prints that the test is
/// skipped.
fn may_trace(test: &str) -> bool {
    let folder = Folder::new(&format!("{test}-probe"));
    let output = pageset(&["--buffer", "1M"], &folder.file(), &["true"]).output().unwrap();
    if output.status.code() != Some(3) {
        return true;
    }
    let said = stderr(&output);
    assert!(said.contains("error: ") && said.contains("\nhelp: "), "exit code 3 without a remedy: {said}");
    assert_eq!(folder.names(), [""; 0], "a file was left behind");
    // Write past the test harness, which hides the output of print! in a successful test.
    let reason = said.lines().next().unwrap_or_default();
    let _ = writeln!(std::io::stdout(), "SKIPPED {test}: recording is not possible here: {reason}");
    false
}

/// Waits for the end and checks that all settings of the machine are restored. A recorder that says so leaves the rest to a process
/// of its own, which must come to its end.
fn finish(child: Child) -> Output {
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    if stderr(&output).contains("a process of this program goes on with that") {
        let begin = Instant::now();
        while !instances_of(pid).is_empty() && begin.elapsed() < Duration::from_secs(30) {
            thread::sleep(Duration::from_millis(10));
        }
    }
    assert_eq!(instances_of(pid), Vec::<PathBuf>::new(), "{}", stderr(&output));
    output
}

fn run(arguments: &[&str], output: &Path, command: &[&str]) -> Output {
    finish(pageset(arguments, output, command).spawn().unwrap())
}

fn events(path: &Path) -> (Facts, Vec<Event>) {
    let trace = Trace::open(path).unwrap();
    let events = trace.events().unwrap().collect::<Result<_, _>>().unwrap();
    (trace.facts().clone(), events)
}

/// The tags of the complete snapshots, in order.
fn tags(events: &[Event]) -> Vec<&str> {
    let mut tags = Vec::new();
    let mut open = None;
    for event in events {
        match &event.kind {
            Kind::SnapshotBegin(tag) => assert_eq!(open.replace(tag), None, "a snapshot begins within another"),
            Kind::SnapshotEnd(tag) => {
                assert_eq!(open.take(), Some(tag), "a snapshot ends without a beginning");
                tags.push(tag.as_str());
            }
            _ => {}
        }
    }
    tags
}

#[test]
fn a_command_and_its_pages() {
    if !may_trace("a_command_and_its_pages") {
        return;
    }
    let folder = Folder::new("whole");
    let fraction = fs::read_to_string(HIGH_FRACTION).unwrap();
    // 64 MiB of fresh memory.
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=1"];
    let output = run(&["--empty-lists", "--buffer", "64M"], &folder.file(), &dd);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("next: pageset replay"), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(HIGH_FRACTION).unwrap(), fraction);
    assert_eq!(folder.names(), ["a.pstrace"]);

    let trace = Trace::open(&folder.file()).unwrap();
    let (facts, events) = events(&folder.file());
    assert!(facts.kernel_release.is_some() && facts.cpus >= 1 && facts.nodes >= 1);
    assert!(facts.lists_emptied && !facts.lost_events() && facts.after_full == 0);
    assert_eq!(facts.command, dd);
    for text in ["buddyinfo.0", "pagetypeinfo.0", "vmstat.0", "buddyinfo.1", "pagetypeinfo.1", "vmstat.1", "stats"] {
        assert!(trace.snapshots().text(text).is_some_and(|text| !text.is_empty()), "no {text}");
    }

    // The processes of the events: the command and the recorder.
    let processes = trace.snapshots().text("processes.1").unwrap();
    let threads: HashSet<u32> =
        processes.lines().map(|line| line.split('\t').next().unwrap().parse().unwrap()).collect();
    let dd = processes.lines().find(|line| line.ends_with("\tdd")).expect("the command is not in the table");
    let dd: u32 = dd.split('\t').next().unwrap().parse().unwrap();
    assert!(events.iter().filter(|event| event.pid == dd).count() > 10_000);
    assert!(facts.recorder_pids.iter().all(|pid| threads.contains(pid)), "{:?}", facts.recorder_pids);

    let tags = tags(&events);
    assert_eq!(tags[..3], ["init0", "init1", "init2"]);
    assert_eq!(tags[tags.len() - 2..], ["fini0", "fini1"]);
    for tag in tags {
        assert!(trace.snapshots().zoneinfo_of(tag).is_some(), "no zoneinfo for {tag}");
    }
    balance(&events);
}

/// Allocations and frees match: no page is allocated while it is in use, and the command's 64 MiB are complete.
fn balance(events: &[Event]) {
    let mut held = HashSet::new();
    let (mut twice, mut pages_allocated, mut frees, mut batched) = (0, 0, 0_u64, 0_u64);
    for event in events {
        match event.kind {
            Kind::Alloc { pfn: Some(pfn), order, .. } => {
                pages_allocated += order.pages();
                twice += u64::from(order == Order::ZERO && !held.insert(pfn));
            }
            Kind::Free { pfn, order } => {
                frees += 1;
                if order == Order::ZERO {
                    held.remove(&pfn);
                }
            }
            Kind::FreeBatched { .. } => batched += 1,
            _ => {}
        }
    }
    // About one free in a million has no event. More missing frees are a fault of the recorder.
    assert!(twice <= 1 + frees / 10_000, "{twice} pages were allocated that were not free, of {frees} freed");
    assert!(pages_allocated >= 16384, "only {pages_allocated} pages allocated");
    assert!(batched <= frees, "{batched} pages freed in batches, {frees} freed at all");
}

/// Options after the command, and any word after `--`, belong to the command.
#[test]
fn the_command_keeps_its_options() {
    if !may_trace("the_command_keeps_its_options") {
        return;
    }
    let folder = Folder::new("own-options");
    let without_dashes: &[&str] = &["sh", "-c", "test \"$0 $1\" = '--duration 1ms'", "--duration", "1ms"];
    let mut pageset = Command::new(crate::PROGRAM);
    pageset.args(["record", "--buffer", "1M", "-o"]).arg(folder.file()).args(without_dashes);
    let output = pageset.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = run(&["--buffer", "1M"], &folder.file(), &["--seconds", "10"]);
    assert!(stderr(&output).contains("cannot start --seconds"), "{}", stderr(&output));
}

#[test]
fn an_unknown_command_is_a_usage_error() {
    if !may_trace("an_unknown_command_is_a_usage_error") {
        return;
    }
    let folder = Folder::new("missing");
    // A command that does not exist, and one that cannot be executed.
    let script = folder.0.join("script");
    fs::write(&script, "#!/nonexistent/interpreter\n").unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&script).status().unwrap().success());
    for command in ["no-such-command-anywhere", script.to_str().unwrap()] {
        let output = run(&["--buffer", "1M"], &folder.file(), &[command]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(command), "{}", stderr(&output));
        assert_eq!(folder.names(), ["script"]);
    }
}

/// Without a `/proc` of its own namespace, the recorder sees other processes under its number.
#[test]
fn a_foreign_proc_is_named() {
    let test = "a_foreign_proc_is_named";
    if !may_trace(test) {
        return;
    }
    let folder = Folder::new("namespace");
    let record = ["record", "--buffer", "1M", "-o"];
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--kill-child", crate::PROGRAM]).args(record);
    let output = unshare.arg(folder.file()).args(["--", "true"]).output().unwrap();
    if stderr(&output).starts_with("unshare:") {
        let _ = writeln!(std::io::stdout(), "SKIPPED {test}: no PID namespaces here: {}", stderr(&output).trim());
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("/proc is that of another PID namespace"), "{said}");
    assert!(said.contains("mount -t proc proc /proc"), "{said}");
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn a_full_buffer_ends_a_whole_recording() {
    if !may_trace("a_full_buffer_ends_a_whole_recording") {
        return;
    }
    let folder = Folder::new("full");
    // Stop the recorder, the parent of the command, so that it does not read the buffers.
    let dd = "kill -STOP $PPID; dd if=/dev/zero of=/dev/null bs=64M count=1; kill -CONT $PPID";
    let output = run(&["--buffer", "256K"], &folder.file(), &["sh", "-c", dd]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("--buffer"), "{}", stderr(&output));
    let (facts, events) = events(&folder.file());
    assert!(facts.after_full > 0 && !facts.lost_events());
    assert!(tags(&events).starts_with(&["init0", "init1", "init2"]));
    // The recording has exactly the snapshots whose markers it has.
    let snapshots = Trace::open(&folder.file())
        .unwrap()
        .snapshots()
        .zoneinfo
        .iter()
        .map(|(tag, _)| tag.clone())
        .collect::<Vec<_>>();
    assert_eq!(snapshots, tags(&events));
    assert!(!snapshots.iter().any(|tag| tag == "fini0"));
}

#[test]
fn a_wrong_option_is_not_a_command() {
    let usage = |arguments: &[&str], says: &str| {
        let output = Command::new(crate::PROGRAM).arg("record").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{arguments:?}: {}", stderr(&output));
    };
    usage(&["--seconds", "10", "true"], "--seconds");
    usage(&["--seconds=10", "true"], "unexpected argument '--seconds'");
    usage(&["--buffer", "1M", "--seconds", "10", "true"], "unexpected argument '--seconds'");
    usage(&["-x", "true"], "-x");
    usage(&["--duration", "10x", "true"], "such as ");
    usage(&["--rotate", "2", "true"], "--duration or --max-size");
    usage(&["--rotate", "0", "--duration", "1s", "true"], "--rotate");
    usage(&["--rotate", "2", "--duration", "1s", "-o", "-"], "--rotate cannot write to standard output");
}

#[test]
fn a_recording_may_be_larger_than_its_buffers() {
    if !may_trace("a_recording_may_be_larger_than_its_buffers") {
        return;
    }
    let folder = Folder::new("large");
    // Hundreds of thousands of pages, so that a buffer of 8 MiB fills several times. 32 MiB of pages take about 1 MB of
    // it. The next ones come once no buffer is more than half full: a busy machine delays the load, not the readers.
    let many = format!(
        "for i in $(seq 36); do dd if=/dev/zero of=/dev/null bs=32M count=1
            while awk '/^bytes/ && $2 > {half} {{ over = 1 }} END {{ exit !over }}' {}/pageset-$PPID-*/per_cpu/*/stats
            do sleep 0.02; done
        done",
        instances(),
        half = 4 << 20,
    );
    let output = run(&["--buffer", "8M"], &folder.file(), &["sh", "-c", &many]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(folder.names(), ["a.pstrace"], "a file was left behind");
    let (facts, events) = events(&folder.file());
    assert!(!facts.lost_events(), "{}", stderr(&output));
    assert_eq!(facts.after_full, 0, "{}", stderr(&output));
    assert!(events.is_sorted_by_key(|event| event.time_ns));
    let bytes = events.len() * 31;
    assert!(bytes > 3 * (8 << 20), "{bytes} bytes are no test");
    assert_eq!(tags(&events).last(), Some(&"fini1"));
    // Each of the recorder's threads is known.
    assert!(facts.recorder_pids.len() > facts.cpus as usize);
    balance(&events);
}

/// The operations of a process and its children are counted separately.
#[test]
fn the_work_of_a_process_is_counted() {
    if !may_trace("the_work_of_a_process_is_counted") {
        return;
    }
    let folder = Folder::new("only");
    let many = "for i in 1 2 3 4; do dd if=/dev/zero of=/dev/null bs=64M count=1; done";
    let output = run(&[], &folder.file(), &["bash", "-c", many]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let selected = |condition: &str| {
        let mut replay = Command::new(crate::PROGRAM);
        let replay = replay.arg("replay").arg(folder.file()).args(["--json", "--only", condition]).output().unwrap();
        assert!(replay.status.success(), "{}", stderr(&replay));
        let json: serde_json::Value = serde_json::from_slice(&replay.stdout).unwrap();
        let number = |name: &str| json["only"][name].as_u64().unwrap();
        (number("selected_operations"), number("unlisted_operations"), json["trace"]["operations"].as_u64().unwrap())
    };
    // 4 times 64 MiB in pages of 4 KiB or of 2 MiB, most of them by the children.
    let (operations, unlisted, all) = selected("process=bash");
    assert!(operations > 4 * 32 && operations <= all, "{operations} of {all}");
    assert!(unlisted * 10 < all, "{unlisted} of {all}");
    let (idle, ..) = selected("process=kthreadd");
    assert!(idle < operations, "{idle}");
}

#[test]
fn standard_output() {
    if !may_trace("standard_output") {
        return;
    }
    let output = run(&["--buffer", "4M"], Path::new("-"), &["echo", "from the command"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("from the command\n"), "{}", stderr(&output));
    let folder = Folder::new("stdout");
    fs::write(folder.file(), &output.stdout).unwrap();
    assert!(!events(&folder.file()).1.is_empty());
}

/// A recording of this machine, replayed under its own kernel's rules, stays within the limits. Other load disturbs a
/// short recording, so the test tries three times. Wrong rules fail all three.
#[test]
fn a_recording_of_this_machine_replays() {
    if !may_trace("a_recording_of_this_machine_replays") {
        return;
    }
    let folder = Folder::new("replays");
    let faults = "for i in 1 2 3 4; do dd if=/dev/zero of=/dev/null bs=64M count=1 2>&1; done";
    let mut last = String::new();
    for _ in 0..3 {
        let output = run(&["--empty-lists", "--buffer", "64M"], &folder.file(), &["sh", "-c", faults]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let mut replay = Command::new(crate::PROGRAM);
        let checked = replay.arg("replay").arg(folder.file()).args(["--rules", "kernel", "--check"]).output().unwrap();
        last = String::from_utf8_lossy(&checked.stdout).into_owned();
        if checked.status.success() {
            assert!(last.contains("pass"), "{last}");
            return;
        }
        assert_eq!(checked.status.code(), Some(1), "{last}{}", stderr(&checked));
    }
    panic!("three recordings of this machine exceed the limits; the last:\n{last}");
}
