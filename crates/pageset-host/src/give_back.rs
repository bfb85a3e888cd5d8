//! The policy of returning free memory to the system, and the state of its scans.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
    /// The most that one scan gives back in bytes, rounded up to 2 MiB. Default: 64 MiB, which takes 1 to 10 ms.
    ///
    /// With 0, only [`crate::PagePool::give_back`] gives memory back. The search takes about 5 µs for each GiB of the
    /// pool, and 50 µs the first time.
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

/// The age of a chunk that was given back, and that each scan since then has found free.
pub(crate) const GIVEN_BACK: u8 = u8::MAX;
/// The largest number of scans that an age counts.
pub(crate) const MAX_AGE: u8 = 250;

/// The state of give-back scans.
#[derive(Debug)]
pub(crate) struct GiveBackScanner {
    pub(crate) policy: GiveBack,
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
}

impl GiveBackScanner {
    pub(crate) fn new(policy: GiveBack, chunks: usize) -> GiveBackScanner {
        let state = ScanState { ages: vec![0; chunks], scans: 0, last: None };
        GiveBackScanner {
            policy,
            state: Mutex::new(state),
            scan_holds_block: Mutex::new(()),
            given_back_bytes: AtomicU64::new(0),
            scan_freed_bytes: AtomicU64::new(0),
            scan_held_bytes: AtomicU64::new(0),
        }
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
