//! The replayed machine: an allocator whose memory is arranged as the recorded kernel's was.
//!
//! Only the memory that matters is there: what was free, what the pagesets held, what was in use and is freed in
//! the recording. It is brought about with the allocator's own calls: all is allocated, cut up, and freed in part.

use std::cell::Cell;
use std::collections::HashMap;

use pageset::policy::lists::{LISTS, order_of};
use pageset::tuning::Bounds;
use pageset::{
    Allocator, Config, CpuId, Machine, MigrateType, Order, PageRange, Pfn, Request, SpinLock, ZoneKind, ZoneSpec,
};

use super::RuleSet;
use super::setting::Setting;
use super::survey::Earlier;
use super::types::{ORDINARY, list_type};

/// A machine whose CPU is that of the event being replayed.
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
    type Lock = SpinLock;

    #[inline]
    fn cpu(&self) -> CpuId {
        CpuId(self.cpu.get())
    }
}

/// The allocator of a replay.
pub(super) type World<'a> = Allocator<'a, ReplayMachine>;

/// Pages of a unit that a plan is made of: the largest block.
const UNIT: u64 = Order::MAX.pages();

/// What a unit is cut into.
#[derive(Clone, Debug)]
enum Unit {
    /// Free as one block.
    Free,
    /// That many free blocks of an order, each beside one in use so that they do not merge.
    FreeBlocks(Order, u64),
    /// Blocks in use, by their offsets.
    InUse(Vec<(u64, Order, Place)>),
}

/// What a block in use is for.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// A page of the recorded machine that is freed later.
    Earlier(Pfn),
    /// It will wait in this CPU's pageset.
    Stock(CpuId),
}

/// How a zone's memory is arranged.
#[derive(Debug, Default)]
struct Plan {
    units: Vec<(MigrateType, Unit)>,
}

/// The memory of all zones, planned.
#[derive(Debug)]
pub(super) struct Plans {
    zones: Vec<Plan>,
    /// Units that come online later, by zone, for memory that the recorded machine was given meanwhile.
    spare: Vec<u64>,
}

impl Plans {
    /// Plans the memory: free blocks as pagetypeinfo and zoneinfo had them, pages that are freed in the recording,
    /// and what the pagesets held.
    pub(super) fn new(setting: &Setting, earlier: &[Earlier], initial: &[Vec<[u64; LISTS]>]) -> Plans {
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
            let most = later.map(|s| s.unused().saturating_sub(z.start.unused())).max().unwrap_or(0);
            most.div_ceil(UNIT)
        });
        Plans { spare: spare.collect(), zones }
    }

    /// The memory map: zones one after the other, page numbers that fit 32 bits, none of them 0.
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
    /// Free memory: blocks as they were counted, corrected to the zone's free pages by large movable ones.
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

    /// Blocks for one pageset, side by side.
    fn stock(&mut self, cpu: CpuId, lists: &[u64; LISTS]) {
        for (list, &count) in lists.iter().enumerate() {
            let order = order_of(list);
            let in_a_unit = UNIT / order.pages();
            let mut left = count;
            while left > 0 {
                let here = left.min(in_a_unit);
                let blocks = (0..here).map(|i| (i * order.pages(), order, Place::Stock(cpu))).collect();
                self.units.push((list_type(list), Unit::InUse(blocks)));
                left -= here;
            }
        }
    }

    /// Pages in use keep their places in their unit, so that they merge as they did.
    fn earlier<'e>(&mut self, pages: impl Iterator<Item = &'e Earlier>) {
        let mut units: HashMap<_, Vec<_>> = HashMap::new();
        for page in pages.filter(|e| e.pfn.is_aligned(e.order)) {
            let unit = units.entry((page.pfn.0 / UNIT, page.migratetype)).or_default();
            unit.push((page.pfn.0 % UNIT, page.order, Place::Earlier(page.pfn)));
        }
        let mut units: Vec<_> = units.into_iter().collect();
        units.sort_by_key(|((unit, migratetype), _)| (*unit, *migratetype));
        for ((_, migratetype), mut blocks) in units {
            blocks.sort_by_key(|(at, order, _)| (*at, std::cmp::Reverse(*order)));
            // What a page was freed as may differ from one time to the next; the first that fits counts.
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

/// A block that was in use when the replay began: the recorded page, the replayed one.
pub(super) struct Placed {
    pub(super) recorded: Pfn,
    pub(super) replayed: Pfn,
    pub(super) order: Order,
}

/// Brings the plans about in a new allocator: returns what was in use. Pagesets hold what they held, as far as
/// the rules let them; their bounds and marks are still to be set.
pub(super) fn furnish(world: &World<'_>, plans: &Plans, limits: &[u32]) -> Vec<Placed> {
    for zone in 0..world.zone_count() {
        // Nothing is to be kept back meanwhile.
        let _ = world.set_bounds(zone, Bounds::DISABLED);
    }
    let mut placed = Vec::new();
    let mut stock = Vec::new();
    for (zone, plan) in plans.zones.iter().enumerate() {
        let taken: Vec<Pfn> = std::iter::from_fn(|| whole_unit(world, zone)).collect();
        for (&page, (migratetype, unit)) in taken.iter().zip(&plan.units) {
            for half in [0, Order::PAGEBLOCK.pages()] {
                let _ = world.set_pageblock_type(page.offset(half), *migratetype);
            }
            arrange(world, page, unit, &mut placed, &mut stock);
        }
    }
    for (zone, &limit) in limits.iter().enumerate() {
        let open = Bounds { batch: 1, high_min: limit, high_max: limit };
        let _ = world.set_bounds(zone, open);
    }
    for (page, order, cpu) in stock {
        world.machine().run_on(cpu);
        let zone = world.zone_of(page).unwrap_or(0);
        // More than these rules would keep goes to the buddy at their first free; here it is not to pile up.
        let held = world.pageset_state(zone, cpu).count;
        let fits = u64::from(held) + order.pages() <= u64::from(limits[zone]);
        let _ = if fits { world.free_undrained(page, order) } else { world.free(page, order) };
    }
    placed
}

/// A request that only this zone may serve, whatever its marks say.
pub(super) fn unmarked(zone: usize, order: Order) -> Request {
    Request {
        zone: Some(zone),
        watermarks: false,
        highest: ZoneKind::Movable,
        ..Request::new(order, MigrateType::Movable)
    }
}

fn whole_unit(world: &World<'_>, zone: usize) -> Option<Pfn> {
    world.alloc(&unmarked(zone, Order::MAX)).ok()
}

/// Cuts a unit in use into what is planned, and frees what is to be free.
fn arrange(world: &World<'_>, page: Pfn, unit: &Unit, placed: &mut Vec<Placed>, stock: &mut Vec<(Pfn, Order, CpuId)>) {
    match unit {
        Unit::Free => {
            let _ = world.free(page, Order::MAX);
        }
        Unit::FreeBlocks(order, count) => {
            let _ = world.split(page, Order::MAX, *order);
            for i in 0..*count {
                let _ = world.free(page.offset(2 * i * order.pages()), *order);
            }
        }
        Unit::InUse(blocks) => {
            cut(world, page, 0, Order::MAX, blocks);
            for &(at, order, place) in blocks {
                let replayed = page.offset(at);
                match place {
                    Place::Earlier(recorded) => placed.push(Placed { recorded, replayed, order }),
                    Place::Stock(cpu) => stock.push((replayed, order, cpu)),
                }
            }
        }
    }
}

/// Splits the block of `order` at offset `at` of a unit until each of `blocks`, sorted by offset, stands alone.
fn cut(world: &World<'_>, unit: Pfn, at: u64, order: Order, blocks: &[(u64, Order, Place)]) {
    let whole = blocks.first().is_some_and(|(first, wanted, _)| *first == at && *wanted == order);
    if blocks.is_empty() || whole {
        return;
    }
    let Some(half) = order.get().checked_sub(1).and_then(Order::new) else { return };
    let _ = world.split(unit.offset(at), order, half);
    let middle = at + half.pages();
    let (lower, upper) = blocks.split_at(blocks.partition_point(|(offset, _, _)| *offset < middle));
    cut(world, unit, at, half, lower);
    cut(world, unit, middle, half, upper);
}

/// The configuration of a replayed machine. `zones` and `ranges` hold what it borrows.
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

/// The pages that lists of these lengths hold.
pub(super) fn pages_of(lists: &[u64; LISTS]) -> u64 {
    lists.iter().enumerate().map(|(list, blocks)| blocks * order_of(list).pages()).sum()
}
