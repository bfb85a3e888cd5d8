//! The forms of other tools: each has the events that the tool itself prints, and a wrong recipe is named.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use pageset_trace::replay::agreement::agrees;
use pageset_trace::replay::{Level, Replay};
use pageset_trace::{Context, ErrorKind, Event, Form, Kind, OpenOptions, Trace, TraceError};
use proptest::prelude::*;

pub(super) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats").join(name)
}

pub(super) fn unpacked(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(data(&format!("{name}.zst"))).unwrap();
    zstd::Decoder::new(file).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

pub(super) fn text(name: &str) -> String {
    String::from_utf8(unpacked(name)).unwrap()
}

fn open(bytes: &[u8]) -> Result<Trace, TraceError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    Trace::open_with(file.path(), &OpenOptions { without_snapshots: true, ..OpenOptions::default() })
}

pub(super) fn read(bytes: &[u8]) -> Result<(Trace, Vec<Event>), TraceError> {
    let trace = open(bytes)?;
    let events = trace.events()?.collect::<Result<Vec<_>, _>>()?;
    assert_eq!(trace.events()?.count(), events.len(), "a second pass");
    Ok((trace, events))
}

/// The events without their context, which some texts lack, and without what one of two files lacks.
fn without_context(events: Vec<Event>) -> Vec<Event> {
    events.into_iter().map(|event| Event { context: Context::Process, ..event }).collect()
}

#[test]
fn a_trace_dat_has_the_events_of_its_report() {
    let (trace, events) = read(&unpacked("v6.dat")).unwrap();
    let (report, lines) = read(&unpacked("v6.report.txt")).unwrap();
    assert_eq!((trace.form(), report.form()), (Form::TraceDat, Form::Ftrace));
    assert_eq!(events.len(), 1859); // the lines of the report
    assert!(events.iter().any(|event| event.context == Context::SoftIrq));
    assert_eq!(without_context(events), lines);
    let facts = trace.facts();
    assert_eq!((facts.kernel_release.as_deref(), facts.cpus, facts.page_size), (Some("6.18.44-fc-v782"), 2, 4096));
    assert_eq!((facts.clock.as_str(), facts.lost_events(), facts.loss.len()), ("mono", false, 2));
    assert_eq!(report.facts().cpus, 2);
}

/// The recipe's filter makes each work a run of the timer work; a work of another filter is any work.
#[test]
fn perf_by_the_recipe_is_within_limits() {
    let bytes = unpacked("timer.data");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let options = OpenOptions { zoneinfo: Some(data("timer.zoneinfo")), ..OpenOptions::default() };
    let trace = Trace::open_with(file.path(), &options).unwrap();
    let replay = Replay::prepare(&trace, &mut |_| {}).unwrap();
    assert!(replay.notes().found.ticks > 10, "{}", replay.notes().found.ticks);
    for level in [Level::Input, Level::Reconstructed] {
        let ours = replay.run(&replay.kernel_rules(), level, &mut |_| {}).unwrap().moves.totals(|_| true);
        assert!(agrees(&replay.kernel().totals(|_| true), &ours), "{level:?}: {ours:?}");
    }
    let wanted = b"function.function == vmstat_update";
    let at = bytes.windows(wanted.len()).position(|window| window == wanted).expect("the command line");
    let other = [&bytes[..at], b"function.function != vmstat_update", &bytes[at + wanted.len()..]].concat();
    assert!(read(&other).unwrap().1.iter().all(|event| event.kind != Kind::VmstatWork));
}

#[test]
fn versions_and_compression_of_a_trace_dat() {
    let packed = std::fs::read(data("v7-zstd.dat")).unwrap();
    for (name, bytes, events) in [("v7", unpacked("v7.dat"), [653, 519]), ("v7-zstd", packed, [1944, 498])] {
        let (trace, read) = read(&bytes).unwrap();
        assert_eq!(trace.form(), Form::TraceDat, "{name}");
        let count = |is: fn(&Kind) -> bool| read.iter().filter(|event| is(&event.kind)).count();
        // The counts of `trace-cmd report`.
        let found = [count(|kind| matches!(kind, Kind::Alloc { .. })), count(|kind| matches!(kind, Kind::Free { .. }))];
        assert_eq!(found, events, "{name}");
        assert_eq!((trace.facts().clock.as_str(), trace.facts().loss.len()), ("mono", 2), "{name}");
    }
}

/// The events of other systems in between are left out, by both readers alike.
#[test]
fn the_text_of_perf_script_has_the_events_of_its_perf_data() {
    let (binary, events) = read(&unpacked("script.data")).unwrap();
    let (script, lines) = read(&unpacked("script.txt")).unwrap();
    assert_eq!((binary.form(), script.form()), (Form::Perf, Form::PerfScript));
    assert!(text("script.txt").contains("sched_switch") && events.len() > 1000, "{}", events.len());
    assert_eq!(without_context(events), lines);
}

#[test]
fn the_text_of_ftrace_has_contexts_and_losses() {
    let (trace, events) = read(&unpacked("ftrace.txt")).unwrap();
    assert_eq!((trace.form(), trace.facts().cpus, trace.facts().loss.len()), (Form::Ftrace, 2, 2));
    let text = self::text("ftrace.txt");
    assert_eq!(events.len(), text.lines().filter(|line| !line.starts_with('#')).count());
    let soft = events.iter().filter(|event| event.context == Context::SoftIrq).count();
    let flag = |line: &str| line.split_once("] ").and_then(|(_, flags)| flags.chars().nth(2));
    assert_eq!(soft, text.lines().filter(|line| flag(line) == Some('s')).count());
    assert!(soft > 0);

    let (trace, events) = read(&unpacked("trace_pipe.txt")).unwrap();
    assert_eq!((trace.form(), trace.facts().lost_events(), events.len()), (Form::Ftrace, false, 1500));
    assert!(events.is_sorted_by_key(|event| event.time_ns));
}

/// Compressed texts are read like others.
#[test]
fn a_compressed_text_is_read() {
    let packed = std::fs::read(data("script.txt.zst")).unwrap();
    assert_eq!(read(&packed).unwrap().1, read(&unpacked("script.txt")).unwrap().1);
}

#[test]
fn a_zoneinfo_beside_the_text_makes_it_a_recording() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&unpacked("ftrace.txt")).unwrap();
    let error = Trace::open(file.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingSnapshots);
    let error = error.to_string();
    assert!(error.contains("this ftrace text has no zoneinfo") && error.contains("`pageset trace info`"), "{error}");
    let options = OpenOptions { zoneinfo: Some(data("ftrace.zoneinfo")), ..OpenOptions::default() };
    let trace = Trace::open_with(file.path(), &options).unwrap();
    assert_eq!((trace.facts().nodes, trace.snapshots().zoneinfo.len()), (1, 1));
}

/// Colours, carriage returns and a text before the first event change nothing.
#[test]
fn what_terminals_add_is_ignored() {
    let text = text("script.txt");
    let plain = read(text.as_bytes()).unwrap().1;
    let coloured = text.replace("kmem:mm_page_alloc:", "\u{1b}[01;31m\u{1b}[Kkmem:mm_page_alloc\u{1b}[m\u{1b}[K:");
    for changed in [text.replace('\n', "\r\n"), coloured, format!("$ perf script\n\n{text}$ \n")] {
        assert_eq!(read(changed.as_bytes()).unwrap().1, plain);
    }
}

#[test]
fn truncated_trace_dats_are_damaged() {
    let packed = std::fs::read(data("v7-zstd.dat")).unwrap();
    for (name, good) in [("v6", unpacked("v6.dat")), ("v7", unpacked("v7.dat")), ("v7-zstd", packed)] {
        // The last section has texts for people.
        for cut in (10..good.len() - 200).step_by(good.len() / 40) {
            let error = read(&good[..cut]).map(|_| ()).expect_err("a truncated file");
            assert_eq!(error.kind(), ErrorKind::Damaged, "{name}, cut to {cut} bytes: {error}");
        }
    }
}

#[test]
fn errors_of_a_trace_dat_name_the_reason() {
    type Change = fn(&mut Vec<u8>);
    let rows: [(&str, Change, &str); 4] = [
        ("v6.dat", |b| b[12] = 1, "other byte order"),
        ("v6.dat", |b| b[10] = b'9', "version 9 of a trace.dat is not known; allowed: versions 6 and 7"),
        ("v7.dat", |b| b[18..22].copy_from_slice(b"zlib"), "compressed with zlib; allowed: zstd or none"),
        ("v7.dat", |b| b.truncate(100), "cut short"),
    ];
    for (name, change, what) in rows {
        let mut bytes = unpacked(name);
        change(&mut bytes);
        let error = read(&bytes).map(|_| ()).expect_err(what).to_string();
        assert!(error.contains(what), "{what}: {error}");
    }
}

proptest! {
    /// A trace.dat has no checksums, so a change may be undetected, but it never causes a panic or a huge allocation.
    #[test]
    fn any_change_is_read_or_refused(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let packed = std::fs::read(data("v7-zstd.dat")).unwrap();
        for mut bytes in [unpacked("v6.dat"), unpacked("v7.dat"), packed] {
            for (place, value) in &changes {
                let place = place.index(bytes.len());
                bytes[place] = *value;
            }
            let _ = read(&bytes);
        }
    }
}
