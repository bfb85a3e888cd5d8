//! The worked examples of the specification, section 10, run on the allocator itself. 10.1 is pure arithmetic, tested
//! next to the formulas in `policy::sizes`.

use crate::support::{Known, World, build, example, movable};
use pageset::policy::presets::*;
use pageset::policy::{PcpState, Tuning, Watermarks};
use pageset::{Config, CpuId, NodeId, Order, PageRange, Pfn, ZoneKind, ZoneSpec};

/// An operation's number, from 1, and the pages that moved with it.
type Moves = Vec<(u32, u64)>;

/// One CPU of a world, and its effects on the zone.
struct Cpu<'w> {
    world: &'w World<'w>,
    pages: Vec<Pfn>,
    holds: u64,
}

impl<'w> Cpu<'w> {
    fn new(world: &'w World<'w>) -> Self {
        Cpu { world, pages: Vec::new(), holds: world.at(0).stats().lock_acquisitions() }
    }

    fn state(&self) -> PcpState {
        self.world.pageset(0, CpuId(0)).state()
    }

    /// Zone-lock holds since the start or the last call.
    fn take_holds(&mut self) -> u64 {
        let holds = self.world.at(0).stats().lock_acquisitions();
        holds - std::mem::replace(&mut self.holds, holds)
    }

    /// Allocates single pages; returns the refills.
    fn alloc(&mut self, times: u32) -> Moves {
        self.watch(times, |s| s.refill_pages, |cpu| cpu.pages.push(cpu.world.alloc(&movable(0)).expect("memory")))
    }

    /// Frees single pages, oldest first; returns the drains.
    fn free(&mut self, times: u32) -> Moves {
        let mut pages = self.pages.drain(..times as usize).collect::<Vec<_>>().into_iter();
        let mut next = move || pages.next().expect("as many as asked for");
        self.watch(times, |s| s.drain_pages, |cpu| cpu.world.free(next(), Order::ZERO).expect("was allocated"))
    }

    fn watch(
        &mut self,
        times: u32,
        counter: impl Fn(&pageset::admin::stats::PagesetStats) -> u64,
        mut operation: impl FnMut(&mut Self),
    ) -> Moves {
        let mut moves = Moves::new();
        for number in 1..=times {
            let before = counter(&self.world.pageset(0, CpuId(0)).stats());
            operation(self);
            let moved = counter(&self.world.pageset(0, CpuId(0)).stats()) - before;
            if moved > 0 {
                moves.push((number, moved));
            }
        }
        moves
    }

    /// Runs a tick. Returns the pages drained, and whether it has more to do.
    fn tick(&self) -> (u64, bool) {
        let before = self.world.pageset(0, CpuId(0)).stats().drain_pages;
        let more = self.world.tick();
        (self.world.pageset(0, CpuId(0)).stats().drain_pages - before, more)
    }

    fn audit(&self) {
        let books = self.world.at(0).audit().expect("the audit passes");
        assert_eq!(books.in_use, self.pages.len() as u64);
    }
}

fn on(tuning: Tuning, high_min: u32, high_max: u32, test: impl FnOnce(Cpu<'_>)) {
    example(tuning, high_min, high_max, |world| test(Cpu::new(world)));
}

const NONE: [(u32, u64); 0] = [];

#[test]
fn example_10_2_fixed_high() {
    const REFILLS_63: &[(u32, u64)] = &[(1, 63), (64, 63), (127, 63), (190, 63)];
    type Row = (&'static str, Tuning, u32, &'static [(u32, u64)], u32, &'static [(u32, u64)], u32, u8);
    let rows: [Row; 4] = [
        (
            "E1",
            LINUX_4_16,
            186,
            &[(1, 31), (32, 31), (63, 31), (94, 31), (125, 31), (156, 31), (187, 31)],
            17,
            &[(169, 31), (200, 31)],
            155,
            0,
        ),
        ("E3", LINUX_4_19, 378, REFILLS_63, 52, &[], 252, 0),
        ("E5", LINUX_5_18, 1548, REFILLS_63, 52, &[], 252, 0),
        ("E5, 32 CPUs", LINUX_5_18, 252, REFILLS_63, 52, &[(200, 63)], 189, 1),
    ];
    for (name, tuning, high, refills, between, drains, end, free_factor) in rows {
        on(tuning, high, high, |mut cpu| {
            assert_eq!(cpu.alloc(200), refills, "{name}: refills");
            assert_eq!(cpu.state().count, between, "{name}: count after the allocations");
            assert_eq!(cpu.free(200), drains, "{name}: drains");
            assert_eq!((cpu.state().count, cpu.state().free_factor), (end, free_factor), "{name}: at the end");
            assert_eq!(cpu.take_holds() as usize, refills.len() + drains.len(), "{name}: zone-lock holds");
            cpu.audit();
        });
    }
}

#[test]
fn example_10_2_auto_tuned() {
    // Columns: bounds; high after each refill; (high, drained, count) after each tick.
    type Row = (u32, u32, [u32; 3], &'static [(u32, u64, u32, bool)]);
    let rows: [Row; 2] = [
        (1548, 65_536, [1611, 1737, 1989], &[(1741, 0, 441, true), (1548, 0, 441, false)]),
        (
            252,
            4096,
            [315, 441, 693],
            // From the fifth tick on: high -= high / 8 with equal drains until 252.
            &[
                (607, 0, 441, true),
                (532, 0, 441, true),
                (466, 0, 441, true),
                (408, 33, 408, true),
                (357, 51, 357, true),
                (313, 44, 313, true),
                (274, 39, 274, true),
                (252, 22, 252, true),
                (252, 0, 252, false),
            ],
        ),
    ];
    for (high_min, high_max, [first, second, third], ticks) in rows {
        on(LINUX_6_18, high_min, high_max, |mut cpu| {
            let see = |cpu: &Cpu<'_>| {
                let s = cpu.state();
                (s.high, s.alloc_factor, s.count, s.free_count)
            };
            assert_eq!(see(&cpu).0, 0, "high is clamped to its bounds at the first use");
            assert_eq!(cpu.alloc(1), [(1, 63)]);
            assert_eq!(see(&cpu), (first, 1, 62, 0), "alloc 1");
            assert_eq!(cpu.alloc(62), NONE);
            assert_eq!(cpu.alloc(1), [(1, 126)]);
            assert_eq!(see(&cpu), (second, 2, 125, 0), "alloc 64");
            assert_eq!(cpu.alloc(125), NONE);
            assert_eq!(cpu.alloc(1), [(1, 252)]);
            assert_eq!(see(&cpu), (third, 3, 251, 0), "alloc 190");
            assert_eq!(cpu.alloc(10), NONE);
            assert_eq!(see(&cpu), (third, 3, 241, 0), "alloc 200");
            assert_eq!(cpu.free(1), NONE);
            assert_eq!(see(&cpu), (third, 1, 242, 1), "free 1");
            assert_eq!(cpu.free(1), NONE);
            assert_eq!(see(&cpu), (third, 0, 243, 2), "free 2");
            assert_eq!(cpu.free(198), NONE);
            assert_eq!(see(&cpu), (third, 0, 441, 200), "free 200");
            assert_eq!(cpu.take_holds(), 3);
            for (i, &(high, drained, count, more)) in ticks.iter().enumerate() {
                assert_eq!(cpu.tick(), (drained, more), "tick {}", i + 1);
                assert_eq!((cpu.state().high, cpu.state().count), (high, count), "tick {}", i + 1);
            }
            cpu.audit();
            cpu.world.drain();
            assert_eq!(cpu.state().count, 0);
            cpu.audit();
        });
    }
}

#[test]
fn example_10_3() {
    on(LINUX_5_18, 252, 252, |mut cpu| {
        let refills = cpu.alloc(1000);
        assert_eq!(refills.len(), 16);
        assert!(refills.iter().all(|&(_, pages)| pages == 63));
        assert_eq!(cpu.state().count, 8);
        assert_eq!(cpu.free(1000), [(244, 63), (307, 126), (433, 189), (622, 189), (811, 189), (1000, 189)]);
        assert_eq!((cpu.state().count, cpu.state().free_factor), (63, 2));
        assert_eq!(cpu.take_holds(), 22);
        cpu.audit();
    });
    on(LINUX_6_18, 252, 4096, |mut cpu| {
        for (at, pages, high) in [(1, 63, 315), (64, 126, 441), (190, 252, 693), (442, 504, 1197), (946, 1008, 2205)] {
            let done = cpu.pages.len() as u32;
            assert_eq!(cpu.alloc(at - 1 - done), NONE, "before allocation {at}");
            assert_eq!(cpu.alloc(1), [(1, pages)], "allocation {at}");
            assert_eq!(cpu.state().high, high, "allocation {at}");
        }
        assert_eq!(cpu.alloc(54), NONE);
        assert_eq!(cpu.state().count, 953);
        assert_eq!(cpu.free(1000), NONE);
        assert_eq!((cpu.state().count, cpu.state().free_count), (1953, 1000));
        assert_eq!(cpu.take_holds(), 5);
        for (i, (drained, left)) in [
            (23, 1930),
            (241, 1689),
            (211, 1478),
            (184, 1294),
            (161, 1133),
            (141, 992),
            (124, 868),
            (108, 760),
            (95, 665),
            (83, 582),
            (72, 510),
            (63, 447),
            (55, 392),
            (49, 343),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(cpu.tick(), (drained, true), "tick {}", i + 1);
            assert_eq!((cpu.state().count, cpu.state().high), (left, left), "tick {}", i + 1);
        }
        cpu.audit();
    });
}

#[test]
fn example_10_4() {
    // Columns: holds, pages from and to the zone, count, high, free_factor or free_count, pages drained by ticks.
    type Row = (&'static [(&'static str, Tuning)], u64, u64, u64, u32, u32, u32, u64);
    let rows: [Row; 5] = [
        (
            &[("base", LINUX_5_18), ("+1", SERIES_1), ("+3", SERIES_3), ("+4", SERIES_4)],
            207,
            9576,
            9450,
            126,
            252,
            2,
            0,
        ),
        (&[("+5", SERIES_5)], 111, 9639, 9450, 189, 252, 2, 0),
        (&[("+7", SERIES_7), ("+8", SERIES_8)], 15, 3969, 1868, 2101, 2101, 1, 1616),
        (&[("+9", SERIES_9), ("+9 as posted", POSTED_9)], 13, 3969, 1969, 2000, 2000, 1, 1780),
        (&[("+10", LINUX_6_7), ("6.16", LINUX_6_16)], 11, 4410, 2385, 2025, 2397, 2000, 385),
    ];
    for (stages, holds, from_zone, to_zone, count, high, recent, by_ticks) in rows {
        for &(name, tuning) in stages {
            on(tuning, 252, 4096, |mut cpu| {
                let mut ticked = 0;
                for _ in 0..5 {
                    cpu.alloc(2000);
                    cpu.free(2000);
                    if tuning.auto_high {
                        ticked += cpu.tick().0;
                    }
                }
                let stats = cpu.world.pageset(0, CpuId(0)).stats();
                let s = cpu.state();
                let factor = if tuning.free_count { s.free_count } else { u32::from(s.free_factor) };
                assert_eq!((stats.refill_pages, stats.drain_pages), (from_zone, to_zone), "{name}: pages");
                assert_eq!((s.count, s.high, factor, ticked), (count, high, recent, by_ticks), "{name}: at the end");
                assert_eq!(cpu.take_holds(), holds, "{name}: zone-lock holds");
                cpu.audit();
            });
        }
    }
}

/// Frees blocks that another CPU allocated, so that this CPU starts with an empty pageset. Returns the drains.
fn free_from_empty(world: &World<'_>, blocks: &[(u32, u8)]) -> Vec<Moves> {
    world.machine().run_on(1);
    let taken: Vec<(Vec<Pfn>, u8)> = blocks
        .iter()
        .map(|&(times, order)| ((0..times).map(|_| world.alloc(&movable(order)).expect("memory")).collect(), order))
        .collect();
    world.machine().run_on(0);
    let mut cpu = Cpu::new(world);
    taken
        .into_iter()
        .map(|(pages, order)| {
            let mut pages = pages.into_iter();
            let order = Order::new(order).expect("an order");
            cpu.watch(
                pages.len() as u32,
                |s| s.drain_pages,
                |cpu| cpu.world.free(pages.next().expect("counted"), order).expect("was allocated"),
            )
        })
        .collect()
}

/// As [`example`] at 252..4096, on CPUs with a cache share of `cache_slice_pages`.
fn with_cache(tuning: Tuning, cache_slice_pages: u64, test: impl FnOnce(&World<'_>)) {
    let range = PageRange::new(Pfn(1 << 20), 1 << 20);
    let spec = ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[range] };
    let zones = [spec];
    let config = Config { tuning, cache_slice_pages, ..Config::new(&zones, &[NodeId(0); 2]) };
    build(&config, |world| {
        let high_max = if tuning.auto_high { 4096 } else { 252 };
        world.at(0).set_bounds(pageset::policy::Bounds { batch: 63, high_min: 252, high_max }).expect("room");
        test(world);
    });
}

#[test]
fn example_10_5_one_high_order_free_after_many_of_order_0() {
    let base: &[_] = &[(252, 63), (315, 126)];
    type Row = (&'static str, Tuning, &'static [(u32, u64)], u64, u32, u32);
    let rows: [Row; 8] = [
        ("base", LINUX_5_18, base, 213, 0, 252),
        ("+1", SERIES_1, base, 0, 213, 252),
        ("+3", SERIES_3, base, 0, 213, 252),
        ("+4", SERIES_4, base, 0, 213, 252),
        ("+5", SERIES_5, base, 0, 213, 252),
        ("+7", SERIES_7, base, 0, 213, 252),
        ("+9", SERIES_9, base, 0, 213, 252),
        ("+10", LINUX_6_7, &[(252, 189)], 0, 213, 315),
    ];
    for (name, tuning, before, by_last, end, high) in rows {
        with_cache(tuning, 4096, |world| {
            let [single, pair] = free_from_empty(world, &[(400, 0), (1, 1)]).try_into().expect("two");
            assert_eq!(single, before, "{name}: drains before");
            assert_eq!(pair.iter().map(|&(_, pages)| pages).sum::<u64>(), by_last, "{name}: the last drain");
            let s = world.pageset(0, CpuId(0)).state();
            assert_eq!((s.count, s.high), (end, high), "{name}: count and high at the end");
        });
    }
}

#[test]
fn example_10_5_consecutive_high_order_frees() {
    let every: (usize, &[(u32, u64)]) = (138, &[(63, 64), (64, 192), (65, 4), (66, 4)]);
    let spaced: (usize, &[(u32, u64)]) = (10, &[(63, 64), (64, 192), (80, 64), (96, 64)]);
    let rows: [(&str, &[Tuning], _, _); 4] = [
        ("base, +1", &[LINUX_5_18, SERIES_1], every, every),
        ("+3 to +9", &[SERIES_3, SERIES_4, SERIES_5, SERIES_7, SERIES_8, SERIES_9], spaced, every),
        ("+10", &[LINUX_6_7], (12, &[(17, 68), (33, 64), (49, 64)]), (184, &[(17, 68), (18, 4)])),
        ("6.16", &[LINUX_6_16], (10, &[(49, 196), (65, 64), (81, 64)]), (152, &[(49, 196), (50, 4)])),
    ];
    for (name, tunings, large_cache, small_cache) in rows {
        for tuning in tunings {
            for ((number, first), slice) in [(large_cache, 190), (small_cache, 189)] {
                with_cache(*tuning, slice, |world| {
                    let drains = free_from_empty(world, &[(200, 2)]).remove(0);
                    assert_eq!(&drains[..first.len()], first, "{name}, cache {slice}: the first drains");
                    assert_eq!(drains.len(), number, "{name}, cache {slice}: drains");
                    world.at(0).audit().expect("the audit passes");
                });
            }
        }
    }
}

/// One iteration of page_fault1: 32768 pages in, 32768 pages out. Returns the sizes of refills and drains, and the
/// zone-lock holds.
fn page_fault1(cpu: &mut Cpu<'_>) -> (Vec<u64>, Vec<u64>, u64) {
    let sizes = |moves: Moves| moves.into_iter().map(|(_, pages)| pages).collect::<Vec<_>>();
    cpu.take_holds();
    let refills = sizes(cpu.alloc(32_768));
    let drains = sizes(cpu.free(32_768));
    (refills, drains, cpu.take_holds())
}

/// 63, 126, 252, ..., then `most` each.
fn doubling(most: u64, len: usize) -> Vec<u64> {
    (0..len as u32).map(|i| (63 << i.min(20)).min(most)).collect()
}

#[test]
fn example_10_6_page_fault1() {
    on(LINUX_5_18, 1548, 1548, |mut cpu| {
        for (refills, holds) in [(521, 546), (502, 527), (502, 527)] {
            let (refilled, drained, held) = page_fault1(&mut cpu);
            assert_eq!(refilled, vec![63; refills], "base");
            assert_eq!((drained.len(), held), (25, holds), "base");
        }
    });
    on(LINUX_5_18, 1548, 1548, |mut cpu| {
        assert_eq!(page_fault1(&mut cpu).1, doubling(1485, 25), "base: drains of the first iteration");
    });
    on(SERIES_5, 1548, 1548, |mut cpu| {
        for (refills, holds) in [(26, 51), (25, 50)] {
            let (refilled, drained, held) = page_fault1(&mut cpu);
            assert_eq!(refilled, doubling(1485, refills), "+5: refills");
            assert_eq!((drained.len(), held), (25, holds), "+5");
        }
    });
    for tuning in [SERIES_7, LINUX_6_7, LINUX_6_18] {
        on(tuning, 1548, 65_536, |mut cpu| {
            assert_eq!(page_fault1(&mut cpu), (doubling(2016, 21), vec![], 21), "first iteration");
            assert_eq!((cpu.state().count, cpu.state().high), (34_209, 35_757));
            assert_eq!(page_fault1(&mut cpu), (vec![], vec![], 0), "later");
            cpu.audit();
        });
    }
}

#[test]
fn example_10_7_pressure() {
    for below_high in [true, false] {
        on(LINUX_6_18, 252, 4096, |mut cpu| {
            cpu.alloc(600);
            let s = cpu.state();
            assert_eq!((s.count, s.high, s.alloc_factor, s.free_count), (345, 1197, 4, 0));
            if below_high {
                // Otherwise the first drain finds the zone above its high mark and clears the flag.
                let marks = Watermarks { min: 0, low: 0, high: 1 << 30 };
                cpu.world.at(0).set_watermarks(marks, [0; ZoneKind::COUNT]);
                cpu.world.at(0).set_below_high(true);
            } else {
                cpu.world.at(0).set_reclaim_active(true);
            }
            for free in 1..=12 {
                let drained = if free <= 2 { vec![(1, 63)] } else { vec![] };
                assert_eq!(cpu.free(1), drained, "free {free}");
                let count = if free == 1 { 283 } else { 219 + free };
                assert_eq!((cpu.state().count, cpu.state().high), (count, 1197 - 63 * free), "free {free}");
            }
            assert_eq!((cpu.state().count, cpu.state().high), (231, 441));
            cpu.audit();
        });
    }
}
