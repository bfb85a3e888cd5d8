//! The zones of the platform's memory, and the allocator's metadata in the first memory that ArceOS gives.

use core::mem::MaybeUninit;
use core::slice;

use axplat::mem::{phys_ram_ranges, phys_to_virt};
use pageset::{Allocator, Config, NodeId, PageRange, Pfn, ZoneKind, ZoneSpec};

use crate::Cpus;

/// The largest number of CPUs. A guess; a larger one costs 128 bytes of the image for each CPU.
pub(crate) const MAX_CPUS: usize = 64;
/// The node of each CPU: ArceOS knows no nodes.
static NODES: [NodeId; MAX_CPUS] = [NodeId(0); MAX_CPUS];

/// The first page that a device with 32-bit addresses does not reach.
const DMA32_END: Pfn = Pfn(1 << 20);

/// Builds an allocator for all memory of the platform, none of it online. Returns the rest of `region` behind the metadata.
///
/// # Panics
/// The region has no room for the metadata, or there are more than 64 CPUs.
pub(crate) fn build(region: PageRange) -> (Allocator<'static, Cpus>, PageRange) {
    let cpus = axplat::power::cpu_num();
    assert!(cpus <= MAX_CPUS, "cannot use {cpus} CPUs; allowed: up to {MAX_CPUS}");
    let below = span(Pfn(0), DMA32_END).map(|span| zone(ZoneKind::Dma32, span));
    let above = span(DMA32_END, Pfn(u64::MAX)).map(|span| zone(ZoneKind::Normal, span));
    let both = below.zip(above).map(|(below, above)| [below, above]);
    let one = below.or(above).map(|one| [one]);
    let zones = both.as_ref().map(<[_; 2]>::as_slice).or(one.as_ref().map(<[_; 1]>::as_slice));
    let config = Config::new(zones.expect("the platform has memory"), &NODES[..cpus]);

    let bytes = config.metadata_bytes::<Cpus>().unwrap_or_else(|error| panic!("cannot use the memory map: {error}"));
    let pages = (bytes as u64).div_ceil(Pfn::PAGE_BYTES);
    assert!(
        pages < region.pages,
        "cannot place {bytes} bytes of metadata: the first region has {} pages",
        region.pages
    );
    let start = phys_to_virt(region.start.address().into()).as_mut_ptr();
    // SAFETY: (1) ArceOS gives the region to the allocator for ever, in the kernel's linear mapping; (2) these pages never come
    // online, so nobody else uses them; (3) the bytes may be uninitialised.
    let metadata: &'static mut [MaybeUninit<u8>] = unsafe { slice::from_raw_parts_mut(start.cast(), bytes) };
    let allocator = Allocator::from_bytes(Cpus, &config, metadata);
    let allocator = allocator.unwrap_or_else(|error| panic!("cannot build the allocator: {error}"));
    (allocator, PageRange::new(region.start.offset(pages), region.pages - pages))
}

fn zone(kind: ZoneKind, span: PageRange) -> ZoneSpec<'static> {
    ZoneSpec { node: NodeId(0), kind, span, ranges: &[] }
}

/// The platform's memory between two pages, with holes.
fn span(from: Pfn, to: Pfn) -> Option<PageRange> {
    let pieces = || {
        phys_ram_ranges().iter().filter_map(move |&(start, size)| {
            let end = Pfn((start + size) as u64 / Pfn::PAGE_BYTES).min(to);
            let start = Pfn((start as u64).div_ceil(Pfn::PAGE_BYTES)).max(from);
            (start < end).then_some((start, end))
        })
    };
    let start = pieces().map(|(start, _)| start).min()?;
    let end = pieces().map(|(_, end)| end).max()?;
    Some(PageRange::new(start, end.0 - start.0))
}
