//! A corpus of small recordings of the lab, of every kernel and machine: each is replayed with the strict limits, at both
//! levels, and its kernel's rules are found again by its traffic.
//!
//! `traces/lab/README.md` says how the recordings were made and chosen.

use std::fs;
use std::path::{Path, PathBuf};

use pageset::tuning::Preset;
use pageset_trace::Trace;
use pageset_trace::replay::agreement::{Deviation, deviations};
use pageset_trace::replay::identify::identify;
use pageset_trace::replay::{Level, Replay, RuleSet};

/// Recordings that the corpus must have, so that an empty folder does not pass.
const LEAST: usize = 40;

fn corpus() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/lab");
    let files = fs::read_dir(&folder).unwrap_or_else(|e| panic!("cannot read {}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "pstrace"));
    files.sort();
    assert!(files.len() >= LEAST, "{} recordings; the corpus has at least {LEAST}", files.len());
    files
}

/// What is out of limits when a recording is replayed under these rules.
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

/// The right rules pass, and rules that differ in what the traffic shows fail.
#[test]
fn rules_of_other_times_fail() {
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
    assert!(10 * failed >= 9 * judged, "the rules of another time fail on {failed} of {judged} recordings");
}

#[test]
fn the_traffic_names_its_kernel() {
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
