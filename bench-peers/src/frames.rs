//! Allocators of frames: of their numbers, or of memory that they keep their books in.

use std::alloc::{Layout, alloc, dealloc};
use std::num::NonZeroUsize;
use std::ptr::{self, NonNull};

use buddy_system_allocator::LockedFrameAllocator;
use frame_alloc::{
    CpuId, DepotAllocator, PageSize, PhysRange, PhysicalAllocator, Provenance, RegionInit, RegionedAllocator,
    SummaryBuddyAllocator,
};
use pageset_bench::{Built, Entry, Pages, Pattern, Refusal};
use pageset_host::CpuNumber;

/// A buddy system behind one lock.
struct Buddy {
    frames: LockedFrameAllocator<33>,
    count: usize,
}

impl Pages for Buddy {
    type Local = ();

    fn local(&self, _thread: usize) {}

    fn get(&self, (): &mut ()) -> u64 {
        self.frames.lock().alloc(self.count).expect("there are as many frames as the pattern takes") as u64
    }

    fn put(&self, (): &mut (), page: u64) {
        self.frames.lock().dealloc(page as usize, self.count);
    }
}

/// The base frame of `frame-alloc`: as its documentation has it.
const FRAME: PageSize = PageSize::from_log2(12);
/// Its orders: up to 4 MiB, as the pool's.
const ORDERS: usize = 11;
/// The largest block, in bytes.
const LARGEST: usize = 4096 << (ORDERS - 1);
/// Its places for CPUs.
const CPUS: usize = 64;
/// Its regions: one for each CPU of a small machine, as its documentation has it.
const REGIONS: usize = 2;

/// Memory of the heap in the place of physical memory.
struct Exposed;

// SAFETY: the memory is one allocation whose provenance `Span::new` has exposed, the second of the two ways that the trait
// describes.
unsafe impl Provenance for Exposed {
    unsafe fn create(address: usize) -> NonNull<u8> {
        NonNull::new(ptr::with_exposed_provenance_mut(address)).expect("an address of the span")
    }

    unsafe fn destroy<T>(pointer: NonNull<T>) -> usize {
        pointer.addr().get()
    }
}

/// The CPU of the caller, as the pool learns it.
struct Cpu;

impl CpuId for Cpu {
    fn current_cpu() -> usize {
        CpuNumber::find().get() as usize
    }
}

type Buddies = SummaryBuddyAllocator<ORDERS, Exposed>;
type Depot = DepotAllocator<Buddies, Cpu, CPUS>;
type Regioned = RegionedAllocator<REGIONS, Buddies, Cpu>;

/// Memory that an allocator of this crate manages.
struct Span {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: plain memory that its owner alone frees.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl Span {
    /// For a pattern: what it takes, and as much again for what caches hold and for books.
    fn new(pattern: Pattern, threads: usize) -> Result<Span, Refusal> {
        let bytes = (pattern.pages(threads) * 2 * 4096).next_multiple_of(REGIONS * LARGEST);
        let failed = |text: String| Refusal::Failed(format!("{bytes} bytes of memory: {text}"));
        let layout = Layout::from_size_align(bytes, LARGEST).map_err(|error| failed(error.to_string()))?;
        // SAFETY: the layout has a size.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            return Err(failed("the heap has none".to_owned()));
        }
        start.expose_provenance();
        Ok(Span { start, layout })
    }

    fn part(&self, part: usize, of: usize) -> PhysRange {
        let len = self.layout.size() / of;
        PhysRange { base: self.start.addr() + part * len, len }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        // SAFETY: it came from `alloc` with this layout.
        unsafe { dealloc(self.start, self.layout) };
    }
}

/// One of them, with its memory. In a box: a few hundred KiB.
struct Frames<A> {
    frames: Box<A>,
    count: NonZeroUsize,
    _span: Span,
}

impl<A: PhysicalAllocator + Sync> Pages for Frames<A> {
    type Local = ();

    fn local(&self, _thread: usize) {}

    #[inline(always)]
    fn get(&self, (): &mut ()) -> u64 {
        // Its documentation says that a request may fail although there is memory.
        loop {
            if let Ok(address) = self.frames.allocate_physical(FRAME, self.count) {
                return address as u64;
            }
        }
    }

    #[inline(always)]
    fn put(&self, (): &mut (), page: u64) {
        // SAFETY: it came from `get`, with this count, and goes back once.
        unsafe { self.frames.deallocate_physical(FRAME, self.count, page as usize) };
    }
}

fn count(pattern: Pattern) -> NonZeroUsize {
    NonZeroUsize::new(1 << pattern.order()).unwrap_or(NonZeroUsize::MIN)
}

fn depot(pattern: Pattern, threads: usize) -> Built {
    let span = Span::new(pattern, threads)?;
    let frames: Box<Depot> = Box::new(DepotAllocator::new(FRAME, SummaryBuddyAllocator::new(FRAME)));
    let PhysRange { base, len } = span.part(0, 1);
    // SAFETY: the span is ours, mapped, aligned to the largest block, and nobody uses the allocator yet.
    unsafe { frames.init(base, len, &[span.part(0, 1)]) };
    Ok(Box::new(Frames { frames, count: count(pattern), _span: span }))
}

fn regioned(pattern: Pattern, threads: usize) -> Built {
    let span = Span::new(pattern, threads)?;
    let buddies = [const { SummaryBuddyAllocator::new(FRAME) }; REGIONS];
    let frames: Box<Regioned> = Box::new(RegionedAllocator::new(FRAME, buddies));
    for region in 0..REGIONS {
        let PhysRange { base, len } = span.part(region, REGIONS);
        // SAFETY: as above; the parts do not overlap.
        unsafe { frames.init_at(region, base, len, &[span.part(region, REGIONS)]) };
    }
    Ok(Box::new(Frames { frames, count: count(pattern), _span: span }))
}

pub(crate) fn entries() -> Vec<Entry> {
    vec![
        Entry {
            name: "buddy_system",
            make: |pattern, threads| {
                let frames = LockedFrameAllocator::new();
                frames.lock().add_frame(0, pattern.pages(threads));
                Ok(Box::new(Buddy { frames, count: 1 << pattern.order() }))
            },
        },
        Entry { name: "frame-alloc depot", make: depot },
        Entry { name: "frame-alloc regioned", make: regioned },
    ]
}
