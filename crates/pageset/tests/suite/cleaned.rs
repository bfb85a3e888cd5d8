//! Frees with a step between the claim and the free: when the step runs, and that no other free gets the block meanwhile.

use crate::support::{Known, World, movable, one_zone};
use pageset::policy::presets::PAGESET;
use pageset::{Alloc, Free, FreeTo, MigrateType, Order, PageRange, Pfn, WrongFree};
use std::cell::Cell;

const PAGES: u64 = 8192;

fn in_use(world: &World<'_>) -> u64 {
    world.at(0).audit().expect("balanced books").in_use
}

#[test]
fn the_step_runs_while_the_block_has_no_owner() {
    one_zone(PAGESET, PAGES, 1, |world| {
        for n in [0, 3, 6] {
            let order = Order::new(n).expect("an order");
            let pfn = world.alloc(&movable(n)).expect("memory");
            let mut ran = 0;
            let step = |pages: PageRange| {
                assert_eq!(pages, PageRange::new(pfn, order.pages()));
                ran += 1;
                let error = world.free(pfn, order).expect_err("claimed");
                assert!(matches!(error.reason, WrongFree::NotAllocated(_)), "{error}");
            };
            world.free_with(Free::block(pfn, order).cleaned(step)).expect("in use");
            assert_eq!(ran, 1);
            let again = world.free_with(Free::block(pfn, order).cleaned(|_| unreachable!("the step of a wrong free")));
            again.expect_err("a second free");
            let pfn = world.alloc(&movable(n)).expect("memory");
            let ran = Cell::new(0);
            world
                .free_with(Free::block(pfn, order).to(FreeTo::Deferred).cleaned(|_| ran.set(ran.get() + 1)))
                .expect("in use");
            let again =
                world.free_with(Free::block(pfn, order).to(FreeTo::Deferred).cleaned(|_| ran.set(ran.get() + 1)));
            again.expect_err("a second free");
            assert_eq!(ran.get(), 1);
        }
        world.drain_all();
        assert_eq!(in_use(world), 0);
    });
}

#[test]
fn a_wrong_entry_of_a_bulk_keeps_all_steps_from_running() {
    one_zone(PAGESET, PAGES, 1, |world| {
        let pages: Vec<Pfn> = (0..100).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
        let twice = [&pages[..], &pages[..1]].concat();
        let wrong =
            world.free_with(Free::blocks(Order::ZERO, &twice).cleaned(|_| unreachable!("the step of a wrong free")));
        assert_eq!(wrong.expect_err("a page twice").pfn, pages[0]);
        assert_eq!(in_use(world), 100);
        let mut cleaned = vec![];
        world.free_with(Free::blocks(Order::ZERO, &pages).cleaned(|page| cleaned.push(page.start))).expect("in use");
        assert_eq!((cleaned, in_use(world)), (pages, 0));
    });
}

#[test]
fn the_step_of_a_range_runs_once_or_not_at_all() {
    one_zone(PAGESET, PAGES, 1, |world| {
        let first = world.alloc_with(Alloc::new(&movable(0)).pages(700)).expect("memory");
        assert_eq!(first.0 % 1024, 0);
        let range = PageRange::new(first, 700);
        let longer = PageRange::new(first, 701);
        let wrong = world.free_with(Free::whole_blocks(longer).cleaned(|_| unreachable!("the step of a wrong free")));
        wrong.expect_err("a page behind the blocks");
        assert_eq!(in_use(world), 700);
        let mut ran = 0;
        world.free_with(Free::whole_blocks(range).cleaned(|_| ran += 1)).expect("in use");
        assert_eq!((ran, in_use(world)), (1, 0));
        assert!(world.alloc_range(range, MigrateType::Movable, &pageset::Immovable).is_ok());
    });
}
