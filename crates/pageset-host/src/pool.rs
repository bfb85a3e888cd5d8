//! The pool: raw calls for one run and for many pages.
#![allow(unsafe_code, reason = "raw frees are unsafe for callers; the pool itself never touches the pages")]

use std::fmt;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use pageset::admin::audit::{AuditError, Books};
use pageset::{AllocError as CoreAllocError, Allocator, Free, FreeError as CoreFreeError, FreeTo, MigrateType};
use pageset::{Order, PageHandle, PageRange, Pfn, Request};

use crate::contig_runs::ContigRuns;
use crate::error::{AllocError, FreeError, FreeReason};
use crate::give_back::{GiveBack, GiveBackScanner};
use crate::machine::{CurrentCpu, Host};
use crate::run_hooks::RunHooks;
use crate::size::CHUNK_BYTES;
use crate::spec::{RunSpec, request};
use crate::sys::fork_detector::ForkDetector;
use crate::sys::mapped_allocator::MappedAllocator;
use crate::sys::mapping::Mapping;
use crate::waiters::Waiters;
use crate::withheld::Limit;

pub use crate::size::{PAGE_BYTES, order_for};

/// A pool of pages in this process. The crate's documentation describes threads, forks and panics.
///
/// A run is 2^order pages, up to 4 MiB, and is aligned to its size. It contains the bytes of its last owner, or zeros.
pub struct PagePool {
    pub(crate) mapped_allocator: MappedAllocator<Host>,
    pub(crate) memory: Mapping,
    pub(crate) fork_detector: ForkDetector,
    /// Address space of each node in bytes.
    pub(crate) node_span_bytes: usize,
    pub(crate) prefault: bool,
    /// Current size of each node in bytes. Writers hold `resizing`. Relaxed: other readers use it as a hint.
    pub(crate) node_bytes: AtomicUsize,
    /// Held while the pool grows or shrinks. Lock order: before the locks of `scanner`.
    pub(crate) resizing: Mutex<()>,
    pub(crate) scanner: GiveBackScanner,
    pub(crate) contig_runs: ContigRuns,
    pub(crate) hooks: RunHooks,
    pub(crate) waiters: Waiters,
    pub(crate) limit: Limit,
    /// Failed allocations. Relaxed: a statistic.
    pub(crate) failed_allocs: AtomicU64,
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
        self.hooks.ended(&self.memory);
    }
}

impl PagePool {
    pub(crate) fn new(
        memory: Mapping,
        mapped_allocator: MappedAllocator<Host>,
        fork_detector: ForkDetector,
        node_span_bytes: usize,
        prefault: bool,
        policy: GiveBack,
    ) -> PagePool {
        let node_bytes =
            (mapped_allocator.get().zones().next().map_or(0, |zone| zone.stats().managed)) as usize * PAGE_BYTES;
        let scanner = GiveBackScanner::new(policy, memory.bytes() / CHUNK_BYTES);
        PagePool {
            mapped_allocator,
            memory,
            fork_detector,
            node_span_bytes,
            prefault,
            node_bytes: AtomicUsize::new(node_bytes),
            resizing: Mutex::new(()),
            scanner,
            contig_runs: ContigRuns::default(),
            hooks: RunHooks::default(),
            waiters: Waiters::default(),
            limit: Limit::default(),
            failed_allocs: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn allocator(&self) -> &Allocator<'_, Host> {
        self.mapped_allocator.get()
    }

    /// The current CPU for the fast path of allocations. `None` where there is no fast path, and in a forked child.
    #[inline(always)]
    fn cpu_for_alloc(&self) -> Option<CurrentCpu> {
        self.fork_detector.rseq_of_allocs().map(CurrentCpu::read)
    }

    /// The current CPU for the fast path of frees. `None` where there is no fast path, and in a forked child.
    #[inline(always)]
    fn cpu_for_free(&self) -> Option<CurrentCpu> {
        self.fork_detector.rseq_of_frees().map(CurrentCpu::read)
    }

    /// Whether this process is a forked child of the process that built the pool.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// assert!(!pool.is_forked());
    /// # Ok(())
    /// # }
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn is_forked(&self) -> bool {
        self.fork_detector.is_in_child()
    }

    #[inline(always)]
    fn block_memory(&self, pfn: Pfn, order: Order) -> NonNull<[u8]> {
        let start = self.memory.pointer_to(pfn.0 as usize * PAGE_BYTES);
        NonNull::slice_from_raw_parts(start, PAGE_BYTES << order.get())
    }

    /// Allocates a run of 2^`order` pages. The caller owns it until [`Self::free`].
    ///
    /// The run comes from the caller's node while that node has one, else from the nearest node that has one. The call
    /// holds no lock when it returns.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let page = pool.alloc(Order::ZERO)?;
    /// // SAFETY: nothing refers to the page.
    /// unsafe { pool.free(page.cast(), Order::ZERO)? };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AllocError::OutOfMemory`] if no run of that size is free, not even after a drain of all caches, and
    /// [`AllocError::Forked`].
    #[inline(always)]
    pub fn alloc(&self, order: Order) -> Result<NonNull<[u8]>, AllocError> {
        self.alloc_with(&RunSpec::new(order))
    }

    /// Allocates a run as a [`RunSpec`] says: from which node, of which type, with zeros, and how long to wait for it.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let run = pool.alloc_with(&RunSpec::new(Order::ZERO).node(NodeId(0)).zeroed())?;
    /// // SAFETY: nothing refers to the run.
    /// unsafe { pool.free(run.cast(), Order::ZERO)? };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AllocError::UnknownNode`] if the pool has no memory of the node. [`AllocError::UnsupportedType`] for a type other than
    /// `Unmovable`, `Movable` and `Reclaimable`. With a timeout [`AllocError::TimedOut`] in place of [`AllocError::OutOfMemory`], unless
    /// the run is larger than a node with its reserve. Else the errors of [`Self::alloc`].
    #[inline(always)]
    pub fn alloc_with(&self, run: &RunSpec) -> Result<NonNull<[u8]>, AllocError> {
        let RunSpec { ref request, zeroed, timeout } = *run;
        let cached = self.cpu_for_alloc().and_then(|cpu| self.allocator().fast_path().alloc(request, cpu));
        let allocated = match (cached, timeout) {
            (Some(pfn), _) => Ok(self.block_memory(pfn, request.order)),
            (None, None) => self.alloc_general(request),
            (None, Some(timeout)) => self.alloc_in_time(request, timeout),
        };
        if zeroed { allocated.map(|run| self.cleared(run)) } else { allocated }
    }

    #[cold]
    #[inline(never)]
    fn alloc_general(&self, request: &Request) -> Result<NonNull<[u8]>, AllocError> {
        if self.is_forked() {
            return Err(AllocError::Forked);
        }
        self.try_alloc(request).map_err(|error| self.failed_alloc(error))
    }

    /// Allocates without the fast path, and counts no failure.
    pub(crate) fn try_alloc(&self, request: &Request) -> Result<NonNull<[u8]>, CoreAllocError> {
        // Without a fast path, the caller has not tried the cache yet.
        let allocated = match self.cpu_for_alloc() {
            Some(_) => self.allocator().fast_path().alloc_rest(request),
            None => self.allocator().alloc(request),
        };
        let pfn = allocated.or_else(|error| self.alloc_after_drains(request, error))?;
        let run = self.block_memory(pfn, request.order);
        self.hooks.after_alloc(&self.memory, run.cast(), run.len());
        Ok(run)
    }

    pub(crate) fn count_failed_alloc(&self) {
        self.failed_allocs.fetch_add(1, Relaxed);
    }

    /// The error of a run of `pages` pages, which no node has.
    fn wrong_size(&self, pages: u64) -> AllocError {
        // Relaxed: a statistic.
        let max_bytes = self.node_bytes.load(Relaxed) as u64;
        AllocError::ContigSize { bytes: pages.saturating_mul(PAGE_BYTES as u64), max_bytes }
    }

    pub(crate) fn failed_alloc(&self, error: CoreAllocError) -> AllocError {
        self.count_failed_alloc();
        match error {
            CoreAllocError::OutOfMemory(shortage) => {
                let free_bytes = (shortage.free_pages + shortage.cached_pages) * PAGE_BYTES as u64;
                let order = shortage.order;
                match self.limit() {
                    Some(limit_bytes) => {
                        AllocError::Limit { bytes: order.pages() * PAGE_BYTES as u64, limit_bytes, free_bytes }
                    }
                    None => AllocError::OutOfMemory { order, free_bytes },
                }
            }
            CoreAllocError::Node(node) => AllocError::UnknownNode(node),
            CoreAllocError::Migratetype(migratetype) => AllocError::UnsupportedType(migratetype),
            // No call of the pool asks for a wrong number of pages. The number is what is wrong.
            CoreAllocError::Pages(pages) | CoreAllocError::Run { pages, .. } => self.wrong_size(pages),
            CoreAllocError::NoRun { pages, .. } => {
                let stats = self.stats();
                let free_bytes = stats.free_bytes + stats.cached_bytes;
                AllocError::NoContigRange { bytes: pages.saturating_mul(PAGE_BYTES as u64), free_bytes }
            }
        }
    }

    /// Allocates after the caller's cache and the free lists had no block: waits for scans, then drains all caches.
    #[cold]
    fn alloc_after_drains(&self, request: &Request, error: CoreAllocError) -> Result<Pfn, CoreAllocError> {
        // A drain does not help against an unknown node or an unsupported type.
        let CoreAllocError::OutOfMemory(_) = error else { return Err(error) };
        let _no_scan = self.scanner.pause_scans();
        // A scan that held a block has freed it. If that suffices, the caches keep their pages.
        if let Ok(pfn) = self.allocator().alloc(request) {
            return Ok(pfn);
        }
        self.drain_every_zone();
        self.allocator().alloc(request)
    }

    /// Drains the caches of all zones before it returns.
    ///
    /// If a filter of system calls that came after the pool refuses `membarrier`, the calling thread drains on each CPU that
    /// it can run on. Other caches keep their pages.
    pub(crate) fn drain_every_zone(&self) {
        let machine = self.allocator().machine();
        if !machine.has_fences() {
            return machine.on_each_cpu(|| self.drain_own_cache());
        }
        self.allocator().drain_all();
    }

    /// Drains the caches of the caller's CPU. If another thread of this CPU holds one, that cache keeps its pages.
    fn drain_own_cache(&self) {
        self.allocator().drain();
    }

    /// Frees a run later, from any context: a signal handler may call this while it has interrupted a call to the pool.
    ///
    /// The call takes no lock, waits for nothing, and makes no system call. One of the next calls to the pool that take
    /// the lock of the node completes it. An allocation that finds no memory completes all such frees and tries again.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let page = pool.alloc(Order::ZERO)?.cast();
    /// // In a signal handler. SAFETY: nothing refers to the page.
    /// unsafe { pool.free_deferred(page, Order::ZERO)? };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Safety
    /// If the call succeeds, nothing in any thread refers to the run any more.
    ///
    /// # Errors
    /// The errors of [`Self::free`].
    pub unsafe fn free_deferred(&self, start: NonNull<u8>, order: Order) -> Result<(), FreeError> {
        let address = start.addr().get();
        if self.is_forked() {
            return Err(FreeError { address, order: Some(order), reason: FreeReason::Forked });
        }
        let pfn = Pfn::at_address(address);
        let free = Free::block(pfn, order).to(FreeTo::Deferred);
        let freed = if self.hooks.has_free_hook() {
            self.allocator().free_with(free.cleaned(|pages| self.before_free(pages)))
        } else {
            self.allocator().free_with(free)
        };
        self.note_deferred_free();
        freed.map_err(wrong_free)
    }

    /// Frees a run. Any thread can free it.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let page = pool.alloc(Order::ZERO)?.cast();
    /// // SAFETY: nothing refers to the page.
    /// unsafe { pool.free(page, Order::ZERO)? };
    /// // SAFETY: the call fails, so it asks for nothing.
    /// let twice = unsafe { pool.free(page, Order::ZERO) };
    /// assert_eq!(twice.unwrap_err().reason, FreeReason::Wrong(WrongFree::NotAllocated(PageState::Cached)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Safety
    /// If the call succeeds, nothing in any thread refers to the run any more. A call that returns an error asks for
    /// nothing, because it frees nothing.
    ///
    /// # Errors
    /// [`FreeError`] if the address is outside the pool or is not the start of a run. Also if the run is already free or
    /// has another order. The call has then changed nothing. [`crate::FreeCheck`] says when it detects two
    /// threads that free the same run at the same instant.
    #[inline(always)]
    pub unsafe fn free(&self, start: NonNull<u8>, order: Order) -> Result<(), FreeError> {
        let address = start.addr().get();
        match self.cpu_for_free() {
            Some(cpu) if self.allocator().fast_path().free(Pfn::at_address(address), order, cpu) => {
                self.wake_waiters();
                Ok(())
            }
            _ => self.free_general(address, order),
        }
    }

    #[cold]
    #[inline(never)]
    fn free_general(&self, address: usize, order: Order) -> Result<(), FreeError> {
        if self.is_forked() {
            return Err(FreeError { address, order: Some(order), reason: FreeReason::Forked });
        }
        let pfn = Pfn::at_address(address);
        // Without a fast path, the caller has not tried the cache yet.
        let freed = match self.cpu_for_free() {
            Some(_) => self.allocator().fast_path().free_rest(pfn, order),
            None if self.hooks.has_free_hook() => {
                self.allocator().free_with(Free::block(pfn, order).cleaned(|pages| self.before_free(pages)))
            }
            None => self.allocator().free(pfn, order),
        };
        self.wake_waiters();
        freed.map_err(wrong_free)
    }

    /// The hook of a free, for a block that the allocator has claimed.
    #[cold]
    pub(crate) fn before_free(&self, pages: PageRange) {
        let start = self.memory.pointer_to(pages.start.address());
        // SAFETY: (1) the allocator claims only blocks of the pool; (2) a claimed block has no owner, and the caller of the
        // free guarantees that nothing refers to it.
        unsafe { self.hooks.before_free(&self.memory, start, pages.pages as usize * PAGE_BYTES) };
    }

    /// Allocates single pages into the front of `pages` and returns how many. It allocates fewer than `pages.len()` only
    /// if no more are free.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let mut pages = [NonNull::dangling(); 32];
    /// let count = pool.alloc_bulk(&mut pages)?;
    /// // SAFETY: nothing refers to the pages.
    /// unsafe { pool.free_bulk(Order::ZERO, &pages[..count])? };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Self::alloc`] if not even one page is free. An empty `pages` is no error.
    pub fn alloc_bulk(&self, pages: &mut [NonNull<u8>]) -> Result<usize, AllocError> {
        self.alloc_bulk_as(Order::ZERO, pages, |start| start)
    }

    /// [`Self::alloc_bulk`] for runs of 2^`order` pages, and for slots of another type: `convert` makes the slot's value from the start of
    /// a run.
    ///
    /// For the C library. If `convert` panics, up to 64 runs stay allocated.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let order = Order::new(3).ok_or("an order")?;
    /// let mut runs = [None; 4];
    /// assert_eq!(pool.alloc_bulk_as(order, &mut runs, Some)?, 4);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Self::alloc`] if not even one run is free. An empty `runs` is no error.
    #[doc(hidden)]
    #[inline]
    pub fn alloc_bulk_as<T>(
        &self,
        order: Order,
        runs: &mut [T],
        convert: impl Fn(NonNull<u8>) -> T,
    ) -> Result<usize, AllocError> {
        if self.is_forked() {
            return Err(AllocError::Forked);
        }
        let request = request(order, MigrateType::Movable);
        // The allocator's numbers of some runs, before they become the caller's values without a lock held.
        let mut some = [Pfn(0); 64];
        let mut got = 0;
        while got < runs.len() {
            let rest = &mut runs[got..];
            let wanted = rest.len().min(some.len());
            let count = match self.allocator().alloc_bulk(&request, &mut some[..wanted]) {
                Ok(count) => count,
                Err(error) => {
                    some[0] = match self.alloc_after_drains(&request, error) {
                        Ok(pfn) => pfn,
                        Err(error) if got == 0 => return Err(self.failed_alloc(error)),
                        // The caller has some runs, so this shortage does not count as a failed allocation.
                        Err(_) => break,
                    };
                    1
                }
            };
            for (slot, pfn) in rest.iter_mut().zip(&some[..count]) {
                let start = self.memory.pointer_to(pfn.0 as usize * PAGE_BYTES);
                self.hooks.after_alloc(&self.memory, start, PAGE_BYTES << order.get());
                *slot = convert(start);
            }
            got += count;
        }
        Ok(got)
    }

    /// Frees runs of 2^`order` pages. The call checks all runs before it frees any.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let mut pages = [NonNull::dangling(); 32];
    /// let count = pool.alloc_bulk(&mut pages)?;
    /// // SAFETY: nothing refers to the pages.
    /// unsafe { pool.free_bulk(Order::ZERO, &pages[..count])? };
    /// assert_eq!(pool.stats().in_use_bytes, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Safety
    /// If the call succeeds, nothing in any thread refers to any of the runs.
    ///
    /// # Errors
    /// [`FreeError`] for the first wrong run. The call has then freed none.
    #[inline]
    pub unsafe fn free_bulk(&self, order: Order, runs: &[impl PageHandle]) -> Result<(), FreeError> {
        if self.is_forked() {
            let address = runs.first().map_or(0, |run| run.pfn().address());
            return Err(FreeError { address, order: Some(order), reason: FreeReason::Forked });
        }
        let freed = if self.hooks.has_free_hook() {
            self.allocator().free_with(Free::blocks(order, runs).cleaned(|pages| self.before_free(pages)))
        } else {
            self.allocator().free_bulk_of(order, runs)
        };
        self.wake_waiters();
        freed.map_err(wrong_free)
    }

    /// Drains the caches of all CPUs, so that their pages merge into large blocks. Callers in parallel share no work: each locks every
    /// CPU's cache. Does nothing in a forked child.
    ///
    /// If a filter of system calls that came after the pool refuses `membarrier`, the caches of CPUs on which the calling
    /// thread cannot run keep their pages.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// pool.drain();
    /// assert_eq!(pool.stats().cached_bytes, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn drain(&self) {
        if !self.is_forked() {
            self.drain_every_zone();
        }
    }

    /// Whether the calling thread can take the locks of all caches. The README of this crate says when it cannot.
    #[must_use]
    pub(crate) fn can_lock_all_caches(&self) -> bool {
        self.allocator().machine().can_lock_all_caches()
    }

    /// Checks all metadata, and returns the sums of each node. The time is proportional to the size of the pool.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let mut pool = pool;
    /// assert_eq!(pool.audit()?.iter().map(|node| node.in_use).sum::<u64>(), 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first inconsistency. A pool that a signal handler changes meanwhile may be busy.
    pub fn audit(&mut self) -> Result<Vec<Books>, AuditError> {
        self.try_audit()
    }

    /// As [`Self::audit`], for a pool that other threads may use meanwhile, such as a global allocator's. Calls that run on during each of
    /// eight passes make it busy, and what a suspended call has claimed may count as an inconsistency.
    ///
    /// # Errors
    /// The first inconsistency; or the pool is busy.
    pub fn try_audit(&self) -> Result<Vec<Books>, AuditError> {
        self.allocator().zones().map(|zone| zone.audit()).collect()
    }
}

#[cold]
pub(crate) fn wrong_free(error: CoreFreeError) -> FreeError {
    let CoreFreeError { pfn, order, reason } = error;
    let address = pfn.address();
    let is_page = address.is_multiple_of(PAGE_BYTES);
    let reason = if is_page { FreeReason::Wrong(reason) } else { FreeReason::NotAPage };
    FreeError { address, order: Some(order), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageset::NodeId;

    /// Calls of the pool check sizes first. If one does not, its error names the size.
    #[test]
    fn an_error_of_the_allocator_keeps_its_fault() {
        let pool = PagePool::builder(8 << 20).nodes(&[NodeId(0)]).build().expect("memory");
        for (error, message) in [
            (
                CoreAllocError::Pages(0),
                "a contiguous run of 0 bytes: the size is out of range; try 1 to 8388608, the size of a node",
            ),
            (
                CoreAllocError::Run { pages: 3, align_pages: 3 },
                "a contiguous run of 12288 bytes: the size is out of range; try 1 to 8388608, the size of a node",
            ),
            (
                CoreAllocError::NoRun { pages: 4096, align_pages: 1 },
                "a contiguous run of 16777216 bytes: no free range of that size starts at a multiple of 2 MiB, and \
                 8388608 bytes are free in all; try a smaller run, or up to 4 MiB one of 2^order pages",
            ),
        ] {
            assert_eq!(pool.failed_alloc(error).to_string(), format!("cannot allocate {message}"));
        }
    }
}
