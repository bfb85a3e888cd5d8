//! The allocator's books in a mapping of their own, zeroed by the system as they are touched.

use std::fmt;
use std::io;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU32};

use pageset::config::MetadataSize;
use pageset::pcp::Pageset;
use pageset::{Allocator, CachedZone, Config, MapError, Metadata, NodeId, PageRange, ZoneSpec};

use super::mapping::{Backing, Mapping};
use crate::lock::HostLock;
use crate::machine::Host;

/// Zones and pagesets begin at lines of their own. Unit: bytes; two lines, which processors fetch together.
const ALIGN: usize = 128;

/// An allocator and the memory that it keeps its books in.
pub(crate) struct MappedAllocator {
    /// Refers to `memory`, and so never leaves this value. Declared first: it goes first.
    allocator: Allocator<'static, Host>,
    memory: Mapping,
}

impl fmt::Debug for MappedAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedAllocator").field("bytes", &self.memory.bytes()).finish_non_exhaustive()
    }
}

/// Why books could not be opened.
#[derive(Debug)]
pub(crate) enum MetadataError {
    Config(MapError),
    Memory { bytes: usize, error: io::Error },
}

/// Lays parts one after the other into a mapping that only this value knows.
struct Arena {
    memory: Mapping,
    used: usize,
}

/// Bytes that a part takes, with what aligns the next one.
fn bytes_of<T>(len: usize) -> Option<usize> {
    const { assert!(align_of::<T>() <= ALIGN) };
    len.checked_mul(size_of::<T>())?.checked_next_multiple_of(ALIGN)
}

impl Arena {
    /// The next part: `len` values, written by `value`, or left zero where none is given.
    ///
    /// # Safety
    /// (1) Zeroed memory is a value of `T` where `value` is not given. (2) The slice is not used after the mapping,
    /// though its type would allow it.
    unsafe fn place<T: 'static>(&mut self, len: usize, value: Option<&mut dyn FnMut(usize) -> T>) -> &'static mut [T] {
        let bytes = bytes_of::<T>(len).unwrap_or(usize::MAX);
        assert!(bytes <= self.memory.bytes() - self.used, "a part beyond the mapping");
        let start = self.memory.at(self.memory.start() + self.used).cast::<T>();
        self.used += bytes;
        if let Some(value) = value {
            // SAFETY: (1) inside the mapping, by the assertion; (2) aligned, for a mapping begins at a page and all
            // parts take multiples of ALIGN.
            (0..len).for_each(|i| unsafe { start.add(i).write(value(i)) });
        }
        // SAFETY: (1) and (2) as above; (3) initialised, or zero and a value by the caller's promise; (4) each call
        // gives another part, and nothing else refers to the mapping.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    /// A copy of some values.
    ///
    /// # Safety
    /// As (2) of [`Self::place`].
    unsafe fn copy<T: Copy + 'static>(&mut self, values: &[T]) -> &'static [T] {
        // SAFETY: the caller's promise.
        unsafe { self.place(values.len(), Some(&mut |i| values[i])) }
    }
}

/// Bytes that the allocator's books take with all that it refers to.
fn bytes_for(config: &Config<'_>, size: &MetadataSize) -> Option<usize> {
    let ranges: usize = config.zones.iter().map(|zone| bytes_of::<PageRange>(zone.ranges.len())).sum::<Option<_>>()?;
    [
        ranges,
        bytes_of::<ZoneSpec<'static>>(config.zones.len())?,
        bytes_of::<NodeId>(config.cpus.len())?,
        bytes_of::<u8>(config.distances.len())?,
        bytes_of::<Pageset<HostLock>>(size.pagesets)?,
        bytes_of::<CachedZone<'static, Host>>(size.zones)?,
        bytes_of::<AtomicU32>(size.words)?,
        bytes_of::<AtomicU8>(size.tags)?,
    ]
    .into_iter()
    .try_fold(0_usize, usize::checked_add)?
    .checked_next_multiple_of(rustix::param::page_size())
}

impl MappedAllocator {
    /// Builds an allocator over memory of its own.
    pub(crate) fn open(machine: Host, config: &Config<'_>) -> Result<MappedAllocator, MetadataError> {
        let size = config.metadata_size().map_err(MetadataError::Config)?;
        let bytes = bytes_for(config, &size).unwrap_or(usize::MAX);
        let memory = if bytes == usize::MAX {
            Err(io::ErrorKind::OutOfMemory.into())
        } else {
            Mapping::reserve(bytes, rustix::param::page_size(), Backing::Lazy)
        };
        let memory = memory.map_err(|error| MetadataError::Memory { bytes, error })?;
        let mut arena = Arena { memory, used: 0 };

        // SAFETY: (1) zeroed memory is a value of the atomics, the only parts without values; (2) 'static is more than
        // the truth, but all of these end up in `allocator`, which is private, is dropped before the mapping, and is
        // scan_holds_block for the lifetime of `self` only. A panic on the way drops the allocator's parts unused.
        let (config, metadata) = unsafe {
            let mut specs = vec![];
            for zone in config.zones {
                specs.push(ZoneSpec { ranges: arena.copy(zone.ranges), ..*zone });
            }
            let config = Config {
                zones: arena.copy(&specs),
                cpus: arena.copy(config.cpus),
                distances: arena.copy(config.distances),
                ..*config
            };
            let metadata = Metadata {
                pagesets: arena.place(size.pagesets, Some(&mut |_| Pageset::default())),
                zones: arena.place(size.zones, Some(&mut |_| CachedZone::empty())),
                words: arena.place(size.words, None),
                tags: arena.place(size.tags, None),
            };
            (config, metadata)
        };
        let allocator = Allocator::new(machine, &config, metadata).map_err(MetadataError::Config)?;
        Ok(MappedAllocator { allocator, memory: arena.memory })
    }

    /// The allocator, for as long as its books are there.
    #[inline(always)]
    pub(crate) fn get<'b>(&'b self) -> &'b Allocator<'b, Host> {
        &self.allocator
    }

    /// The books' address space in bytes.
    pub(crate) fn metadata_bytes(&self) -> usize {
        self.memory.bytes()
    }
}
