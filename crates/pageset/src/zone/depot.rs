//! A region's depot: batches of blocks that drains left there as they were, for refills to take as they are.
//!
//! Where one CPU frees what another one allocated, each block would merge in one call and be split again in the next. A batch that
//! passes through the depot costs a copy of its numbers: no tag, link or free list is touched. The blocks keep the tags of blocks in
//! pagesets.
//!
//! The words of a depot are [`Depot::SLOTS`] slots. A slot has a link, the number of its blocks, and the blocks. All calls are made
//! with the region's lock held, except where they say otherwise.

use core::sync::atomic::AtomicU32;

use crate::policy::lists::{LISTS, order_of};
use crate::sync::{AtomicU64, LockedWord};

/// The first words of a slot: the slot below it on its list, plus one; its number of blocks.
const BELOW: usize = 0;
const COUNT: usize = 1;
const FIRST: usize = 2;

/// The slots of a region, and which of them hold batches.
#[derive(Debug)]
pub(crate) struct Depot {
    /// The newest batch of each list: its slot plus one, 0 for none.
    newest: [AtomicU32; LISTS],
    /// The first returned slot plus one, and the number of slots that were used.
    free: AtomicU32,
    used: AtomicU32,
    /// Pages in the depot, and the fewest since [`Self::idle_pages`] was asked last.
    pages: AtomicU32,
    fewest: AtomicU32,
    /// Pages that drains left here, and pages that refills took; the callers count them. Each can be read without the lock.
    pub(crate) pages_in: AtomicU64,
    pub(crate) pages_out: AtomicU64,
    /// [`Self::demand`] counts from here.
    demand_from: AtomicU64,
}

impl Depot {
    /// Batches that fit. A guess: as many single pages as the largest refill.
    pub(crate) const SLOTS: usize = 32;
    /// Words of a slot: four cache lines, as a chunk of a pageset's lists.
    const SLOT_WORDS: usize = 64;
    /// The most blocks of a batch.
    pub(crate) const BATCH: usize = Self::SLOT_WORDS - FIRST;
    /// The words of a depot.
    pub(crate) const WORDS: usize = Self::SLOTS * Self::SLOT_WORDS;

    #[inline]
    pub(crate) const fn new() -> Self {
        Depot {
            newest: [const { AtomicU32::new(0) }; LISTS],
            free: AtomicU32::new(0),
            used: AtomicU32::new(0),
            pages: AtomicU32::new(0),
            fewest: AtomicU32::new(0),
            pages_in: AtomicU64::new(0),
            pages_out: AtomicU64::new(0),
            demand_from: AtomicU64::new(0),
        }
    }

    /// Pages in the depot, without the lock at a recent moment.
    #[inline]
    pub(crate) fn pages(&self) -> u32 {
        self.pages.get()
    }

    /// Whether the depot has blocks of a list. Without the lock at a recent moment.
    #[inline]
    pub(crate) fn has(&self, list: usize) -> bool {
        self.newest[list].get() != 0
    }

    /// Whether a tick has nothing to do. Without the lock at a recent moment.
    pub(crate) fn is_idle(&self) -> bool {
        self.pages() == 0 && self.demand() == 0
    }

    /// Pages that refills took lately: since the last call of [`Self::idle_pages`], half of those before, and so on.
    fn demand(&self) -> u32 {
        // Without the lock the words may be of different moments.
        let pages = self.pages_out.get().saturating_sub(self.demand_from.get());
        pages.min(u64::from(u32::MAX / 4)) as u32
    }

    /// The blocks of a list for which there is room, at most a batch, if the depot may hold `limit` pages. Without the lock a guess.
    ///
    /// Beyond two batches, a depot holds at most twice the pages that refills took lately. What a CPU frees that nobody allocates,
    /// in any order, would keep larger blocks from merging.
    pub(crate) fn room(&self, words: &[AtomicU32], list: usize, limit: u32) -> usize {
        let has_slot = self.free.get() != 0 || (self.used.get() as usize) < Self::SLOTS;
        let places = if has_slot { Self::BATCH } else { self.places(words, list).len() };
        let limit = limit.min(2 * ((Self::BATCH as u32) << order_of(list).get()) + 2 * self.demand());
        places.min((limit.saturating_sub(self.pages.get()) >> order_of(list).get()) as usize)
    }

    /// The unused places of the newest batch of a list.
    fn places<'w>(&self, words: &'w [AtomicU32], list: usize) -> &'w [AtomicU32] {
        let slot = self.newest[list].get();
        let batch = if slot > 0 { at(words, slot) } else { return &[] };
        debug_assert!(batch[COUNT].get() as usize <= Self::BATCH, "a batch of {} blocks", batch[COUNT].get());
        batch.get(FIRST + batch[COUNT].get() as usize..).unwrap_or_default()
    }

    /// Leaves blocks of one list, at most [`Self::room`]. Calls `touch` before it writes.
    #[cfg_attr(feature = "rules", inline(always))]
    #[cfg_attr(not(feature = "rules"), inline(never))]
    pub(crate) fn put(&self, words: &[AtomicU32], list: usize, blocks: &[AtomicU32], touch: &dyn Fn()) {
        let before = self.pages.get();
        touch();
        let pages = (blocks.len() as u32) << order_of(list).get();
        self.pages.set(before + pages);
        let places = self.places(words, list);
        let (here, rest) = blocks.split_at(places.len().min(blocks.len()));
        places.iter().zip(here).for_each(|(place, block)| place.set(block.get()));
        if !here.is_empty() {
            let count = &at(words, self.newest[list].get())[COUNT];
            count.set(count.get() + here.len() as u32);
        }
        if !rest.is_empty() {
            self.put_batch(words, list, rest);
        }
    }

    /// Leaves blocks in a slot of their own.
    fn put_batch(&self, words: &[AtomicU32], list: usize, blocks: &[AtomicU32]) {
        let slot = match self.free.get() {
            0 => {
                self.used.set(self.used.get() + 1);
                self.used.get()
            }
            returned => {
                self.free.set(at(words, returned)[BELOW].get());
                returned
            }
        };
        let [below, count, places @ ..] = at(words, slot) else { return };
        debug_assert!(blocks.len() <= places.len(), "a batch of {} blocks", blocks.len());
        below.set(self.newest[list].get());
        count.set(blocks.len() as u32);
        places.iter().zip(blocks).for_each(|(place, block)| place.set(block.get()));
        self.newest[list].set(slot);
    }

    /// Takes at most `most` blocks of the newest batch of a list. The result is valid until the next call with the lock held. Calls
    /// `touch` before it writes.
    #[cfg_attr(feature = "rules", inline(always))]
    #[cfg_attr(not(feature = "rules"), inline(never))]
    pub(crate) fn take<'w>(
        &self,
        words: &'w [AtomicU32],
        list: usize,
        most: usize,
        touch: &dyn Fn(),
    ) -> &'w [AtomicU32] {
        let slot = self.newest[list].get();
        if slot == 0 || most == 0 {
            return &[];
        }
        touch();
        let batch = at(words, slot);
        let count = batch[COUNT].get() as usize;
        let left = count.saturating_sub(most);
        if left == 0 {
            self.newest[list].set(batch[BELOW].get());
            batch[BELOW].set(self.free.get());
            self.free.set(slot);
        } else {
            batch[COUNT].set(left as u32);
        }
        let pages = ((count - left) as u32) << order_of(list).get();
        self.pages.set(self.pages.get() - pages);
        self.fewest.set(self.fewest.get().min(self.pages.get()));
        &batch[FIRST + left..FIRST + count]
    }

    /// A list that has a batch.
    pub(crate) fn some_list(&self) -> Option<usize> {
        self.newest.iter().position(|newest| newest.get() != 0)
    }

    /// The fewest pages that the depot had since the last call: no refill needed them.
    pub(crate) fn idle_pages(&self) -> u32 {
        let idle = self.fewest.get();
        self.fewest.set(self.pages.get());
        self.demand_from.set((self.demand_from.get() + self.pages_out.get()).div_ceil(2));
        idle
    }

    /// Plants a fault: the newest batch of a list has a block less, and the count of pages does not know.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn lose_block(&self, words: &[AtomicU32], list: usize) {
        let count = &at(words, self.newest[list].get())[COUNT];
        count.set(count.get() - 1);
    }

    /// The batches of a list, the newest first, each with its blocks.
    pub(crate) fn batches<'w>(&self, words: &'w [AtomicU32], list: usize) -> impl Iterator<Item = &'w [AtomicU32]> {
        let mut slot = self.newest[list].get();
        // A corrupt chain may be circular.
        (0..Self::SLOTS).map_while(move |_| {
            let batch = slot.checked_sub(1).map(|_| at(words, slot))?;
            slot = batch[BELOW].get();
            batch.get(FIRST..FIRST + batch[COUNT].get() as usize)
        })
    }
}

/// A slot by its number plus one.
fn at(words: &[AtomicU32], slot: u32) -> &[AtomicU32] {
    let start = (slot as usize - 1) * Depot::SLOT_WORDS;
    &words[start..start + Depot::SLOT_WORDS]
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    fn words(numbers: impl IntoIterator<Item = u32>) -> Vec<AtomicU32> {
        numbers.into_iter().map(AtomicU32::new).collect()
    }

    fn taken(blocks: &[AtomicU32]) -> Vec<u32> {
        blocks.iter().map(LockedWord::get).collect()
    }

    #[test]
    fn the_newest_batch_leaves_first() {
        let (depot, memory) = (Depot::new(), words((0..Depot::WORDS).map(|_| 0)));
        depot.put(&memory, 2, &words([1, 2, 3]), &|| ());
        depot.put(&memory, 2, &words([4, 5]), &|| ());
        depot.put(&memory, 9, &words([8]), &|| ());
        assert_eq!((depot.pages(), depot.some_list()), (5 + 8, Some(2)));
        assert_eq!(taken(depot.take(&memory, 2, 4, &|| ())), [2, 3, 4, 5], "two batches that fit a slot are one");
        assert_eq!(taken(depot.take(&memory, 2, 2, &|| ())), [1]);
        assert_eq!(taken(depot.take(&memory, 2, 2, &|| ())), []);
        depot.put(&memory, 2, &words(0..60), &|| ());
        depot.put(&memory, 2, &words(60..70), &|| ());
        assert_eq!(
            taken(depot.take(&memory, 2, 62, &|| ())),
            Vec::from_iter(62..70),
            "the rest of a batch is one of its own"
        );
        assert_eq!(taken(depot.take(&memory, 2, 62, &|| ())), Vec::from_iter(0..62));
        assert_eq!((depot.pages(), depot.some_list()), (8, Some(9)));
    }

    #[test]
    fn slots_and_pages_are_limited() {
        let (depot, memory) = (Depot::new(), words((0..Depot::WORDS).map(|_| 0)));
        let batch = words(0..62);
        depot.pages_out.set(1 << 20);
        for round in 0..3 {
            for slot in 0..Depot::SLOTS {
                assert_eq!(depot.room(&memory, 0, 1 << 20), 62, "round {round}, slot {slot}");
                depot.put(&memory, slot % 3, &batch, &|| ());
            }
            assert_eq!(depot.room(&memory, 0, 1 << 20), 0);
            assert_eq!((0..3).map(|list| depot.batches(&memory, list).count()).sum::<usize>(), Depot::SLOTS);
            while let Some(list) = depot.some_list() {
                assert_eq!(depot.take(&memory, list, 62, &|| ()).len(), 62);
            }
        }
        // List 9 has blocks of order 3.
        assert_eq!((depot.room(&memory, 9, 100), depot.room(&memory, 0, 40)), (12, 40));
    }

    /// Two batches without a demand, then twice what was taken lately.
    #[test]
    fn a_depot_follows_its_demand() {
        let (depot, memory) = (Depot::new(), words((0..Depot::WORDS).map(|_| 0)));
        let room = || depot.room(&memory, 0, 1 << 20);
        (0..2).for_each(|_| depot.put(&memory, 0, &words(0..62), &|| ()));
        assert_eq!((room(), depot.is_idle()), (0, false));
        depot.pages_out.set(20);
        let later = |_| {
            depot.idle_pages();
            room()
        };
        assert_eq!((room(), [(); 6].map(later)), (40, [20, 10, 4, 2, 0, 0]));
        while !depot.take(&memory, 0, 62, &|| ()).is_empty() {}
        assert!(depot.is_idle());
    }

    #[test]
    fn pages_that_stay_are_idle() {
        let (depot, memory) = (Depot::new(), words((0..Depot::WORDS).map(|_| 0)));
        depot.put(&memory, 0, &words(0..62), &|| ());
        assert_eq!(depot.idle_pages(), 0, "they have just come");
        depot.take(&memory, 0, 22, &|| ());
        depot.put(&memory, 0, &words(0..50), &|| ());
        assert_eq!(depot.idle_pages(), 40);
        assert_eq!(depot.idle_pages(), 90);
    }
}
