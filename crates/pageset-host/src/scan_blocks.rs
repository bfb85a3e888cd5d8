//! Blocks that a scan holds: how it gives their memory back, and how it frees them.
//!
//! A scan holds a block from `Allocator::alloc_at` until its free to `FreeTo::BuddyCold`, and `GiveBackScanner::pause_scans`
//! meanwhile.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use pageset::{Free, FreeTo, Order, Pfn};

use crate::error::GIVE_BACK_HELP;
use crate::pool::PagePool;
use crate::size::{CHUNK_BYTES, PAGE_BYTES};

impl PagePool {
    pub(crate) fn first_page(&self, chunk: usize) -> Pfn {
        Pfn(((self.memory.start() + chunk * CHUNK_BYTES) / PAGE_BYTES) as u64)
    }

    /// Allocates a block for a scan, if all of it lies in one free block. [`Self::free_held`] frees it.
    pub(crate) fn hold_block(&self, pfn: Pfn, order: Order) -> bool {
        let held = self.allocator().alloc_at(pfn, order);
        if held {
            self.scanner.scan_held_bytes.fetch_add(order.pages() * PAGE_BYTES as u64, Relaxed);
        }
        held
    }

    /// Frees a block that a scan holds, to the tail of its list.
    pub(crate) fn free_held(&self, pfn: Pfn, order: Order) {
        let bytes = order.pages() * PAGE_BYTES as u64;
        self.scanner.scan_held_bytes.fetch_sub(bytes, Relaxed);
        self.scanner.scan_freed_bytes.fetch_add(bytes, Relaxed);
        let freed = self.allocator().free_with(Free::block(pfn, order).to(FreeTo::BuddyCold));
        debug_assert!(freed.is_ok(), "{freed:?}");
    }

    /// Gives a range back that lies in blocks of this scan. Returns the bytes that were resident, and counts them.
    #[allow(unsafe_code, reason = "only the scan knows that the range is free")]
    pub(crate) fn release_held(&self, offset: usize, bytes: usize) -> io::Result<u64> {
        // SAFETY: (1) the range is inside blocks that this scan has allocated, so nobody else owns it; (2) the scan does
        // not read it.
        let resident = unsafe { self.memory.give_back(offset, bytes) }.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot give memory back: {error}; {}", GIVE_BACK_HELP))
        })?;
        self.scanner.given_back_bytes.fetch_add(resident, Relaxed);
        Ok(resident)
    }
}
