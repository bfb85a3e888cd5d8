//! The replayed machine: an allocator with the recorded kernel's memory layout.
//!
//! It contains only the memory that matters: memory that was free or in pagesets, and memory in use that the recording
//! frees. The layout is made with the allocator's own calls: allocate all memory, split it, and free part of it.

use std::cell::Cell;
use std::collections::HashMap;

use pageset::machine::Access;
use pageset::policy::Bounds;
use pageset::policy::lists::{KERNEL_LISTS, order_of};
use pageset::{
    Alloc, AllocFrom, Allocator, Config, CpuId, Free, FreeTo, Machine, MigrateType, Order, PageRange, PagesetView, Pfn,
    Request, ZoneKind, ZoneSpec, ZoneView,
};

use super::RuleSet;
use super::findings::Earlier;
use super::holds::{self, HoldLock};
use super::setting::Setting;
use super::types::{ORDINARY, list_type};

/// A machine whose current CPU is the CPU of the replayed event.
#[derive(Debug, Default)]
pub(super) struct ReplayMachine {
    cpu: Cell<u32>,
}

impl ReplayMachine {
    pub(super) fn run_on(&self, cpu: CpuId) {
        self.cpu.set(cpu.0);
    }
}

impl Machine for ReplayMachine {
    type Lock = HoldLock;

    #[inline]
    fn cpu(&self) -> CpuId {
        CpuId(self.cpu.get())
    }

    #[inline]
    fn probe(&self, access: Access) {
        holds::note(access);
    }
}

/// The allocator of a replay.
pub(super) type World<'a> = Allocator<'a, ReplayMachine>;

/// Pages of a unit, from which plans are made: the largest block.
const UNIT: u64 = Order::MAX.pages();

/// The blocks of a unit.
#[derive(Clone, Debug)]
enum Unit {
    /// Free as one block.
    Free,
    /// A number of free blocks of an order. A block in use follows each of them, so they do not merge.
    FreeBlocks(Order, u64),
    /// Blocks in use, by their offsets.
    InUse(Vec<(u64, Order, Purpose)>),
}

/// The purpose of a block in use.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// A page of the recorded machine that the recording frees.
    Earlier(Pfn),
    /// A block that moves into this CPU's pageset.
    Stock(CpuId),
}

/// The layout of a zone's memory.
#[derive(Debug, Default)]
struct Plan {
    units: Vec<(MigrateType, Unit)>,
}

/// The memory layout of all zones.
#[derive(Debug)]
pub(super) struct Plans {
    zones: Vec<Plan>,
    /// Units that come on-line later, by zone, for memory that the recorded machine gained during the recording.
    spare: Vec<u64>,
}

impl Plans {
    /// Plans the memory: the free blocks of pagetypeinfo and zoneinfo, pages that the recording frees, and the contents
    /// of the pagesets.
    pub(super) fn new(setting: &Setting, earlier: &[Earlier], initial: &[Vec<[u64; KERNEL_LISTS]>]) -> Plans {
        let mut zones: Vec<Plan> = setting
            .zones
            .iter()
            .zip(initial)
            .map(|(zone, initial)| {
                let mut plan = Plan::default();
                plan.free(&zone.free_blocks, zone.start.free);
                for (cpu, lists) in initial.iter().enumerate() {
                    plan.stock(CpuId(cpu as u32), lists);
                }
                plan
            })
            .collect();
        for (zone, plan) in zones.iter_mut().enumerate() {
            plan.earlier(earlier.iter().filter(|e| setting.zone_of(e.pfn) == Some(zone)));
        }
        let spare = setting.zones.iter().enumerate().map(|(zone, z)| {
            let later = setting.later.iter().map(|(_, states)| &states[zone]);
            let grown_by = later.map(|s| s.unused().saturating_sub(z.start.unused())).max().unwrap_or(0);
            grown_by.div_ceil(UNIT)
        });
        Plans { spare: spare.collect(), zones }
    }

    /// The memory map: span and on-line range of each zone, one zone after the other. Page numbers fit 32 bits and
    /// begin above 0.
    pub(super) fn ranges(&self) -> Vec<(PageRange, PageRange)> {
        let mut next = UNIT;
        let mut ranges = Vec::new();
        for (plan, spare) in self.zones.iter().zip(&self.spare) {
            let online = PageRange::new(Pfn(next), (plan.units.len() as u64).max(1) * UNIT);
            let span = PageRange::new(Pfn(next), online.pages + spare * UNIT);
            ranges.push((span, online));
            next += span.pages;
        }
        ranges
    }
}

impl Plan {
    /// Plans free memory: the counted blocks, and large movable blocks up to the zone's free pages.
    fn free(&mut self, blocks: &[[u64; Order::COUNT]; 3], free: u64) {
        let mut left = free;
        for (migratetype, counts) in ORDINARY.into_iter().zip(blocks) {
            for order in Order::all().take(Order::MAX.index()) {
                let count = counts[order.index()].min(left / order.pages());
                self.free_blocks(migratetype, order, count);
                left -= count * order.pages();
            }
        }
        for migratetype in [MigrateType::Unmovable, MigrateType::Reclaimable] {
            let count = blocks[migratetype.index()][Order::MAX.index()].min(left / UNIT);
            self.units.extend((0..count).map(|_| (migratetype, Unit::Free)));
            left -= count * UNIT;
        }
        self.units.extend((0..left / UNIT).map(|_| (MigrateType::Movable, Unit::Free)));
        left %= UNIT;
        for order in Order::all().rev().skip(1) {
            self.free_blocks(MigrateType::Movable, order, left / order.pages());
            left %= order.pages();
        }
    }

    fn free_blocks(&mut self, migratetype: MigrateType, order: Order, mut count: u64) {
        let in_a_unit = UNIT / order.pages() / 2;
        while count > 0 {
            let here = count.min(in_a_unit);
            self.units.push((migratetype, Unit::FreeBlocks(order, here)));
            count -= here;
        }
    }

    /// Plans adjacent blocks for one pageset.
    fn stock(&mut self, cpu: CpuId, lists: &[u64; KERNEL_LISTS]) {
        for (list, &count) in lists.iter().enumerate() {
            let order = order_of(list);
            let in_a_unit = UNIT / order.pages();
            let mut left = count;
            while left > 0 {
                let here = left.min(in_a_unit);
                let blocks = (0..here).map(|i| (i * order.pages(), order, Purpose::Stock(cpu))).collect();
                self.units.push((list_type(list), Unit::InUse(blocks)));
                left -= here;
            }
        }
    }

    /// Plans pages in use at the same offsets in their units, so that they merge as in the recording.
    fn earlier<'e>(&mut self, pages: impl Iterator<Item = &'e Earlier>) {
        let mut units: HashMap<_, Vec<_>> = HashMap::new();
        for page in pages.filter(|e| e.pfn.is_aligned(e.order)) {
            let unit = units.entry((page.pfn.0 / UNIT, page.migratetype)).or_default();
            unit.push((page.pfn.0 % UNIT, page.order, Purpose::Earlier(page.pfn)));
        }
        let mut units: Vec<_> = units.into_iter().collect();
        units.sort_by_key(|((unit, migratetype), _)| (*unit, *migratetype));
        for ((_, migratetype), mut blocks) in units {
            blocks.sort_by_key(|(at, order, _)| (*at, std::cmp::Reverse(*order)));
            // A page may be freed with different orders; the first order that fits counts.
            let mut free_from = 0;
            blocks.retain(|(at, order, _)| {
                let fits = *at >= free_from;
                free_from = if fits { at + order.pages() } else { free_from };
                fits
            });
            self.units.push((migratetype, Unit::InUse(blocks)));
        }
    }
}

/// A block in use when the replay begins: the recorded page and the replayed page.
pub(super) struct Placed {
    pub(super) recorded: Pfn,
    pub(super) replayed: Pfn,
    pub(super) order: Order,
}

/// Creates the planned layout in a new allocator and returns the blocks in use. Pagesets get their recorded contents,
/// as far as `limits` (in pages, by zone) allow. The caller sets bounds and watermarks afterwards.
pub(super) fn apply(world: &World<'_>, plans: &Plans, limits: &[u32]) -> Vec<Placed> {
    for zone in world.zones() {
        // Pagesets must not keep pages of the layout.
        let _ = zone.set_bounds(Bounds::DISABLED);
    }
    let mut placed = Vec::new();
    let mut stock = Vec::new();
    for (zone, plan) in plans.zones.iter().enumerate() {
        let taken: Vec<Pfn> = std::iter::from_fn(|| whole_unit(world, zone)).collect();
        for (&page, (migratetype, unit)) in taken.iter().zip(&plan.units) {
            for half in [0, Order::PAGEBLOCK.pages()] {
                let _ = world.set_pageblock_type(page.offset(half), *migratetype);
            }
            split_unit(world, page, unit, &mut placed, &mut stock);
        }
    }
    for (zone, &limit) in limits.iter().enumerate() {
        let open = Bounds { batch: 1, high_min: limit, high_max: limit };
        let _ = zone_at(world, zone).set_bounds(open);
    }
    for (page, order, cpu) in stock {
        world.machine().run_on(cpu);
        let zone = world.zone_of(page).map_or(0, ZoneView::number);
        // Under these rules, the first free would drain all pages above the limit. Pages above it go to the buddy at
        // once.
        let held = pageset_at(world, zone, cpu).state().count;
        let fits = u64::from(held) + order.pages() <= u64::from(limits[zone]);
        let _ = if fits {
            world.free_with(Free::block(page, order).to(FreeTo::PagesetUndrained))
        } else {
            world.free(page, order)
        };
    }
    placed
}

/// A zone of the setting, which its world has.
pub(super) fn zone_at<'w, 'a>(world: &'w World<'a>, number: usize) -> ZoneView<'w, 'a, ReplayMachine> {
    world.zone(number).expect("the world has the setting's zones")
}

/// The pageset of a zone and a CPU of the setting.
pub(super) fn pageset_at<'w, 'a>(
    world: &'w World<'a>,
    number: usize,
    cpu: CpuId,
) -> PagesetView<'w, 'a, ReplayMachine> {
    zone_at(world, number).pageset(cpu).expect("the world has the setting's CPUs")
}

/// A request for exactly this zone that ignores watermarks.
pub(super) fn unmarked(zone: usize, order: Order) -> Request {
    Request {
        zone: Some(zone),
        watermarks: false,
        highest: ZoneKind::Movable,
        ..Request::new(order, MigrateType::Movable)
    }
}

fn whole_unit(world: &World<'_>, zone: usize) -> Option<Pfn> {
    world.alloc_with(Alloc::new(&unmarked(zone, Order::MAX)).from(AllocFrom::Buddy)).ok()
}

/// Splits an allocated unit as planned, and frees its free blocks.
fn split_unit(
    world: &World<'_>,
    page: Pfn,
    unit: &Unit,
    placed: &mut Vec<Placed>,
    stock: &mut Vec<(Pfn, Order, CpuId)>,
) {
    match unit {
        Unit::Free => {
            let _ = world.free_with(Free::block(page, Order::MAX).to(FreeTo::Buddy));
        }
        Unit::FreeBlocks(order, count) => {
            let _ = world.split(page, Order::MAX, *order);
            for i in 0..*count {
                let _ = world.free(page.offset(2 * i * order.pages()), *order);
            }
        }
        Unit::InUse(blocks) => {
            split_to(world, page, 0, Order::MAX, blocks);
            for &(at, order, place) in blocks {
                let replayed = page.offset(at);
                match place {
                    Purpose::Earlier(recorded) => placed.push(Placed { recorded, replayed, order }),
                    Purpose::Stock(cpu) => stock.push((replayed, order, cpu)),
                }
            }
        }
    }
}

/// Splits the block of `order` at offset `at` of a unit until each of `blocks`, sorted by offset, is a block of its
/// own.
fn split_to(world: &World<'_>, unit: Pfn, at: u64, order: Order, blocks: &[(u64, Order, Purpose)]) {
    let whole = blocks.first().is_some_and(|(first, wanted, _)| *first == at && *wanted == order);
    if blocks.is_empty() || whole {
        return;
    }
    let Some(half) = order.get().checked_sub(1).and_then(Order::new) else { return };
    let _ = world.split(unit.offset(at), order, half);
    let middle = at + half.pages();
    let (lower, upper) = blocks.split_at(blocks.partition_point(|(offset, _, _)| *offset < middle));
    split_to(world, unit, at, half, lower);
    split_to(world, unit, middle, half, upper);
}

/// The configuration of the replayed machine, which borrows `zones`. `capacity` is a pageset's capacity in pages.
pub(super) fn config<'c>(
    setting: &'c Setting,
    rules: &RuleSet,
    zones: &'c [ZoneSpec<'c>],
    capacity: u32,
) -> Config<'c> {
    Config {
        tuning: rules.tuning,
        cache_slice_pages: rules.cache_slice_pages.or(setting.cache_slice_pages).unwrap_or(0),
        pageset_capacity: capacity.max(1),
        ..Config::new(zones, &setting.cpus)
    }
}

/// The pages in lists of these lengths, in blocks.
pub(super) fn pages_of(lists: &[u64; KERNEL_LISTS]) -> u64 {
    lists.iter().enumerate().map(|(list, blocks)| blocks * order_of(list).pages()).sum()
}
