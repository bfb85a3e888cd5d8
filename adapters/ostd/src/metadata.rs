//! The allocator's metadata, in frames of OSTD that are never returned.
#![allow(unsafe_code, reason = "a slice over frames that nothing else uses")]

use core::mem::{self, MaybeUninit};
use core::slice;

use arrayvec::ArrayVec;
use ostd::cpu;
use ostd::mm::io::util::HasVmReaderWriter;
use ostd::mm::{PAGE_SIZE, Segment};
use pageset::{Allocator, Config, NodeId, PageRange};

use crate::topology::{Topology, common};
use crate::{Cpus, MAX_PIECES};

/// The largest number of CPUs. A guess; a larger one costs 4 bytes of the boot stack for each CPU.
const MAX_CPUS: usize = 256;

/// The state of a frame with metadata, for OSTD.
#[derive(Debug)]
struct MetadataFrame;

ostd::impl_untyped_frame_meta_for!(MetadataFrame);

/// Builds an allocator over some pieces of memory. The metadata come from the start of the largest part that a zone has of a piece.
///
/// # Panics
/// No part has room for the metadata, two pieces overlap, there are more than 256 CPUs, or the topology does not fit the memory.
pub(crate) fn build(pieces: &ArrayVec<PageRange, MAX_PIECES>, topology: &Topology) -> Allocator<'static, Cpus> {
    let cpus = cpu::num_cpus();
    assert!(cpus <= MAX_CPUS, "cannot use {cpus} CPUs; allowed: up to {MAX_CPUS}");
    let mut nodes = [NodeId(0); MAX_CPUS];
    nodes.iter_mut().zip(topology.cpus).for_each(|(node, given)| *node = *given);
    let zones = topology.zones(pieces);
    let config = Config::new(&zones, &nodes[..cpus]);
    let bytes = config.metadata_bytes::<Cpus>().unwrap_or_else(|error| panic!("cannot use the memory map: {error}"));

    let parts = || zones.iter().flat_map(|zone| pieces.iter().filter_map(|piece| common(piece, &zone.span)));
    let largest = parts().max_by_key(|part| part.pages).expect("a piece");
    let taken = PageRange::new(largest.start, bytes.div_ceil(PAGE_SIZE) as u64);
    assert!(
        taken.pages <= largest.pages,
        "cannot place {bytes} bytes of metadata: the largest piece has {} pages",
        largest.pages
    );

    let allocator = Allocator::from_bytes(Cpus, &config, take(taken));
    let allocator = allocator.unwrap_or_else(|error| panic!("cannot build the allocator: {error}"));
    for part in parts() {
        let free = if part == largest { PageRange::new(taken.end(), part.pages - taken.pages) } else { part };
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
