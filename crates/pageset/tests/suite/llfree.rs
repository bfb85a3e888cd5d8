//! The scenarios of LLFree's tests, in our own words.
//!
//! Source: <https://github.com/luhsra/llfree-rs>, commit `441c8d1335b1bd820688e72f50f26004657f9363`, MIT licence, copyright 2023
//! Leibniz Universität Hannover. No code is copied. LLFree's frame is a page here, its huge frame a pageblock, and its
//! tree a block of the largest order. Its zones of 1 to 8 GiB are 64 MiB to 1 GiB here.
//!
//! Two differences change what a test expects. Pages in the pageset of another CPU serve no request, so a caller that finds
//! no memory drains the pagesets and tries again. CPUs reserve no trees, so no page is free after a request has failed on
//! every CPU.
//!
//! | `eval/tests/integration.rs` | test here |
//! | --- | --- |
//! | `minimal`, also in `core/src/lib.rs` | [`two_pages`] |
//! | `simple`, `alloc_all` | [`all_pages_then_some_again`] |
//! | `alloc_at` | [`given_pages`] |
//! | `rand` | [`random_frees_on_one_cpu`] |
//! | `multirand` | [`random_frees_on_four_cpus`] |
//! | `parallel_alloc` | [`four_cpus_allocate`] |
//! | `alloc_tree_all` | [`all_blocks_of_the_largest_order`] |
//! | `parallel_alloc_all` | [`four_cpus_allocate_all_pages`] |
//! | `less_mem` | [`four_cpus_in_little_memory`] |
//! | `parallel_huge_alloc` | [`four_cpus_allocate_all_pageblocks`] |
//! | `parallel_free` | [`four_cpus_free`] |
//! | `alloc_free` | [`one_cpu_frees_what_another_allocated`] |
//! | `different_orders` | [`all_orders_on_four_cpus`] |
//! | `init_reserved` | [`a_zone_that_starts_in_use`] |
//! | `fragmentation_retry` | [`a_pageblock_beside_fragmented_memory`] |
//! | `demote_local` | [`one_type_takes_the_pageblocks_of_another`] |
//! | `drain` | [`a_drain_returns_what_another_cpu_keeps`] |
//! | `stress` | [`random_amounts_on_four_cpus`] |
//! | `movable_classes` | [`two_types_share_all_pages`] |
//! | `recover` | none: the allocator does not keep its metadata in the memory that it manages, so nothing outlives it |
//! | `zeroed_steals_from_huge` | none: there are no classes of the caller. `ranges.rs` and `hotplug.rs` test what takes memory offline and brings it back, `fallback.rs` which type takes from which, and `pageset-host/tests/zeroed.rs` zeroed memory |
//!
//! | `core/src/lower.rs` | test here |
//! | --- | --- |
//! | all 15 tests of a tree | see [`lower`] |
//!
//! | other files | why they have no test here |
//! | --- | --- |
//! | `core/src/bitfield.rs`: `bit_set`, `bit_toggle`, `first_zeros_aligned`, `first_zero_rows` | free blocks are on lists, not in bit fields |
//! | `core/src/util.rs`: `wy_rand`, `align`, `aligned_buf` | helpers of those tests |
//! | `eval/src`: `match_seralize`, `match_deserialize`, `gfp_match`, `test_debug`, `file`, `anonymous`, `dax`, `pinning`, `stride`, `cores` | tests of the tools around the allocator |

mod lower;

use crate::support::Known;
use std::sync::Barrier;
use std::thread;

use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::Bounds;
use pageset::policy::presets::{LINUX_6_18, PAGESET};
use pageset::{
    AllocError, Allocator, Block, Config, Immovable, MigrateType, NodeId, Order, PageRange, Pfn, Request, Wait,
    ZoneKind, ZoneSpec,
};

use crate::layouts::order;
use crate::threads::{Random, Threads, run_on};

type World<'a> = Allocator<'a, Threads>;

const BASE: u64 = 1 << 20;
const PAGEBLOCK: u64 = 512;
/// Pages of the largest block.
const LARGEST: u64 = Order::MAX.pages();
/// The CPUs of the tests with threads. One thread runs on each.
const CPUS: usize = 4;

/// A request that may take the last page.
fn movable(of: Order) -> Request {
    Request { watermarks: false, ..Request::new(of, MigrateType::Movable) }
}

/// As [`movable`], and leaves other CPUs the pages that they keep.
fn hasty(of: Order) -> Request {
    Request { wait: Wait::Nothing, ..movable(of) }
}

/// Runs a test on a zone of `pages` free pages, under two sets of rules.
fn zone(pages: u64, cpus: usize, test: impl Fn(&World<'_>)) {
    for tuning in [PAGESET, LINUX_6_18] {
        let range = PageRange::new(Pfn(BASE), pages);
        let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[range] }];
        let nodes = vec![NodeId(0); cpus];
        let config = Config { tuning, ..Config::new(&zones, &nodes) };
        let metadata = OwnedMetadata::new(&config).expect("memory");
        let mut zones = metadata.zones();
        let world = Allocator::new(Threads, &config, metadata.lend(&mut zones)).expect("the map is valid");
        run_on(0);
        test(&world);
    }
}

/// Runs a part on each CPU at the same time, and returns the results.
fn on_each_cpu<R: Send>(part: impl Fn(u64) -> R + Sync) -> Vec<R> {
    let start = Barrier::new(CPUS);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CPUS as u32)
            .map(|cpu| {
                let (part, start) = (&part, &start);
                scope.spawn(move || {
                    run_on(cpu);
                    start.wait();
                    part(cpu.into())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    })
}

/// Allocates a movable block. `None` if there is no memory.
fn allocate(world: &World<'_>, of: Order) -> Option<Block> {
    allocate_as(world, &movable(of))
}

fn allocate_as(world: &World<'_>, request: &Request) -> Option<Block> {
    match world.alloc(request) {
        Ok(pfn) => Some(Block { pfn, order: request.order }),
        Err(AllocError::OutOfMemory(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Allocates a block. If there is no memory, other CPUs may keep some in their pagesets, even again after a drain.
fn allocate_after_drains(world: &World<'_>, of: Order) -> Block {
    for _ in 0..1000 {
        if let Some(block) = allocate(world, of) {
            return block;
        }
        world.at(0).drain_all();
        thread::yield_now();
    }
    panic!("no block of order {of}: {:?}", world.alloc(&movable(of)));
}

fn pages(world: &World<'_>, count: u64) -> Vec<Block> {
    (0..count).map(|_| allocate(world, Order::ZERO).expect("memory")).collect()
}

/// Allocates until there is no memory.
fn exhaust(world: &World<'_>, request: &Request) -> Vec<Block> {
    std::iter::from_fn(|| allocate_as(world, request)).collect()
}

/// Lets each pageset keep up to 21 pages. The rules would let it keep one page in such a small zone.
fn keep_pages(world: &World<'_>) {
    world.at(0).set_bounds(Bounds { batch: 7, high_min: 21, high_max: 21 }).expect("the pagesets have room");
}

fn free(world: &World<'_>, blocks: impl IntoIterator<Item = Block>) {
    blocks.into_iter().for_each(|block| world.free(block.pfn, block.order).expect("it is in use"));
}

pub(crate) fn shuffle<T>(all: &mut [T], random: &mut Random) {
    (1..all.len()).for_each(|at| all.swap(at, random.below(at + 1)));
}

/// Checks that these blocks are exactly what is in use: aligned, in the zone, and without a common page.
fn check_in_use<'b>(world: &World<'_>, blocks: impl IntoIterator<Item = &'b Block>) {
    let mut blocks: Vec<Block> = blocks.into_iter().copied().collect();
    blocks.sort_by_key(|block| block.pfn);
    let span = world.at(0).span();
    let mut end = span.start;
    for block in &blocks {
        assert!(block.pfn.is_aligned(block.order), "{block:?} is not aligned");
        assert!(block.pfn >= end, "{block:?} begins before {end}: a page has two owners");
        end = block.pfn.offset(block.order.pages());
    }
    assert!(end <= span.end(), "the last block ends at {end}, after the zone");
    check_books(world, blocks.iter().map(|block| block.order.pages()).sum());
}

/// Audits the zone, of which `in_use` pages are in use.
fn check_books(world: &World<'_>, in_use: u64) {
    let books = world.at(0).audit().expect("the audit passes");
    assert_eq!(books.in_use, in_use, "pages in use");
    assert_eq!(books.free + books.cached + in_use, world.at(0).span().pages, "{books:?}");
}

/// Checks that everything is free, and merges into blocks of the largest order.
fn check_all_free(world: &World<'_>) {
    world.at(0).drain_all();
    check_books(world, 0);
    let largest: u32 = MigrateType::ALL.iter().map(|&list| world.at(0).free_blocks(Order::MAX, list)).sum();
    assert_eq!(u64::from(largest), world.at(0).span().pages / LARGEST, "blocks of the largest order");
}

#[test]
fn two_pages() {
    zone(1 << 18, 1, |world| {
        let [first, second] = [(); 2].map(|()| allocate(world, Order::ZERO).expect("memory"));
        check_in_use(world, &[first, second]);
        free(world, [second, first]);
        check_all_free(world);
    });
}

#[test]
fn all_pages_then_some_again() {
    zone(1 << 18, 1, |world| {
        let first = allocate(world, Order::ZERO).expect("memory");
        check_in_use(world, &[first]);
        let mut all = exhaust(world, &movable(Order::ZERO));
        all.push(first);
        assert_eq!(all.len(), 1 << 18);
        check_in_use(world, &all);
        let kept = all.split_off(PAGEBLOCK as usize - 10);
        let some = all.len() as u64;
        free(world, all);
        check_in_use(world, &kept);
        let again = pages(world, some);
        check_in_use(world, kept.iter().chain(&again));
        assert_eq!(allocate(world, Order::ZERO), None);
        free(world, kept.into_iter().chain(again));
        check_all_free(world);
    });
}

#[test]
fn given_pages() {
    zone(1 << 18, 1, |world| {
        let pageblock = Block { pfn: Pfn(BASE + PAGEBLOCK), order: order(9) };
        let given = [1, 2].map(|at| Block { pfn: Pfn(BASE + at), order: Order::ZERO });
        for block in given.into_iter().chain([pageblock]) {
            assert!(world.alloc_at(block.pfn, block.order), "{block:?} is free");
            assert!(!world.alloc_at(block.pfn, block.order), "{block:?} is in use");
        }
        let other = allocate(world, Order::ZERO).expect("memory");
        let all = [given[0], given[1], pageblock, other];
        check_in_use(world, &all);
        free(world, all.into_iter().rev());
        check_all_free(world);
    });
}

/// Frees one of the blocks and allocates another, as often as there are blocks.
fn replace(world: &World<'_>, mine: &mut [Block], random: &mut Random) {
    for _ in 0..mine.len() {
        let at = random.below(mine.len());
        free(world, [mine[at]]);
        mine[at] = allocate(world, Order::ZERO).expect("one page was just freed");
    }
}

#[test]
fn random_frees_on_one_cpu() {
    zone(1 << 18, 1, |world| {
        let mut random = Random(100);
        let mut mine = pages(world, 1 << 17);
        check_in_use(world, &mine);
        replace(world, &mut mine, &mut random);
        check_in_use(world, &mine);
        shuffle(&mut mine, &mut random);
        free(world, mine);
        check_all_free(world);
    });
}

#[test]
fn random_frees_on_four_cpus() {
    let size = 1 << 18;
    zone(size, CPUS, |world| {
        let all = on_each_cpu(|cpu| {
            let mut mine = pages(world, size / CPUS as u64 / 4 * 3);
            replace(world, &mut mine, &mut Random(cpu + 1));
            mine
        });
        check_in_use(world, all.iter().flatten());
        on_each_cpu(|cpu| {
            let mut mine = all[cpu as usize].clone();
            shuffle(&mut mine, &mut Random(cpu + 1));
            free(world, mine);
        });
        check_all_free(world);
    });
}

#[test]
fn four_cpus_allocate() {
    let size = 1 << 18;
    zone(size, CPUS, |world| {
        let all = on_each_cpu(|_| pages(world, size / CPUS as u64 / 2 - 2 * PAGEBLOCK));
        check_in_use(world, all.iter().flatten());
    });
}

#[test]
fn all_blocks_of_the_largest_order() {
    zone(256 * LARGEST, 1, |world| {
        let all = exhaust(world, &movable(Order::MAX));
        assert_eq!(all.len(), 256);
        check_in_use(world, &all);
    });
}

#[test]
fn four_cpus_allocate_all_pages() {
    let size = 1 << 18;
    zone(size, CPUS, |world| {
        let all = on_each_cpu(|_| exhaust(world, &movable(Order::ZERO)));
        check_in_use(world, all.iter().flatten());
        assert_eq!(all.iter().flatten().count() as u64, size);
    });
}

#[test]
fn four_cpus_in_little_memory() {
    let (size, rounds) = (4 * LARGEST, 20);
    zone(size, CPUS, |world| {
        keep_pages(world);
        for _ in 0..rounds {
            let share = size / CPUS as u64 - CPUS as u64;
            let all = on_each_cpu(|_| -> Vec<Block> {
                (0..share).map(|_| allocate_after_drains(world, Order::ZERO)).collect()
            });
            check_in_use(world, all.iter().flatten());
            on_each_cpu(|cpu| free(world, all[cpu as usize].iter().copied()));
            check_all_free(world);
        }
    });
}

#[test]
fn four_cpus_allocate_all_pageblocks() {
    let size = 1 << 18;
    zone(size, CPUS, |world| {
        let share = size / PAGEBLOCK / CPUS as u64;
        let all =
            on_each_cpu(|_| -> Vec<Block> { (0..share).map(|_| allocate_after_drains(world, order(9))).collect() });
        check_in_use(world, all.iter().flatten());
        assert_eq!(allocate(world, Order::ZERO), None);
    });
}

#[test]
fn four_cpus_free() {
    let size = 1 << 18;
    zone(size, CPUS, |world| {
        on_each_cpu(|cpu| {
            let mut mine = pages(world, size / CPUS as u64 / 2 - 2 * PAGEBLOCK);
            shuffle(&mut mine, &mut Random(cpu + 1));
            free(world, mine);
        });
        check_all_free(world);
    });
}

#[test]
fn one_cpu_frees_what_another_allocated() {
    let size = 1 << 17;
    zone(size, CPUS, |world| {
        let share = size / 4;
        let first = pages(world, share);
        let mut all = on_each_cpu(|cpu| match cpu {
            0 => pages(world, share),
            1 => {
                free(world, first.iter().copied());
                vec![]
            }
            _ => vec![],
        });
        let second = all.swap_remove(0);
        check_in_use(world, &second);
        free(world, second);
        check_all_free(world);
    });
}

/// Allocates blocks of all orders, with the same number of pages in each order, in a random sequence.
fn all_orders(world: &World<'_>, random: &mut Random) -> Vec<Block> {
    let counts = Order::all().flat_map(|of| (0..LARGEST / of.pages()).map(move |_| of));
    let mut orders: Vec<Order> = counts.collect();
    shuffle(&mut orders, random);
    orders.into_iter().map(|of| allocate_after_drains(world, of)).collect()
}

#[test]
fn all_orders_on_four_cpus() {
    // For each CPU, one block of the largest order more than the blocks need: the pagesets keep some pages.
    zone((Order::COUNT as u64 + 1) * LARGEST * CPUS as u64, CPUS, |world| {
        let all = on_each_cpu(|cpu| all_orders(world, &mut Random(42 + cpu)));
        check_in_use(world, all.iter().flatten());
        on_each_cpu(|cpu| {
            let mut mine = all[cpu as usize].clone();
            shuffle(&mut mine, &mut Random(42 + cpu));
            free(world, mine);
        });
        check_all_free(world);
    });
}

#[test]
fn a_zone_that_starts_in_use() {
    let size = 1 << 18;
    zone(size, CPUS, |world| {
        world.alloc_range(world.at(0).span(), MigrateType::Movable, &Immovable).expect("all is free");
        check_books(world, size);
        for pfn in (BASE..BASE + size).step_by(LARGEST as usize).map(Pfn) {
            world.split(pfn, Order::MAX, order(9)).expect("it is in use");
        }
        free(world, (BASE..BASE + size).step_by(PAGEBLOCK as usize).map(|at| Block { pfn: Pfn(at), order: order(9) }));
        check_all_free(world);
        let share = size / PAGEBLOCK / CPUS as u64;
        let all =
            on_each_cpu(|_| -> Vec<Block> { (0..share).map(|_| allocate_after_drains(world, order(9))).collect() });
        check_in_use(world, all.iter().flatten());
    });
}

#[test]
fn a_pageblock_beside_fragmented_memory() {
    zone(2 * LARGEST, 1, |world| {
        let (freed, kept): (Vec<_>, Vec<_>) =
            pages(world, LARGEST).into_iter().enumerate().partition(|(nth, _)| nth % 2 == 0);
        free(world, freed.into_iter().map(|(_, page)| page));
        let pageblock = allocate(world, order(9)).expect("half of the memory was never used");
        check_in_use(world, kept.iter().map(|(_, page)| page).chain([&pageblock]));
    });
}

#[test]
fn one_type_takes_the_pageblocks_of_another() {
    let size = 2 * LARGEST;
    zone(size, CPUS, |world| {
        keep_pages(world);
        let mut all = vec![allocate(world, order(9)).expect("memory"), allocate(world, Order::ZERO).expect("memory")];
        run_on(1);
        let unmovable = Request { migratetype: MigrateType::Unmovable, ..hasty(Order::ZERO) };
        all.extend(exhaust(world, &unmovable));
        assert!((all.len() as u64) < size - PAGEBLOCK + 1, "CPU 0 keeps movable pages");
        world.at(0).drain_all();
        all.extend(exhaust(world, &unmovable));
        check_in_use(world, &all);
        assert_eq!(all.len() as u64, size - PAGEBLOCK + 1, "no page is free");
    });
}

#[test]
fn a_drain_returns_what_another_cpu_keeps() {
    let size = 8 * LARGEST;
    zone(size, CPUS, |world| {
        keep_pages(world);
        // Nothing is cached yet.
        world.drain_all();
        check_all_free(world);
        run_on(1);
        let theirs = allocate(world, Order::ZERO).expect("memory");
        run_on(0);
        let mut all = exhaust(world, &hasty(Order::ZERO));
        all.push(theirs);
        let kept = size - all.len() as u64;
        assert!(kept > 0, "CPU 1 keeps pages");
        match world.alloc(&hasty(Order::ZERO)) {
            Err(AllocError::OutOfMemory(shortage)) => {
                assert_eq!((shortage.free_pages, shortage.cached_pages), (0, kept))
            }
            other => panic!("{other:?}"),
        }
        world.drain_all();
        all.extend(exhaust(world, &hasty(Order::ZERO)));
        assert_eq!(all.len() as u64, size);
        check_in_use(world, &all);
    });
}

/// Allocates and frees pages until a CPU has a random number of them, below `most`; `times` times. Returns its pages.
fn random_amounts(world: &World<'_>, cpu: u64, most: usize, times: u32) -> Vec<Block> {
    let mut random = Random(0x5eed + cpu);
    let mut mine: Vec<Block> = vec![];
    for _ in 0..times {
        let target = random.below(most);
        free(world, mine.drain(target.min(mine.len())..));
        while mine.len() < target {
            let Some(page) = allocate(world, Order::ZERO) else { break };
            mine.push(page);
        }
        shuffle(&mut mine, &mut random);
    }
    mine
}

#[test]
fn random_amounts_on_four_cpus() {
    let size = 1 << 15;
    zone(size, CPUS, |world| {
        let all = on_each_cpu(|cpu| random_amounts(world, cpu, size as usize / CPUS, 100));
        check_in_use(world, all.iter().flatten());
        free(world, all.into_iter().flatten());
        check_all_free(world);
    });
}

#[test]
fn two_types_share_all_pages() {
    let size = 16 * LARGEST;
    zone(size, 1, |world| {
        let types = [MigrateType::Movable, MigrateType::Unmovable, MigrateType::Unmovable];
        let request = |nth: u64| Request { migratetype: types[nth as usize % 3], ..movable(Order::ZERO) };
        let mut all = vec![];
        for nth in 0..size {
            // The pageset keeps pages of the other type, which serve no request of this one.
            let pfn = world.alloc(&request(nth)).or_else(|_| {
                world.drain();
                world.alloc(&request(nth))
            });
            all.push(Block { pfn: pfn.expect("memory"), order: Order::ZERO });
        }
        check_in_use(world, &all);
        for nth in 0..3 {
            assert!(matches!(world.alloc(&request(nth)), Err(AllocError::OutOfMemory(_))));
        }
    });
}
