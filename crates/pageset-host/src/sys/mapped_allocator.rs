//! The allocator, with its metadata in a mapping that the system zeroes when it is touched.

use std::fmt;
use std::io;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU32};

use pageset::alloc::config::{MetadataSize, ZoneMetadata, ZoneMetadataSize};
use pageset::pcp::Pageset;
use pageset::{Allocator, CachedZone, Config, Machine, MapError, Metadata, Region};

use super::mapping::{Backing, Mapping};

/// The alignment of each slice in the mapping in bytes: two cache lines, which processors fetch together.
const ALIGN: usize = 128;

/// An allocator and the mapping that holds its metadata.
pub(crate) struct MappedAllocator<M: Machine + 'static> {
    /// It refers to `memory`, so it never leaves this value. It is declared before `memory`, so it is dropped first.
    allocator: Allocator<'static, M>,
    memory: Mapping,
}

impl<M: Machine> fmt::Debug for MappedAllocator<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedAllocator").field("bytes", &self.memory.bytes()).finish_non_exhaustive()
    }
}

/// Why an allocator cannot be created.
#[derive(Debug)]
pub(crate) enum MetadataError {
    /// The allocator refuses the configuration.
    Config(MapError),
    /// The system refuses the address space.
    Memory { bytes: usize, source: io::Error },
}

/// Places slices one after the other in a mapping that nothing else refers to.
struct Arena {
    memory: Mapping,
    used: usize,
}

/// The bytes of a slice of `len` values, with the padding to [`ALIGN`], or `None` on overflow.
fn bytes_of<T>(len: usize) -> Option<usize> {
    const { assert!(align_of::<T>() <= ALIGN) };
    len.checked_mul(size_of::<T>())?.checked_next_multiple_of(ALIGN)
}

impl Arena {
    /// Places a slice of `len` values from `value`, or of zeros if `value` is `None`.
    ///
    /// # Safety
    /// (1) Without `value`, zeroed memory is a valid `T`. (2) The caller does not use the slice after the mapping is
    /// dropped, although its lifetime would allow it.
    ///
    /// # Panics
    /// If the slice does not fit in the rest of the mapping.
    unsafe fn place<T: 'static>(&mut self, len: usize, value: Option<&mut dyn FnMut(usize) -> T>) -> &'static mut [T] {
        let bytes = bytes_of::<T>(len).unwrap_or(usize::MAX);
        assert!(
            bytes <= self.memory.bytes() - self.used,
            "cannot place {bytes} bytes of metadata: the mapping is full"
        );
        let start = self.memory.pointer_to(self.memory.start() + self.used).cast::<T>();
        self.used += bytes;
        if let Some(value) = value {
            // SAFETY: (1) the slice is inside the mapping, by the assertion; (2) it is aligned, because a mapping starts at a
            // page and all slices take multiples of ALIGN.
            (0..len).for_each(|i| unsafe { start.add(i).write(value(i)) });
        }
        // SAFETY: (1) and (2) as above; (3) the values are initialised, or are zeros, which the caller guarantees to be
        // valid; (4) each call returns another range, and nothing else refers to the mapping.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) }
    }
}

/// The size of the mapping in bytes. `None` on overflow.
fn bytes_for<M: Machine + 'static>(common: &MetadataSize, zones: &[ZoneMetadataSize]) -> Option<usize> {
    let of_zone = |size: &ZoneMetadataSize| {
        let bytes = bytes_of::<Pageset<M::Lock>>(size.pagesets)?.checked_add(bytes_of::<AtomicU32>(size.words)?)?;
        let bytes = bytes.checked_add(bytes_of::<Region<M::Lock>>(size.regions)?)?;
        bytes.checked_add(bytes_of::<AtomicU8>(size.tags)?)
    };
    let common = [bytes_of::<CachedZone<'static, M>>(common.zones), bytes_of::<AtomicU32>(common.words)];
    let bytes =
        common.into_iter().chain(zones.iter().map(of_zone)).try_fold(0_usize, |sum, part| sum.checked_add(part?))?;
    bytes.checked_next_multiple_of(rustix::param::page_size())
}

impl<M: Machine> MappedAllocator<M> {
    /// Maps memory for the metadata and creates the allocator.
    pub(crate) fn new(machine: M, config: &Config<'_>) -> Result<MappedAllocator<M>, MetadataError> {
        let size = config.metadata_size().map_err(MetadataError::Config)?;
        let sizes: Result<Vec<_>, _> = (0..size.zones).map(|zone| config.zone_metadata_size(zone)).collect();
        let sizes = sizes.map_err(MetadataError::Config)?;
        let bytes = bytes_for::<M>(&size, &sizes).unwrap_or(usize::MAX);
        let memory = if bytes == usize::MAX {
            Err(io::ErrorKind::OutOfMemory.into())
        } else {
            Mapping::reserve(bytes, rustix::param::page_size(), Backing::Lazy)
        };
        let memory = memory.map_err(|source| MetadataError::Memory { bytes, source })?;
        let mut arena = Arena { memory, used: 0 };

        // SAFETY: (1) zeroed memory is a valid value of the atomics, the only slices without values. (2) The slices are not
        // really 'static, but all of them end up in `allocator`. It is private, is dropped before the mapping, and is lent
        // for the lifetime of `self` only. A panic before that drops the slices unused.
        let metadata = unsafe {
            let mut of_zones = vec![];
            for size in sizes {
                of_zones.push(ZoneMetadata {
                    pagesets: arena.place(size.pagesets, Some(&mut |_| Pageset::default())),
                    regions: arena.place(size.regions, Some(&mut |_| Region::default())),
                    words: arena.place(size.words, None),
                    tags: arena.place(size.tags, None),
                });
            }
            Metadata {
                zones: arena.place(size.zones, Some(&mut |zone| CachedZone::new(of_zones[zone]))),
                words: arena.place(size.words, None),
            }
        };
        let allocator = Allocator::new(machine, config, metadata).map_err(MetadataError::Config)?;
        Ok(MappedAllocator { allocator, memory: arena.memory })
    }

    /// The allocator, for the lifetime of its metadata.
    #[inline(always)]
    pub(crate) fn get<'b>(&'b self) -> &'b Allocator<'b, M> {
        &self.allocator
    }

    /// The address space of the metadata in bytes.
    pub(crate) fn metadata_bytes(&self) -> usize {
        self.memory.bytes()
    }
}
