//! The allocator's metadata, in frames of OSTD that are never returned.
#![allow(unsafe_code, reason = "slices over frames that nothing else uses")]

use core::mem::{self, MaybeUninit};
use core::slice;
use core::sync::atomic::{AtomicU8, AtomicU32};

use ostd::cpu;
use ostd::mm::io::util::HasVmReaderWriter;
use ostd::mm::{PAGE_SIZE, Segment};
use pageset::pcp::Pageset;
use pageset::{Allocator, CachedZone, Config, Metadata, NodeId, PageRange, ZoneKind, ZoneSpec};

use crate::Cpus;

/// The largest number of CPUs. A guess; a larger one costs 4 bytes of the image for each CPU.
const MAX_CPUS: usize = 256;
/// The node of each CPU: OSTD knows no nodes.
static NODES: [NodeId; MAX_CPUS] = [NodeId(0); MAX_CPUS];
/// Bytes of a cache line. Slices begin at one, so that no two share a line.
const CACHE_LINE: usize = 64;

/// The state of a frame with metadata, for OSTD.
#[derive(Debug)]
struct MetadataFrame;

ostd::impl_untyped_frame_meta_for!(MetadataFrame);

/// Builds an allocator over some pieces of memory, of which it takes the metadata.
///
/// # Panics
/// No piece has room for the metadata, two pieces overlap, or there are more than 256 CPUs.
pub(crate) fn build(pieces: &[PageRange]) -> Allocator<'static, Cpus> {
    let start = pieces.iter().map(|piece| piece.start).min().expect("a piece");
    let end = pieces.iter().map(PageRange::end).max().expect("a piece");
    let span = PageRange::new(start, end.0 - start.0);
    let largest = *pieces.iter().max_by_key(|piece| piece.pages).expect("a piece");

    let cpus = cpu::num_cpus();
    assert!(cpus <= MAX_CPUS, "cannot use {cpus} CPUs; allowed: up to {MAX_CPUS}");
    let zone = ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span, ranges: &[] };
    let size = Config::new(&[zone], &NODES[..cpus]).metadata_size();
    let size = size.unwrap_or_else(|error| panic!("cannot use the memory map: {error}"));
    // Each of the five slices may begin one line later.
    let bytes = size.bytes::<Cpus>() + size_of::<ZoneSpec<'_>>() + 5 * CACHE_LINE;
    let taken = PageRange::new(largest.start, bytes.div_ceil(PAGE_SIZE) as u64);
    assert!(
        taken.pages <= largest.pages,
        "cannot place {bytes} bytes of metadata: the largest piece has {} pages",
        largest.pages
    );

    let mut room = Room::take(taken);
    // The allocator keeps a reference to its configuration.
    let config = Config::new(room.slice(1, || zone), &NODES[..cpus]);
    let metadata = Metadata {
        tags: room.slice(size.tags, || AtomicU8::new(0)),
        words: room.slice(size.words, || AtomicU32::new(0)),
        pagesets: room.slice(size.pagesets, Pageset::default),
        zones: room.slice(size.zones, CachedZone::empty),
    };
    let allocator = Allocator::new(Cpus, &config, metadata).unwrap_or_else(|error| panic!("cannot build: {error}"));
    for piece in pieces {
        let free = if *piece == largest { PageRange::new(taken.end(), piece.pages - taken.pages) } else { *piece };
        if free.pages > 0 {
            allocator.online(free).unwrap_or_else(|error| panic!("cannot add memory: {error}"));
        }
    }
    allocator
}

/// Memory that is used up from its start.
struct Room {
    next: *mut u8,
    left: usize,
}

impl Room {
    /// The memory of free frames.
    ///
    /// # Panics
    /// OSTD knows another user of one of the frames.
    fn take(range: PageRange) -> Room {
        let start = range.start.address();
        let segment = Segment::from_unused(start..range.end().address(), |_| MetadataFrame)
            .unwrap_or_else(|error| panic!("cannot use the frames of {range:?}: {error:?}"));
        let (next, left) = (segment.writer().cursor(), range.pages as usize * PAGE_SIZE);
        // The allocator is never dropped, and nothing else has the segment.
        mem::forget(segment);
        Room { next, left }
    }

    /// A slice of values.
    fn slice<T>(&mut self, length: usize, mut make: impl FnMut() -> T) -> &'static mut [T] {
        let skipped = self.next.align_offset(CACHE_LINE.max(align_of::<T>()));
        let bytes = skipped + length * size_of::<T>();
        assert!(bytes <= self.left, "cannot place the metadata: {} bytes are missing", bytes - self.left);
        let start = self.next.wrapping_add(skipped);
        self.next = self.next.wrapping_add(bytes);
        self.left -= bytes;
        // SAFETY: (1) the frames are mapped for ever, because the segment is never dropped, and nothing else refers to them;
        // (2) this part is aligned, inside the frames, and given out once; (3) the values may be uninitialised.
        let memory = unsafe { slice::from_raw_parts_mut(start.cast::<MaybeUninit<T>>(), length) };
        memory.iter_mut().for_each(|slot| {
            slot.write(make());
        });
        // SAFETY: all values were written above.
        unsafe { memory.assume_init_mut() }
    }
}
