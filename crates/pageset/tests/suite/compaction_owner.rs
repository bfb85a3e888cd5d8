//! Compaction with an owner that fails, frees, errs or panics during the run.
//!
//! Specification: `linux-page-allocator.md` 7.

use crate::layouts::{BASE, NO_MARKS, PAGEBLOCK, every_other, holes, laid_out, order, owner_of};
use crate::owner::StampingOwner;
use crate::support::{Known, TestMachine, World, movable, one_zone};
use pageset::policy::Bounds;
use pageset::policy::presets::MERGE_SKIP;
use pageset::{CompactMode, CompactOutcome, Free, FreeTo, MigrateType, MoveError, Order, Owner, PageRange, Pfn};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A failed move leaves its block in place, whichever block it is, and however the move fails.
#[test]
fn every_single_move_may_fail() {
    for error in [MoveError::Busy, MoveError::NoMemory] {
        for nth in 0..40 {
            laid_out(8, every_other, |world| {
                let owner = owner_of(world, holes()).failing(|n| (n == nth).then_some(error));
                let before = owner.blocks();
                let report = world.compact(&movable(9), CompactMode::SyncLight, &owner);
                owner.check();
                assert_eq!(owner.pages(), 256);
                let stayed: Vec<_> = {
                    let now: HashSet<_> = owner.blocks().iter().map(|(id, block)| (*id, block.pfn)).collect();
                    before.iter().filter(|(id, block)| now.contains(&(*id, block.pfn))).collect()
                };
                match error {
                    MoveError::Busy => {
                        assert_eq!((report.moved, report.failed), (255, 1), "{nth}: the others move");
                        assert_eq!(report.outcome, CompactOutcome::Complete);
                        assert_eq!(stayed.len(), 1);
                    }
                    MoveError::NoMemory => {
                        let cluster = nth as u64 / 32 * 32 + 32;
                        assert_eq!(report.outcome, CompactOutcome::Contended);
                        assert_eq!((report.moved, report.failed), (nth as u64, cluster - nth as u64), "{nth}");
                    }
                }
                assert_eq!(world.at(0).stats().nr_free_pages, 1280);
            });
        }
    }
}

/// The owner frees a block between the read of its tag and the isolation: it stays free, or is allocated again with the
/// same or another order.
#[test]
fn the_owner_frees_what_is_being_isolated() {
    laid_out(8, every_other, |world| {
        let inner = owner_of(world, holes());
        // The owner, and the number of isolations so far: every third one frees its block first.
        struct Racing<'o, 'w, 'a>(&'o StampingOwner<'w, 'a, TestMachine>, Cell<usize>);
        impl pageset::Owner for Racing<'_, '_, '_> {
            fn isolate(&self, pfn: Pfn) -> Option<Order> {
                self.1.set(self.1.get() + 1);
                if self.1.get().is_multiple_of(3) {
                    let id = self.0.at(pfn)?;
                    assert!(self.0.free(id));
                }
                self.0.isolate(pfn)
            }
            fn move_block(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), MoveError> {
                self.0.move_block(from, to, order)
            }
            fn put_back(&self, pfn: Pfn, order: Order) {
                self.0.put_back(pfn, order);
            }
        }
        let report = world.compact(&movable(9), CompactMode::SyncLight, &Racing(&inner, Cell::new(0)));
        assert_eq!(report.outcome, CompactOutcome::Success);
        assert_eq!((report.moved, inner.pages()), (171, 171), "a third of 256 was freed");
        inner.check();
    });
}

/// An owner that reports an order other than the allocator's is not believed: the block is put back.
#[test]
fn an_owner_that_is_wrong_about_the_order() {
    struct Wrong<'o>(&'o Cell<usize>);
    impl pageset::Owner for Wrong<'_> {
        fn isolate(&self, _pfn: Pfn) -> Option<Order> {
            Order::new(2)
        }
        fn move_block(&self, _from: Pfn, _to: Pfn, _order: Order) -> Result<(), MoveError> {
            panic!("the block has another order")
        }
        fn put_back(&self, _pfn: Pfn, order: Order) {
            assert_eq!(Some(order), Order::new(2));
            self.0.set(self.0.get() + 1);
        }
    }
    laid_out(8, every_other, |world| {
        let put_back = Cell::new(0);
        let report = world.compact(&movable(9), CompactMode::SyncLight, &Wrong(&put_back));
        assert_eq!((report.outcome, report.isolated), (CompactOutcome::Complete, 0));
        // Every page in use below the last pageblock.
        assert_eq!(put_back.get(), 256 + 3 * 512 + 3 * 256);
    });
}

/// The owner may use and free the target as soon as the block has moved there, and may allocate during the move.
#[test]
fn the_owner_frees_the_target_at_once() {
    struct Hasty<'w, 'a>(&'w World<'a>, Cell<u64>);
    impl pageset::Owner for Hasty<'_, '_> {
        fn isolate(&self, pfn: Pfn) -> Option<Order> {
            let n = pfn.0 - BASE;
            (n < 512 && n % 2 == 1).then_some(Order::ZERO)
        }
        fn move_block(&self, _from: Pfn, to: Pfn, order: Order) -> Result<(), MoveError> {
            self.0.free(to, order).expect("it is ours now");
            if let Ok(pfn) = self.0.alloc(&movable(0)) {
                self.0.free(pfn, Order::ZERO).expect("allocated");
            }
            self.1.set(self.1.get() + 1);
            Ok(())
        }
        fn put_back(&self, _pfn: Pfn, _order: Order) {}
    }
    laid_out(8, every_other, |world| {
        let owner = Hasty(world, Cell::new(0));
        let report = world.compact(&movable(9), CompactMode::SyncLight, &owner);
        assert_eq!((report.outcome, report.moved, owner.1.get()), (CompactOutcome::Success, 256, 256));
        assert_eq!(world.at(0).stats().nr_free_pages, 1280 + 256);
    });
}

/// An owner that frees the target, allocates the same page for something else, and then says that the block did not move:
/// that page stays in use, in compaction and in contiguous ranges.
#[test]
fn a_target_that_was_allocated_again_is_not_taken_back() {
    struct Fickle<'w, 'a>(&'w World<'a>, RefCell<HashSet<Pfn>>);
    impl pageset::Owner for Fickle<'_, '_> {
        fn isolate(&self, pfn: Pfn) -> Option<Order> {
            let n = pfn.0 - BASE;
            (n < 512 && n % 2 == 1).then_some(Order::ZERO)
        }
        fn move_block(&self, _from: Pfn, to: Pfn, order: Order) -> Result<(), MoveError> {
            self.0.free_with(Free::block(to, order).to(FreeTo::Buddy)).expect("it is ours now");
            assert!(self.0.alloc_at(to, order), "nobody else takes it");
            self.1.borrow_mut().insert(to);
            Err(MoveError::Busy)
        }
        fn put_back(&self, _pfn: Pfn, _order: Order) {}
    }
    let ranges: fn(&World<'_>, &Fickle<'_, '_>) = |world, owner| {
        world.alloc_range(PageRange::new(Pfn(BASE), PAGEBLOCK), MigrateType::Movable, owner).expect_err("busy");
    };
    let compacts: fn(&World<'_>, &Fickle<'_, '_>) = |world, owner| {
        world.compact(&movable(9), CompactMode::SyncLight, owner);
    };
    for run in [compacts, ranges] {
        laid_out(8, every_other, |world| {
            let owner = Fickle(world, RefCell::default());
            let in_use = world.at(0).audit().expect("balanced books").in_use;
            run(world, &owner);
            let kept = owner.1.take();
            assert!(!kept.is_empty());
            assert_eq!(world.at(0).audit().expect("balanced books").in_use, in_use + kept.len() as u64);
            kept.into_iter().for_each(|page| world.free(page, Order::ZERO).expect("in use"));
        });
    }
}

/// A free block held as a target is neither free nor allocated: a free of it is refused.
#[test]
fn free_targets_cannot_be_freed() {
    struct Meddling<'w, 'a>(&'w World<'a>, Cell<u64>);
    impl pageset::Owner for Meddling<'_, '_> {
        fn isolate(&self, pfn: Pfn) -> Option<Order> {
            let n = pfn.0 - BASE;
            (n < 512 && n % 2 == 1).then_some(Order::ZERO)
        }
        fn move_block(&self, _from: Pfn, to: Pfn, _order: Order) -> Result<(), MoveError> {
            if to.0.is_multiple_of(2) {
                self.0.free(to.offset(1), Order::ZERO).expect_err("it is held for the next move");
                self.1.set(self.1.get() + 1);
            }
            Ok(())
        }
        fn put_back(&self, _pfn: Pfn, _order: Order) {}
    }
    laid_out(8, every_other, |world| {
        let owner = Meddling(world, Cell::new(0));
        let report = world.compact(&movable(9), CompactMode::SyncLight, &owner);
        assert_eq!((report.outcome, report.moved, owner.1.get()), (CompactOutcome::Success, 256, 128));
    });
}

/// An owner that panics at the n-th move.
struct Panics(Cell<u32>);

impl Owner for Panics {
    fn isolate(&self, _pfn: Pfn) -> Option<Order> {
        Some(Order::ZERO)
    }

    fn move_block(&self, _from: Pfn, _to: Pfn, _order: Order) -> Result<(), MoveError> {
        self.0.set(self.0.get().checked_sub(1).expect("planned"));
        Ok(())
    }

    fn put_back(&self, _pfn: Pfn, _order: Order) {}
}

/// Unused targets are freed; the target that the owner was given stays in use. Afterwards the zone compacts, merges and
/// skips merging as before.
#[test]
fn an_owner_that_panics_loses_nothing() {
    laid_out(8, every_other, |world| {
        for moves in [0, 1, 40, 200] {
            let before = world.at(0).stats();
            let compact = || world.at(0).compact(Some(order(9)), CompactMode::Sync, &Panics(Cell::new(moves)));
            catch_unwind(AssertUnwindSafe(compact)).expect_err("planned");
            let after = world.at(0).stats();
            let in_use = |stats: &pageset::admin::stats::ZoneStats| stats.pgalloc() - stats.pgfree();
            assert_eq!(
                (before.nr_free_pages - after.nr_free_pages, in_use(&after) - in_use(&before)),
                (1, 1),
                "{moves}"
            );
            world.at(0).audit().expect("the audit passes");
        }
    });
    // Merging is skipped again: the run's request for merging ended with the run.
    one_zone(MERGE_SKIP, 8 * PAGEBLOCK, 1, |world| {
        world.at(0).set_watermarks(NO_MARKS, [0; 4]);
        world.at(0).set_bounds(Bounds::DISABLED).expect("room");
        let pages: Vec<_> = std::iter::from_fn(|| world.alloc(&movable(0)).ok()).collect();
        pages.iter().skip(2).step_by(2).for_each(|&pfn| world.free(pfn, Order::ZERO).expect("allocated"));
        let compact = || world.at(0).compact(None, CompactMode::Sync, &Panics(Cell::new(3)));
        catch_unwind(AssertUnwindSafe(compact)).expect_err("planned");
        let before = world.at(0).stats().merge_skips;
        world.free(pages[7 * 512 + 101], Order::ZERO).expect("has not moved");
        assert_eq!(world.at(0).stats().merge_skips, before + 1);
        world.at(0).audit().expect("the audit passes");
    });
}
