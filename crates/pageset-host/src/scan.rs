//! Scans that return free memory to the system: blocks of 2 MiB that have stayed free, then parts of others.
//!
//! A scan counts for how many scans each 2 MiB chunk has been free. It allocates each chunk that has been free long
//! enough and gives its memory back to the system. It then frees the chunk to the tail of its free list, so that
//! allocations prefer resident memory. A thread that finds no memory meanwhile waits for the block that the scan holds.
//!
//! The counter of given-back bytes adds what the system reports as resident, so no byte counts twice.

use std::io;
use std::time::{Duration, Instant};

use pageset::Order;

use crate::error::FORKED;
use crate::give_back::{GIVEN_BACK, MAX_AGE, ScanState};
use crate::looks::LookSchedule;
use crate::pool::PagePool;
use crate::size::{CHUNK_BYTES, PAGE_BYTES};

/// Each chunk that was given back is rechecked in one of this many scans. It may be resident again, after a use and a free
/// between two scans. A guess that bounds the rechecks to a few µs for each GiB and scan.
const RECHECK_INTERVAL: usize = 16;

/// What a scan gives back.
struct ScanLimits {
    /// Chunks that fewer scans have found free stay.
    after_scans: u8,
    max_bytes: u64,
    /// When to look at parts of chunks. `None`: at all of them now.
    looks: Option<LookSchedule>,
}

impl PagePool {
    /// Scans if the policy says so. Returns the bytes that went back.
    ///
    /// # Errors
    /// The system's error for a block that it does not take back. Earlier blocks have gone back.
    pub(crate) fn give_back_if_due(&self) -> io::Result<u64> {
        let policy = self.scanner.policy;
        // If another thread scans, this thread need not.
        let Ok(mut state) = self.scanner.state.try_lock() else { return Ok(0) };
        let due = state.last.is_none_or(|last| last.elapsed() >= policy.interval.max(Duration::from_millis(1)));
        if !due || policy.bytes_per_scan == 0 {
            return Ok(0);
        }
        state.last = Some(Instant::now());
        let after_scans = policy.after_scans.clamp(1, MAX_AGE);
        let factor = self.scanner.parts().map_or(1, |parts| parts.after_scans_factor.max(1));
        let looks = Some(LookSchedule::new(usize::from(after_scans) * usize::from(factor)));
        self.scan(&mut state, &ScanLimits { after_scans, max_bytes: policy.bytes_per_scan, looks })
    }

    /// Gives up to `bytes` of free memory back to the system now, rounded up to 2 MiB. Returns how many resident bytes
    /// went.
    ///
    /// The call drains the caches of all CPUs, then gives back free blocks of 2 MiB, whatever their age. If that is less
    /// than `bytes`, it also gives parts of blocks back, as [`crate::GiveBackParts`] allows. It observes neither the
    /// number of scans nor `calls_per_scan`. A thread that finds no memory meanwhile waits for one block, 10 to 200 µs.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let given_back_bytes = pool.give_back(16 << 20)?;
    /// assert!(given_back_bytes <= 64 << 20);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The system's error for a block that it does not take back. Earlier blocks have gone back. In a forked child, an
    /// error of kind `Other`.
    pub fn give_back(&self, bytes: u64) -> io::Result<u64> {
        if self.is_forked() {
            return Err(io::Error::other(format!("cannot give memory back: {FORKED}")));
        }
        self.drain();
        self.scan(&mut self.scanner.lock(), &ScanLimits { after_scans: 0, max_bytes: bytes, looks: None })
    }

    fn scan(&self, state: &mut ScanState, limits: &ScanLimits) -> io::Result<u64> {
        state.scans += 1;
        self.update_ages(state);
        let mut given = 0;
        for chunk in 0..state.ages.len() {
            if given >= limits.max_bytes {
                break;
            }
            given += self.give_chunk_back(state, chunk, limits.after_scans)?;
        }
        Ok(given + self.scan_parts(state, limits.looks, limits.max_bytes.saturating_sub(given))?)
    }

    fn update_ages(&self, state: &mut ScanState) {
        let mut chunk = 0;
        while chunk < state.ages.len() {
            let pfn = self.first_page(chunk);
            let free = self.allocator().free_block_around(pfn).map_or(0, |block| block.end().0.saturating_sub(pfn.0));
            let free = free as usize / (CHUNK_BYTES / PAGE_BYTES);
            // A free block does not reach beyond the pool, so the slice is in bounds.
            let ages = &mut state.ages[chunk..][..free.max(1)];
            chunk += ages.len();
            for age in ages {
                *age = match *age {
                    _ if free == 0 => 0,
                    GIVEN_BACK => GIVEN_BACK,
                    age => (age + 1).min(MAX_AGE),
                };
            }
        }
    }

    /// Gives a chunk back if it has been free for `after_scans` scans. Returns the bytes that were resident.
    fn give_chunk_back(&self, state: &mut ScanState, chunk: usize, after_scans: u8) -> io::Result<u64> {
        let age = state.ages[chunk];
        let recheck = after_scans == 0 || (state.scans + chunk).is_multiple_of(RECHECK_INTERVAL);
        if age == 0 || age < after_scans || age == GIVEN_BACK && !recheck {
            return Ok(0);
        }
        let offset = chunk * CHUNK_BYTES;
        // Only a chunk that was given back can be skipped: another may be swapped out, which does not count as resident.
        if age == GIVEN_BACK && self.memory.resident_bytes(offset, CHUNK_BYTES)? == 0 {
            return Ok(0);
        }
        let _no_scan = self.scanner.pause_scans();
        let (pfn, order) = (self.first_page(chunk), Order::PAGEBLOCK);
        if !self.hold_block(pfn, order) {
            // A caller owns the chunk or a part of it.
            state.ages[chunk] = 0;
            return Ok(0);
        }
        let given = self.release_held(offset, CHUNK_BYTES);
        self.free_held(pfn, order);
        let given = given?;
        state.ages[chunk] = GIVEN_BACK;
        Ok(given)
    }
}
