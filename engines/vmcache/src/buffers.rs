//! A buffer manager in the manner of vmcache: one state word for each page, and clock eviction by compare-and-swap of that word.
//!
//! Viktor Leis, Adnan Alhomssi, Tobias Ziegler, Yannick Loeck, Christian Dietrich: "Virtual-Memory Assisted Buffer Management",
//! SIGMOD 2023. As in that paper, fix locks a page by its state word, and eviction passes over the words: the first pass marks, and the
//! second evicts. There, the system finds the frame of a page. Here, a pointer next to the word does, so that the frames can come
//! from any allocator. All fixes are exclusive.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::memory::Memory;

const EVICTED: u8 = 0;
const UNLOCKED: u8 = 1;
const MARKED: u8 = 2;
const LOCKED: u8 = 3;

/// The most pages that one fix evicts, so that one caller does not stop for long.
const EVICTIONS_PER_FIX: usize = 8;

#[derive(Default)]
struct Page {
    state: AtomicU8,
    /// How often the page came into memory. Its size and its content depend on it. Owned by who has the page `LOCKED`.
    version: AtomicU32,
    frame: AtomicPtr<u8>,
}

/// A page that is fixed, until the value is dropped.
pub struct Fixed<'b> {
    page: &'b Page,
    /// No reference: once the drop has unlocked the page, another thread may free the frame.
    frame: NonNull<[u64]>,
    /// What each word must be.
    pub content: u64,
}

impl Fixed<'_> {
    /// 4 to 64 KiB, in words.
    pub fn words(&mut self) -> &mut [u64] {
        // SAFETY: the page is locked for this value, and the reference ends before it.
        unsafe { self.frame.as_mut() }
    }
}

impl Drop for Fixed<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire of the next fix or eviction.
        self.page.state.store(UNLOCKED, Ordering::Release);
    }
}

pub struct Buffers {
    memory: Memory,
    pages: Vec<Page>,
    /// The most bytes in frames. Relaxed, as all counters here: no memory depends on them.
    budget: AtomicU64,
    pub held_bytes: AtomicU64,
    allocated_frames: AtomicU64,
    freed_frames: AtomicU64,
    hand: AtomicUsize,
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// What the words of a page are, and its size. Each power of two from 4 to 64 KiB has a fifth of the versions.
fn content(index: usize, version: u32) -> (u64, usize) {
    let content = mix(((index as u64) << 32 | u64::from(version)).wrapping_add(0x9e37_79b9_7f4a_7c15));
    (content, 4096 << (content % 5))
}

impl Buffers {
    pub fn new(memory: Memory, pages: usize, budget: u64) -> Buffers {
        let pages = std::iter::repeat_with(Page::default).take(pages).collect();
        Buffers {
            memory,
            pages,
            budget: budget.into(),
            held_bytes: 0.into(),
            allocated_frames: 0.into(),
            freed_frames: 0.into(),
            hand: 0.into(),
        }
    }

    /// Changes the most bytes in frames, and evicts pages until the rest fits.
    pub fn set_budget(&self, bytes: u64) {
        self.budget.store(bytes, Ordering::Relaxed);
        while self.held_bytes.load(Ordering::Relaxed) > bytes && self.evict_one() {}
    }

    /// Locks a page in memory. Reads it if it is not there, which fills each word of its frame. `None`: no memory, even after
    /// evictions.
    pub fn fix(&self, index: usize) -> Option<Fixed<'_>> {
        let page = &self.pages[index];
        let mut spins = 0_u32;
        let former = loop {
            let state = page.state.load(Ordering::Relaxed);
            // Acquire: pairs with the release of the last unfix or eviction.
            if state != LOCKED
                && page.state.compare_exchange(state, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                break state;
            }
            spins += 1;
            if spins.is_multiple_of(64) { std::thread::yield_now() } else { std::hint::spin_loop() }
        };
        if former == EVICTED && !self.read(index) {
            page.state.store(EVICTED, Ordering::Release);
            return None;
        }
        let (content, bytes) = content(index, page.version.load(Ordering::Relaxed));
        let frame = page.frame.load(Ordering::Relaxed).cast::<u64>();
        let frame = NonNull::slice_from_raw_parts(NonNull::new(frame).expect("a resident page"), bytes / 8);
        Some(Fixed { page, frame, content })
    }

    /// Reads a page that this caller has locked.
    fn read(&self, index: usize) -> bool {
        let page = &self.pages[index];
        let version = page.version.load(Ordering::Relaxed) + 1;
        let (content, bytes) = content(index, version);
        self.held_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        for _ in 0..EVICTIONS_PER_FIX {
            if self.held_bytes.load(Ordering::Relaxed) <= self.budget.load(Ordering::Relaxed) || !self.evict_one() {
                break;
            }
        }
        let mut frame = self.memory.alloc(index, bytes);
        // Free frames of other sizes may be too small: evict until one fits.
        for _ in 0..256 {
            if frame.is_some() || !self.evict_one() {
                break;
            }
            frame = self.memory.alloc(index, bytes);
        }
        let Some(frame) = frame else {
            self.held_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
            return false;
        };
        self.allocated_frames.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the frame has `bytes`, is aligned to 4 KiB, and belongs to this caller.
        unsafe {
            for word in 0..bytes / 8 {
                frame.cast::<u64>().add(word).write(content);
            }
        }
        page.version.store(version, Ordering::Relaxed);
        page.frame.store(frame.as_ptr(), Ordering::Relaxed);
        true
    }

    /// Evicts the next page that was not fixed since the hand of the clock passed. `false`: none in two rounds.
    fn evict_one(&self) -> bool {
        for _ in 0..2 * self.pages.len() {
            let index = self.hand.fetch_add(1, Ordering::Relaxed) % self.pages.len();
            let page = &self.pages[index];
            let swap = |from, to| page.state.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok();
            match page.state.load(Ordering::Relaxed) {
                UNLOCKED => _ = swap(UNLOCKED, MARKED),
                MARKED if swap(MARKED, LOCKED) => {
                    self.free_frame(index);
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// Frees the frame of a page that this caller has locked.
    fn free_frame(&self, index: usize) {
        let page = &self.pages[index];
        let (_, bytes) = content(index, page.version.load(Ordering::Relaxed));
        let frame = NonNull::new(page.frame.swap(std::ptr::null_mut(), Ordering::Relaxed)).expect("a resident page");
        // SAFETY: the frame is of this page and has that size; the state keeps others away.
        unsafe { self.memory.free(frame, bytes) };
        self.held_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        self.freed_frames.fetch_add(1, Ordering::Relaxed);
        // Release: pairs with the acquire of the next fix.
        page.state.store(EVICTED, Ordering::Release);
    }

    /// Evicts all pages. An error says what is left.
    pub fn close(&self) -> Result<(), String> {
        while self.evict_one() {}
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (held, allocated, freed) =
            (count(&self.held_bytes), count(&self.allocated_frames), count(&self.freed_frames));
        let in_use = self.memory.in_use_bytes().unwrap_or(0);
        if held != 0 || allocated != freed || in_use != 0 {
            return Err(format!(
                "frames are lost: {allocated} allocated, {freed} freed, {held} bytes held, {in_use} bytes in use in the pool"
            ));
        }
        Ok(())
    }
}
