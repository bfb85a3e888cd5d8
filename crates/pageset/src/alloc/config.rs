//! The configuration of an allocator: the memory map, the CPUs, the rules; and the metadata size that follows from it.

use core::fmt;
use core::sync::atomic::AtomicU32;

use super::CpuSet;
use super::sections::Sections;
use crate::frame::{CpuId, NodeId, Order, PageRange, Pfn, ZoneKind};
use crate::machine::Machine;
use crate::pcp::CachedZone;
pub use crate::pcp::ZoneMetadata;
use crate::pcp::{self, Pageset};
use crate::policy::sizes::{MAX_HIGH, MIN_HIGH_FRACTION, WatermarkRule, ZoneSize};
use crate::policy::{Active, SMALL, Tuning, TuningError};
use crate::store::StoreMemory;
use crate::zone::region::Region;

impl PageRange {
    /// The pages of `bytes` from a physical address on, as in a firmware memory map.
    ///
    /// # Errors
    /// [`MapError::Unaligned`] if either is not a multiple of the page size. [`MapError::Empty`] if `bytes` is 0.
    pub const fn from_bytes(address: u64, bytes: u64) -> Result<Self, MapError> {
        const PAGE: u64 = Pfn::PAGE_BYTES;
        let range = PageRange { start: Pfn(address / PAGE), pages: bytes / PAGE };
        if !address.is_multiple_of(PAGE) || !bytes.is_multiple_of(PAGE) {
            return Err(MapError::Unaligned { start: range.start, multiple_bytes: PAGE });
        }
        if bytes == 0 { Err(MapError::Empty { start: range.start }) } else { Ok(range) }
    }
}

/// Which frees claim their block with an atomic exchange. Two threads may free one block at the same instant. If both frees claim
/// it, one of them is an error. Otherwise both may succeed, and two callers later get that block.
///
/// All frees claim their block, except those named here. Frees one after the other are always noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FreeCheck {
    /// Frees on the fast path and bulk frees of single movable pages do not claim. The fast path tests the block with the
    /// pageset's lock held, which is enough for two threads of one CPU.
    Basic,
    /// Bulk frees of single movable pages do not claim. The claim is an atomic exchange of the tag: a third of the 13.7 ns of a pair
    /// on an Intel Xeon, at most 0.3 of 12.1 ns on an AMD EPYC.
    #[default]
    Single,
    /// All frees claim. Costs bulk frees 1.1 to 1.5 ns more for each page, measured on the EPYC.
    All,
}

/// One zone of the memory map.
#[derive(Clone, Copy, Debug)]
pub struct ZoneSpec<'c> {
    /// The zone's node.
    pub node: NodeId,
    /// The zone's kind.
    pub kind: ZoneKind,
    /// All frames that the zone may ever hold, with holes and memory that comes online later. Aligned to a pageblock
    /// ([`Order::PAGEBLOCK`]) where another zone begins or ends in the same pageblock. Spans do not overlap.
    ///
    /// Metadata cover the span: about 9.5 bytes for each page of a hole. Around a large hole, and where the memory of nodes
    /// interleaves, give a zone for each piece. A node may have several zones of one kind: a request tries them in the order of their
    /// numbers, and each has watermarks and pagesets of its own. The reserve of the
    /// machine counts zones, as the kernels do: 22 MiB more for each zone with [`WatermarkRule::huge_pages`].
    pub span: PageRange,
    /// The frames that are online from the start: inside `span`, without overlap.
    ///
    /// Empty for a kernel whose metadata lies in the zone's own memory: the size of the metadata depends on `span` only, and
    /// where the metadata ends is known after they are placed. The kernel then calls [`crate::Allocator::online`].
    pub ranges: &'c [PageRange],
}

/// The configuration of an allocator.
#[derive(Clone, Copy, Debug)]
pub struct Config<'c> {
    /// The zones, in any order. A zone's number is its index here.
    pub zones: &'c [ZoneSpec<'c>],
    /// The node of each possible CPU, indexed by CPU number. At least one CPU.
    pub cpus: &'c [NodeId],
    /// The CPUs that are online from the start, by number; all if empty. A kernel names the CPU that boots, and calls
    /// [`crate::Allocator::cpu_online`] for each other as it comes.
    pub online_cpus: &'c [CpuId],
    /// Distances between nodes, row by row, in any unit. Empty if all nodes are equally far.
    pub distances: &'c [u8],
    /// The rules.
    pub tuning: Tuning,
    /// The rule for the watermarks.
    pub watermarks: WatermarkRule,
    /// Which frees are certain to notice another free of the same block at the same instant.
    pub free_check: FreeCheck,
    /// The administrator's fraction of a zone that all its pagesets may hold: 8 or more, or 0 for none.
    pub high_fraction: u32,
    /// Each CPU's share of the last-level cache in pages; 0 if unknown. Specification 4.2.
    pub cache_slice_pages: u64,
    /// Capacity of each pageset in pages; 64 are added, for blocks that enter before a drain. Nothing lifts `high` above it: neither the
    /// rules, nor what idle CPUs lend under [`Tuning::kept_fraction`]. 0 for the largest high that the rules can ask for without a loan.
    pub pageset_capacity: u32,
}

impl<'c> Config<'c> {
    /// A machine with these zones and CPUs, under the default rules.
    #[must_use]
    pub fn new(zones: &'c [ZoneSpec<'c>], cpus: &'c [NodeId]) -> Self {
        Config {
            zones,
            cpus,
            online_cpus: &[],
            distances: &[],
            tuning: Tuning::default(),
            watermarks: WatermarkRule::default(),
            free_check: FreeCheck::default(),
            high_fraction: 0,
            cache_slice_pages: 0,
            pageset_capacity: 0,
        }
    }
}

/// An invalid configuration or change of it. Nothing was built or changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MapError {
    /// The map has no zone of that number.
    NoSuchZone {
        /// The number that was given.
        zone: usize,
        /// The number of zones.
        zones: usize,
    },
    /// No zone, or more than 255.
    Zones {
        /// The number given.
        zones: usize,
    },
    /// No CPU, or more than 65536.
    Cpus {
        /// The number given.
        cpus: usize,
    },
    /// A CPU that is online from the start and not possible.
    NoSuchCpu {
        /// The CPU.
        cpu: CpuId,
        /// The number of possible CPUs.
        possible: usize,
    },
    /// More than 1024 nodes, counted by their largest number.
    Nodes {
        /// The number given.
        nodes: usize,
    },
    /// A range without pages.
    Empty {
        /// Where it starts.
        start: Pfn,
    },
    /// Two ranges, or the spans of two zones, overlap.
    Overlap {
        /// The start of the later range.
        start: Pfn,
        /// The start of the other range; from [`crate::Allocator::online`], the first page that is already online.
        other: Pfn,
    },
    /// A range is not inside its zone's span.
    OutsideSpan {
        /// Where the range starts.
        start: Pfn,
    },
    /// A boundary is not aligned.
    Unaligned {
        /// The boundary.
        start: Pfn,
        /// The required alignment in bytes.
        multiple_bytes: u64,
    },
    /// A span that does not fit 32-bit page numbers (16 TiB of pages of 4 KiB), frames beyond 64-bit addresses, or metadata
    /// that do not fit the address space.
    TooLarge {
        /// Where the span starts.
        start: Pfn,
        /// Its pages.
        pages: u64,
    },
    /// The number of distances is not the square of the number of nodes.
    Distances {
        /// The number given.
        given: usize,
        /// The required number.
        expected: usize,
    },
    /// Metadata of a size other than [`Config::metadata_size`] and [`Config::zone_metadata_size`].
    Metadata {
        /// The number of the zone that the metadata are for; `None` for what all zones share.
        zone: Option<usize>,
        /// The part's name.
        part: &'static str,
        /// Its length, in elements.
        given: usize,
        /// The required length.
        expected: usize,
    },
    /// More regions than a zone has blocks of the largest order.
    Regions {
        /// Where the zone's span starts.
        start: Pfn,
        /// The number given.
        given: u32,
        /// The largest number.
        allowed: u64,
    },
    /// Rules that are invalid or contradict each other.
    Tuning(TuningError),
    /// The rules are not the default ones, but the crate was built without the feature `rules`.
    NeedsRules,
    /// A fraction of 1 to 7.
    Fraction(u32),
    /// A value above the pagesets' capacity.
    Capacity {
        /// Pages requested per CPU.
        asked: u32,
        /// The capacity in pages; see [`Config::pageset_capacity`].
        capacity: u32,
    },
    /// Bounds were set for a zone whose pagesets are disabled.
    PagesetsDisabled {
        /// The zone's number.
        zone: usize,
    },
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NeedsRules => {
                f.write_str("only the default rules are compiled in; build pageset with the feature \"rules\"")
            }
            Self::NoSuchZone { zone, zones } => write!(f, "the map has no zone {zone}; allowed: below {zones}"),
            Self::Zones { zones } => write!(f, "the map has {zones} zones; allowed: 1 to 255"),
            Self::Cpus { cpus } => write!(f, "the machine has {cpus} CPUs; allowed: 1 to 65536"),
            Self::NoSuchCpu { cpu, possible } => {
                write!(f, "{cpu} is to be online from the start; possible: CPUs 0 to {}", possible.saturating_sub(1))
            }
            Self::Nodes { nodes } => write!(f, "the map has {nodes} nodes; allowed: 1 to 1024"),
            Self::Empty { start } => write!(f, "the range at {start} has no pages"),
            Self::Overlap { start, other } => write!(f, "the range at {start} overlaps the one at {other}"),
            Self::OutsideSpan { start } => write!(f, "the range at {start} is not inside its zone's span"),
            Self::Unaligned { start, multiple_bytes } => {
                write!(f, "the boundary at {start} is not a multiple of {multiple_bytes} bytes")
            }
            Self::TooLarge { start, pages } => {
                write!(
                    f,
                    "the span of {pages} pages at {start} is too large; allowed: up to 2^32 - 2^{SPAN_MARGIN} pages, frames below \
                     2^{FRAME_BITS}"
                )
            }
            Self::Distances { given, expected } => {
                write!(f, "{given} distances were given; allowed: none, or {expected}, one for each pair of nodes")
            }
            Self::Metadata { zone: None, part, given, expected } => {
                write!(f, "the metadata's {part} have length {given}; metadata_size requires {expected}")
            }
            Self::Metadata { zone: Some(zone), part, given, expected } => {
                write!(f, "the {part} of zone {zone} have length {given}; zone_metadata_size requires {expected}")
            }
            Self::Regions { start, given, allowed } => {
                write!(f, "the zone at {start} is to have {given} regions; allowed: 1 to {allowed}, 4 MiB each")
            }
            Self::Tuning(error) => error.fmt(f),
            Self::Fraction(fraction) => {
                write!(f, "the fraction is {fraction}; allowed: 0 for none, or {MIN_HIGH_FRACTION} and more")
            }
            Self::Capacity { asked, capacity } => {
                write!(f, "{asked} pages per CPU were requested; the pagesets have room for {capacity}")
            }
            Self::PagesetsDisabled { zone } => write!(f, "the pagesets of zone {zone} are disabled; enable them first"),
        }
    }
}

impl core::error::Error for MapError {}

/// Size of the metadata that all zones share, part by part, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MetadataSize {
    /// 32-bit words of zonelists, the nodes of CPUs, the set of online CPUs, and the zones by their pages.
    pub words: usize,
    /// Zones.
    pub zones: usize,
}

/// Size of one zone's metadata, part by part, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneMetadataSize {
    /// Bytes of tags and pageblock types.
    pub tags: usize,
    /// 32-bit words of links, clusters, pageset arrays and depots.
    pub words: usize,
    /// Pagesets: one for each possible CPU.
    pub pagesets: usize,
    /// Regions: see [`crate::policy::RegionRule`].
    pub regions: usize,
}

/// The memory for an allocator's metadata: what all zones share. Each zone brings its own, see [`ZoneMetadata`].
#[derive(Debug)]
pub struct Metadata<'a, M: Machine> {
    /// [`MetadataSize::words`] words, which must be zero.
    pub words: &'a [AtomicU32],
    /// [`MetadataSize::zones`] zones, in the order of [`Config::zones`].
    pub zones: &'a mut [CachedZone<'a, M>],
}

/// The largest span of a zone, in pages. Links are 32-bit numbers, one per page and one per pageblock, and one value
/// stands for none. The margin covers the links of pageblocks, and partial blocks at both ends of the span.
const MAX_SPAN: u64 = (1 << 32) - (1 << SPAN_MARGIN);
/// A power of two of pages.
const SPAN_MARGIN: u32 = if Order::PAGEBLOCK.get() >= 9 { 23 } else { 33 - Order::PAGEBLOCK.get() as u32 };
const _: () = {
    let pages = MAX_SPAN + 2 * Order::MAX.pages();
    assert!(pages + pages.div_ceil(Order::PAGEBLOCK.pages()) < u32::MAX as u64);
};
/// The bits of a frame number. Physical addresses have at most 64.
const FRAME_BITS: u32 = u64::BITS - Pfn::PAGE_SHIFT;

/// One zone's shares of the metadata, in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZoneLayout {
    pub(crate) base: Pfn,
    pub(crate) tags: usize,
    pub(crate) types: usize,
    pub(crate) links: usize,
    pub(crate) capacity: u32,
    pub(crate) array: usize,
    pub(crate) stores: StoreMemory,
}

impl Config<'_> {
    /// Size of the metadata that all zones share.
    ///
    /// # Errors
    /// A fault of the map or the rules.
    pub fn metadata_size(&self) -> Result<MetadataSize, MapError> {
        self.check()?;
        self.zones.iter().try_for_each(|zone| self.layout(zone).map(drop))?;
        let (zones, cpus) = (self.zones.len(), self.cpus.len());
        let words =
            self.nodes() * zones + cpus * ZoneKind::COUNT + cpus + CpuSet::words(cpus) + Sections::words(self.spans());
        Ok(MetadataSize { words, zones })
    }

    /// Size of the metadata of a zone, given by its number. With the default rules about 9.7 bytes per page, and 6 to 18 KiB per
    /// CPU; so at most 12 bytes per page in zones of 2^14 pages per CPU and more.
    /// [`ClusterRule::Refills`](crate::policy::ClusterRule::Refills) and
    /// [`RefillsAndDrains`](crate::policy::ClusterRule::RefillsAndDrains) add 4 bytes per page and 8 per batch of pages.
    ///
    /// # Errors
    /// There is no zone of that number; and those of [`Self::metadata_size`], which finds all faults.
    pub fn zone_metadata_size(&self, zone: usize) -> Result<ZoneMetadataSize, MapError> {
        let spec = self.zones.get(zone).ok_or(MapError::NoSuchZone { zone, zones: self.zones.len() })?;
        let layout = self.layout(spec)?;
        let cpus = self.cpus.len();
        Ok(ZoneMetadataSize {
            tags: layout.tags + layout.types,
            words: layout.links + layout.array * cpus + layout.stores.words() as usize,
            pagesets: cpus,
            regions: layout.stores.regions(),
        })
    }

    /// Size of all metadata in bytes, for a machine of this kind, with the most that alignment can add:
    /// what [`crate::Allocator::from_bytes`] takes.
    ///
    /// # Errors
    /// As [`Self::metadata_size`].
    pub fn metadata_bytes<M: Machine<Lock: 'static> + 'static>(&self) -> Result<usize, MapError> {
        (0..self.zones.len()).try_fold(self.common_bytes::<M>()?, |bytes, zone| {
            let span = self.zones[zone].span;
            let too_large = MapError::TooLarge { start: span.start, pages: span.pages };
            bytes.checked_add(self.parts_bytes::<M>(zone)?).ok_or(too_large)
        })
    }

    /// Size of one zone's metadata in bytes: what [`crate::Allocator::from_zone_bytes`] asks for. The first zone has also the part that
    /// all zones share.
    ///
    /// # Errors
    /// As [`Self::zone_metadata_size`].
    pub fn zone_metadata_bytes<M: Machine<Lock: 'static> + 'static>(&self, zone: usize) -> Result<usize, MapError> {
        // First, since it checks the map.
        let common = self.common_bytes::<M>()?;
        let own = self.parts_bytes::<M>(zone)?;
        let span = self.zones[zone].span;
        let too_large = MapError::TooLarge { start: span.start, pages: span.pages };
        own.checked_add(if zone == 0 { common } else { Self::gaps::<M>() }).ok_or(too_large)
    }

    /// The parts lie one after the other. Zones, pagesets, regions and words may each begin after a gap.
    const fn gaps<M: Machine<Lock: 'static> + 'static>() -> usize {
        align_of::<CachedZone<'static, M>>() + Self::line::<M>() + align_of::<AtomicU32>()
    }

    const fn line<M: Machine<Lock: 'static> + 'static>() -> usize {
        let (pageset, region) = (align_of::<Pageset<M::Lock>>(), align_of::<Region<M::Lock>>());
        if pageset > region { pageset } else { region }
    }

    /// The gaps, and what all zones share.
    fn common_bytes<M: Machine<Lock: 'static> + 'static>(&self) -> Result<usize, MapError> {
        let MetadataSize { words, zones } = self.metadata_size()?;
        Ok(Self::gaps::<M>() + words * size_of::<AtomicU32>() + zones * size_of::<CachedZone<'static, M>>())
    }

    /// The parts of one zone.
    fn parts_bytes<M: Machine<Lock: 'static> + 'static>(&self, zone: usize) -> Result<usize, MapError> {
        let (size, line) = (self.zone_metadata_size(zone)?, Self::line::<M>());
        let words = size.words * size_of::<AtomicU32>();
        let regions = size.regions * size_of::<Region<M::Lock>>();
        let pagesets = size.pagesets * size_of::<Pageset<M::Lock>>();
        // The regions follow the words.
        Ok(pagesets + words.next_multiple_of(line) + (regions + size.tags).next_multiple_of(line))
    }

    /// The spans of the zones.
    pub(crate) fn spans(&self) -> impl ExactSizeIterator<Item = PageRange> + Clone {
        self.zones.iter().map(|zone| zone.span)
    }

    /// The number of nodes: the largest node number plus one.
    pub(crate) fn nodes(&self) -> usize {
        let nodes = self.zones.iter().map(|z| z.node).chain(self.cpus.iter().copied());
        nodes.map(|n| (n.0 as usize).saturating_add(1)).max().unwrap_or(0)
    }

    /// CPUs that share a zone: those of its node, or all if the node has none. Specification 2.2.
    pub(crate) fn sharers(&self, node: NodeId) -> u32 {
        let local = self.cpus.iter().filter(|n| **n == node).count();
        if local == 0 { self.cpus.len() as u32 } else { local as u32 }
    }

    pub(crate) fn layout(&self, zone: &ZoneSpec<'_>) -> Result<ZoneLayout, MapError> {
        // Before the sums below: they are for spans of a valid map.
        if zone.span.pages > MAX_SPAN || zone.span.start.0 > 1 << 52 {
            return Err(MapError::TooLarge { start: zone.span.start, pages: zone.span.pages });
        }
        let tuning = self.rules();
        let largest = Order::MAX.pages();
        let base = zone.span.start.align_down(Order::MAX);
        let pages = (zone.span.end().0 - base.0).next_multiple_of(largest);
        let too_large = MapError::TooLarge { start: zone.span.start, pages: zone.span.pages };
        let capacity = self.capacity(zone);
        // Within a share of the zone, a list that gets no chunk is no harm: others then give one back.
        let entries = pcp::within_build(capacity);
        let array = pcp::array_words(entries, tuning.lists.count(), tuning.kept_fraction > 0);
        let batch = tuning.bounds(self.zone_size(zone), 0).batch;
        let types = pages >> Order::PAGEBLOCK.get();
        let slots = pages + types;
        // A zone's array memory is addressed in 32 bits.
        let arrays = array.checked_mul(self.cpus.len() as u64);
        if arrays.is_none_or(|all| all > u64::from(u32::MAX)) {
            return Err(too_large);
        }
        let sizes = [zone.span.pages, pages, types];
        let stores = StoreMemory::new(&tuning, sizes, self.sharers(zone.node), self.cpus.len(), batch)
            .map_err(|given| MapError::Regions { start: zone.span.start, given, allowed: pages / largest })?;
        // The largest part of the metadata. A 32-bit machine has no room for that of the largest span.
        let words = 2 * slots + array * self.cpus.len() as u64 + stores.words();
        if words > (isize::MAX as usize / size_of::<AtomicU32>()) as u64 {
            return Err(too_large);
        }
        Ok(ZoneLayout {
            base,
            tags: pages as usize,
            types: types as usize,
            links: 2 * slots as usize,
            capacity,
            array: array as usize,
            stores,
        })
    }

    /// The inputs of the sizing formulas for a zone with all its pages online.
    fn zone_size(&self, zone: &ZoneSpec<'_>) -> ZoneSize {
        ZoneSize { managed: zone.span.pages, low: zone.span.pages / 64, cpus: self.sharers(zone.node) }
    }

    /// The rules.
    pub(crate) fn rules(&self) -> Active {
        Active::new(self.tuning)
    }

    /// Capacity of each pageset: the largest high that the rules or an administrator can ask for.
    fn capacity(&self, zone: &ZoneSpec<'_>) -> u32 {
        if self.pageset_capacity > 0 {
            return pcp::capacity_for(self.pageset_capacity.min(MAX_HIGH), 0);
        }
        let (tuning, size) = (self.rules(), self.zone_size(zone));
        let within = |bounds| tuning.within_share(bounds, size.managed, self.cpus.len() as u32);
        let auto = within(tuning.bounds(size, 0));
        let most = match tuning.high {
            crate::policy::HighRule::FromLowWatermark => within(tuning.bounds(size, MIN_HIGH_FRACTION)).high_max,
            _ => auto.high_max,
        };
        match auto.high_max.max(most) {
            // A refill brings the one block of its request.
            0 => 1,
            high => pcp::capacity_for(high, auto.batch),
        }
    }

    fn check(&self) -> Result<(), MapError> {
        if !SMALL {
            self.tuning.check().map_err(MapError::Tuning)?;
        } else if self.tuning != Tuning::default() {
            return Err(MapError::NeedsRules);
        }
        check_fraction(self.high_fraction)?;
        if self.zones.is_empty() || self.zones.len() > 255 {
            return Err(MapError::Zones { zones: self.zones.len() });
        }
        if self.cpus.is_empty() || self.cpus.len() > 1 << 16 {
            return Err(MapError::Cpus { cpus: self.cpus.len() });
        }
        if let Some(&cpu) = self.online_cpus.iter().find(|cpu| cpu.0 as usize >= self.cpus.len()) {
            return Err(MapError::NoSuchCpu { cpu, possible: self.cpus.len() });
        }
        if self.nodes() > 1 << 10 {
            return Err(MapError::Nodes { nodes: self.nodes() });
        }
        let pairs = self.nodes() * self.nodes();
        if !self.distances.is_empty() && self.distances.len() != pairs {
            return Err(MapError::Distances { given: self.distances.len(), expected: pairs });
        }
        for (i, zone) in self.zones.iter().enumerate() {
            check_zone(zone)?;
            for other in &self.zones[..i] {
                check_neighbours(zone, other)?;
            }
        }
        Ok(())
    }
}

/// Checks a fraction set by an administrator: 0 for none, or 8 and more. Specification 2.2.
pub(crate) fn check_fraction(fraction: u32) -> Result<(), MapError> {
    if fraction > 0 && fraction < MIN_HIGH_FRACTION { Err(MapError::Fraction(fraction)) } else { Ok(()) }
}

fn check_zone(zone: &ZoneSpec<'_>) -> Result<(), MapError> {
    let span = zone.span;
    if span.pages == 0 {
        return Err(MapError::Empty { start: span.start });
    }
    if span.end().0 > 1 << FRAME_BITS || span.pages >= 1 << 32 {
        return Err(MapError::TooLarge { start: span.start, pages: span.pages });
    }
    for (i, range) in zone.ranges.iter().enumerate() {
        if range.pages == 0 {
            return Err(MapError::Empty { start: range.start });
        }
        if range.start < span.start || range.end() > span.end() {
            return Err(MapError::OutsideSpan { start: range.start });
        }
        if let Some(other) = zone.ranges[..i].iter().find(|other| range.overlaps(other)) {
            return Err(MapError::Overlap { start: range.start, other: other.start });
        }
    }
    Ok(())
}

fn check_neighbours(zone: &ZoneSpec<'_>, other: &ZoneSpec<'_>) -> Result<(), MapError> {
    if zone.span.overlaps(&other.span) {
        return Err(MapError::Overlap { start: zone.span.start, other: other.span.start });
    }
    // A pageblock has one type and one lock.
    let (first, second) = if zone.span.start < other.span.start { (other, zone) } else { (zone, other) };
    let (lower, upper) = (second.span, first.span);
    let pageblock = Order::PAGEBLOCK;
    if Pfn(lower.end().0 - 1).align_down(pageblock) == upper.start.align_down(pageblock) {
        return Err(MapError::Unaligned { start: upper.start, multiple_bytes: pageblock.pages() * Pfn::PAGE_BYTES });
    }
    Ok(())
}
