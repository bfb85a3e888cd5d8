//! Pages of the size that the core was built with: 4, 16 or 64 KiB. `ci/page-sizes.sh` runs these tests with each.

use pageset::Pfn;
use pageset::policy::presets::{LINUX_4_17, LINUX_6_18};

use super::*;
use crate::machine::find;

/// page_fault1 on 8 CPUs.
fn run(tuning: Tuning, workload: &str) -> Outcome {
    let machine = find("lkp-hsw-d01").unwrap().unwrap();
    let run = Run {
        workload: Workload::find(workload).unwrap(),
        machine: &machine,
        tuning,
        era: Era::Linux6_10,
        high_fraction: 0,
        tasks: 8,
        warm_up: Time::from_seconds(0.02),
        time: Time::from_seconds(0.05),
        detect_warm_up: false,
        precision_pct: None,
        whole: true,
        seed: 1,
    };
    run.run(|| true).unwrap()
}

#[test]
fn memory_caches_and_tables_follow_the_page_size() {
    let machine = find("lkp-hsw-d01").unwrap().unwrap();
    let bytes = machine.cited.memory_gib.get() << 30;
    assert_eq!(machine.node_pages() * Pfn::PAGE_BYTES, bytes);
    let slice = machine.cache_slice_pages() * Pfn::PAGE_BYTES;
    assert!(slice.abs_diff(machine.cited.llc_kib.get() * 1024 / 8) < Pfn::PAGE_BYTES);
    // A region of 128 MiB has a page-table page for each 512 pages of 4 KiB, 2,048 of 16 KiB, 8,192 of 64 KiB; and a gather page
    // for two pages less.
    let outcome = run(LINUX_4_17, "page_fault1");
    let others = outcome.moved.allocated as f64 / outcome.operations[0] as f64 - 1.0;
    let (region, entries) = ((128 << 20) / Pfn::PAGE_BYTES, Pfn::PAGE_BYTES / 8);
    let expected = (region.div_ceil(entries) + (region - 8).div_ceil(entries - 2)) as f64 / region as f64;
    assert!((0.7 * expected..1.5 * expected).contains(&others), "{others} other pages a page, {expected} expected");
}

#[test]
fn bytes_a_second_grow_with_the_page_and_memory_limits_them() {
    for tuning in [LINUX_4_17, LINUX_6_18] {
        let outcome = run(tuning, "page_fault1");
        let gb_a_second = outcome.score() * Pfn::PAGE_BYTES as f64 / 1e9;
        // The memory of this machine takes 20.5 GB a second. With pages of 4 KiB, other work of a fault leaves a fourth of that.
        let allowed = match Pfn::PAGE_BYTES {
            4096 => 14.0..17.0,
            _ => 17.0..21.0,
        };
        assert!(allowed.contains(&gb_a_second), "{gb_a_second} GB a second with pages of {} bytes", Pfn::PAGE_BYTES);
    }
}
