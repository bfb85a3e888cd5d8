//! The tests of LLFree's lower allocator, `core/src/lower.rs`: races of two CPUs in one tree.
//!
//! A scheduler chooses the interleavings, and the pagesets keep nothing, so that every call reaches the free lists.
//! `PAGESET_SCHEDULES` is the number of schedules of each race. The module above names the source.
//!
//! | `core/src/lower.rs` | test here |
//! | --- | --- |
//! | `alloc_first`, `alloc_normal`, `alloc_last`, `alloc_normal_large` | [`two_cpus_allocate`] |
//! | `free_normal`, `free_last`, `free_normal_large` | [`two_cpus_free`] |
//! | `realloc_last` | [`one_cpu_frees_while_another_allocates`] |
//! | `rand_realloc_first`, ignored there | [`six_threads_allocate_and_free`] |
//! | `rand_realloc_last`, ignored there | [`three_threads_free_while_three_allocate`] |
//! | `alloc_large_orders` | [`large_orders`] |
//! | `different_orders` | [`all_orders_on_one_cpu`] |
//! | `init_reserved_max_order` | [`blocks_of_the_largest_order_are_freed`] |
//! | `partial_put_huge` | [`a_page_of_a_block_is_freed_in_a_zone_with_an_odd_end`] |
//! | `alloc_stress_huge` | [`random_amounts_in_one_block`] |

use crate::support::Known;
use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::Bounds;
use pageset::{
    Allocator, Block, Config, CpuId, Immovable, MigrateType, NodeId, Order, PageRange, Pfn, ZoneKind, ZoneSpec,
};
use shuttle::Runner;
use shuttle::scheduler::RandomScheduler;

use super::{
    BASE, CPUS, LARGEST, PAGEBLOCK, all_orders, check_all_free, check_books, check_in_use, free, movable, on_each_cpu,
    random_amounts, zone,
};
use crate::layouts::order;
use crate::threads::Random;
use crate::watched::{Scheduled, run_on, seed_and_schedules};

type Raced<'a> = Allocator<'a, Scheduled>;

/// Schedules of each race.
const SCHEDULES: usize = 300;

/// What a thread does.
#[derive(Clone, Copy)]
enum Part {
    /// Allocates blocks of these orders, and keeps them.
    Alloc(&'static [u8]),
    /// Frees the block with this number among those that were in use before.
    Free(usize),
    /// Allocates this many pages, and frees them in reverse.
    AllocFree(usize),
}

fn allocate(world: &Raced<'_>, of: Order) -> Block {
    Block { pfn: world.alloc(&movable(of)).expect("memory"), order: of }
}

/// One thread for each part, in many interleavings. Blocks of the orders `before` are in use first.
fn race(test: &str, before: &[u8], parts: &'static [Part]) {
    let (seed, schedules) = seed_and_schedules(SCHEDULES);
    println!(
        "SHUTTLE_RANDOM_SEED={seed} PAGESET_SCHEDULES={schedules} cargo test -p pageset --all-features --test suite \
         llfree::lower::{test}"
    );
    let before = before.to_vec();
    let scheduler = RandomScheduler::new_from_seed(seed, schedules);
    Runner::new(scheduler, crate::watched::config()).run(move || schedule(&before, parts));
}

fn schedule(before: &[u8], parts: &'static [Part]) {
    let range = PageRange::new(Pfn(BASE), 4 * LARGEST);
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[range] }];
    let config = Config::new(&zones, &[NodeId(0); 2]);
    let metadata = OwnedMetadata::new(&config).expect("memory");
    let mut zones = metadata.zones();
    let world = &Raced::new(Scheduled, &config, metadata.lend(&mut zones)).expect("the map is valid");
    world.at(0).set_bounds(Bounds::DISABLED).expect("the pagesets have room");
    let before: Vec<_> = before.iter().map(|&of| allocate(world, order(of))).collect();
    let mut in_use = before.clone();
    let freed = |part: &Part| if let Part::Free(nth) = part { Some(before[*nth]) } else { None };
    in_use.retain(|block| !parts.iter().filter_map(freed).any(|freed| freed == *block));
    shuttle::thread::scope(|scope| {
        let threads: Vec<_> = parts
            .iter()
            .zip(0..)
            .map(|(&part, thread)| {
                let freed = freed(&part);
                scope.spawn(move || {
                    run_on(CpuId(thread % 2));
                    work(world, part, freed)
                })
            })
            .collect();
        in_use.extend(threads.into_iter().flat_map(|thread| thread.join().expect("no thread panics")));
    });
    check(world, &in_use);
    in_use.iter().for_each(|block| world.free(block.pfn, block.order).expect("it is in use"));
    check(world, &[]);
    let largest: u32 = MigrateType::ALL.iter().map(|&list| world.at(0).free_blocks(Order::MAX, list)).sum();
    assert_eq!(largest, 4, "all memory merges");
}

/// Does a thread's part, and returns the blocks that it keeps.
fn work(world: &Raced<'_>, part: Part, freed: Option<Block>) -> Vec<Block> {
    let free = |block: Block| world.free(block.pfn, block.order).expect("it is in use");
    match part {
        Part::Alloc(orders) => orders.iter().map(|&of| allocate(world, order(of))).collect(),
        Part::Free(_) => {
            freed.into_iter().for_each(free);
            vec![]
        }
        Part::AllocFree(count) => {
            let mine: Vec<_> = (0..count).map(|_| allocate(world, Order::ZERO)).collect();
            mine.into_iter().rev().for_each(free);
            vec![]
        }
    }
}

/// Checks that these blocks are what is in use.
fn check(world: &Raced<'_>, in_use: &[Block]) {
    let mut blocks = in_use.to_vec();
    blocks.sort_by_key(|block| block.pfn);
    for pair in blocks.windows(2) {
        assert!(pair[0].pfn.offset(pair[0].order.pages()) <= pair[1].pfn, "{pair:?}: a page has two owners");
    }
    let expected: u64 = blocks.iter().map(|block| block.order.pages()).sum();
    assert_eq!(world.at(0).audit().expect("the audit passes").in_use, expected, "pages in use");
}

/// In a fresh zone, after a page, where the first pageblock has one page left, and of two orders.
#[test]
fn two_cpus_allocate() {
    let almost_all = [0; PAGEBLOCK as usize - 1];
    for (before, parts) in [
        (&[][..], &[Part::Alloc(&[0]), Part::Alloc(&[0])][..]),
        (&[0], &[Part::Alloc(&[0]), Part::Alloc(&[0])]),
        (&almost_all, &[Part::Alloc(&[0]), Part::Alloc(&[0])]),
        (&[0], &[Part::Alloc(&[1]), Part::Alloc(&[2])]),
    ] {
        race("two_cpus_allocate", before, parts);
    }
}

/// Two pages, two pages of a full pageblock, and blocks of two orders.
#[test]
fn two_cpus_free() {
    for before in [&[0, 0][..], &[0; PAGEBLOCK as usize], &[1, 2]] {
        race("two_cpus_free", before, &[Part::Free(0), Part::Free(1)]);
    }
}

#[test]
fn one_cpu_frees_while_another_allocates() {
    let almost_all = [0; PAGEBLOCK as usize - 1];
    race("one_cpu_frees_while_another_allocates", &almost_all, &[Part::Free(0), Part::Alloc(&[0])]);
}

#[test]
fn six_threads_allocate_and_free() {
    race("six_threads_allocate_and_free", &[], &[Part::AllocFree(4); 6]);
}

#[test]
fn three_threads_free_while_three_allocate() {
    let parts = &[Part::Free(0), Part::Free(1), Part::Free(2), Part::Alloc(&[0]), Part::Alloc(&[0]), Part::Alloc(&[0])];
    race("three_threads_free_while_three_allocate", &[0; PAGEBLOCK as usize - 3], parts);
}

#[test]
fn large_orders() {
    zone(4 * LARGEST, 1, |world| {
        let mut all = vec![];
        for of in [order(9), Order::MAX] {
            all.extend(super::allocate(world, of));
            check_in_use(world, &all);
        }
        assert_eq!(all.len(), 2);
        while let Some(block) = all.pop() {
            free(world, [block]);
            check_in_use(world, &all);
        }
        check_all_free(world);
    });
}

#[test]
fn all_orders_on_one_cpu() {
    zone((Order::COUNT as u64 + 1) * LARGEST, 1, |world| {
        let all = all_orders(world, &mut Random(42));
        check_in_use(world, &all);
        free(world, all);
        check_all_free(world);
    });
}

#[test]
fn blocks_of_the_largest_order_are_freed() {
    zone(24 * LARGEST, 1, |world| {
        world.alloc_range(world.at(0).span(), MigrateType::Movable, &Immovable).expect("all is free");
        check_books(world, 24 * LARGEST);
        free(world, (0..24).map(|nth| Block { pfn: Pfn(BASE + nth * LARGEST), order: Order::MAX }));
        check_all_free(world);
    });
}

#[test]
fn a_page_of_a_block_is_freed_in_a_zone_with_an_odd_end() {
    zone(LARGEST - 1, 1, |world| {
        world.alloc_range(world.at(0).span(), MigrateType::Movable, &Immovable).expect("all is free");
        check_books(world, LARGEST - 1);
        world.free_range(PageRange::new(Pfn(BASE), 1)).expect("the first page of a block in use");
        check_books(world, LARGEST - 2);
        let page = super::allocate(world, Order::ZERO).expect("one page is free");
        assert_eq!(page.pfn, Pfn(BASE));
        assert_eq!(super::allocate(world, Order::ZERO), None);
    });
}

/// The CPUs want up to twice as much as there is.
#[test]
fn random_amounts_in_one_block() {
    zone(LARGEST, CPUS, |world| {
        on_each_cpu(|cpu| free(world, random_amounts(world, cpu, 2 * LARGEST as usize / CPUS, 50)));
        check_all_free(world);
    });
}
