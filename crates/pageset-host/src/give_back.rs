//! Free memory that goes back to the system: large blocks that have stayed free.
//!
//! A scan takes all free blocks of 2 MiB and 4 MiB off the free lists, notes how long each has been free, gives those
//! that have been for long enough back to the system, and frees all again. Whoever finds no memory meanwhile waits for
//! the scan. What is counted is what the system says was resident, so nothing counts twice.
//!
//! This takes blocks the way any caller does, since the allocator has no way to walk free blocks; see the crate's
//! README for what that costs.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pageset::{Block, MigrateType, Order, Request};

use crate::builder::CHUNK_BYTES;
use crate::pool::{PAGE_BYTES, PagePool, request};

/// When free memory goes back to the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GiveBack {
    /// The time between two scans. At least 1 ms; by default a second.
    pub interval: Duration,
    /// How many scans in a row must find a block free; 1 to 250, by default 5. More: memory that is wanted again within
    /// seconds stays. Fewer: it is back sooner. A block that was used and freed between two scans counts as free.
    pub after_scans: u8,
    /// The most that one scan gives back, in bytes, rounded up to 2 MiB; by default 64 MiB, which takes 1 to 10 ms. 0
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
const GIVEN: u8 = u8::MAX;
/// The largest number of scans that an age counts.
const MAX_AGE: u8 = 250;
/// One in so many scans asks the system whether a chunk that was given back is resident after all: it may have been
/// used and freed between two scans. A guess that keeps the asking to a few µs for each GiB and scan.
const LOOK_AGAIN: usize = 16;

/// What a pool knows of its give-backs.
#[derive(Debug)]
pub(crate) struct Giver {
    policy: GiveBack,
    state: Mutex<State>,
    /// Relaxed: statistics. Bytes that went back; bytes that scans have taken and freed again since the start; bytes
    /// that one holds now.
    pub(crate) given_bytes: AtomicU64,
    pub(crate) scanned_bytes: AtomicU64,
    pub(crate) held_bytes: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// For how many scans each 2 MiB have been free.
    ages: Vec<u8>,
    scans: usize,
    last: Option<Instant>,
}

impl Giver {
    pub(crate) fn new(policy: GiveBack, chunks: usize) -> Giver {
        let state = State { ages: vec![0; chunks], scans: 0, last: None };
        Giver {
            policy,
            state: Mutex::new(state),
            given_bytes: AtomicU64::new(0),
            scanned_bytes: AtomicU64::new(0),
            held_bytes: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in a scan would leave ages that are too small at worst.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of a scan, if one is under way, and lets none begin while the value lives.
    pub(crate) fn hold_off(&self) -> impl Drop + '_ {
        self.lock()
    }
}

fn bytes_of(order: Order) -> u64 {
    order.pages() * PAGE_BYTES as u64
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
        let policy = self.giver.policy;
        // Another thread's scan is as good as ours.
        let Ok(mut state) = self.giver.state.try_lock() else { return Ok(0) };
        let due = state.last.is_none_or(|last| last.elapsed() >= policy.interval.max(Duration::from_millis(1)));
        if !due || policy.bytes_per_scan == 0 {
            return Ok(0);
        }
        state.last = Some(Instant::now());
        let after_scans = policy.after_scans.clamp(1, MAX_AGE);
        self.scan(&mut state, &Scan { after_scans, bytes: policy.bytes_per_scan })
    }

    /// Gives free memory back to the system at once, up to `bytes` rounded up to 2 MiB: empties the caches of all CPUs, then gives back
    /// blocks of 2 MiB and more, however short they have been free. Returns how many bytes were resident and went.
    ///
    /// Whoever needs memory that is on its way waits meanwhile: 10 to 200 µs for each 2 MiB.
    ///
    /// # Errors
    /// What the system said to a block that it would not take back; the blocks before it have gone.
    pub fn give_back(&self, bytes: u64) -> io::Result<u64> {
        if self.is_forked() {
            return Err(io::Error::other("the pool belongs to the parent of this process"));
        }
        self.allocator().drain_all();
        self.scan(&mut self.giver.lock(), &Scan { after_scans: 0, bytes })
    }

    fn scan(&self, state: &mut State, scan: &Scan) -> io::Result<u64> {
        state.scans += 1;
        let mut held = self.take_large_blocks();
        self.count_ages(state, &held);
        let mut given = 0;
        let mut result = Ok(());
        // Coldest first: a free list is taken from at the end where blocks were put last.
        for chunk in held.iter().rev().flat_map(|&block| self.chunks_of(block)) {
            if given >= scan.bytes {
                break;
            }
            match self.give_chunk_back(state, chunk, scan.after_scans) {
                Ok(bytes) => given += bytes,
                error => {
                    result = error.map(drop);
                    break;
                }
            }
        }
        self.giver.given_bytes.fetch_add(given, Relaxed);
        // In the order that makes the lists what they were.
        while let Some(Block { pfn, order }) = held.pop() {
            self.giver.held_bytes.fetch_sub(bytes_of(order), Relaxed);
            self.giver.scanned_bytes.fetch_add(bytes_of(order), Relaxed);
            let freed = self.allocator().free_direct(pfn, order);
            debug_assert!(freed.is_ok(), "{freed:?}");
        }
        result.map(|()| given)
    }

    /// Takes all free blocks of 4 MiB, then of 2 MiB, those that were freed last first.
    fn take_large_blocks(&self) -> Vec<Block> {
        let mut held = vec![];
        for zone in 0..self.allocator().zone_count() {
            for order in [Order::MAX, Order::PAGEBLOCK] {
                let request = Request { zone: Some(zone), ..request(order, MigrateType::Movable) };
                // A block of 2 MiB may stay in a cache where the thread moves between two calls; a later scan finds it.
                // Room first, so that nothing is lost where there is no memory for it.
                while held.try_reserve(1).is_ok() {
                    let Ok(pfn) = self.allocator().alloc(&request) else { break };
                    self.giver.held_bytes.fetch_add(bytes_of(order), Relaxed);
                    held.push(Block { pfn, order });
                }
            }
        }
        held
    }

    fn chunks_of(&self, block: Block) -> std::ops::Range<usize> {
        let first = (block.pfn.0 as usize * PAGE_BYTES - self.memory.start()) / CHUNK_BYTES;
        first..first + bytes_of(block.order) as usize / CHUNK_BYTES
    }

    fn count_ages(&self, state: &mut State, held: &[Block]) {
        let mut free: Vec<usize> = held.iter().flat_map(|&block| self.chunks_of(block)).collect();
        free.sort_unstable();
        let mut free = free.into_iter().peekable();
        for (chunk, age) in state.ages.iter_mut().enumerate() {
            let is_free = free.next_if_eq(&chunk).is_some();
            *age = match *age {
                _ if !is_free => 0,
                GIVEN => GIVEN,
                age => (age + 1).min(MAX_AGE),
            };
        }
    }

    /// Gives a free chunk back if it has been free for long enough; returns the bytes that were resident.
    fn give_chunk_back(&self, state: &mut State, chunk: usize, after_scans: u8) -> io::Result<u64> {
        let age = state.ages[chunk];
        let look_again = after_scans == 0 || (state.scans + chunk).is_multiple_of(LOOK_AGAIN);
        if age < after_scans || age == GIVEN && !look_again {
            return Ok(0);
        }
        let offset = chunk * CHUNK_BYTES;
        let resident = self.memory.resident(offset, CHUNK_BYTES)?;
        if resident > 0 {
            self.memory_back(offset)?;
        }
        state.ages[chunk] = GIVEN;
        Ok(resident)
    }

    #[allow(unsafe_code, reason = "only here is it known that the range is free")]
    fn memory_back(&self, offset: usize) -> io::Result<()> {
        // SAFETY: the range is inside a block that this scan has allocated, so nobody else has it, and the scan does
        // not look inside.
        unsafe { self.memory.give_back(offset, CHUNK_BYTES) }
    }
}
