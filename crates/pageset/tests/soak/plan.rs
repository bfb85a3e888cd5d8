//! Random worlds: zones, CPUs and rules.

use std::fmt;

use pageset::policy::sizes::WatermarkRule;
use pageset::policy::{
    Backing, BatchRule, BulkFree, ClaimRule, DecayRule, FallbackRule, HighAtomicRule, HighRule, Holds, ListRule,
    OwnerRule, PRESETS, Preset, RegionRule, Tuning,
};
use pageset::{Config, FreeCheck, NodeId, Order, PageRange, Pfn, ZoneKind, ZoneSpec};

use crate::Random;

/// The largest zone: a region of 64 MiB for each of four CPUs.
const LARGEST: u64 = 1 << 16;

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) preset: &'static str,
    pub(crate) tuning: Tuning,
    pub(crate) zones: Vec<Zone>,
    pub(crate) cpus: Vec<NodeId>,
    free_check: FreeCheck,
    high_fraction: u32,
    capacity: u32,
    cache_slice: u64,
    boost: u64,
}

#[derive(Debug)]
pub(crate) struct Zone {
    pub(crate) node: NodeId,
    pub(crate) kind: ZoneKind,
    pub(crate) span: PageRange,
    pub(crate) ranges: Vec<PageRange>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { preset, zones, cpus, .. } = self;
        write!(f, "{} CPUs, {preset}, ", cpus.len())?;
        for Zone { node, kind, span, ranges } in zones {
            write!(f, "{kind:?} of node {} from {}: ", node.0, span.start)?;
            ranges.iter().try_for_each(|range| write!(f, "{} pages, ", range.pages))?;
        }
        write!(f, "{:?}", self.tuning)
    }
}

impl Plan {
    pub(crate) fn new(random: &mut Random) -> Plan {
        // Some drawn rules contradict each other, some do not fit the zones. Both are refused at construction.
        loop {
            let plan = Plan::draw(random);
            if plan.tuning.check().is_ok() && plan.with_config(|config| config.metadata_size().is_ok()) {
                return plan;
            }
        }
    }

    fn draw(random: &mut Random) -> Plan {
        let (preset, tuning) = rules(random);
        let nodes = 1 + random.below(2) as u32;
        let zones = zones(random, nodes);
        // Node 1 may have no memory.
        let cpus = (0..1 + random.below(6)).map(|_| NodeId(random.below(u64::from(nodes) + 1) as u32 % 2)).collect();
        Plan {
            preset,
            tuning,
            zones,
            cpus,
            free_check: random.pick(&[FreeCheck::Basic, FreeCheck::Single, FreeCheck::All]),
            high_fraction: random.pick(&[0, 0, 0, 8, 100]),
            capacity: random.pick(&[0, 0, 70, 500, 3000]),
            cache_slice: random.pick(&[0, 100, 10_000]),
            boost: random.pick(&[0, 0, WatermarkRule::KERNEL_BOOST_FACTOR]),
        }
    }

    pub(crate) fn with_config<R>(&self, use_it: impl FnOnce(&Config<'_>) -> R) -> R {
        let specs: Vec<_> = self
            .zones
            .iter()
            .map(|Zone { node, kind, span, ranges }| ZoneSpec { node: *node, kind: *kind, span: *span, ranges })
            .collect();
        let watermarks = WatermarkRule { boost_factor: self.boost, ..WatermarkRule::default() };
        use_it(&Config {
            tuning: self.tuning,
            watermarks,
            free_check: self.free_check,
            high_fraction: self.high_fraction,
            cache_slice_pages: self.cache_slice,
            pageset_capacity: self.capacity,
            ..Config::new(&specs, &self.cpus)
        })
    }

    /// The number after the last page.
    pub(crate) fn end(&self) -> u64 {
        self.zones.iter().map(|zone| zone.span.end().0).max().unwrap_or(0)
    }
}

/// One to three zones of each node, none in a pageblock with another. Some have a hole.
fn zones(random: &mut Random, nodes: u32) -> Vec<Zone> {
    let block = Order::MAX.pages();
    let (mut zones, mut next) = (vec![], block);
    let mut is_first = true;
    for node in (0..nodes).map(NodeId) {
        let kinds: &[ZoneKind] = random.pick(&[
            &[ZoneKind::Normal],
            &[ZoneKind::Normal],
            &[ZoneKind::Dma32, ZoneKind::Normal],
            &[ZoneKind::Dma32, ZoneKind::Normal, ZoneKind::Movable],
        ]);
        for &kind in kinds {
            let pages = match random.below(12) {
                0 => 1 + random.below(600),
                1 | 2 if is_first => LARGEST + random.below(5000),
                _ => 2000 + random.below(14_000),
            };
            is_first = false;
            let start = next + random.pick(&[0, 0, 1, 100, 512, 777]);
            let span = PageRange::new(Pfn(start), pages);
            let hole = random.below(4) == 0 && pages > 1500;
            let ranges = if hole {
                let first = 300 + random.below(pages - 1400);
                let second = first + 1 + random.below(1000);
                vec![PageRange::new(span.start, first), PageRange::new(Pfn(start + second), pages - second)]
            } else {
                vec![span]
            };
            zones.push(Zone { node, kind, span, ranges });
            next = (start + pages).next_multiple_of(block);
        }
    }
    zones
}

/// A preset, a quarter of them ours and a quarter with claims, and in three of four cases some changes of it.
fn rules(random: &mut Random) -> (&'static str, Tuning) {
    let claims = ["pcp-merge", "pcp-claim", "pcp-buddy", "pcp-buddy-try", "pcp-buddy-list"];
    let preset = match random.below(16) {
        0..4 => random.pick(&["pageset", "pageset-lists"]),
        4..8 => random.pick(&claims),
        8 => random.pick(&["merge-skip", "clusters", "clusters-free"]),
        _ => PRESETS[random.below(PRESETS.len() as u64) as usize].name,
    };
    let preset = Preset::find(preset).expect("a preset");
    let mut tuning = preset.tuning;
    if tuning.backing.regions() == RegionRule::PerCpu && random.one_in(2) {
        // Most zones here are too small for a region per CPU.
        tuning.backing = tuning.backing.with_regions(RegionRule::Fixed(2 + random.below(7) as u32));
    }
    // A batch of a small zone's own is a few pages.
    if tuning.backing.has_clusters() || random.one_in(2) {
        tuning.batch = BatchRule::Fixed(1 + random.below(70) as u32);
        let min = random.pick(&[0, 20, 60, 200, 1000, 1000]);
        tuning.high = HighRule::Fixed { min, max: min + random.pick(&[0, 50, 1000]) };
    }
    for _ in 0..random.pick(&[0, 1, 3, 6]) {
        // A change that contradicts the others is taken back.
        let before = tuning;
        change(&mut tuning, random);
        if tuning.check().is_err() {
            tuning = before;
        }
    }
    (preset.name, tuning)
}

fn change_backing(backing: &mut Backing, random: &mut Random) {
    let (on, other) = (random.one_in(2), random.one_in(2));
    match backing {
        Backing::Regions { count, .. } if random.one_in(2) => *count = RegionRule::Fixed(1 + random.below(9) as u32),
        Backing::Regions { holds, .. } => {
            let short = Holds::Short { depot: on, bitmaps: other };
            *holds = random.pick(&[Holds::SinglePass, Holds::Chunked, short, short, short]);
        }
        Backing::MergeSkip { bulk_free, .. } => *bulk_free = random.pick(&[BulkFree::SinglePass, BulkFree::Chunked]),
        Backing::Kernel(BulkFree::SinglePass | BulkFree::Chunked) | Backing::Claims { .. } if on => {
            let owners = random.pick(&[OwnerRule::Off, OwnerRule::Wait, OwnerRule::Try, OwnerRule::List]);
            let blocks = [ClaimRule::Merge, ClaimRule::Claim(owners), ClaimRule::ClaimAndMerge(owners)];
            *backing = Backing::Claims { chunked: other, blocks: random.pick(&blocks) };
        }
        Backing::Kernel(_) => *backing = backing.with_regions(RegionRule::Fixed(1 + random.below(9) as u32)),
        Backing::Claims { chunked, .. } => *chunked = other,
    }
}

fn change(tuning: &mut Tuning, random: &mut Random) {
    let on = random.one_in(2);
    match random.below(41) {
        0..8 | 9..13 => change_backing(&mut tuning.backing, random),
        8 => {
            let kinds = [ListRule::ToCostly, ListRule::HugeShared, ListRule::HugeByMobility, ListRule::AllOrders];
            tuning.lists = random.pick(&kinds);
        }
        13 => tuning.whole_blocks = on,
        14 => tuning.double_blocks = on,
        15 => tuning.batch_blocks = random.pick(&[0, 1, 8, 64]),
        16 => tuning.batch_scale_max = random.below(7) as u8,
        17 => tuning.drain_for_requests = on,
        18 => {
            let kinds = [FallbackRule::Steal, FallbackRule::StealInPlace, FallbackRule::ClaimThenSteal];
            tuning.fallback = random.pick(&kinds);
        }
        19 => tuning.fallback_tail = on,
        20 => tuning.no_fragment = on,
        21 => tuning.highatomic = random.pick(&[HighAtomicRule::Reserved, HighAtomicRule::Free]),
        22 => tuning.merge_by_type = on,
        23 => tuning.type_at_drain = on,
        24 => tuning.auto_high = on,
        25 => tuning.below_high = on,
        26 => tuning.below_high_by_pages = on,
        27 => tuning.below_high_at_tick = on,
        28 => tuning.expire_all = on,
        29 => tuning.bulk_counts = on,
        30 => tuning.long_runs = on,
        31 => tuning.decay = random.pick(&[DecayRule::Eighth, DecayRule::Fifth]),
        32 => tuning.cma_skip = on,
        33 => tuning.reclaim_limit = on,
        34 => tuning.cache_slice_batches = random.pick(&[0, 3, 4]),
        35 => tuning.alloc_factor = on,
        36 => tuning.high_threshold_616 = on,
        37 => tuning.block_scale_max = random.below(7) as u8,
        38 => tuning.kept_fraction = random.pick(&[0, 2, 4, 100]),
        39 => tuning.high_share = random.below(9) as u8,
        _ => tuning.free_count = on,
    }
}
