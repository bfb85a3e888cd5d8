//! What can be done to an allocator, as values: for property tests, fuzzers and explorers of interleavings.
//!
//! An [`Op`] names blocks by their place among those in use, so that any sequence can be carried out. A [`Scenario`]
//! prints as a regression test.
#![allow(dead_code, unreachable_pub, reason = "each program that includes it uses a part")]

use std::fmt;

use pageset::policy::sizes::WatermarkRule;
use pageset::policy::{BatchRule, Preset, Tuning};
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
    /// The block at some place, if it is free.
    AllocAt { from: u16, order: u8 },
    /// All that is to be had.
    Exhaust { order: u8, migratetype: MigrateType },
    /// Blocks from the `from`-th in use on, one by one; `undrained` as by a caller that may have interrupted anything.
    Free { from: u16, times: u8, undrained: bool },
    /// The same past the pagesets.
    FreeDirect { from: u16, times: u8 },
    /// The same, where they are wanted last.
    FreeCold { from: u16, times: u8 },
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

    pub fn cpus(self) -> &'static [NodeId] {
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
