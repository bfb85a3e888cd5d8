//! An allocator whose metadata all lie in one piece of memory.

use core::iter::repeat_with;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, AtomicU32};

use bump_into::BumpInto;

use crate::alloc::Allocator;
use crate::alloc::config::{Config, MapError, Metadata, ZoneMetadata};
use crate::machine::Machine;
use crate::pcp::{CachedZone, Pageset};
use crate::zone::region::Region;

impl<M: Machine<Lock: 'static> + 'static> Allocator<'static, M> {
    /// Builds an allocator whose metadata lie in `memory`: for a kernel at boot, which has no heap. Writes all of the
    /// metadata, once. See [`Self::new`].
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ZONE, ranges: &[ZONE] }];
    /// let config = Config::new(&zones, &[NodeId(0)]);
    /// let bytes = config.metadata_bytes::<Kernel>()?;
    /// let memory = Box::leak(vec![MaybeUninit::uninit(); bytes].into_boxed_slice());
    /// let allocator = Allocator::from_bytes(Kernel, &config, memory)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::new`], or memory of less than [`Config::metadata_bytes`]; more is not used. Nothing has been written then.
    #[inline]
    pub fn from_bytes(
        machine: M,
        config: &Config<'_>,
        memory: &'static mut [MaybeUninit<u8>],
    ) -> Result<Self, MapError> {
        let expected = config.metadata_bytes::<M>()?;
        let mut arena = Some(arena(None, memory, expected)?);
        let metadata = Self::place(config, |_| Ok(arena.take()))?;
        Allocator::new(machine, config, metadata)
    }

    /// As [`Self::from_bytes`], with memory for each zone: for a kernel that places the metadata of a zone on the zone's node. Asks
    /// `memory` for each zone, by its number and with the bytes it needs. The first zone's also has the part that all zones share.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ZONE, ranges: &[ZONE] }];
    /// let config = Config::new(&zones, &[NodeId(0)]);
    /// // A kernel takes the bytes from memory of the zone's node.
    /// let memory = |_zone, bytes| &mut *Box::leak(vec![MaybeUninit::uninit(); bytes].into_boxed_slice());
    /// let allocator = Allocator::from_zone_bytes(Kernel, &config, memory)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::from_bytes`], with the zone whose memory is too small; the memory of the zones before it is then written and lost.
    pub fn from_zone_bytes(
        machine: M,
        config: &Config<'_>,
        mut memory: impl FnMut(usize, usize) -> &'static mut [MaybeUninit<u8>],
    ) -> Result<Self, MapError> {
        let metadata = Self::place(config, |zone| {
            let bytes = config.zone_metadata_bytes::<M>(zone)?;
            arena(Some(zone), memory(zone, bytes), bytes).map(Some)
        })?;
        Allocator::new(machine, config, metadata)
    }

    /// The metadata in memory. `next` gives memory for a zone, or `None` if the memory before has room.
    #[inline(never)]
    fn place(
        config: &Config<'_>,
        mut next: impl FnMut(usize) -> Result<Option<BumpInto<'static>>, MapError>,
    ) -> Result<Metadata<'static, M>, MapError> {
        let size = config.metadata_size()?;
        // Each piece of memory has the size that was computed, so no part is too large for it.
        let short = MapError::Metadata { zone: None, part: "bytes", given: 0, expected: 0 };
        let mut arena = next(0)?.ok_or(short)?;
        let zone = || CachedZone::new(ZoneMetadata { tags: &[], words: &[], pagesets: &[], regions: &[] });
        let zones = part(&arena, size.zones, zone).ok_or(short)?;
        let words = part(&arena, size.words, AtomicU32::default).ok_or(short)?;
        for (number, zone) in zones.iter_mut().enumerate() {
            if number > 0
                && let Some(memory) = next(number)?
            {
                arena = memory;
            }
            let size = config.zone_metadata_size(number)?;
            let pagesets = part(&arena, size.pagesets, Pageset::default).ok_or(short)?;
            let words = part(&arena, size.words, AtomicU32::default).ok_or(short)?;
            let regions = part(&arena, size.regions, Region::default).ok_or(short)?;
            let tags = part(&arena, size.tags, AtomicU8::default).ok_or(short)?;
            zone.set_metadata(ZoneMetadata { tags, words, pagesets, regions });
        }
        Ok(Metadata { words, zones })
    }
}

/// Memory of at least the expected size. More is not used.
fn arena(
    zone: Option<usize>,
    memory: &'static mut [MaybeUninit<u8>],
    expected: usize,
) -> Result<BumpInto<'static>, MapError> {
    let given = memory.len();
    let memory = memory.get_mut(..expected);
    memory.map(BumpInto::from_slice).ok_or(MapError::Metadata { zone, part: "bytes", given, expected })
}

/// A part of the metadata. A kernel builds its allocator on a small stack: only here a value is on it.
#[inline(never)]
fn part<T>(arena: &BumpInto<'static>, len: usize, make: impl FnMut() -> T) -> Option<&'static mut [T]> {
    arena.alloc_n_with(len, repeat_with(make)).ok()
}
