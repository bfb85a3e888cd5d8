//! Random operations of two threads, each of which frees every block of the other one too, in every order: no free is accepted twice, and
//! no page is handed out twice, with the default check.
//!
//! `PAGESET_OPERATIONS` sets the number of operations, 2,000,000 by default. In a release build 100,000,000 take 70 seconds
//! of CPU time.

use std::cell::Cell;
use std::env;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Barrier, Mutex};
use std::{hint, thread};

use pageset::alloc::owned::OwnedMetadata;
use pageset::{
    Allocator, Block, Config, CpuId, Free, FreeTo, Machine, MigrateType, NodeId, Order, PageRange, Pfn, Request,
    SpinLock, ZoneKind, ZoneSpec,
};

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

struct Threads;

impl Machine for Threads {
    type Lock = SpinLock;

    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn relax(&self) {
        thread::yield_now();
    }
}

type World<'a> = Allocator<'a, Threads>;

const PAGES: u64 = 1 << 15;
/// Blocks that each thread allocates in a round, for both to free.
const SHARED: usize = 1000;
/// Blocks that each thread allocates for itself while both free.
const OWN: usize = 200;

/// Nobody has the page; or it is in a block that both threads free, before and after the first of them began; or in a block of one thread.
const NOBODY: u8 = 0;
const SHARED_BLOCK: u8 = 1;
const FREED: u8 = 2;
const OWN_BLOCK: u8 = 3;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// An order of a round. A block of one half of the orders cannot be mistaken for one of the other half: a free names the order.
    fn order(&mut self, half: usize) -> Order {
        const ORDERS: [[u8; 8]; 2] = [[0, 0, 0, 0, 2, 3, 5, 0], [1, 1, 1, 1, 1, 4, 1, 6]];
        let large = [9, 8][half];
        let order = if self.below(500) == 0 { large } else { ORDERS[half][self.below(8) as usize] };
        Order::new(order).expect("an order")
    }
}

fn operations() -> u64 {
    env::var("PAGESET_OPERATIONS").ok().and_then(|number| number.parse().ok()).unwrap_or(2_000_000)
}

struct Test<'a> {
    world: World<'a>,
    pages: Vec<AtomicU8>,
    /// The blocks of a round, with the number of frees of each that succeeded.
    blocks: Mutex<Vec<Block>>,
    accepted: Vec<AtomicU32>,
    /// The number of the block that each thread is about to free.
    at: [AtomicU64; 2],
    operations: AtomicU64,
    barrier: Barrier,
}

impl Test<'_> {
    /// Allocates a block for whom `state` says. Its pages were nobody's.
    fn alloc(&self, random: &mut Random, order: Order, state: u8, round: u64) -> Option<Block> {
        let migratetype = if random.below(10) == 0 { MigrateType::Unmovable } else { MigrateType::Movable };
        let request = Request { watermarks: false, ..Request::new(order, migratetype) };
        let pfn = match random.below(8) {
            0 => self.world.non_blocking().alloc(&request).ok()?,
            1 if order == Order::ZERO => {
                let mut page = [Pfn(0)];
                self.world.alloc_bulk(&request, &mut page).ok()?;
                page[0]
            }
            _ => self.world.alloc(&request).ok()?,
        };
        for page in pfn.0..pfn.0 + order.pages() {
            let before = self.pages[page as usize].swap(state, SeqCst);
            assert!(
                before == NOBODY || before == FREED,
                "round {round}: page {page} is handed out twice, was {before}"
            );
        }
        Some(Block { pfn, order })
    }

    /// Frees a block in one of the ways that check it.
    fn free(&self, random: &mut Random, Block { pfn, order }: Block) -> bool {
        match random.below(8) {
            0 => self.world.free_with(Free::block(pfn, order).to(FreeTo::PagesetUndrained)).is_ok(),
            1 => self.world.free_with(Free::block(pfn, order).to(FreeTo::Deferred)).is_ok(),
            2 => self.world.free_with(Free::block(pfn, order).to(FreeTo::Buddy)).is_ok(),
            _ => self.world.free(pfn, order).is_ok(),
        }
    }

    /// Tries to free a block that the other thread tries to free as well.
    fn free_shared(&self, random: &mut Random, number: usize, block: Block) {
        let Block { pfn, order } = block;
        for page in pfn.0..pfn.0 + order.pages() {
            // Fails if the other thread was first: somebody may have the page again.
            let _ = self.pages[page as usize].compare_exchange(SHARED_BLOCK, FREED, SeqCst, SeqCst);
        }
        self.accepted[number].fetch_add(u32::from(self.free(random, block)), SeqCst);
    }

    /// Waits a little until the other thread is as far.
    fn meet(&self, thread: usize, at: u64) {
        self.at[thread].store(at, SeqCst);
        for _ in 0..200 {
            if self.at[1 - thread].load(SeqCst) >= at {
                break;
            }
            hint::spin_loop();
        }
    }

    fn run(&self, thread: u64) {
        let mut random = Random(thread + 1);
        for round in 0.. {
            // Two CPUs, or one that changes between the threads at any moment.
            CPU.set(if round % 4 == 3 { 0 } else { thread as u32 });
            let half = round as usize % 2;
            let shared: Vec<_> = (0..SHARED)
                .filter_map(|_| {
                    let order = random.order(half);
                    self.alloc(&mut random, order, SHARED_BLOCK, round)
                })
                .collect();
            self.blocks.lock().expect("no panic").extend(&shared);
            self.barrier.wait();
            let blocks = self.blocks.lock().expect("no panic").clone();
            self.barrier.wait();
            // Both in the same order and nearly at once; one against the other; each in an order of its own.
            let together = round % 3 == 0;
            let step = if together { 1 } else { [1, 1, 7, 13][random.below(4) as usize] };
            let from = if together { 0 } else { random.below(blocks.len() as u64) as usize };
            let mut own = Vec::new();
            for i in 0..blocks.len() {
                if together {
                    self.meet(thread as usize, i as u64 + 1);
                    (0..random.below(16)).for_each(|_| hint::spin_loop());
                }
                // The number of blocks is no multiple of the steps, or some are freed once and others three times.
                let at = (from + i * if blocks.len().is_multiple_of(step) { 1 } else { step }) % blocks.len();
                let at = if round % 3 == 1 && thread == 1 { blocks.len() - 1 - at } else { at };
                self.free_shared(&mut random, at, blocks[at]);
                if own.len() < OWN && random.below(5) == 0 {
                    let order = random.order(1 - half);
                    own.extend(self.alloc(&mut random, order, OWN_BLOCK, round));
                }
            }
            self.barrier.wait();
            self.at[thread as usize].store(0, SeqCst);
            // Nobody has one of the blocks now, so all frees are wrong.
            for (i, &block) in blocks.iter().enumerate().filter(|(i, _)| *i as u64 % 2 == thread) {
                let accepted = self.accepted[i].swap(0, SeqCst);
                assert_eq!(accepted, 1, "round {round}: frees of {block:?} that succeeded");
                let bulk = random.below(4) == 0;
                let freed = if bulk { self.world.free_bulk(&[block]).is_ok() } else { self.free(&mut random, block) };
                assert!(!freed, "round {round}: {block:?} is free, and was freed again");
            }
            let calls = shared.len() + blocks.len() + blocks.len() / 2 + 2 * own.len();
            for block in own {
                for page in block.pfn.0..block.pfn.0 + block.order.pages() {
                    assert_eq!(self.pages[page as usize].swap(NOBODY, SeqCst), OWN_BLOCK, "round {round}");
                }
                assert!(self.free(&mut random, block), "round {round}: {block:?} is in use");
            }
            if random.below(8) == 0 {
                self.world.tick();
            }
            self.operations.fetch_add(calls as u64, SeqCst);
            let ends = self.barrier.wait().is_leader();
            if ends {
                self.blocks.lock().expect("no panic").clear();
            }
            let all = self.operations.load(SeqCst);
            self.barrier.wait();
            if all >= operations() {
                break;
            }
        }
    }
}

#[test]
fn no_free_is_accepted_twice_and_no_page_is_handed_out_twice() {
    let ranges = [PageRange::new(Pfn(0), PAGES)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let config = Config::new(&zones, &[NodeId(0); 2]);
    let metadata = OwnedMetadata::new(&config).expect("a map");
    let mut zones = metadata.zones();
    let test = Test {
        world: Allocator::new(Threads, &config, metadata.lend(&mut zones)).expect("a map"),
        pages: (0..PAGES).map(|_| AtomicU8::new(NOBODY)).collect(),
        blocks: Mutex::default(),
        accepted: (0..2 * SHARED).map(|_| AtomicU32::new(0)).collect(),
        at: [const { AtomicU64::new(0) }; 2],
        operations: AtomicU64::new(0),
        barrier: Barrier::new(2),
    };
    // A panic of one thread would leave the other one at a barrier.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}\nPAGESET_OPERATIONS={} cargo test -p pageset --test double_frees", operations());
        std::process::exit(101);
    }));
    thread::scope(|scope| {
        for thread in 0..2 {
            let test = &test;
            scope.spawn(move || test.run(thread));
        }
    });
    test.world.drain_all();
    assert_eq!(test.world.zone(0).expect("a zone").stats().nr_free_pages, PAGES);
    let books = test.world.zone(0).expect("a zone").audit().expect("balanced books");
    assert_eq!(books.in_use, 0);
    println!("{} operations", test.operations.load(SeqCst));
}
