//! The global allocator of this test program is the one under test, so the test harness uses it too. Some tests have another
//! one of their own.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::HashMap;
use std::ptr;
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use pageset_adapters::global::PagesetAlloc;
use pageset_host::{Memory, PagePool};

#[global_allocator]
static ALLOC: PagesetAlloc = PagesetAlloc::new(|| PagePool::builder(1 << 30));

/// Memory that a test owns, filled with bytes that depend on its address and stamp.
struct Owned {
    start: *mut u8,
    layout: Layout,
    stamp: u8,
}

// SAFETY: the memory has one owner.
unsafe impl Send for Owned {}

impl Owned {
    fn new(alloc: &PagesetAlloc, layout: Layout, stamp: u8) -> Option<Owned> {
        // SAFETY: this allocator allows a size of 0.
        let start = unsafe { alloc.alloc(layout) };
        if start.is_null() {
            return None;
        }
        assert!(start.addr().is_multiple_of(layout.align()), "{layout:?} at {start:?}");
        let owned = Owned { start, layout, stamp };
        owned.fill();
        Some(owned)
    }

    /// The offsets that have a stamp: all of a small object, else one in each 512 bytes, and the last.
    fn offsets(&self) -> impl Iterator<Item = usize> + use<> {
        let (size, step) = (self.layout.size(), if self.layout.size() > 4096 { 512 } else { 1 });
        (0..size).step_by(step).chain(size.checked_sub(1))
    }

    fn byte(&self, offset: usize) -> u8 {
        self.stamp ^ (offset >> 4) as u8
    }

    fn fill(&self) {
        // SAFETY: the offsets lie in the memory, which only this value refers to.
        self.offsets().for_each(|offset| unsafe { self.start.add(offset).write(self.byte(offset)) });
    }

    fn check(&self) {
        for offset in self.offsets() {
            // SAFETY: the offsets lie in the memory, which `fill` wrote.
            let found = unsafe { self.start.add(offset).read() };
            assert_eq!(found, self.byte(offset), "another owner wrote byte {offset} of {:?}", self.layout);
        }
    }

    fn resize(&mut self, alloc: &PagesetAlloc, size: usize) {
        self.check();
        // SAFETY: the memory is from this allocator, and the size does not overflow.
        let moved = unsafe { alloc.realloc(self.start, self.layout, size) };
        if moved.is_null() {
            return;
        }
        assert!(moved.addr().is_multiple_of(self.layout.align()));
        let kept = self.layout.size().min(size);
        let layout = Layout::from_size_align(size, self.layout.align()).expect("a layout");
        let old = Owned { start: moved, layout: self.layout, stamp: self.stamp };
        for offset in old.offsets().filter(|&offset| offset < kept) {
            // SAFETY: the smaller size was copied.
            assert_eq!(unsafe { moved.add(offset).read() }, self.byte(offset), "realloc lost byte {offset}");
        }
        (self.start, self.layout) = (moved, layout);
        self.fill();
    }

    fn free(self, alloc: &PagesetAlloc) {
        self.check();
        // SAFETY: the memory is from this allocator, with this layout, and nothing refers to it.
        unsafe { alloc.dealloc(self.start, self.layout) };
    }
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    /// Sizes of all magnitudes from 0 to 8 MiB, small ones most often, and alignments up to 2 MiB.
    fn layout(&mut self) -> Layout {
        let bits = [4, 6, 8, 10, 11, 12, 14, 16][self.below(8)] + if self.below(200) == 0 { 7 } else { 0 };
        let align = 1 << if self.below(100) == 0 { self.below(22) } else { self.below(6) };
        Layout::from_size_align(self.below(1 << bits), align).expect("a layout")
    }
}

#[test]
fn many_threads_allocate_resize_and_free_for_each_other() {
    let seconds = std::env::var("PAGESET_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mailbox: Mutex<Vec<Owned>> = Mutex::default();
    let operations: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..8u64)
            .map(|thread| {
                let mailbox = &mailbox;
                scope.spawn(move || {
                    let mut random = Random(24_301 + thread);
                    let mut own: Vec<Owned> = Vec::new();
                    let mut operations = 0;
                    while Instant::now() < end {
                        for _ in 0..100 {
                            operations += 1;
                            let stamp = random.below(256) as u8;
                            match random.below(10) {
                                0..4 => own.extend(Owned::new(&ALLOC, random.layout(), stamp)),
                                4..6 if !own.is_empty() => {
                                    let at = random.below(own.len());
                                    own[at].resize(&ALLOC, random.layout().size());
                                }
                                6 if !own.is_empty() => {
                                    let at = random.below(own.len());
                                    mailbox.lock().expect("no panic").push(own.swap_remove(at));
                                }
                                7 => own.extend(mailbox.lock().expect("no panic").pop()),
                                _ if !own.is_empty() => {
                                    let at = random.below(own.len());
                                    own.swap_remove(at).free(&ALLOC);
                                }
                                _ => {}
                            }
                        }
                        while own.len() > 300 {
                            own.swap_remove(0).free(&ALLOC);
                        }
                    }
                    own.into_iter().for_each(|owned| owned.free(&ALLOC));
                    operations
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    mailbox.into_inner().expect("no panic").into_iter().for_each(|owned| owned.free(&ALLOC));
    println!("{operations} operations of 8 threads in {seconds} s");
    assert!(operations > 100, "a busy machine does at least that");
}

#[test]
fn programs_run_on_it() {
    let map: HashMap<String, Vec<u64>> = (0..10_000).map(|n| (format!("key {n}"), vec![n; n as usize % 50])).collect();
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(map).expect("a receiver"));
    let map = receiver.recv().expect("a sender");
    thread.join().expect("no panic");
    assert_eq!(map["key 9999"], vec![9999; 49]);
    let big = vec![7u8; 20 << 20];
    assert_eq!(big.iter().map(|&byte| usize::from(byte)).sum::<usize>(), 7 * (20 << 20));
    assert_eq!(vec![(); 5].len(), 5);
    let space = ALLOC.with_pool(|pool| {
        let start = pool.memory().address_space().cast::<u8>().addr().get();
        start..start + pool.memory().address_space().len()
    });
    let space = space.expect("it was built");
    assert!(space.contains(&map["key 9999"].as_ptr().addr()), "the memory is of the pool");
    assert!(!space.contains(&big.as_ptr().addr()), "more than 4 MiB is of the system");
}

#[test]
fn sizes_of_zero_and_large_alignments() {
    for align in (0..=23).map(|shift| 1 << shift) {
        for size in [0, 1, 100, align - 1, align, align + 1] {
            // The system's allocator serves what is larger than a block, and it allows no size of 0.
            if size == 0 && align > 4 << 20 {
                continue;
            }
            let layout = Layout::from_size_align(size, align).expect("a layout");
            let first = Owned::new(&ALLOC, layout, 1).expect("memory");
            let second = Owned::new(&ALLOC, layout, 2).expect("memory");
            assert_ne!(first.start, second.start, "two owners of {layout:?}");
            first.free(&ALLOC);
            second.free(&ALLOC);
        }
    }
}

#[test]
fn zeroed_memory_is_zero_after_other_use() {
    for size in [1, 16, 100, 2048, 4096, 100_000, 5 << 20] {
        let layout = Layout::from_size_align(size, 8).expect("a layout");
        for _ in 0..20 {
            Owned::new(&ALLOC, layout, 0xaa).expect("memory").free(&ALLOC);
            // SAFETY: the size is not 0, and the memory is freed with its layout.
            unsafe {
                let start = ALLOC.alloc_zeroed(layout);
                assert!((0..size).all(|offset| start.add(offset).read() == 0));
                ptr::write_bytes(start, 0xaa, size);
                ALLOC.dealloc(start, layout);
            }
        }
    }
}

#[test]
fn empty_slabs_return_to_the_pool() {
    static OWN: PagesetAlloc = PagesetAlloc::new(|| PagePool::builder(64 << 20));
    let layout = |size| Layout::from_size_align(size, 16).expect("a layout");
    // The first allocation of an allocator builds the pool; it is of the pool already.
    let mut all: Vec<Owned> = Vec::new();
    for size in (16..=2048).step_by(16) {
        all.extend((0..200).map(|_| Owned::new(&OWN, layout(size), size as u8).expect("memory")));
    }
    let in_use = || OWN.with_pool(|pool| pool.stats().in_use_bytes).expect("it was built");
    let held = in_use();
    let bytes: u64 = all.iter().map(|owned| owned.layout.size() as u64).sum();
    assert!(held >= bytes && held < bytes * 5 / 4 + (24 << 15) * u64::from(pageset_host::topology::possible_cpus()));
    all.into_iter().for_each(|owned| owned.free(&OWN));
    let kept = in_use();
    assert!(kept <= (24 << 15) * u64::from(pageset_host::topology::possible_cpus()), "{kept} bytes are kept");
}

#[test]
fn without_memory_the_result_is_null() {
    static SMALL: PagesetAlloc = PagesetAlloc::new(|| PagePool::builder(4 << 20));
    // Large blocks come first: each CPU keeps a slab of each size, which may lie in the middle of the pool.
    for size in [1 << 20, 4096, 2048, 64] {
        let layout = Layout::from_size_align(size, 8).expect("a layout");
        let all: Vec<Owned> = std::iter::from_fn(|| Owned::new(&SMALL, layout, 3)).collect();
        assert!(all.len() * size > 2 << 20, "{} of {size} bytes", all.len());
        let mut last = Owned {
            ..all
                .into_iter()
                .reduce(|kept, owned| {
                    owned.free(&SMALL);
                    kept
                })
                .expect("some")
        };
        last.resize(&SMALL, 3000);
        last.free(&SMALL);
    }
}

/// A pool that drains its caches and scans while its own program allocates from it, and has no more memory.
#[test]
fn calls_of_an_exhausted_pool_do_not_wait_for_themselves() {
    static SMALL: PagesetAlloc = PagesetAlloc::new(|| PagePool::builder(4 << 20));
    let layout = Layout::from_size_align(4096, 8).expect("a layout");
    let all: Vec<Owned> = std::iter::from_fn(|| Owned::new(&SMALL, layout, 3)).collect();
    let refused = SMALL.with_pool(|pool| {
        pool.tick().expect("the system takes memory back");
        pool.drain();
        let inside = Owned::new(&SMALL, layout, 4).expect("the system's memory");
        inside.free(&SMALL);
        pool.alloc_contig(2 << 20).is_err()
    });
    assert_eq!(refused, Some(true));
    all.into_iter().for_each(|owned| owned.free(&SMALL));
}

#[test]
fn a_pool_that_cannot_be_built_leaves_the_system_allocator() {
    static NONE: PagesetAlloc = PagesetAlloc::new(|| PagePool::builder(0));
    static SHARED: PagesetAlloc = PagesetAlloc::new(|| PagePool::builder(64 << 20).memory(Memory::Shared));
    for alloc in [&NONE, &SHARED] {
        for size in [16, 5000] {
            let layout = Layout::from_size_align(size, 16).expect("a layout");
            let mut owned = Owned::new(alloc, layout, 9).expect("the system's memory");
            owned.resize(alloc, 3 * size);
            owned.free(alloc);
        }
        assert!(alloc.with_pool(|_| ()).is_none());
    }
}
