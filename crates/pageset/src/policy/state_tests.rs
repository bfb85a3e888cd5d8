//! The state machine by tables: each patch's switch, its boundary values, and the presets around it.

extern crate std;

use std::vec;

use super::super::presets::*;
use super::super::{Bounds, PRESETS};
use super::*;

const CALM: Pressure = Pressure { reclaim_active: false, below_high: false };
const RECLAIM: Pressure = Pressure { reclaim_active: true, below_high: false };
const BELOW: Pressure = Pressure { reclaim_active: false, below_high: true };

fn order(order: u8) -> Order {
    Order::new(order).unwrap()
}

/// A pageset of batch 63 without auto-tuning.
fn fixed(count: u32, high: u32) -> PcpState {
    PcpState { count, high, high_min: high, high_max: high, batch: 63, ..PcpState::default() }
}

/// A pageset of batch 63 with auto-tuning between two bounds.
fn tuned(count: u32, high: u32, high_min: u32, high_max: u32) -> PcpState {
    PcpState { count, high, high_min, high_max, batch: 63, ..PcpState::default() }
}

#[test]
fn refills_of_each_order() {
    // 2.4: E1 to E3 take a batch of blocks; from E4 on a batch of pages, at least two blocks. Orders 0 to 3 and 9.
    for (tuning, blocks) in
        [(LINUX_4_16, [63, 63, 63, 63, 63]), (LINUX_5_14, [63, 31, 15, 7, 2]), (LINUX_6_18, [63, 31, 15, 7, 2])]
    {
        for (o, blocks) in [0, 1, 2, 3, 9].into_iter().zip(blocks) {
            assert_eq!(tuning.refill(&mut fixed(0, 630), order(o), CALM), Blocks(blocks), "order {o}");
        }
    }
}

#[test]
fn a_disabled_pageset_moves_one_block_at_a_time() {
    // 2.2, "Boot/disabled PCP", under every set of rules.
    for preset in PRESETS {
        let Bounds { batch, high_min, high_max } = Bounds::DISABLED;
        let mut s = PcpState { batch, high_min, high_max, ..PcpState::default() };
        for o in [0, 1, 3, 9] {
            for pressure in [CALM, RECLAIM, BELOW] {
                assert_eq!(preset.tuning.refill(&mut s, order(o), pressure), Blocks(1), "{}, order {o}", preset.name);
                // Any result from one page on drains the one block of the pageset.
                let drained = preset.tuning.commit(&mut s, order(o), pressure);
                assert!((1..=s.count).contains(&drained), "{}, order {o}: {drained}", preset.name);
                s.count = 0;
            }
        }
        assert_eq!((s.high, s.alloc_factor), (0, 0), "{}", preset.name);
    }
}

#[test]
fn before_5_14_a_batch_goes_at_high() {
    for tuning in [LINUX_4_16, LINUX_4_17, LINUX_4_19] {
        assert_eq!(tuning.commit(&mut fixed(376, 378), order(0), CALM), 0);
        for pressure in [CALM, RECLAIM, BELOW] {
            let mut s = fixed(377, 378);
            assert_eq!(tuning.commit(&mut s, order(0), pressure), 63);
            assert_eq!((s.count, s.free_factor), (378, 0));
        }
    }
}

#[test]
fn drains_grow_below_high_less_a_batch() {
    // 4.0: while x < high - B; 4.7: while x <= high - B; 4.4: at most five times.
    let amounts = |tuning: Tuning, high: u32, times: usize| -> std::vec::Vec<u32> {
        let mut s = fixed(0, high);
        (0..times)
            .map(|_| {
                s.count = high - 1;
                tuning.commit(&mut s, order(0), CALM)
            })
            .collect()
    };
    assert_eq!(amounts(LINUX_5_14, 189, 4), [63, 126, 126, 126]);
    let factor_at_border = |tuning: Tuning| {
        let mut s = PcpState { free_factor: 1, ..fixed(188, 189) };
        assert_eq!(tuning.commit(&mut s, order(0), CALM), 126);
        s.free_factor
    };
    assert_eq!((factor_at_border(SERIES_5), factor_at_border(SERIES_7)), (1, 2));
    assert_eq!(amounts(SERIES_3, 100_000, 9), [63, 126, 252, 504, 1008, 2016, 4032, 8064, 16_128]);
    assert_eq!(amounts(SERIES_4, 100_000, 9), [63, 126, 252, 504, 1008, 2016, 2016, 2016, 2016]);
    // A high below two batches still drains a batch; a high below one batch drains a page.
    assert_eq!((amounts(LINUX_5_18, 100, 2), amounts(LINUX_5_18, 62, 1)), (vec![63, 63], vec![1]));
}

#[test]
fn an_allocation_halves_what_was_freed_in_a_row() {
    let s = PcpState { free_factor: 3, free_count: 100, alloc_factor: 3, ..PcpState::default() };
    for (tuning, free_factor, free_count) in [(LINUX_5_14, 1, 100), (SERIES_9, 1, 100), (LINUX_6_7, 3, 50)] {
        let mut s = s;
        tuning.on_alloc(&mut s);
        assert_eq!((s.free_factor, s.free_count, s.alloc_factor), (free_factor, free_count, 3));
    }
}

#[test]
fn high_order_frees() {
    // Columns: rules, order, state before, whether all is drained, PREV after. 4.0, 4.1, 4.3, 4.10.
    let base = PcpState { free_factor: 1, free_count: 63, ..fixed(100, 1000) };
    let prev = PcpState { prev_high_order: true, ..base };
    let cached = PcpState { large_cache: true, ..prev };
    type Row = (&'static str, Tuning, u8, PcpState, bool, bool);
    let rows: [Row; 21] = [
        ("E4 has no such rule", LINUX_5_14, 1, base, false, false),
        ("order 1", LINUX_5_18, 1, base, true, true),
        ("order 3", LINUX_5_18, 3, base, true, true),
        ("order 0", LINUX_5_18, 0, base, false, false),
        ("a huge page", LINUX_5_18, 9, base, false, false),
        ("nothing freed in a row", LINUX_5_18, 1, PcpState { free_factor: 0, ..base }, false, true),
        ("patch 1: the first", SERIES_1, 1, base, false, true),
        ("patch 1: the second", SERIES_1, 2, prev, true, true),
        ("patch 1: order 0 between", SERIES_1, 0, prev, false, false),
        ("patch 1: a huge page between", SERIES_1, 9, prev, false, false),
        ("patch 1 knows no cache", SERIES_1, 1, PcpState { count: 10, ..cached }, true, true),
        ("patch 3: small cache", SERIES_3, 1, PcpState { count: 10, ..prev }, true, true),
        ("patch 3: less than a batch", SERIES_3, 1, PcpState { count: 60, ..cached }, false, true),
        ("patch 3: a batch with this one", SERIES_3, 1, PcpState { count: 61, ..cached }, true, true),
        ("patch 10: a batch was freed", LINUX_6_7, 1, prev, true, true),
        ("patch 10: not quite", LINUX_6_7, 1, PcpState { free_count: 62, ..prev }, false, true),
        ("patch 10: this block does not count", LINUX_6_7, 3, PcpState { free_count: 62, ..prev }, false, true),
        ("patch 10 knows no factor", LINUX_6_7, 1, PcpState { free_count: 0, ..prev }, false, true),
        ("6.16: half of high_min on top", LINUX_6_16, 1, PcpState { free_count: 563, ..prev }, true, true),
        ("6.16: not quite", LINUX_6_16, 1, PcpState { free_count: 562, ..prev }, false, true),
        ("6.16: the first", LINUX_6_16, 1, PcpState { free_count: 563, ..base }, false, true),
    ];
    for (name, tuning, o, before, all, prev_after) in rows {
        let mut s = before;
        let drained = tuning.commit(&mut s, order(o), CALM);
        assert_eq!(drained, if all { s.count } else { 0 }, "{name}");
        assert_eq!(s.prev_high_order, prev_after, "{name}: the flag");
    }
    // Never, if the count cannot reach the threshold. 4.10, last paragraph.
    let mut s = PcpState { prev_high_order: true, ..tuned(0, 8820, 4410, 34_816) };
    for _ in 0..1000 {
        assert_eq!(LINUX_6_16.commit(&mut s, order(2), CALM), 0);
    }
    assert_eq!(s.free_count, 2016);
}

#[test]
fn the_free_count_ends_a_block_beyond_the_largest_drain() {
    for (free_count, o, after) in [(0, 0, 1), (2015, 3, 2023), (2016, 3, 2016), (2015, 9, 2527), (2527, 0, 2527)] {
        let mut s = PcpState { free_count, ..fixed(0, 100_000) };
        assert_eq!(LINUX_6_18.commit(&mut s, order(o), CALM), 0);
        assert_eq!(s.free_count, after, "{free_count}, order {o}");
    }
}

#[test]
fn refills_grow_with_patch_5() {
    // (count, high, alloc_factor, order) -> (blocks, alloc_factor). 4.5.
    let rows = [
        ((0, 252, 0, 0), (63, 1)),
        // cap = max(252 - 0 - 63, 63) = 189: doubled, then cut.
        ((0, 252, 1, 0), (126, 2)),
        ((0, 252, 2, 0), (189, 2)),
        ((200, 252, 1, 0), (63, 1)),
        ((300, 252, 0, 0), (63, 1)),
        // At most 2016.
        ((0, 100_000, 5, 0), (2016, 5)),
        // Higher orders neither use nor raise it.
        ((0, 252, 3, 1), (31, 3)),
        ((0, 252, 3, 9), (2, 3)),
        // High below a batch.
        ((0, 62, 3, 0), (1, 3)),
    ];
    for ((count, high, alloc_factor, o), (blocks, after)) in rows {
        let mut s = PcpState { alloc_factor, ..fixed(count, high) };
        assert_eq!(SERIES_5.refill(&mut s, order(o), RECLAIM), Blocks(blocks), "{count}, {high}, {alloc_factor}, {o}");
        assert_eq!((s.alloc_factor, s.high), (after, high));
        // Every free halves the factor.
        assert_eq!(SERIES_5.commit(&mut s, order(0), CALM) > 0, count + 1 >= high);
        assert_eq!(s.alloc_factor, after >> 1);
    }
}

#[test]
fn refills_of_blocks_double_where_a_rule_says_so() {
    // Columns: rules, order, batch, count, high, exponent before; blocks, exponent after. 4.5, and this project's
    // `double_blocks`.
    const DOUBLE: Tuning = Tuning { double_blocks: true, ..LINUX_6_18 };
    const EIGHT: Tuning = Tuning { batch_blocks: 8, ..DOUBLE };
    for (tuning, o, batch, count, high, before, blocks, after) in [
        (LINUX_6_18, 3, 63, 0, 100_000, 3, 7, 3),
        (DOUBLE, 3, 63, 0, 100_000, 0, 7, 1),
        (DOUBLE, 3, 63, 0, 100_000, 3, 63, 4),
        // The exponent stops at its cap, and the pages at 2016, as for single pages.
        (DOUBLE, 3, 63, 0, 100_000, 5, 252, 5),
        (DOUBLE, 9, 63, 0, 100_000, 5, 3, 5),
        // Less than a batch of pages: the same as in the kernels.
        (DOUBLE, 9, 63, 0, 100_000, 0, 2, 1),
        // High minus a batch leaves room for 200 pages. A larger refill is cut and leaves the exponent.
        (DOUBLE, 3, 63, 0, 263, 1, 15, 2),
        (DOUBLE, 3, 63, 0, 263, 2, 25, 2),
        (DOUBLE, 3, 63, 5000, 5000, 3, 7, 3),
        // A pageset that takes one block at a time still does so, if a second block would exceed its request.
        (DOUBLE, 9, 1, 0, 240, 0, 1, 1),
        (DOUBLE, 9, 1, 0, 240, 5, 1, 5),
        (DOUBLE, 3, 1, 0, 240, 5, 4, 5),
        // Single pages are not affected.
        (DOUBLE, 0, 63, 0, 100_000, 2, 252, 3),
        // Batches in blocks: 8 at the largest exponent, half as many at the one below it. At most a quarter of high.
        (EIGHT, 9, 63, 0, 100_000, 0, 2, 1),
        (EIGHT, 9, 63, 0, 100_000, 4, 4, 5),
        (EIGHT, 9, 63, 0, 100_000, 5, 8, 5),
        (EIGHT, 9, 63, 0, 10_000, 5, 4, 5),
        (EIGHT, 9, 1, 0, 240, 5, 1, 5),
        // A batch of pages is more blocks of order 3, as is that of single pages.
        (EIGHT, 3, 63, 0, 100_000, 5, 252, 5),
        (EIGHT, 0, 63, 0, 100_000, 2, 252, 3),
        // Blocks have a limit of their own, which leaves the exponent.
        (Tuning { block_scale_max: 2, ..DOUBLE }, 3, 63, 0, 100_000, 2, 31, 3),
        (Tuning { block_scale_max: 2, ..DOUBLE }, 3, 63, 0, 100_000, 5, 31, 5),
        (Tuning { block_scale_max: 2, ..DOUBLE }, 0, 63, 0, 100_000, 5, 2016, 5),
        (Tuning { block_scale_max: 2, ..EIGHT }, 9, 63, 0, 100_000, 5, 8, 5),
        // No more than a share of high, but a batch: here an eighth. The exponent grows all the same.
        (Tuning { high_share: 3, ..DOUBLE }, 0, 63, 0, 1260, 2, 152, 3),
        (Tuning { high_share: 3, ..DOUBLE }, 3, 63, 0, 1260, 2, 19, 3),
        (Tuning { high_share: 3, ..DOUBLE }, 0, 63, 0, 400, 2, 63, 3),
        (Tuning { high_share: 3, ..EIGHT }, 9, 63, 0, 16_000, 5, 3, 5),
        (Tuning { high_share: 1, ..EIGHT }, 9, 63, 0, 10_000, 5, 4, 5),
    ] {
        // The exponent of single pages, and that of blocks: the other one has no effect, and stays.
        let factors = |single, block| if o == 0 { (single, block) } else { (block, single) };
        let (alloc_factor, block_factor) = factors(before, 1);
        let mut s = PcpState { alloc_factor, block_factor, batch, ..fixed(count, high) };
        let got = tuning.refill(&mut s, order(o), CALM);
        let case = (o, batch, count, high, before);
        assert_eq!(
            (got, s.alloc_factor, s.block_factor),
            (Blocks(blocks), factors(after, 1).0, factors(after, 1).1),
            "{case:?}"
        );
    }
    let mut s = PcpState { alloc_factor: 4, block_factor: 3, ..fixed(0, 1000) };
    let _ = DOUBLE.commit(&mut s, order(3), CALM);
    assert_eq!((s.alloc_factor, s.block_factor), (2, 1), "a free halves both");
}

#[test]
fn refills_raise_high_with_patch_7() {
    // (rules, pressure, count, high, alloc_factor, order) -> (blocks, high, alloc_factor). 4.7, 4.8.
    let rows = [
        ((SERIES_7, CALM, 0, 0, 0, 0), (63, 315, 1)),
        ((SERIES_7, CALM, 0, 9999, 0, 0), (63, 4096, 1)),
        ((SERIES_7, CALM, 0, 4000, 2, 0), (252, 4096, 3)),
        ((SERIES_7, CALM, 0, 1000, 3, 2), (15, 1063, 3)),
        // With the raised high: 252 + 252 - 300 - 63 < 252.
        ((SERIES_7, CALM, 300, 252, 2, 0), (141, 504, 2)),
        // SERIES_7: reclaim stops the growth of high. SERIES_8: BELOW_HIGH does instead. The factor grows in both.
        ((SERIES_7, RECLAIM, 0, 1000, 1, 0), (126, 1000, 2)),
        ((SERIES_7, BELOW, 0, 1000, 1, 0), (126, 1126, 2)),
        ((SERIES_8, RECLAIM, 0, 1000, 1, 0), (126, 1126, 2)),
        ((SERIES_8, BELOW, 0, 1000, 1, 0), (126, 1000, 2)),
    ];
    for ((tuning, pressure, count, high, alloc_factor, o), (blocks, high_after, factor_after)) in rows {
        let mut s = PcpState { alloc_factor, ..tuned(count, high, 252, 4096) };
        let got = tuning.refill(&mut s, order(o), pressure);
        assert_eq!((got, s.high, s.alloc_factor), (Blocks(blocks), high_after, factor_after), "{count} of {high}, {o}");
    }
    // Equal bounds: an administrator's high does not move.
    let mut s = PcpState { alloc_factor: 1, ..tuned(0, 0, 1000, 1000) };
    assert_eq!((LINUX_6_18.refill(&mut s, order(0), CALM), s.high), (Blocks(126), 1000));
    // High below a batch: one block, and no growth.
    let mut s = tuned(0, 10, 10, 4096);
    assert_eq!((LINUX_6_18.refill(&mut s, order(0), CALM), s.high, s.alloc_factor), (Blocks(1), 10, 0));
}

#[test]
fn frees_of_6_18_by_the_rows_of_their_table() {
    // 4.11: (name, pressure, state, order) -> (drained, high).
    let at = |count, high, free_count| PcpState { free_count, ..tuned(count, high, 252, 4096) };
    let costly = |count, high, free_count| PcpState { prev_high_order: true, ..at(count, high, free_count) };
    type Row = (&'static str, Pressure, PcpState, u8, u32, u32);
    let none = PcpState { batch: 63, ..PcpState::default() };
    let rows: [Row; 19] = [
        ("a: no high", CALM, none, 0, 1, 0),
        ("b: high orders, at most 2016 fewer", CALM, costly(300, 3000, 189), 1, 302, 984),
        ("b: 2016 at most", CALM, costly(2500, 3000, 189), 1, 2016, 984),
        ("b: not below high_min", CALM, costly(300, 1000, 189), 1, 302, 252),
        ("b before c", RECLAIM, costly(300, 1000, 189), 1, 302, 252),
        ("c: four batches", RECLAIM, at(251, 1000, 100), 0, 101, 899),
        ("c: below them", RECLAIM, at(250, 1000, 100), 0, 0, 899),
        ("c: at least a batch less", RECLAIM, at(250, 1000, 0), 0, 0, 937),
        ("c before e", Pressure { reclaim_active: true, below_high: true }, at(1000, 2000, 500), 0, 189, 1499),
        ("e: from high_min on", BELOW, at(251, 1000, 100), 0, 101, 899),
        ("e: at most a batch stays", BELOW, at(999, 2000, 2000), 0, 937, 252),
        ("e: below high_min", BELOW, at(250, 1000, 0), 0, 0, 937),
        ("f: at high", CALM, at(999, 1000, 100), 0, 101, 1000),
        ("f: a batch at least", CALM, at(999, 1000, 0), 0, 63, 1000),
        ("f: high less a batch at most, and raised", CALM, at(999, 1000, 2000), 0, 937, 2064),
        ("f: raised to high_max", CALM, at(4095, 4096, 2016), 0, 2016, 4096),
        ("g: below high", CALM, at(998, 1000, 2000), 0, 0, 1000),
        ("high is clamped first", CALM, at(10, 0, 0), 0, 0, 252),
        ("from above, too", CALM, at(10, 5000, 0), 0, 0, 4096),
    ];
    for (name, pressure, before, o, drained, high) in rows {
        let mut s = before;
        assert_eq!(LINUX_6_7.commit(&mut s, order(o), pressure), drained, "{name}");
        assert_eq!(s.high, high, "{name}: high");
    }
    // d: equal bounds, whatever BELOW_HIGH says.
    let mut s = PcpState { free_count: 2000, ..tuned(999, 0, 1000, 1000) };
    assert_eq!((LINUX_6_18.commit(&mut s, order(0), BELOW), s.high), (937, 1000));
}

/// A share of the cache of 0 batches is always large, and up to the largest batch of blocks stays, or what the lower bound of high allows.
#[test]
fn without_a_bound_of_the_cache_frees_of_order_3_drain_by_the_largest_batch() {
    let first_drain_of = |batch, high_min, tuning: Tuning| {
        let large_cache = tuning.large_cache(190, batch);
        let mut s = PcpState { batch, large_cache, ..tuned(0, 5000, high_min, 5000) };
        (1..1000).find_map(|frees| Some((frees, tuning.commit(&mut s, order(3), CALM))).filter(|drained| drained.1 > 0))
    };
    let first_drain = |tuning| first_drain_of(63, 0, tuning);
    assert_eq!(first_drain(LINUX_6_18), Some((9, 72)), "a batch was freed before this block");
    assert_eq!(first_drain(Tuning { cache_slice_batches: 0, ..LINUX_6_18 }), Some((260, 2016)));
    assert_eq!(first_drain(PAGESET), Some((40, 320)), "by the largest batch of blocks, and one more");
    let half = Tuning { cache_slice_batches: 0, block_scale_max: 4, ..LINUX_6_18 };
    assert_eq!(first_drain(half), Some((134, 1072)));
    // A zone of 96 MiB and one CPU: 391 pages stay, and the next block drains with seven others.
    assert_eq!(first_drain_of(7, 391, PAGESET), Some((49, 56)), "by the lower bound of high");
    assert_eq!(first_drain_of(7, 391, LINUX_6_18), Some((27, 216)), "by half of it, freed in a row");
}

/// Where no drain is larger than 504 pages or blocks, frees in a row make no more room.
#[test]
fn frees_in_a_row_raise_high_by_the_largest_drain() {
    for (tuning, order_of_frees, high) in [(LINUX_6_18, 0, 2079), (PAGESET, 0, 567), (PAGESET, 4, 2079)] {
        let mut s = PcpState { free_count: 2016, ..tuned(499, 500, 252, 50_000) };
        let drained = tuning.commit(&mut s, order(order_of_frees), CALM);
        assert_eq!((drained, s.high), (437, high), "order {order_of_frees}");
    }
}

/// Pages freed in a row count up to 2016, as in the kernels, although no drain is larger than 504: so the threshold of 6.16 is within
/// reach for the same bounds.
#[test]
fn smaller_drains_leave_the_threshold_of_6_16_within_reach() {
    let drains = |tuning: Tuning, high_min: u32| {
        let mut s = PcpState { batch: 63, large_cache: true, ..tuned(0, 50_000, high_min, 50_000) };
        (0..1000).any(|_| tuning.commit(&mut s, order(3), CALM) > 0)
    };
    for (high_min, reached) in [(882, true), (3900, true), (4000, false)] {
        assert_eq!([LINUX_6_18, PAGESET].map(|tuning| drains(tuning, high_min)), [reached; 2], "{high_min}");
    }
    // A drain of single pages is not larger for it, and one of huge pages as large as in the kernels.
    let drained = |tuning: Tuning, o: u8| {
        let mut s = PcpState { free_count: 2000, ..tuned(80_000, 80_000, 80_000, 80_000) };
        tuning.commit(&mut s, order(o), CALM)
    };
    assert_eq!([LINUX_6_18, PAGESET].map(|tuning| drained(tuning, 0)), [2001, 504]);
    assert_eq!([LINUX_6_18, PAGESET].map(|tuning| drained(tuning, 9)), [2512, 8192]);
    assert_eq!(drained(Tuning { batch_blocks: 0, ..PAGESET }, 9), 2512);
}

/// Two huge pages raise `high` by a batch in the kernels, and sixteen by eight here.
#[test]
fn refills_of_large_blocks_raise_high_as_the_kernels_do() {
    let raised = |tuning: Tuning, o: u8, factor: u8| {
        let mut s = PcpState { alloc_factor: factor, block_factor: factor, ..tuned(0, 80_000, 1000, 100_000) };
        (tuning.refill(&mut s, order(o), CALM).0, s.high - 80_000)
    };
    assert_eq!(raised(LINUX_6_18, 9, 5), (2, 63));
    assert_eq!([0, 2, 3].map(|factor| raised(PAGESET, 9, factor)), [(2, 63), (8, 252), (16, 504)]);
    // As many pages as the refill has, where those are fewer than the batches of several refills.
    assert_eq!([0, 1, 2, 3].map(|factor| raised(PAGESET, 3, factor)), [(7, 63), (15, 126), (31, 252), (31, 252)]);
    assert_eq!([0, 3].map(|factor| raised(PAGESET, 0, factor)), [(63, 63), (504, 504)]);
}

#[test]
fn large_blocks_drain_by_the_batch() {
    // This project's `batch_blocks`: eight blocks, up to a quarter of the limit. Columns: rules, order, count, high; drained.
    const EIGHT: Tuning = Tuning { double_blocks: true, batch_blocks: 8, ..LINUX_6_18 };
    for (tuning, o, count, high, drained) in [
        (LINUX_6_18, 9, 9600, 10_000, 512),
        (EIGHT, 9, 19_600, 20_000, 4096),
        (EIGHT, 9, 9600, 10_000, 2500),
        (EIGHT, 4, 9990, 10_000, 128),
        (EIGHT, 2, 9999, 10_000, 63),
        (EIGHT, 0, 9999, 10_000, 63),
        (EIGHT, 9, 0, 100, 63),
        (Tuning { high_share: 3, ..EIGHT }, 9, 9600, 10_000, 1250),
    ] {
        let mut s = tuned(count, high, high, high);
        assert_eq!(tuning.commit(&mut s, order(o), CALM), drained, "{o}, {count}, {high}");
    }
    let mut s = PcpState { free_count: 5000, ..tuned(9600, 10_000, 10_000, 10_000) };
    assert_eq!(EIGHT.commit(&mut s, order(9), CALM), 5000, "more where more were freed in a row");
}

/// 2.2, [`Tuning::kept_fraction`]: the larger of the largest refill of single pages and a batch of blocks, at most half of `high_max`.
#[test]
fn the_room_that_a_refill_should_find() {
    // Columns: rules, batch, high_max, order; pages. PAGESET: eight batches of pages, sixteen blocks.
    for (tuning, batch, high_max, o, room) in [
        (LINUX_6_18, 63, 10_000, 0, 0),
        (Tuning { kept_fraction: 0, ..PAGESET }, 63, 10_000, 9, 0),
        (PAGESET, 63, 10_000, 0, 504),
        (PAGESET, 63, 10_000, 4, 504),
        (PAGESET, 63, 10_000, 5, 512),
        (PAGESET, 1, 10_000, 0, 16),
        (PAGESET, 7, 10_000, 0, 56),
        (PAGESET, 7, 10_000, 1, 56),
        (PAGESET, 7, 10_000, 2, 64),
        (PAGESET, 63, 20_000, 9, 8192),
        (PAGESET, 63, 16_383, 9, 8191),
        (PAGESET, 63, 1007, 0, 503),
        (PAGESET, 63, 1, 9, 0),
    ] {
        let s = PcpState { batch, ..tuned(0, 0, 0, high_max) };
        assert_eq!(tuning.refill_room(&s, order(o)), room, "batch {batch}, high_max {high_max}, order {o}");
    }
}

#[test]
fn before_patch_10_the_factor_stands_for_the_count() {
    // 4.7 steps 3 and 4, 4.8: R = B << free_factor, need = R + B.
    let at = |count, high, free_factor| PcpState { free_factor, ..tuned(count, high, 252, 4096) };
    for (tuning, pressure, before, drained, high) in [
        (SERIES_7, RECLAIM, at(251, 1000, 2), 189, 748),
        (SERIES_8, BELOW, at(251, 1000, 2), 189, 748),
        (SERIES_7, BELOW, at(251, 1000, 2), 0, 1000),
        (SERIES_7, CALM, at(251, 252, 2), 189, 315),
        (SERIES_7, CALM, at(4095, 4096, 5), 2016, 4096),
    ] {
        let mut s = before;
        assert_eq!((tuning.commit(&mut s, order(0), pressure), s.high), (drained, high), "{before:?}");
    }
}

#[test]
fn patch_10_as_posted_shrinks_by_the_count_alone() {
    // 4.10: R = free_count, where the merged form has max(free_count, B). 4.7 step 3, 4.8.
    for pressure in [RECLAIM, BELOW] {
        for (free_count, merged, posted) in [(0, 937, 999), (61, 937, 938), (62, 937, 937), (100, 899, 899)] {
            for (tuning, high) in [(LINUX_6_7, merged), (POSTED_10, posted)] {
                // The count includes the free itself.
                let mut s = PcpState { free_count, ..tuned(100, 1000, 252, 4096) };
                assert_eq!(tuning.commit(&mut s, order(0), pressure), 0);
                assert_eq!(s.high, high, "{free_count}, {pressure:?}");
            }
        }
    }
}

#[test]
fn reclaim_leaves_four_batches_from_5_14_on() {
    // 4.0: N = 63..189, as the limit is 252.
    for tuning in [LINUX_5_14, LINUX_5_18, SERIES_5] {
        let mut s = fixed(250, 1548);
        assert_eq!(tuning.commit(&mut s, order(0), RECLAIM), 0);
        for (drained, factor) in [(63, 1), (126, 2), (189, 2)] {
            s.count = 251;
            assert_eq!((tuning.commit(&mut s, order(0), RECLAIM), s.free_factor), (drained, factor));
        }
        assert_eq!(s.high, 1548);
        let mut small = fixed(99, 100);
        assert_eq!(tuning.commit(&mut small, order(0), RECLAIM), 63, "a high below four batches stays");
    }
}

#[test]
fn decay() {
    // (rules, count, high, count_min) -> (high, drained, more). 4.7, 4.9; bounds 252..65536.
    let rows = [
        ((LINUX_6_18, 0, 1000, 0), (875, 0, true)),
        ((LINUX_6_18, 0, 260, 0), (252, 0, false)),
        ((LINUX_6_18, 300, 252, 0), (252, 48, true)),
        ((LINUX_6_18, 100, 252, 0), (252, 0, false)),
        ((LINUX_6_18, 900, 1000, 0), (875, 25, true)),
        // High moves to within 2016 pages of the count, which may raise it; a tick drains at most 2016 pages.
        ((LINUX_6_18, 30_000, 30_000, 0), (27_984, 2016, true)),
        ((LINUX_6_18, 40_000, 30_000, 0), (37_984, 2016, true)),
        // Patch 9: high decays by the unused pages, at most by a fifth.
        ((SERIES_9, 900, 1000, 50), (950, 0, true)),
        ((SERIES_9, 900, 1000, 500), (800, 100, true)),
        ((SERIES_9, 900, 1000, 0), (1000, 0, true)),
        // With another bound: never posted, but a valid configuration.
        ((Tuning { decay: DecayRule::Eighth, ..SERIES_9 }, 900, 1000, 500), (875, 25, true)),
        // The two postings of a fifth round differently: 200 of 1001 go, or 201.
        ((SERIES_9, 0, 1001, 1001), (801, 0, true)),
        ((POSTED_9, 0, 1001, 1001), (801, 0, true)),
        ((POSTED_7, 0, 1001, 0), (800, 0, true)),
        // The first posting: to four fifths.
        ((Tuning { decay: DecayRule::Fifth, ..SERIES_7 }, 0, 1001, 0), (800, 0, true)),
        // Without auto-tuning nothing decays.
        ((LINUX_5_18, 900, 1000, 0), (1000, 0, false)),
    ];
    for ((tuning, count, high, count_min), (high_after, drain, more)) in rows {
        let mut s = PcpState { count_min, ..tuned(count, high, 252, 65_536) };
        assert_eq!((tuning.decay(&mut s), s.high), (Decay { drain, more }, high_after), "{count} of {high}");
    }
    // An administrator's high: only the pages above it are drained.
    let mut s = tuned(1100, 1000, 1000, 1000);
    assert_eq!((LINUX_6_18.decay(&mut s), s.high), (Decay { drain: 100, more: true }, 1000));
}

#[test]
fn the_smallest_count_since_the_last_tick() {
    let mut s = tuned(100, 1000, 252, 4096);
    SERIES_9.end_tick(&mut s);
    assert_eq!(s.count_min, 100);
    SERIES_9.on_take(&mut s, 8);
    assert_eq!((s.count, s.count_min), (92, 92));
    let _ = SERIES_9.commit(&mut s, order(3), CALM);
    let _ = SERIES_9.commit(&mut s, order(0), CALM);
    SERIES_9.on_take(&mut s, 1);
    assert_eq!((s.count, s.count_min), (100, 92));
}

#[test]
fn the_batch_scale_bounds_everything() {
    // Scale 0: nothing grows. Scale 6: 4032 pages. (4.4 to 4.11, config 0..6.)
    for (batch_scale_max, most) in [(0, 63), (5, 2016), (6, 4032)] {
        let tuning = Tuning { batch_scale_max, ..LINUX_6_7 };
        let mut s = tuned(0, 0, 20_000, 100_000);
        for _ in 0..8 {
            let Blocks(blocks) = tuning.refill(&mut s, order(0), CALM);
            assert!(blocks <= most);
        }
        assert_eq!((tuning.refill(&mut s, order(0), CALM), s.alloc_factor), (Blocks(most), batch_scale_max));
        s.count = 50_000;
        for _ in 0..5000 {
            let _ = tuning.commit(&mut s, order(0), CALM);
        }
        assert_eq!(s.free_count, most);
        let mut costly = PcpState { count: 20_000, high: 30_000, free_count: most, prev_high_order: true, ..s };
        assert_eq!((tuning.commit(&mut costly, order(1), CALM), costly.high), (most, 30_000 - most));
        let mut idle = PcpState { count: 50_000, high: 50_000, ..s };
        assert_eq!(tuning.decay(&mut idle).drain, most);
        let capped = Tuning { batch_scale_max, ..SERIES_4 };
        let mut s = PcpState { free_factor: batch_scale_max, ..fixed(99_999, 100_000) };
        assert_eq!((capped.commit(&mut s, order(0), CALM), s.free_factor), (most, batch_scale_max));
    }
}

#[test]
fn the_cache_must_hold_more_than_three_batches() {
    // 4.3; as posted, four.
    for (slice, merged, posted) in
        [(0, false, false), (189, false, false), (190, true, false), (252, true, false), (253, true, true)]
    {
        assert!(PAGESET.large_cache(slice, 63), "always");
        assert_eq!((SERIES_3.large_cache(slice, 63), POSTED_3.large_cache(slice, 63)), (merged, posted), "{slice}");
    }
}

#[test]
fn rules_that_do_not_go_together() {
    for preset in PRESETS {
        assert_eq!(preset.tuning.check(), Ok(()), "{}", preset.name);
        assert_eq!(crate::policy::Preset::find(preset.name).map(|p| p.tuning), Some(preset.tuning));
    }
    let off = LINUX_4_16;
    use crate::policy::{BatchRule, HighRule};
    for (tuning, message) in [
        (Tuning { auto_high: true, ..off }, "the rule auto_high needs alloc_factor = on"),
        (Tuning { cache_slice: true, ..LINUX_5_18 }, "the rule cache_slice needs prev_high_order = on"),
        (Tuning { high_threshold_616: true, ..SERIES_9 }, "the rule high_threshold_616 needs free_count = on"),
        (Tuning { batch_scale_max: 7, ..off }, "batch_scale_max is 7; allowed: 0 to 6"),
        (Tuning { batch_blocks: 8, ..LINUX_6_18 }, "the rule batch_blocks needs double_blocks = on"),
        (Tuning { batch_blocks: 65, double_blocks: true, ..LINUX_6_18 }, "batch_blocks is 65; allowed: 0 to 64"),
        (Tuning { high_share: 9, ..LINUX_6_18 }, "high_share is 9; allowed: 0 to 8"),
        (Tuning { high_share: 3, ..LINUX_6_0 }, "the rule high_share needs alloc_factor = on"),
        (Tuning { block_scale_max: 7, ..LINUX_6_18 }, "block_scale_max is 7; allowed: 0 to 6"),
        (Tuning { kept_fraction: 1, ..LINUX_6_18 }, "kept_fraction is 1; allowed: 0 for no limit, or 2 to 255"),
        (
            Tuning { kept_fraction: 2, ..PCP_CLAIM },
            "the rule kept_fraction needs claim_blocks = off and clusters = off",
        ),
        (Tuning { batch: BatchRule::Fixed(0), ..off }, "batch is 0; allowed: 1 to 65536 pages"),
        (Tuning { batch: BatchRule::FromZone { cap_kib: 0 }, ..off }, "batch cap is 0; allowed: 1 to 1048576 KiB"),
        (Tuning { high: HighRule::Fixed { min: 9, max: 8 }, ..off }, "high_min is 9; allowed: at most high_max"),
        (
            Tuning { high: HighRule::Fixed { min: 9, max: u32::MAX }, ..off },
            "high_max is 4294967295; allowed: at most 268435456 pages",
        ),
    ] {
        use std::string::ToString;
        assert_eq!(tuning.check().unwrap_err().to_string(), message);
    }
}
