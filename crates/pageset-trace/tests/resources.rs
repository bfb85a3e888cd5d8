//! Threads and memory change the time of replays, not their results.

use std::path::PathBuf;

use pageset_rules::Chosen;
use pageset_trace::advise::Advice;
use pageset_trace::measure::identification::Identification;
use pageset_trace::measure::{How, Measured};
use pageset_trace::replay::identify::identify;
use pageset_trace::replay::selection::Only;
use pageset_trace::replay::{Level, Step};
use pageset_trace::{Resources, Trace};

const ENOUGH: u64 = 1 << 40;

fn open(name: &str, resources: Resources) -> Trace {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/lab").join(format!("{name}.pstrace"));
    Trace::open(&path).unwrap().with_resources(resources)
}

/// All results of a recording as JSON, and the steps of their progress other than counts of events.
fn results(name: &str, resources: Resources) -> (Vec<String>, Vec<String>) {
    let trace = open(name, resources);
    let mut steps = Vec::new();
    let mut note = |step: Step<'_>| {
        if !matches!(step, Step::Events(_)) {
            steps.push(format!("{step:?}"));
        }
    };
    let chosen = Chosen::parse(&["all".to_owned()], &[], true).unwrap();
    let how = |only| How { level: Level::Reconstructed, only };
    let all = Measured::new(&trace, &chosen, &how(Vec::new()), &mut note).unwrap().result;
    let only: Vec<Only> = vec!["cpu=0".parse().unwrap()];
    let of_a_cpu = Measured::new(&trace, &chosen, &how(only), &mut note).unwrap().result;
    let advice = Advice::of(&trace, &mut note).unwrap();
    let identified = identify(&trace, &mut |done, of| note(Step::Presets { done, of })).unwrap();
    let identified = serde_json::to_string(&Identification::new(&trace, &identified)).unwrap();
    let json = [all, of_a_cpu].map(|result| serde_json::to_string(&result).unwrap());
    (json.into_iter().chain([serde_json::to_string(&advice).unwrap(), identified]).collect(), steps)
}

/// Hot-plug of memory has events with pages of its own; the other recording is of a machine without it.
#[test]
fn threads_and_memory_change_no_result() {
    for name in ["7.2-amd64.movable.memhp", "6.12-amd64.4cpu.thp"] {
        let serial = results(name, Resources { memory_bytes: ENOUGH, threads: 1 });
        let events = open(name, Resources::default()).totals().unwrap().events;
        for resources in [
            Resources { memory_bytes: ENOUGH, threads: 3 },
            // The last events do not fit, or none: each pass decodes the recording.
            Resources { memory_bytes: 32 * events, threads: 3 },
            Resources { memory_bytes: 1000, threads: 3 },
            Resources { memory_bytes: 0, threads: 0 },
        ] {
            assert!(results(name, resources) == serial, "{name}: {resources:?}");
        }
    }
}
