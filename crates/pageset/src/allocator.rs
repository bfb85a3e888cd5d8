//! The allocator: what a kernel, a program or a simulator calls.

use crate::config::{Config, MapError, Metadata, PageRange, ZoneLayout, check_fraction};
use crate::error::{AllocError, FreeError, WrongFree};
use crate::fallback::{Mode, Wanted};
use crate::frame::{CpuId, Order, PageState, Pfn, Tag};
use crate::list::Links;
use crate::machine::Machine;
use crate::migrate::MigrateType;
use crate::node;
use crate::pcp::{FromCache, LISTS};
use crate::tuning::sizes::ZoneSize;
use crate::tuning::{Bounds, HighRule, ListRule, PcpState, Tuning, Watermarks};
use crate::word::Held;
use crate::zone::{Frames, MarkTest, NodeId, Path, Zone, ZoneKind};

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Kernel default: one page of a higher zone keeps this many of its pages from the requests that could be served
/// there. By [`ZoneKind`]; 0 keeps none. Specification 1.2.
const LOWMEM_RATIOS: [u64; ZoneKind::COUNT] = [256, 256, 32, 0];

/// A drain grows while it is less than the largest high, which is 2^28 pages. Unit: power of two.
const MAX_FREE_FACTOR: u8 = crate::tuning::sizes::MAX_HIGH.ilog2() as u8;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The size of the block.
    pub order: Order,
    /// The kind of use: one of the three ordinary types.
    pub migratetype: MigrateType,
    /// The highest zone that may serve it. Specification 1.1, "Zone selection".
    pub highest: ZoneKind,
    /// The node to begin at; that of the caller's CPU where none is given.
    pub node: Option<NodeId>,
    /// Whether only that node may serve it.
    pub this_node_only: bool,
    /// The only zone that may serve it, by its number in the map; any where none is given.
    pub zone: Option<usize>,
    /// Whether it may go below the min mark by half.
    pub high_priority: bool,
    /// Whether the caller cannot wait, which with `high_priority` gives it another quarter.
    pub non_blocking: bool,
    /// Whether the marks count at all; off for the memory that frees memory.
    pub watermarks: bool,
    /// Whether CMA pageblocks may serve it.
    pub cma: bool,
}

impl Request {
    /// An ordinary request: movable pages from every zone, others from NORMAL down.
    #[must_use]
    pub const fn new(order: Order, migratetype: MigrateType) -> Self {
        let movable = matches!(migratetype, MigrateType::Movable);
        Request {
            order,
            migratetype,
            highest: if movable { ZoneKind::Movable } else { ZoneKind::Normal },
            node: None,
            this_node_only: false,
            zone: None,
            high_priority: false,
            non_blocking: false,
            watermarks: true,
            cma: movable,
        }
    }

    const fn wanted(&self) -> Wanted {
        Wanted { order: self.order, migratetype: self.migratetype, cma: self.cma }
    }

    const fn mark_test(&self) -> MarkTest {
        MarkTest {
            order: self.order,
            highest: self.highest,
            high_priority: self.high_priority,
            non_blocking: self.non_blocking,
            cma: self.cma,
        }
    }
}

/// A block: its first page and its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Block {
    /// The first page.
    pub pfn: Pfn,
    /// The order.
    pub order: Order,
}

/// A page allocator over caller-provided metadata.
///
/// Safe for use by many threads at once: one lock a zone, one a pageset, which is only ever tried by `alloc` and
/// `free`; where it is busy they go to the buddy. Lock order: pageset, then zone.
#[derive(Debug)]
pub struct Allocator<'a, M: Machine> {
    pub(crate) machine: M,
    pub(crate) zones: &'a [Zone<'a, M>],
    /// A row of zone indices for each node.
    zonelists: &'a [AtomicU32],
    pub(crate) tuning: Tuning,
    rules: Rules<'a>,
}

/// What the sizes are computed from again when something changes.
#[derive(Debug)]
struct Rules<'a> {
    cpus: &'a [NodeId],
    watermarks: crate::tuning::sizes::WatermarkRule,
    cache_slice_pages: u64,
    /// The administrator's fraction. Relaxed: read when bounds are computed, which is rare and idempotent.
    fraction: AtomicU32,
}

/// Cuts the front off a slice; short of it, all there is.
fn cut<'a, T>(rest: &mut &'a [T], len: usize) -> &'a [T] {
    let (front, back) = rest.split_at(len.min(rest.len()));
    *rest = back;
    front
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Builds an allocator and brings the map's ranges online. Writes only the heads of their largest blocks.
    ///
    /// # Errors
    /// What is wrong with the map, the rules or the size of the metadata; nothing has been written then.
    pub fn new(machine: M, config: &Config<'a>, metadata: Metadata<'a, M>) -> Result<Self, MapError> {
        let size = config.metadata_size()?;
        check_len("tags", metadata.tags.len(), size.tags)?;
        check_len("words", metadata.words.len(), size.words)?;
        check_len("pagesets", metadata.pagesets.len(), size.pagesets)?;
        check_len("zones", metadata.zones.len(), size.zones)?;

        let (mut tags, mut words, mut pagesets) = (metadata.tags, metadata.words, metadata.pagesets);
        let zonelists = cut(&mut words, config.nodes() * config.zones.len());
        node::build(config, zonelists);
        for (index, (zone, spec)) in metadata.zones.iter_mut().zip(config.zones).enumerate() {
            let ZoneLayout { base, tags: pages, types, links, capacity, array } = config.layout(spec)?;
            zone.index = index;
            zone.node = spec.node;
            zone.kind = spec.kind;
            zone.frames = Frames {
                base,
                first: (spec.span.start.0 - base.0) as u32,
                end: (spec.span.end().0 - base.0) as u32,
                tags: cut(&mut tags, pages),
                types: cut(&mut tags, types),
                links: Links(cut(&mut words, links)),
            };
            zone.arrays = cut(&mut words, array * config.cpus.len());
            zone.pagesets = cut(&mut pagesets, config.cpus.len());
            for (cpu, pageset) in zone.pagesets.iter().enumerate() {
                pageset.place((cpu * array) as u32, capacity);
            }
        }
        let rules = Rules {
            cpus: config.cpus,
            watermarks: config.watermarks,
            cache_slice_pages: config.cache_slice_pages,
            fraction: AtomicU32::new(config.high_fraction),
        };
        let allocator = Allocator { machine, zones: metadata.zones, zonelists, tuning: config.tuning, rules };
        for (zone, spec) in allocator.zones.iter().zip(config.zones) {
            for range in spec.ranges {
                let _guard = zone.lock(&allocator.machine, Path::DirectFree);
                zone.online(
                    &allocator.machine,
                    &allocator.tuning,
                    (range.start.0 - zone.frames.base.0) as u32,
                    range.pages,
                );
            }
        }
        allocator.recompute();
        Ok(allocator)
    }

    /// The machine it runs on.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The rules it runs under.
    pub fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// How many zones there are; they are numbered as in the map.
    #[must_use]
    pub fn zone_count(&self) -> usize {
        self.zones.len()
    }

    /// The zone whose span a page lies in.
    #[must_use]
    pub fn zone_of(&self, pfn: Pfn) -> Option<usize> {
        self.zones.iter().position(|zone| zone.frames.page(pfn).is_some())
    }

    /// Takes a block. It goes through the caller's pageset where its order is cached.
    ///
    /// Tries the low marks first, then the min marks. Specification 1.7, 2.3.
    ///
    /// # Errors
    /// A request that cannot be had, or no memory above the marks.
    #[inline]
    pub fn alloc(&self, request: &Request) -> Result<Pfn, AllocError> {
        let cpu = self.machine.cpu();
        self.walk(request, cpu, |zone| self.take(zone, cpu, request, false).map(|page| zone.frames.pfn(page)))
    }

    /// Takes single pages into `pages`, as many as can be had; returns how many.
    ///
    /// From the pageset like [`Self::alloc`] and with its refills, but consecutive frees go on counting as such.
    /// Specification 2.3, step 2.
    ///
    /// # Errors
    /// As [`Self::alloc`], when not even one page was to be had; an order above 0.
    pub fn alloc_bulk(&self, request: &Request, pages: &mut [Pfn]) -> Result<usize, AllocError> {
        if request.order > Order::ZERO {
            return Err(AllocError::BulkOrder(request.order));
        }
        let cpu = self.machine.cpu();
        let mut got = 0;
        while got < pages.len() {
            let one =
                self.walk(request, cpu, |zone| self.take(zone, cpu, request, true).map(|page| zone.frames.pfn(page)));
            match one {
                Ok(pfn) => pages[got] = pfn,
                Err(error) if got == 0 => return Err(error),
                Err(_) => break,
            }
            got += 1;
        }
        Ok(got)
    }

    /// Walks the zonelist, first at the low marks, then at the min marks. Specification 1.7, 4.8.
    #[inline]
    fn walk(
        &self,
        request: &Request,
        cpu: CpuId,
        take: impl Fn(&Zone<'a, M>) -> Option<Pfn>,
    ) -> Result<Pfn, AllocError> {
        if !request.migratetype.is_ordinary() {
            return Err(AllocError::Migratetype(request.migratetype));
        }
        let node = request.node.unwrap_or_else(|| self.rules.cpus[cpu.0 as usize]);
        let zones = self.zones.len();
        let Some(row) = self.zonelists.get(node.0 as usize * zones..(node.0 as usize + 1) * zones) else {
            return Err(AllocError::Node(node));
        };
        let allowed = |zone: &&Zone<'a, M>| {
            zone.kind <= request.highest
                && !(request.this_node_only && zone.node != node)
                && request.zone.is_none_or(|only| zone.index == only)
        };
        let list = || row.iter().map(|index| &self.zones[index.get() as usize]).filter(allowed);
        for low in [true, false] {
            for zone in list() {
                if self.may_take(zone, request, low)
                    && let Some(pfn) = take(zone)
                {
                    return Ok(pfn);
                }
            }
        }
        if list().next().is_none() {
            return Err(AllocError::Node(node));
        }
        Err(AllocError::OutOfMemory { order: request.order, free_pages: list().map(Zone::free).sum() })
    }

    /// Whether a zone's marks let it serve a request.
    #[inline]
    fn may_take(&self, zone: &Zone<'a, M>, request: &Request, low: bool) -> bool {
        let test = request.mark_test();
        let marks = zone.watermarks();
        if self.tuning.below_high && !zone.pressure().below_high {
            if zone.passes(marks.high, &test) {
                return true;
            }
            zone.set_below_high(true);
        }
        !request.watermarks || zone.passes(if low { marks.low } else { marks.min }, &test)
    }

    /// Takes a block from a zone, through the pageset or past it. Specification 2.3.
    #[inline]
    fn take(&self, zone: &Zone<'a, M>, cpu: CpuId, request: &Request, bulk: bool) -> Option<u32> {
        let (machine, tuning, wanted) = (&self.machine, &self.tuning, request.wanted());
        if let Some(list) = tuning.lists.list(wanted.order, wanted.migratetype) {
            match zone.alloc_cached(machine, tuning, cpu, list, wanted, bulk) {
                FromCache::Page(page) => return Some(page),
                // Before 5.14 a refill that failed was the zone's answer. Specification 2.3.
                FromCache::Empty if tuning.lists == ListRule::OrderZero => return None,
                FromCache::Empty | FromCache::Busy => {}
            }
        }
        self.take_direct(zone, wanted)
    }

    #[cold]
    fn take_direct(&self, zone: &Zone<'a, M>, wanted: Wanted) -> Option<u32> {
        let _guard = zone.lock(&self.machine, Path::DirectAlloc);
        let page = zone.take(&self.machine, &self.tuning, wanted, &mut Mode::default())?;
        zone.frames.set_tag(page, Tag::new(PageState::Allocated, wanted.order, wanted.migratetype));
        crate::word::add(&zone.direct_alloc_pages, wanted.order.pages());
        Some(page)
    }

    /// Gives a block back, through the caller's pageset where its order is cached. Specification 2.5.
    ///
    /// # Errors
    /// A wrong free; nothing has changed. Two threads that free the same block at the same instant are not told
    /// apart: that would take an atomic exchange on each free.
    #[inline]
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let (zone, page) = self.prepare_free(pfn, order)?;
        self.commit_free(zone, page, order, true);
        Ok(())
    }

    /// Gives a block back without ever waiting for, or working under, a zone lock, unless the pageset is busy or
    /// full: for callers that may have interrupted anything. The pageset drains at a later free.
    /// Specification 4.11, last paragraph.
    ///
    /// # Errors
    /// As [`Self::free`].
    pub fn free_undrained(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let (zone, page) = self.prepare_free(pfn, order)?;
        self.commit_free(zone, page, order, false);
        Ok(())
    }

    /// Gives a block straight to the buddy, past the pageset: what [`Self::free`] does where the pageset is busy, and
    /// right for pages that nobody will want soon. Holds the zone lock.
    ///
    /// # Errors
    /// As [`Self::free`].
    pub fn free_direct(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let (zone, page) = self.prepare_free(pfn, order)?;
        self.give_to_buddy(zone, page, order);
        Ok(())
    }

    /// Gives many blocks back: all are checked first, then freed in order, so that none comes back to a pageset before
    /// all have been seen. Specification 2.5, "Batched free"; each block takes the pageset's lock for itself, which
    /// moves the same pages.
    ///
    /// # Errors
    /// The first wrong one; none has been freed then.
    pub fn free_bulk(&self, blocks: &[Block]) -> Result<(), FreeError> {
        for (i, block) in blocks.iter().enumerate() {
            if let Err(error) = self.prepare_free(block.pfn, block.order) {
                for done in &blocks[..i] {
                    if let Some((zone, page)) = self.locate(done.pfn) {
                        zone.frames.set_tag(page, zone.frames.tag(page).with_state(PageState::Allocated));
                    }
                }
                return Err(error);
            }
        }
        for block in blocks {
            if let Some((zone, page)) = self.locate(block.pfn) {
                self.commit_free(zone, page, block.order, true);
            }
        }
        Ok(())
    }

    fn locate(&self, pfn: Pfn) -> Option<(&'a Zone<'a, M>, u32)> {
        self.zones.iter().find_map(|zone| Some((zone, zone.frames.page(pfn)?)))
    }

    /// Where an allocated block of this order begins.
    #[inline]
    fn allocated(&self, pfn: Pfn, order: Order) -> Result<(&'a Zone<'a, M>, u32), FreeError> {
        let Some((zone, page)) = self.locate(pfn) else {
            return Err(FreeError { pfn, order, reason: WrongFree::NotOurs });
        };
        let tag = zone.frames.tag(page);
        if !pfn.is_aligned(order) || !tag.is(PageState::Allocated, order) {
            return Err(FreeError { pfn, order, reason: why_wrong(zone, pfn, page, order) });
        }
        Ok((zone, page))
    }

    /// Checks a free and turns the block's tag to Cached, so that a second free of it is seen.
    #[inline]
    fn prepare_free(&self, pfn: Pfn, order: Order) -> Result<(&'a Zone<'a, M>, u32), FreeError> {
        let (zone, page) = self.allocated(pfn, order)?;
        zone.frames.set_tag(page, zone.frames.tag(page).with_state(PageState::Cached));
        Ok((zone, page))
    }

    #[inline]
    fn commit_free(&self, zone: &Zone<'a, M>, page: u32, order: Order, drain: bool) {
        let (machine, tuning) = (&self.machine, &self.tuning);
        let migratetype = zone.frames.block_type(page);
        if migratetype != MigrateType::Isolate
            && let Some(list) = tuning.lists.list(order, migratetype)
        {
            zone.frames.set_tag(page, Tag::new(PageState::Cached, order, migratetype));
            if zone.free_cached(machine, tuning, machine.cpu(), list, page, drain) {
                return;
            }
        }
        self.give_to_buddy(zone, page, order);
    }

    #[cold]
    fn give_to_buddy(&self, zone: &Zone<'a, M>, page: u32, order: Order) {
        let _guard = zone.lock(&self.machine, Path::DirectFree);
        // The type is read under the lock: the pageblock may just have got another.
        zone.free_block(&self.machine, &self.tuning, page, order, zone.frames.block_type(page));
        crate::word::add(&zone.direct_free_pages, order.pages());
    }

    /// Turns an allocated block into allocated blocks of a smaller order, to be freed one by one.
    ///
    /// # Errors
    /// As for freeing it, and when `to` is larger than `order`.
    pub fn split(&self, pfn: Pfn, order: Order, to: Order) -> Result<(), FreeError> {
        let (zone, page) = self.allocated(pfn, order)?;
        if to > order {
            return Err(FreeError { pfn, order: to, reason: WrongFree::WrongOrder(order) });
        }
        let kind = zone.frames.tag(page).kind().unwrap_or(MigrateType::Movable);
        for at in (page..page + order.pages() as u32).step_by(to.pages() as usize) {
            zone.frames.set_tag(at, Tag::new(PageState::Allocated, to, kind));
        }
        Ok(())
    }

    /// Gives the pageblock of a page another type and moves its free blocks to that type's lists. A free block
    /// that reaches beyond the pageblock is split.
    ///
    /// # Errors
    /// The page is in no zone.
    pub fn set_pageblock_type(&self, pfn: Pfn, migratetype: MigrateType) -> Result<(), FreeError> {
        let Some((zone, page)) = self.locate(pfn) else {
            return Err(FreeError { pfn, order: Order::PAGEBLOCK, reason: WrongFree::NotOurs });
        };
        let _guard = zone.lock(&self.machine, Path::DirectFree);
        let start = page & !(Order::PAGEBLOCK.pages() as u32 - 1);
        zone.change_type(&self.machine, &self.tuning, start, migratetype);
        Ok(())
    }

    /// The type of the pageblock that a page lies in, if it is in a zone.
    #[must_use]
    pub fn pageblock_type(&self, pfn: Pfn) -> Option<MigrateType> {
        self.locate(pfn).map(|(zone, page)| zone.frames.block_type(page))
    }

    /// The caller's CPU, all zones: a second has passed. True when another tick has more to do. Specification 8.2.
    pub fn tick(&self) -> bool {
        let cpu = self.machine.cpu();
        self.zones.iter().fold(false, |more, zone| zone.tick(&self.machine, &self.tuning, cpu) | more)
    }

    /// As [`Self::tick`], for one zone by its number.
    pub fn tick_zone(&self, zone: usize) -> bool {
        self.zones[zone].tick(&self.machine, &self.tuning, self.machine.cpu())
    }

    /// Empties the caller's pagesets of all zones.
    pub fn drain(&self) {
        let cpu = self.machine.cpu();
        self.zones.iter().for_each(|zone| zone.drain_cpu(&self.machine, &self.tuning, cpu));
    }

    /// Empties all pagesets of all zones, each under its lock. Specification 8.1.
    pub fn drain_all(&self) {
        for zone in self.zones {
            for cpu in 0..zone.pagesets.len() {
                zone.drain_cpu(&self.machine, &self.tuning, CpuId(cpu as u32));
            }
        }
    }

    /// Sets the fraction of each zone that all its pagesets may hold: 8 or more; 0 goes back to the rules. High
    /// then no longer tunes itself. Specification 2.2.
    ///
    /// # Errors
    /// A fraction of 1 to 7, or one that the pagesets have no room for; the old one stays.
    pub fn set_high_fraction(&self, fraction: u32) -> Result<(), MapError> {
        check_fraction(fraction)?;
        for zone in self.zones {
            let asked = self.tuning.bounds(self.zone_size(zone), fraction).high_max;
            let capacity = zone.pagesets.first().map_or(0, |p| p.capacity());
            if fraction > 0 && asked > capacity {
                return Err(MapError::Capacity { asked, capacity });
            }
        }
        self.rules.fraction.store(fraction, Relaxed);
        self.recompute_bounds();
        Ok(())
    }

    /// Brings more pages online. Watermarks and bounds are computed again.
    ///
    /// # Errors
    /// A range that is empty, in no zone's span, or online already; nothing has changed then.
    pub fn online(&self, range: PageRange) -> Result<(), MapError> {
        if range.pages == 0 {
            return Err(MapError::Empty { start: range.start });
        }
        let Some((zone, page)) = self.locate(range.start) else {
            return Err(MapError::OutsideSpan { start: range.start });
        };
        if range.pages > u64::from(zone.frames.end - page) {
            return Err(MapError::OutsideSpan { start: range.start });
        }
        {
            let _guard = zone.lock(&self.machine, Path::DirectFree);
            if let Some(known) = zone.first_known(page, range.pages) {
                return Err(MapError::Overlap { start: range.start, other: zone.frames.pfn(known) });
            }
            zone.online(&self.machine, &self.tuning, page, range.pages);
        }
        self.recompute();
        Ok(())
    }

    fn zone_size(&self, zone: &Zone<'a, M>) -> ZoneSize {
        let local = self.rules.cpus.iter().filter(|node| **node == zone.node).count();
        let cpus = if local == 0 { self.rules.cpus.len() } else { local };
        ZoneSize { managed: zone.managed.get(), low: zone.watermarks().low, cpus: cpus as u32 }
    }

    /// Computes watermarks, reserves and bounds from what is managed now. Specification 1.2.
    pub fn recompute(&self) {
        let is_lowmem = |zone: &&Zone<'a, M>| zone.kind != ZoneKind::Movable;
        let lowmem = self.zones.iter().filter(is_lowmem).map(|zone| zone.managed.get()).sum();
        let populated = self.zones.iter().filter(is_lowmem).filter(|zone| zone.managed.get() > 0).count();
        let rule = &self.rules.watermarks;
        let reserve = rule.reserve_kib(lowmem, populated as u64);
        for zone in self.zones {
            let movable = zone.kind == ZoneKind::Movable;
            zone.set_watermarks(rule.marks(reserve, zone.managed.get(), lowmem, movable));
            for highest in ZoneKind::ALL {
                zone.reserve[highest.index()].set(self.lowmem_reserve(zone, highest));
            }
        }
        self.recompute_bounds();
    }

    /// Pages of a zone that requests with a higher highest zone leave alone. Specification 1.2.
    fn lowmem_reserve(&self, zone: &Zone<'a, M>, highest: ZoneKind) -> u64 {
        let ratio = LOWMEM_RATIOS[zone.kind.index()];
        let above = self.zones.iter().filter(|z| z.node == zone.node && z.kind > zone.kind && z.kind <= highest);
        above.map(|z| z.managed.get()).sum::<u64>().checked_div(ratio).unwrap_or(0)
    }

    fn recompute_bounds(&self) {
        // Relaxed: see the field.
        let fraction = self.rules.fraction.load(Relaxed);
        for zone in self.zones {
            self.set_bounds_of(zone, self.tuning.bounds(self.zone_size(zone), fraction));
        }
    }

    fn set_bounds_of(&self, zone: &Zone<'a, M>, bounds: Bounds) {
        let large_cache = Tuning::large_cache(self.rules.cache_slice_pages, bounds.batch);
        for pageset in zone.pagesets {
            // Watermarks far above the usual may ask for more than the pagesets were built for.
            let room = pageset.capacity();
            let bounds = Bounds { high_min: bounds.high_min.min(room), high_max: bounds.high_max.min(room), ..bounds };
            let _guard = pageset.lock();
            pageset.set_bounds(bounds, self.tuning.auto_high, large_cache);
        }
    }

    /// Sets a zone's marks and reserves by hand, until the next time they are computed.
    pub fn set_watermarks(&self, zone: usize, marks: Watermarks, reserve: [u64; ZoneKind::COUNT]) {
        let zone = &self.zones[zone];
        zone.set_watermarks(marks);
        for (word, pages) in zone.reserve.iter().zip(reserve) {
            word.set(pages);
        }
    }

    /// Sets batch and the bounds of high for a zone's pagesets by hand, until the next time they are computed.
    /// With equal bounds nothing tunes high; that is how auto-tuning is switched off.
    ///
    /// # Errors
    /// An upper bound below the lower one, a batch of 0, or either beyond the pagesets' room.
    pub fn set_bounds(&self, zone: usize, bounds: Bounds) -> Result<(), MapError> {
        let zone = &self.zones[zone];
        let capacity = zone.pagesets.first().map_or(0, |p| p.capacity());
        let asked = bounds.high_max.max(bounds.batch);
        if asked > capacity {
            return Err(MapError::Capacity { asked, capacity });
        }
        let by_hand = Tuning {
            batch: crate::tuning::BatchRule::Fixed(bounds.batch),
            high: HighRule::Fixed { min: bounds.high_min, max: bounds.high_max },
            ..self.tuning
        };
        by_hand.check().map_err(MapError::Tuning)?;
        self.set_bounds_of(zone, bounds);
        Ok(())
    }

    /// The state of one pageset.
    #[must_use]
    pub fn pageset_state(&self, zone: usize, cpu: CpuId) -> PcpState {
        self.zones[zone].pagesets[cpu.0 as usize].state()
    }

    /// Gives a pageset a remembered state, as when a saved machine is restored. What it holds, its batch and its
    /// bounds stay. Values that no pageset can reach are brought down to the largest that it can.
    pub fn restore_pageset(&self, zone: usize, cpu: CpuId, state: &PcpState) {
        let pageset = &self.zones[zone].pagesets[cpu.0 as usize];
        let _guard = pageset.lock();
        let scale = self.tuning.batch_scale_max;
        let most = pageset.batch() << scale;
        pageset.set_state(&PcpState {
            count: pageset.count(),
            high: state.high.min(pageset.capacity()),
            free_count: state.free_count.min(most + Order::PAGEBLOCK.pages() as u32 - 1),
            alloc_factor: state.alloc_factor.min(scale),
            free_factor: state.free_factor.min(if self.tuning.scale_cap { scale } else { MAX_FREE_FACTOR }),
            ..*state
        });
    }

    /// Blocks on each list of a pageset. Waits for its lock.
    #[must_use]
    pub fn pageset_lists(&self, zone: usize, cpu: CpuId) -> [u32; LISTS] {
        let zone = &self.zones[zone];
        let pageset = &zone.pagesets[cpu.0 as usize];
        let _guard = pageset.lock();
        core::array::from_fn(|list| pageset.len(zone.arrays, list))
    }

    /// Says that reclaim works on a zone, or has ended. Specification 4.11.
    pub fn set_reclaim_active(&self, zone: usize, on: bool) {
        self.zones[zone].set_reclaim_active(on);
    }

    /// Says whether an allocation found a zone below its high mark. Specification 4.8.
    pub fn set_below_high(&self, zone: usize, on: bool) {
        self.zones[zone].set_below_high(on);
    }
}

fn check_len(part: &'static str, given: usize, expected: usize) -> Result<(), MapError> {
    if given == expected { Ok(()) } else { Err(MapError::Metadata { part, given, expected }) }
}

/// Says why a block cannot be freed.
#[cold]
fn why_wrong<M: Machine>(zone: &Zone<'_, M>, pfn: Pfn, page: u32, order: Order) -> WrongFree {
    if !pfn.is_aligned(order) {
        return WrongFree::Misaligned;
    }
    let tag = zone.frames.tag(page);
    match tag.state() {
        PageState::Allocated => WrongFree::WrongOrder(tag.order()),
        PageState::Inside => match zone.block_around(page) {
            Some((head, order, state)) => WrongFree::Inside { head: zone.frames.pfn(head), order, state },
            None => WrongFree::NotAllocated(PageState::Inside),
        },
        state => WrongFree::NotAllocated(state),
    }
}
