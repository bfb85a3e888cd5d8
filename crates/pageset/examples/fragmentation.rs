//! Allocates huge pages from memory that is half free in single pages, as in stress-highalloc. Measures, under each set
//! of rules, the share of the possible huge pages that succeed, and the cost of each. Prints Markdown.
//!
//! `cargo run --release -p pageset --features alloc --example fragmentation [PRESET...]`

use std::cell::RefCell;
use std::time::Instant;

use pageset::admin::compact::{CompactMode, CompactReport};
use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::Preset;
use pageset::{
    Allocator, Config, CpuId, Machine, MigrateType, MoveError, NodeId, Order, Owner, PageRange, Pfn, Request, SpinLock,
    ZoneKind, ZoneSpec,
};

/// 1 GiB.
const PAGES: u64 = 1 << 18;
/// One page in this many is unmovable and stays.
const UNMOVABLE: usize = 64;
/// Single pages that other callers free and allocate between two requests for huge pages.
const BETWEEN: [usize; 3] = [0, 1000, 20_000];

struct OneCpu;

impl Machine for OneCpu {
    type Lock = SpinLock;

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
}

type World<'a> = Allocator<'a, OneCpu>;

/// The movable pages in use.
#[derive(Default)]
struct Pages {
    all: Vec<Pfn>,
    /// Per page: its index in `all` plus one, or 0 if it is not in use.
    places: Vec<u32>,
}

impl Pages {
    fn put(&mut self, pfn: Pfn) {
        self.all.push(pfn);
        self.places[pfn.0 as usize] = self.all.len() as u32;
    }

    fn take(&mut self, place: usize) -> Pfn {
        let pfn = self.all.swap_remove(place);
        self.places[pfn.0 as usize] = 0;
        if let Some(&moved) = self.all.get(place) {
            self.places[moved.0 as usize] = place as u32 + 1;
        }
        pfn
    }
}

/// An owner that releases every page. Contents are not copied, so the times are the allocator's.
struct User(RefCell<Pages>);

impl Owner for User {
    fn isolate(&self, pfn: Pfn) -> Option<Order> {
        (self.0.borrow().places[pfn.0 as usize] != 0).then_some(Order::ZERO)
    }

    fn move_block(&self, from: Pfn, to: Pfn, _order: Order) -> Result<(), MoveError> {
        let pages = &mut *self.0.borrow_mut();
        let place = std::mem::take(&mut pages.places[from.0 as usize]);
        pages.places[to.0 as usize] = place;
        pages.all[place as usize - 1] = to;
        Ok(())
    }

    fn put_back(&self, _pfn: Pfn, _order: Order) {}
}

/// A small random number generator with the same sequence in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % n
    }
}

fn single(migratetype: MigrateType) -> Request {
    Request { watermarks: false, ..Request::new(Order::ZERO, migratetype) }
}

/// Fills memory page by page and frees every other movable one.
fn fragment(world: &World<'_>, random: &mut Random) -> User {
    let mut pages = Pages { places: vec![0; PAGES as usize], ..Pages::default() };
    loop {
        let movable = random.below(UNMOVABLE) > 0;
        let kind = if movable { MigrateType::Movable } else { MigrateType::Unmovable };
        let Ok(pfn) = world.alloc(&single(kind)) else { break };
        if movable {
            pages.put(pfn);
        }
    }
    for place in (0..pages.all.len()).rev().step_by(2) {
        world.free(pages.take(place), Order::ZERO).expect("it is in use");
    }
    User(RefCell::new(pages))
}

/// Other callers free some pages and allocate as many.
fn others(world: &World<'_>, user: &User, random: &mut Random, pages: usize) {
    let mut user = user.0.borrow_mut();
    let freed = pages.min(user.all.len() / 2);
    for _ in 0..freed {
        let place = random.below(user.all.len());
        let pfn = user.take(place);
        world.free(pfn, Order::ZERO).expect("it is in use");
    }
    for _ in 0..freed {
        if let Ok(pfn) = world.alloc(&single(MigrateType::Movable)) {
            user.put(pfn);
        }
    }
}

/// Allocates a huge page: directly, or after compaction, first in the light mode.
fn huge(world: &World<'_>, user: &User, moved: &mut u64) -> Option<Pfn> {
    let request = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
    let mut got = world.alloc(&request).ok();
    for mode in [CompactMode::Async, CompactMode::SyncLight] {
        if got.is_some() {
            break;
        }
        let CompactReport { captured, moved: pages, .. } = world.compact(&request, mode, user);
        *moved += pages;
        got = captured.or_else(|| world.alloc(&request).ok());
    }
    got
}

fn measure(preset: &Preset, between: usize) -> Result<(), Box<dyn std::error::Error>> {
    let ranges = [PageRange::new(Pfn(0), PAGES)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let config = Config { tuning: preset.tuning, ..Config::new(&zones, &[NodeId(0)]) };
    let metadata = OwnedMetadata::new(&config)?;
    let mut zones = metadata.zones();
    let world = Allocator::new(OneCpu, &config, metadata.lend(&mut zones))?;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let user = fragment(&world, &mut random);
    world.drain_all();
    let stats = world.zone(0).expect("a zone").stats();
    let asked = (stats.nr_free_pages - stats.watermarks.high) / Order::PAGEBLOCK.pages();
    let holds = stats.lock_acquisitions();
    let (mut got, mut moved, mut time, mut other_holds) = (0_u32, 0, 0.0, 0);
    for _ in 0..asked {
        let before = world.zone(0).expect("a zone").stats().lock_acquisitions();
        others(&world, &user, &mut random, between);
        other_holds += world.zone(0).expect("a zone").stats().lock_acquisitions() - before;
        let start = Instant::now();
        got += u32::from(huge(&world, &user, &mut moved).is_some());
        time += start.elapsed().as_secs_f64();
    }
    let holds = world.zone(0).expect("a zone").stats().lock_acquisitions() - holds - other_holds;
    world.zone(0).expect("a zone").audit()?;
    let each = |total: f64| total / f64::from(got.max(1));
    println!(
        "| {between} | {} | {asked} | {:.1} % | {:.0} | {:.0} | {:.0} |",
        preset.name,
        100.0 * f64::from(got) / asked as f64,
        each(time) * 1e6,
        each(moved as f64),
        each(holds as f64),
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names = ["linux-4.17", "merge-skip", "clusters", "clusters-free", "linux-6.18", "pageset"]
            .map(String::from)
            .to_vec();
    }
    println!("| pages between | rules | asked for | had | us each | pages moved each | lock holds each |");
    println!("| ---: | --- | ---: | ---: | ---: | ---: | ---: |");
    for between in BETWEEN {
        for name in &names {
            measure(Preset::find(name).ok_or_else(|| format!("no preset {name}"))?, between)?;
        }
    }
    Ok(())
}
