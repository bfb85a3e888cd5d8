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
        let metadata = Self::place(config, memory)?;
        Allocator::new(machine, config, metadata)
    }

    /// The metadata in a piece of memory.
    #[inline(never)]
    fn place(config: &Config<'_>, memory: &'static mut [MaybeUninit<u8>]) -> Result<Metadata<'static, M>, MapError> {
        let (given, expected) = (memory.len(), config.metadata_bytes::<M>()?);
        let short = MapError::Metadata { zone: None, part: "bytes", given, expected };
        let arena = BumpInto::from_slice(memory.get_mut(..expected).ok_or(short)?);
        let size = config.metadata_size()?;
        let zone = || CachedZone::new(ZoneMetadata { tags: &[], words: &[], pagesets: &[], regions: &[] });
        let zones = part(&arena, size.zones, zone).ok_or(short)?;
        for (number, zone) in zones.iter_mut().enumerate() {
            let size = config.zone_metadata_size(number)?;
            let pagesets = part(&arena, size.pagesets, Pageset::default).ok_or(short)?;
            let words = part(&arena, size.words, AtomicU32::default).ok_or(short)?;
            let regions = part(&arena, size.regions, Region::default).ok_or(short)?;
            let tags = part(&arena, size.tags, AtomicU8::default).ok_or(short)?;
            zone.set_metadata(ZoneMetadata { tags, words, pagesets, regions });
        }
        Ok(Metadata { words: part(&arena, size.words, AtomicU32::default).ok_or(short)?, zones })
    }
}

/// A part of the metadata. A kernel builds its allocator on a small stack: only here a value is on it.
#[inline(never)]
fn part<T>(arena: &BumpInto<'static>, len: usize, make: impl FnMut() -> T) -> Option<&'static mut [T]> {
    arena.alloc_n_with(len, repeat_with(make)).ok()
}
