//! The lowest possible costs of a page cache: no orders, no checks, no statistics, no allocator behind the cache.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use pageset_host::CpuNumber;
use pageset_host::topology::possible_cpus;

use crate::pattern::{HELD, Pattern};
use crate::subject::{Built, Entry, Pages, Refusal};

/// The name of the floor that all ratios refer to.
pub const FLOOR_B: &str = "floor b";

/// Pages of a cache: twice what a thread holds.
const PAGES: u32 = 2 * HELD as u32;

/// Whether a cache without an allocator behind it can serve a pattern.
fn fits(pattern: Pattern) -> bool {
    match pattern {
        Pattern::Hot | Pattern::Bulk | Pattern::Random | Pattern::Churn | Pattern::Calls(_) | Pattern::Old(_) => true,
        Pattern::Remote | Pattern::HotHuge | Pattern::Half | Pattern::HalfHuge => false,
    }
}

fn boxed<P: Pages + 'static>(pattern: Pattern, subject: impl FnOnce() -> P) -> Built {
    if fits(pattern) { Ok(Box::new(subject())) } else { Err(Refusal::NotOffered) }
}

/// All floors, the lowest first.
pub fn entries() -> Vec<Entry> {
    vec![
        Entry { name: "harness", make: |_, _| Ok(Box::new(Harness)) },
        Entry { name: "floor a", make: |pattern, _| boxed(pattern, || ThreadArray) },
        Entry { name: FLOOR_B, make: |pattern, _| boxed(pattern, CpuArrays::new) },
        Entry { name: "floor c", make: |pattern, _| boxed(pattern, || ThreadList) },
        Entry { name: "floor d", make: |pattern, _| boxed(pattern, CpuLists::new) },
    ]
}

/// The harness only: page numbers come from a counter.
struct Harness;

impl Pages for Harness {
    type Local = u64;

    fn local(&self, _thread: usize) -> u64 {
        0
    }

    #[inline(always)]
    fn get(&self, next: &mut u64) -> u64 {
        *next += 1;
        *next
    }

    #[inline(always)]
    fn put(&self, last: &mut u64, page: u64) {
        *last = page;
    }
}

/// Floor a: an array of page numbers per thread.
struct ThreadArray;

struct Array {
    pages: Vec<u32>,
    len: usize,
}

impl Pages for ThreadArray {
    type Local = Array;

    fn local(&self, _thread: usize) -> Array {
        Array { pages: (0..PAGES).rev().collect(), len: PAGES as usize }
    }

    #[inline(always)]
    fn get(&self, array: &mut Array) -> u64 {
        array.len -= 1;
        u64::from(array.pages[array.len])
    }

    #[inline(always)]
    fn put(&self, array: &mut Array, page: u64) {
        array.pages[array.len] = page as u32;
        array.len += 1;
    }

    #[inline(always)]
    fn take_and_give(&self, array: &mut Array, pages: &mut [u64]) {
        array.len -= pages.len();
        pages.iter_mut().zip(&array.pages[array.len..]).for_each(|(page, &found)| *page = u64::from(found));
        let pages = black_box(&*pages);
        array.pages[array.len..].iter_mut().zip(pages).for_each(|(place, &page)| *place = page as u32);
        array.len += pages.len();
    }
}

/// A lock that costs one exchange and one store.
#[derive(Default)]
struct SwapLock(AtomicBool);

impl SwapLock {
    #[inline(always)]
    fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        // Acquire: pairs with the release below.
        while self.0.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        let result = work();
        // Release: pairs with the acquire above.
        self.0.store(false, Ordering::Release);
        result
    }
}

/// Floor b: an array of page numbers per CPU, behind a lock.
struct CpuArrays(Arc<Vec<CpuArray>>);

#[repr(align(128))]
struct CpuArray {
    lock: SwapLock,
    len: AtomicU32,
    pages: Vec<AtomicU32>,
}

impl CpuArrays {
    fn new() -> Self {
        let of_cpu = |_| CpuArray {
            lock: SwapLock::default(),
            len: AtomicU32::new(PAGES),
            pages: (0..PAGES).rev().map(AtomicU32::new).collect(),
        };
        CpuArrays(Arc::new((0..possible_cpus()).map(of_cpu).collect()))
    }
}

// Relaxed throughout: the lock orders all accesses.
impl Pages for CpuArrays {
    type Local = (CpuNumber, Arc<Vec<CpuArray>>);

    fn local(&self, _thread: usize) -> Self::Local {
        (CpuNumber::find(), Arc::clone(&self.0))
    }

    #[inline(always)]
    fn get(&self, (number, cpus): &mut Self::Local) -> u64 {
        let cpu = &cpus[number.get() as usize];
        cpu.lock.with(|| {
            let len = cpu.len.load(Ordering::Relaxed) - 1;
            cpu.len.store(len, Ordering::Relaxed);
            u64::from(cpu.pages[len as usize].load(Ordering::Relaxed))
        })
    }

    #[inline(always)]
    fn put(&self, (number, cpus): &mut Self::Local, page: u64) {
        let cpu = &cpus[number.get() as usize];
        cpu.lock.with(|| {
            let len = cpu.len.load(Ordering::Relaxed);
            cpu.pages[len as usize].store(page as u32, Ordering::Relaxed);
            cpu.len.store(len + 1, Ordering::Relaxed);
        });
    }

    #[inline(always)]
    fn take_and_give(&self, (number, cpus): &mut Self::Local, pages: &mut [u64]) {
        let cpu = &cpus[number.get() as usize];
        cpu.lock.with(|| {
            let len = cpu.len.load(Ordering::Relaxed) - pages.len() as u32;
            cpu.len.store(len, Ordering::Relaxed);
            let found = &cpu.pages[len as usize..];
            pages.iter_mut().zip(found).for_each(|(page, found)| *page = u64::from(found.load(Ordering::Relaxed)));
        });
        let pages = black_box(&*pages);
        let cpu = &cpus[number.get() as usize];
        cpu.lock.with(|| {
            let len = cpu.len.load(Ordering::Relaxed);
            cpu.len.store(len + pages.len() as u32, Ordering::Relaxed);
            let places = &cpu.pages[len as usize..];
            places.iter().zip(pages).for_each(|(place, &page)| place.store(page as u32, Ordering::Relaxed));
        });
    }
}

/// Floor c: a linked list per thread, through 16 bytes per page.
struct ThreadList;

struct List {
    links: Vec<[u64; 2]>,
    head: u64,
}

impl Pages for ThreadList {
    type Local = List;

    fn local(&self, _thread: usize) -> List {
        List { links: (0..u64::from(PAGES)).map(|page| [page + 1, 0]).collect(), head: 0 }
    }

    #[inline(always)]
    fn get(&self, list: &mut List) -> u64 {
        let page = list.head;
        list.head = list.links[page as usize][0];
        page
    }

    #[inline(always)]
    fn put(&self, list: &mut List, page: u64) {
        list.links[page as usize][0] = list.head;
        list.head = page;
    }
}

/// Floor d: a linked list per CPU, through 16 bytes per page, behind a lock.
struct CpuLists(Arc<Vec<CpuList>>);

#[repr(align(128))]
struct CpuList {
    lock: SwapLock,
    head: AtomicU64,
    links: Vec<[AtomicU64; 2]>,
}

impl CpuLists {
    fn new() -> Self {
        let of_cpu = |_| CpuList {
            lock: SwapLock::default(),
            head: AtomicU64::new(0),
            links: (0..u64::from(PAGES)).map(|page| [AtomicU64::new(page + 1), AtomicU64::new(0)]).collect(),
        };
        CpuLists(Arc::new((0..possible_cpus()).map(of_cpu).collect()))
    }
}

impl Pages for CpuLists {
    type Local = (CpuNumber, Arc<Vec<CpuList>>);

    fn local(&self, _thread: usize) -> Self::Local {
        (CpuNumber::find(), Arc::clone(&self.0))
    }

    #[inline(always)]
    fn get(&self, (number, cpus): &mut Self::Local) -> u64 {
        let cpu = &cpus[number.get() as usize];
        cpu.lock.with(|| {
            let page = cpu.head.load(Ordering::Relaxed);
            cpu.head.store(cpu.links[page as usize][0].load(Ordering::Relaxed), Ordering::Relaxed);
            page
        })
    }

    #[inline(always)]
    fn put(&self, (number, cpus): &mut Self::Local, page: u64) {
        let cpu = &cpus[number.get() as usize];
        cpu.lock.with(|| {
            cpu.links[page as usize][0].store(cpu.head.load(Ordering::Relaxed), Ordering::Relaxed);
            cpu.head.store(page, Ordering::Relaxed);
        });
    }
}
