//! One world: its machine, and the checks between the rounds of calls.

use std::cell::Cell;
use std::ops::AddAssign;
use std::panic;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use pageset::alloc::owned::OwnedMetadata;
use pageset::{Allocator, Block, CpuId, Machine, MigrateType, Order, PageRange, Pfn, RawLock, SpinLock};

use crate::Random;
use crate::plan::Plan;
use crate::work::Worker;

/// Rounds of a world: each ends with an audit.
const ROUNDS: u64 = 4;

thread_local! {
    pub(crate) static CPU: Cell<u32> = const { Cell::new(0) };
}

/// The library's lock, but a waiter yields: the holder may need the waiter's CPU.
#[derive(Debug, Default)]
pub(crate) struct Polite(SpinLock);

impl RawLock for Polite {
    fn lock(&self) {
        while !self.0.try_lock() {
            thread::yield_now();
        }
    }

    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    fn unlock(&self) {
        self.0.unlock();
    }
}

/// A machine whose threads choose their CPUs.
pub(crate) struct Threads;

impl Machine for Threads {
    type Lock = Polite;

    #[inline]
    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn relax(&self) {
        thread::yield_now();
    }
}

/// What worlds did.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Calls of the allocator that allocate, free, or change a setting.
    pub(crate) calls: u64,
    refused: u64,
    worlds: u64,
    audits: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.calls += other.calls;
        self.refused += other.refused;
        self.worlds += other.worlds;
        self.audits += other.audits;
    }
}

pub(crate) type World<'a> = Allocator<'a, Threads>;

pub(crate) struct Shared<'w, 'a> {
    pub(crate) plan: &'w Plan,
    pub(crate) world: &'w World<'a>,
    /// By page: 1 while a worker has it.
    taken: Vec<AtomicU8>,
    mail: Mutex<Vec<Block>>,
}

/// Runs a world of about `calls` calls. With `planted`, a worker forgets a page.
pub(crate) fn run(plan: &Plan, number: u64, calls: u64, planted: bool) -> Tally {
    // An earlier world may have had more CPUs.
    CPU.set(0);
    plan.with_config(|config| {
        let metadata = OwnedMetadata::new(config).expect("checked when it was drawn");
        let mut zones = metadata.zones();
        let world = Allocator::new(Threads, config, metadata.lend(&mut zones)).expect("checked when it was drawn");
        let taken = (0..plan.end()).map(|_| AtomicU8::new(0)).collect();
        let shared = Shared { plan, world: &world, taken, mail: Mutex::default() };
        let threads = if number % 4 == 3 { 2 } else { 1 };
        // Threads that wait for each other are slow.
        let calls = calls / (threads * threads);
        let mut workers: Vec<_> =
            (0..threads).map(|thread| Worker::new(&shared, Random::new(number, 1 + thread), thread == 0)).collect();
        let mut tally = Tally { worlds: 1, ..Tally::default() };
        for round in 0..ROUNDS {
            let each = calls / ROUNDS;
            if let [one] = &mut workers[..] {
                one.work(each);
            } else {
                thread::scope(|scope| {
                    let running: Vec<_> =
                        workers.iter_mut().map(|worker| scope.spawn(move || worker.work(each))).collect();
                    for thread in running {
                        thread.join().unwrap_or_else(|what| panic::resume_unwind(what));
                    }
                });
            }
            if planted && round == 1 {
                workers[0].forget_a_page();
            }
            shared.audit();
            tally.audits += 1;
        }
        for worker in &mut workers {
            worker.end();
            tally.calls += worker.calls;
            tally.refused += worker.refused;
        }
        shared.finish();
        tally.audits += 2;
        tally
    })
}

impl Shared<'_, '_> {
    pub(crate) fn mail(&self) -> MutexGuard<'_, Vec<Block>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a block was allocated or is about to be freed.
    #[inline]
    pub(crate) fn note(&self, block: Block, before: u8) {
        let pages = &self.taken[block.pfn.0 as usize..][..block.order.pages() as usize];
        // Not exchanges: two workers with one page both pass here at the same instant only, and one of them fails at its free.
        for (at, page) in pages.iter().enumerate() {
            let found = page.load(Relaxed);
            assert!(found == before, "page {:#x} of {block:?} has two owners", block.pfn.0 + at as u64);
            page.store(1 - before, Relaxed);
        }
    }

    /// Checks all zones while no call is in progress.
    fn audit(&self) {
        for (zone, of) in self.plan.zones.iter().enumerate() {
            let books = self.world.zone(zone).expect("a zone").audit().unwrap_or_else(|error| panic!("{error}"));
            let stats = self.world.zone(zone).expect("a zone").stats();
            let pages = &self.taken[of.span.start.0 as usize..of.span.end().0 as usize];
            let in_use = pages.iter().map(|page| u64::from(page.load(Relaxed))).sum::<u64>();
            assert_eq!(books.in_use, in_use, "zone {zone}: pages in use");
            assert_eq!(stats.pgalloc() - stats.pgfree(), in_use, "zone {zone}: pages allocated and not freed");
            assert_eq!(stats.deferred, 0, "zone {zone}: the audit has completed deferred frees");
            assert_eq!(books.cached, stats.cached_pages(), "zone {zone}: pages in caches");
            assert_eq!(books.free + books.cached + in_use, stats.managed, "zone {zone}: all pages");
            assert_eq!(stats.nr_free_pages, books.free, "zone {zone}: free pages");
            for cpu in (0..self.plan.cpus.len() as u32).map(CpuId) {
                let of = self.world.zone(zone).expect("a zone").pageset(cpu).expect("a CPU").stats();
                let flow = of.refill_pages + of.pgfree - of.pgalloc - of.drain_pages;
                assert_eq!(flow, of.count, "zone {zone}, {cpu:?}: what came and went against what is held");
            }
        }
    }

    /// Checks, after all frees, that all memory merges.
    fn finish(&self) {
        self.audit();
        self.world.drain_all();
        self.audit();
        for (zone, of) in self.plan.zones.iter().enumerate() {
            self.world.zone(zone).expect("a zone").merge_skipped();
            // Pageblocks of different types may stay apart, so all get one type first.
            for range in &of.ranges {
                let starts = range.start.align_down(Order::PAGEBLOCK).0..range.end().0;
                for pfn in starts.step_by(Order::PAGEBLOCK.pages() as usize) {
                    let pfn = Pfn(pfn.max(range.start.0));
                    self.world.set_pageblock_type(pfn, MigrateType::Movable).expect("a page of the zone");
                }
            }
            let found: Vec<u32> = Order::all()
                .map(|order| {
                    MigrateType::ALL.iter().map(|&t| self.world.zone(zone).expect("a zone").free_blocks(order, t)).sum()
                })
                .collect();
            assert_eq!(found, largest_blocks(&of.ranges), "zone {zone}: free blocks by order, all merged");
        }
    }
}

/// The blocks of each order that completely merged ranges have.
fn largest_blocks(ranges: &[PageRange]) -> Vec<u32> {
    let mut blocks = vec![0; Order::COUNT];
    for range in ranges {
        let mut at = range.start;
        while at < range.end() {
            let order = largest_at(at, range.end());
            blocks[order.index()] += 1;
            at = at.offset(order.pages());
        }
    }
    blocks
}

pub(crate) fn largest_at(at: Pfn, end: Pfn) -> Order {
    let fits = |order: &Order| at.is_aligned(*order) && at.0 + order.pages() <= end.0;
    Order::all().rev().find(fits).expect("a page is a block of order 0")
}
