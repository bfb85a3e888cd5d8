//! An allocator whose metadata all lie in one piece of memory.

use core::iter::repeat_with;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, AtomicU32};

use bump_into::BumpInto;

use crate::alloc::Allocator;
use crate::alloc::config::{Config, MapError, Metadata, ZoneMetadata};
use crate::buddy::region::Region;
use crate::machine::Machine;
use crate::pcp::{CachedZone, Pageset};

impl<M: Machine<Lock: 'static> + 'static> Allocator<'static, M> {
    /// Builds an allocator whose metadata lie in `memory`: for a kernel at boot, which has no heap. Writes all of the
    /// metadata, once. See [`Self::new`].
    ///
    /// # Errors
    /// As [`Self::new`], or memory of less than [`Config::metadata_bytes`]; more is not used. Nothing has been written then.
    pub fn from_bytes(
        machine: M,
        config: &Config<'_>,
        memory: &'static mut [MaybeUninit<u8>],
    ) -> Result<Self, MapError> {
        let (given, expected) = (memory.len(), config.metadata_bytes::<M>()?);
        let short = || MapError::Metadata { zone: None, part: "bytes", given, expected };
        let arena = BumpInto::from_slice(memory.get_mut(..expected).ok_or_else(short)?);
        let size = config.metadata_size()?;
        let zero = || AtomicU32::new(0);
        let zone = |number| {
            let size = config.zone_metadata_size(number).ok()?;
            let pagesets = arena.alloc_n_with(size.pagesets, repeat_with(Pageset::default)).ok()?;
            let words = arena.alloc_n_with(size.words, repeat_with(zero)).ok()?;
            let regions = arena.alloc_n_with(size.regions, repeat_with(Region::default)).ok()?;
            let tags = arena.alloc_n_with(size.tags, repeat_with(|| AtomicU8::new(0))).ok()?;
            Some(CachedZone::new(ZoneMetadata { tags, words, pagesets, regions }))
        };
        // The zones' own memory is taken while the slice of zones is filled.
        let zones = arena.alloc_n_with(size.zones, (0..size.zones).map_while(zone)).map_err(|_| short())?;
        let words = arena.alloc_n_with(size.words, repeat_with(zero)).map_err(|_| short())?;
        Allocator::new(machine, config, Metadata { words, zones })
    }
}
