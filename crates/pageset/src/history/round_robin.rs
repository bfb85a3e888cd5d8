//! The turns in which a round-robin drain takes blocks from lists.
//!
//! Specification: `linux-page-allocator.md` 3.2.

use crate::frame::MigrateType;
use crate::policy::Tuning;

/// The lists that a round-robin drain takes from, one entry a block. Specification 3.2.
pub(crate) struct RoundRobin {
    cursor: usize,
    run: u32,
    lists: usize,
}

impl RoundRobin {
    pub(crate) fn new(tuning: &Tuning) -> Self {
        // A batch of movable pages alone is found in the first round if they come last in it. Specification 6.3.
        let cursor = if tuning.cluster_free { MigrateType::Movable.index() } else { 0 };
        RoundRobin { cursor, run: 0, lists: tuning.lists.count() }
    }

    /// The next list to take a block from while `wanted` pages remain to be drained.
    pub(crate) fn next(&mut self, wanted: u32, is_empty: impl Fn(usize) -> bool) -> usize {
        if self.run == 0 || is_empty(self.cursor) {
            loop {
                self.cursor = (self.cursor + 1) % self.lists;
                self.run += 1;
                if !is_empty(self.cursor) {
                    break;
                }
            }
            if self.run as usize == self.lists {
                self.run = wanted;
            }
        }
        self.run -= 1;
        self.cursor
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::policy::ListRule;
    use crate::policy::presets::LINUX_4_17;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// Specification 3.2 word by word: pages taken from each list when `n` are drained.
    fn as_specified(lens: &[u32], n: u32) -> Vec<u32> {
        let (mut left, mut n, mut cursor, mut run) = (lens.to_vec(), n.min(lens.iter().sum()), 0, 0);
        while n > 0 {
            loop {
                cursor = (cursor + 1) % lens.len();
                run += 1;
                if left[cursor] > 0 {
                    break;
                }
            }
            if run == lens.len() as u32 {
                run = n;
            }
            let take = run.min(left[cursor]).min(n);
            left[cursor] -= take;
            n -= take;
            run -= take;
        }
        lens.iter().zip(left).map(|(len, left)| len - left).collect()
    }

    fn taken(lists: ListRule, lens: &[u32], n: u32) -> Vec<u32> {
        let mut turns = RoundRobin::new(&Tuning { lists, ..LINUX_4_17 });
        let (mut left, n) = (lens.to_vec(), n.min(lens.iter().sum()));
        for done in 0..n {
            let list = turns.next(n - done, |list| left[list] == 0);
            left[list] -= 1;
        }
        lens.iter().zip(left).map(|(len, left)| len - left).collect()
    }

    #[test]
    fn round_robin_by_hand() {
        for (lens, n, expected) in [
            // One of each in turn, from list 1 on.
            ([9, 9, 9], 4, [1, 2, 1]),
            // Only one list has pages: it gives all.
            ([0, 0, 9], 5, [0, 0, 5]),
            // List 2 gives one, the empty list 0 and 1 make the next run of list 2 three, which means all the rest.
            ([0, 1, 9], 7, [0, 1, 6]),
            // List 1 is skipped once: 2 of list 2, one of list 0, 2 of list 2, one of list 0.
            ([9, 0, 9], 6, [2, 0, 4]),
            // The remainder is carried over: list 2 had one of its two, so list 0 gives two.
            ([9, 0, 1], 3, [2, 0, 1]),
        ] {
            assert_eq!(taken(ListRule::OrderZero, &lens, n), expected, "{lens:?}, {n}");
            assert_eq!(as_specified(&lens, n), expected, "{lens:?}, {n}");
        }
    }

    proptest! {
        #[test]
        fn round_robin_is_as_specified(
            three in prop::collection::vec(0..40_u32, 3),
            // Mostly empty lists, so that runs are carried over.
            thirteen in prop::collection::vec(prop_oneof![Just(0), Just(0), 0..5_u32, 0..40_u32], 13),
            n in 1..150_u32,
        ) {
            prop_assert_eq!(taken(ListRule::OrderZero, &three, n), as_specified(&three, n));
            prop_assert_eq!(taken(ListRule::HugeShared, &thirteen, n), as_specified(&thirteen, n));
        }
    }
}
