//! Deferred compaction: each failure doubles the number of skipped attempts.
//!
//! Specification: `linux-page-allocator.md` 7.1, "Deferral".

use core::sync::atomic::{AtomicU8, AtomicU32};

use crate::frame::Order;
use crate::sync::LockedWord;

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
