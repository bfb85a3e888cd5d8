//! What can be done to an allocator, as values: for property tests, fuzzers and explorers of interleavings.
//!
//! An [`Op`] names blocks by their place among those in use, so that any sequence can be carried out. A [`Scenario`]
//! prints as a regression test.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part, and is a crate of its own")]

use std::cell::{Cell, RefCell};
use std::fmt;

use pageset::stats::ZoneStats;
use pageset::tuning::sizes::WatermarkRule;
use pageset::tuning::{BatchRule, Bounds, ListRule, PcpState, Preset, Tuning, Watermarks};
use pageset::{
    AllocError, Block, CompactMode, CompactOutcome, Config, CpuId, HotplugError, Immovable, MapError, MigrateType,
    MoveError, NodeId, Obstacle, Order, Owner, PageRange, Pfn, RangeError, Request, Urgency, Wait, WrongFree, ZoneKind,
    ZoneSpec,
};

use crate::support::{World, build};

#[path = "mover.rs"]
mod mover;

/// Rights of a request, as bits.
pub const HIGH_PRIORITY: u8 = 1;
pub const NON_BLOCKING: u8 = 2;
pub const NO_MARKS: u8 = 4;
pub const CMA: u8 = 8;
pub const THIS_NODE: u8 = 16;
pub const OOM_VICTIM: u8 = 32;
pub const TRY_ONLY: u8 = 64;
pub const SILENT: u8 = 128;

/// What an operation asks for.
pub fn request(of: u8, migratetype: MigrateType, highest: ZoneKind, rights: u8) -> Request {
    let has = |right| rights & right != 0;
    let urgency = match (has(OOM_VICTIM), has(HIGH_PRIORITY)) {
        (true, _) => Urgency::OomVictim,
        (_, true) => Urgency::High,
        _ => Urgency::Ordinary,
    };
    let wait = match (has(TRY_ONLY), has(NON_BLOCKING)) {
        (true, _) => Wait::Nothing,
        (_, true) => Wait::Lock,
        _ => Wait::Memory,
    };
    Request {
        highest,
        urgency,
        wait,
        wakes_reclaim: !has(SILENT),
        watermarks: !has(NO_MARKS),
        cma: has(CMA),
        this_node_only: has(THIS_NODE),
        ..Request::new(order(of), migratetype)
    }
}

/// One thing that a caller, an administrator, time or the machine does. Numbers are taken modulo what there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// What follows happens on this CPU.
    RunOn(u8),
    /// Some blocks, one by one.
    Alloc { order: u8, migratetype: MigrateType, highest: ZoneKind, rights: u8, times: u8 },
    /// A block, for which the owner gives some of its own at each call.
    AllocWith { order: u8, migratetype: MigrateType, rights: u8, gives: u8 },
    /// Single pages at once.
    AllocBulk { migratetype: MigrateType, pages: u16 },
    /// All that is to be had.
    Exhaust { order: u8, migratetype: MigrateType },
    /// Blocks from the `from`-th in use on, one by one; `undrained` as by a caller that may have interrupted anything.
    Free { from: u16, times: u8, undrained: bool },
    /// The same past the pagesets.
    FreeDirect { from: u16, times: u8 },
    /// The same at once.
    FreeBulk { from: u16, blocks: u16 },
    /// Something that must be refused.
    Wrong(Wrong, u16),
    /// A block in use into smaller ones.
    Split { nth: u16, to: u8 },
    /// A second passes on this CPU.
    Tick,
    /// This CPU's pagesets are emptied.
    Drain,
    /// All pagesets are.
    DrainAll,
    /// Those of one zone are.
    DrainZone(u8),
    /// A CPU goes, where that can be; what runs there goes on.
    CpuOffline(u8),
    /// A CPU comes, where it had gone.
    CpuOnline(u8),
    /// A zone's pagesets keep nothing from here on.
    DisablePagesets(u8),
    /// One such is taken back, where there is one.
    EnablePagesets(u8),
    /// An administrator sets the fraction.
    HighFraction(u32),
    /// Or the bounds of one zone.
    SetBounds { zone: u8, batch: u32, high_min: u32, high_max: u32 },
    /// What was freed without merging is merged.
    MergeSkipped(u8),
    /// Zones are compacted for a request,
    Compact { order: u8, migratetype: MigrateType, mode: CompactMode, faults: u8 },
    /// one zone is, for an order or, above the largest, all of it,
    CompactZone { zone: u8, order: u8, mode: CompactMode, faults: u8 },
    /// a node is in the background, or because it is fragmented.
    CompactNode { node: u8, order: u8, proactive: bool, faults: u8 },
    /// A range is allocated, from some page on.
    AllocRange { from: u16, pages: u16, migratetype: MigrateType, faults: u8 },
    /// Neighbouring blocks in use are freed as a range.
    FreeRange { nth: u16, blocks: u8 },
    /// A range goes off line.
    Offline { from: u16, pages: u16, faults: u8 },
    /// A pageblock gets another type.
    BlockType { pageblock: u16, migratetype: MigrateType },
    /// Memory is added.
    Online(u8),
    /// Reclaim begins or ends.
    ReclaimActive { zone: u8, on: bool },
    /// A zone is said to be below its high mark, or not.
    BelowHigh { zone: u8, on: bool },
    /// Reclaim begins or ends on a node, up to a kind of zone.
    NodeReclaim { node: u8, highest: ZoneKind, on: bool },
    /// An administrator sets a zone's marks, in hundredths of its pages.
    Marks { zone: u8, min: u8 },
    /// Reclaim takes some of a boost off.
    DecayBoost { zone: u8, pages: u16 },
}

/// What must be refused. The number beside it picks the block or page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A page in no zone.
    NotOurs,
    /// A page that never came online.
    Hole,
    /// A block where none of its order can start.
    Misaligned,
    /// A block that was freed.
    Twice,
    /// A block with another order.
    AnotherOrder,
    /// A page inside a block.
    Tail,
    /// Many blocks, one of them twice.
    BulkTwice,
    /// A block into larger ones.
    SplitUp,
    /// A type that cannot be asked for.
    AskFor(MigrateType),
    /// Blocks above order 0 in bulk.
    BulkOrder,
    /// A node that there is not.
    Node,
    /// A fraction of 1 to 7.
    Fraction,
    /// Bounds that cross, or have no room.
    Bounds,
    /// Memory that is online already.
    OnlineTwice,
    /// Memory outside every zone.
    OnlineOutside,
    /// A CPU that comes or goes when it cannot.
    Cpu,
    /// Pagesets enabled that are not disabled.
    Enable,
    /// A range that is empty, in no zone or of a type that cannot be asked for; one to free that is not in use.
    Range,
}

/// A memory map to do it on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Map {
    /// One zone, aligned to nothing, with holes. Two CPUs.
    OneZone,
    /// Two nodes, four kinds of zones, some meeting at odd pageblocks. Four CPUs, one of a node without memory.
    TwoNodes,
}

/// A sequence of operations under a preset on a map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    pub preset: &'static str,
    pub map: Map,
    pub ops: Vec<Op>,
}

/// Prints as Rust source, to be pasted into `properties.rs`.
impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "#[test]\nfn regression() {{")?;
        writeln!(f, "    replay({:?}, Map::{:?}, &[", self.preset, self.map)?;
        for op in &self.ops {
            writeln!(f, "        {op},")?;
        }
        write!(f, "    ]);\n}}")
    }
}

/// Prints as Rust source, enums with their paths.
impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("Op::{self:?}");
        for (field, path) in [
            ("migratetype: ", "MigrateType::"),
            ("highest: ", "ZoneKind::"),
            ("mode: ", "CompactMode::"),
            ("Wrong(", "Wrong::"),
            ("AskFor(", "MigrateType::"),
        ] {
            text = text.replace(field, &format!("{field}{path}"));
        }
        f.write_str(&text)
    }
}

type ZoneMap = (u32, ZoneKind, PageRange, Vec<PageRange>);

fn range(start: u64, end: u64) -> PageRange {
    PageRange::new(Pfn(start), end - start)
}

impl Map {
    pub const ALL: [Map; 2] = [Map::OneZone, Map::TwoNodes];

    fn zones(self) -> Vec<ZoneMap> {
        match self {
            Map::OneZone => {
                vec![(
                    0,
                    ZoneKind::Normal,
                    range(100, 9000),
                    vec![range(100, 1100), range(2048, 4096), range(5000, 8192)],
                )]
            }
            Map::TwoNodes => vec![
                (0, ZoneKind::Dma, range(1, 1536), vec![range(1, 159), range(256, 1536)]),
                (0, ZoneKind::Dma32, range(1536, 6144), vec![range(1536, 6144)]),
                (0, ZoneKind::Normal, range(6144, 12_800), vec![range(6144, 10_000)]),
                (0, ZoneKind::Movable, range(12_800, 16_384), vec![range(14_336, 16_384)]),
                (1, ZoneKind::Normal, range(1 << 20, (1 << 20) + 6000), vec![range(1 << 20, (1 << 20) + 4096)]),
            ],
        }
    }

    /// What may come online later.
    fn holes(self) -> Vec<PageRange> {
        match self {
            Map::OneZone => vec![range(1100, 1111), range(1111, 2048), range(4096, 4097), range(8192, 9000)],
            Map::TwoNodes => {
                vec![range(10_000, 12_288), range(12_800, 14_336), range((1 << 20) + 4096, (1 << 20) + 6000)]
            }
        }
    }

    fn cpus(self) -> &'static [NodeId] {
        match self {
            Map::OneZone => &[NodeId(0), NodeId(0)],
            Map::TwoNodes => &[NodeId(0), NodeId(1), NodeId(0), NodeId(2)],
        }
    }
}

/// Pages that each pageset has room for.
const CAPACITY: u32 = 1500;

fn order(order: u8) -> Order {
    Order::new(order % Order::COUNT as u8).expect("in range")
}

impl Scenario {
    /// Carries it out, checking at every step, and at the end that everything merges again.
    pub fn run(&self) {
        self.run_with(|_, _| {});
    }

    /// The same, with something else done after each operation.
    pub fn run_with(&self, mut after: impl FnMut(&World<'_>, Op)) {
        let preset = Preset::find(self.preset).expect("a preset").tuning;
        // Zones as small as these would have no clusters.
        let batch = if preset.clusters { BatchRule::Fixed(7) } else { preset.batch };
        let tuning = Tuning { batch, ..preset };
        let zones = self.map.zones();
        let specs: Vec<_> = zones
            .iter()
            .map(|(node, kind, span, ranges)| ZoneSpec { node: NodeId(*node), kind: *kind, span: *span, ranges })
            .collect();
        let watermarks = WatermarkRule { boost_factor: WatermarkRule::KERNEL_BOOST_FACTOR, ..WatermarkRule::default() };
        let config = Config { tuning, watermarks, pageset_capacity: CAPACITY, ..Config::new(&specs, self.map.cpus()) };
        build(&config, |world| {
            let mut model = Model::new(world, self.map);
            for op in &self.ops {
                model.step(*op);
                after(world, *op);
            }
            model.finish();
        });
    }
}

/// An owner that frees its blocks, some at each call.
struct Giving<'w> {
    world: &'w World<'w>,
    blocks: RefCell<Vec<Block>>,
    gives: usize,
    calls: Cell<u32>,
}

impl Owner for Giving<'_> {
    fn isolate(&self, _pfn: Pfn) -> Option<Order> {
        None
    }

    fn move_block(&self, _from: Pfn, _to: Pfn, _order: Order) -> Result<(), MoveError> {
        Err(MoveError::Busy)
    }

    fn put_back(&self, _pfn: Pfn, _order: Order) {}

    fn reclaim(&self, _request: &Request) -> u64 {
        self.calls.set(self.calls.get() + 1);
        let mut blocks = self.blocks.borrow_mut();
        let from = blocks.len().saturating_sub(self.gives);
        let given = blocks.split_off(from);
        given.iter().for_each(|block| self.world.free(block.pfn, block.order).expect("it is in use"));
        given.iter().map(|block| block.order.pages()).sum()
    }
}

/// Everything about a world that an error must leave as it is.
#[derive(PartialEq, Eq, Debug)]
struct Picture {
    zones: Vec<ZoneStats>,
    pagesets: Vec<(PcpState, [u32; 14])>,
    free: Vec<u32>,
}

/// The world and what the test holds of it.
pub struct Model<'w> {
    world: &'w World<'w>,
    map: Map,
    cpu: u32,
    live: Vec<Block>,
    /// Whether each page is in `live`, and pages of each zone that are.
    held: Vec<bool>,
    in_use: Vec<u64>,
    /// What was freed last, for frees that come twice.
    freed: Vec<Block>,
    holes: Vec<PageRange>,
    online: Vec<PageRange>,
    /// Which CPUs have gone, and how often the pagesets of each zone are disabled.
    gone: Vec<bool>,
    disabled: Vec<u32>,
}

impl<'w> Model<'w> {
    pub fn new(world: &'w World<'w>, map: Map) -> Self {
        let online = map.zones().into_iter().flat_map(|zone| zone.3).collect();
        Model {
            world,
            map,
            cpu: 0,
            live: Vec::new(),
            held: vec![false; 1 << 21],
            in_use: vec![0; world.zone_count()],
            freed: Vec::new(),
            holes: map.holes(),
            online,
            gone: vec![false; map.cpus().len()],
            disabled: vec![0; world.zone_count()],
        }
    }

    pub fn step(&mut self, op: Op) {
        self.world.machine().run_on(self.cpu);
        match op {
            Op::RunOn(cpu) => self.cpu = u32::from(cpu) % self.map.cpus().len() as u32,
            Op::Alloc { order: of, migratetype, highest, rights, times } => {
                let request = request(of, migratetype, highest, rights);
                for _ in 0..times {
                    self.alloc(&request);
                }
            }
            Op::AllocWith { order: of, migratetype, rights, gives } => {
                self.alloc_with(&request(of, migratetype, ZoneKind::Movable, rights), gives % 9);
            }
            Op::AllocBulk { migratetype, pages } => {
                let request = Request::new(Order::ZERO, migratetype);
                let mut got = vec![Pfn(0); usize::from(pages) % 600];
                let number = self.world.alloc_bulk(&request, &mut got).unwrap_or(0);
                got[..number].iter().for_each(|&pfn| self.take(pfn, &request));
            }
            Op::Exhaust { order: of, migratetype } => {
                let request = Request { watermarks: false, ..Request::new(order(of), migratetype) };
                while self.alloc(&request) {}
            }
            Op::Free { from, times, undrained } => {
                for _ in 0..times {
                    if let Some(block) = self.drop_block(from) {
                        let free = if undrained { World::free_undrained } else { World::free };
                        free(self.world, block.pfn, block.order).expect("it is in use");
                    }
                }
            }
            Op::FreeDirect { from, times } => {
                for _ in 0..times {
                    if let Some(block) = self.drop_block(from) {
                        self.world.free_direct(block.pfn, block.order).expect("it is in use");
                    }
                }
            }
            Op::FreeBulk { from, blocks } => {
                let blocks: Vec<_> = (0..blocks % 600).filter_map(|_| self.drop_block(from)).collect();
                self.world.free_bulk(&blocks).expect("all are in use");
            }
            Op::Wrong(wrong, nth) => {
                let before = self.picture();
                self.wrong(wrong, usize::from(nth));
                assert_eq!(self.picture(), before, "{op:?} has changed something");
            }
            Op::Split { nth, to } => {
                if let Some(at) = usize::from(nth).checked_rem(self.live.len()) {
                    let Block { pfn, order: from } = self.live[at];
                    let to = order(to % (from.get() + 1));
                    self.world.split(pfn, from, to).expect("it is in use");
                    self.live.swap_remove(at);
                    self.live.extend(
                        (0..from.pages()).step_by(to.pages() as usize).map(|i| Block { pfn: pfn.offset(i), order: to }),
                    );
                }
            }
            Op::Tick => drop(self.world.tick()),
            Op::Drain => self.world.drain(),
            Op::DrainAll => {
                self.world.drain_all();
                (0..self.world.zone_count()).for_each(|zone| self.check_empty(zone));
            }
            Op::DrainZone(zone) => {
                self.world.drain_zone(self.zone(zone));
                self.check_empty(self.zone(zone));
            }
            Op::CpuOffline(cpu) => {
                let cpu = usize::from(cpu) % self.gone.len();
                if self.can_go(cpu) {
                    self.world.cpu_offline(CpuId(cpu as u32)).expect("it can go");
                    self.gone[cpu] = true;
                }
            }
            Op::CpuOnline(cpu) => {
                let cpu = usize::from(cpu) % self.gone.len();
                if self.gone[cpu] {
                    self.world.cpu_online(CpuId(cpu as u32)).expect("it has gone");
                    self.gone[cpu] = false;
                }
            }
            Op::DisablePagesets(zone) => {
                let zone = self.zone(zone);
                self.world.disable_pagesets(zone);
                self.disabled[zone] += 1;
                self.check_empty(zone);
            }
            Op::EnablePagesets(zone) => {
                let zone = self.zone(zone);
                if self.disabled[zone] > 0 {
                    self.world.enable_pagesets(zone).expect("disabled");
                    self.disabled[zone] -= 1;
                }
            }
            Op::HighFraction(fraction) => {
                let fraction = if (1..8).contains(&fraction) { 8 } else { fraction };
                match self.world.set_high_fraction(fraction) {
                    Ok(()) | Err(MapError::Capacity { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            Op::SetBounds { zone, batch, high_min, high_max } => {
                let high_min = high_min % (CAPACITY + 1);
                let bounds = Bounds {
                    batch: 1 + batch % 200,
                    high_min,
                    high_max: high_min + high_max % (CAPACITY + 1 - high_min),
                };
                let zone = self.zone(zone);
                let expected = match self.disabled[zone] {
                    0 => Ok(()),
                    _ => Err(MapError::PagesetsDisabled { zone }),
                };
                assert_eq!(self.world.set_bounds(zone, bounds), expected);
            }
            Op::MergeSkipped(zone) => self.merge_skipped(self.zone(zone)),
            Op::Compact { order: of, migratetype, mode, faults } => {
                let request = Request::new(order(of), migratetype);
                let report = self.compact(faults, |world, mover| world.compact(&request, mode, mover));
                if let Some(pfn) = report.captured {
                    assert_eq!(report.outcome, CompactOutcome::Success);
                    self.take(pfn, &request);
                }
            }
            Op::CompactZone { zone, order: of, mode, faults } => {
                let (zone, of) = (self.zone(zone), Order::new(of));
                let report = self.compact(faults, |world, mover| world.compact_zone(zone, of, mode, mover));
                assert_eq!(report.captured, None);
            }
            Op::CompactNode { node, order: of, proactive, faults } => {
                let node = NodeId(u32::from(node) % 3);
                self.compact(faults, |world, mover| match proactive {
                    true => world.compact_proactively(node, 10 * of, mover),
                    false => world.compact_node(node, order(of), ZoneKind::Movable, mover),
                });
            }
            Op::AllocRange { from, pages, migratetype, faults } => {
                let Some(range) = self.pick_range(from, pages) else { return };
                if self.empty_range(range, faults, |world, mover| world.alloc_range(range, migratetype, mover)) {
                    self.take_range(range);
                }
            }
            Op::FreeRange { nth, blocks } => self.free_range(nth, blocks),
            Op::Offline { from, pages, faults } => {
                let Some(range) = self.pick_range(from, pages) else { return };
                if self.empty_range(range, faults, |world, mover| world.offline(range, mover)) {
                    self.retire(range);
                }
            }
            Op::BlockType { pageblock, migratetype } => {
                let ranges = self.online.clone();
                let all: u64 = ranges.iter().map(|range| range.pages.div_ceil(512)).sum();
                let Some(mut nth) = u64::from(pageblock).checked_rem(all) else { return };
                for range in ranges {
                    let here = range.pages.div_ceil(512);
                    if nth < here {
                        self.world.set_pageblock_type(range.start.offset(nth * 512), migratetype).expect("ours");
                        break;
                    }
                    nth -= here;
                }
            }
            Op::Online(nth) => {
                if let Some(at) = usize::from(nth).checked_rem(self.holes.len()) {
                    let hole = self.holes.swap_remove(at);
                    self.world.online(hole).expect("a hole so far");
                    self.online.push(hole);
                }
            }
            Op::ReclaimActive { zone, on } => self.world.set_reclaim_active(self.zone(zone), on),
            Op::BelowHigh { zone, on } => self.world.set_below_high(self.zone(zone), on),
            Op::NodeReclaim { node, highest, on } => {
                self.world.set_node_reclaim_active(NodeId(u32::from(node) % 4), highest, on);
            }
            Op::Marks { zone, min } => {
                let zone = self.zone(zone);
                let hundredth = self.world.zone_stats(zone).managed / 100;
                let min = u64::from(min) % 40 * hundredth;
                let marks = Watermarks { min, low: 2 * min, high: 3 * min };
                self.world.set_watermarks(zone, marks, [0, hundredth, hundredth, hundredth]);
            }
            Op::DecayBoost { zone, pages } => {
                let (zone, pages) = (self.zone(zone), u64::from(pages));
                let before = self.world.zone_stats(zone).watermark_boost;
                assert_eq!(self.world.decay_boost(zone, pages), before.saturating_sub(pages));
            }
        }
        self.check_counters();
    }

    /// Notes the pages of a block as in use.
    fn hold(&mut self, block: Block) {
        let end = block.pfn.0 + block.order.pages();
        for page in block.pfn.0..end {
            assert!(!std::mem::replace(&mut self.held[page as usize], true), "page {page:#x} was handed out twice");
        }
        let mut at = block.pfn.0;
        while at < end {
            let range = self.online.iter().find(|range| (range.start.0..range.end().0).contains(&at));
            at = range.unwrap_or_else(|| panic!("{at:#x} is a hole")).end().0;
        }
        self.in_use[self.world.zone_of(block.pfn).expect("ours")] += block.order.pages();
    }

    /// Merges what was put off; the audit knows that no pair is left after it.
    fn merge_skipped(&self, zone: usize) {
        let before = self.world.zone_stats(zone);
        let pairs = self.world.merge_skipped(zone);
        let after = self.world.zone_stats(zone);
        assert!(2 * pairs <= before.nr_free_pages + before.managed && after.nr_free_pages == before.nr_free_pages);
        assert!(pairs == 0 || before.merge_skips > 0, "zone {zone}: {pairs} pairs, none was put off");
        self.world.audit(zone).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(self.world.merge_skipped(zone), 0, "zone {zone}: merged twice");
    }

    /// Whether a CPU is there and not the last.
    fn can_go(&self, cpu: usize) -> bool {
        !self.gone[cpu] && self.gone.iter().filter(|gone| !**gone).count() > 1
    }

    fn check_empty(&self, zone: usize) {
        assert_eq!(self.world.zone_stats(zone).pagesets.count, 0, "zone {zone}: drained");
    }

    fn zone(&self, zone: u8) -> usize {
        usize::from(zone) % self.world.zone_count()
    }

    fn alloc(&mut self, request: &Request) -> bool {
        match self.world.alloc(request) {
            Ok(pfn) => {
                self.take(pfn, request);
                true
            }
            Err(AllocError::OutOfMemory(_) | AllocError::Node(_)) => {
                self.check_nothing_left(request);
                false
            }
            Err(error) => panic!("{request:?}: {error}"),
        }
    }

    /// Asks with an owner that frees blocks of ours, `gives` a call.
    fn alloc_with(&mut self, request: &Request, gives: u8) {
        let own = (0..40).map_while(|nth| self.drop_block(7 * nth)).collect();
        let owner = Giving { world: self.world, blocks: RefCell::new(own), gives: gives.into(), calls: Cell::new(0) };
        let result = self.world.alloc_with(request, &owner);
        let calls = owner.calls.get();
        assert!(calls == 0 || request.wait == Wait::Memory, "{request:?} waits for the owner");
        assert!(calls <= if request.order > Order::COSTLY { 1 } else { 16 }, "{request:?}: {calls} calls");
        for block in owner.blocks.into_inner() {
            self.hold(block);
            self.live.push(block);
        }
        match result {
            Ok(pfn) => self.take(pfn, request),
            Err(AllocError::OutOfMemory(_)) => {
                self.check_nothing_left(request);
                self.check_nothing_reserved(request);
            }
            Err(AllocError::Node(_)) => {}
            Err(error) => panic!("{request:?}: {error}"),
        }
    }

    /// One that may wait for memory fails only after all reserved pageblocks with free pages were given back.
    fn check_nothing_reserved(&self, request: &Request) {
        let local = self.map.cpus()[self.cpu as usize];
        for zone in (0..self.world.zone_count()).filter(|_| request.wait == Wait::Memory) {
            let stats = self.world.zone_stats(zone);
            let allowed = stats.kind <= request.highest && (!request.this_node_only || stats.node == local);
            assert!(!allowed || stats.nr_free_highatomic == 0, "{request:?} failed; zone {zone} has {stats:?}");
        }
    }

    /// Notes a block that was handed out.
    fn take(&mut self, pfn: Pfn, request: &Request) {
        assert!(pfn.is_aligned(request.order), "{pfn} for {request:?}");
        let zone = self.world.zone_of(pfn).expect("a page of ours");
        let stats = self.world.zone_stats(zone);
        assert!(stats.kind <= request.highest, "{pfn} of {:?} for {request:?}", stats.kind);
        assert!(!request.this_node_only || stats.node == self.map.cpus()[self.cpu as usize]);
        let block = Block { pfn, order: request.order };
        self.hold(block);
        self.live.push(block);
    }

    /// Without marks nothing is kept back: no list that serves the request has a block.
    fn check_nothing_left(&self, request: &Request) {
        // Before 5.14 a pageset that could not be filled was the answer for single pages.
        let past_pageset = self.world.tuning().lists != ListRule::OrderZero || request.order > Order::ZERO;
        let last_resort = match (request.urgency, request.wait) {
            (_, Wait::Nothing) => false,
            (Urgency::OomVictim, _) | (_, Wait::Lock) => past_pageset,
            _ => false,
        };
        let local = self.map.cpus()[self.cpu as usize];
        for zone in (0..self.world.zone_count()).filter(|_| !request.watermarks) {
            let stats = self.world.zone_stats(zone);
            if stats.kind > request.highest || request.this_node_only && stats.node != local {
                continue;
            }
            for order in Order::all().skip(request.order.index()) {
                for migratetype in MigrateType::ALL {
                    let serves = match migratetype {
                        MigrateType::Isolate => false,
                        MigrateType::HighAtomic => last_resort,
                        MigrateType::Cma => request.cma,
                        _ => true,
                    };
                    let blocks = self.world.free_blocks(zone, order, migratetype);
                    assert!(
                        !serves || blocks == 0,
                        "{request:?} failed; zone {zone} has order {order} {migratetype:?}"
                    );
                }
            }
        }
    }

    /// Takes a block out of those in use, to be freed.
    fn drop_block(&mut self, from: u16) -> Option<Block> {
        let at = usize::from(from).checked_rem(self.live.len())?;
        let block = self.live.swap_remove(at);
        self.held[block.pfn.0 as usize..][..block.order.pages() as usize].fill(false);
        self.in_use[self.world.zone_of(block.pfn).expect("ours")] -= block.order.pages();
        self.freed.truncate(200);
        self.freed.insert(0, block);
        Some(block)
    }

    fn wrong(&self, wrong: Wrong, nth: usize) {
        let world = self.world;
        let live = nth.checked_rem(self.live.len()).map(|at| self.live[at]);
        let refused = |pfn: Pfn, order: Order| world.free(pfn, order).expect_err("a wrong free").reason;
        match wrong {
            Wrong::NotOurs => {
                let outside = [u64::MAX, 1 << 40, 16_384, 0][nth % 4];
                assert_eq!(refused(Pfn(outside), order(nth as u8)), WrongFree::NotOurs);
            }
            Wrong::Hole => {
                if let Some(hole) = nth.checked_rem(self.holes.len()).map(|at| self.holes[at]) {
                    let reason = refused(hole.start.offset(nth as u64 % hole.pages), Order::ZERO);
                    assert_eq!(reason, WrongFree::NotAllocated(pageset::PageState::Inside));
                }
            }
            Wrong::Misaligned => {
                if let Some(block) = live {
                    let order = order(block.pfn.0.trailing_zeros() as u8 + 1);
                    if order > Order::ZERO && !block.pfn.is_aligned(order) {
                        assert_eq!(refused(block.pfn, order), WrongFree::Misaligned);
                    }
                }
            }
            Wrong::Twice => {
                if let Some(block) = nth.checked_rem(self.freed.len()).map(|at| self.freed[at])
                    && !self.held[block.pfn.0 as usize]
                {
                    let reason = refused(block.pfn, block.order);
                    assert!(matches!(reason, WrongFree::NotAllocated(_) | WrongFree::Inside { .. }), "{reason:?}");
                }
            }
            Wrong::AnotherOrder => {
                if let Some(block) = live {
                    for order in Order::all().filter(|&o| o != block.order && block.pfn.is_aligned(o)) {
                        assert_eq!(refused(block.pfn, order), WrongFree::WrongOrder(block.order));
                    }
                }
            }
            Wrong::Tail => {
                if let Some(Block { pfn, order: of }) = live.filter(|block| block.order > Order::ZERO) {
                    let reason = refused(pfn.offset(1 + nth as u64 % (of.pages() - 1)), Order::ZERO);
                    let state = pageset::PageState::Allocated;
                    assert_eq!(reason, WrongFree::Inside { head: pfn, order: of, state });
                }
            }
            Wrong::BulkTwice => {
                let mut blocks: Vec<_> = self.live.iter().copied().take(1 + nth % 100).collect();
                if let Some(&first) = blocks.first() {
                    blocks.push(first);
                    world.free_bulk(&blocks).expect_err("the first block comes twice");
                }
            }
            Wrong::SplitUp => {
                if let Some(block) = live.filter(|block| block.order < Order::MAX) {
                    world.split(block.pfn, block.order, order(block.order.get() + 1)).expect_err("larger");
                }
                world.split(Pfn(u64::MAX), order(1), Order::ZERO).expect_err("not ours");
            }
            Wrong::AskFor(migratetype) => {
                if !migratetype.is_ordinary() {
                    let request = Request::new(order(nth as u8), migratetype);
                    assert_eq!(world.alloc(&request), Err(AllocError::Migratetype(migratetype)));
                }
            }
            Wrong::BulkOrder => {
                let request = Request::new(order(1 + nth as u8 % 10), MigrateType::Movable);
                assert_eq!(world.alloc_bulk(&request, &mut [Pfn(0)]), Err(AllocError::BulkOrder(request.order)));
            }
            Wrong::Node => {
                let node = NodeId(3 + nth as u32);
                let request = Request { node: Some(node), ..Request::new(Order::ZERO, MigrateType::Movable) };
                assert_eq!(world.alloc(&request), Err(AllocError::Node(node)));
            }
            Wrong::Fraction => {
                let fraction = 1 + nth as u32 % 7;
                assert_eq!(world.set_high_fraction(fraction), Err(MapError::Fraction(fraction)));
            }
            Wrong::Bounds => {
                let room = CAPACITY * 10;
                for (batch, high_min, high_max) in [(0, 1, 2), (1, 3, 2), (1, room, room), (room, 1, 1)] {
                    world.set_bounds(0, Bounds { batch, high_min, high_max }).expect_err("cannot be had");
                }
            }
            Wrong::OnlineTwice => {
                let Some(at) = nth.checked_rem(self.online.len()) else { return };
                let range = self.online[at];
                let within = range.start.offset(nth as u64 % range.pages);
                let error = world.online(PageRange::new(within, 1)).expect_err("online already");
                assert!(matches!(error, MapError::Overlap { .. }), "{error}");
            }
            Wrong::OnlineOutside => {
                for range in [range(1 << 40, (1 << 40) + 1), PageRange::new(Pfn(5000), u64::MAX)] {
                    world.online(range).expect_err("in no zone");
                }
                assert_eq!(world.online(PageRange::new(Pfn(5000), 0)), Err(MapError::Empty { start: Pfn(5000) }));
            }
            Wrong::Cpu => {
                let (at, possible) = (nth % self.gone.len(), self.gone.len());
                let cpu = CpuId(at as u32);
                if self.gone[at] {
                    assert_eq!(world.cpu_offline(cpu), Err(HotplugError::Offline(cpu)));
                } else {
                    assert_eq!(world.cpu_online(cpu), Err(HotplugError::Online(cpu)));
                    if !self.can_go(at) {
                        assert_eq!(world.cpu_offline(cpu), Err(HotplugError::LastCpu(cpu)));
                    }
                }
                let cpu = CpuId((possible + nth) as u32);
                assert_eq!(world.cpu_offline(cpu), Err(HotplugError::NoSuchCpu { cpu, possible }));
                assert_eq!(world.cpu_online(cpu), Err(HotplugError::NoSuchCpu { cpu, possible }));
            }
            Wrong::Range => {
                let start = Pfn(5000);
                for (asked, migratetype, obstacle) in [
                    (PageRange::new(start, 0), MigrateType::Movable, Obstacle::Empty),
                    (PageRange::new(start, u64::MAX), MigrateType::Movable, Obstacle::NotOurs),
                    (range(1 << 40, (1 << 40) + 1), MigrateType::Movable, Obstacle::NotOurs),
                    (range(5000, 5001), MigrateType::Cma, Obstacle::Migratetype(MigrateType::Cma)),
                ] {
                    let error = world.alloc_range(asked, migratetype, &Immovable).expect_err("wrong");
                    assert_eq!(error, RangeError { pfn: asked.start, obstacle });
                }
                world.free_range(PageRange::new(start, 0)).expect_err("no pages");
                if let Some(Block { pfn, order }) = live {
                    // Up to and with the first page after it that is not in use.
                    let free = (pfn.0..).find(|&page| !self.held[page as usize]).expect("not all is in use");
                    world.free_range(range(pfn.0, free + 1)).expect_err("not all in use");
                    if order > Order::ZERO {
                        world.free_range(PageRange::new(pfn, order.pages() - 1)).expect_err("it reaches beyond");
                        world.free_range(PageRange::new(pfn.offset(1), order.pages() - 1)).expect_err("inside");
                    }
                }
            }
            Wrong::Enable => {
                let zone = nth % self.disabled.len();
                if self.disabled[zone] == 0 {
                    assert_eq!(world.enable_pagesets(zone), Err(HotplugError::PagesetsEnabled { zone }));
                }
            }
        }
    }

    fn picture(&self) -> Picture {
        let zones = 0..self.world.zone_count();
        let cpus = 0..self.map.cpus().len() as u32;
        Picture {
            // To look whether memory is online takes the lock, and that counts.
            zones: zones.clone().map(|z| ZoneStats { lock_map: 0, ..self.world.zone_stats(z) }).collect(),
            pagesets: zones
                .clone()
                .flat_map(|zone| cpus.clone().map(move |cpu| (zone, CpuId(cpu))))
                .map(|(zone, cpu)| (self.world.pageset_state(zone, cpu), self.world.pageset_lists(zone, cpu)))
                .collect(),
            free: zones
                .flat_map(|zone| {
                    Order::all().flat_map(move |order| MigrateType::ALL.map(|migratetype| (zone, order, migratetype)))
                })
                .map(|(zone, order, migratetype)| self.world.free_blocks(zone, order, migratetype))
                .collect(),
        }
    }

    /// The counters against each other, after every step.
    fn check_counters(&self) {
        for zone in 0..self.world.zone_count() {
            let stats = self.world.zone_stats(zone);
            assert_eq!(stats.pgalloc() - stats.pgfree(), self.in_use[zone], "zone {zone}: pages in use");
            assert!(stats.nr_free_highatomic + stats.nr_free_cma <= stats.nr_free_pages, "zone {zone}: {stats:?}");
            assert!(stats.watermark_boost <= stats.watermarks.min, "zone {zone}: {stats:?}");
            assert!(
                [stats.nr_reserved_highatomic, stats.cma].iter().all(|pages| pages.is_multiple_of(512)),
                "zone {zone}: {stats:?}"
            );
            assert!(stats.lock_refill >= stats.pagesets.refills && stats.lock_drain == stats.pagesets.drains);
            for cpu in 0..self.map.cpus().len() as u32 {
                let s = self.world.pageset_stats(zone, CpuId(cpu));
                let flow = s.refill_pages + s.pgfree - s.pgalloc - s.drain_pages;
                assert_eq!(flow, s.count, "zone {zone}, CPU {cpu}: what came and went against what is held");
                assert!(s.refills <= s.refill_pages && s.drains <= s.drain_pages);
                let gone = self.gone[cpu as usize];
                assert_eq!(self.world.is_cpu_online(CpuId(cpu)), !gone);
                let PcpState { batch, high_min, high_max, .. } = self.world.pageset_state(zone, CpuId(cpu));
                if gone || self.disabled[zone] > 0 {
                    let kept = (s.count, Bounds { batch, high_min, high_max });
                    assert_eq!(kept, (0, Bounds::DISABLED), "zone {zone}, CPU {cpu}: keeps nothing");
                } else {
                    // Both within the room; they may cross where the low mark is above an eighth of the zone.
                    assert!(batch > 0 && high_min.max(high_max) <= CAPACITY + 64, "zone {zone}, CPU {cpu}");
                }
            }
        }
    }

    /// Everything against everything.
    pub fn audit(&self) {
        for zone in 0..self.world.zone_count() {
            let books = self.world.audit(zone).unwrap_or_else(|error| panic!("{error}"));
            let stats = self.world.zone_stats(zone);
            assert_eq!(books.in_use, self.in_use[zone], "zone {zone}: pages in use");
            assert_eq!(books.cached, stats.pagesets.count, "zone {zone}: pages in pagesets");
            assert_eq!(books.free + books.cached + books.in_use, stats.managed, "zone {zone}: all pages");
            let isolated: u64 = Order::all()
                .map(|order| order.pages() * u64::from(self.world.free_blocks(zone, order, MigrateType::Isolate)))
                .sum();
            assert_eq!(stats.nr_free_pages + isolated, books.free, "zone {zone}: free pages");
        }
    }

    /// Frees everything and checks that all memory merges as far as the map allows.
    pub fn finish(mut self) {
        self.audit();
        while let Some(block) = self.drop_block(self.live.len() as u16 / 2) {
            self.world.free(block.pfn, block.order).expect("it is in use");
        }
        self.world.drain_all();
        self.audit();
        for zone in 0..self.world.zone_count() {
            self.merge_skipped(zone);
            assert_eq!(self.world.zone_stats(zone).pagesets.count, 0, "zone {zone}: drained");
        }
        // Pageblocks of other types may stay apart; once all are of one type none does.
        for range in &self.online {
            for pfn in (range.start.align_down(Order::PAGEBLOCK).0..range.end().0).step_by(512) {
                let pfn = Pfn(pfn.max(range.start.0));
                self.world.set_pageblock_type(pfn, MigrateType::Movable).expect("ours");
            }
        }
        self.audit();
        for zone in 0..self.world.zone_count() {
            let found: Vec<u32> = Order::all()
                .map(|order| MigrateType::ALL.iter().map(|&t| self.world.free_blocks(zone, order, t)).sum())
                .collect();
            assert_eq!(found, self.largest_blocks(zone), "zone {zone}: free blocks by order, all merged");
        }
    }

    /// How many blocks of each order the pages of a zone make up at best.
    fn largest_blocks(&self, zone: usize) -> Vec<u32> {
        let mut ranges: Vec<(u64, u64)> = vec![];
        let mut online = self.online.clone();
        online.sort_by_key(|range| range.start);
        for range in online.iter().filter(|range| self.world.zone_of(range.start) == Some(zone)) {
            match ranges.last_mut() {
                Some((_, end)) if *end == range.start.0 => *end = range.end().0,
                _ => ranges.push((range.start.0, range.end().0)),
            }
        }
        let mut blocks = vec![0; Order::COUNT];
        for (mut at, end) in ranges {
            while at < end {
                let fits = |o: &Order| Pfn(at).is_aligned(*o) && at + o.pages() <= end;
                let largest = Order::all().rev().find(fits).expect("a page is a block of order 0");
                blocks[largest.index()] += 1;
                at += largest.pages();
            }
        }
        blocks
    }
}
