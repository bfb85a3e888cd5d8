//! Wrong recipes: each form of another tool's file says what its recipe left out, and gives the figures that do not need it.
//!
//! Files of the real tools where their recipe was wrong; other files are those of the right recipe with lines or bytes changed as the
//! wrong one leaves them.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::LazyLock;

use pageset_trace::info::Info;
use pageset_trace::measure::warnings::Name;
use pageset_trace::{Event, Kind, OpenOptions, Trace, TraceError, perf_script_line};

use super::formats::{data, read, text, unpacked};

/// What a recipe leads to.
enum Then {
    /// This warning, with this part of its text. The only other warnings are those that all files of this form have.
    Warns(Name, &'static str),
    /// This error; every count of events may still be right, but the file is not replayed.
    Fails(&'static str),
    /// The same events as the right recipe's, but for the flags of requests.
    Same,
}
use Then::{Fails, Same, Warns};

type Row = (&'static str, Vec<u8>, Option<&'static str>, Then);

/// The zoneinfo of `printed`, of another machine with 2 CPUs, and that of one with 4 and a kernel that prints no bounds.
const OWN: Option<&str> = Some("own");
const TWO: Option<&str> = Some("ftrace.zoneinfo");
const FOUR: Option<&str> = Some("timer.zoneinfo");

const SOME: Then = Warns(Name::SomeProcesses, "so only it seems to have been recorded");
const ONE_CPU: Then = Warns(Name::CpusMissing, "no event is of CPU 1: not recorded, or idle");
const NO_REFILLS: Then = Warns(Name::EventsMissing, "mm_page_alloc_zone_locked (the kernel's refills are unknown");
const NO_DRAINS: Then = Warns(Name::EventsMissing, "mm_page_pcpu_drain (the kernel's drains");
const NO_BATCHES: Then = Warns(Name::EventsMissing, "mm_page_free_batched (pages freed in batches");
const NO_ZONEINFO: Then = Warns(Name::NoZoneinfo, "give a copy of /proc/zoneinfo");
const LOST: Then = Warns(Name::EventsLost, "events were lost");
const CUT: Then = Warns(Name::CutEnd, "ends in the middle of an event");
const GRAPHS: Then = Warns(Name::CallGraphs, "record without -g");
const OTHER_CPUS: Then = Warns(Name::OtherZoneinfo, "the zoneinfo has 4 CPUs, and the recording 2");
const TWO_IDLE: Then = Warns(Name::CpusMissing, "no event is of CPUs 2, 3");
const OTHER_CPU: Then = Warns(Name::OtherZoneinfo, "the zoneinfo lacks CPU ");
const NO_ALLOCS: Then = Fails("kmem:mm_page_alloc was not recorded, so nothing can be replayed");
const NO_FREES: Then = Fails("kmem:mm_page_free was not recorded, so nothing can be replayed");
const NO_TASKS: Then = Fails("does not say of each event which task it was in, on which CPU and when");

/// The lines that a condition keeps.
fn lines(of: &str, keep: impl Fn(&str) -> bool) -> Vec<u8> {
    of.lines().filter(|line| keep(line)).flat_map(|line| [line, "\n"]).collect::<String>().into_bytes()
}

/// The text with each line changed.
fn each(of: &str, change: impl Fn(&str) -> String) -> Vec<u8> {
    of.lines().map(|line| change(line) + "\n").collect::<String>().into_bytes()
}

/// The text without its end, which is in the middle of an event's fields.
fn cut(of: &str) -> Vec<u8> {
    of.as_bytes()[..of.rfind(" order=0 ").unwrap() + 3].to_vec()
}

/// The file with each of these bytes changed to others.
fn changed(file: &str, from: &str, to: &str) -> Vec<u8> {
    let (mut bytes, from, to) = (unpacked(file), from.as_bytes(), to.as_bytes());
    assert_eq!(from.len(), to.len());
    let places: Vec<usize> = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!places.is_empty(), "{file}");
    places.iter().for_each(|at| bytes[*at..*at + to.len()].copy_from_slice(to));
    bytes
}

/// A recording of all that a replay needs.
static WHOLE: LazyLock<Trace> = LazyLock::new(|| Trace::open(&data("../real/high_set_idle.pstrace")).unwrap());

/// Its first zoneinfo in a file.
static OWN_ZONEINFO: LazyLock<tempfile::NamedTempFile> = LazyLock::new(|| {
    let texts = &WHOLE.snapshots().texts;
    let (_, text) =
        texts.iter().find(|(_, text)| text.starts_with("Node 0, zone") && text.contains("pagesets")).unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
});

/// Its events as another tool prints them.
fn printed(task: fn(u32, u32) -> String, system: &str) -> String {
    let lines = WHOLE.events().unwrap().filter_map(|event| {
        let event = event.unwrap();
        let line = perf_script_line(&event)?;
        let (_, rest) = line.split_once("] ")?;
        let rest = if system.is_empty() { rest.replacen("kmem:", "", 1) } else { rest.to_owned() };
        Some(format!("{} {rest}\n", task(event.pid, event.cpu.0)))
    });
    lines.collect()
}

/// The process that has the most lines.
fn busiest(of: &str) -> Vec<u8> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    of.lines().filter_map(task).for_each(|name| *counts.entry(name).or_default() += 1);
    let most = counts.into_iter().max_by_key(|(_, count)| *count).unwrap().0;
    lines(of, |line| task(line).is_none_or(|name| name == most))
}

/// The task of a line: `load.sh-1466`.
fn task(line: &str) -> Option<&str> {
    line.split_once(" [0").map(|(task, _)| task.trim())
}

fn opened(bytes: &[u8], zoneinfo: Option<&str>) -> Result<Info, TraceError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let zoneinfo = zoneinfo.map(|name| match name {
        "own" => OWN_ZONEINFO.path().to_owned(),
        name => data(name),
    });
    let options = OpenOptions { without_snapshots: zoneinfo.is_none(), zoneinfo, ..OpenOptions::default() };
    Info::gather(&Trace::open_with(file.path(), &options)?)
}

/// Checks a form. `shared` are the warnings that its file of the right recipe has.
fn check(right: &[u8], zoneinfo: Option<&str>, shared: &[Name], rows: Vec<Row>) {
    assert!(rows.len() >= 10, "{}", rows.len());
    // Without the flags of requests, which `report -R` prints as a number.
    let kind = |kind| match kind {
        Kind::Alloc { pfn, order, migratetype, .. } => Kind::Alloc { pfn, order, migratetype, gfp: 0 },
        kind => kind,
    };
    let plain =
        |events: Vec<Event>| events.into_iter().map(|e| (e.time_ns, e.cpu, e.pid, kind(e.kind))).collect::<Vec<_>>();
    let names = |info: &Info| info.warnings.iter().map(|warning| warning.name).collect::<Vec<_>>();
    assert_eq!(names(&opened(right, zoneinfo).unwrap()), shared, "the right recipe");
    let mut wrong = String::new();
    for (what, bytes, zoneinfo, then) in rows {
        match (opened(&bytes, zoneinfo), then) {
            (Ok(info), Warns(name, part)) => {
                let found = info.warnings.iter().find(|warning| warning.name == name);
                let extra = names(&info)
                    .into_iter()
                    .find(|other| *other != name && *other != Name::EventsMissing && !shared.contains(other));
                if info.events == 0 || extra.is_some() || found.is_none_or(|warning| !warning.text.contains(part)) {
                    wrong += &format!("{what}: {:?}\n", info.warnings);
                }
            }
            (Ok(_), Same) => {
                if plain(read(&bytes).unwrap().1) != plain(read(right).unwrap().1) {
                    wrong += &format!("{what}: other events\n");
                }
            }
            (Err(error), Fails(part))
                if error.to_string().contains(part) && error.to_string().contains("allowed: ") => {}
            (found, _) => wrong += &format!("{what}: {:?}\n", found.map(|info| info.warnings)),
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn trace_dats_of_wrong_recipes() {
    let right = unpacked("v6.dat");
    let half = right[..right.len() / 2].to_vec();
    check(
        &right,
        TWO,
        &[Name::EventsMissing],
        vec![
            ("-F", unpacked("one-process.dat"), TWO, Warns(Name::SomeProcesses, "all events are of process ")),
            ("-M 1", unpacked("one-cpu.dat"), TWO, ONE_CPU),
            ("without -C", unpacked("local.dat"), TWO, Warns(Name::OtherClock, "the clock `local` can differ")),
            (
                "no refills",
                changed("v6.dat", "name: mm_page_alloc_zone_locked", "name: mm_page_alloc_zone_lockeX"),
                TWO,
                NO_REFILLS,
            ),
            ("no drains", changed("v6.dat", "name: mm_page_pcpu_drain", "name: mm_page_pcpu_draiX"), TWO, NO_DRAINS),
            (
                "no batches",
                changed("v6.dat", "name: mm_page_free_batched", "name: mm_page_free_batcheX"),
                TWO,
                NO_BATCHES,
            ),
            ("no allocations", changed("v6.dat", "name: mm_page_alloc\n", "name: mm_page_alloX\n"), TWO, NO_ALLOCS),
            ("no frees", changed("v6.dat", "name: mm_page_free\n", "name: mm_page_freX\n"), TWO, NO_FREES),
            ("-b too small", changed("v6.dat", "overrun: 0", "overrun: 9"), TWO, LOST),
            ("no zoneinfo", right.clone(), None, NO_ZONEINFO),
            ("another machine's zoneinfo", right.clone(), FOUR, OTHER_CPUS),
            ("a cut file", half, TWO, Fails("cut short")),
        ],
    );
}

#[test]
fn perf_datas_of_wrong_recipes() {
    let right = unpacked("script.data");
    let half = right[..right.len() / 2].to_vec();
    let timer = unpacked("timer.data");
    check(
        &right,
        TWO,
        &[Name::EventsMissing],
        vec![
            (
                "without -a",
                unpacked("one-process.data"),
                TWO,
                Warns(Name::SomeProcesses, "only some processes were recorded"),
            ),
            ("-C 0", unpacked("one-cpu.data"), TWO, Warns(Name::CpusMissing, "only CPU 0 of 2 was recorded")),
            ("-g", unpacked("call-graphs.data"), TWO, GRAPHS),
            ("a group", unpacked("groups.data"), TWO, Warns(Name::EventGroups, "record them without { }")),
            ("no refills", unpacked("no-zone.data"), TWO, NO_REFILLS),
            ("no drains", unpacked("no-zone.data"), TWO, NO_DRAINS),
            ("no allocations", unpacked("no-alloc.data"), TWO, NO_ALLOCS),
            ("no zoneinfo", right.clone(), None, NO_ZONEINFO),
            ("another machine's zoneinfo", right.clone(), FOUR, OTHER_CPUS),
            ("a zoneinfo of fewer CPUs", timer, TWO, OTHER_CPU),
            ("a cut file", half, TWO, Fails("may be cut short")),
        ],
    );
}

#[test]
fn reports_of_trace_cmd_of_wrong_recipes() {
    let right = "cpus=2\n".to_owned() + &printed(|pid, cpu| format!("task-{pid} [{cpu:03}]"), "");
    let hexadecimal = |line: &str| {
        let (before, flags) = line.split_once("gfp_flags=").unwrap_or((line, ""));
        let (head, fields) = before.split_once("page=0x").unwrap_or((before, ""));
        let fields = fields.split_once(' ').map_or("", |(_, fields)| fields);
        let flags = if flags.is_empty() { "" } else { "gfp_flags=0x140cca" };
        format!("{head} {fields}{flags}")
    };
    let latency = |line: &str| match line.split_once(" [00") {
        Some((task, rest)) => format!("{task}    {}..... {}", &rest[..1], rest[2..].trim_start()),
        None => line.to_owned(),
    };
    let differences = |line: &str| line.replacen(": mm_", ": (+5270)  mm_", 1);
    check(
        right.as_bytes(),
        OWN,
        &[],
        vec![
            ("-F", busiest(&right), OWN, SOME),
            ("--cpu 0", lines(&right, |line| !line.contains("[001]")), OWN, ONE_CPU),
            ("no refills", lines(&right, |line| !line.contains("zone_locked")), OWN, NO_REFILLS),
            ("no drains", lines(&right, |line| !line.contains("pcpu_drain")), OWN, NO_DRAINS),
            ("no batches", lines(&right, |line| !line.contains("free_batched")), OWN, NO_BATCHES),
            ("no allocations", lines(&right, |line| !line.contains("mm_page_alloc:")), OWN, NO_ALLOCS),
            ("no frees", lines(&right, |line| !line.contains("mm_page_free:")), OWN, NO_FREES),
            ("-b too small", [right.as_bytes(), b"CPU:0 [17 EVENTS DROPPED]\n"].concat(), OWN, LOST),
            ("a cut text", cut(&right), OWN, CUT),
            ("no zoneinfo", right.clone().into_bytes(), None, NO_ZONEINFO),
            ("another machine's zoneinfo", right.clone().into_bytes(), FOUR, TWO_IDLE),
            ("report -R", each(&right, hexadecimal), OWN, Same),
            ("report -l", each(&right, latency), OWN, Same),
            ("report --ts-diff", each(&right, differences), OWN, Same),
            (
                "report without times",
                each(&right, |line| {
                    line.split_once("] ")
                        .map_or(line.to_owned(), |(task, rest)| format!("{task}] {}", rest.split_once(": ").unwrap().1))
                }),
                OWN,
                NO_TASKS,
            ),
        ],
    );
}

#[test]
fn texts_of_perf_script_of_wrong_recipes() {
    let right = printed(|pid, cpu| format!("task {pid} [{cpu:03}]"), "kmem");
    let word = |line: &str, from: usize| {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        words.remove(from);
        words.join(" ")
    };
    let graph = |line: &str| format!("{line}\n\tffffffff816396fb get_page_from_freelist+0x1 ([kernel.kallsyms])\n");
    let lost = format!("x 0 [001] 0.000000: PERF_RECORD_LOST lost 900\n{right}");
    check(
        right.as_bytes(),
        OWN,
        &[],
        vec![
            ("without -a", busiest(&right), OWN, SOME),
            ("-C 0", lines(&right, |line| !line.contains("[001]")), OWN, ONE_CPU),
            ("-g", each(&right, graph), OWN, GRAPHS),
            ("no refills", lines(&right, |line| !line.contains("zone_locked")), OWN, NO_REFILLS),
            ("no drains", lines(&right, |line| !line.contains("pcpu_drain")), OWN, NO_DRAINS),
            ("no allocations", lines(&right, |line| !line.contains("mm_page_alloc:")), OWN, NO_ALLOCS),
            ("no frees", lines(&right, |line| !line.contains("mm_page_free:")), OWN, NO_FREES),
            ("-m too small", lost.into_bytes(), OWN, LOST),
            ("a cut text", cut(&right), OWN, CUT),
            ("no zoneinfo", right.clone().into_bytes(), None, NO_ZONEINFO),
            ("another machine's zoneinfo", right.clone().into_bytes(), FOUR, TWO_IDLE),
            ("-F without cpu", each(&right, |line| word(line, 2)), OWN, Fails("does not say on which CPU")),
            ("-F without time", each(&right, |line| word(line, 3)), OWN, NO_TASKS),
            ("-F without tid", each(&right, |line| word(line, 1)), OWN, NO_TASKS),
            (
                "-F without trace",
                each(&right, |line| line.split(" page=").next().unwrap().to_owned()),
                OWN,
                Fails(" has no "),
            ),
            (
                "--deltatime",
                lines(&right, |line| !line.is_empty())
                    .iter()
                    .rev()
                    .copied()
                    .collect::<Vec<u8>>()
                    .split(|b| *b == b'\n')
                    .flat_map(|line| line.iter().rev().copied().chain([b'\n']))
                    .collect(),
                OWN,
                Fails("time goes back"),
            ),
        ],
    );
}

#[test]
fn texts_of_ftrace_of_wrong_recipes() {
    let head = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 10/10   #P:2\n";
    let right = head.to_owned() + &printed(|pid, cpu| format!("task-{pid} [{cpu:03}] d..1."), "");
    let stack = |line: &str| {
        if line.starts_with('#') { line.to_owned() } else { format!("{line}\n => get_page_from_freelist") }
    };
    let relative = |line: &str| match line.split_once(" [00") {
        Some((task, rest)) => format!("{task} {}d..1. 12us : {}", &rest[..1], rest.split_once(": ").unwrap().1),
        None => line.to_owned(),
    };
    let small = right.replacen("10/10", "10/99", 1);
    check(
        right.as_bytes(),
        OWN,
        &[],
        vec![
            ("set_event_pid", busiest(&right), OWN, SOME),
            ("per_cpu/cpu0", lines(&right, |line| !line.contains("[001]")), OWN, ONE_CPU),
            ("no refills", lines(&right, |line| !line.contains("zone_locked")), OWN, NO_REFILLS),
            ("no drains", lines(&right, |line| !line.contains("pcpu_drain")), OWN, NO_DRAINS),
            ("no batches", lines(&right, |line| !line.contains("free_batched")), OWN, NO_BATCHES),
            ("no allocations", lines(&right, |line| !line.contains("mm_page_alloc:")), OWN, NO_ALLOCS),
            ("no frees", lines(&right, |line| !line.contains("mm_page_free:")), OWN, NO_FREES),
            ("buffer_size_kb too small", small.into_bytes(), OWN, LOST),
            ("trace_pipe with small buffers", unpacked("lost.txt"), TWO, LOST),
            (
                "the clock counter",
                unpacked("counter.txt"),
                TWO,
                Warns(Name::OtherClock, "the clock `counter` counts events"),
            ),
            ("options/stacktrace", each(&right, stack), OWN, GRAPHS),
            ("options/latency-format", each(&right, relative), OWN, NO_TASKS),
            ("a cut text", cut(&right), OWN, CUT),
            ("a cut pipe", cut(&text("trace_pipe.txt")), TWO, CUT),
            ("no zoneinfo", right.clone().into_bytes(), None, NO_ZONEINFO),
            ("another machine's zoneinfo", right.clone().into_bytes(), FOUR, TWO_IDLE),
        ],
    );
}
