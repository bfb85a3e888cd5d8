//! A limit below the size of a pool: memory above it is withheld.
//!
//! The pool allocates the withheld memory itself, as large blocks at the ends of the nodes. So the limit adds no cost to
//! allocations and frees, and it is exact to the page.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use pageset::{Alloc, AllocFrom, Free, FreeTo, MigrateType, Order, Pfn};

use crate::builder::PoolBuilder;
use crate::error::PoolError;
use crate::pool::{PAGE_BYTES, PagePool};
use crate::size::CHUNK_BYTES;
use crate::spec::request;

impl PoolBuilder {
    /// Sets how many bytes of the pool can be in use at the same time, 1 to the size, rounded up to pages. Default: all.
    /// [`PagePool::set_limit`] describes and changes the limit.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = Some(bytes);
        self
    }
}

impl PagePool {
    /// The limit in bytes, if the pool has one.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// assert_eq!(pool.limit(), None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        Some(self.limit.bytes.load(Relaxed)).filter(|&bytes| bytes < u64::MAX)
    }

    /// Limits how many bytes can be in use at the same time, 1 to the size of the pool, rounded up to pages. `None` removes
    /// the limit.
    ///
    /// The pool withholds the rest of its memory: it is neither free nor in use. Allocations and frees cost the same as
    /// without a limit. Memory in the caches of CPUs counts as free, so an allocation fails only if the memory in use and the
    /// request exceed the limit, or if no free run is large enough. Withheld blocks of 2 MiB go back to the system, unless the
    /// pool has prefault or [`crate::GiveBack::OFF`].
    ///
    /// A lower limit drains the caches of all CPUs and takes about 1 µs for each 4 MiB that it withholds, and more for memory
    /// that is resident. Threads that find no memory meanwhile wait for the call. A pool with a limit cannot grow or shrink.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// pool.set_limit(Some(16 << 20))?;
    /// assert_eq!(pool.limit(), Some(16 << 20));
    /// pool.set_limit(None)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`PoolError::LimitSize`] for another number of bytes. [`PoolError::LimitInUse`] if more is in use now.
    /// [`PoolError::LocksRefused`] and [`PoolError::Forked`]. The limit stays.
    pub fn set_limit(&self, limit: Option<u64>) -> Result<(), PoolError> {
        if self.is_forked() {
            return Err(PoolError::Forked);
        }
        if !self.can_lock_all_caches() {
            return Err(PoolError::LocksRefused);
        }
        let resizing = self.resizing.lock().unwrap_or_else(PoisonError::into_inner);
        let size = (self.node_bytes.load(Relaxed) * self.nodes()) as u64;
        let bytes = limit.unwrap_or(size);
        if bytes == 0 || bytes > size {
            return Err(PoolError::LimitSize { bytes, max_bytes: size });
        }
        {
            // Threads that find no memory wait for this guard, then try again.
            let _no_scan = self.scanner.pause_scans();
            let mut blocks = self.limit.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            let wanted = pages_of(size) - pages_of(bytes);
            let former = blocks.len();
            self.withhold(&mut blocks, wanted);
            let missing = wanted.saturating_sub(pages_in(&blocks));
            if missing > 0 {
                let new = blocks.split_off(former);
                new.into_iter().for_each(|block| self.release(block));
                return Err(PoolError::LimitInUse { bytes, least_bytes: bytes + missing * PAGE_BYTES as u64 });
            }
            self.give_withheld_back(&blocks[former.min(blocks.len())..]);
            self.release_down_to(&mut blocks, wanted);
            blocks.sort_unstable_by_key(|&(_, order)| std::cmp::Reverse(order));
            self.limit.bytes.store(limit.unwrap_or(u64::MAX), Relaxed);
        }
        // A waker is the caller's code, and may set the limit again.
        drop(resizing);
        self.wake_waiters();
        Ok(())
    }

    /// Withholds free blocks until there are `wanted` pages, or no more are free.
    fn withhold(&self, blocks: &mut Vec<(Pfn, Order)>, wanted: u64) {
        let mut left = wanted.saturating_sub(pages_in(blocks));
        if left == 0 {
            return;
        }
        self.drain_every_zone();
        let mut hold = |pfn, order: Order, left: &mut u64| {
            self.limit.withheld_bytes.fetch_add(bytes_in(order), Relaxed);
            blocks.push((pfn, order));
            *left -= order.pages();
        };
        // An equal part of each node, from its end.
        let node_bytes = self.node_bytes.load(Relaxed);
        let share = left / self.nodes() as u64;
        for node in 0..self.nodes() {
            let mut of_node = share;
            let largest = Order::MAX.pages() as usize * PAGE_BYTES;
            for block in (0..node_bytes / largest).rev() {
                let pfn = self.node_pages(node, block * largest, largest).start;
                if of_node < Order::MAX.pages() {
                    break;
                }
                if self.allocator().alloc_at(pfn, Order::MAX) {
                    hold(pfn, Order::MAX, &mut left);
                    of_node -= Order::MAX.pages();
                }
            }
        }
        // The rest, from anywhere.
        for order in (0..=Order::MAX.get()).rev().filter_map(Order::new) {
            while left >= order.pages() {
                let Ok(pfn) = self
                    .allocator()
                    .alloc_with(Alloc::new(&request(order, MigrateType::Movable)).from(AllocFrom::Buddy))
                else {
                    break;
                };
                hold(pfn, order, &mut left);
            }
        }
    }

    fn give_withheld_back(&self, blocks: &[(Pfn, Order)]) {
        if self.prefault || self.scanner.policy.bytes_per_scan == 0 {
            return;
        }
        for (pfn, order) in blocks.iter().filter(|(_, order)| *order >= Order::PAGEBLOCK) {
            let offset = pfn.0 as usize * PAGE_BYTES - self.memory.start();
            // Locked memory stays resident, which the limit does not forbid.
            let _ = self.release_held(offset, bytes_in(*order) as usize);
        }
    }

    /// Frees withheld memory until `wanted` pages are left.
    fn release_down_to(&self, blocks: &mut Vec<(Pfn, Order)>, wanted: u64) {
        let mut excess = pages_in(blocks).saturating_sub(wanted);
        while excess > 0 {
            let Some((pfn, order)) = blocks.pop() else { return };
            let half = order.get().checked_sub(1).and_then(Order::new).filter(|_| order.pages() > excess);
            match half {
                // Cannot fail: the block is in use, and only this pool knows it.
                Some(half) if self.allocator().split(pfn, order, half).is_ok() => {
                    blocks.extend([(pfn, half), (pfn.offset(half.pages()), half)]);
                }
                _ => {
                    excess = excess.saturating_sub(order.pages());
                    self.release((pfn, order));
                }
            }
        }
    }

    /// Frees a withheld block.
    fn release(&self, (pfn, order): (Pfn, Order)) {
        self.limit.withheld_bytes.fetch_sub(bytes_in(order), Relaxed);
        self.limit.released_bytes.fetch_add(bytes_in(order), Relaxed);
        let freed = self.allocator().free_with(Free::block(pfn, order).to(FreeTo::Buddy));
        debug_assert!(freed.is_ok(), "{freed:?}");
    }

    /// Fails if the pool has a limit. For calls that change its size.
    pub(crate) fn check_unlimited(&self) -> Result<(), PoolError> {
        self.limit().map_or(Ok(()), |limit_bytes| Err(PoolError::Limited { limit_bytes }))
    }
}

fn pages_of(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES as u64)
}

fn bytes_in(order: Order) -> u64 {
    order.pages() * PAGE_BYTES as u64
}

fn pages_in(blocks: &[(Pfn, Order)]) -> u64 {
    blocks.iter().map(|(_, order)| order.pages()).sum()
}

// The largest block has whole chunks, so what goes back is a multiple of a chunk.
const _: () = assert!((PAGE_BYTES << Order::MAX.get()).is_multiple_of(CHUNK_BYTES));
