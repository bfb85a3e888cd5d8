//! An application for ArceOS that uses the allocator of pages and bytes from a thread on each CPU, and checks what it gets.
//!
//! Each thread allocates pages and bytes, stamps them, faults pages in, hands pages to other threads, and frees what it holds and what
//! others left. A changed stamp shows that memory has two owners. At the end nothing is in use that was not at the start.
#![no_std]
#![no_main]

extern crate alloc;

mod costs;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use axalloc::{UsageKind, global_allocator};
use axstd::os::arceos::api::task::{AxCpuMask, ax_set_current_affinity};
use axstd::os::arceos::modules::axhal::paging::MappingFlags;
use axstd::os::arceos::modules::axhal::trap::{PAGE_FAULT, PageFaultFlags};
use axstd::os::arceos::modules::{axconfig, axhal};
use axstd::sync::Mutex;
use axstd::{println, thread};

const PAGE: usize = 4096;

/// Operations of all threads together: allocations, frees and page faults. `run.sh --operations` sets it.
const OPERATIONS: usize = match option_env!("OPERATIONS") {
    Some(text) => match usize::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("OPERATIONS is no number"),
    },
    None => 1_000_000,
};

/// The kinds that the threads allocate; each must be at its former count at the end.
const KINDS: [UsageKind; 4] = [UsageKind::VirtMem, UsageKind::PageCache, UsageKind::Dma, UsageKind::Global];

/// Pages, each with a stamp in its first and its last word.
struct Run {
    start: usize,
    pages: usize,
    kind: UsageKind,
    stamp: usize,
}

impl Run {
    /// Allocates and stamps pages; `None` if there are none.
    fn new(pages: usize, align_pages: usize, kind: UsageKind, stamp: usize) -> Option<Run> {
        let start = global_allocator().alloc_pages(pages, align_pages * PAGE, kind).ok()?;
        assert!(start.is_multiple_of(align_pages * PAGE), "{start:#x} is no multiple of {align_pages} pages");
        CALLS.fetch_add(2, Ordering::Relaxed);
        let run = Run { start, pages, kind, stamp };
        run.words().for_each(|(word, stamp)| unsafe { word.write_volatile(stamp) });
        Some(run)
    }

    fn words(&self) -> impl Iterator<Item = (*mut usize, usize)> {
        let stamp = self.stamp;
        (0..self.pages).map(|page| self.start + page * PAGE).flat_map(move |page| {
            [page, page + PAGE - size_of::<usize>()].map(|word| (word as *mut usize, stamp ^ word))
        })
    }

    fn check(&self) {
        for (word, stamp) in self.words() {
            let found = unsafe { word.read_volatile() };
            assert!(found == stamp, "two owners: {word:p} holds {found:#x}, and its owner wrote {stamp:#x}");
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.check();
        global_allocator().dealloc_pages(self.start, self.pages, self.kind);
    }
}

/// What a thread holds.
enum Held {
    Pages(#[expect(dead_code, reason = "its drop checks and frees the pages")] Run),
    Bytes(Vec<u8>, u8),
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Held::Bytes(bytes, fill) = self {
            let wrong = bytes.iter().position(|byte| byte != fill);
            assert!(wrong.is_none(), "two owners: byte {wrong:?} of {} is not {fill}", bytes.len());
        }
    }
}

/// Where threads leave memory for others.
static MAILBOX: Mutex<Vec<Held>> = Mutex::new(Vec::new());
/// Requests that found no memory.
static REFUSED: AtomicUsize = AtomicUsize::new(0);
/// Allocations and frees of pages by the threads, those of page faults included.
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// Page faults.
static FAULTS: AtomicUsize = AtomicUsize::new(0);

#[linkme::distributed_slice(PAGE_FAULT)]
fn on_page_fault(vaddr: axhal::mem::VirtAddr, access: PageFaultFlags) -> bool {
    FAULTS.fetch_add(1, Ordering::Relaxed);
    axmm::kernel_aspace().lock().handle_page_fault(vaddr, access)
}

/// xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % end
    }
}

/// Maps pages, touches each, and unmaps them. Returns the operations: a fault and a free for each page.
fn fault_in(cpu: usize, pages: usize, stamp: usize) -> usize {
    let base = 0xffff_9000_0000_0000 + (cpu << 30);
    let map = axmm::kernel_aspace();
    let flags = MappingFlags::READ | MappingFlags::WRITE;
    map.lock().map_alloc(base.into(), pages * PAGE, flags, false).expect("an unused region");
    for page in 0..pages {
        let word = (base + page * PAGE) as *mut usize;
        let found = unsafe { word.read_volatile() };
        assert!(found == 0, "a new page holds {found:#x}");
        unsafe { word.write_volatile(stamp ^ page) };
    }
    for page in 0..pages {
        let found = unsafe { ((base + page * PAGE) as *const usize).read_volatile() };
        assert!(found == stamp ^ page, "two owners: page {page} of a region holds {found:#x}");
    }
    map.lock().unmap(base.into(), pages * PAGE).expect("the region");
    CALLS.fetch_add(2 * pages, Ordering::Relaxed);
    2 * pages
}

/// One thread's operations. Returns their number.
fn work(cpu: usize, operations: usize) -> usize {
    ax_set_current_affinity(AxCpuMask::one_shot(cpu)).expect("a CPU");
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (cpu as u64 + 1));
    let mut held: Vec<Held> = Vec::with_capacity(256);
    let mut done = 0;
    while done < operations {
        let stamp = (cpu << 56) | (done << 8);
        done += 1;
        let new = match random.below(100) {
            0 => {
                done += fault_in(cpu, 1 + random.below(64), stamp);
                continue;
            }
            1..36 => Run::new(1, 1, KINDS[random.below(KINDS.len())], stamp).map(Held::Pages),
            36..44 => Run::new(1 + random.below(40), 1, UsageKind::PageCache, stamp).map(Held::Pages),
            44..46 => {
                let pages = 1 << random.below(7);
                Run::new(pages, pages, UsageKind::Dma, stamp).map(Held::Pages)
            }
            46..54 => {
                let mut bytes = Vec::new();
                let size = if random.below(8) == 0 { random.below(100_000) } else { random.below(1000) };
                bytes.try_reserve_exact(size).ok().map(|()| {
                    bytes.resize(size, stamp as u8);
                    Held::Bytes(bytes, stamp as u8)
                })
            }
            54..60 if !held.is_empty() => {
                let mine = held.swap_remove(random.below(held.len()));
                let mut mailbox = MAILBOX.lock();
                mailbox.push(mine);
                let theirs = if mailbox.len() > 16 { Some(mailbox.swap_remove(0)) } else { None };
                drop(mailbox);
                drop(theirs);
                continue;
            }
            _ if !held.is_empty() => {
                held.swap_remove(random.below(held.len()));
                continue;
            }
            _ => continue,
        };
        match new {
            None => _ = REFUSED.fetch_add(1, Ordering::Relaxed),
            Some(new) if held.len() < 256 => held.push(new),
            Some(new) => drop(new),
        }
    }
    done
}

#[unsafe(no_mangle)]
fn main() {
    let cpus = axconfig::plat::MAX_CPU_NUM;
    println!("allocator: {}, {cpus} CPUs", global_allocator().name());
    #[cfg(feature = "pageset")]
    axhal::irq::register_irq_hook(|_| once_a_second());

    costs::measure();

    // The pages of the mailbox' own list stay.
    MAILBOX.lock().reserve(64);
    let before = KINDS.map(|kind| global_allocator().usages().get(kind));
    let threads: Vec<_> = (0..cpus).map(|cpu| thread::spawn(move || work(cpu, OPERATIONS.div_ceil(cpus)))).collect();
    let done: usize = threads.into_iter().map(|thread| thread.join().expect("a thread's count")).sum();
    MAILBOX.lock().clear();
    let after = KINDS.map(|kind| global_allocator().usages().get(kind));
    assert!(before == after, "bytes in use of {KINDS:?}: {before:?} before, {after:?} after");
    let (refused, faults) = (REFUSED.load(Ordering::Relaxed), FAULTS.load(Ordering::Relaxed));
    let calls = CALLS.load(Ordering::Relaxed);
    println!("operations: {done}, of which {calls} allocate or free pages; page faults {faults}, refused {refused}");
    assert!(refused == 0 && faults > 0, "memory was to suffice, and pages to be faulted in");
    #[cfg(feature = "pageset")]
    report();
    println!("passed");
    axhal::power::system_off();
}

/// The tick of each CPU, from its timer.
#[cfg(feature = "pageset")]
fn once_a_second() {
    static INTERRUPTS: [AtomicUsize; axconfig::plat::MAX_CPU_NUM] =
        [const { AtomicUsize::new(0) }; axconfig::plat::MAX_CPU_NUM];
    let interrupts = INTERRUPTS[axhal::percpu::this_cpu_id()].fetch_add(1, Ordering::Relaxed);
    if interrupts.is_multiple_of(axconfig::TICKS_PER_SEC) {
        axalloc::tick();
    }
}

/// Audits the zones and prints their counts.
#[cfg(feature = "pageset")]
fn report() {
    // A thread of ArceOS frees the threads' stacks meanwhile.
    let mut audit = global_allocator().audit();
    for _ in 0..1000 {
        if audit.is_ok() {
            break;
        }
        thread::yield_now();
        audit = global_allocator().audit();
    }
    let in_use = audit.unwrap_or_else(|error| panic!("audit failed: {error}"));
    println!("audit passed: {in_use} pages in use");
    let zones =
        global_allocator().with(|pages| pages.zones().map(|zone| (zone.span(), zone.stats())).collect::<Vec<_>>());
    for (number, (span, stats)) in zones.into_iter().flatten().enumerate() {
        println!(
            "zone {number}: {:?}, {} of {} pages managed; {} pages allocated, {} freed; holds of the lock: {} refills, {} drains, {} and {} direct",
            stats.kind,
            stats.managed,
            span.pages,
            stats.pagesets.pgalloc + stats.direct_alloc_pages,
            stats.pagesets.pgfree + stats.direct_free_pages,
            stats.lock_refill,
            stats.lock_drain,
            stats.lock_direct_alloc,
            stats.lock_direct_free
        );
    }
}
