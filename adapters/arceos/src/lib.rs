//! `pageset` as `axalloc`, the global memory allocator of ArceOS.
//!
//! The crate has the name, the version and the interface of ArceOS' own, so `[patch.crates-io]` replaces it.
//!
//! | module | contents |
//! | --- | --- |
//! | `memory` | the allocator's metadata, in the first memory that ArceOS gives; the zones |
//! | `heap` | bytes: pieces of pages below 4 KiB, whole pages above |
//! | `usage` | counts by kind of use |
//! | `page` | `GlobalPage` |
//! | this file | [`GlobalAllocator`] |
//!
//! Each call has local interrupts off, so the allocator's locks need not mask them.
#![no_std]

mod heap;
mod memory;
mod page;
mod usage;

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;
use core::{fmt, ptr};

use axallocator::{AllocError, AllocResult};
use axplat::mem::{phys_to_virt, virt_to_phys};
use kernel_guard::NoPreemptIrqSave;
use lazyinit::LazyInit;
use pageset::alloc::config::MapError;
use pageset::{
    Alloc, Allocator, CpuId, Immovable, Machine, MigrateType, Order, PageRange, Pfn, Request, SpinLock, ZoneKind,
};

pub use axallocator::TlsfByteAllocator as DefaultByteAllocator;
pub use page::GlobalPage;
pub use usage::{UsageKind, Usages};

use heap::Heap;
use usage::Counters;

/// The size of a page in bytes.
const PAGE_SIZE: usize = Pfn::PAGE_BYTES as usize;

#[cfg_attr(target_os = "none", global_allocator)]
static GLOBAL_ALLOCATOR: GlobalAllocator = GlobalAllocator::new();

/// The machine, as the allocator sees it.
#[derive(Debug)]
pub struct Cpus;

impl Machine for Cpus {
    type Lock = SpinLock;

    #[inline(always)]
    fn cpu(&self) -> CpuId {
        CpuId(axplat::percpu::this_cpu_id() as u32)
    }
}

/// The pages and bytes of the machine. One static has it; [`global_allocator`] names it.
pub struct GlobalAllocator {
    pages: LazyInit<Allocator<'static, Cpus>>,
    heap: Heap,
    counters: Counters,
}

impl fmt::Debug for GlobalAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobalAllocator").field("usages", &self.usages()).finish_non_exhaustive()
    }
}

impl Default for GlobalAllocator {
    fn default() -> Self {
        Self::new()
    }
}

/// A sum over all zones that did not add up.
#[derive(Clone, Debug)]
pub enum AuditError {
    /// The first inconsistency inside a zone.
    Zone(pageset::admin::audit::AuditError),
    /// Pages in use by the zones' books, and by the counts of allocations and frees.
    Pages {
        /// Pages that no zone has free.
        in_use: u64,
        /// Pages allocated and not freed.
        counted: u64,
    },
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zone(error) => error.fmt(f),
            Self::Pages { in_use, counted } => {
                write!(f, "{in_use} pages are in use by the zones' books, {counted} were allocated and not freed")
            }
        }
    }
}

impl GlobalAllocator {
    /// An allocator without memory.
    #[must_use]
    pub const fn new() -> Self {
        GlobalAllocator { pages: LazyInit::new(), heap: Heap::new(), counters: Counters::new() }
    }

    /// The name of the allocator.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        "pageset"
    }

    /// Builds the allocator over all memory of the platform, and adds the first region. The allocator's metadata come from its start:
    /// about 10 bytes for each page from the first to the last of the platform's memory.
    ///
    /// # Panics
    /// The region has no room for the metadata, or a second call.
    pub fn init(&self, start_vaddr: usize, size: usize) {
        let _guard = NoPreemptIrqSave::new();
        let region = region(start_vaddr, size).expect("a region has whole pages");
        let (pages, free) = memory::build(region);
        self.pages.init_once(pages);
        self.pages().online(free).unwrap_or_else(|error| panic!("cannot add the first memory: {error}"));
    }

    /// Adds memory of the platform, at any time.
    ///
    /// # Errors
    /// [`AllocError::InvalidParam`] for a region without a whole page, or one that is not in the platform's memory.
    /// [`AllocError::MemoryOverlap`] for a region that was added already. Nothing has changed then.
    pub fn add_memory(&self, start_vaddr: usize, size: usize) -> AllocResult {
        let _guard = NoPreemptIrqSave::new();
        let region = region(start_vaddr, size).ok_or(AllocError::InvalidParam)?;
        self.pages().online(region).map_err(|error| match error {
            MapError::Overlap { .. } => AllocError::MemoryOverlap,
            _ => AllocError::InvalidParam,
        })
    }

    /// Allocates bytes: at the address of a page if there are 4096 or more.
    ///
    /// # Errors
    /// No memory.
    #[inline]
    pub fn alloc(&self, layout: Layout) -> AllocResult<NonNull<u8>> {
        let _guard = NoPreemptIrqSave::new();
        let place = self.heap.alloc(self, layout)?;
        self.counters.allocated(UsageKind::RustHeap, layout.size());
        Ok(place)
    }

    /// Frees bytes of [`Self::alloc`], with the same layout.
    ///
    /// # Panics
    /// Whole pages that are not in use.
    #[inline]
    pub fn dealloc(&self, pos: NonNull<u8>, layout: Layout) {
        let _guard = NoPreemptIrqSave::new();
        self.counters.freed(UsageKind::RustHeap, layout.size());
        self.heap.dealloc(self, pos, layout);
    }

    /// Allocates neighbouring pages and returns the address of the first: a multiple of `align_pow2` bytes.
    ///
    /// # Errors
    /// [`AllocError::InvalidParam`] for no pages, or an alignment that is no power of two. [`AllocError::NoMemory`].
    #[inline]
    pub fn alloc_pages(&self, num_pages: usize, align_pow2: usize, kind: UsageKind) -> AllocResult<usize> {
        let _guard = NoPreemptIrqSave::new();
        let first = self.take(num_pages, align_pow2, ZoneKind::Normal)?;
        self.count(kind, num_pages);
        Ok(first)
    }

    /// As [`Self::alloc_pages`], below 4 GiB.
    ///
    /// # Errors
    /// As [`Self::alloc_pages`].
    pub fn alloc_dma32_pages(&self, num_pages: usize, align_pow2: usize, kind: UsageKind) -> AllocResult<usize> {
        let _guard = NoPreemptIrqSave::new();
        let first = self.take(num_pages, align_pow2, ZoneKind::Dma32)?;
        self.count(kind, num_pages);
        Ok(first)
    }

    /// Allocates the pages from an address on.
    ///
    /// # Errors
    /// [`AllocError::InvalidParam`] for no pages, or an address that is no multiple of the alignment. [`AllocError::NoMemory`] if one of
    /// the pages is in use.
    pub fn alloc_pages_at(
        &self,
        start: usize,
        num_pages: usize,
        align_pow2: usize,
        kind: UsageKind,
    ) -> AllocResult<usize> {
        let _guard = NoPreemptIrqSave::new();
        if num_pages == 0 || !align_pow2.is_power_of_two() || !start.is_multiple_of(align_pow2.max(PAGE_SIZE)) {
            return Err(AllocError::InvalidParam);
        }
        let range = PageRange::new(pfn(start), num_pages as u64);
        let taken = self.pages().alloc_range(range, MigrateType::Unmovable, &Immovable);
        taken.map_err(|_| AllocError::NoMemory)?;
        self.counters.took(num_pages);
        self.count(kind, num_pages);
        Ok(start)
    }

    /// Counts allocated pages. The heap's bytes are counted as they are allocated.
    fn count(&self, kind: UsageKind, num_pages: usize) {
        if kind != UsageKind::RustHeap {
            self.counters.allocated(kind, num_pages * PAGE_SIZE);
        }
    }

    /// Frees pages: all that one call allocated, or any part.
    ///
    /// # Panics
    /// One of them is not in use. The message names the page and its state.
    #[inline]
    pub fn dealloc_pages(&self, pos: usize, num_pages: usize, kind: UsageKind) {
        let _guard = NoPreemptIrqSave::new();
        if kind != UsageKind::RustHeap {
            self.counters.freed(kind, num_pages * PAGE_SIZE);
        }
        self.give(pos, num_pages);
    }

    /// Bytes of the heap in use.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.usages().get(UsageKind::RustHeap)
    }

    /// Free bytes in the pages that the heap has. All free pages are its reserve.
    #[must_use]
    pub fn available_bytes(&self) -> usize {
        self.heap.available_bytes()
    }

    /// Pages in use.
    #[must_use]
    pub fn used_pages(&self) -> usize {
        self.counters.pages()
    }

    /// Free pages, with those in the caches of CPUs.
    #[must_use]
    pub fn available_pages(&self) -> usize {
        let stats = self.pages.get().into_iter().flat_map(Allocator::zones).map(|zone| zone.stats());
        stats.map(|zone| zone.nr_free_pages + zone.cached_pages()).sum::<u64>() as usize
    }

    /// The bytes in use of each kind.
    #[must_use]
    pub fn usages(&self) -> Usages {
        self.counters.usages()
    }

    /// Calls `work` with the page allocator, while local interrupts are off: for statistics, drains, and rules. `None` before
    /// [`Self::init`].
    pub fn with<R>(&self, work: impl FnOnce(&Allocator<'static, Cpus>) -> R) -> Option<R> {
        let _guard = NoPreemptIrqSave::new();
        self.pages.get().map(work)
    }

    /// Checks all zones from end to end, and that the pages in use are those that were allocated and not freed. Returns their number.
    /// Only a machine that is otherwise idle is certain to pass.
    ///
    /// # Errors
    /// The first inconsistency.
    pub fn audit(&self) -> Result<u64, AuditError> {
        let _guard = NoPreemptIrqSave::new();
        let mut in_use = 0;
        for zone in self.pages().zones() {
            in_use += zone.audit().map_err(AuditError::Zone)?.in_use;
        }
        let counted = self.counters.pages() as u64;
        if in_use == counted { Ok(in_use) } else { Err(AuditError::Pages { in_use, counted }) }
    }

    #[inline(always)]
    fn pages(&self) -> &Allocator<'static, Cpus> {
        self.pages.get().expect("memory was added before the first call")
    }

    /// Takes pages, with interrupts off.
    #[inline]
    fn take(&self, num_pages: usize, align_pow2: usize, highest: ZoneKind) -> AllocResult<usize> {
        if !align_pow2.is_power_of_two() {
            return Err(AllocError::InvalidParam);
        }
        let align = align_pow2.div_ceil(PAGE_SIZE) as u64;
        let pages = num_pages as u64;
        let request = Request { highest, ..Request::new(Order::ZERO, MigrateType::Unmovable) };
        let first = if pages == 1 && align == 1 {
            self.pages().alloc(&request)
        } else {
            self.pages().alloc_with(Alloc::new(&request).pages(pages).aligned(align).owner(&Immovable))
        };
        let first = first.map_err(|error| match error {
            pageset::AllocError::Run { .. } => AllocError::InvalidParam,
            _ => AllocError::NoMemory,
        })?;
        self.counters.took(num_pages);
        Ok(phys_to_virt(first.address().into()).as_usize())
    }

    /// Gives pages back, with interrupts off.
    #[inline]
    fn give(&self, pos: usize, num_pages: usize) {
        let range = PageRange::new(pfn(pos), num_pages as u64);
        let given = match num_pages {
            // A part of a block is no block.
            1 => self.pages().free(range.start, Order::ZERO).or_else(|_| self.pages().free_range(range)),
            _ => self.pages().free_range(range),
        };
        given.unwrap_or_else(|error| panic!("cannot free {num_pages} pages at {pos:#x}: {error}"));
        self.counters.gave(num_pages);
    }
}

/// The frame of an address in the kernel's linear mapping.
#[inline(always)]
fn pfn(vaddr: usize) -> Pfn {
    Pfn::at_address(virt_to_phys(vaddr.into()).as_usize())
}

/// The whole pages of a region; `None` if there are none.
fn region(start_vaddr: usize, size: usize) -> Option<PageRange> {
    let start = start_vaddr.next_multiple_of(PAGE_SIZE);
    let pages = ((start_vaddr + size) / PAGE_SIZE).checked_sub(start / PAGE_SIZE)?;
    (pages > 0).then(|| PageRange::new(pfn(start), pages as u64))
}

/// The global allocator.
#[must_use]
pub fn global_allocator() -> &'static GlobalAllocator {
    &GLOBAL_ALLOCATOR
}

/// [`GlobalAllocator::init`] of the global allocator.
pub fn global_init(start_vaddr: usize, size: usize) {
    GLOBAL_ALLOCATOR.init(start_vaddr, size);
}

/// [`GlobalAllocator::add_memory`] of the global allocator.
///
/// # Errors
/// As that call.
pub fn global_add_memory(start_vaddr: usize, size: usize) -> AllocResult {
    GLOBAL_ALLOCATOR.add_memory(start_vaddr, size)
}

/// The once-a-second tick of the caller's CPU, for a timer interrupt: caches of pages that nobody uses shrink.
pub fn tick() {
    GLOBAL_ALLOCATOR.with(Allocator::tick);
}

// SAFETY: (1) a page belongs to one caller until it is freed: the allocator guarantees it, and `heap` divides only its own pages;
// (2) alignment: pages are taken with the layout's alignment, and TLSF is given it; (3) nothing here unwinds: ArceOS aborts.
unsafe impl GlobalAlloc for GlobalAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        GlobalAllocator::alloc(self, layout).map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        if let Some(place) = NonNull::new(ptr) {
            GlobalAllocator::dealloc(self, place, layout);
        }
    }
}
