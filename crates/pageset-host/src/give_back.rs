//! The policy of returning free memory to the system, and the state of its scans.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pageset::Order;

use crate::looks::PartsState;

/// When free memory goes back to the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GiveBack {
    /// The time between two scans, at least 1 ms. Default: 1 s.
    pub interval: Duration,
    /// How many scans in a row must find a block free, 1 to 250. Default: 5.
    ///
    /// With more scans, memory that is wanted again within seconds stays. With fewer, memory goes back sooner. A block
    /// that is used and freed between two scans counts as free.
    pub after_scans: u8,
    /// The most that one scan gives back in bytes, rounded up to 2 MiB. Default: 64 MiB, which takes 0.3 to 12 ms of CPU
    /// time.
    ///
    /// With 0, only [`crate::PagePool::give_back`] gives memory back. The search for whole blocks takes 7 to 70 µs for
    /// each GiB of the pool.
    pub bytes_per_scan: u64,
}

impl Default for GiveBack {
    fn default() -> Self {
        GiveBack { interval: Duration::from_secs(1), after_scans: 5, bytes_per_scan: 64 << 20 }
    }
}

impl GiveBack {
    /// Memory goes back only by [`crate::PagePool::give_back`].
    pub const OFF: GiveBack = GiveBack { interval: Duration::from_secs(1), after_scans: 5, bytes_per_scan: 0 };
}

/// Which parts of a 2 MiB block go back to the system, while a run in use keeps the rest of the block.
///
/// This extends [`GiveBack`]: its `interval` and `bytes_per_scan` also apply to parts, and its `after_scans` is multiplied.
/// A scan gives whole blocks back first. With [`GiveBack::OFF`], parts go back only by [`crate::PagePool::give_back`].
/// Parts of explicit huge pages never go back.
///
/// Gain: one run in use no longer keeps 2 MiB resident. Cost: a page fault for each page that the pool needs again, and
/// 50 to 400 µs of CPU time for each scan and GiB that is in use. If unsure, take the default.
///
/// In a pool of transparent huge pages, the first part of a huge page that goes back splits it, which takes about 0.2 ms.
/// Accesses to the rest of the block then miss the TLB more often. The pool also forbids the system to make the block a
/// huge page again (`khugepaged`), until the block is free as a whole or has no free page. Each such block can add two
/// mappings to the process, so the pool does that for 4,096 blocks at most. Without the split, the system would keep the
/// memory until it runs short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GiveBackParts {
    /// How many times as many scans as [`GiveBack::after_scans`] must find a part free, at least 1. Default: 2, so 10 scans
    /// with the default of `after_scans`.
    ///
    /// With a larger factor, fewer huge pages split for memory that is wanted again soon. With a smaller one, memory goes
    /// back sooner. A part goes back after one to three times that many scans, because up to four of them look at each
    /// block. One scan looks at 1 GiB at most. A page that is used and freed between two looks counts as free.
    pub after_scans_factor: u8,
    /// The smallest free block that goes back. Default: order 0, one page.
    ///
    /// With a larger order, scans make fewer system calls, and the pool has fewer page faults later. Smaller free blocks
    /// stay resident.
    pub min_order: Order,
    /// How much of a 2 MiB block must have stayed free before parts of it go back, in bytes. Default: 512 KiB.
    ///
    /// With a larger size, fewer huge pages split. With 0, a single free page splits one.
    pub min_free_bytes: u32,
    /// The most system calls that give parts back in one scan. Default: 1024, which take 3 to 5 ms for single pages. With
    /// 0, only whole blocks of 2 MiB go back.
    ///
    /// One call gives neighbouring free pages of a block back, 4 KiB to 2 MiB.
    pub calls_per_scan: u32,
}

impl Default for GiveBackParts {
    fn default() -> Self {
        GiveBackParts { after_scans_factor: 2, min_order: Order::ZERO, min_free_bytes: 512 << 10, calls_per_scan: 1024 }
    }
}

impl GiveBackParts {
    /// Only whole blocks of 2 MiB go back.
    pub const OFF: GiveBackParts =
        GiveBackParts { after_scans_factor: 1, min_order: Order::ZERO, min_free_bytes: 0, calls_per_scan: 0 };
}

/// The age of a chunk that was given back, and that each scan since then has found free.
pub(crate) const GIVEN_BACK: u8 = u8::MAX;
/// The largest number of scans that an age counts.
pub(crate) const MAX_AGE: u8 = 250;

/// The state of give-back scans.
#[derive(Debug)]
pub(crate) struct GiveBackScanner {
    pub(crate) policy: GiveBack,
    parts: GiveBackParts,
    /// Whether transparent huge pages may back the pool.
    pub(crate) may_split_huge: bool,
    pub(crate) state: Mutex<ScanState>,
    /// Held while a scan holds a block, and by calls that must not meet such a block. Lock order: after `state`, and before
    /// the locks of the allocator.
    scan_holds_block: Mutex<()>,
    /// Resident bytes that went back to the system. Relaxed: a statistic.
    pub(crate) given_back_bytes: AtomicU64,
    /// Bytes that scans have allocated and freed again. Relaxed: a statistic.
    pub(crate) scan_freed_bytes: AtomicU64,
    /// Bytes that a scan holds now. Relaxed: a statistic.
    pub(crate) scan_held_bytes: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct ScanState {
    /// For each chunk, how many scans in a row found it free, or [`GIVEN_BACK`].
    pub(crate) ages: Vec<u8>,
    pub(crate) scans: usize,
    pub(crate) last: Option<Instant>,
    pub(crate) parts: PartsState,
}

impl GiveBackScanner {
    pub(crate) fn new(policy: GiveBack, chunks: usize) -> GiveBackScanner {
        let state = ScanState { ages: vec![0; chunks], scans: 0, last: None, parts: PartsState::default() };
        GiveBackScanner {
            policy,
            parts: GiveBackParts::OFF,
            may_split_huge: false,
            state: Mutex::new(state),
            scan_holds_block: Mutex::new(()),
            given_back_bytes: AtomicU64::new(0),
            scan_freed_bytes: AtomicU64::new(0),
            scan_held_bytes: AtomicU64::new(0),
        }
    }

    /// Sets which parts of chunks go back. `may_split_huge` says whether transparent huge pages may back the pool.
    pub(crate) fn set_parts(&mut self, parts: GiveBackParts, may_split_huge: bool) {
        self.parts = parts;
        self.may_split_huge = may_split_huge;
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.parts = if parts.calls_per_scan > 0 { PartsState::new(state.ages.len()) } else { PartsState::default() };
    }

    /// Which parts of chunks go back, if any do.
    pub(crate) fn parts(&self) -> Option<&GiveBackParts> {
        Some(&self.parts).filter(|parts| parts.calls_per_scan > 0)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ScanState> {
        // After a panic in a scan, some ages are too small, which is harmless.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no scan holds a block. No scan takes one while the returned guard lives.
    pub(crate) fn pause_scans(&self) -> MutexGuard<'_, ()> {
        self.scan_holds_block.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
