//! The accesses that the probe reports, in order: a simulator charges them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::support::{Behaving, Behaviour, Known};
use pageset::alloc::owned::OwnedMetadata;
use pageset::machine::{Access, Line};
use pageset::policy::presets::{LINUX_4_16, LINUX_4_17, LINUX_6_7, PAGESET_LISTS};
use pageset::policy::{BatchRule, Bounds, Tuning};
use pageset::{
    Allocator, Config, CpuId, Free, FreeTo, Immovable, LockPath, MigrateType, NodeId, Order, PageRange, Pfn, Request,
    ZoneKind, ZoneSpec,
};

/// The reported accesses.
#[derive(Default)]
struct Recorder {
    on: AtomicBool,
    told: Mutex<Vec<Access>>,
}

impl Recorder {
    fn take(&self) -> Vec<Access> {
        std::mem::take(&mut self.told.lock().expect("no panic"))
    }

    fn during(&self, work: impl FnOnce()) -> Vec<Access> {
        self.on.store(true, Relaxed);
        work();
        self.on.store(false, Relaxed);
        self.take()
    }
}

impl Behaviour for Recorder {
    fn probe(&self, access: Access) {
        if self.on.load(Relaxed) {
            self.told.lock().expect("no panic").push(access);
        }
    }
}

/// The pages among the lines that were touched.
fn pages(told: &[Access]) -> Vec<u64> {
    told.iter()
        .filter_map(|access| if let Access::Touch(Line::Page(pfn)) = access { Some(pfn.0) } else { None })
        .collect()
}

fn lock(path: LockPath) -> Access {
    Access::ZoneLock { zone: 0, region: 0, path }
}

const BASE: u64 = 1 << 20;

/// Four pages are allocated one by one; then the second and the fourth are freed to the buddy.
fn two_free_of_four(tuning: Tuning, test: impl FnOnce(&Allocator<'_, Behaving<'_>>, &Recorder)) {
    let range = PageRange::new(Pfn(BASE), 4);
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[range] }];
    let tuning = Tuning { batch: BatchRule::Fixed(1), ..tuning };
    let config = Config { tuning, ..Config::new(&zones, &[NodeId(0)]) };
    let metadata = OwnedMetadata::new(&config).unwrap();
    let mut zones = metadata.zones();
    let recorder = Recorder::default();
    let world = Allocator::new(Behaving(&recorder), &config, metadata.lend(&mut zones)).unwrap();
    world.at(0).set_watermarks(Default::default(), [0; 4]);
    let request = Request::new(Order::ZERO, MigrateType::Movable);
    for page in 0..4 {
        assert_eq!(world.alloc(&request), Ok(Pfn(BASE + page)));
    }
    world.free_with(Free::block(Pfn(BASE + 1), Order::ZERO).to(FreeTo::Buddy)).unwrap();
    world.free_with(Free::block(Pfn(BASE + 3), Order::ZERO).to(FreeTo::Buddy)).unwrap();
    test(&world, &recorder);
}

#[test]
fn a_merge_touches_buddies_and_neighbours() {
    two_free_of_four(LINUX_4_16, |world, recorder| {
        let told =
            recorder.during(|| world.free_with(Free::block(Pfn(BASE + 2), Order::ZERO).to(FreeTo::Buddy)).unwrap());
        assert_eq!(told[0], lock(LockPath::DirectFree));
        let expected = [
            // The buddy is read, then taken off its list; the page after it on the list is its neighbour.
            3, 3, 1, // The buddy of the pair is not free; would the four have one? Then the pair is listed.
            0, 4, 2,
        ];
        assert_eq!(pages(&told), expected.map(|page| BASE + page));
    });
}

#[test]
fn two_pass_drains_touch_their_pages_before_the_lock() {
    let picks = [Access::Touch(Line::Page(Pfn(BASE + 2))), Access::Prefetch(Line::Page(Pfn(BASE + 3)))];
    for (tuning, before) in [(LINUX_4_16, &[][..]), (LINUX_4_17, &picks[..])] {
        two_free_of_four(tuning, |world, recorder| {
            world.free(Pfn(BASE + 2), Order::ZERO).unwrap();
            let told = recorder.during(|| assert!(world.drain()));
            let is_page = |access: &&Access| matches!(access, Access::Touch(Line::Page(_)) | Access::Prefetch(_));
            let first = told.iter().take_while(|access| **access != lock(LockPath::Drain)).filter(is_page);
            assert_eq!(first.copied().collect::<Vec<_>>(), before);
        });
    }
}

/// A hit and a free on the fast path touch only their pageset's cache line.
#[test]
fn the_fast_path_touches_one_line() {
    let range = PageRange::new(Pfn(BASE), 1 << 18);
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[range] }];
    let config = Config::new(&zones, &[NodeId(0)]);
    let metadata = OwnedMetadata::new(&config).unwrap();
    let mut zones = metadata.zones();
    let recorder = Recorder::default();
    let world = Allocator::new(Behaving(&recorder), &config, metadata.lend(&mut zones)).unwrap();
    let request = Request::new(Order::ZERO, MigrateType::Movable);
    let first = world.alloc(&request).unwrap();
    let told = recorder.during(|| {
        let page = world.alloc(&request).unwrap();
        world.free(page, Order::ZERO).unwrap();
    });
    assert_eq!(told, [Access::Touch(Line::Pageset { zone: 0, cpu: CpuId(0) }); 2]);
    world.free(first, Order::ZERO).unwrap();
}

/// The touches of a mix of refills and drains under the zone lock, and the free blocks of each order after each round.
fn mixture(tuning: Tuning, batch: u32, whole_blocks: bool) -> (usize, Vec<u64>) {
    let range = PageRange::new(Pfn(BASE), 1 << 13);
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[range] }];
    let tuning = Tuning { batch: BatchRule::Fixed(batch), whole_blocks, ..tuning };
    let config = Config { tuning, ..Config::new(&zones, &[NodeId(0)]) };
    let metadata = OwnedMetadata::new(&config).unwrap();
    let mut zones = metadata.zones();
    let recorder = Recorder::default();
    let world = Allocator::new(Behaving(&recorder), &config, metadata.lend(&mut zones)).unwrap();
    world.at(0).set_watermarks(Default::default(), [0; 4]);
    recorder.on.store(true, Relaxed);
    let (mut held, mut blocks) = (Vec::new(), Vec::new());
    for round in 0..12 {
        for i in 0..100 + 97 * round {
            // Some requests of another type, so that a pageblock is claimed.
            let migratetype = if i % 50 == 7 { MigrateType::Unmovable } else { MigrateType::Movable };
            // And some larger requests, which some rules cache.
            let order = match i {
                _ if i % 23 == 5 => 3,
                _ if i % 211 == 3 => 9,
                _ if i % 307 == 9 => 10,
                _ => 0,
            };
            let order = Order::new(order).unwrap();
            held.extend(world.alloc(&Request::new(order, migratetype)).map(|pfn| (pfn, order)));
        }
        // Every third block stays, so the free memory is fragmented.
        let (mut stay, mut number) = (Vec::new(), 0);
        for (pfn, order) in held.drain(..) {
            number += 1;
            if number % 3 == 0 && order == Order::ZERO {
                stay.push((pfn, order))
            } else {
                world.free(pfn, order).unwrap()
            }
        }
        held = stay;
        blocks.extend(Order::all().map(|order| {
            MigrateType::ALL
                .iter()
                .map(|&migratetype| u64::from(world.at(0).free_blocks(order, migratetype)))
                .sum::<u64>()
        }));
    }
    let touches = recorder.take();
    (touches.iter().filter(|access| matches!(access, Access::Touch(_))).count(), blocks)
}

#[test]
fn whole_blocks_move_the_same_pages_and_touch_fewer_lines() {
    for (tuning, batch) in
        [(LINUX_4_16, 31), (LINUX_4_17, 31), (LINUX_4_17, 7), (LINUX_4_17, 300), (LINUX_6_7, 63), (PAGESET_LISTS, 63)]
    {
        let (whole, page_by_page) = (mixture(tuning, batch, true), mixture(tuning, batch, false));
        assert_eq!(whole.1, page_by_page.1, "free blocks, batch {batch}");
        assert!(page_by_page.0 > 10_000, "{} lines", page_by_page.0);
        assert!(whole.0 < page_by_page.0, "{} lines, page by page {}", whole.0, page_by_page.0);
    }
}

/// A drain in two passes fetches the buddies of its first batch of pages, and of no more.
#[test]
fn two_pass_drains_fetch_the_buddies_of_one_batch() {
    let range = [PageRange::new(Pfn(BASE), 1 << 12)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range[0], ranges: &range }];
    let tuning = Tuning { batch: BatchRule::Fixed(4), ..LINUX_4_17 };
    let config = Config { tuning, ..Config::new(&zones, &[NodeId(0)]) };
    let metadata = OwnedMetadata::new(&config).unwrap();
    let mut zones = metadata.zones();
    let recorder = Recorder::default();
    let world = Allocator::new(Behaving(&recorder), &config, metadata.lend(&mut zones)).unwrap();
    let request = Request::new(Order::ZERO, MigrateType::Movable);
    let used: Vec<_> = (0..20).map(|_| world.alloc(&request).unwrap()).collect();
    world.drain();
    used.into_iter().for_each(|page| world.free(page, Order::ZERO).unwrap());
    let held = world.pageset(0, CpuId(0)).state().count;
    assert!(held > 4, "one drain takes more than a batch");
    let told = recorder.during(|| assert!(world.drain()));
    let prefetches = told.iter().filter(|access| matches!(access, Access::Prefetch(_))).count();
    assert_eq!((prefetches, told.iter().filter(|access| **access == lock(LockPath::Drain)).count()), (4, 1));
}

/// The most pages that are touched between two holds of the zone lock.
fn longest_hold(told: &[Access]) -> usize {
    told.split(|access| matches!(access, Access::ZoneLock { .. })).map(|hold| pages(hold).len()).max().unwrap_or(0)
}

/// No hold of the zone lock works on more than 1,024 pages of a range, however large the range is.
#[test]
fn ranges_hold_the_lock_for_pieces() {
    let span = PageRange::new(Pfn(BASE), 1 << 20);
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span, ranges: &[] }];
    let config = Config::new(&zones, &[NodeId(0)]);
    let metadata = OwnedMetadata::new(&config).unwrap();
    let mut zones = metadata.zones();
    let recorder = Recorder::default();
    let world = Allocator::new(Behaving(&recorder), &config, metadata.lend(&mut zones)).unwrap();
    let check = |what: &str, work: &dyn Fn()| {
        let told = recorder.during(work);
        let holds = told.iter().filter(|access| matches!(access, Access::ZoneLock { .. })).count();
        assert!(holds >= 1024, "{what}: {holds} holds");
        // A block taken or listed touches its neighbours on its list, and a merge its buddies.
        assert!(longest_hold(&told) <= 64, "{what}: {} touches in one hold", longest_hold(&told));
    };
    check("online", &|| world.online(span).unwrap());
    check("alloc_range", &|| world.alloc_range(span, MigrateType::Movable, &Immovable).unwrap());
    check("free_range", &|| world.free_with(Free::whole_blocks(span)).unwrap());
    check("offline", &|| world.offline(span, &Immovable).unwrap());
}

/// A bulk allocation lets go of the lock of its pageset after each 512 pages.
#[test]
fn bulk_allocations_hold_a_pageset_for_512_pages() {
    let range = [PageRange::new(Pfn(BASE), 1 << 18)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range[0], ranges: &range }];
    let config = Config { pageset_capacity: 10_000, ..Config::new(&zones, &[NodeId(0)]) };
    let metadata = OwnedMetadata::new(&config).unwrap();
    let mut zones = metadata.zones();
    let recorder = Recorder::default();
    let world = Allocator::new(Behaving(&recorder), &config, metadata.lend(&mut zones)).unwrap();
    world.at(0).set_bounds(Bounds { batch: 63, high_min: 10_000, high_max: 10_000 }).unwrap();
    let request = Request::new(Order::ZERO, MigrateType::Movable);
    let used: Vec<_> = (0..5000).map(|_| world.alloc(&request).unwrap()).collect();
    used.into_iter().for_each(|page| world.free(page, Order::ZERO).unwrap());
    let mut pages = [Pfn(0); 2048];
    let told = recorder.during(|| assert_eq!(world.alloc_bulk(&request, &mut pages), Ok(2048)));
    let holds = told.iter().filter(|access| matches!(access, Access::Touch(Line::Pageset { .. }))).count();
    assert_eq!(holds, 4);
}
