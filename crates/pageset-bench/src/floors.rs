//! The lowest possible costs of a page cache per CPU: no orders, no checks, no statistics, no allocator behind the cache.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pageset_host::CpuNumber;
use pageset_host::topology::possible_cpus;

use crate::pattern::{HELD, Pattern};
use crate::subject::{Entry, Pages, Refusal};

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

/// The floor.
pub fn entries() -> Vec<Entry> {
    let make = |pattern, _| if fits(pattern) { Ok(Box::new(CpuArrays::new()) as _) } else { Err(Refusal::NotOffered) };
    vec![Entry { name: FLOOR_B, make }]
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
