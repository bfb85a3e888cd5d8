//! A corpus of small recordings of the lab, from every kernel and machine. Each is replayed with the strict limits at
//! both levels, and its traffic must identify its kernel.
//!
//! `traces/lab/README.md` describes how the recordings were made and chosen.

use std::fs;
use std::path::{Path, PathBuf};

use pageset::policy::Preset;
use pageset_trace::file::Writer;
use pageset_trace::replay::agreement::{Deviation, deviations};
use pageset_trace::replay::identify::identify;
use pageset_trace::replay::{Level, Replay, RuleSet};
use pageset_trace::{Context, Event, Kind, Trace};

/// The smallest corpus, so that an empty folder fails.
const RECORDINGS_MIN: usize = 40;

fn corpus() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/lab");
    let files = fs::read_dir(&folder).unwrap_or_else(|e| panic!("cannot read {}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "pstrace"));
    files.sort();
    assert!(files.len() >= RECORDINGS_MIN, "{} recordings; the corpus has at least {RECORDINGS_MIN}", files.len());
    files
}

/// The deviations beyond the limits of a replay under these rules.
fn out_of_limits(replay: &Replay<'_>, rules: &RuleSet, level: Level) -> Vec<Deviation> {
    let outcome = replay.run(rules, level, &mut |_| {}).unwrap();
    let (kernel, ours) = (replay.kernel().totals(|_| true), outcome.moves.totals(|_| true));
    deviations(&kernel, &ours).into_iter().filter(|deviation| !deviation.is_within()).collect()
}

#[test]
fn every_recording_is_within_the_limits_at_both_levels() {
    let mut wrong = Vec::new();
    for path in corpus() {
        let trace = Trace::open(&path).unwrap();
        let replay = Replay::prepare(&trace, &mut |_| {}).unwrap();
        for level in [Level::Input, Level::Reconstructed] {
            let out = out_of_limits(&replay, &replay.kernel_rules(), level);
            if !out.is_empty() {
                wrong.push(format!("{}, {}: {out:?}", trace.name(), level.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "out of limits:\n{}", wrong.join("\n"));
}

/// Rules of another era fail.
#[test]
fn rules_of_another_era_fail() {
    let other = |kernel: &Preset| if kernel.tuning.auto_high { "linux-5.18" } else { "linux-6.18" };
    let (mut failed, mut judged) = (0, 0);
    for path in corpus() {
        let trace = Trace::open(&path).unwrap();
        let replay = Replay::prepare(&trace, &mut |_| {}).unwrap();
        let preset = Preset::find(other(replay.setting().kernel)).unwrap();
        let rules = RuleSet::new(preset.name, replay.tuning_of(preset));
        judged += 1;
        failed += usize::from(!out_of_limits(&replay, &rules, Level::Input).is_empty());
    }
    assert!(10 * failed >= 9 * judged, "the rules of another era fail on {failed} of {judged} recordings");
}

#[test]
fn the_traffic_identifies_its_kernel() {
    for path in corpus() {
        let trace = Trace::open(&path).unwrap();
        let identified = identify(&trace, &mut |_, _| {}).unwrap();
        let release = identified.by_release.unwrap_or_else(|| panic!("{} does not name its kernel", trace.name()));
        let best = &identified.candidates[..identified.alike];
        let names: Vec<&str> = best.iter().map(|candidate| candidate.preset.name).collect();
        assert_eq!(identified.choice().tuning, release.tuning, "{}: {names:?}", trace.name());
        assert!(best.iter().any(|candidate| candidate.is(release.name)), "{}: {names:?}", trace.name());
    }
}

/// Writes a recording with changed events and opens it again.
fn rewritten(trace: &Trace, change: impl Fn(&[Event]) -> Vec<Event>) -> Trace {
    let events: Vec<Event> = trace.events().unwrap().map(Result::unwrap).collect();
    let mut bytes = Vec::new();
    let mut writer = Writer::create(&mut bytes, trace.facts()).unwrap();
    trace.snapshots().texts.iter().for_each(|(tag, text)| writer.snapshot_text(tag, text).unwrap());
    change(&events).iter().for_each(|event| writer.event(event).unwrap());
    writer.finish().unwrap();
    let mut file = tempfile::NamedTempFile::with_suffix(".pstrace").unwrap();
    std::io::Write::write_all(&mut file, &bytes).unwrap();
    Trace::open(file.path()).unwrap()
}

/// An interrupt between a free and its drain, or work of another process, does not make the drain a requested one.
#[test]
fn a_drain_belongs_to_its_free() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/lab");
    let trace = Trace::open(&folder.join("7.0-amd64.4cpu.press.pstrace")).unwrap();
    let inserted = std::cell::Cell::new(0);
    let interrupted = rewritten(&trace, |events| {
        let mut all = Vec::new();
        for pair in events.windows(2) {
            all.push(pair[0].clone());
            let frees = matches!(pair[0].kind, Kind::Free { .. } | Kind::FreeBatched { .. });
            if frees && matches!(pair[1].kind, Kind::Drain { .. }) && pair[0].cpu == pair[1].cpu {
                inserted.set(inserted.get() + 1);
                // A fork is neither input nor a move.
                let kind = Kind::Fork { child: 4_000_000 };
                all.push(Event { context: Context::SoftIrq, kind: kind.clone(), ..pair[1].clone() });
                all.push(Event { pid: 3_999_999, kind, ..pair[1].clone() });
            }
        }
        all.extend(events.last().cloned());
        all
    });
    let requests = |trace: &Trace| {
        let replay = Replay::prepare(trace, &mut |_| {}).unwrap();
        let outcome = replay.run(&replay.kernel_rules(), Level::Input, &mut |_| {}).unwrap();
        (outcome.borrowed.drain_requests, outcome.moves.totals(|_| true))
    };
    assert!(inserted.get() > 20, "{} drains", inserted.get());
    assert_eq!(requests(&interrupted), requests(&trace));
}
