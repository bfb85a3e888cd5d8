//! Which lines a machine is told of, and when: what a simulator charges.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::presets::{LINUX_4_16, LINUX_4_17, LINUX_6_7};
use pageset::policy::{BatchRule, Tuning};
use pageset::{
    Allocator, Config, CpuId, Line, LockPath, Machine, MigrateType, NodeId, Order, PageRange, Pfn, Request, SpinLock,
    ZoneKind, ZoneSpec,
};

/// What the machine was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Page(u64),
    Fetched(u64),
    Locking(LockPath),
}

#[derive(Default)]
struct Recorder {
    on: Cell<bool>,
    told: RefCell<Vec<Told>>,
    /// Whether blocks may be taken apart at once.
    at_once: Cell<bool>,
    lines: RefCell<Vec<Line>>,
    expected: RefCell<BTreeSet<u64>>,
    /// Pages that it was told to have been touched, and not before that they would be.
    surprises: RefCell<Vec<u64>>,
}

impl Recorder {
    fn note(&self, told: Told) {
        if self.on.get() {
            self.told.borrow_mut().push(told);
        }
    }

    fn during(&self, work: impl FnOnce()) -> Vec<Told> {
        self.on.set(true);
        work();
        self.on.set(false);
        self.told.take()
    }
}

impl Machine for Recorder {
    type Lock = SpinLock;

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }

    fn touch(&self, line: Line) {
        if let Line::Page(pfn) = line {
            self.note(Told::Page(pfn.0));
            if self.on.get() && !self.expected.borrow().contains(&pfn.0) {
                self.surprises.borrow_mut().push(pfn.0);
            }
        }
        if self.on.get() {
            self.lines.borrow_mut().push(line);
        }
    }

    fn follows_picks(&self) -> bool {
        true
    }

    fn splits_at_once(&self) -> bool {
        self.at_once.get()
    }

    fn prefetch(&self, line: Line) {
        if let Line::Page(pfn) = line {
            self.note(Told::Fetched(pfn.0));
        }
    }

    fn expect<T>(&self, page: Pfn, _word: &T) {
        self.expected.borrow_mut().insert(page.0);
    }

    fn locking(&self, _zone: usize, path: LockPath) {
        self.note(Told::Locking(path));
    }
}

const BASE: u64 = 1 << 20;

/// Four pages, taken one by one; then the second and the fourth are given straight to the buddy.
fn two_free_of_four(tuning: Tuning, test: impl FnOnce(&Allocator<'_, Recorder>)) {
    let range = PageRange::new(Pfn(BASE), 4);
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[range] }];
    let tuning = Tuning { batch: BatchRule::Fixed(1), ..tuning };
    let config = Config { tuning, ..Config::new(&zones, &[NodeId(0)]) };
    let metadata = OwnedMetadata::new(&config).unwrap();
    let mut zones = metadata.zones();
    let world = Allocator::new(Recorder::default(), &config, metadata.lend(&mut zones)).unwrap();
    world.set_watermarks(0, Default::default(), [0; 4]);
    let request = Request::new(Order::ZERO, MigrateType::Movable);
    for page in 0..4 {
        assert_eq!(world.alloc(&request), Ok(Pfn(BASE + page)));
    }
    world.free_direct(Pfn(BASE + 1), Order::ZERO).unwrap();
    world.free_direct(Pfn(BASE + 3), Order::ZERO).unwrap();
    test(&world);
}

#[test]
fn a_merge_touches_buddies_and_neighbours() {
    two_free_of_four(LINUX_4_16, |world| {
        let told = world.machine().during(|| world.free_direct(Pfn(BASE + 2), Order::ZERO).unwrap());
        let pages = [
            // The buddy is looked at, then taken off; the page after it on the list is its neighbour.
            3, 3, 1, // The buddy of the pair is not free; would the four have one? Then the pair is listed.
            0, 4, 2,
        ];
        let mut expected = vec![Told::Locking(LockPath::DirectFree)];
        expected.extend(pages.map(|page| Told::Page(BASE + page)));
        assert_eq!(told, expected);
    });
}

#[test]
fn two_passes_touch_what_they_pick_before_the_lock() {
    for (tuning, before) in [(LINUX_4_16, &[][..]), (LINUX_4_17, &[Told::Page(BASE + 2), Told::Fetched(BASE + 3)][..])]
    {
        two_free_of_four(tuning, |world| {
            world.free(Pfn(BASE + 2), Order::ZERO).unwrap();
            let told = world.machine().during(|| world.drain());
            let lock = told.iter().position(|told| *told == Told::Locking(LockPath::Drain)).unwrap();
            assert_eq!(&told[..lock], before);
        });
    }
}

#[test]
fn a_drain_tells_ahead_of_what_it_touches() {
    for tuning in [LINUX_4_16, LINUX_4_17, LINUX_6_7] {
        two_free_of_four(tuning, |world| {
            let told = world.machine().during(|| {
                world.free(Pfn(BASE + 2), Order::ZERO).unwrap();
                world.drain();
            });
            let pages: BTreeSet<_> =
                told.iter().filter_map(|told| if let Told::Page(page) = told { Some(*page) } else { None }).collect();
            assert_eq!(pages, [0, 1, 2, 3, 4].map(|page| BASE + page).into());
            assert_eq!(*world.machine().surprises.borrow(), []);
        });
    }
}

#[test]
fn of_a_drain_of_many_all_buddies_are_told_ahead() {
    let range = PageRange::new(Pfn(BASE), 512);
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[range] }];
    for tuning in [LINUX_4_16, LINUX_4_17, LINUX_6_7] {
        let config =
            Config { tuning: Tuning { batch: BatchRule::Fixed(63), ..tuning }, ..Config::new(&zones, &[NodeId(0)]) };
        let metadata = OwnedMetadata::new(&config).unwrap();
        let mut zones = metadata.zones();
        let world = Allocator::new(Recorder::default(), &config, metadata.lend(&mut zones)).unwrap();
        world.set_watermarks(0, Default::default(), [0; 4]);
        let request = Request::new(Order::ZERO, MigrateType::Movable);
        let pages: Vec<Pfn> = (0..126).map(|_| world.alloc(&request).unwrap()).collect();
        // No two are buddies, so that none merges.
        let given: Vec<Pfn> = pages.into_iter().filter(|page| page.0 % 3 == 0).collect();
        given.iter().for_each(|page| world.free(*page, Order::ZERO).unwrap());
        let told = world.machine().during(|| world.drain());
        assert!(given.iter().all(|page| told.contains(&Told::Page(page.0))), "{told:?}");
        // What the list has in other places than its first is not told of; buddies always are.
        let surprises = world.machine().surprises.borrow();
        assert!(given.iter().all(|page| !surprises.contains(&(page.0 ^ 1))), "{surprises:?}");
    }
}

/// All lines that a mixture of refills and drains touches, and how many free blocks each order has after each round.
fn lines(tuning: Tuning, batch: u32, at_once: bool) -> (Vec<Line>, Vec<u64>) {
    let range = PageRange::new(Pfn(BASE), 1 << 13);
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[range] }];
    let tuning = Tuning { batch: BatchRule::Fixed(batch), ..tuning };
    let config = Config { tuning, ..Config::new(&zones, &[NodeId(0)]) };
    let metadata = OwnedMetadata::new(&config).unwrap();
    let mut zones = metadata.zones();
    let world = Allocator::new(Recorder::default(), &config, metadata.lend(&mut zones)).unwrap();
    world.set_watermarks(0, Default::default(), [0; 4]);
    world.machine().at_once.set(at_once);
    world.machine().on.set(true);
    let (mut held, mut blocks) = (Vec::new(), Vec::new());
    for round in 0..12 {
        for i in 0..100 + 97 * round {
            // Some of another type, so that a pageblock is taken over.
            let migratetype = if i % 50 == 7 { MigrateType::Unmovable } else { MigrateType::Movable };
            // And some larger ones, which some rules cache.
            let order = if i % 23 == 5 { 3 } else { 9 * u8::from(i % 211 == 3) };
            let order = Order::new(order).unwrap();
            held.extend(world.alloc(&Request::new(order, migratetype)).map(|pfn| (pfn, order)));
        }
        // Every third stays: what is free is in pieces.
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
            MigrateType::ALL.iter().map(|&migratetype| u64::from(world.free_blocks(0, order, migratetype))).sum::<u64>()
        }));
    }
    (world.machine().lines.take(), blocks)
}

#[test]
fn a_block_taken_apart_at_once_touches_what_splitting_touches() {
    for (tuning, batch) in [(LINUX_4_16, 31), (LINUX_4_17, 31), (LINUX_4_17, 7), (LINUX_4_17, 300), (LINUX_6_7, 63)] {
        let (at_once, page_by_page) = (lines(tuning, batch, true), lines(tuning, batch, false));
        assert_eq!(at_once.1, page_by_page.1, "free blocks, batch {batch}");
        assert!(page_by_page.0.len() > 10_000, "{} lines", page_by_page.0.len());
        let first = at_once.0.iter().zip(&page_by_page.0).position(|(one, other)| one != other);
        assert_eq!(first, None, "the first line that differs, batch {batch}");
        assert_eq!(at_once.0.len(), page_by_page.0.len(), "batch {batch}");
    }
}
