//! Runs that contain zeros, and pools whose free memory contains zeros.
#![allow(unsafe_code, reason = "fills a run that nobody else owns yet")]

use std::ptr::NonNull;
use std::sync::Arc;

use pageset::Order;

use crate::builder::PoolBuilder;
use crate::error::AllocError;
use crate::pages::Pages;
use crate::pool::PagePool;

impl PoolBuilder {
    /// Sets whether a free fills the run with zeros, so that no later owner reads what the last one wrote. Default: off.
    ///
    /// It applies to every free: of single runs, in bulk, deferred, and of contiguous runs. The run is zero before it is free,
    /// so caches, drains and scans only see zeros. [`PagePool::alloc_zeroed`] then costs no more than [`PagePool::alloc`].
    /// Memory that is in use when the pool is dropped goes back to the system as it is; the system clears it.
    ///
    /// Cost: about 50 ns for each page that is freed and is in the CPU's cache, and up to 1 µs for one that is not. A free then
    /// bypasses its inlined fast path. A free of memory that was never touched makes it resident.
    #[must_use]
    pub fn zero_on_free(mut self, on: bool) -> Self {
        self.hooks.zero_on_free = on;
        self
    }
}

impl PagePool {
    /// Allocates a run of 2^`order` pages that contains zeros.
    ///
    /// The call clears the run, unless the pool is built with [`PoolBuilder::zero_on_free`]: the memory is then zero
    /// already. Clearing makes the run resident and takes about 50 ns to 1 µs for each page. Order: 0 to 10.
    ///
    /// # Errors
    /// The errors of [`Self::alloc`].
    pub fn alloc_zeroed(&self, order: Order) -> Result<NonNull<[u8]>, AllocError> {
        self.alloc(order).map(|run| self.cleared(run))
    }

    /// Allocates a contiguous run of `bytes` that contains zeros, as [`Self::alloc_contig`] and [`Self::alloc_zeroed`] do.
    ///
    /// # Errors
    /// The errors of [`Self::alloc_contig`].
    pub fn alloc_contig_zeroed(&self, bytes: usize) -> Result<NonNull<[u8]>, AllocError> {
        self.alloc_contig(bytes).map(|run| self.cleared(run))
    }

    /// Allocates a run of 2^`order` pages that contains zeros, in a handle that borrows the pool.
    ///
    /// # Errors
    /// The errors of [`Self::alloc`].
    pub fn zeroed_pages(&self, order: Order) -> Result<Pages<&PagePool>, AllocError> {
        let run = self.alloc_zeroed(order)?;
        // SAFETY: the run was just allocated, of this order.
        Ok(unsafe { Pages::from_raw(self, run.cast(), order) })
    }

    /// Allocates a run of 2^`order` pages that contains zeros, in a handle that keeps the pool alive.
    ///
    /// # Errors
    /// The errors of [`Self::alloc`].
    pub fn shared_zeroed_pages(self: &Arc<Self>, order: Order) -> Result<Pages<Arc<PagePool>>, AllocError> {
        let run = self.alloc_zeroed(order)?;
        // SAFETY: the run was just allocated, of this order.
        Ok(unsafe { Pages::from_raw(Arc::clone(self), run.cast(), order) })
    }

    /// Fills a run that was just allocated with zeros, if it may contain something else.
    fn cleared(&self, run: NonNull<[u8]>) -> NonNull<[u8]> {
        if !self.hooks.free_memory_is_zero() {
            // SAFETY: (1) the run is mapped; (2) it was just allocated, so nobody else refers to it.
            unsafe { run.cast::<u8>().write_bytes(0, run.len()) };
        }
        run
    }
}
