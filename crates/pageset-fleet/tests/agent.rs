//! The lines of an agent of made-up looks, and its recordings by a made-up program.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pageset_fleet::Line;
use pageset_fleet::agent::of_view;
use pageset_fleet::look::{Look, When};
use pageset_fleet::recorder::Recorder;
use pageset_fleet::view::View;
use pageset_fleet::watch::{Looks, Watch};
use pageset_record::live::{Traffic, Wait, Waits};
use pageset_report::error::{Exit, Failure};
use pageset_trace::procfs::Zoneinfo;
use pageset_trace::verdict::machine::{Finding, Level, Lists, judge};

const YEAR_S: u64 = 365 * 86_400;

/// A look `second` seconds after the start, at `unix_s` by the wall clock: each CPU with its refilled pages and the time it waited.
fn look(second: u64, unix_s: u64, cpus: &[(u32, u64, Duration)]) -> Look {
    let sets: String = cpus
        .iter()
        .map(|(cpu, ..)| {
            format!("    cpu: {cpu}\n count: 0\n high: 1000\n batch: 63\n high_min: 500\n high_max: 4000\n")
        })
        .collect();
    let zone = "Node 0, zone Normal\n  pages free 90000\n boost 0\n min 100\n low 200\n high 300\n spanned 100000\n present 100000\n \
                managed 100000\n cma 0\n protection: (0, 0)\n  pagesets\n";
    let traffic = |(cpu, pages, wait): &(u32, u64, Duration)| Traffic {
        cpu: *cpu,
        refill_pages: *pages,
        waits: Some(Waits { refill: Wait { times: 1, ns: wait.as_nanos() as u64 }, ..Waits::default() }),
        ..Traffic::default()
    };
    Look {
        source: "live".to_owned(),
        when: Some(When { unix_ns: Some(unix_s * 1_000_000_000), since: Duration::from_secs(second) }),
        zoneinfo: Zoneinfo::parse(&format!("{zone}{sets}  node_unreclaimable: 0\n  start_pfn: 1\n")).unwrap(),
        buddyinfo: None,
        vmstat: BTreeMap::new(),
        release: Some("6.18.0".to_owned()),
        version: None,
        high_fraction: Some(0),
        counted: true,
        counts_holds: false,
        traffic: Some(cpus.iter().map(traffic).collect()),
        wait_times: None,
        processes: None,
        sites: None,
        cpu_nodes: Vec::new(),
        caches: Vec::new(),
        batch_scale_max: None,
        missing: Vec::new(),
    }
}

fn line(now: &Look, before: &Look) -> Line {
    let view = View::new(now, Some(before));
    of_view(&view, &judge(&view.numbers())[0])
}

/// Rates are by the clock that does not jump; only the time of the line is by the other one.
#[test]
fn a_clock_that_jumps_changes_no_rate() {
    let cpu = |pages| [(0, pages, Duration::from_secs(pages / 1000))];
    for unix_s in [YEAR_S + 60, YEAR_S, 0, 50 * YEAR_S] {
        let line = line(&look(60, unix_s, &cpu(60_000)), &look(0, YEAR_S, &cpu(0)));
        assert_eq!((line.time_ns, line.interval_ns), (Some(unix_s * 1_000_000_000), Some(60_000_000_000)));
        assert_eq!((line.refill_pages_per_s, line.zone_lock_wait_ns_per_s), (Some(1000.0), Some(1e9)));
        assert_eq!(line.verdict.key, "zone-lock-waits");
    }
}

/// A CPU counts from the look after it came, from what it had then; one that went leaves the others.
#[test]
fn cpus_come_and_go() {
    let (none, minute) = (Duration::ZERO, Duration::from_secs(60));
    let both = look(60, 60, &[(0, 600, none), (1, 6_000_000, minute)]);
    let one = look(120, 120, &[(0, 1200, none)]);
    let gone = line(&one, &both);
    assert_eq!((gone.cpus, gone.refill_pages_per_s, gone.zone_lock_wait_ns_per_s), (1, Some(10.0), Some(0.0)));
    assert_eq!(gone.verdict.key, "healthy");
    // Counters of BPF keep what they had, those of perf restart at 0.
    for had in [6_000_000, 0] {
        let back = look(180, 180, &[(0, 1800, none), (1, had, minute)]);
        let came = line(&back, &one);
        assert_eq!((came.cpus, came.refill_pages_per_s, came.zone_lock_wait_ns_per_s), (2, Some(10.0), Some(0.0)));
        let next = look(240, 240, &[(0, 2400, none), (1, had + 60, 2 * minute)]);
        let next = line(&next, &back);
        assert_eq!((next.refill_pages_per_s, next.zone_lock_wait_ns_per_s), (Some(11.0), Some(1e9)));
    }
    // Gone and back between two looks, with counters of perf.
    let back = line(&look(120, 120, &[(0, 1200, none), (1, 0, none)]), &both);
    assert_eq!((back.refill_pages_per_s, back.zone_lock_wait_ns_per_s), (Some(10.0), Some(0.0)));
}

/// Where lists tune themselves although the kernel's version does not, the rules are those of the lists.
#[test]
fn lists_decide_the_rules_against_the_version() {
    let rules = |release: &str, bounds: bool, differ: bool| {
        let none = Duration::ZERO;
        let mut look = Look { release: Some(release.to_owned()), ..look(60, 60, &[(0, 1, none), (1, 1, none)]) };
        for set in look.zoneinfo.zones.iter_mut().flat_map(|zone| &mut zone.pagesets) {
            set.high += if differ { u64::from(set.cpu) } else { 0 };
            (set.high_min, set.high_max) = (set.high_min.filter(|_| bounds), set.high_max.filter(|_| bounds));
        }
        let line = line(&look, &look);
        (line.rules, line.is_another, line.auto_tuning)
    };
    for (release, bounds, differ, name, is_another, tuning) in [
        ("6.6.87", false, false, "linux-6.6.37", false, "not-in-kernel"),
        ("6.6.87", false, true, "linux-6.6-tuned", true, "on"),
        ("5.14.0-1.el9", true, false, "linux-6.18", true, "on"),
        ("6.18.0", true, true, "linux-6.18", false, "on"),
    ] {
        assert_eq!(rules(release, bounds, differ), (name.to_owned(), is_another, tuning.to_owned()), "{release}");
    }
}

/// A kernel before 5.14 has no setting. A newer one has it, and its value is unknown if it cannot be read.
#[test]
fn a_setting_that_cannot_be_read_is_not_one_that_is_missing() {
    for (release, lists) in [("5.10.0", Lists::Without), ("5.15.0", Lists::Unknown), ("6.6.87", Lists::Unknown)] {
        let none = Duration::ZERO;
        let mut look = Look { high_fraction: None, ..look(60, 60, &[(0, 1, none)]) };
        look.release = Some(release.to_owned());
        for set in look.zoneinfo.zones.iter_mut().flat_map(|zone| &mut zone.pagesets) {
            (set.high_min, set.high_max) = (None, None);
        }
        assert_eq!(View::new(&look, None).kernel.lists(), lists, "{release}");
    }
}

/// Counting that ends, such as by a kernel that removed it, is no traffic of 0.
#[test]
fn without_counts_nothing_is_known() {
    let counted = look(60, 60, &[(0, 600, Duration::ZERO)]);
    let lost = Look { traffic: None, counted: false, ..look(120, 120, &[(0, 0, Duration::ZERO)]) };
    for (now, before) in [(&lost, &counted), (&look(180, 180, &[(0, 9, Duration::ZERO)]), &lost)] {
        let line = line(now, before);
        assert_eq!((line.refill_pages_per_s, line.zone_lock_wait_ns_per_s), (None, None));
        assert_ne!(line.verdict.level, Level::Severe);
    }
    assert_eq!(line(&lost, &counted).verdict.key, "not-counted");
}

/// A machine of which looks are made up: each second it moves 10 pages more, since counting began. It counts at no second of `without`.
struct MadeUp<'t> {
    now: &'t Cell<u64>,
    begin: u64,
    without: Range<u64>,
}

impl Looks for MadeUp<'_> {
    fn look(&mut self) -> Result<Look, Failure> {
        let now = self.now.get();
        let look = look(now, now, &[(0, 10 * (now - self.begin), Duration::ZERO)]);
        Ok(match self.without.contains(&now) {
            true => Look { traffic: None, missing: vec!["gone".to_owned()], ..look },
            false => look,
        })
    }
}

/// The programs in the kernel end under the agent: it begins to count again, from then on, and no count is of two beginnings.
#[test]
fn counting_that_ends_begins_anew() {
    let (now, starts) = (Cell::new(0), Cell::new(0));
    let start = |without: Range<u64>| {
        let (now, starts) = (&now, &starts);
        move || {
            starts.set(starts.get() + 1);
            Ok::<_, Failure>(MadeUp { now, begin: now.get(), without: without.clone() })
        }
    };
    // Only what the first start began ends.
    let mut first = Some(25..u64::MAX);
    let start_again = || {
        let without = first.take().unwrap_or(0..0);
        start(without)()
    };
    let mut watch = Watch::new(start_again).unwrap();
    let mut rates = Vec::new();
    for second in [10, 20, 30, 40, 50] {
        now.set(second);
        let rate = |view: View| view.traffic.iter().flatten().find_map(|cpu| cpu.rates()[0]);
        rates.push(watch.interval().unwrap().map(rate));
    }
    assert_eq!(rates, [Some(Some(10.0)), Some(Some(10.0)), None, Some(Some(10.0)), Some(Some(10.0))]);
    assert_eq!((starts.get(), watch.missing()), (2, &[][..]));
    // What cannot count goes on without, and tries again: here after the tenth interval, which has a line like the others.
    now.set(0);
    starts.set(0);
    let mut watch = Watch::new(start(0..115)).unwrap();
    assert_eq!(watch.missing(), ["gone"]);
    let mut counted = Vec::new();
    for second in 1..=14 {
        now.set(10 * second);
        counted.push(watch.interval().unwrap().map(|view| view.traffic.is_some()));
    }
    let expected: Vec<_> = (1..=14).map(|second| Some(second >= 12)).collect();
    assert_eq!((counted, starts.get()), (expected, 2));
    // A start that fails ends nothing.
    now.set(0);
    starts.set(0);
    let fails = || match starts.replace(starts.get() + 1) {
        0 => start(15..u64::MAX)(),
        _ => Err(Failure::new(Exit::Missing, "no permission")),
    };
    let mut watch = Watch::new(fails).unwrap();
    for second in [10, 20, 30] {
        now.set(second);
        let view = watch.interval().unwrap().unwrap();
        assert_eq!(view.traffic.is_some(), second < 15, "{second}");
    }
}

/// One test at a time: see [`program`].
static TURN: Mutex<()> = Mutex::new(());

const DAY: Duration = Duration::from_secs(86_400);

/// A program that does `what` with the name of the recording in `$7`.
///
/// A program cannot be run while another thread, between its fork and its exec, has the file open: such tests take turns.
fn program(folder: &Path, what: &str) -> PathBuf {
    let path = folder.join("program");
    fs::write(&path, format!("#!/bin/sh\n{what}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Waits for the end.
fn ended(recorder: &mut Recorder) -> Result<(), String> {
    loop {
        recorder.end()?;
        if recorder.file().is_some() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn one_recording_is_made_in_the_time() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), r#"echo "$@" >>"$7""#);
    let mut recorder = Recorder::new(&program, folder.path(), 1 << 20, DAY).unwrap();
    assert_eq!(recorder.file(), None);
    assert!(recorder.begin().unwrap());
    // One is running, and its file is not complete.
    assert!(!recorder.begin().unwrap());
    assert_eq!(recorder.file(), None);
    ended(&mut recorder).unwrap();
    let file = recorder.file().unwrap().to_owned();
    let arguments = format!("record --duration 5s --max-size 1048576 -o {file}\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), arguments);
    assert!(!recorder.begin().unwrap());
    // An agent that was restarted knows the file, unless it is from the future.
    let mut restarted = Recorder::new(&program, folder.path(), 1 << 20, DAY).unwrap();
    assert_eq!((restarted.begin().unwrap(), restarted.file()), (false, Some(file.as_str())));
    let set = |to| File::options().write(true).open(&file).unwrap().set_modified(to).unwrap();
    for (time, begins) in [
        (std::time::SystemTime::now() + DAY, true),
        (std::time::SystemTime::now() - 2 * DAY, true),
        (std::time::SystemTime::now() - DAY / 2, false),
    ] {
        set(time);
        let mut recorder = Recorder::new(&program, folder.path(), 1 << 20, DAY).unwrap();
        assert_eq!(recorder.begin().unwrap(), begins, "{time:?}");
        ended(&mut recorder).unwrap();
        // This one has just made one, whatever the file's time.
        set(std::time::SystemTime::now() + DAY);
        assert_eq!(recorder.begin().unwrap(), !begins);
        ended(&mut recorder).unwrap();
    }
}

/// Only a verdict that needs a recording begins one and has one.
#[test]
fn a_recording_belongs_to_an_uncertain_verdict() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), r#"echo >"$7""#);
    let mut recorder = Recorder::new(&program, folder.path(), 1 << 20, DAY).unwrap();
    let mut failed = |why| panic!("{why}");
    let healthy = Finding::Healthy { moves: None, limit: 1.0, worst: None };
    let unclear = Finding::Moves { cpu: 0, per_s: 2.0, are_holds: true, limit: 1.0, larger: None, decided: None };
    assert_eq!((recorder.of(&healthy, &mut failed), fs::read_dir(folder.path()).unwrap().count()), (None, 1));
    assert_eq!(recorder.of(&unclear, &mut failed), None);
    ended(&mut recorder).unwrap();
    assert_eq!(recorder.of(&healthy, &mut failed), None);
    let file = folder.path().canonicalize().unwrap().join("pageset-agent.pstrace");
    assert_eq!(recorder.of(&unclear, &mut failed).as_deref(), file.to_str());
    // Somebody took it away.
    fs::remove_file(file).unwrap();
    assert_eq!(recorder.of(&unclear, &mut failed), None);
}

#[test]
fn a_failure_is_said_and_not_repeated_at_once() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), "echo error: no root >&2\necho help: be root >&2\nexit 3");
    let mut recorder = Recorder::new(&program, folder.path(), 1 << 20, DAY).unwrap();
    assert!(recorder.begin().unwrap());
    assert_eq!(ended(&mut recorder), Err("no root".to_owned()));
    assert_eq!((recorder.begin().unwrap(), recorder.file()), (false, None));
    fs::remove_file(&program).unwrap();
    let mut recorder = Recorder::new(&program, folder.path(), 1 << 20, DAY).unwrap();
    assert!(recorder.begin().is_err());
    assert!(!recorder.begin().unwrap());
}

#[test]
fn only_folders_with_plain_names_are_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: &Path| Recorder::new(path, path, 1, DAY).unwrap_err().to_string();
    let (missing, file, odd) = (folder.path().join("missing"), folder.path().join("f"), folder.path().join("a b"));
    fs::write(&file, "").unwrap();
    fs::create_dir(&odd).unwrap();
    for (path, why) in [(&missing, "No such file"), (&file, "it is no folder"), (&odd, "its name is unusual")] {
        assert!(refused(path).contains(why), "{}", refused(path));
    }
}

/// An older file is not of a verdict whose recording failed, and one that is too old is of none.
#[test]
fn an_old_recording_is_of_no_later_verdict() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().canonicalize().unwrap().join("pageset-agent.pstrace");
    fs::write(&file, "").unwrap();
    File::options().write(true).open(&file).unwrap().set_modified(std::time::SystemTime::now() - 2 * DAY).unwrap();
    let program = program(folder.path(), "echo error: no space >&2; exit 1");
    let mut recorder = Recorder::new(&program, folder.path(), 1 << 20, DAY).unwrap();
    assert_eq!(recorder.file(), None);
    assert!(recorder.begin().unwrap());
    // The file of a time at which it could be a recent one.
    File::options().write(true).open(&file).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
    let why = loop {
        match recorder.end() {
            Ok(()) => thread::sleep(Duration::from_millis(5)),
            Err(why) => break why,
        }
    };
    assert_eq!((why.as_str(), recorder.file()), ("no space", None));
}

/// Another user who may write to the folder could put a link there, and the agent would write to any file.
#[test]
fn a_folder_of_others_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let new = || Recorder::new(Path::new("/bin/true"), folder.path(), 1 << 20, DAY).map(drop);
    for mode in [0o777, 0o1777, 0o720] {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
        assert!(new().unwrap_err().to_string().contains("others may write to it"), "{mode:o}");
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    new().unwrap();
    std::os::unix::fs::symlink("/etc/hostname", folder.path().join("pageset-agent.pstrace")).unwrap();
    assert!(new().unwrap_err().to_string().contains("is no plain file"));
}
