//! The cards by tables: what each input says, and when there is no verdict.

use std::path::Path;

use pageset_trace::Trace;
use pageset_trace::advise::{Advice, AdviceSet};
use pageset_trace::measure::{How, Measured, ReplayResult};
use pageset_trace::replay::Level;
use pageset_trace::verdict::Trust;
use pageset_trace::verdict::machine::{Numbers, Wait, judge};
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
    let cases: [(Change, Kind, Trust, &str); 10] = [
        (|_| {}, Kind::Same, Trust::Fair, "linux-6.18 takes the zone lock least"),
        (|result| result.kernel.known = true, Kind::Same, Trust::Fair, "linux-6.18 takes the zone lock least"),
        (|result| half(result, 0.5), Kind::Differs, Trust::Fair, "linux-5.18 takes the zone lock least"),
        // Less than the noise.
        (|result| half(result, 0.96), Kind::Same, Trust::Fair, "the rules do not differ"),
        // A row that lacks memory is no choice.
        (
            |result| {
                half(result, 0.5);
                result.rules[1].failed = 7;
            },
            Kind::Same,
            Trust::Fair,
            "linux-6.18 takes the zone lock",
        ),
        (|result| result.trace.facts.loss = vec![lost()], Kind::Same, Trust::Low, "linux-6.18 takes the zone lock"),
        // The control is missing, or fails.
        (|result| result.rules.retain(|row| !row.is_kernel), Kind::None, Trust::Low, "No verdict"),
        (|result| result.kernel.totals.refills *= 2, Kind::None, Trust::Low, "No verdict"),
        (|result| result.rules.truncate(1), Kind::Same, Trust::Fair, "linux-6.18 takes the zone lock 31"),
        // Longer than any load would take: nothing can be felt.
        (|result| result.trace.duration_ns *= 100, Kind::Same, Trust::High, "Change nothing"),
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
    // The numbers are those of the winner, which are the kernel's own here.
    let card = replay::replay(&result);
    let own = &result.rules[0];
    assert_eq!(card.figures[1].value, Some(own.held_pages_max as f64));
    assert!(
        card.figures[0].name.ends_with(", linux-6.18") && card.figures[0].note.starts_with("linux-5.18: "),
        "{card:?}"
    );
    // Warnings about the recording are in the card.
    let shared: Vec<String> = result.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(card.warnings[..shared.len()], shared);
}

fn half(result: &mut ReplayResult, times: f64) {
    let own = result.rules[0].zone_lock_acquisitions_per_1000_operations;
    result.rules[1].zone_lock_acquisitions_per_1000_operations = own * times;
}

fn lost() -> pageset_trace::facts::Loss {
    pageset_trace::facts::Loss { overrun: 5, ..Default::default() }
}

fn setting(fraction: u32, locks: u64, in_force: bool) -> serde_json::Value {
    json!({
        "setting": fraction.to_string(), "high_fraction": fraction, "in_force": in_force, "operations": 1_000_000,
        "zone_lock_acquisitions": locks, "zone_lock_acquisitions_per_1000_operations": locks as f64 / 1000.0,
        "zone_lock_acquisitions_per_s": locks / 2, "longest_hold_pages": 63, "moved_pages": 10, "held_pages_max": locks / 10,
        "high_order_pages_min": 5120, "huge_pages_free": 10, "short": 0
    })
}

fn advice(basis: &str, fraction: Option<u32>, trust: &str) -> Advice {
    serde_json::from_value(json!({
        "schema": "pageset.advise/1", "trace": "t", "duration_ns": 2_000_000_000_u64, "operations": 1_000_000,
        "kernel": {"release": null, "rules": "linux-6.18", "known": false, "disagreement": null, "high_fraction": 0},
        "cpus": 2, "managed_pages": 1_000_000, "gain": null, "price": null,
        "verdict": {"basis": basis, "high_fraction": fraction, "why": "it is so"},
        "sure": {"trust": trust, "reasons": [{"name": "control-follows", "text": "a reason"}]},
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
    let sysctl = Some("sudo sysctl -w vm.percpu_pagelist_high_fraction=8");
    let again = Some("sudo pageset record --empty-lists -o again.pstrace -- COMMAND");
    for (basis, fraction, kind, text, first, note, next) in [
        (
            "gain",
            Some(8),
            Kind::Differs,
            "Set vm.percpu_pagelist_high_fraction = 8",
            10.0,
            "now: 40, 0.25 times",
            sysctl,
        ),
        ("no-gain", None, Kind::Same, "Change nothing", 40.0, "in force", None),
        ("not-felt", None, Kind::Same, "Change nothing", 40.0, "in force", Some("sudo pageset top")),
        // The numbers are those of the recording.
        ("control-failed", None, Kind::None, "No verdict", 1_000_000.0, "", again),
    ] {
        let card = advise::advise(&advice(basis, fraction, "low"), None);
        let figure = &card.figures[0];
        assert_eq!((card.verdict.kind, card.verdict.text.as_str()), (kind, text));
        assert_eq!((figure.value, figure.note.as_str()), (Some(first), note), "{basis}");
        assert_eq!((card.sure.trust, card.verdict.why.as_str()), (Trust::Low, "It is so"));
        assert!(card.warnings[0].contains("does not name its kernel"), "{card:?}");
        assert_eq!(card.next.as_deref(), next, "{basis}");
    }
}

/// Locks are rare by the kernel's own events, and the replay misses the kernel: the verdict stands, its rows say nothing.
#[test]
fn an_advice_whose_replay_fails_has_no_numbers_of_it() {
    let mut rare = advice("not-felt", None, "high");
    rare.sure.reasons[0].name = pageset_trace::verdict::Cause::ControlFails;
    rare.sure.reasons[0].text = "but compare no rows: it is so".to_owned();
    let card = advise::advise(&rare, None);
    assert_eq!((card.verdict.text.as_str(), card.sure.trust), ("Change nothing", Trust::High));
    assert!(card.sure.reasons[0].contains("but compare no rows: "), "{card:?}");
    assert!(card.figures.iter().all(|figure| figure.name != "zone-lock holds"), "{card:?}");
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

/// The limits are those of `top`.
#[test]
fn looks_are_judged_as_top_does() {
    let found = |moved: Option<f64>, wait: Option<f64>| {
        let waits = |percent| vec![Wait { cpu: 3, percent, mostly: "to refill" }];
        let moves = moved.map(|pages| (3, pages / 63.0));
        let numbers = Numbers { moves, counted: moves.is_some(), two_looks: true, ..Numbers::default() };
        judge(&Numbers { waits: wait.map(waits), ..numbers }).remove(0)
    };
    let looks = |looks, moved: Option<f64>, wait: Option<f64>| {
        let calm = looks::Looks { looks, seconds: 10.0, managed: 1000.0, held_max: 50.0, ..looks::Looks::default() };
        let missing = vec!["m".to_owned()];
        let mut seen = looks::Looks { pages_per_s_max: moved, wait_max: wait, missing, ..calm };
        // The worst look decides, wherever it comes.
        [found(moved.map(|_| 1.0), wait.map(|_| 0.1)), found(moved, wait), found(None, None)]
            .into_iter()
            .for_each(|finding| seen.judged(finding));
        seen
    };
    let advise = Some("sudo pageset advise --live 5");
    for (seen, kind, trust, text, next) in [
        (looks(20, Some(630.0), Some(5.5)), Kind::Differs, Trust::High, "CPU 3 waits 6 % of its time", advise),
        (looks(20, Some(630.0), Some(4.9)), Kind::Same, Trust::High, "Healthy: 10 moves a second of 1,000", None),
        (looks(5, Some(630.0), Some(0.9)), Kind::Same, Trust::Fair, "Healthy", None),
        (looks(2, Some(630.0), Some(0.9)), Kind::Same, Trust::Low, "Healthy", None),
        // Without waits the moves decide, and without both nothing does.
        (looks(20, Some(63_000.0), None), Kind::Differs, Trust::Fair, "CPU 3 moves 1,000 batches a second", advise),
        (looks(20, None, None), Kind::None, Trust::Low, "Memory is not short", Some("sudo pageset top --json -n 20")),
    ] {
        let card = looks::looks(&seen);
        assert_eq!((card.verdict.kind, card.sure.trust, card.next.as_deref()), (kind, trust, next), "{card:?}");
        assert!(card.verdict.text.starts_with(text), "{card:?}");
        assert_eq!((card.figures[2].value, &*card.figures[2].note), (Some(50.0), "5 % of the memory"));
        assert_eq!(card.warnings, ["m"]);
    }
}
