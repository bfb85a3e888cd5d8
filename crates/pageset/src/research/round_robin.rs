//! Drains before 5.18: round robin over the lists. From 4.17 on the blocks are picked before the lock is taken.
//!
//! Specification: `linux-page-allocator.md` 3.1, 3.2.

use crate::buddy::Capture;
use crate::frame::{MigrateType, Order};
use crate::machine::{Access, Line, LockPath, Machine};
use crate::pcp::{CachedZone, PcpGuard};
use crate::policy::lists::{LISTS, order_of};
use crate::policy::{BulkFree, ClusterRule, Tuning};
use crate::sync::LockedWord;
use crate::zone::{Env, ZoneGuard};

impl<M: Machine> CachedZone<'_, M> {
    /// Drains `wanted` pages by a rule of this folder: as one cluster, or round robin. `None` if no such rule is on.
    pub(super) fn drain_by_old_rules<G>(
        &self,
        env: Env<'_, M>,
        pcp: &PcpGuard<'_, M::Lock, G>,
        wanted: u32,
        start: usize,
        capture: Option<&Capture>,
    ) -> Option<u32> {
        if capture.is_none() && self.drains_cluster(env, pcp, wanted, start) {
            return Some(self.drain_cluster(env, pcp, wanted));
        }
        match env.tuning.backing.bulk_free() {
            Some(BulkFree::SinglePass | BulkFree::Chunked) | None => return None,
            // The first pass fetches the memory that the second pass touches. The drained blocks and their order do not
            // change.
            Some(BulkFree::TwoPass) => self.fetch_picks(env, pcp, wanted),
            Some(BulkFree::PickLocked) => {}
        }
        let guard = self.shared.lock(env, LockPath::Drain, 0);
        Some(guard.drain_by_turns(pcp, wanted, capture))
    }

    /// The first pass: touches every page that the drain takes, and fetches the buddies of the first batch of them.
    /// Specification 3.2.
    fn fetch_picks<G>(&self, env: Env<'_, M>, pcp: &PcpGuard<'_, M::Lock, G>, wanted: u32) {
        let pfn = |page| self.shared.frames.pfn(page);
        let mut turns = RoundRobin::new(env.tuning);
        let mut lists: [_; LISTS] = core::array::from_fn(|list| pcp.blocks(list));
        let used = env.tuning.lists.count();
        let mut oldest: [_; LISTS] = core::array::from_fn(|list| if list < used { lists[list].next() } else { None });
        let (mut picked, mut blocks) = (0, 0);
        while picked < wanted {
            let list = turns.next(wanted - picked, |list| oldest[list].is_none());
            let Some(page) = oldest[list] else { return };
            oldest[list] = lists[list].next();
            env.touch(Line::Page(pfn(page)));
            if blocks < pcp.batch.get() {
                env.machine.probe(Access::Prefetch(Line::Page(pfn(page ^ 1))));
            }
            blocks += 1;
            picked += order_of(list).pages() as u32;
        }
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    fn drain_by_turns<G>(&self, pcp: &PcpGuard<'_, M::Lock, G>, wanted: u32, capture: Option<&Capture>) -> u32 {
        let mut drained = 0;
        // If all blocks are on one list of single pages, every turn is that list's.
        let mut filled = (0..self.env.tuning.lists.count()).filter(|&list| !pcp.list(list).is_empty());
        if let (Some(list), None) = (filled.next(), filled.next())
            && order_of(list) == Order::ZERO
        {
            while drained < wanted
                && let Some(pages) = self.drain_one(pcp, list, capture)
            {
                drained += pages;
            }
        }
        let mut turns = RoundRobin::new(self.env.tuning);
        while drained < wanted {
            let list = turns.next(wanted - drained, |list| pcp.list(list).is_empty());
            let pages = self.drain_one(pcp, list, capture);
            debug_assert!(pages.is_some(), "list {list} has no block");
            drained += pages.unwrap_or(0);
        }
        drained
    }
}

/// The lists of a round-robin drain, one entry per block. Specification 3.2.
struct RoundRobin {
    cursor: usize,
    run: u32,
    lists: usize,
}

impl RoundRobin {
    fn new(tuning: &Tuning) -> Self {
        // A batch of only movable pages is found in the first round if the movable list comes last in it. Specification
        // 6.3.
        let cursor =
            if tuning.backing.clusters() == ClusterRule::RefillsAndDrains { MigrateType::Movable.index() } else { 0 };
        RoundRobin { cursor, run: 0, lists: tuning.lists.count() }
    }

    /// The list of the next block, while `wanted` pages remain to be drained.
    fn next(&mut self, wanted: u32, is_empty: impl Fn(usize) -> bool) -> usize {
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

    /// Specification 3.2, step by step: the pages taken from each list when `n` pages are drained.
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
            // One of each list in turn, from list 1 on.
            ([9, 9, 9], 4, [1, 2, 1]),
            // Only one list has pages, so it gives all.
            ([0, 0, 9], 5, [0, 0, 5]),
            // List 2 gives one. The empty lists 0 and 1 make list 2's next run three, which takes all the rest.
            ([0, 1, 9], 7, [0, 1, 6]),
            // List 1 is skipped once per round: 2 of list 2, one of list 0, 2 of list 2, one of list 0.
            ([9, 0, 9], 6, [2, 0, 4]),
            // The remainder of a run is carried over: list 2 had one of its two, so list 0 gives two.
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
            // Mostly empty lists, so that runs carry over.
            thirteen in prop::collection::vec(prop_oneof![Just(0), Just(0), 0..5_u32, 0..40_u32], 13),
            n in 1..150_u32,
        ) {
            prop_assert_eq!(taken(ListRule::OrderZero, &three, n), as_specified(&three, n));
            prop_assert_eq!(taken(ListRule::HugeShared, &thirteen, n), as_specified(&thirteen, n));
        }
    }
}
