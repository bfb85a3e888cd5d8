//! Growing a pool into its reserve, and shrinking it.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use pageset::{Immovable, PageRange, Pfn};

use crate::error::{GIVE_BACK_HELP, PoolError, prefault_error};
use crate::pool::PagePool;
use crate::size::{CHUNK_BYTES, PAGE_BYTES, bytes_per_node, page_range};

impl PagePool {
    /// Brings `bytes` more of the reserved address space into use, rounded up to 2 MiB for each node. Returns the new
    /// size in bytes.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pool = PagePool::builder(64 << 20).reserve(128 << 20).build()?;
    /// pool.grow(64 << 20)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`PoolError::GrowSize`] if `bytes` is 0 or exceeds the rest of the reserve. [`PoolError::System`] if the system
    /// refuses memory to a pool with prefault. [`PoolError::Limited`], [`PoolError::LocksRefused`] and [`PoolError::Forked`]. The size stays.
    pub fn grow(&self, bytes: u64) -> Result<u64, PoolError> {
        if self.is_forked() {
            return Err(PoolError::Forked);
        }
        if !self.can_lock_all_caches() {
            return Err(PoolError::LocksRefused);
        }
        let resizing = self.resizing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_unlimited()?;
        let nodes = self.nodes();
        let old = self.node_bytes.load(Relaxed);
        let max_bytes = ((self.node_span_bytes - old) * nodes) as u64;
        if bytes == 0 || bytes > max_bytes {
            return Err(PoolError::GrowSize { bytes, max_bytes });
        }
        let more = bytes_per_node(bytes, nodes);
        for node in (0..nodes).filter(|_| self.prefault) {
            let populated = self.memory.populate(node * self.node_span_bytes + old, more);
            populated.map_err(|error| prefault_error(more, error))?;
        }
        for node in 0..nodes {
            self.allocator().online(self.node_pages(node, old, more)).map_err(PoolError::Config)?;
        }
        self.node_bytes.store(old + more, Relaxed);
        // A waker is the caller's code, and may change the size again.
        drop(resizing);
        self.wake_waiters();
        Ok(((old + more) * nodes) as u64)
    }

    /// Takes `bytes` at the ends of the nodes out of use, and gives the memory back to the system. Returns the new size in
    /// bytes. `bytes` is rounded up to 2 MiB for each node.
    ///
    /// The address space stays reserved, and [`Self::grow`] brings it into use again. Runs in use do not move, so the
    /// memory must be free. The call drains the caches of all CPUs. Threads that find no memory meanwhile wait for the
    /// call. It takes about 10 ms for each 64 MiB that are resident, and 0.2 ms for each that are not.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// assert_eq!(pool.shrink(16 << 20)?, 48 << 20);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`PoolError::ShrinkSize`] if `bytes` is 0 or a node would keep less than 2 MiB. [`PoolError::InUse`] if a run in
    /// that memory is in use; it says how many bytes are free. [`PoolError::System`] if the system does not take the
    /// memory back. [`PoolError::Limited`], [`PoolError::LocksRefused`] and [`PoolError::Forked`]. The size stays.
    pub fn shrink(&self, bytes: u64) -> Result<u64, PoolError> {
        if self.is_forked() {
            return Err(PoolError::Forked);
        }
        if !self.can_lock_all_caches() {
            return Err(PoolError::LocksRefused);
        }
        let _resizing = self.resizing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_unlimited()?;
        let nodes = self.nodes();
        let old = self.node_bytes.load(Relaxed);
        let max_bytes = ((old - CHUNK_BYTES) * nodes) as u64;
        if bytes == 0 || bytes > max_bytes {
            return Err(PoolError::ShrinkSize { bytes, max_bytes });
        }
        let less = bytes_per_node(bytes, nodes);
        let new = old - less;
        // While pageblocks are isolated, other threads may find no memory. They wait for this guard, then try again.
        let _no_scan = self.scanner.pause_scans();
        let undo = |nodes: usize| {
            (0..nodes)
                .try_for_each(|node| self.allocator().online(self.node_pages(node, new, less)))
                .map_err(PoolError::Config)
        };
        for node in 0..nodes {
            if let Err(error) = self.allocator().offline(self.node_pages(node, new, less), &Immovable) {
                undo(node)?;
                let address = error.pfn.0 as usize * PAGE_BYTES;
                return Err(PoolError::InUse { bytes, address, max_bytes: self.free_at_end(old) });
            }
        }
        for node in 0..nodes {
            if let Err(source) = self.give_back_offline(node * self.node_span_bytes + new, less) {
                undo(nodes)?;
                let help = GIVE_BACK_HELP;
                return Err(PoolError::System { action: "give memory back", bytes: less as u64, help, source });
            }
        }
        self.node_bytes.store(new, Relaxed);
        Ok((new * nodes) as u64)
    }

    /// The number of nodes that have a part of the memory.
    pub(crate) fn nodes(&self) -> usize {
        self.memory.bytes() / self.node_span_bytes
    }

    /// The pages of `bytes` from `offset` on in the part of `node`, an index among the pool's nodes.
    pub(crate) fn node_pages(&self, node: usize, offset: usize, bytes: usize) -> PageRange {
        page_range(self.memory.start() + node * self.node_span_bytes + offset, bytes)
    }

    /// The bytes by which the pool could shrink now. `node_bytes` is the current size of each node.
    fn free_at_end(&self, node_bytes: usize) -> u64 {
        self.drain_every_zone();
        let is_free =
            |pfn: Pfn| self.allocator().free_block_around(pfn).is_some_and(|block| block.pages >= CHUNK_PAGES);
        let free_chunks = |node| {
            let chunks = (1..node_bytes / CHUNK_BYTES).rev();
            chunks.take_while(|chunk| is_free(self.node_pages(node, chunk * CHUNK_BYTES, CHUNK_BYTES).start)).count()
        };
        ((0..self.nodes()).map(free_chunks).min().unwrap_or(0) * CHUNK_BYTES * self.nodes()) as u64
    }

    #[allow(unsafe_code, reason = "only this module knows that the range is offline")]
    fn give_back_offline(&self, offset: usize, bytes: usize) -> std::io::Result<()> {
        // SAFETY: (1) the caller has just taken all of the range offline, so nobody owns a run in it; (2) nobody gets
        // one before the caller releases `resizing`.
        let resident = unsafe { self.memory.give_back(offset, bytes)? };
        self.scanner.given_back_bytes.fetch_add(resident, Relaxed);
        Ok(())
    }
}

const CHUNK_PAGES: u64 = (CHUNK_BYTES / PAGE_BYTES) as u64;
