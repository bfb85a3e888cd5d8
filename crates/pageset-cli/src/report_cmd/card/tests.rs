//! The cards by tables: what each input says, and when there is no verdict.

use std::path::Path;

use pageset_trace::Trace;
use pageset_trace::advise::{Advice, AdviceSet, Trust};
use pageset_trace::measure::{How, Measured, ReplayResult};
use pageset_trace::replay::{Level, Totals};
use serde_json::json;

use super::*;
use crate::rules::Chosen;

/// The result of a shipped recording under two sets of rules.
fn replayed() -> ReplayResult {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sock-q1.events.zst");
    let trace = Trace::open(&path).unwrap();
    let names = ["kernel", "linux-5.18"].map(str::to_owned);
    let chosen = Chosen::parse(&names, &[], true).unwrap();
    let how = How { level: Level::Reconstructed, only: Vec::new() };
    Measured::new(&trace, &chosen, &how, &mut |_| {}).unwrap().result
}

#[test]
fn a_replay_is_judged_against_the_kernels_own_rules() {
    type Change = fn(&mut ReplayResult);
    let cases: [(Change, Kind, Trust, &str); 9] = [
        (|_| {}, Kind::Same, Trust::Fair, "linux-5.18 takes the zone lock no less often"),
        (|result| result.kernel.known = true, Kind::Same, Trust::High, "no less often"),
        (|result| half(result, 0.5), Kind::Differs, Trust::Fair, "takes the zone lock 0.50 times as often"),
        // Less than the noise.
        (|result| half(result, 0.96), Kind::Same, Trust::Fair, "no less often"),
        // A row that lacks memory is no choice.
        (
            |result| {
                half(result, 0.5);
                result.rules[1].failed = 7;
            },
            Kind::Same,
            Trust::Fair,
            "run short of memory",
        ),
        (|result| result.trace.facts.loss = vec![lost()], Kind::Same, Trust::Low, "no less often"),
        // The control is missing, or fails.
        (|result| result.rules.retain(|row| !row.is_kernel), Kind::None, Trust::Low, "No verdict"),
        (|result| result.kernel.totals.refills *= 2, Kind::None, Trust::Low, "No verdict"),
        (|result| result.rules.truncate(1), Kind::Same, Trust::Fair, "The replay follows the kernel"),
    ];
    let result = replayed();
    for (i, (change, kind, trust, text)) in cases.into_iter().enumerate() {
        let mut changed = result.clone();
        change(&mut changed);
        let card = replay::replay(&changed);
        assert_eq!((card.verdict.kind, card.sure.trust), (kind, trust), "{i}: {card:?}");
        assert!(card.verdict.text.contains(text), "{i}: {card:?}");
        assert!(card.figures.iter().all(|figure| figure.value.is_some()), "{i}: {card:?}");
    }
    // Without a verdict no replay's number is shown.
    let mut failed = result.clone();
    failed.kernel.totals.refills *= 2;
    let card = replay::replay(&failed);
    assert!(card.verdict.why.contains("refills differ from the kernel's by -50.0 %"), "{card:?}");
    assert!(card.figures.iter().all(|figure| figure.note == "as recorded"), "{card:?}");
    // Warnings about the recording are in the card.
    assert_eq!(replay::replay(&result).warnings[..result.warnings.len()], result.warnings);
}

fn half(result: &mut ReplayResult, times: f64) {
    let own = result.rules[0].zone_lock_acquisitions_per_1000_operations;
    result.rules[1].zone_lock_acquisitions_per_1000_operations = own * times;
}

fn lost() -> pageset_trace::facts::Loss {
    pageset_trace::facts::Loss { overrun: 5, ..Default::default() }
}

#[test]
fn a_recording_is_judged_by_its_rate() {
    let recorded = |refills, seconds, known, lost| replay::Recorded {
        name: "r".to_owned(),
        kernel: Totals { refills, refill_pages: 63 * refills, drains: 0, drain_pages: 0 },
        seconds,
        cpus: 2,
        operations: 100_000,
        held_max: None,
        kernel_known: known,
        lost_events: lost,
        warnings: Vec::new(),
    };
    for (refills, seconds, known, lost, kind, trust) in [
        (4000, 2.0, true, false, Kind::Differs, Trust::High),
        (3999, 2.0, true, false, Kind::Same, Trust::High),
        (4000, 0.5, true, false, Kind::Differs, Trust::Fair),
        (4000, 2.0, false, false, Kind::Differs, Trust::Fair),
        (4000, 2.0, true, true, Kind::None, Trust::Low),
    ] {
        let card = replay::recording(recorded(refills, seconds, known, lost));
        assert_eq!((card.verdict.kind, card.sure.trust), (kind, trust), "{card:?}");
        assert_eq!(card.figures[1].value, Some(refills as f64 / 100.0));
    }
    let none = replay::Recorded { operations: 0, ..recorded(0, 2.0, true, false) };
    assert_eq!(replay::recording(none).verdict.kind, Kind::None);
}

fn setting(fraction: u32, locks: u64, in_force: bool) -> serde_json::Value {
    json!({
        "setting": fraction.to_string(), "high_fraction": fraction, "in_force": in_force, "operations": 1_000_000,
        "zone_lock_acquisitions": locks, "longest_hold_pages": 63, "moved_pages": 10, "held_pages_max": locks / 10,
        "high_order_pages_min": 5120, "short": 0
    })
}

fn advice(basis: &str, fraction: Option<u32>, trust: &str) -> Advice {
    serde_json::from_value(json!({
        "schema": "pageset.advise/1", "trace": "t", "duration_ns": 2_000_000_000_u64, "operations": 1_000_000,
        "kernel": {"release": null, "rules": "linux-6.18", "known": false, "disagreement": null, "high_fraction": 0},
        "cpus": 2, "managed_pages": 1_000_000, "gain": null, "price": null,
        "verdict": {"basis": basis, "high_fraction": fraction, "why": "it is so"},
        "sure": {"trust": trust, "reasons": ["a reason"]},
        "high_orders": {"begin_pages": null, "kernel_end_pages": null, "replay_end_pages": null},
        "settings": [setting(0, 40_000, true), setting(8, 10_000, false)], "other_kernels": [],
        "patterns": {
            "followed_pages": 0, "travelling_pct": 0.0, "bursts": 0, "burst_pct": 0.0, "burst_pages_max": 0,
            "high_order_pct": 0.0, "high_order_drains": 0, "hoarder": null
        },
        "named_patterns": []
    }))
    .unwrap()
}

#[test]
fn an_advice_has_the_numbers_of_its_setting() {
    for (basis, fraction, kind, text, first, note) in [
        ("gain", Some(8), Kind::Differs, "Set vm.percpu_pagelist_high_fraction = 8", 10.0, "now: 40, 0.25 times"),
        ("no-gain", None, Kind::Same, "Change nothing", 40.0, "in force"),
        ("not-felt", None, Kind::Same, "Change nothing", 40.0, "in force"),
        // The numbers are those of the recording.
        ("control-failed", None, Kind::None, "No verdict", 1_000_000.0, ""),
    ] {
        let card = advise::advise(&advice(basis, fraction, "low"));
        let figure = &card.figures[0];
        assert_eq!((card.verdict.kind, card.verdict.text.as_str()), (kind, text));
        assert_eq!((figure.value, figure.note.as_str()), (Some(first), note), "{basis}");
        assert_eq!((card.sure.trust, card.verdict.why.as_str()), (Trust::Low, "It is so"));
        assert!(card.warnings[0].contains("does not name its kernel"), "{card:?}");
    }
}

/// Two recordings of one name, one of which is left out: the verdict says its gain and price.
#[test]
fn a_joint_verdict_has_its_price() {
    let set: AdviceSet = serde_json::from_value(json!({
        "schema": "pageset.advise-set/1", "left_out": ["t"], "gain": "fewer locks", "price": "more pages",
        "verdict": {"basis": "gain", "high_fraction": 8, "why": "it is so"},
        "recordings": [advice("control-failed", None, "low"), advice("gain", Some(8), "high")]
    }))
    .unwrap();
    let card = advise::joint(&set);
    assert_eq!(card.verdict.why, "It is so. Gain: fewer locks. Price: more pages");
    assert_eq!((card.figures[0].value, card.sure.trust), (Some(1.0), Trust::High));
    let older = AdviceSet { gain: None, price: None, ..set };
    assert_eq!(advise::joint(&older).verdict.why, "It is so");
}

#[test]
fn looks_without_waits_have_no_verdict() {
    let looks = |looks, moved, wait| looks::Looks {
        looks,
        seconds: 10.0,
        managed: 1000.0,
        held_max: 50.0,
        pages_per_s_max: moved,
        wait_pct_max: wait,
        missing: vec!["m".to_owned()],
    };
    for (seen, kind, trust) in [
        (looks(20, Some(5.0), Some((1.5, 3))), Kind::Differs, Trust::High),
        (looks(20, Some(5.0), Some((0.9, 3))), Kind::Same, Trust::High),
        (looks(5, Some(5.0), Some((0.9, 3))), Kind::Same, Trust::Fair),
        (looks(2, Some(5.0), Some((0.9, 3))), Kind::Same, Trust::Low),
        (looks(20, Some(5.0), None), Kind::None, Trust::Low),
        (looks(20, None, None), Kind::None, Trust::Low),
    ] {
        let card = looks::looks(&seen);
        assert_eq!((card.verdict.kind, card.sure.trust), (kind, trust), "{card:?}");
        assert_eq!((card.figures[2].value, &*card.figures[2].note), (Some(50.0), "5 % of the memory"));
        assert_eq!(card.warnings, ["m"]);
    }
}
