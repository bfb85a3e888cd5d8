//! Operations on an allocator as values, for property tests, fuzzers and explorers of interleavings.
//!
//! An [`Op`] names blocks by their index among those in use, so every sequence is valid. A [`Scenario`] prints as a
//! regression test.
#![allow(dead_code, unreachable_pub, reason = "each program that includes it uses a part")]

use std::fmt;

use pageset::policy::sizes::WatermarkRule;
use pageset::policy::{BatchRule, Preset, RegionRule, Tuning};
use pageset::{
    CompactMode, Config, MigrateType, NodeId, Order, PageRange, Pfn, Request, Urgency, Wait, ZoneKind, ZoneSpec,
};

use crate::support::{World, build};

#[path = "model.rs"]
mod model;

pub use model::Model;

/// Rights of a request, as bits.
pub const HIGH_PRIORITY: u8 = 1;
pub const NON_BLOCKING: u8 = 2;
pub const NO_MARKS: u8 = 4;
pub const CMA: u8 = 8;
pub const THIS_NODE: u8 = 16;
pub const OOM_VICTIM: u8 = 32;
pub const TRY_ONLY: u8 = 64;
pub const SILENT: u8 = 128;

/// The request of an operation.
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

/// One action of a caller, an administrator, time or the machine. Numbers are taken modulo the number of existing
/// objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// The next operations run on this CPU.
    RunOn(u8),
    /// Allocates `times` blocks, one by one.
    Alloc { order: u8, migratetype: MigrateType, highest: ZoneKind, rights: u8, times: u8 },
    /// Allocates a block with an owner that frees `gives` of its own blocks at each call.
    AllocWith { order: u8, migratetype: MigrateType, rights: u8, gives: u8 },
    /// Allocates blocks in bulk, of so many pages together.
    AllocBulk { order: u8, migratetype: MigrateType, pages: u16 },
    /// Allocates the block at a page, if it is free.
    AllocAt { from: u16, order: u8 },
    /// Allocates neighbouring pages. 0 pages, and more than the largest block has, fail.
    AllocExact { pages: u16, migratetype: MigrateType, highest: ZoneKind, rights: u8 },
    /// Allocates until memory runs out.
    Exhaust { order: u8, migratetype: MigrateType },
    /// Frees blocks from the `from`-th in use on, one by one. `undrained`: as by a caller that may have interrupted any
    /// code.
    Free { from: u16, times: u8, undrained: bool },
    /// Frees blocks without the pagesets.
    FreeDirect { from: u16, times: u8 },
    /// Frees blocks to the end of their lists.
    FreeCold { from: u16, times: u8 },
    /// Frees blocks later, when a call takes the zone's lock.
    FreeDeferred { from: u16, times: u8 },
    /// Frees `pages` pages of a block in use, from its page `first` on.
    FreePart { nth: u16, first: u16, pages: u16 },
    /// Frees blocks in bulk.
    FreeBulk { from: u16, blocks: u16 },
    /// A call that must fail.
    Wrong(Wrong, u16),
    /// Splits a block in use.
    Split { nth: u16, to: u8 },
    /// One second passes on this CPU.
    Tick,
    /// Drains this CPU's pagesets.
    Drain,
    /// Drains all pagesets.
    DrainAll,
    /// Drains all pagesets of a zone.
    DrainZone(u8),
    /// Takes a CPU offline, if possible. Code running there goes on.
    CpuOffline(u8),
    /// Brings a CPU online, if it is offline.
    CpuOnline(u8),
    /// Disables a zone's pagesets.
    DisablePagesets(u8),
    /// Undoes one disable, if there is one.
    EnablePagesets(u8),
    /// An administrator sets the fraction.
    HighFraction(u32),
    /// An administrator sets the bounds of one zone.
    SetBounds { zone: u8, batch: u32, high_min: u32, high_max: u32 },
    /// Merges the pages that were freed without merging.
    MergeSkipped(u8),
    /// Compacts for a request.
    Compact { order: u8, migratetype: MigrateType, mode: CompactMode, faults: u8 },
    /// Compacts one zone: for an order or, above the largest order, all of it.
    CompactZone { zone: u8, order: u8, mode: CompactMode, faults: u8 },
    /// Compacts a node, in the background or proactively.
    CompactNode { node: u8, order: u8, proactive: bool, faults: u8 },
    /// Allocates a range that starts at a page.
    AllocRange { from: u16, pages: u16, migratetype: MigrateType, faults: u8 },
    /// Frees adjacent blocks in use as a range.
    FreeRange { nth: u16, blocks: u8 },
    /// Takes a range offline.
    Offline { from: u16, pages: u16, faults: u8 },
    /// Sets a pageblock's type.
    BlockType { pageblock: u16, migratetype: MigrateType },
    /// Brings memory online.
    Online(u8),
    /// Reclaim begins or ends.
    ReclaimActive { zone: u8, on: bool },
    /// Sets or clears "below high" of a zone.
    BelowHigh { zone: u8, on: bool },
    /// Reclaim begins or ends on a node, up to a kind of zone.
    NodeReclaim { node: u8, highest: ZoneKind, on: bool },
    /// An administrator sets a zone's marks, in hundredths of its pages.
    Marks { zone: u8, min: u8 },
    /// Lowers a boost, as reclaim does.
    DecayBoost { zone: u8, pages: u16 },
}

/// Calls that must fail. The number next to it selects the block or page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A page in no zone.
    NotOurs,
    /// A page that never came online.
    Hole,
    /// A block with a misaligned start.
    Misaligned,
    /// A block that was freed.
    Twice,
    /// A block with another order.
    AnotherOrder,
    /// A page inside a block.
    Tail,
    /// Many blocks, one of them twice.
    BulkTwice,
    /// A split into larger blocks.
    SplitUp,
    /// Pages that are no part of a block in use: none, or pages after its end.
    NoPart,
    /// A migratetype that is not ordinary.
    AskFor(MigrateType),
    /// A node that does not exist.
    Node,
    /// A fraction of 1 to 7.
    Fraction,
    /// Bounds that cross, or exceed the capacity.
    Bounds,
    /// Memory that is online already.
    OnlineTwice,
    /// Memory outside every zone.
    OnlineOutside,
    /// An invalid change of the online CPUs.
    Cpu,
    /// An enable of pagesets that are not disabled.
    Enable,
    /// A range that is empty, in no zone, or of an invalid type; a range to free that is not in use.
    Range,
}

/// A memory map for a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Map {
    /// One unaligned zone with holes. Two CPUs.
    OneZone,
    /// Two nodes and four kinds of zones; some zones meet at odd pageblocks. Four CPUs, one of them on a node without
    /// memory.
    TwoNodes,
}

/// A sequence of operations under a preset on a map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    pub preset: &'static str,
    pub map: Map,
    pub ops: Vec<Op>,
}

/// Prints as Rust source, ready for `properties.rs`.
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

/// The start of the second node, which is in another gigabyte.
const NODE_1: u64 = 1 << 20;

/// A page of a map that is drawn for pageblocks of 512 pages. Larger pageblocks have the same positions, and more pages.
fn at(page: u64) -> u64 {
    let (pageblock, inside) = (page % NODE_1 / 512, page % 512);
    page / NODE_1 * NODE_1 + pageblock * Order::PAGEBLOCK.pages().max(512) + inside
}

fn range(start: u64, end: u64) -> PageRange {
    PageRange::new(Pfn(start), end - start)
}

/// A range of a map.
fn drawn(start: u64, end: u64) -> PageRange {
    range(at(start), at(end))
}

impl Map {
    pub const ALL: [Map; 2] = [Map::OneZone, Map::TwoNodes];

    fn zones(self) -> Vec<ZoneMap> {
        match self {
            Map::OneZone => {
                vec![(
                    0,
                    ZoneKind::Normal,
                    drawn(100, 9000),
                    vec![drawn(100, 1100), drawn(2048, 4096), drawn(5000, 8192)],
                )]
            }
            Map::TwoNodes => vec![
                (0, ZoneKind::Dma, drawn(1, 1536), vec![drawn(1, 159), drawn(256, 1536)]),
                (0, ZoneKind::Dma32, drawn(1536, 6144), vec![drawn(1536, 6144)]),
                (0, ZoneKind::Normal, drawn(6144, 12_800), vec![drawn(6144, 10_000)]),
                (0, ZoneKind::Movable, drawn(12_800, 16_384), vec![drawn(14_336, 16_384)]),
                (1, ZoneKind::Normal, drawn(NODE_1, NODE_1 + 6000), vec![drawn(NODE_1, NODE_1 + 4096)]),
            ],
        }
    }

    /// Ranges that may come online later.
    fn holes(self) -> Vec<PageRange> {
        match self {
            Map::OneZone => vec![drawn(1100, 1111), drawn(1111, 2048), drawn(4096, 4097), drawn(8192, 9000)],
            Map::TwoNodes => {
                vec![drawn(10_000, 12_288), drawn(12_800, 14_336), drawn(NODE_1 + 4096, NODE_1 + 6000)]
            }
        }
    }

    pub fn cpus(self) -> &'static [NodeId] {
        match self {
            Map::OneZone => &[NodeId(0), NodeId(0)],
            Map::TwoNodes => &[NodeId(0), NodeId(1), NodeId(0), NodeId(2)],
        }
    }
}

/// Capacity of each pageset in pages.
const CAPACITY: u32 = 1500;

fn order(order: u8) -> Order {
    Order::new(order % Order::COUNT as u8).expect("in range")
}

impl Scenario {
    /// Runs the scenario. Checks after every step, and at the end that all memory merges.
    pub fn run(&self) {
        self.run_with(|_, _| {});
    }

    /// As [`Self::run`], with a callback after each operation.
    pub fn run_with(&self, mut after: impl FnMut(&World<'_>, Op)) {
        let preset = Preset::find(self.preset).expect("a preset").tuning;
        // The zone-size formula gives such small zones no clusters.
        let batch = if preset.backing.has_clusters() { BatchRule::Fixed(7) } else { preset.batch };
        // These zones are too small for a region per CPU; the smallest has room for two.
        let one = preset.backing.regions() == RegionRule::One;
        let regions = if one { RegionRule::One } else { RegionRule::Fixed(2) };
        let tuning = Tuning { batch, backing: preset.backing.with_regions(regions), ..preset };
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
