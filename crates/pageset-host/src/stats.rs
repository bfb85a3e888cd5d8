//! Counters of a pool and of its caches.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use pageset::admin::stats::ZoneStats;

use crate::pool::{PAGE_BYTES, PagePool};

/// The counters of a pool at a recent moment. `free + cached + withheld + in use = size`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolStats {
    /// Size of the pool in bytes, without the reserve.
    pub size_bytes: u64,
    /// Bytes on the free lists, and in blocks that are going back to the system.
    pub free_bytes: u64,
    /// Free bytes in the caches of CPUs, or in deferred frees that are not complete.
    pub cached_bytes: u64,
    /// Bytes above the limit of the pool, which nobody can allocate.
    pub withheld_bytes: u64,
    /// Bytes that callers own.
    pub in_use_bytes: u64,
    /// Bytes allocated since the pool was built.
    pub alloc_bytes: u64,
    /// Bytes freed since the pool was built.
    pub free_total_bytes: u64,
    /// Allocations that failed.
    pub failed_allocs: u64,
    /// Resident bytes that went back to the system since the pool was built.
    pub given_back_bytes: u64,
    /// Acquisitions of zone locks. Each refills or drains a cache, or moves a block of an order that caches do not hold.
    pub lock_acquisitions: u64,
    /// Address space of the metadata in bytes. Only the used part is resident.
    pub metadata_bytes: u64,
}

impl PoolStats {
    /// The counters by the names of their members, for an exporter of metrics. Later versions may add some at the end.
    #[must_use]
    pub fn metrics(&self) -> [(&'static str, u64); 11] {
        [
            ("size_bytes", self.size_bytes),
            ("free_bytes", self.free_bytes),
            ("cached_bytes", self.cached_bytes),
            ("in_use_bytes", self.in_use_bytes),
            ("alloc_bytes", self.alloc_bytes),
            ("free_total_bytes", self.free_total_bytes),
            ("failed_allocs", self.failed_allocs),
            ("given_back_bytes", self.given_back_bytes),
            ("lock_acquisitions", self.lock_acquisitions),
            ("metadata_bytes", self.metadata_bytes),
            ("withheld_bytes", self.withheld_bytes),
        ]
    }
}

impl PagePool {
    /// Reads the counters. The call visits the counters of each CPU, so do not make it for every request.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let page = pool.pages(Order::ZERO)?;
    /// assert_eq!(pool.stats().in_use_bytes, 4096);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let mut all = PoolStats {
            failed_allocs: self.failed_allocs.load(Relaxed),
            given_back_bytes: self.scanner.given_back_bytes.load(Relaxed),
            metadata_bytes: self.mapped_allocator.metadata_bytes() as u64,
            ..PoolStats::default()
        };
        for zone in self.zones() {
            all.size_bytes += bytes(zone.managed);
            all.free_bytes += bytes(zone.nr_free_pages);
            all.cached_bytes += bytes(zone.cached_pages());
            all.alloc_bytes += bytes(zone.pgalloc());
            all.free_total_bytes += bytes(zone.pgfree());
            all.lock_acquisitions += zone.lock_acquisitions();
        }
        // The allocator counts the blocks of a give-back scan as a caller's.
        let (held, scanned) = (self.scanner.scan_held_bytes.load(Relaxed), self.scanner.scan_freed_bytes.load(Relaxed));
        all.free_bytes += held;
        let (withheld, released) = (self.limit.withheld_bytes.load(Relaxed), self.limit.released_bytes.load(Relaxed));
        all.withheld_bytes = withheld;
        all.alloc_bytes = all.alloc_bytes.saturating_sub(scanned + held + withheld + released);
        all.free_total_bytes = all.free_total_bytes.saturating_sub(scanned + released);
        // A page that moves between a cache and the free lists may count twice or not at all.
        all.in_use_bytes = all.size_bytes.saturating_sub(all.free_bytes + all.cached_bytes + withheld);
        all
    }

    /// The counters of the zone of each node.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let free_pages: u64 = pool.zones().map(|zone| zone.nr_free_pages).sum();
    /// assert_eq!(free_pages * 4096, 64 << 20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn zones(&self) -> impl Iterator<Item = ZoneStats> + '_ {
        self.allocator().zones().map(|zone| zone.stats())
    }

    /// The zones and caches in the format of `/proc/zoneinfo`. A frame number is an address divided by [`PAGE_BYTES`].
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// assert!(pool.zoneinfo().to_string().contains("pages free"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn zoneinfo(&self) -> impl fmt::Display + fmt::Debug + '_ {
        self.allocator().zoneinfo()
    }
}

fn bytes(pages: u64) -> u64 {
    pages * PAGE_BYTES as u64
}
