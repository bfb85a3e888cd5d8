//! `free_with` and `alloc_with`: each place with each kind of blocks.

use std::cell::Cell;

use pageset::{Alloc, AllocFrom, Free, FreeTo, Immovable, Order, PageRange, PageState, Pfn, Tuning};

use crate::support::{Known, World, movable, one_zone};

#[test]
fn blocks_of_each_kind_are_free_wherever_they_go() {
    let order = Order::new(3).expect("an order");
    for to in [FreeTo::Pageset, FreeTo::PagesetUndrained, FreeTo::Buddy, FreeTo::BuddyCold, FreeTo::Deferred] {
        one_zone(Tuning::default(), 1 << 16, 2, |world| {
            let blocks = [(); 4].map(|()| world.alloc(&movable(3)).expect("memory"));
            let cleaned = Cell::new(0);
            let clean = |pages: PageRange| cleaned.set(cleaned.get() + pages.pages);
            world.free_with(Free::block(blocks[0], order).to(to).cleaned(clean)).expect("it is in use");
            world.free_with(Free::blocks(order, &blocks[1..3]).to(to).cleaned(clean)).expect("they are in use");
            let range = PageRange::new(blocks[3], order.pages());
            world.free_with(Free::whole_blocks(range).to(to).cleaned(clean)).expect("it is in use");
            assert_eq!(cleaned.get(), 4 * order.pages(), "{to:?}");
            for block in blocks {
                world.free_with(Free::block(block, order).to(to)).expect_err("it is free");
            }
            assert_eq!(world.at(0).audit().expect("the audit passes").in_use, 0, "{to:?}");
            world.drain_all();
            let stats = world.at(0).stats();
            assert_eq!((stats.deferred, stats.nr_free_pages), (0, stats.managed), "{to:?}");
        });
    }
}

/// A block, and runs of pages, with an owner and without.
#[test]
fn pages_of_each_number_come_from_each_place() {
    let request = movable(Order::MAX.get());
    for from in [AllocFrom::Pageset, AllocFrom::Buddy, AllocFrom::Search] {
        for (pages, align) in [(None, Order::MAX.pages()), (Some(3), 1), (Some(5), 8), (Some(600), 512)] {
            for with_owner in [false, true] {
                one_zone(Tuning::default(), 1 << 16, 2, |world| {
                    // The first free pageblock is no multiple of the largest block.
                    let first = world.alloc(&movable(Order::PAGEBLOCK.get())).expect("memory");
                    let what = format!("{from:?} {pages:?} {align} {with_owner}");
                    let alloc = Alloc::new(&request).from(from);
                    let alloc = pages.map_or(alloc, |pages| alloc.pages(pages).aligned(align));
                    let got =
                        if with_owner { world.alloc_with(alloc.owner(&Immovable)) } else { world.alloc_with(alloc) };
                    let start = got.unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert!(start.0.is_multiple_of(align), "{what}: {start:?}");
                    let pages = pages.unwrap_or(Order::MAX.pages());
                    assert!((0..pages).all(|page| in_use(world, start.offset(page))), "{what}");
                    world.free_range(PageRange::new(start, pages)).expect("they are in use");
                    world.free(first, Order::PAGEBLOCK).expect("it is in use");
                    assert_eq!(world.at(0).audit().expect("the audit passes").in_use, 0, "{what}");
                });
            }
        }
    }
}

fn in_use(world: &World<'_>, page: Pfn) -> bool {
    world.block_of(page).is_some_and(|(_, state)| state == PageState::Allocated)
}
