//! `pageset` as the frame allocator of OSTD, the framework of the Asterinas kernel.
//!
//! ```ignore
//! #[ostd::global_frame_allocator]
//! static FRAMES: pageset_ostd::PagesetFrames = pageset_ostd::PagesetFrames::new();
//! ```
//!
//! | module | contents |
//! | --- | --- |
//! | `topology` | which memory is which zone |
//! | `metadata` | the unsafe code: the allocator's metadata in frames of OSTD |
//! | this file | the trait, and the requests that it does not have |
//!
//! # Metadata
//!
//! OSTD adds memory in pieces, and the size of the allocator's metadata depends on the whole span of the memory. So the adapter
//! notes the pieces until the first allocation. Then it takes the metadata from the largest piece, about 10 bytes for each page
//! of the zones' spans, and brings the rest online. Memory that is added later must lie in a span.
#![no_std]
#![deny(unsafe_code)]

mod metadata;
mod topology;

use core::alloc::Layout;
use core::fmt;

use arrayvec::ArrayVec;
use ostd::irq;
use ostd::mm::frame::GlobalFrameAllocator;
use ostd::mm::{PAGE_SIZE, Paddr};
use ostd::sync::SpinLock as OstdLock;
use pageset::alloc::config::MapError;
use pageset::{
    Alloc, Allocator, CpuId, FreeError, Immovable, Machine, MigrateType, Order, PageState, Request, SpinLock, WrongFree,
};
use spin::Once;

pub use pageset::{NodeId, PageRange, Pfn, ZoneKind};
pub use topology::Topology;

/// The largest number of pieces before the first allocation. A firmware's memory map has some tens of usable ranges. A guess.
const MAX_PIECES: usize = 128;

/// All requests are alike: OSTD says neither whether frames can move nor which devices reach them.
const REQUEST: Request = Request::new(Order::ZERO, MigrateType::Unmovable);

/// The machine, as the allocator sees it. Interrupts are off during each call, so the locks need not mask them.
#[derive(Debug)]
pub struct Cpus;

impl Machine for Cpus {
    type Lock = SpinLock;

    #[inline(always)]
    fn cpu(&self) -> CpuId {
        CpuId(u32::from(ostd::cpu::CpuId::current_racy()))
    }
}

/// The frame allocator: a static with the attribute `#[ostd::global_frame_allocator]`.
///
/// It disables local interrupts during each call: for up to about 300 µs where a call drains a full pageset, and longer where it
/// searches for more than 4 MiB. Not for NMIs.
pub struct PagesetFrames {
    allocator: Once<Allocator<'static, Cpus>>,
    /// The pieces that were added before the first allocation.
    pieces: OstdLock<ArrayVec<PageRange, MAX_PIECES>>,
    topology: Topology,
}

impl fmt::Debug for PagesetFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagesetFrames").field("built", &self.allocator.is_completed()).finish_non_exhaustive()
    }
}

impl Default for PagesetFrames {
    fn default() -> Self {
        Self::new()
    }
}

impl PagesetFrames {
    /// A frame allocator without memory, for a machine of one node.
    #[must_use]
    pub const fn new() -> Self {
        PagesetFrames::on(Topology::ONE_NODE)
    }

    /// A frame allocator without memory, for a machine whose nodes are known.
    #[must_use]
    pub const fn on(topology: Topology) -> Self {
        PagesetFrames { allocator: Once::new(), pieces: OstdLock::new(ArrayVec::new_const()), topology }
    }

    /// Allocates contiguous frames below 4 GiB, for a device that reaches no others. Aligned as the layout says. `None` if there are none.
    /// [`GlobalFrameAllocator::dealloc`] frees them, and [`ostd::mm::Segment::from_unused`] makes a segment of them.
    #[must_use]
    pub fn alloc_below_4g(&self, layout: Layout) -> Option<Paddr> {
        self.request(Request { highest: ZoneKind::Dma32, ..REQUEST }, layout)
    }

    /// As [`Self::alloc_below_4g`], with frames of one node, at any address.
    #[must_use]
    pub fn alloc_on(&self, node: NodeId, layout: Layout) -> Option<Paddr> {
        self.request(Request { node: Some(node), this_node_only: true, ..REQUEST }, layout)
    }

    #[inline(always)]
    fn request(&self, request: Request, layout: Layout) -> Option<Paddr> {
        let _guard = irq::disable_local();
        let allocator = self.allocator.get().or_else(|| self.build())?;
        let pages = layout.size().div_ceil(PAGE_SIZE) as u64;
        let align = layout.align().div_ceil(PAGE_SIZE) as u64;
        allocator.alloc_with(Alloc::new(&request).pages(pages).aligned(align).owner(&Immovable)).ok().map(Pfn::address)
    }

    /// Calls `work` with the allocator, while local interrupts are off: for statistics, audits, drains, and the tick that each
    /// CPU makes about once a second. `None` before the first allocation.
    pub fn with<R>(&self, work: impl FnOnce(&Allocator<'static, Cpus>) -> R) -> Option<R> {
        let _guard = irq::disable_local();
        self.allocator.get().map(work)
    }

    /// The bytes of free memory, with the pages in pagesets and of deferred frees. Takes no lock after the first allocation.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        let _guard = irq::disable_local();
        let pages = self.with(|allocator| {
            allocator.zones().map(|zone| zone.stats()).map(|zone| zone.nr_free_pages + zone.cached_pages()).sum::<u64>()
        });
        let pages = pages.unwrap_or_else(|| self.pieces.lock().iter().map(|piece| piece.pages).sum());
        pages * PAGE_SIZE as u64
    }

    /// Builds the allocator from the pieces so far. OSTD allocates first on one CPU, before it starts others.
    #[cold]
    fn build(&self) -> Option<&Allocator<'static, Cpus>> {
        let pieces = self.pieces.lock();
        if pieces.is_empty() {
            return None;
        }
        Some(self.allocator.call_once(|| metadata::build(&pieces, &self.topology)))
    }
}

/// A range of pages from an address and a size in bytes.
///
/// # Panics
/// One of them is not a multiple of a page, or the size is 0. OSTD guarantees both.
fn range(call: &str, addr: Paddr, size: usize) -> PageRange {
    PageRange::from_bytes(addr as u64, size as u64)
        .unwrap_or_else(|error| panic!("cannot {call} {size} bytes at {addr:#x}: {error}"))
}

impl GlobalFrameAllocator for PagesetFrames {
    #[inline(always)]
    fn alloc(&self, layout: Layout) -> Option<Paddr> {
        self.request(REQUEST, layout)
    }

    /// OSTD also returns frames here that were neither allocated nor added: boot page tables in the image of the kernel. They
    /// come online.
    ///
    /// # Panics
    /// A page of the range is free, or lies outside the zones of the memory that was added before the first allocation. Also if
    /// only some pages of the range are in use. The trait has no result.
    fn dealloc(&self, addr: Paddr, size: usize) {
        let _guard = irq::disable_local();
        let range = range("free", addr, size);
        let allocator = self.allocator.get().unwrap_or_else(|| {
            panic!("cannot free {size} bytes at {addr:#x}: no memory was allocated so far");
        });
        give(allocator, range).unwrap_or_else(|error| panic!("cannot free {size} bytes at {addr:#x}: {error}"));
    }

    /// Asterinas' own tests also return memory in use here. It is freed.
    ///
    /// # Panics
    /// As [`Self::dealloc`]. Also if memory came in more than 128 pieces before the first allocation.
    fn add_free_memory(&self, addr: Paddr, size: usize) {
        let _guard = irq::disable_local();
        let range = range("add", addr, size);
        let Some(allocator) = self.allocator.get() else {
            let added = self.pieces.lock().try_push(range);
            added.unwrap_or_else(|_| {
                panic!("cannot add {size} bytes at {addr:#x}: there are {MAX_PIECES} pieces already")
            });
            return;
        };
        match allocator.online(range) {
            Ok(()) => {}
            Err(MapError::Overlap { .. }) => self.dealloc(addr, size),
            Err(error) => panic!("cannot add {size} bytes at {addr:#x}: {error}"),
        }
    }
}

/// Frees pages in use, or brings pages online that never were.
fn give(allocator: &Allocator<'_, Cpus>, range: PageRange) -> Result<(), FreeError> {
    match allocator.free_range(range) {
        // A part of the range may be online: then the first error tells more.
        Err(FreeError { reason: WrongFree::NotAllocated(PageState::Inside), .. })
            if allocator.online(range).is_ok() =>
        {
            Ok(())
        }
        result => result,
    }
}
