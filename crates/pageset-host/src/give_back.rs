//! Free memory that goes back to the system: large blocks that have stayed free.
//!
//! A scan looks which 2 MiB are free and for how many scans they have been. Those that have been for long enough it takes,
//! one after the other, gives back to the system, and frees to the end of their list, so that memory which is resident is
//! used first. Whoever finds no memory meanwhile waits for the one that the scan holds. What is counted is what the system
//! says was resident, so nothing counts twice.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pageset::{Order, Pfn};

use crate::builder::{self, CHUNK_BYTES};
use crate::pool::{PAGE_BYTES, PagePool};

/// When free memory goes back to the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GiveBack {
    /// The time between two scans. At least 1 ms; by default a second.
    pub interval: Duration,
    /// How many scans in a row must find a block free; 1 to 250, by default 5. More: memory that is wanted again within
    /// seconds stays. Fewer: it is back sooner. A block that was used and freed between two scans counts as free.
    pub after_scans: u8,
    /// The most that one scan gives back, in bytes, rounded up to 2 MiB; by default 64 MiB, which takes 1 to 10 ms. To look
    /// takes about 5 µs for each GiB of the pool, 50 the first time. 0
    /// gives nothing back but by [`PagePool::give_back`].
    pub bytes_per_scan: u64,
}

impl Default for GiveBack {
    fn default() -> Self {
        GiveBack { interval: Duration::from_secs(1), after_scans: 5, bytes_per_scan: 64 << 20 }
    }
}

impl GiveBack {
    /// Nothing goes back unless asked for.
    pub const OFF: GiveBack = GiveBack { interval: Duration::from_secs(1), after_scans: 5, bytes_per_scan: 0 };
}

/// In a chunk's age: it was given back, and has been free since whenever it was looked at.
const GIVEN_BACK: u8 = u8::MAX;
/// The largest number of scans that an age counts.
const MAX_AGE: u8 = 250;
/// One in so many scans asks the system whether a chunk that was given back is resident after all: it may have been
/// used and freed between two scans. A guess that keeps the asking to a few µs for each GiB and scan.
const RECHECK_INTERVAL: usize = 16;

/// What a pool knows of its give-backs.
#[derive(Debug)]
pub(crate) struct GiveBackScanner {
    policy: GiveBack,
    state: Mutex<State>,
    /// Held while a scan has a block. Comes after `state`.
    scan_holds_block: Mutex<()>,
    /// Relaxed: statistics. Bytes that went back; bytes that scans have taken and freed again since the start; bytes
    /// that one holds now.
    pub(crate) given_back_bytes: AtomicU64,
    pub(crate) scan_freed_bytes: AtomicU64,
    pub(crate) scan_held_bytes: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// For how many scans each 2 MiB have been free.
    ages: Vec<u8>,
    scans: usize,
    last: Option<Instant>,
}

impl GiveBackScanner {
    pub(crate) fn new(policy: GiveBack, chunks: usize) -> GiveBackScanner {
        let state = State { ages: vec![0; chunks], scans: 0, last: None };
        GiveBackScanner {
            policy,
            state: Mutex::new(state),
            scan_holds_block: Mutex::new(()),
            given_back_bytes: AtomicU64::new(0),
            scan_freed_bytes: AtomicU64::new(0),
            scan_held_bytes: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in a scan would leave ages that are too small at worst.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no scan has a block, and lets none take one while the value lives.
    pub(crate) fn pause_scans(&self) -> impl Drop + '_ {
        self.scan_holds_block.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a scan goes about.
struct Scan {
    after_scans: u8,
    bytes: u64,
}

impl PagePool {
    /// Scans if one is due by the policy; returns the bytes that went back.
    ///
    /// # Errors
    /// What the system said to a block that it would not take back; the blocks before it have gone.
    pub(crate) fn give_back_if_due(&self) -> io::Result<u64> {
        let policy = self.scanner.policy;
        // Another thread's scan is as good as ours.
        let Ok(mut state) = self.scanner.state.try_lock() else { return Ok(0) };
        let due = state.last.is_none_or(|last| last.elapsed() >= policy.interval.max(Duration::from_millis(1)));
        if !due || policy.bytes_per_scan == 0 {
            return Ok(0);
        }
        state.last = Some(Instant::now());
        let after_scans = policy.after_scans.clamp(1, MAX_AGE);
        self.scan(&mut state, &Scan { after_scans, bytes: policy.bytes_per_scan })
    }

    /// Gives free memory back to the system at once, up to `bytes` rounded up to 2 MiB: empties the caches of all CPUs, then
    /// gives back blocks of 2 MiB, however short they have been free. Returns how many bytes were resident and went.
    ///
    /// Whoever finds no memory meanwhile waits for one block: 10 to 200 µs.
    ///
    /// # Errors
    /// What the system said to a block that it would not take back; the blocks before it have gone.
    pub fn give_back(&self, bytes: u64) -> io::Result<u64> {
        if self.is_forked() {
            return Err(io::Error::other("the pool belongs to the parent of this process"));
        }
        self.allocator().drain_all();
        self.scan(&mut self.scanner.lock(), &Scan { after_scans: 0, bytes })
    }

    fn scan(&self, state: &mut State, scan: &Scan) -> io::Result<u64> {
        state.scans += 1;
        self.update_ages(state);
        let mut given = 0;
        for chunk in 0..state.ages.len() {
            if given >= scan.bytes {
                break;
            }
            given += self.give_chunk_back(state, chunk, scan.after_scans)?;
        }
        Ok(given)
    }

    fn first_page(&self, chunk: usize) -> Pfn {
        Pfn(((self.memory.start() + chunk * CHUNK_BYTES) / PAGE_BYTES) as u64)
    }

    fn update_ages(&self, state: &mut State) {
        let mut chunk = 0;
        while chunk < state.ages.len() {
            let pfn = self.first_page(chunk);
            let free = self.allocator().free_block_around(pfn).map_or(0, |block| block.end().0.saturating_sub(pfn.0));
            let free = free as usize / (CHUNK_BYTES / PAGE_BYTES);
            // A block reaches no further than the pool.
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

    /// Gives a free chunk back if it has been free for long enough; returns the bytes that were resident.
    fn give_chunk_back(&self, state: &mut State, chunk: usize, after_scans: u8) -> io::Result<u64> {
        let age = state.ages[chunk];
        let look_again = after_scans == 0 || (state.scans + chunk).is_multiple_of(RECHECK_INTERVAL);
        if age == 0 || age < after_scans || age == GIVEN_BACK && !look_again {
            return Ok(0);
        }
        let offset = chunk * CHUNK_BYTES;
        // One that has not been given back may be swapped out, which does not count as resident.
        if age == GIVEN_BACK && self.memory.resident(offset, CHUNK_BYTES)? == 0 {
            return Ok(0);
        }
        let _lent = self.scanner.pause_scans();
        let (pfn, order, bytes) = (self.first_page(chunk), Order::PAGEBLOCK, CHUNK_BYTES as u64);
        if !self.allocator().alloc_at(pfn, order) {
            // Somebody has it, or a part of it.
            state.ages[chunk] = 0;
            return Ok(0);
        }
        self.scanner.scan_held_bytes.fetch_add(bytes, Relaxed);
        let given = self.memory.resident(offset, CHUNK_BYTES).and_then(|resident| {
            self.release_chunk(offset)?;
            Ok(resident)
        });
        self.scanner.scan_held_bytes.fetch_sub(bytes, Relaxed);
        self.scanner.scan_freed_bytes.fetch_add(bytes, Relaxed);
        let freed = self.allocator().free_cold(pfn, order);
        debug_assert!(freed.is_ok(), "{freed:?}");
        let given = given?;
        state.ages[chunk] = GIVEN_BACK;
        self.scanner.given_back_bytes.fetch_add(given, Relaxed);
        Ok(given)
    }

    #[allow(unsafe_code, reason = "only here is it known that the range is free")]
    fn release_chunk(&self, offset: usize) -> io::Result<()> {
        // SAFETY: the range is inside a block that this scan has allocated, so nobody else has it, and the scan does
        // not look inside.
        unsafe { self.memory.give_back(offset, CHUNK_BYTES) }.map_err(|error| {
            io::Error::new(error.kind(), format!("giving memory back failed: {error}; {}", builder::GIVE_BACK_HELP))
        })
    }
}
