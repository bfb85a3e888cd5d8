//! Metadata from the heap, for machines that have one: tests, replays, programs.

extern crate alloc;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, AtomicU32};

use zerocopy::FromZeros;

use crate::alloc::config::{Config, MapError, Metadata};
use crate::machine::Machine;
use crate::pcp::CachedZone;
use crate::pcp::Pageset;

/// The memory for one allocator's books. Tags and words are zeroed by the system as they are touched, where its
/// heap does that.
#[derive(Debug)]
pub struct OwnedMetadata<M: Machine> {
    tags: Vec<AtomicU8>,
    words: Vec<AtomicU32>,
    pagesets: Vec<Pageset<M::Lock>>,
    zones: usize,
}

impl<M: Machine> OwnedMetadata<M> {
    /// Memory for an allocator of this configuration.
    ///
    /// # Errors
    /// What is wrong with the configuration, or that there is not enough memory.
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

    /// Empty zones, to be kept beside this.
    #[must_use]
    pub fn zones<'a>(&self) -> Vec<CachedZone<'a, M>> {
        (0..self.zones).map(|_| CachedZone::empty()).collect()
    }

    /// Lends the memory to one allocator. A second one would find it in use and is not to be built.
    pub fn lend<'a>(&'a self, zones: &'a mut [CachedZone<'a, M>]) -> Metadata<'a, M> {
        Metadata { tags: &self.tags, words: &self.words, pagesets: &self.pagesets, zones }
    }
}
