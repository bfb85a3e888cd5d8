//! The pool: raw calls for one block and for many pages.
#![allow(unsafe_code, reason = "a raw free asks for a promise; nothing here needs one")]

use std::fmt;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use pageset::audit::{Books as Balance, Inconsistency};
use pageset::{AllocError as CoreAllocError, Allocator, FreeError as CoreFreeError, MigrateType, NodeId, Order};
use pageset::{Pfn, Request};

use crate::builder::{CHUNK_BYTES, PoolBuilder};
use crate::error::{AllocError, FreeError, FreeReason};
use crate::give_back::{GiveBack, GiveBackScanner};
use crate::machine::{CurrentCpu, Host};
use crate::sys::fork_detector::ForkDetector;
use crate::sys::mapped_allocator::MappedAllocator;
use crate::sys::mapping::Mapping;

/// A page, in bytes, whatever the system's own page size.
pub const PAGE_BYTES: usize = 4096;

/// The smallest order whose runs hold `bytes`; nothing above 4 MiB.
#[must_use]
pub const fn order_for(bytes: usize) -> Option<Order> {
    if bytes > PAGE_BYTES << Order::MAX.get() {
        return None;
    }
    let pages = bytes.div_ceil(PAGE_BYTES);
    Order::new(if pages <= 1 { 0 } else { (pages - 1).ilog2() as u8 + 1 })
}

/// The page that begins at an address. The bits below a page go to the top, so that an address where none begins is far
/// outside of any pool: one test finds both.
#[inline(always)]
const fn page_at(address: usize) -> Pfn {
    Pfn(address.rotate_right(PAGE_BYTES.ilog2()) as u64)
}

/// The address that [`page_at`] was given.
const fn address_of(pfn: Pfn) -> usize {
    (pfn.0 as usize).rotate_left(PAGE_BYTES.ilog2())
}

/// What a pool asks of the allocator. Its watermarks do not count: they would keep what a cache holds from the cache's
/// own CPU once the free lists are empty.
#[inline(always)]
pub(crate) const fn request(order: Order, migratetype: MigrateType) -> Request {
    Request { watermarks: false, ..Request::new(order, migratetype) }
}

/// A pool of pages in this process. See the crate's documentation for threads, forks and panics.
///
/// Runs of pages are aligned to their size, up to 4 MiB. What is in them is what their last user left, or zeros.
pub struct PagePool {
    pub(crate) mapped_allocator: MappedAllocator,
    pub(crate) memory: Mapping,
    fork_detector: ForkDetector,
    /// Address space of each node, in bytes.
    pub(crate) span: usize,
    pub(crate) prefault: bool,
    /// Bytes of each node that are there. Changed under `resizing`.
    pub(crate) share: AtomicUsize,
    pub(crate) resizing: Mutex<()>,
    pub(crate) scanner: GiveBackScanner,
    /// Failed allocations. Relaxed: a statistic.
    pub(crate) failed: AtomicU64,
}

impl fmt::Debug for PagePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.memory.start()..self.memory.start() + self.memory.bytes();
        f.debug_struct("PagePool").field("memory", &format_args!("{bytes:#x?}")).finish_non_exhaustive()
    }
}

impl Drop for PagePool {
    fn drop(&mut self) {
        if self.is_forked() {
            self.memory.forget_in_child();
        }
    }
}

impl PagePool {
    /// Begins a pool of `bytes`, rounded up to 2 MiB for each node; up to 16 TiB a node.
    #[must_use]
    pub fn builder(bytes: u64) -> PoolBuilder {
        PoolBuilder::new(bytes)
    }

    pub(crate) fn new(
        memory: Mapping,
        mapped_allocator: MappedAllocator,
        fork_detector: ForkDetector,
        span: usize,
        prefault: bool,
        policy: GiveBack,
    ) -> PagePool {
        let managed = (mapped_allocator.get().zone_stats(0).managed) as usize * PAGE_BYTES;
        let scanner = GiveBackScanner::new(policy, memory.bytes() / CHUNK_BYTES);
        PagePool {
            mapped_allocator,
            memory,
            fork_detector,
            span,
            prefault,
            share: AtomicUsize::new(managed),
            resizing: Mutex::new(()),
            scanner,
            failed: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn allocator(&self) -> &Allocator<'_, Host> {
        self.mapped_allocator.get()
    }

    /// Where the caller is, if it runs sequences: not in a child of the pool's process.
    #[inline(always)]
    fn here(&self) -> Option<CurrentCpu> {
        self.fork_detector.sequences().map(CurrentCpu::of)
    }

    /// Whether this process is a child of the pool's.
    #[inline(always)]
    pub(crate) fn is_forked(&self) -> bool {
        self.fork_detector.is_in_child()
    }

    /// The memory of a block.
    #[inline(always)]
    fn run(&self, pfn: Pfn, order: Order) -> NonNull<[u8]> {
        let start = self.memory.at(pfn.0 as usize * PAGE_BYTES);
        NonNull::slice_from_raw_parts(start, PAGE_BYTES << order.get())
    }

    /// Takes a run of 2^`order` pages, from the caller's node while that has one. It is the caller's until
    /// [`Self::free`]; holds no lock of the caller's CPU longer than that takes.
    ///
    /// # Errors
    /// [`AllocError::OutOfMemory`] where no run of that size is free even with all caches emptied, and
    /// [`AllocError::Forked`].
    #[inline(always)]
    pub fn alloc(&self, order: Order) -> Result<NonNull<[u8]>, AllocError> {
        self.alloc_typed(order, MigrateType::Movable)
    }

    /// As [`Self::alloc`], from one node only.
    ///
    /// # Errors
    /// As there, and [`AllocError::UnknownNode`] where the pool has nothing of that node.
    pub fn alloc_on(&self, node: NodeId, order: Order) -> Result<NonNull<[u8]>, AllocError> {
        let any = request(order, MigrateType::Movable);
        self.alloc_general(&Request { node: Some(node), this_node_only: true, ..any })
    }

    /// As [`Self::alloc`], beside runs of the same type: runs of one type fill whole 2 MiB blocks as far as can be, so
    /// that those which live long (`Unmovable`) do not each keep another 2 MiB from being free. `alloc` takes
    /// `Movable`, the type that all memory has at first; a pool where all runs live alike needs no other.
    ///
    /// # Errors
    /// As there, and [`AllocError::UnsupportedType`] for a type other than the first three.
    #[inline(always)]
    pub fn alloc_typed(&self, order: Order, migratetype: MigrateType) -> Result<NonNull<[u8]>, AllocError> {
        let hot = self.here().and_then(|here| self.allocator().alloc_hot(&request(order, migratetype), here));
        match hot {
            Some(pfn) => Ok(self.run(pfn, order)),
            None => self.alloc_general(&request(order, migratetype)),
        }
    }

    #[cold]
    #[inline(never)]
    fn alloc_general(&self, request: &Request) -> Result<NonNull<[u8]>, AllocError> {
        if self.is_forked() {
            return Err(AllocError::Forked);
        }
        // Without sequences nothing has been tried yet.
        let came = match self.here() {
            Some(_) => self.allocator().alloc_generally(request),
            None => self.allocator().alloc(request),
        };
        let pfn = came.or_else(|error| self.alloc_slow_path(request, error))?;
        Ok(self.run(pfn, request.order))
    }

    /// What is left where the caller's cache and the free lists have nothing: blocks that are just on their way back to
    /// the system, and the caches of all CPUs.
    #[cold]
    fn alloc_slow_path(&self, request: &Request, error: CoreAllocError) -> Result<Pfn, AllocError> {
        self.alloc_after_drains(request, error).map_err(|error| {
            self.failed.fetch_add(1, Relaxed);
            match error {
                CoreAllocError::OutOfMemory(shortage) => {
                    let pages = shortage.free_pages + shortage.cached_pages;
                    AllocError::OutOfMemory { order: shortage.order, free_bytes: pages * PAGE_BYTES as u64 }
                }
                CoreAllocError::Node(node) => AllocError::UnknownNode(node),
                CoreAllocError::Migratetype(migratetype) => AllocError::UnsupportedType(migratetype),
                CoreAllocError::BulkOrder(order) => AllocError::OutOfMemory { order, free_bytes: 0 },
            }
        })
    }

    fn alloc_after_drains(&self, request: &Request, error: CoreAllocError) -> Result<Pfn, CoreAllocError> {
        // A node or a type that is not there will not be there afterwards.
        let CoreAllocError::OutOfMemory(_) = error else { return Err(error) };
        let _no_scan = self.scanner.pause_scans();
        // What a scan had taken is back: the caches may stay.
        if let Ok(pfn) = self.allocator().alloc(request) {
            return Ok(pfn);
        }
        self.drain_every_zone();
        self.allocator().alloc(request)
    }

    /// Empties all caches before it returns. Not drain_all: that returns at once where somebody else drains, who may have
    /// passed some caches by already.
    pub(crate) fn drain_every_zone(&self) {
        (0..self.allocator().zone_count()).for_each(|zone| self.allocator().drain_zone(zone));
    }

    /// Gives a run back, on any thread.
    ///
    /// # Safety
    /// Nothing refers to the run any more, neither from this thread nor from another. A call that comes back with an
    /// error has no such demand on the run that it did not free.
    ///
    /// # Errors
    /// A wrong free, which has changed nothing: an address that is not the pool's, is free already, is not the start of
    /// a run, or of one of another order. Two threads that free the same run at the same instant are not told apart.
    #[inline(always)]
    pub unsafe fn free(&self, start: NonNull<u8>, order: Order) -> Result<(), FreeError> {
        let address = start.addr().get();
        match self.here() {
            Some(here) if self.allocator().free_hot(page_at(address), order, here) => Ok(()),
            _ => self.free_general(address, order),
        }
    }

    #[cold]
    #[inline(never)]
    fn free_general(&self, address: usize, order: Order) -> Result<(), FreeError> {
        if self.is_forked() {
            return Err(FreeError { address, order, reason: FreeReason::Forked });
        }
        // As in alloc_general.
        let freed = match self.here() {
            Some(_) => self.allocator().free_generally(page_at(address), order),
            None => self.allocator().free(page_at(address), order),
        };
        freed.map_err(wrong_free)
    }

    /// Takes single pages, as many as can be had, into the front of `pages`; returns how many.
    ///
    /// # Errors
    /// As [`Self::alloc`], when not even one was to be had.
    pub fn alloc_bulk(&self, pages: &mut [NonNull<u8>]) -> Result<usize, AllocError> {
        self.alloc_bulk_as(pages, |start| start)
    }

    /// As [`Self::alloc_bulk`], for a caller that keeps pages in its own way; `name` makes that of each page's start. For the
    /// C library: what it gives must not panic nor call the pool, whose lock is held, and what is in the slots needs no drop.
    ///
    /// # Errors
    /// As there.
    #[doc(hidden)]
    #[inline]
    pub fn alloc_bulk_as<T>(&self, pages: &mut [T], name: impl Fn(NonNull<u8>) -> T) -> Result<usize, AllocError> {
        if self.is_forked() {
            return Err(AllocError::Forked);
        }
        let request = request(Order::ZERO, MigrateType::Movable);
        let start_of = |pfn: Pfn| name(self.memory.at(pfn.0 as usize * PAGE_BYTES));
        let mut got = 0;
        while got < pages.len() {
            got += match self.allocator().alloc_pages(&request, &mut pages[got..], start_of) {
                Ok(came) => came,
                Err(error) if got == 0 => {
                    pages[0] = start_of(self.alloc_slow_path(&request, error)?);
                    1
                }
                // Some are no failure.
                Err(error) => match self.alloc_after_drains(&request, error) {
                    Ok(pfn) => {
                        pages[got] = start_of(pfn);
                        1
                    }
                    Err(_) => break,
                },
            };
        }
        Ok(got)
    }

    /// Gives many single pages back: all are checked before any of them is freed.
    ///
    /// # Safety
    /// As [`Self::free`], for each of them.
    ///
    /// # Errors
    /// The first wrong one. None has been freed.
    pub unsafe fn free_bulk(&self, pages: &[NonNull<u8>]) -> Result<(), FreeError> {
        // SAFETY: the caller's promise.
        unsafe { self.free_bulk_as(pages, |page| page.addr().get()) }
    }

    /// As [`Self::free_bulk`], for a caller that keeps pages in its own way; `address` says where each begins. For the C
    /// library.
    ///
    /// # Safety
    /// As there. `address` says the same each time that it is asked, does not panic and does not call the pool, whose lock is
    /// held.
    ///
    /// # Errors
    /// As there.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn free_bulk_as<T>(&self, pages: &[T], address: impl Fn(&T) -> usize) -> Result<(), FreeError> {
        if self.is_forked() {
            let address = pages.first().map_or(0, address);
            return Err(FreeError { address, order: Order::ZERO, reason: FreeReason::Forked });
        }
        self.allocator().free_pages(pages, |page| page_at(address(page))).map_err(wrong_free)
    }

    /// The address space that all runs are in, the reserve included: for registering it with a device or with io_uring, as
    /// the crate's README says. Nodes' parts follow each other, all of one length; of each, the front is in use. Reading
    /// or writing there is for those who have the run.
    #[must_use]
    pub fn address_space(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.memory.at(self.memory.start()), self.memory.bytes())
    }

    /// Empties the caches of all CPUs, so that what they hold merges into large blocks.
    pub fn drain(&self) {
        if !self.is_forked() {
            self.allocator().drain_all();
        }
    }

    /// Checks all books from end to end, node by node. Takes time in proportion to the pool.
    ///
    /// # Errors
    /// The first thing that does not add up.
    pub fn audit(&mut self) -> Result<Vec<Balance>, Inconsistency> {
        (0..self.allocator().zone_count()).map(|zone| self.allocator().audit(zone)).collect()
    }
}

#[cold]
pub(crate) fn wrong_free(error: CoreFreeError) -> FreeError {
    let CoreFreeError { pfn, order, reason } = error;
    let address = address_of(pfn);
    let is_page = address.is_multiple_of(PAGE_BYTES);
    FreeError { address, order, reason: if is_page { FreeReason::Wrong(reason) } else { FreeReason::NotAPage } }
}
