//! The memory of a zone's stores: its regions, and the words in which the other stores and the rules of `research` keep their state.

use core::sync::atomic::AtomicU32;

use crate::machine::Machine;
use crate::policy::Tuning;
use crate::zone::Zone;
use crate::zone::bitmaps::{self, Bitmaps};
use crate::zone::depot::Depot;
use crate::zone::research::ResearchWords;

/// How much each needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreMemory {
    /// Pages of a region, as a power of two, and the number of regions.
    region_order: u32,
    regions: u64,
    /// Numbers of words.
    research: ResearchWords,
    depots: u64,
    bitmaps: usize,
    /// The pageblocks of the zone.
    types: usize,
}

impl StoreMemory {
    /// For a zone that spans some pages, in pageblocks of `sizes[1]` pages together, which are `sizes[2]` pageblocks; with some pagesets of a
    /// batch, for the CPUs of its node. An error is the number of regions that the rules ask for, if the zone has fewer of the largest blocks.
    pub(crate) fn new(tuning: &Tuning, sizes: [u64; 3], sharers: u32, cpus: usize, batch: u32) -> Result<Self, u32> {
        let region_order = tuning.backing.region_order(sizes[1], sharers)?;
        let (regions, types) = (sizes[1].div_ceil(1 << region_order), sizes[2] as usize);
        Ok(StoreMemory {
            region_order,
            regions,
            research: ResearchWords::new(tuning, sizes, cpus, batch),
            depots: if tuning.backing.depot() { regions * Depot::WORDS as u64 } else { 0 },
            bitmaps: if tuning.backing.bitmaps() { bitmaps::words(types) } else { 0 },
            types,
        })
    }

    /// The number of regions.
    pub(crate) fn regions(self) -> usize {
        self.regions as usize
    }

    /// The number of words.
    pub(crate) fn words(self) -> u64 {
        self.research.len() + self.depots + self.bitmaps as u64
    }

    /// Gives a zone's stores their words, which are zero: [`Self::words`].
    pub(crate) fn place<'a, M: Machine>(self, zone: &mut Zone<'a, M>, words: &'a [AtomicU32]) {
        zone.region_order = self.region_order;
        let (research, words) = words.split_at(self.research.len() as usize);
        let (depots, bitmaps) = words.split_at(self.depots as usize);
        zone.research.place(research, self.research);
        zone.depots = depots;
        if self.bitmaps > 0 {
            zone.bitmaps = Bitmaps::new(bitmaps, self.types);
        }
    }
}
