//! What the rules of the layer `research` keep in a zone: the owners of pageblocks, clusters of single pages, refills in flight, and
//! counters. Without the feature `research` the type in `no_research` replaces [`Research`]: it has no memory, and its methods return
//! constants.

pub(crate) mod clusters;
pub(crate) mod in_flight;
mod owners;

use core::sync::atomic::AtomicU32;

use crate::policy::Tuning;
use crate::sync::{AtomicU64, LockedWord, const_new};

use clusters::Clusters;
use in_flight::InFlight;
use owners::Owners;

/// The state of these rules in one zone. A zone with such a rule has one region.
#[derive(Debug)]
pub(crate) struct Research<'a> {
    pub(crate) owners: Owners<'a>,
    pub(crate) clusters: Clusters<'a>,
    pub(crate) in_flight: InFlight,
    /// Pageblocks claimed by refills, and pages that refills found in their CPU's own pageblocks.
    pub(crate) claimed_blocks: AtomicU64,
    pub(crate) own_parts: AtomicU64,
    /// Pages freed without merging, and those of them that have merged since.
    pub(crate) skips: AtomicU64,
    pub(crate) skips_merged: AtomicU64,
}

/// The words of a zone with `types` pageblocks, in which blocks have numbers up to `pages`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResearchWords {
    clusters: u64,
    owners: u64,
    pages: u64,
    types: u64,
    batch: u32,
}

impl ResearchWords {
    pub(crate) fn new(tuning: &Tuning, [span, pages, types]: [u64; 3], cpus: usize, batch: u32) -> Self {
        let clusters = if tuning.backing.has_clusters() { Clusters::words(span, pages, batch) } else { 0 };
        let owners = if tuning.backing.has_owners() { Owners::words(types as usize, cpus) as u64 } else { 0 };
        ResearchWords { clusters, owners, pages, types, batch }
    }

    /// The number of words.
    pub(crate) fn len(self) -> u64 {
        self.clusters + self.owners
    }
}

impl<'a> Research<'a> {
    const_new! {
        #[inline]
        pub(crate) fn new() -> Self {
            Research {
                owners: Owners::NONE,
                clusters: Clusters::none(),
                in_flight: InFlight::new(),
                claimed_blocks: AtomicU64::new(0),
                own_parts: AtomicU64::new(0),
                skips: AtomicU64::new(0),
                skips_merged: AtomicU64::new(0),
            }
        }
    }

    /// Gives the rules their memory, which is zero: as much as `size` says.
    pub(crate) fn place(&mut self, words: &'a [AtomicU32], size: ResearchWords) {
        let (clusters, owners) = words.split_at((size.clusters as usize).min(words.len()));
        self.clusters = Clusters::new(clusters, size.pages as usize, size.batch);
        self.owners = Owners::new(owners, if size.owners > 0 { size.types as usize } else { 0 });
    }

    /// Whether no page is in flight to a pageset.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.in_flight.refills() == 0
    }

    /// Sets the batch of the zone's pagesets.
    pub(crate) fn set_batch(&self, pages: u32) {
        self.clusters.set_limit(pages);
    }

    /// Pageblocks claimed by refills, pages that refills found in their CPU's own pageblocks, pages freed without merging, pages
    /// allocated and freed as whole clusters, and pages without a cluster for lack of memory.
    pub(crate) fn counters(&self) -> [u64; 6] {
        let Clusters { taken, given, shortages, .. } = &self.clusters;
        [&self.claimed_blocks, &self.own_parts, &self.skips, taken, given, shortages].map(LockedWord::get)
    }
}
