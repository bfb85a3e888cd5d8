//! Two threads on two CPUs free one block at the same time: exactly one of them succeeds.
//!
//! `PAGESET_ROUNDS` sets the number of rounds of each race, 30,000 by default: a fifth of a second on two idle CPUs. On CPUs that others
//! use, a round is two changes of threads, and the default is as many as two seconds allow.

use std::cell::Cell;
use std::env;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use std::{hint, thread};

use crate::support::{Behaving, Behaviour, Known};
use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::{ListRule, Tuning};
use pageset::{
    Allocator, Block, Config, CpuId, Free, FreeCheck, FreeTo, MigrateType, NodeId, Order, PageRange, Pfn, Request,
    ZoneKind, ZoneSpec,
};

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

struct Threads;

impl Behaviour for Threads {
    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn relax(&self) {
        thread::yield_now();
    }
}

/// How one of the two threads frees the block.
type FreeCall = fn(&Allocator<'_, Behaving<'_>>, Pfn, Order) -> bool;

const FREE: FreeCall = |world, pfn, order| world.free(pfn, order).is_ok();
const FREE_BULK: FreeCall = |world, pfn, order| world.free_bulk(&[Block { pfn, order }]).is_ok();
const FREE_COLD: FreeCall = |world, pfn, order| world.free_with(Free::block(pfn, order).to(FreeTo::BuddyCold)).is_ok();
const FREE_DEFERRED: FreeCall =
    |world, pfn, order| world.free_with(Free::block(pfn, order).to(FreeTo::Deferred)).is_ok();
const FREE_RANGE: FreeCall =
    |world, pfn, order| world.free_with(Free::whole_blocks(PageRange::new(pfn, order.pages()))).is_ok();

/// The numbers of the rounds of a race.
fn rounds() -> impl Iterator<Item = u64> {
    let asked: Option<u64> = env::var("PAGESET_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let begin = Instant::now();
    let goes_on = move |round: &u64| {
        let goes_on = asked.is_some() || *round <= 300 || begin.elapsed() < Duration::from_secs(2);
        if !goes_on {
            println!("SKIPPED rounds of a race: {} of 30,000 took two seconds", round - 1);
        }
        goes_on
    };
    (1..=asked.unwrap_or(30_000)).take_while(goes_on)
}

/// Waits until `word` differs from `old`, and returns it. Yields, since the other thread may need this CPU.
fn wait_for_change(word: &AtomicU64, old: u64) -> u64 {
    for spins in 0_u32.. {
        let now = word.load(SeqCst);
        if now != old {
            return now;
        }
        if spins % 256 == 255 { thread::yield_now() } else { hint::spin_loop() }
    }
    unreachable!("the loop has no end")
}

/// Tells the second thread to end.
const END: u64 = u64::MAX;

/// Two threads free the same block in each round. Returns the first round in which not exactly one of them succeeded,
/// with the number that did.
fn race(order: u8, lists: ListRule, free_check: FreeCheck, frees: [FreeCall; 2]) -> Option<(u64, u32)> {
    let order = Order::new(order).expect("an order");
    let ranges = [PageRange::new(Pfn(0), 1 << 15)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let tuning = Tuning { lists, ..Tuning::default() };
    let config = Config { tuning, free_check, ..Config::new(&zones, &[NodeId(0); 2]) };
    let metadata = OwnedMetadata::new(&config).expect("a map");
    let mut zones = metadata.zones();
    let world = Allocator::new(Behaving(&Threads), &config, metadata.lend(&mut zones)).expect("a map");
    // The round and the block; the rounds that the second thread has ended, and how often it succeeded.
    let (block, ended, second) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let wrong = thread::scope(|scope| {
        scope.spawn(|| {
            CPU.set(1);
            let mut last = 0;
            loop {
                last = wait_for_change(&block, last);
                if last == END {
                    break;
                }
                second.fetch_add(u64::from(frees[1](&world, Pfn(last & 0xffff_ffff), order)), SeqCst);
                ended.fetch_add(1, SeqCst);
            }
        });
        let wrong = rounds().find_map(|round| {
            let pfn = world.alloc(&Request::new(order, MigrateType::Movable)).expect("memory");
            let before = second.load(SeqCst);
            block.store(round << 32 | pfn.0, SeqCst);
            // The second thread reads the block up to 100 ns later. The frees drift past each other.
            (0..round % 64).for_each(|_| hint::spin_loop());
            let first = u32::from(frees[0](&world, pfn, order));
            wait_for_change(&ended, round - 1);
            let freed = first + (second.load(SeqCst) - before) as u32;
            (freed != 1).then_some((round, freed))
        });
        block.store(END, SeqCst);
        wrong
    });
    if wrong.is_none() {
        world.at(0).audit().expect("balanced books");
    }
    wrong
}

/// Orders without a list per CPU claim their blocks under every setting.
#[test]
fn one_of_two_frees_of_a_direct_block_succeeds() {
    for order in [4, 5, 8, 10] {
        for frees in [[FREE, FREE], [FREE, FREE_BULK], [FREE_COLD, FREE_DEFERRED], [FREE_RANGE, FREE]] {
            assert_eq!(race(order, ListRule::HugeByMobility, FreeCheck::Basic, frees), None, "order {order}");
        }
    }
}

/// Orders with a list per CPU: frees of one block under the default, bulk frees of single pages with all checks.
#[test]
fn one_of_two_frees_of_a_cached_block_succeeds() {
    for order in [0, 1, 3, 5, 9, 10] {
        for frees in [[FREE, FREE], [FREE_COLD, FREE_DEFERRED]] {
            assert_eq!(race(order, ListRule::AllOrders, FreeCheck::default(), frees), None, "order {order}");
        }
        for frees in [[FREE, FREE_BULK], [FREE_BULK, FREE_BULK]] {
            assert_eq!(race(order, ListRule::AllOrders, FreeCheck::All, frees), None, "order {order}");
        }
    }
}
