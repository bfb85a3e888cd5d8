//! Which lines a machine is told of, and when: what a simulator charges.

use std::cell::{Cell, RefCell};

use pageset::owned::OwnedMetadata;
use pageset::tuning::presets::{LINUX_4_16, LINUX_4_17};
use pageset::tuning::{BatchRule, Tuning};
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
        }
    }

    fn follows_picks(&self) -> bool {
        true
    }

    fn prefetch(&self, line: Line) {
        if let Line::Page(pfn) = line {
            self.note(Told::Fetched(pfn.0));
        }
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
