//! The fast path: a block taken from a pageset or given to one where that is all there is to do.
//!
//! What the general path asks of rules, marks and state is asked here of a few words that are kept for it: the zone's
//! flags say that it has plenty and is under no pressure and whether its pageblocks are all alike; a list's floor and the
//! ends of its chunks say that one word is read or written; the pageset's `calm` says that a free drains nothing and moves
//! no bound. Where one of them says otherwise nothing has changed, and the general path does all of it.
//! Specification: `linux-page-allocator.md` 2.3, 2.5, 4.11.

use core::sync::atomic::AtomicU8;

use crate::alloc::Allocator;
use crate::alloc::request::{Block, Request};
use crate::frame::MigrateType;
use crate::frame::ZoneKind;
use crate::frame::{CpuId, Order, PageState, Pfn, Tag};
use crate::machine::{Line, Machine, RawLock, Spot};
use crate::pcp::Pageset;
use crate::policy::{ListRule, Tuning};
use crate::sync::{self, Held};
use crate::zone::Zone;

/// Places in the table of lists: orders by types, in powers of two, so that an index needs no test.
pub(crate) const LIST_TABLE: usize = 64;
/// The tag of a plain page that is allocated, and that of one in a pageset.
const PLAIN: Tag = Tag::new(PageState::Allocated, Order::ZERO, MigrateType::Movable);
const PLAIN_CACHED: Tag = Tag::new(PageState::Cached, Order::ZERO, MigrateType::Movable);
/// Stands for no list.
const NO_LIST: u8 = u8::MAX;

/// The list of each order and ordinary type under a rule.
pub(crate) fn list_table(rule: ListRule) -> [u8; LIST_TABLE] {
    let mut table = [NO_LIST; LIST_TABLE];
    for order in Order::all() {
        for migratetype in &MigrateType::ALL[..MigrateType::PCP_COUNT] {
            if let Some(list) = rule.list(order, *migratetype) {
                table[4 * order.index() + migratetype.index()] = list as u8;
            }
        }
    }
    table
}

impl Tuning {
    /// Whether the fast path knows the rules: those of 6.7 and later. Others are followed on the general path only.
    pub(crate) fn has_fast_path(&self) -> bool {
        self.alloc_factor
            && self.free_count
            && self.drain_high_order
            && !self.count_min
            && !self.cma_skip
            && self.lists != ListRule::OrderZero
    }
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// As [`Self::alloc`] where a block from the pageset of the caller's spot is all that it takes; else nothing has
    /// changed. For callers that want this part inlined, and the rest behind a call.
    #[inline(always)]
    pub fn alloc_hot(&self, request: &Request, spot: impl Spot<M::Lock>) -> Option<Pfn> {
        let zone = self.front(request, spot.cpu())?;
        let list = self.list_of(request.order, request.migratetype)?;
        let pcp = self.hot_pageset(zone, spot.cpu())?;
        let page = {
            let _guard = pcp.try_lock_at(spot)?;
            let page = pcp.take_hot(zone, list, request.order)?;
            zone.frames.set_tag(page, Tag::new(PageState::Allocated, request.order, request.migratetype));
            page
        };
        Some(zone.frames.pfn(page))
    }

    /// Takes single pages from the caller's pageset of the zone that the request tries first, as many as its list has;
    /// returns how many: 0 where the general path has to do it.
    #[inline(always)]
    pub(crate) fn take_run_hot<T>(&self, request: &Request, pages: &mut [T], name: impl Fn(Pfn) -> T) -> usize {
        let cpu = self.machine.cpu_hint();
        let Some(zone) = self.front(request, cpu) else { return 0 };
        let Some(pcp) = self.pageset_by_hint(zone, cpu) else { return 0 };
        let list = request.migratetype.index();
        if pcp.list(list).is_empty() {
            return 0;
        }
        self.machine.touch(Line::Pageset { zone: zone.index, cpu: CpuId(cpu) });
        let Some(_guard) = pcp.try_lock(&self.machine, CpuId(cpu)) else { return 0 };
        zone.take_there(&self.tuning, pcp, list, request, pages, name)
    }

    /// The zone that a request from a CPU tries first, where that has plenty for it.
    #[inline(always)]
    fn front(&self, request: &Request, cpu: u32) -> Option<&'a Zone<'a, M>> {
        let ordinary = request.node.is_none() && request.zone.is_none() && !request.this_node_only;
        if !ordinary || !request.migratetype.is_ordinary() {
            return None;
        }
        let zone = match self.fronts[request.highest.index()] {
            Some(zone) => zone,
            None if self.home.is_some() => self.first_zone(cpu, request.highest)?,
            None => return None,
        };
        zone.has_plenty().then_some(zone)
    }

    /// As [`Self::free`] where the pageset of the caller's spot takes an allocated block of this order and no more is to do;
    /// false else, also for a wrong free: nothing has changed.
    #[inline(always)]
    #[must_use]
    pub fn free_hot(&self, pfn: Pfn, order: Order, spot: impl Spot<M::Lock>) -> bool {
        let Some((zone, page, tag)) = self.at_home(pfn) else { return false };
        if !Tag::from_byte(tag.get()).is(PageState::Allocated, order) {
            return false;
        }
        if zone.is_calm() {
            self.give_hot(zone, page, tag, order, MigrateType::Movable, spot)
        } else {
            self.give_mixed(zone, page, tag, order, spot)
        }
    }

    /// As the rest of [`Self::free_hot`], where the pageblock is to be asked for its type.
    #[inline(never)]
    fn give_mixed(
        &self,
        zone: &'a Zone<'a, M>,
        page: u32,
        tag: &AtomicU8,
        order: Order,
        spot: impl Spot<M::Lock>,
    ) -> bool {
        let migratetype = zone.frames.block_type(page);
        zone.is_calm_and_mixed()
            && migratetype.is_ordinary()
            && self.give_hot(zone, page, tag, order, migratetype, spot)
    }

    #[inline(always)]
    fn give_hot(
        &self,
        zone: &'a Zone<'a, M>,
        page: u32,
        tag: &AtomicU8,
        order: Order,
        migratetype: MigrateType,
        spot: impl Spot<M::Lock>,
    ) -> bool {
        let Some(list) = self.list_of(order, migratetype) else { return false };
        let Some(pcp) = self.hot_pageset(zone, spot.cpu()) else { return false };
        let Some(_guard) = pcp.try_lock_at(spot) else { return false };
        let given = pcp.give_hot(zone, list, page, order);
        if given {
            tag.set(Tag::new(PageState::Cached, order, migratetype).byte());
        }
        given
    }

    /// Checks blocks from the first on and turns their tags to Cached, as long as each is plain: a single movable page that
    /// is allocated, in the zone that is looked at first, whose pageblocks are all movable. Returns how many.
    #[inline(always)]
    pub(crate) fn prepare_plain<T>(&self, entries: &[T], block: impl Fn(&T) -> Block) -> usize {
        let Some(zone) = self.home.filter(|zone| zone.is_calm()) else { return 0 };
        let (tags, base) = (zone.frames.tags, zone.frames.base.0);
        let is_plain = |entry: &T| {
            let Block { pfn, order } = block(entry);
            let page = usize::try_from(pfn.0.wrapping_sub(base));
            let Some(tag) = page.ok().and_then(|page| tags.get(page)) else { return false };
            let is_plain = order == Order::ZERO && tag.get() == PLAIN.byte();
            if is_plain {
                tag.set(PLAIN_CACHED.byte());
            }
            is_plain
        };
        entries.iter().position(|entry| !is_plain(entry)).unwrap_or(entries.len())
    }

    /// Puts plain pages, whose tags are Cached, into the caller's pageset under one hold of its lock, as far as that drains
    /// nothing; returns how many: none where another thread holds it. Nothing where the general path has to do it.
    #[inline(always)]
    pub(crate) fn give_run_hot<T>(&self, entries: &[T], block: impl Fn(&T) -> Block) -> Option<usize> {
        let zone = self.home.filter(|zone| zone.is_calm())?;
        let cpu = self.machine.cpu_hint();
        let pcp = self.pageset_by_hint(zone, cpu)?;
        // A look ahead, so that a lock is not taken in vain.
        if pcp.calm_room() <= 1 {
            return None;
        }
        self.machine.touch(Line::Pageset { zone: zone.index, cpu: CpuId(cpu) });
        let Some(_guard) = pcp.try_lock(&self.machine, CpuId(cpu)) else { return Some(0) };
        let most = pcp.calm_room().saturating_sub(1).min(self.tuning.calm_run()).min(entries.len());
        let base = zone.frames.base.0;
        let page = |entry: &T| block(entry).pfn.0.wrapping_sub(base) as u32;
        let given = pcp.list(MigrateType::Movable.index()).push_all(zone.arrays, &pcp.pool, &entries[..most], page);
        pcp.note_given(given as u32);
        (given > 0).then_some(given)
    }

    /// A page of the zone that is looked at first, and its tag; one outside that zone's span has the tag of an inside.
    #[inline(always)]
    fn at_home(&self, pfn: Pfn) -> Option<(&'a Zone<'a, M>, u32, &'a AtomicU8)> {
        let zone = self.home?;
        let page = pfn.0.wrapping_sub(zone.frames.base.0);
        Some((zone, page as u32, zone.frames.tags.get(usize::try_from(page).ok()?)?))
    }

    /// The list of blocks of this order and ordinary type: [`ListRule::list`], looked up.
    #[inline(always)]
    fn list_of(&self, order: Order, migratetype: MigrateType) -> Option<usize> {
        if order == Order::ZERO {
            return Some(migratetype.index());
        }
        let list = self.lists[(4 * order.index() + migratetype.index()) % self.lists.len()];
        (list != NO_LIST).then_some(list as usize)
    }

    /// The pageset that is about to be tried.
    #[inline(always)]
    fn hot_pageset(&self, zone: &'a Zone<'a, M>, cpu: u32) -> Option<&'a Pageset<M::Lock>> {
        let pcp = self.pageset_by_hint(zone, cpu)?;
        self.machine.touch(Line::Pageset { zone: zone.index, cpu: CpuId(cpu) });
        Some(pcp)
    }

    /// The pageset of a CPU, if there is such a CPU. A machine that follows each touch is served by the path that makes all
    /// of them.
    #[inline(always)]
    fn pageset_by_hint(&self, zone: &'a Zone<'a, M>, cpu: u32) -> Option<&'a Pageset<M::Lock>> {
        if self.machine.follows_picks() { None } else { zone.pagesets.get(cpu as usize) }
    }

    /// The zone that requests from a CPU for at most this kind try first.
    #[inline]
    pub(crate) fn first_zone(&self, cpu: u32, highest: ZoneKind) -> Option<&'a Zone<'a, M>> {
        let first = self.first_zones.get(cpu as usize * ZoneKind::COUNT + highest.index())?.get();
        self.zones.get(first as usize)
    }
}

impl<L: RawLock> Pageset<L> {
    /// Single pages that come before a drain is due, the one that makes it due included; nothing where `calm` is 0.
    #[inline(always)]
    fn calm_room(&self) -> usize {
        self.calm.get().saturating_sub(self.count.get()) as usize
    }

    /// Takes the newest block of a list where the list's chunk has another; the lock is held.
    #[inline(always)]
    fn take_hot<M: Machine>(&self, zone: &Zone<'_, M>, list: usize, order: Order) -> Option<u32> {
        let page = self.list(list).pop_within(zone.arrays)?;
        self.free_count.set(self.free_count.get() >> 1);
        self.count.set(self.count.get() - order.pages() as u32);
        Some(page)
    }

    /// Puts a block on a list where that drains nothing; the lock is held.
    #[inline(always)]
    fn give_hot<M: Machine>(&self, zone: &Zone<'_, M>, list: usize, page: u32, order: Order) -> bool {
        let pages = order.pages() as u32;
        let (count, freed) = (self.count.get() + pages, self.free_count.get());
        // Blocks of orders 1 to 3 empty the pageset after a batch of frees at the earliest.
        let is_costly = order > Order::ZERO && order <= Order::COSTLY;
        if count >= self.calm.get() || is_costly && freed >= self.batch.get() {
            return false;
        }
        if !self.list(list).push_within(zone.arrays, page) {
            return false;
        }
        self.count.set(count);
        self.alloc_factor.set(self.alloc_factor.get() >> 1);
        self.prev_high_order.set(is_costly);
        self.free_count.set(if freed < self.most.get() { freed + pages } else { freed });
        sync::add(&self.free_pages, order.pages());
        true
    }

    /// Notes single pages that were given one after the other without a drain; the lock is held.
    fn note_given(&self, pages: u32) {
        if pages == 0 {
            return;
        }
        let (freed, most) = (self.free_count.get(), self.most.get());
        self.count.set(self.count.get() + pages);
        self.alloc_factor.set(self.alloc_factor.get() >> pages.min(7));
        self.prev_high_order.set(false);
        self.free_count.set(if freed < most { (freed + pages).min(most) } else { freed });
        sync::add(&self.free_pages, pages.into());
    }
}
