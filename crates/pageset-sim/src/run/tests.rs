//! One node that represents all, early ends of measurements, and eras.

use pageset::policy::presets::{LINUX_4_17, LINUX_5_14, LINUX_5_18};

use super::*;
use crate::machine::{Slowdown, find};

fn machine() -> Machine {
    find("lkp-wsm-ep2").unwrap().unwrap()
}

fn run<'m>(machine: &'m Machine, name: &str) -> Run<'m> {
    Run {
        workload: Workload::find(name).unwrap(),
        machine,
        tuning: LINUX_4_17,
        era: Era::Linux4_16,
        high_fraction: 0,
        tasks: machine.topology().cpus(),
        warm_up: Time::from_seconds(0.02),
        time: Time::from_seconds(0.08),
        detect_warm_up: false,
        precision_pct: None,
        whole: true,
        seed: 1,
    }
}

#[test]
fn one_node_represents_two_equal_nodes() {
    let mut machine = machine();
    // With this load, a node that ignores the other's cores has another score.
    machine.shared.transfer_load = Slowdown::try_from(10.0).unwrap();
    for tasks in [24, 12] {
        let two = Run { tasks, ..run(&machine, "page_fault1") };
        let one = Run { whole: false, ..two.clone() };
        let (two, one) = (two.run(|| true).unwrap(), one.run(|| true).unwrap());
        assert_eq!((two.zone_locks.len(), two.stands_for, two.tasks), (2, 1, tasks));
        assert_eq!((one.zone_locks.len(), one.stands_for, one.tasks), (1, 2, tasks));
        let share = one.score() / two.score();
        assert!((0.97..1.03).contains(&share), "{tasks} tasks: {share}");
        assert!((one.zone_pct() - two.zone_pct()).abs() < 2.0, "{} {}", one.zone_pct(), two.zone_pct());
        let moved = one.moved.from_zone as f64 / two.moved.from_zone as f64;
        assert!((0.9..1.1).contains(&moved), "{moved}");
    }
}

/// What was measured before a restart counts nowhere.
#[test]
fn a_discarded_measurement_leaves_no_durations() {
    let machine = find("lkp-sb02").unwrap().unwrap();
    let run = Run {
        detect_warm_up: true,
        precision_pct: Some(0.05),
        warm_up: Time::from_seconds(0.02),
        time: Time::from_seconds(0.1),
        ..run(&machine, "page_fault1-threads")
    };
    let outcome = run.run(|| true).unwrap();
    let begin = outcome.steadiness.unwrap().warm_up;
    assert!(begin > run.warm_up, "the measurement began anew: {begin:?}");
    assert!(outcome.alloc_times.len() > 100, "{} requests", outcome.alloc_times.len());
    // A run whose warm-up is given from the start.
    let given = Run { detect_warm_up: false, precision_pct: None, warm_up: begin, time: outcome.time, ..run };
    let given = given.run(|| true).unwrap();
    assert_eq!((&outcome.alloc_times, outcome.operations), (&given.alloc_times, given.operations));
}

#[test]
fn all_nodes_are_simulated_unless_they_are_equal() {
    let machine = machine();
    let nodes = |run: Run<'_>| run.one_node().map(|(_, nodes)| nodes);
    let one = Run { whole: false, ..run(&machine, "page_fault1") };
    assert_eq!(nodes(one.clone()), Some(2));
    assert_eq!(nodes(Run { tasks: 23, ..one.clone() }), None, "the nodes have different numbers of tasks");
    assert_eq!(nodes(Run { whole: true, ..one }), None);
    for shared in ["page_fault1-threads", "malloc1", "sctp-stream-many", "kbuild", "thp-mix"] {
        assert_eq!(nodes(Run { whole: false, ..run(&machine, shared) }), None, "{shared}");
    }
    let desktop = find("lkp-skl-d01").unwrap().unwrap();
    assert_eq!(nodes(Run { whole: false, ..run(&desktop, "page_fault1") }), None, "the machine has only one node");
}

#[test]
fn a_single_node_has_the_watermarks_of_the_whole_machine() {
    let machine = machine();
    let low = |machine: &Machine, reserve_kib| {
        let sim = SimMachine::new(Rc::new(engine_of(machine)), machine, 1).unwrap();
        let ranges = sim.map.ranges();
        let zones = sim.map.zones(&ranges);
        let nodes = vec![NodeId(0); 1];
        let config = Config {
            tuning: LINUX_5_18,
            watermarks: WatermarkRule { min_free_kbytes: reserve_kib, ..WatermarkRule::default() },
            ..Config::new(&zones, &nodes)
        };
        let metadata = OwnedMetadata::new(&config).unwrap();
        let mut zones = metadata.zones();
        let allocator = Allocator::new(sim, &config, metadata.lend(&mut zones)).unwrap();
        allocator.zone(0).unwrap().stats().watermarks
    };
    let one = run(&machine, "page_fault1");
    let (node, nodes) = Run { whole: false, ..one.clone() }.one_node().unwrap();
    assert_eq!(low(&machine, None), low(&node, Some(one.reserve_kib() / u64::from(nodes))));
}

fn engine_of(machine: &Machine) -> Engine {
    let locks = os::locks(machine, Era::Linux5_11, crate::os::Needs::NOTHING, 1);
    Engine::new(machine.engine_config(1), &locks)
}

#[test]
fn windows_change_only_the_end_of_a_measurement() {
    let machine = machine();
    // Windows are whole picoseconds.
    let all = Run { time: Time::from_seconds(0.072), ..run(&machine, "page_fault1") };
    let never = Run { precision_pct: Some(0.0), ..all.clone() }.run(|| true).unwrap();
    let at_once = Run { precision_pct: Some(1000.0), ..all.clone() }.run(|| true).unwrap();
    let a_sixth = Run { time: Time::from_seconds(0.012), ..all.clone() }.run(|| true).unwrap();
    let all = all.run(|| true).unwrap();
    let figures = |outcome: &Outcome| {
        let waits =
            outcome.zone_locks.iter().chain(&outcome.lru_locks).map(crate::engine::LockStats::wait).sum::<Time>();
        (outcome.operations, outcome.moved, outcome.lines, outcome.time, outcome.busy, waits)
    };
    assert_eq!(figures(&never), figures(&all));
    assert_eq!(figures(&at_once), figures(&a_sixth));
}

#[test]
fn rules_do_not_change_the_era() {
    let machine = machine();
    let base = Run {
        tuning: LINUX_5_14,
        era: Era::Linux5_11,
        tasks: 4,
        time: Time::from_seconds(0.01),
        ..run(&machine, "kbuild")
    };
    // The facts of an era: LRU locks of memory groups, pages per hold of an LRU lock, pages of the cache slice.
    let facts = |run: &Run<'_>| {
        let outcome = run.run(|| true).unwrap();
        let holds: u64 = outcome.lru_locks.iter().map(|lock| lock.paths[0].holds).sum();
        let pages_a_hold = outcome.operations[0] as f64 / holds as f64;
        (outcome.lru_locks.len(), pages_a_hold.round(), run.cache_slice_pages())
    };
    let of_base = facts(&base);
    for tuning in [
        Tuning { type_at_drain: !base.tuning.type_at_drain, ..base.tuning },
        Tuning { scale_drain: !base.tuning.scale_drain, ..base.tuning },
        Tuning { cache_slice_batches: base.tuning.cache_slice_batches + 1, ..base.tuning },
    ] {
        assert_eq!(facts(&Run { tuning, ..base.clone() }), of_base, "{tuning:?}");
    }
    for era in [Era::Linux4_16, Era::Posted, Era::Linux6_10] {
        assert_ne!(facts(&Run { era, ..base.clone() }), of_base, "{era}");
    }
}
