//! Any number of pages, and frees of parts of blocks.

use crate::layouts::BASE;
use crate::support::{Known, World, movable, one_zone};
use pageset::policy::Bounds;
use pageset::policy::presets::{LINUX_4_19, LINUX_6_18, PAGESET};
use pageset::{Alloc, AllocError, Block, MigrateType, Order, PageRange, PageState, Pfn, Request, Wait, WrongFree};
use proptest::prelude::*;

const PAGES: u64 = 8192;

fn in_use(world: &World<'_>) -> u64 {
    world.at(0).audit().expect("balanced books").in_use
}

/// The blocks in use from `pfn` on, up to `end`, and whether they cover all pages between.
fn blocks(world: &World<'_>, pfn: Pfn, end: Pfn) -> Vec<(u64, u8)> {
    let (mut at, mut found) = (pfn, vec![]);
    while at < end {
        let Some((Block { pfn: head, order }, PageState::Allocated)) = world.block_of(at) else { break };
        assert_eq!(head, at, "a block reaches into the pages from before");
        found.push((head.0 - pfn.0, order.get()));
        at = head.offset(order.pages());
    }
    found
}

#[test]
fn the_rest_of_an_exact_allocation_is_free() {
    one_zone(LINUX_6_18, PAGES, 1, |world| {
        for (pages, expected) in [
            (1, &[(0, 0)][..]),
            (3, &[(0, 1), (2, 0)]),
            (100, &[(0, 6), (64, 5), (96, 2)]),
            (
                1023,
                &[(0, 9), (512, 8), (768, 7), (896, 6), (960, 5), (992, 4), (1008, 3), (1016, 2), (1020, 1), (1022, 0)],
            ),
            (1024, &[(0, 10)]),
        ] {
            let pfn = world.alloc_with(Alloc::new(&movable(0)).pages(pages)).expect("memory");
            assert_eq!(pfn.0 % pages.next_power_of_two(), 0);
            assert_eq!(in_use(world), pages);
            assert_eq!(blocks(world, pfn, pfn.offset(pages)), expected);
            for &(at, order) in expected {
                world.free(pfn.offset(at), Order::new(order).expect("an order")).expect("in use");
            }
            assert_eq!(in_use(world), 0);
        }
        for pages in [0, 1025, u64::MAX] {
            let error = world.alloc_with(Alloc::new(&movable(0)).pages(pages)).expect_err("no block has so many pages");
            assert_eq!(error, AllocError::Pages(pages));
            assert_eq!(error.to_string(), format!("cannot allocate {pages} pages in one block; allowed: 1 to 1024"));
        }
    });
}

#[test]
fn the_middle_of_a_block_is_freed() {
    one_zone(PAGESET, PAGES, 1, |world| {
        let request = Request::new(Order::new(4).expect("an order"), MigrateType::Reclaimable);
        let pfn = world.alloc(&request).expect("memory");
        world.free_range(PageRange::new(pfn.offset(5), 6)).expect("a part");
        assert_eq!(in_use(world), 10);
        assert_eq!(blocks(world, pfn, pfn.offset(5)), [(0, 2), (4, 0)]);
        assert_eq!(blocks(world, pfn.offset(11), pfn.offset(16)), [(0, 0), (1, 2)]);
        assert!(matches!(world.block_of(pfn.offset(7)), Some((_, PageState::Cached | PageState::Free))));
        let rest = [(0, 4), (4, 1), (11, 5)];
        for (at, pages) in rest {
            // Each is a block, or two.
            for (from, order) in blocks(world, pfn.offset(at), pfn.offset(at + pages)) {
                world.free_range(PageRange::new(pfn.offset(at + from), 1 << order)).expect("a block");
            }
        }
        world.drain();
        assert_eq!((in_use(world), world.at(0).stats().nr_free_pages), (0, PAGES));
    });
}

#[test]
fn what_is_no_part_of_a_block_is_refused() {
    one_zone(LINUX_6_18, PAGES, 1, |world| {
        let pfn = world.alloc(&movable(3)).expect("memory");
        let refused = |at: Pfn, pages, reason, text: &str| {
            let error = world.free_range(PageRange::new(at, pages)).expect_err("no part of a block");
            assert_eq!((error.pfn, error.reason), (at, reason));
            assert!(error.to_string().contains(text), "{error}");
            assert_eq!(in_use(world), 8);
        };
        refused(pfn, 0, WrongFree::NoPages, "the range has no pages");
        refused(Pfn(1), 1, WrongFree::NotOurs, "it is in no zone");
        let next = pfn.offset(8);
        let (block, state) = world.block_of(next).expect("online memory");
        assert!(block.pfn == next && state != PageState::Allocated);
        refused(next, 1, WrongFree::NotAllocated(state), "it is free");
        let error = world.free_range(PageRange::new(pfn.offset(5), 4)).expect_err("the last page is free");
        assert_eq!((error.pfn, error.reason, in_use(world)), (next, WrongFree::NotAllocated(state), 8));
        let inside = WrongFree::Inside { head: next, order: block.order, state };
        refused(next.offset(1), 1, inside, "it is inside the block of order");
        world.free_range(PageRange::new(pfn, 8)).expect("a whole block");
        assert!(matches!(
            world.free_range(PageRange::new(pfn, 8)).expect_err("twice").reason,
            WrongFree::NotAllocated(_)
        ));
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Exact allocations, freed in random parts: the books balance after each, and all memory merges at the end.
    #[test]
    fn parts_add_up(
        tuning in prop::sample::select(&[LINUX_4_19, LINUX_6_18, PAGESET][..]),
        steps in prop::collection::vec((1..=1024_u64, any::<u64>(), any::<u64>()), 1..12),
    ) {
        one_zone(tuning, PAGES, 1, |world| {
            let mut used = vec![false; PAGES as usize];
            let base = Pfn(BASE);
            for (pages, from, count) in steps {
                let Ok(pfn) = world.alloc_with(Alloc::new(&movable(0)).pages(pages)) else { continue };
                for page in &mut used[(pfn.0 - base.0) as usize..][..pages as usize] {
                    assert!(!*page, "a page has two owners");
                    *page = true;
                }
                // Some part of the block around some page.
                let at = pfn.offset(from % pages);
                let (block, state) = world.block_of(at).expect("in use");
                assert_eq!(state, PageState::Allocated);
                let count = 1 + count % (block.pfn.0 + block.order.pages() - at.0);
                world.free_range(PageRange::new(at, count)).expect("a part");
                used[(at.0 - base.0) as usize..][..count as usize].fill(false);
                assert_eq!(in_use(world), used.iter().filter(|used| **used).count() as u64);
            }
            for page in (0..PAGES).filter(|page| used[*page as usize]) {
                world.free_range(PageRange::new(base.offset(page), 1)).expect("in use");
            }
            world.drain_all();
            assert_eq!((in_use(world), world.at(0).stats().nr_free_pages), (0, PAGES));
            let largest: u32 = MigrateType::ALL.map(|kind| world.at(0).free_blocks(Order::MAX, kind)).iter().sum();
            assert_eq!(u64::from(largest), PAGES / Order::MAX.pages(), "all memory merges");
        });
    }
}

/// A caller that waits for nothing leaves the rest of the block to the deferred frees: no lock is taken for it.
#[test]
fn the_rest_of_a_block_waits_for_a_lock_if_its_caller_does_not() {
    one_zone(LINUX_6_18, PAGES, 1, |world| {
        let request = Request { wait: Wait::Nothing, ..movable(0) };
        // The pagesets keep nothing, so a free would take the zone lock.
        world.at(0).set_bounds(Bounds::DISABLED).expect("room");
        let before = world.at(0).stats();
        let pfn = world.alloc_with(Alloc::new(&request).pages(5)).expect("memory");
        let after = world.at(0).stats();
        assert_eq!((after.lock_direct_free, after.lock_drain), (before.lock_direct_free, before.lock_drain));
        assert_eq!((after.direct_free_pages, after.deferred), (before.direct_free_pages, 3));
        // Blocks of four pages and of one.
        world.free_range(PageRange::new(pfn, 4)).expect("in use");
        world.free_range(PageRange::new(pfn.offset(4), 1)).expect("in use");
        assert_eq!(in_use(world), 0);
        assert_eq!(world.at(0).stats().nr_free_pages, PAGES, "the audit has completed the deferred frees");
    });
}
