//! Compaction's state in a zone between runs: the scanner positions, counters, and how many attempts are skipped after failures.
//!
//! Specification: `linux-page-allocator.md` 7.1. Positions are written without a lock: a lost position is a few pageblocks
//! scanned again.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32};

use crate::frame::{Frames, Order, start_of};
use crate::sync::{AtomicU64, LockedWord};

/// Compaction's state of one zone. Positions are page indexes in the zone.
#[derive(Debug)]
pub(crate) struct CompactionState {
    /// The positions of the migrate scanner: of async runs, of other runs.
    migrate: [AtomicU32; 2],
    /// The position of the free scanner.
    free: AtomicU32,
    /// The scanners of a direct compaction have met: skip bits are cleared when reclaim ends or the longest deferral is
    /// over.
    pub(crate) flush: AtomicBool,
    /// Counters of pages, and of attempts by result; written under the zone lock.
    pub(crate) migrate_scanned: AtomicU64,
    pub(crate) free_scanned: AtomicU64,
    pub(crate) isolated: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) stalls: AtomicU64,
    pub(crate) successes: AtomicU64,
    pub(crate) failures: AtomicU64,
}

/// Beyond every zone: the first run sets the positions to the zone's ends.
const NOWHERE: u32 = u32::MAX;

impl CompactionState {
    #[inline]
    pub(crate) const fn new() -> Self {
        CompactionState {
            migrate: [const { AtomicU32::new(NOWHERE) }; 2],
            free: AtomicU32::new(NOWHERE),
            flush: AtomicBool::new(false),
            migrate_scanned: AtomicU64::new(0),
            free_scanned: AtomicU64::new(0),
            isolated: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            successes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }
}

/// The start of a zone's last pageblock.
pub(crate) fn last_pageblock(frames: &Frames<'_>) -> u32 {
    start_of(frames.end.saturating_sub(1), Order::PAGEBLOCK)
}

impl CompactionState {
    /// The positions of both scanners. `slot` is 0 for an async migrate scanner, 1 for others. A scanner without a
    /// position inside the zone starts at its own end of the zone.
    pub(crate) fn positions(&self, frames: &Frames<'_>, slot: usize) -> (u32, u32) {
        let within = |page| (frames.first..frames.end).contains(&page);
        if !within(self.free.get()) {
            self.free.set(last_pageblock(frames));
        }
        let migrate = self.migrate[slot].get();
        if within(migrate) {
            return (migrate, self.free.get());
        }
        self.migrate.iter().for_each(|slot| slot.set(frames.first));
        (frames.first, self.free.get())
    }

    /// Resets the positions after the scanners have met: the next run begins at the zone's ends.
    pub(crate) fn start_over(&self, frames: &Frames<'_>) {
        self.migrate.iter().for_each(|slot| slot.set(frames.first));
        self.free.set(last_pageblock(frames));
    }

    /// Advances the migrate scanner behind a pageblock that ends at `page`.
    pub(crate) fn advance_migrate(&self, page: u32, slot: usize) {
        for position in &self.migrate[..=slot] {
            // A position outside the zone means no position.
            if position.get() == NOWHERE || position.get() < page {
                position.set(page);
            }
        }
    }

    /// Lowers the free scanner to the pageblock that begins at `page`.
    pub(crate) fn lower_free(&self, page: u32) {
        self.free.set(self.free.get().min(page));
    }

    /// Raises the free scanner to the pageblock that begins at `page`, to which unused targets were returned.
    pub(crate) fn raise_free(&self, page: u32) {
        self.free.set(self.free.get().max(page));
    }

    /// Requests a reset of the skip bits, after the scanners of a direct compaction have met.
    pub(crate) fn wants_flush(&self) {
        self.flush.set(true);
    }
}

/// Skipped attempts are at most two to this power. Source: specification 9.
const MAX_SHIFT: u8 = 6;

/// A zone's record of failed compactions. Written without a lock: a lost update is one attempt more or less.
#[derive(Debug)]
pub(crate) struct Deferral {
    /// Attempts since the last failure or success; 0 right after either. Only at 0 do frees skip merging (6.1).
    pub(crate) considered: AtomicU32,
    shift: AtomicU8,
    /// One above the smallest order that failed; 0 if none did.
    failed: AtomicU8,
}

impl Deferral {
    #[inline]
    pub(crate) const fn new() -> Self {
        Deferral { considered: AtomicU32::new(0), shift: AtomicU8::new(0), failed: AtomicU8::new(0) }
    }

    /// The smallest order that failed; above the largest order if none did.
    fn order_failed(&self) -> u8 {
        match self.failed.get() {
            0 => Order::COUNT as u8,
            above => above - 1,
        }
    }

    /// Whether to skip an attempt for `order`. Counts the attempt.
    pub(crate) fn defers(&self, order: Order) -> bool {
        if order.get() < self.order_failed() {
            return false;
        }
        let limit = 1 << self.shift.get().min(MAX_SHIFT);
        let considered = self.considered.get().saturating_add(1).min(limit);
        self.considered.set(considered);
        considered < limit
    }

    /// Records that a whole zone was scanned without success.
    pub(crate) fn on_failure(&self, order: Order) {
        self.considered.set(0);
        self.shift.set((self.shift.get() + 1).min(MAX_SHIFT));
        self.failed.set(order.get().min(self.order_failed()) + 1);
    }

    /// Records a success for `order`. `allocated`: the request really got the block.
    pub(crate) fn reset(&self, order: Order, allocated: bool) {
        if allocated {
            self.considered.set(0);
            self.shift.set(0);
        }
        if order.get() >= self.order_failed() {
            self.failed.set(order.get() + 2);
        }
    }

    /// Whether the longest series of skipped attempts has ended, so that skip bits and positions are reset.
    pub(crate) fn restarts(&self, order: Order) -> bool {
        order.get() >= self.order_failed() && self.shift.get() == MAX_SHIFT && self.considered.get() >= 1 << MAX_SHIFT
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    fn order(order: u8) -> Order {
        Order::new(order).expect("an order")
    }

    /// The number of attempts skipped before one is made.
    fn passed_over(deferral: &Deferral, of: u8) -> usize {
        (0..).take_while(|_| deferral.defers(order(of))).count()
    }

    #[test]
    fn each_failure_doubles_what_is_passed_over() {
        let deferral = Deferral::new();
        assert_eq!(passed_over(&deferral, 9), 0, "no compaction has failed");
        let waits: Vec<_> = (0..8)
            .map(|_| {
                deferral.on_failure(order(9));
                assert_eq!(deferral.considered.get(), 0);
                passed_over(&deferral, 9)
            })
            .collect();
        // 2^shift attempts are considered; only the last is made.
        assert_eq!(waits, [1, 3, 7, 15, 31, 63, 63, 63]);
        assert!(deferral.restarts(order(9)));
        assert!(!deferral.restarts(order(8)));
    }

    #[test]
    fn smaller_orders_than_the_failed_one_are_tried() {
        let deferral = Deferral::new();
        deferral.on_failure(order(4));
        assert!(!deferral.defers(order(3)));
        assert_eq!(deferral.considered.get(), 0, "attempts for smaller orders do not count");
        deferral.on_failure(order(9));
        assert!(deferral.defers(order(4)), "the smallest failed order stays");
    }

    #[test]
    fn success_says_which_orders_work_again() {
        let deferral = Deferral::new();
        deferral.on_failure(order(4));
        deferral.on_failure(order(4));
        deferral.reset(order(5), false);
        assert!(!deferral.defers(order(5)));
        assert!(deferral.defers(order(6)), "shift and count stay until the block is allocated");
        deferral.reset(order(5), true);
        assert_eq!((deferral.considered.get(), passed_over(&deferral, 6)), (0, 0));
        deferral.reset(Order::MAX, true);
        assert_eq!(passed_over(&deferral, 10), 0);
    }
}
