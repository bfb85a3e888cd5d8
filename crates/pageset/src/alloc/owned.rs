//! Metadata from the heap: for tests, replays, and programs.

extern crate alloc;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, AtomicU32};

use zerocopy::FromZeros;

use crate::alloc::config::{Config, MapError, Metadata};
use crate::machine::Machine;
use crate::pcp::CachedZone;
use crate::pcp::Pageset;

/// The memory for one allocator's metadata. If the heap supports it, the operating system zeroes tags and words on
/// first touch.
#[derive(Debug)]
pub struct OwnedMetadata<M: Machine> {
    tags: Vec<AtomicU8>,
    words: Vec<AtomicU32>,
    pagesets: Vec<Pageset<M::Lock>>,
    zones: usize,
}

impl<M: Machine> OwnedMetadata<M> {
    /// Allocates the metadata for a configuration.
    ///
    /// # Errors
    /// A fault of the configuration, or too little memory.
    pub fn new(config: &Config<'_>) -> Result<Self, MapError> {
        let size = config.metadata_size()?;
        let short = |part, expected| MapError::Metadata { part, given: 0, expected };
        Ok(OwnedMetadata {
            tags: AtomicU8::new_vec_zeroed(size.tags).map_err(|_| short("tags", size.tags))?,
            words: AtomicU32::new_vec_zeroed(size.words).map_err(|_| short("words", size.words))?,
            pagesets: (0..size.pagesets).map(|_| Pageset::default()).collect(),
            zones: size.zones,
        })
    }

    /// Empty zones, which the caller keeps next to this value.
    #[must_use]
    pub fn zones<'a>(&self) -> Vec<CachedZone<'a, M>> {
        (0..self.zones).map(|_| CachedZone::empty()).collect()
    }

    /// Lends the memory to one allocator. The caller must not build a second allocator from it.
    pub fn lend<'a>(&'a self, zones: &'a mut [CachedZone<'a, M>]) -> Metadata<'a, M> {
        Metadata { tags: &self.tags, words: &self.words, pagesets: &self.pagesets, zones }
    }
}
