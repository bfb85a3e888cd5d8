//! The allocator: what a kernel, a program or a simulator calls.

pub(crate) mod attempt;
mod bulk;
pub mod config;
pub mod error;
mod fast;
pub(crate) mod general;
#[cfg(feature = "alloc")]
pub mod owned;
pub mod request;
pub mod shortage;
mod slow;
mod zonelist;

use core::sync::atomic::AtomicU32;

use self::fast::LIST_TABLE;
use crate::admin::cpus::CpuSet;
use crate::alloc::config::{Config, MapError, Metadata, ZoneLayout};
use crate::alloc::error::{AllocError, FreeError, WrongFree};
use crate::alloc::request::Request;
use crate::frame::Links;
use crate::frame::MigrateType;
use crate::frame::{Frames, NodeId, ZoneKind};
use crate::frame::{Order, PageState, Pfn, Tag};
use crate::history::cluster::Clusters;
use crate::machine::{Guard, Hint, LockPath, Machine};
use crate::policy::Tuning;
use crate::sync::atomic::AtomicBool;
use crate::zone::Zone;

/// A page allocator over caller-provided metadata.
///
/// Safe for use by many threads at once: one lock a zone, one a pageset, which is only ever tried by `alloc` and
/// `free`; where it is busy they go to the buddy. Lock order: the one of changes, then pageset, then zone.
#[derive(Debug)]
pub struct Allocator<'a, M: Machine> {
    pub(crate) machine: M,
    pub(crate) zones: &'a [Zone<'a, M>],
    /// A row of zone indices for each node.
    pub(crate) zonelists: &'a [AtomicU32],
    /// A row for each CPU: by [`ZoneKind`] the first zone that a request for at most that kind tries.
    pub(crate) first_zones: &'a [AtomicU32],
    /// By [`ZoneKind`] the same zone where that is one for all CPUs.
    pub(crate) fronts: [Option<&'a Zone<'a, M>>; ZoneKind::COUNT],
    /// The zone that a freed block is first looked for in, if the fast path knows the rules.
    pub(crate) home: Option<&'a Zone<'a, M>>,
    /// See [`crate::alloc::fast`].
    pub(crate) lists: [u8; LIST_TABLE],
    pub(crate) tuning: Tuning,
    pub(crate) rules: Rules<'a>,
    /// Held while something that sizes are computed from changes and they are computed anew, so that the last change is
    /// what they end up with.
    pub(crate) changes: M::Lock,
    /// Whether the pagesets of all CPUs are being emptied.
    pub(crate) draining: AtomicBool,
}

/// What the sizes are computed from again when something changes.
#[derive(Debug)]
pub(crate) struct Rules<'a> {
    /// The node of each possible CPU.
    pub(crate) cpus: &'a [NodeId],
    /// Those that are online.
    pub(crate) online: CpuSet<'a>,
    pub(crate) watermarks: crate::policy::sizes::WatermarkRule,
    pub(crate) cache_slice_pages: u64,
    /// The administrator's fraction. Relaxed: read when bounds are computed, which is rare and idempotent.
    pub(crate) fraction: AtomicU32,
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
        zonelist::build(config, zonelists);
        let first_zones = cut(&mut words, config.cpus.len() * ZoneKind::COUNT);
        zonelist::build_firsts(config, zonelists, first_zones);
        let online = CpuSet::all(cut(&mut words, CpuSet::words(config.cpus.len())), config.cpus.len());
        for (index, (zone, spec)) in metadata.zones.iter_mut().zip(config.zones).enumerate() {
            let ZoneLayout { base, tags: pages, types, links, capacity, array, clusters, batch } =
                config.layout(spec)?;
            zone.index = index;
            zone.node = spec.node;
            zone.kind = spec.kind;
            zone.highatomic = config.tuning.highatomic;
            zone.boost_factor = config.watermarks.boost_factor;
            zone.frames = Frames {
                base,
                first: (spec.span.start.0 - base.0) as u32,
                end: (spec.span.end().0 - base.0) as u32,
                tags: cut(&mut tags, pages),
                types: cut(&mut tags, types),
                links: Links(cut(&mut words, links)),
            };
            zone.clusters = Clusters::new(cut(&mut words, clusters), pages, batch);
            zone.arrays = cut(&mut words, array * config.cpus.len());
            zone.pagesets = cut(&mut pagesets, config.cpus.len());
            for (cpu, pageset) in zone.pagesets.iter().enumerate() {
                pageset.place((cpu * array) as u32, capacity);
            }
        }
        let rules = Rules {
            cpus: config.cpus,
            online,
            watermarks: config.watermarks,
            cache_slice_pages: config.cache_slice_pages,
            fraction: AtomicU32::new(config.high_fraction),
        };
        let zones: &'a [Zone<'a, M>] = metadata.zones;
        let (fronts, home) = zonelist::fronts(zones, first_zones, &config.tuning);
        let allocator = Allocator {
            machine,
            zones,
            zonelists,
            first_zones,
            fronts,
            home,
            lists: fast::list_table(config.tuning.lists),
            tuning: config.tuning,
            rules,
            changes: M::Lock::default(),
            draining: AtomicBool::new(false),
        };
        for (zone, spec) in allocator.zones.iter().zip(config.zones) {
            for range in spec.ranges {
                let _guard = zone.lock(&allocator.machine, LockPath::Map);
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
    /// Tries the low marks first, then the min marks with the rights of the request. It calls nobody for pages:
    /// [`Self::alloc_with`] does. Specification 1.7, 2.3.
    ///
    /// # Errors
    /// A request that cannot be had, or no memory above the marks.
    #[inline]
    pub fn alloc(&self, request: &Request) -> Result<Pfn, AllocError> {
        match self.alloc_hot(request, Hint::of(&self.machine)) {
            Some(pfn) => Ok(pfn),
            None => self.alloc_generally(request),
        }
    }

    /// As [`Self::alloc`], for a caller whom [`Self::alloc_hot`] gave nothing, or would give nothing.
    ///
    /// # Errors
    /// As there.
    #[cold]
    #[inline(never)]
    pub fn alloc_generally(&self, request: &Request) -> Result<Pfn, AllocError> {
        let cpu = self.machine.cpu();
        if let Some(pfn) = self.take_first(request, cpu) {
            return Ok(pfn);
        }
        self.walk(request, cpu, |zone, attempt| {
            self.take(zone, cpu, request, attempt).map(|page| zone.frames.pfn(page))
        })
    }

    /// Gives a block back, through the caller's pageset where its order is cached. Specification 2.5.
    ///
    /// # Errors
    /// A wrong free; nothing has changed. Two threads that free the same block at the same instant are not told
    /// apart: that would take an atomic exchange on each free.
    #[inline]
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if self.free_hot(pfn, order, Hint::of(&self.machine)) { Ok(()) } else { self.free_generally(pfn, order) }
    }

    /// As [`Self::free`], for a caller whose block [`Self::free_hot`] did not take.
    ///
    /// # Errors
    /// As there.
    #[cold]
    #[inline(never)]
    pub fn free_generally(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let (zone, page, _) = self.allocated(pfn, order)?;
        self.commit_free(zone, page, order, true);
        Ok(())
    }

    /// Gives a block back and drains nothing: for a caller that must not hold a zone lock for long. The pageset drains at a
    /// later free. Where it is busy or full or may keep nothing, the block goes straight to the buddy, under the zone lock;
    /// so this is not for one that may have interrupted a holder of one of its locks, which would wait for itself.
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

    /// Takes the lock of changes.
    pub(crate) fn change(&self) -> Guard<'_, M::Lock> {
        Guard::lock(&self.changes)
    }

    pub(crate) fn locate(&self, pfn: Pfn) -> Option<(&'a Zone<'a, M>, u32)> {
        self.zones.iter().find_map(|zone| Some((zone, zone.frames.page(pfn)?)))
    }

    /// Where an allocated block of this order begins.
    #[inline]
    fn allocated(&self, pfn: Pfn, order: Order) -> Result<(&'a Zone<'a, M>, u32, Tag), FreeError> {
        let Some((zone, page)) = self.locate(pfn) else {
            return Err(FreeError { pfn, order, reason: WrongFree::NotOurs });
        };
        let tag = zone.frames.tag(page);
        // Blocks are aligned, so an order that does not fit the page is no block's there.
        if !tag.is(PageState::Allocated, order) {
            return Err(FreeError { pfn, order, reason: why_wrong(zone, pfn, page, order) });
        }
        Ok((zone, page, tag))
    }

    /// Checks a free and turns the block's tag to Cached, so that a second free of it is seen.
    #[inline]
    pub(crate) fn prepare_free(&self, pfn: Pfn, order: Order) -> Result<(&'a Zone<'a, M>, u32), FreeError> {
        let (zone, page, tag) = self.allocated(pfn, order)?;
        zone.frames.set_tag(page, tag.with_state(PageState::Cached));
        Ok((zone, page))
    }

    #[inline]
    fn commit_free(&self, zone: &Zone<'a, M>, page: u32, order: Order, drain: bool) {
        let (machine, tuning) = (&self.machine, &self.tuning);
        if let Some(list) = self.list_for(zone, page, order)
            && zone.free_cached(machine, tuning, machine.cpu(), list, page, order, drain)
        {
            return;
        }
        self.give_to_buddy(zone, page, order);
    }

    /// The list that a block to be freed goes to, tagged for it; nothing where it goes to the buddy.
    #[inline]
    pub(crate) fn list_for(&self, zone: &Zone<'a, M>, page: u32, order: Order) -> Option<usize> {
        let migratetype = zone.frames.block_type(page);
        if migratetype == MigrateType::Isolate {
            return None;
        }
        let list = self.tuning.lists.list(order, migratetype)?;
        zone.frames.set_tag(page, Tag::new(PageState::Cached, order, migratetype));
        Some(list)
    }

    #[cold]
    pub(crate) fn give_to_buddy(&self, zone: &Zone<'a, M>, page: u32, order: Order) {
        let _guard = zone.lock(&self.machine, LockPath::DirectFree);
        // The type is read under the lock: the pageblock may just have got another.
        zone.free_block(&self.machine, &self.tuning, page, order, zone.frames.block_type(page));
        crate::sync::add(&zone.direct_free_pages, order.pages());
    }

    /// Turns an allocated block into allocated blocks of a smaller order, to be freed one by one.
    ///
    /// # Errors
    /// As for freeing it, and when `to` is larger than `order`.
    pub fn split(&self, pfn: Pfn, order: Order, to: Order) -> Result<(), FreeError> {
        let (zone, page, tag) = self.allocated(pfn, order)?;
        if to > order {
            return Err(FreeError { pfn, order: to, reason: WrongFree::WrongOrder(order) });
        }
        let kind = tag.kind().unwrap_or(MigrateType::Movable);
        // From the end, so that one who looks meanwhile finds each page in a block.
        for at in (page..page + order.pages() as u32).step_by(to.pages() as usize).rev() {
            zone.frames.set_tag(at, Tag::new(PageState::Allocated, to, kind));
        }
        Ok(())
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
