//! The words of a zone's metadata in which its stores, and the rules of `research`, keep their state.

use core::sync::atomic::AtomicU32;

use crate::machine::Machine;
use crate::policy::Tuning;
use crate::zone::Zone;
use crate::zone::bitmaps::{self, Bitmaps};
use crate::zone::depot::Depot;
use crate::zone::research::ResearchWords;

/// How many words each needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreWords {
    research: ResearchWords,
    depots: u64,
    bitmaps: usize,
    /// The pageblocks of the zone.
    types: usize,
}

impl StoreWords {
    /// For a zone that spans some pages, in pageblocks of `sizes[1]` pages together, which are `sizes[2]` pageblocks; in some regions, with
    /// some pagesets of a batch.
    pub(crate) fn new(tuning: &Tuning, sizes: [u64; 3], regions: u64, cpus: usize, batch: u32) -> Self {
        let types = sizes[2] as usize;
        StoreWords {
            research: ResearchWords::new(tuning, sizes, cpus, batch),
            depots: if tuning.backing.depot() { regions * Depot::WORDS as u64 } else { 0 },
            bitmaps: if tuning.backing.bitmaps() { bitmaps::words(types) } else { 0 },
            types,
        }
    }

    /// Their number.
    pub(crate) fn len(self) -> u64 {
        self.research.len() + self.depots + self.bitmaps as u64
    }

    /// Gives a zone's stores their words, which are zero: [`Self::len`].
    pub(crate) fn place<'a, M: Machine>(self, zone: &mut Zone<'a, M>, words: &'a [AtomicU32]) {
        let (research, words) = words.split_at(self.research.len() as usize);
        let (depots, bitmaps) = words.split_at(self.depots as usize);
        zone.research.place(research, self.research);
        zone.depots = depots;
        if self.bitmaps > 0 {
            zone.bitmaps = Bitmaps::new(bitmaps, self.types);
        }
    }
}
