//! Metadata from the heap: for tests, replays, and programs.

extern crate alloc;

use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, AtomicU32};

use zerocopy::FromZeros;

use crate::alloc::config::{Config, MapError, Metadata, ZoneMetadata};
use crate::machine::Machine;
use crate::pcp::CachedZone;
use crate::pcp::Pageset;
use crate::zone::region::Region;

/// The memory for one allocator's metadata. If the heap supports it, the operating system zeroes tags and words on
/// first touch.
#[derive(Debug)]
pub struct OwnedMetadata<M: Machine> {
    words: Vec<AtomicU32>,
    zones: Vec<OwnedZone<M::Lock>>,
}

/// The memory for one zone's metadata.
#[derive(Debug)]
struct OwnedZone<L> {
    tags: Vec<AtomicU8>,
    words: Vec<AtomicU32>,
    pagesets: Vec<Pageset<L>>,
    regions: Vec<Region<L>>,
}

impl<M: Machine> OwnedMetadata<M> {
    /// Allocates the metadata for a configuration.
    ///
    /// # Errors
    /// A fault of the configuration, or too little memory.
    pub fn new(config: &Config<'_>) -> Result<Self, MapError> {
        let size = config.metadata_size()?;
        let short = |zone, part, expected| MapError::Metadata { zone, part, given: 0, expected };
        let of_zone = |zone| {
            let size = config.zone_metadata_size(zone)?;
            Ok(OwnedZone {
                tags: AtomicU8::new_vec_zeroed(size.tags).map_err(|_| short(Some(zone), "tags", size.tags))?,
                words: AtomicU32::new_vec_zeroed(size.words).map_err(|_| short(Some(zone), "words", size.words))?,
                pagesets: (0..size.pagesets).map(|_| Pageset::default()).collect(),
                regions: (0..size.regions).map(|_| Region::default()).collect(),
            })
        };
        Ok(OwnedMetadata {
            words: AtomicU32::new_vec_zeroed(size.words).map_err(|_| short(None, "words", size.words))?,
            zones: (0..size.zones).map(of_zone).collect::<Result<_, _>>()?,
        })
    }

    /// Zones without pages, which the caller keeps next to this value.
    #[must_use]
    pub fn zones(&self) -> Vec<CachedZone<'_, M>> {
        let mut zones = vec![];
        for OwnedZone { tags, words, pagesets, regions } in &self.zones {
            zones.push(CachedZone::new(ZoneMetadata { tags, words, pagesets, regions }));
        }
        zones
    }

    /// Lends the memory to one allocator. The caller must not build a second allocator from it.
    pub fn lend<'a>(&'a self, zones: &'a mut [CachedZone<'a, M>]) -> Metadata<'a, M> {
        Metadata { words: &self.words, zones }
    }
}
