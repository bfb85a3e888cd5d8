//! Frame allocators: of frame numbers, or of memory that also holds their metadata.

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

/// `buddy_system_allocator` behind one lock.
struct Buddy {
    frames: LockedFrameAllocator<33>,
    count: usize,
}

impl Pages for Buddy {
    type Local = ();

    fn local(&self, _thread: usize) {}

    fn get(&self, (): &mut ()) -> u64 {
        self.frames.lock().alloc(self.count).expect("the allocator is larger than the pattern") as u64
    }

    fn get_if_any(&self, (): &mut ()) -> Option<u64> {
        self.frames.lock().alloc(self.count).map(|page| page as u64)
    }

    fn put(&self, (): &mut (), page: u64) {
        self.frames.lock().dealloc(page as usize, self.count);
    }
}

/// The base frame size of `frame-alloc`, as in its documentation.
const FRAME: PageSize = PageSize::from_log2(12);
/// Orders of `frame-alloc`: up to 4 MiB, as in the pool.
const ORDERS: usize = 11;
/// The largest block, in bytes.
const LARGEST: usize = 4096 << (ORDERS - 1);
/// Slots for CPUs in `frame-alloc`'s depot.
const CPUS: usize = 64;
/// Regions of `frame-alloc`: one per CPU of a small machine, as in its documentation.
const REGIONS: usize = 2;

/// Heap memory in place of physical memory.
struct Exposed;

// SAFETY: the memory is one allocation whose provenance `Span::new` has exposed. This is the second of the two ways
// that the trait describes.
unsafe impl Provenance for Exposed {
    unsafe fn create(address: usize) -> NonNull<u8> {
        NonNull::new(ptr::with_exposed_provenance_mut(address)).expect("an address of the span is not null")
    }

    unsafe fn destroy<T>(pointer: NonNull<T>) -> usize {
        pointer.addr().get()
    }
}

/// The CPU of the caller, found as in the pool.
struct Cpu;

impl CpuId for Cpu {
    fn current_cpu() -> usize {
        CpuNumber::find().get() as usize
    }
}

type Buddies = SummaryBuddyAllocator<ORDERS, Exposed>;
type Depot = DepotAllocator<Buddies, Cpu, CPUS>;
type Regioned = RegionedAllocator<REGIONS, Buddies, Cpu>;

/// Memory that an allocator of `frame-alloc` manages.
struct Span {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: plain memory that only its owner frees.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl Span {
    /// Allocates memory for a pattern: what the pattern needs, and as much again for caches and metadata.
    fn new(pattern: Pattern, threads: usize) -> Result<Span, Refusal> {
        // There is always more than the pattern takes, so the memory would not get old.
        if matches!(pattern, Pattern::Old(_)) {
            return Err(Refusal::NotOffered);
        }
        let bytes = (pattern.pages(threads) * 2 * 4096).next_multiple_of(REGIONS * LARGEST);
        let failed = |text: String| Refusal::Failed(format!("{bytes} bytes of memory: {text}"));
        let layout = Layout::from_size_align(bytes, LARGEST).map_err(|error| failed(error.to_string()))?;
        // SAFETY: the layout has a size.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            return Err(failed("the heap has no memory".to_owned()));
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
        // SAFETY: `alloc` returned this memory for this layout.
        unsafe { dealloc(self.start, self.layout) };
    }
}

/// An allocator of `frame-alloc` with its memory. Boxed, because it has a few hundred KiB.
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
        // A request may fail although there is memory, as its documentation states.
        loop {
            if let Ok(address) = self.frames.allocate_physical(FRAME, self.count) {
                return address as u64;
            }
        }
    }

    #[inline(always)]
    fn put(&self, (): &mut (), page: u64) {
        // SAFETY: `get` returned it for this count, and it is freed once.
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
    // SAFETY: this function owns the span, which is mapped and aligned to the largest block. No other code uses the
    // allocator yet.
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
