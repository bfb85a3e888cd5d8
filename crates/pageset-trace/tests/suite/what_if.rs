//! Replays of machines that differ from the recorded one.

use std::fs;
use std::path::PathBuf;

use pageset_trace::Trace;
use pageset_trace::replay::what_if::DEFAULT_WATERMARK_SCALE;
use pageset_trace::replay::{Level, Outcome, Replay, WhatIf};

fn recording(name: &str) -> Trace {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/lab");
    Trace::open(&folder.join(format!("{name}.pstrace"))).unwrap()
}

fn outcome(replay: &Replay<'_>, what_if: WhatIf) -> Outcome {
    replay.run_if(&replay.kernel_rules(), Level::Reconstructed, what_if, &mut |_| {}).unwrap()
}

/// The watermarks of the lab's recordings follow from the default scale. The replay with calculated watermarks and
/// bounds is that with recorded ones.
#[test]
fn the_scale_in_force_changes_nothing() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/lab");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut compared = 0;
    for name in files.filter_map(|file| Some(file.strip_suffix(".pstrace")?.to_owned())) {
        let trace = recording(&name);
        let replay = Replay::prepare(&trace, &mut |_| {}).unwrap();
        let has_fraction = trace.facts().high_fraction.is_some_and(|fraction| fraction > 0);
        match replay.watermark_scale() {
            Ok(scale) => assert_eq!(scale, DEFAULT_WATERMARK_SCALE, "{name}"),
            Err(why) => {
                assert!(has_fraction || why == "before 5.14, pagesets do not depend on watermarks", "{name}: {why}");
                continue;
            }
        }
        let [recorded, calculated] = [WhatIf::AsRecorded, WhatIf::WatermarkScale(DEFAULT_WATERMARK_SCALE)]
            .map(|what_if| outcome(&replay, what_if))
            .map(|outcome| (outcome.zone_lock_acquisitions, outcome.held_pages_max, outcome.below_min));
        assert_eq!(recorded, calculated, "{name}");
        compared += 1;
    }
    assert!(compared >= 60, "{compared}");
}

#[test]
fn a_larger_scale_raises_the_bounds() {
    let trace = recording("6.1-amd64.4cpu.unix1");
    let replay = Replay::prepare(&trace, &mut |_| {}).unwrap();
    let [recorded, scaled] = [10, 1000].map(|scale| outcome(&replay, WhatIf::WatermarkScale(scale)));
    assert!(10 * scaled.zone_lock_acquisitions < recorded.zone_lock_acquisitions, "{}", scaled.held_pages_max);
    assert!(scaled.held_pages_max > recorded.held_pages_max, "{}", scaled.held_pages_max);
    // Reclaim would free memory for such watermarks, which no event shows.
    let trace = recording("6.18-amd64.4cpu-full.press");
    let replay = Replay::prepare(&trace, &mut |_| {}).unwrap();
    assert_eq!(replay.check_watermark_scale(200), Ok(()));
    let why = replay.check_watermark_scale(1000).unwrap_err();
    assert!(why.starts_with("zone DMA32 of node 0 would have less free memory"), "{why}");
}

/// Without pages that travel, pagesets serve the stream.
#[test]
fn local_frees_take_no_locks() {
    let trace = recording("6.18-amd64.4cpu.unix1");
    let replay = Replay::prepare(&trace, &mut |_| {}).unwrap();
    let [recorded, local] = [WhatIf::AsRecorded, WhatIf::LocalFrees].map(|what_if| outcome(&replay, what_if));
    assert_eq!((local.operations, local.failed, local.refused_frees), (recorded.operations, 0, 0));
    assert!(100 * local.zone_lock_acquisitions < recorded.zone_lock_acquisitions, "{}", local.zone_lock_acquisitions);
}
