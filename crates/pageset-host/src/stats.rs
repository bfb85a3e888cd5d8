//! How much is where, and how the caches do.

use std::fmt;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

use pageset::stats::ZoneStats;

use crate::pool::{PAGE_BYTES, PagePool};

/// A pool's counters, as of some recent moment. `free + cached + in use = size`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolStats {
    /// Bytes that the pool has to give.
    pub size_bytes: u64,
    /// Bytes on its free lists.
    pub free_bytes: u64,
    /// Bytes in the caches of CPUs: free too.
    pub cached_bytes: u64,
    /// Bytes that callers have.
    pub in_use_bytes: u64,
    /// Bytes handed out since the start.
    pub alloc_bytes: u64,
    /// Bytes taken back since the start.
    pub free_total_bytes: u64,
    /// Allocations that failed.
    pub failed_allocs: u64,
    /// Bytes that were resident and went back to the system since the start.
    pub given_back_bytes: u64,
    /// Times that a zone's lock was taken. Each fills or empties a cache, or is a block that caches do not hold.
    pub lock_acquisitions: u64,
    /// Address space of the books in bytes; the part of it that is in use is resident.
    pub metadata_bytes: u64,
}

impl PagePool {
    /// The counters. Reads each CPU's, so it is not for every request.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let mut all = PoolStats {
            failed_allocs: self.failed.load(Relaxed),
            given_back_bytes: self.scanner.given_back_bytes.load(Relaxed),
            metadata_bytes: self.mapped_allocator.metadata_bytes() as u64,
            ..PoolStats::default()
        };
        for zone in self.zones() {
            all.size_bytes += bytes(zone.managed);
            all.free_bytes += bytes(zone.nr_free_pages);
            all.cached_bytes += bytes(zone.pagesets.count);
            all.alloc_bytes += bytes(zone.pgalloc());
            all.free_total_bytes += bytes(zone.pgfree());
            all.lock_acquisitions += zone.lock_acquisitions();
        }
        // A scan takes and frees blocks as callers do.
        let (held, scanned) = (self.scanner.scan_held_bytes.load(Relaxed), self.scanner.scan_freed_bytes.load(Relaxed));
        all.free_bytes += held;
        all.alloc_bytes = all.alloc_bytes.saturating_sub(scanned + held);
        all.free_total_bytes = all.free_total_bytes.saturating_sub(scanned);
        // Pages on their way between a cache and the lists are seen in both or in neither.
        all.in_use_bytes = all.size_bytes.saturating_sub(all.free_bytes + all.cached_bytes);
        all
    }

    /// The counters of each node's zone.
    pub fn zones(&self) -> impl Iterator<Item = ZoneStats> + '_ {
        (0..self.allocator().zone_count()).map(|zone| self.allocator().zone_stats(zone))
    }

    /// The zones and caches in the form of `/proc/zoneinfo`. Frame numbers are addresses divided by [`PAGE_BYTES`].
    #[must_use]
    pub fn zoneinfo(&self) -> impl fmt::Display + fmt::Debug + '_ {
        self.allocator().zoneinfo()
    }

    /// Bytes of the pool that are resident, as the system says. Takes about 5 µs for each 2 MiB that are.
    ///
    /// # Errors
    /// What the system said.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        self.memory.resident(0, self.memory.bytes())
    }
}

fn bytes(pages: u64) -> u64 {
    pages * PAGE_BYTES as u64
}
