//! Contiguous runs of any size, even above the largest order.
//!
//! A search of the allocator ([`pageset::AllocFrom::Search`]) looks for a free range in steps of 2 MiB and allocates it as the kernel's
//! `alloc_contig_range` does. It isolates the pageblocks of the range, so that nobody else gets pages from them, and drains the
//! caches. Pages in use do not move. This is for buffers that live long, not for every request.
#![allow(unsafe_code, reason = "slices over the memory of the handle, and a raw free")]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use pageset::{Alloc, AllocError as CoreAllocError, AllocFrom, Free, PageState, Request, WrongFree};

use crate::error::{AllocError, FreeError, FreeReason};
use crate::pages::{PoolRef, impl_run_handle};
use crate::pool::{PagePool, wrong_free};
use crate::size::{CHUNK_BYTES, PAGE_BYTES, page_range};
use crate::spec::ContigSpec;

impl PagePool {
    /// Allocates a contiguous run: of a number of bytes, rounded up to pages, or as a [`ContigSpec`] says. It starts at a multiple of
    /// 2 MiB. The caller owns it until [`Self::free_contig`].
    ///
    /// The run comes from the caller's node, or from the nearest node with such a range. The call takes about 1 µs for
    /// each MiB of the run. It drains all caches. If there is no such range, it searches for 10 to 130 µs for each GiB
    /// of the pool. Threads that find no memory meanwhile wait for the call. For runs up to 4 MiB, prefer
    /// [`Self::alloc`], which does not drain caches.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let run = pool.alloc_contig(10 << 20)?;
    /// // SAFETY: nothing refers to the run, and all of it is the caller's.
    /// unsafe { pool.free_contig(run)? };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AllocError::ContigSize`] for 0 bytes or more than a node has, [`AllocError::NoContigRange`] if no free range
    /// of that size starts at a multiple of 2 MiB, [`AllocError::UnknownNode`] if the pool has no memory of a node that was asked for,
    /// [`AllocError::DrainRefused`], and [`AllocError::Forked`].
    pub fn alloc_contig(&self, run: impl Into<ContigSpec>) -> Result<NonNull<[u8]>, AllocError> {
        let ContigSpec { bytes, request, zeroed } = run.into();
        let run = self.alloc_contig_for(bytes, &request)?;
        Ok(if zeroed { self.cleared(run) } else { run })
    }

    fn alloc_contig_for(&self, bytes: usize, request: &Request) -> Result<NonNull<[u8]>, AllocError> {
        if self.is_forked() {
            return Err(AllocError::Forked);
        }
        // Relaxed: a hint. A range that is offline by now is not free, so the allocation fails cleanly.
        let node_bytes = self.node_bytes.load(Relaxed);
        if bytes == 0 || bytes > node_bytes {
            return Err(AllocError::ContigSize { bytes: bytes as u64, max_bytes: node_bytes as u64 });
        }
        if !self.can_lock_all_caches() {
            return Err(AllocError::DrainRefused);
        }
        let rounded = bytes.next_multiple_of(PAGE_BYTES);
        // While pageblocks are isolated, other threads may find no memory. They wait for this guard, then try again. The
        // guard also keeps give-back scans from holding a block of the range.
        let _no_scan = self.scanner.pause_scans();
        let (pages, align_pages) = ((rounded / PAGE_BYTES) as u64, (CHUNK_BYTES / PAGE_BYTES) as u64);
        match self.allocator().alloc_with(Alloc::new(request).pages(pages).aligned(align_pages).from(AllocFrom::Search))
        {
            Ok(pfn) => {
                let start = pfn.0 as usize * PAGE_BYTES;
                self.contig_runs.add(start, rounded);
                let run = NonNull::slice_from_raw_parts(self.memory.pointer_to(start), rounded);
                self.hooks.after_alloc(&self.memory, run.cast(), rounded);
                Ok(run)
            }
            Err(CoreAllocError::Node(node)) => Err(AllocError::UnknownNode(node)),
            Err(_) => {
                self.count_failed_alloc();
                let stats = self.stats();
                let (bytes, free_bytes) = (bytes as u64, stats.free_bytes + stats.cached_bytes);
                Err(match self.limit() {
                    Some(limit_bytes) => AllocError::Limit { bytes, limit_bytes, free_bytes },
                    None => AllocError::NoContigRange { bytes, free_bytes },
                })
            }
        }
    }

    /// Frees a contiguous run. Any thread can free it. `run` is the whole run, as the allocation returned it.
    ///
    /// Do not free blocks of the run with [`Self::free`]. The pool does not refuse that. This call then fails, and names the
    /// first block that is already free.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let run = pool.alloc_contig(ContigSpec::new(6 << 20).zeroed())?;
    /// // SAFETY: nothing refers to the run, and all of it is the caller's.
    /// unsafe { pool.free_contig(run)? };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Safety
    /// If the call succeeds: (1) nothing in any thread refers to the run any more; (2) the caller owns all of it. A call
    /// that returns an error asks for nothing, because it frees nothing.
    ///
    /// # Errors
    /// [`FreeError`] if no contiguous run starts at the address, or if the run there has another size: the error names its
    /// size. Also for an address or a length that is not a multiple of a page. For a wrong length, the address in the error
    /// is the end of the run. Also if a block of the run is not in use. The call has then changed nothing.
    pub unsafe fn free_contig(&self, run: NonNull<[u8]>) -> Result<(), FreeError> {
        let (address, bytes) = (run.cast::<u8>().addr().get(), run.len());
        if !(address | bytes).is_multiple_of(PAGE_BYTES) || self.is_forked() {
            let wrong = if address.is_multiple_of(PAGE_BYTES) { address.wrapping_add(bytes) } else { address };
            let reason = if self.is_forked() { FreeReason::Forked } else { FreeReason::NotAPage };
            return Err(FreeError { address: wrong, order: None, reason });
        }
        let free = || self.free_range(address, bytes).map_err(|error| FreeError { order: None, ..wrong_free(error) });
        let freed = self.contig_runs.remove(address, bytes, free, || self.why_no_contig_run(address));
        self.wake_waiters();
        freed
    }

    /// Frees the blocks of a contiguous run, after its hook.
    fn free_range(&self, address: usize, bytes: usize) -> Result<(), pageset::FreeError> {
        let range = page_range(address, bytes);
        if !self.hooks.has_free_hook() {
            return self.allocator().free_with(Free::whole_blocks(range));
        }
        self.allocator().free_with(Free::whole_blocks(range).cleaned(|_| {
            // SAFETY: (1) the run is in the pool, since all its blocks were claimed; (2) the caller of the free owns all of
            // it, and guarantees that nothing refers to it.
            unsafe { self.hooks.before_free(&self.memory, self.memory.pointer_to(address), bytes) };
        }))
    }

    fn why_no_contig_run(&self, address: usize) -> FreeReason {
        let pfn = page_range(address, PAGE_BYTES).start;
        let offset = address.wrapping_sub(self.memory.start());
        if offset >= self.memory.bytes() {
            FreeReason::Wrong(WrongFree::NotOurs)
        } else if offset % self.node_span_bytes >= self.node_bytes.load(Relaxed) {
            FreeReason::Wrong(WrongFree::NotAllocated(PageState::Inside))
        } else if self.allocator().settled_free_block_around(pfn).is_some() {
            FreeReason::Wrong(WrongFree::NotAllocated(PageState::Free))
        } else {
            FreeReason::NotContig
        }
    }

    /// As [`Self::alloc_contig`], in a handle that borrows the pool. [`ContigPages::new`] makes one that keeps the pool alive.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let mut ring = pool.contig_pages(10 << 20)?;
    /// ring.fill(7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Self::alloc_contig`].
    pub fn contig_pages(&self, run: impl Into<ContigSpec>) -> Result<ContigPages<&PagePool>, AllocError> {
        ContigPages::new(self, run)
    }
}

/// A handle that owns a contiguous run of any size and frees it on drop. In a forked child, the drop frees nothing.
///
/// The run first contains the bytes of its last owner, or zeros.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = pageset_host::PagePool::builder(64 << 20).build()?;
/// let mut ring = pool.contig_pages(10 << 20)?;
/// ring.fill(7);
/// assert_eq!((ring.len(), ring.as_ptr() as usize % (2 << 20)), (10 << 20, 0));
/// # Ok(())
/// # }
/// ```
pub struct ContigPages<P: PoolRef> {
    pool: P,
    run: NonNull<[u8]>,
}

impl_run_handle!(ContigPages, "free_contig");

impl<P: PoolRef> ContigPages<P> {
    /// Allocates a contiguous run from a pool: `&PagePool`, or `Arc<PagePool>` for a handle that keeps the pool alive.
    ///
    /// # Errors
    /// The errors of [`PagePool::alloc_contig`].
    pub fn new(pool: P, run: impl Into<ContigSpec>) -> Result<Self, AllocError> {
        let run = pool.alloc_contig(run)?;
        Ok(ContigPages { pool, run })
    }

    /// Makes a handle of a run that a raw call allocated or that [`Self::into_raw`] returned.
    ///
    /// # Safety
    /// (1) The run is a whole allocation from this pool. (2) The caller owns it, and nothing else uses or frees it
    /// afterwards.
    pub unsafe fn from_raw(pool: P, run: NonNull<[u8]>) -> Self {
        ContigPages { pool, run }
    }

    #[inline]
    fn run(&self) -> NonNull<[u8]> {
        self.run
    }
}

impl<P: PoolRef> Drop for ContigPages<P> {
    fn drop(&mut self) {
        // SAFETY: the handle owns the run, and nothing uses the handle after this.
        let freed = unsafe { self.pool.free_contig(self.run) };
        debug_assert!(freed.is_ok() || self.pool.is_forked(), "{freed:?}");
    }
}

impl<P: PoolRef> fmt::Debug for ContigPages<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContigPages").field("run", &self.run).finish_non_exhaustive()
    }
}
