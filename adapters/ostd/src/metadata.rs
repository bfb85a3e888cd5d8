//! The allocator's metadata, in frames of OSTD that are never returned.
#![allow(unsafe_code, reason = "a slice over frames that nothing else uses")]

use core::mem::{self, MaybeUninit};
use core::slice;

use ostd::cpu;
use ostd::mm::io::util::HasVmReaderWriter;
use ostd::mm::{PAGE_SIZE, Segment};
use pageset::{Allocator, Config, NodeId, PageRange, ZoneKind, ZoneSpec};

use crate::Cpus;

/// The largest number of CPUs. A guess; a larger one costs 4 bytes of the image for each CPU.
const MAX_CPUS: usize = 256;
/// The node of each CPU: OSTD knows no nodes.
static NODES: [NodeId; MAX_CPUS] = [NodeId(0); MAX_CPUS];

/// The state of a frame with metadata, for OSTD.
#[derive(Debug)]
struct MetadataFrame;

ostd::impl_untyped_frame_meta_for!(MetadataFrame);

/// Builds an allocator over some pieces of memory. The metadata come from the start of the largest piece.
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
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span, ranges: &[] }];
    let config = Config::new(&zones, &NODES[..cpus]);
    let bytes = config.metadata_bytes::<Cpus>().unwrap_or_else(|error| panic!("cannot use the memory map: {error}"));
    let taken = PageRange::new(largest.start, bytes.div_ceil(PAGE_SIZE) as u64);
    assert!(
        taken.pages <= largest.pages,
        "cannot place {bytes} bytes of metadata: the largest piece has {} pages",
        largest.pages
    );

    let allocator = Allocator::from_bytes(Cpus, &config, take(taken));
    let allocator = allocator.unwrap_or_else(|error| panic!("cannot build the allocator: {error}"));
    for piece in pieces {
        let free = if *piece == largest { PageRange::new(taken.end(), piece.pages - taken.pages) } else { *piece };
        if free.pages > 0 {
            allocator.online(free).unwrap_or_else(|error| panic!("cannot add memory: {error}"));
        }
    }
    allocator
}

/// Takes the memory of free frames for ever.
///
/// # Panics
/// OSTD knows another user of one of the frames.
fn take(range: PageRange) -> &'static mut [MaybeUninit<u8>] {
    let (start, end) = (range.start.address(), range.end().address());
    let segment = Segment::from_unused(start..end, |_| MetadataFrame)
        .unwrap_or_else(|error| panic!("cannot use the frames of {range:?}: {error:?}"));
    let memory = segment.writer().cursor();
    // The allocator is a static, so the frames are never returned.
    mem::forget(segment);
    // SAFETY: (1) the frames are mapped for ever, because the segment is never dropped; (2) `from_unused` gives each frame to one
    // user only; (3) the bytes may be uninitialised.
    unsafe { slice::from_raw_parts_mut(memory.cast(), end - start) }
}
