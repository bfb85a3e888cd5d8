//! `pageset top`, as a user runs it.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{command, ends, json, pageset};

/// A process that is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_output_agrees_with_zoneinfo() {
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
fn a_pipe_gets_one_block_per_look() {
    let (text, error) = ends(0, &[&"top", &"-n", &"2", &"-i", &"0.1"]);
    assert_eq!(text.lines().filter(|line| line.starts_with("live: ")).count(), 2, "{text}");
    assert!(text.contains("zone") && text.contains("held %"), "{text}");
    assert_eq!(error, "");
}

#[test]
fn saved_copies_are_shown_with_changes() {
    let folder = tempfile::tempdir().unwrap();
    let now = fs::read_to_string("/proc/zoneinfo").unwrap();
    let (one, two, bad) = (folder.path().join("one"), folder.path().join("two"), folder.path().join("bad"));
    fs::write(&one, &now).unwrap();
    fs::write(&two, now.replacen("count:    ", "count:    1", 1)).unwrap();
    fs::write(&bad, "nothing of the kind\n").unwrap();
    let (text, _) = ends(0, &[&"top", &"--from", &one, &two]);
    assert!(text.contains("one: "), "{text}");
    assert!(text.contains("two: "), "{text}");
    let (text, error) = ends(4, &[&"top", &"--from", &one, &bad]);
    assert_eq!(text, "", "one invalid file must prevent all output");
    assert!(error.contains("bad: line 1: ") && error.contains("help: use copies of /proc/zoneinfo"), "{error}");
}

#[test]
fn wrong_intervals_and_addresses_are_refused() {
    for wrong in
        [["--interval", "0"], ["--interval", "x"], ["--listen", "0.0.0.0:9000"], ["--listen", "9000"], ["-n", "0"]]
    {
        ends(2, &[&"top", &wrong[0], &wrong[1]]);
    }
}

/// The parser of Prometheus' own client accepts the metrics.
#[test]
fn a_reference_parser_accepts_the_metrics() {
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
            println!("SKIPPED a_reference_parser_accepts_the_metrics: no python3 module prometheus_client");
        }
        Ok(parsed) => {
            assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
            let samples: u64 = String::from_utf8(parsed.stdout).unwrap().trim().parse().unwrap();
            assert!(samples > 10, "{samples}");
        }
        Err(error) => println!("SKIPPED a_reference_parser_accepts_the_metrics: python3: {error}"),
    }
}

#[test]
fn scrapes_are_answered_until_a_signal() {
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
    assert_eq!(top.0.wait().unwrap().code(), Some(143));
}

/// Who may run programs in the kernel sees counts and, if they are measured, waits; `--no-count` has neither.
#[test]
fn counting_is_optional() {
    let (text, _) = ends(0, &[&"top", &"--json", &"--once", &"-i", &"0.2"]);
    let view = json(&text);
    let missing = view["missing"].to_string();
    if view["counted_by"].is_null() {
        assert!(missing.contains("refills and drains are not counted: "), "{missing}");
        println!("SKIPPED counting_is_optional: {missing}");
    } else {
        assert_eq!(view["counted_by"], "bpf");
        for (list, what) in [("processes", "processes are"), ("call_sites", "call sites are")] {
            let counted = !missing.contains(&format!("{what} not counted"));
            assert_eq!(view[list].is_array(), counted, "{missing}");
        }
        for cpu in view["traffic"].as_array().unwrap() {
            let unmeasured = missing.contains("waits for zone locks are not measured");
            assert_eq!(cpu["zone_lock_waits"].is_null(), unmeasured, "{cpu}: {missing}");
        }
    }
    let (text, _) = ends(0, &[&"top", &"--json", &"--once", &"-i", &"0.1", &"--no-count"]);
    let view = json(&text);
    assert!(view["counted_by"].is_null() && view["traffic"].is_null(), "{view}");
}

/// Without the privilege to count, the output says why, and shows the rest.
#[test]
fn without_privilege_nothing_is_counted() {
    let mut top = command(&[&"top", &"--json", &"--once", &"-i", &"0.1"]);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        const NOBODY: u32 = 65534;
        // A folder of root's may hide the program from others.
        let reachable = Command::new(crate::PROGRAM).arg("--version").uid(NOBODY).gid(NOBODY).output();
        if !reachable.is_ok_and(|output| output.status.success()) {
            return println!("SKIPPED without_privilege_nothing_is_counted: others cannot run the program");
        }
        top.uid(NOBODY).gid(NOBODY);
    }
    let output = top.stdin(Stdio::null()).output().unwrap();
    let view = json(&String::from_utf8(output.stdout).unwrap());
    assert!(output.status.success() && view["counted_by"].is_null(), "{view}");
    assert!(view["missing"].to_string().contains("not counted: no permission for programs in the kernel"), "{view}");
}

/// The form of a saved zoneinfo tells old kernels apart.
#[test]
fn a_saved_zoneinfo_of_an_old_kernel_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (recording, rules) in [
        ("5.10-amd64.4cpu.unix1", "linux-5.10"),
        ("6.1-amd64.1cpu.read", "linux-6.6.37"),
        ("6.18-amd64.4cpu.unix1", "linux-6.18"),
    ] {
        let recording = crate::support::trace(&format!("lab/{recording}.pstrace"));
        ends(0, &[&"trace", &"export", &recording, &"-o", &at("a.events")]);
        let snapshots = fs::read_to_string(at("a.snap")).unwrap();
        let zoneinfo = snapshots.split("=== ").find_map(|section| section.strip_prefix("init0\n")).unwrap();
        fs::write(at("zoneinfo"), zoneinfo).unwrap();
        let (text, _) = ends(0, &[&"top", &"--from", &at("zoneinfo")]);
        let assumed = format!("assumed rules {rules}; unknown kernel");
        assert!(text.contains(&assumed), "{}", recording.display().to_string() + &text);
    }
}

/// In a container without sysfs each CPU is still counted.
#[test]
fn without_sysfs_each_cpu_is_counted() {
    let script = "mount -t tmpfs none /sys && test ! -e /sys/devices && exec \"$0\" top --json --once -i 0.1";
    let mut unshare = Command::new("unshare");
    let output = unshare.args(["-m", "sh", "-c", script, crate::PROGRAM]).output();
    let skipped = |why: &str| println!("SKIPPED without_sysfs_each_cpu_is_counted: {why}");
    let output = match output {
        Ok(output) if output.status.success() => output,
        Ok(output) => return skipped(&String::from_utf8_lossy(&output.stderr)),
        Err(error) => return skipped(&format!("unshare: {error}")),
    };
    let view = json(&String::from_utf8(output.stdout).unwrap());
    if view["counted_by"].is_null() {
        return skipped(&view["missing"].to_string());
    }
    let cpus = |list: &serde_json::Value| -> Vec<u64> {
        list.as_array().unwrap().iter().map(|of| of["cpu"].as_u64().unwrap()).collect()
    };
    assert_eq!(cpus(&view["traffic"]), cpus(&view["zones"][0]["pagesets"]), "{view}");
}

/// The kernel's numbers of the programs that a process has attached to tracepoints.
fn programs(pid: u32) -> Vec<String> {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap();
    let texts = files.filter_map(|file| fs::read_to_string(file.unwrap().path()).ok());
    texts
        .filter_map(|text| Some(text.lines().find_map(|line| line.strip_prefix("prog_id:"))?.trim().to_owned()))
        .collect()
}

/// The kernel keeps none of our programs after the process ends, even if it is killed.
#[test]
fn nothing_is_left_in_the_kernel() {
    let skipped = |why: &str| println!("SKIPPED nothing_is_left_in_the_kernel: {why}");
    let shown = |id: &str| Command::new("bpftool").args(["prog", "show", "id", id]).output();
    if let Err(error) = shown("0") {
        return skipped(&format!("bpftool: {error}"));
    }
    for signal in ["-INT", "-TERM", "-HUP", "-KILL"] {
        let mut top = command(&[&"top", &"--json", &"-i", &"0.1"]);
        let mut top = Running(top.stdout(Stdio::piped()).spawn().unwrap());
        // Keep the pipe open: a closed pipe would also end the process.
        let mut looks = BufReader::new(top.0.stdout.take().unwrap());
        let mut line = String::new();
        looks.read_line(&mut line).unwrap();
        if line.contains("\"counted_by\":null") {
            return skipped("the kernel does not allow programs here");
        }
        let programs = programs(top.0.id());
        assert!(programs.len() >= 3, "{programs:?}");
        assert!(programs.iter().all(|id| shown(id).unwrap().status.success()), "{programs:?} are not there");
        assert!(Command::new("kill").args([signal, &top.0.id().to_string()]).status().unwrap().success());
        top.0.wait().unwrap();
        // The kernel removes the programs shortly after the process ends.
        let begin = Instant::now();
        while programs.iter().any(|id| shown(id).unwrap().status.success()) {
            assert!(begin.elapsed() < Duration::from_secs(60), "after {signal} some of {programs:?} are left");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The offset from the time since 1970 to the recordings' clock. Unit: nanoseconds.
fn to_recording_ns() -> i64 {
    let now = |clock| {
        let now = rustix::time::clock_gettime(clock);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    };
    now(rustix::time::ClockId::Monotonic) - now(rustix::time::ClockId::Realtime)
}

/// Pages that each CPU refilled and drained in a recording's text form, between two moments.
fn recorded(text: &str, between: std::ops::Range<i64>) -> HashMap<u64, [u64; 2]> {
    let mut pages: HashMap<u64, [u64; 2]> = HashMap::new();
    let mut time: i64 = text.lines().find_map(|line| line.strip_prefix("#t0 ")).unwrap().trim().parse().unwrap();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        time += words[0].parse::<i64>().unwrap();
        let of = match words[3] {
            "Z" => 0,
            "D" => 1,
            _ => continue,
        };
        let order: u32 = words[5].parse().unwrap();
        if between.contains(&time) && [0, 1, 2, 3, 9].contains(&order) {
            pages.entry(words[1].parse().unwrap()).or_default()[of] += 1 << order;
        }
    }
    pages
}

/// A simultaneous recording has the same counts, within 2 % of the pages that all CPUs moved. The tolerance covers
/// pages that move between the time of a look and the reading of its counters.
#[test]
fn counts_agree_with_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let (looks, recording) = (folder.path().join("looks"), folder.path().join("r.pstrace"));
    let script = "\"$0\" top --json -i 0.3 -n 8 > \"$1\" & sleep 0.3; \
                  head -c 900000000 /dev/zero | tail -c 800000000 > /dev/null; wait";
    let program = Path::new(crate::PROGRAM);
    let output = pageset(&[&"record", &"-o", &recording, &"sh", &"-c", &script, &program, &looks]);
    if output.status.code() == Some(3) {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        return println!("SKIPPED counts_agree_with_a_recording: {why}");
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(looks).unwrap();
    let (first, last) = (json(text.lines().next().unwrap()), json(text.lines().last().unwrap()));
    let at = |look: &serde_json::Value| look["time_ns"].as_i64().unwrap() + to_recording_ns();
    let (events, _) = ends(0, &[&"trace", &"export", &recording]);
    let recorded = recorded(&events, at(&first)..at(&last));
    let all: u64 = recorded.values().flatten().sum();
    assert!(all > 10_000, "only {all} pages moved");
    for (then, now) in first["traffic"].as_array().unwrap().iter().zip(last["traffic"].as_array().unwrap()) {
        for (place, name) in ["refill_pages", "drain_pages"].into_iter().enumerate() {
            let counted = now[name].as_u64().unwrap() - then[name].as_u64().unwrap();
            let recorded = recorded.get(&now["cpu"].as_u64().unwrap()).map_or(0, |pages| pages[place]);
            assert!(
                counted.abs_diff(recorded) * 50 <= all,
                "CPU {}, {name}: {counted} counted, {recorded} recorded",
                now["cpu"]
            );
        }
    }
}

/// A session of a terminal multiplexer, ended on drop.
struct Tmux(String);

impl Tmux {
    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").args(["-L", &self.0]).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until the screen shows `part`, and returns the screen.
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

/// In a real terminal: the screen, keys, and the restored terminal.
#[test]
fn on_a_terminal() {
    if Command::new("tmux").arg("-V").output().is_err() {
        return println!("SKIPPED on_a_terminal: no tmux");
    }
    let tmux = Tmux(format!("pageset-{}", std::process::id()));
    tmux.run(&["new-session", "-d", "-s", "top", "-x", "80", "-y", "24", "sh"]);
    let top = format!("{} top -i 0.2; echo ended with $?", crate::PROGRAM);
    tmux.run(&["send-keys", "-t", "top", &top, "Enter"]);
    let screen = tmux.shows("q quit");
    assert!(screen.contains("rules linux-") && screen.contains("Normal"), "{screen}");
    tmux.run(&["send-keys", "-t", "top", "h"]);
    tmux.shows("freeze or continue");
    tmux.run(&["send-keys", "-t", "top", "x"]);
    tmux.run(&["send-keys", "-t", "top", "s"]);
    tmux.shows("by count");
    tmux.run(&["send-keys", "-t", "top", "Space"]);
    tmux.shows("[frozen]");
    tmux.run(&["send-keys", "-t", "top", "q"]);
    let screen = tmux.shows("ended with 0");
    assert!(!screen.contains("q quit"), "the screen is left behind:\n{screen}");
    // A signal also restores the terminal.
    tmux.run(&["send-keys", "-t", "top", "clear", "Enter"]);
    tmux.run(&["send-keys", "-t", "top", &top, "Enter"]);
    tmux.shows("q quit");
    tmux.run(&["send-keys", "-t", "top", "C-c"]);
    tmux.shows("ended with 130");
}

/// Ctrl-Z gives the terminal back, and `fg` shows the screen again.
#[test]
fn suspended_and_resumed() {
    if Command::new("tmux").arg("-V").output().is_err() {
        return println!("SKIPPED suspended_and_resumed: no tmux");
    }
    let tmux = Tmux(format!("pageset-stop-{}", std::process::id()));
    tmux.run(&["new-session", "-d", "-s", "top", "-x", "80", "-y", "24", "sh"]);
    let keys = |keys: &str| _ = tmux.run(&["send-keys", "-t", "top", keys]);
    let enter = |line: &str| _ = tmux.run(&["send-keys", "-t", "top", line, "Enter"]);
    enter(&format!("{} top -i 0.2", crate::PROGRAM));
    tmux.shows("q quit");
    keys("C-z");
    // The shell has the terminal, in its usual mode.
    tmux.shows("Stopped");
    enter("stty -a | grep -c '[^-]icanon' | sed s/^/cooked/");
    let screen = tmux.shows("cooked1");
    assert!(!screen.contains("q quit"), "the screen is left behind:\n{screen}");
    enter("clear; fg; echo back with $?");
    let screen = tmux.shows("q quit");
    assert!(screen.lines().nth(1).is_some_and(|line| line.contains("live  every 0.2 s")), "{screen}");
    keys("h");
    tmux.shows("freeze or continue");
    keys("q");
    tmux.shows("back with 0");
}

/// A playback is paused and stepped, CPUs are filtered, and a click and the wheel choose.
#[test]
fn played_filtered_and_clicked() {
    if Command::new("tmux").arg("-V").output().is_err() {
        return println!("SKIPPED played_filtered_and_clicked: no tmux");
    }
    let folder = tempfile::tempdir().unwrap();
    let looks = folder.path().join("looks.json");
    fs::write(&looks, crate::made_up::json("32x2", 30)).unwrap();
    let tmux = Tmux(format!("pageset-play-{}", std::process::id()));
    tmux.run(&["new-session", "-d", "-s", "top", "-x", "100", "-y", "30", "sh"]);
    let keys = |keys: &str| _ = tmux.run(&["send-keys", "-t", "top", keys]);
    // Mouse events as terminals send them.
    let mouse = |button: u32, column: usize, row: usize| {
        tmux.run(&["send-keys", "-t", "top", "-l", &format!("\u{1b}[<{button};{};{}M", column + 1, row + 1)]);
    };
    let top = format!("{} top --from {}; echo ended with $?", crate::PROGRAM, looks.display());
    tmux.run(&["send-keys", "-t", "top", &top, "Enter"]);
    tmux.shows("of 30");
    keys("<");
    tmux.shows("look 1 of 30  20:00:00 UTC  [paused]");
    keys(">");
    tmux.shows("look 11 of 30  20:00:10 UTC");
    keys("n");
    tmux.shows("look 12 of 30");
    keys("+");
    tmux.shows("speed 2");
    keys("/");
    tmux.shows("try 0-15,32");
    tmux.run(&["send-keys", "-t", "top", "-l", "1-12"]);
    keys("Enter");
    tmux.shows("filter 1-12: 12 CPUs | CPU 1:");
    let screen = tmux.shows("CPU   count");
    let list = screen.lines().position(|line| line.contains("CPU   count")).unwrap();
    mouse(0, 10, list + 3);
    tmux.shows("CPU 3:");
    mouse(65, 10, list + 3);
    tmux.shows("CPU 6:");
    mouse(64, 10, list + 3);
    tmux.shows("CPU 3:");
    let zone = screen.lines().position(|line| line.contains("0 DMA32")).unwrap();
    mouse(0, 2, zone);
    tmux.shows("zone 0 DMA32 by CPU");
    // The playback goes on and stops at its end.
    keys("Space");
    tmux.shows("look 30 of 30");
    keys("q");
    tmux.shows("ended with 0");
}
