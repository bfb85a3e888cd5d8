//! The fast path: takes a block from a pageset or frees one into it, if nothing else needs to be done.
//!
//! The general path checks the rules, the marks and the state. The fast path reads a few words that summarise them:
//!
//! - the zone's flags: the zone is under no pressure, and its pageblocks are all MOVABLE;
//! - for allocations, the number of orders of which the zone has plenty;
//! - the newest array of a list: one word is read or written;
//! - the pageset's `drain_threshold`: a free drains nothing and moves no bound.
//!
//! If one of them says otherwise, nothing has changed, and the general path serves the call. Specification:
//! `linux-page-allocator.md` 2.3, 2.5, 4.11.

use core::sync::atomic::AtomicU8;

use crate::alloc::Allocator;
use crate::alloc::error::{AllocError, FreeError};
use crate::alloc::request::{Block, Request};
use crate::frame::{Frames, MigrateType, Order, PageState, Pageblock, Pfn, Tag, ZoneKind, exchange};
use crate::machine::{CpuHint, Machine, MachineHint};
use crate::pcp::{CachedZone, HintedGuard, Pageset, PcpGuard, Place};
use crate::policy::state::is_costly;
use crate::policy::{ListRule, SMALL};
use crate::sync::{self, LockedWord};
use crate::zone::{CHECKED, MIXED, RELAXED, RELAXED_CHECKED, RELAXED_MIXED_CHECKED};

/// Entries of the table of lists: orders by types, in powers of two, so that an index needs no test.
pub(crate) const LIST_TABLE: usize = 64;
/// The tags of a single movable page: in use, and in a pageset.
const MOVABLE_PAGE: [Tag; 2] = [
    Tag::new(PageState::Allocated, Order::ZERO, MigrateType::Movable),
    Tag::new(PageState::Cached, Order::ZERO, MigrateType::Movable),
];
/// The list of these pages, under every rule.
const MOVABLE_LIST: usize = MigrateType::Movable.index();
/// Stands for no list.
const NO_LIST: u8 = u8::MAX;

/// The list of each order and ordinary type under a rule, and that of CMA and HIGHATOMIC blocks.
pub(crate) fn list_table(rule: ListRule) -> [u8; LIST_TABLE] {
    let mut table = [NO_LIST; LIST_TABLE];
    for order in Order::all() {
        for (kind, migratetype) in MigrateType::ORDINARY.into_iter().chain([MigrateType::Cma]).enumerate() {
            if let Some(list) = rule.list(order, migratetype) {
                table[4 * order.index() + kind] = list as u8;
            }
        }
    }
    table
}

/// A zone, and the caller's pageset of it with its lock held.
type Held<'s, 'a, M> = (&'a CachedZone<'a, M>, HintedGuard<'s, <M as Machine>::Lock, MachineHint<'s, M>>);

/// What became of the pages of a bulk free in their first hold of the pageset's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FirstHold {
    /// All are in the pageset.
    Inside,
    /// None is.
    Outside,
    /// None is, since another thread holds the lock.
    Busy,
}

/// The two parts of [`Allocator::alloc`] and [`Allocator::free`], for callers that inline the fast path and call the rest, or that know the
/// CPU: see [`Allocator::fast_path`].
#[derive(Debug)]
pub struct FastPath<'x, 'a, M: Machine>(&'x Allocator<'a, M>);

impl<M: Machine> Copy for FastPath<'_, '_, M> {}

impl<M: Machine> Clone for FastPath<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> FastPath<'_, '_, M> {
    /// Allocates a block by a hint of the caller's CPU. Returns `None`, with nothing changed, if [`Self::alloc_rest`] must serve the
    /// request.
    #[inline(always)]
    pub fn alloc(self, request: &Request, hint: impl CpuHint<M::Lock>) -> Option<Pfn> {
        self.0.alloc_hot(request, hint)
    }

    /// Allocates a block that [`Self::alloc`] did not.
    ///
    /// # Errors
    /// As [`Allocator::alloc`].
    #[inline(always)]
    pub fn alloc_rest(self, request: &Request) -> Result<Pfn, AllocError> {
        self.0.alloc_generally(request)
    }

    /// Frees a block by a hint of the caller's CPU. Returns false, with nothing changed, if [`Self::free_rest`] must serve the call,
    /// also for a wrong free.
    #[inline(always)]
    #[must_use]
    pub fn free(self, pfn: Pfn, order: Order, hint: impl CpuHint<M::Lock>) -> bool {
        self.0.free_hot(pfn, order, hint)
    }

    /// Frees a block that [`Self::free`] did not.
    ///
    /// # Errors
    /// As [`Allocator::free`].
    #[inline(always)]
    pub fn free_rest(self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.0.free_generally(pfn, order)
    }
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// The parts of [`Self::alloc`] and [`Self::free`]: for callers that inline one and call the other.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// // A caller that knows its CPU, 0, passes it as a hint; without one it calls `Allocator::alloc`.
    /// let page = allocator.fast_path().alloc_rest(&MOVABLE)?;
    /// allocator.fast_path().free_rest(page, Order::ZERO)?;
    /// # Ok(())
    /// # }
    /// ```
    #[inline(always)]
    #[must_use]
    pub const fn fast_path(&self) -> FastPath<'_, 'a, M> {
        FastPath(self)
    }

    /// The fast path of [`Self::alloc`], by a hint of the caller's CPU. Returns `None`, with nothing changed, if the
    /// general path must serve the request.
    #[inline(always)]
    pub(crate) fn alloc_hot(&self, request: &Request, hint: impl CpuHint<M::Lock>) -> Option<Pfn> {
        let zone = self.first_with_plenty(request, hint.cpu())?;
        let list = self.list_of(request.order, request.migratetype)?;
        let page = {
            let pcp = zone.try_lock_hinted(self.env(), hint)?;
            let page = pcp.take_hot(list, request.order)?;
            // A page of a list has a tag. Without the test, the function could panic with the lock held, and would need a frame.
            if let Some(tag) = zone.frames().tags.get(page as usize) {
                tag.set(Tag::new(PageState::Allocated, request.order, request.migratetype).0);
            }
            page
        };
        Some(zone.frames().pfn(page))
    }

    /// Takes blocks from the caller's pageset of the request's first zone, as many as the list has. Returns their
    /// number: 0 if the general path must serve the request.
    #[inline(always)]
    pub(crate) fn take_run_hot(&self, request: &Request, blocks: &mut [Pfn]) -> usize {
        if request.order > Order::ZERO || SMALL {
            return self.take_run_apart(request, blocks);
        }
        let list = request.migratetype.index();
        let Some((zone, mut pcp)) = self.lock_run(request, list) else { return 0 };
        zone.take_run(self.env(), &mut pcp, list, Order::ZERO, request.migratetype, blocks)
    }

    /// As [`Self::take_run_hot`], as a call.
    #[inline(never)]
    pub(crate) fn take_run_apart(&self, request: &Request, blocks: &mut [Pfn]) -> usize {
        let Some(list) = self.list_of(request.order, request.migratetype) else { return 0 };
        let Some((zone, mut pcp)) = self.lock_run(request, list) else { return 0 };
        zone.take_run_apart(self.env(), &mut pcp, list, request.order, request.migratetype, blocks)
    }

    /// The caller's pageset of the request's first zone, if the zone has plenty for the request and the list has blocks.
    #[inline(always)]
    fn lock_run<'s>(&'s self, request: &Request, list: usize) -> Option<Held<'s, 'a, M>> {
        let hint = MachineHint::of(&self.machine);
        let zone = self.first_with_plenty(request, hint.cpu())?;
        if zone.pagesets.get(hint.cpu() as usize)?.list(list).is_empty() {
            return None;
        }
        Some((zone, zone.try_lock_hinted(self.env(), hint)?))
    }

    /// The first zone of a request from a CPU, if that zone has plenty for it.
    #[inline(always)]
    fn first_with_plenty(&self, request: &Request, cpu: u32) -> Option<&'a CachedZone<'a, M>> {
        let ordinary = request.node.is_none() && request.zone.is_none() && !request.this_node_only;
        if !ordinary || !request.migratetype.is_ordinary() {
            return None;
        }
        // The flags of the default rules and one zone of movable pageblocks are tested first.
        let is_relaxed = self.front_zone.shared.flags.get() == RELAXED_CHECKED;
        if is_relaxed && request.highest >= ZoneKind::Normal && self.front_zone.shared.has_plenty(request.order) {
            return Some(self.front_zone);
        }
        let zone = match self.common_first_zones[request.highest.index()] {
            Some(zone) => zone,
            None if !self.has_fast_path => return None,
            None => self.first_zone(cpu, request.highest)?,
        };
        zone.shared.has_plenty(request.order).then_some(zone)
    }

    /// The fast path of [`Self::free`], by a hint of the caller's CPU. Returns false, with nothing changed, if
    /// [`Self::free_generally`] must serve the call, also for a wrong free.
    #[inline(always)]
    #[must_use]
    pub(crate) fn free_hot(&self, pfn: Pfn, order: Order, hint: impl CpuHint<M::Lock>) -> bool {
        let mut zone = self.front_zone;
        // The flags of the default `FreeCheck` and of one zone are tested first.
        if zone.shared.flags.get() != RELAXED_CHECKED {
            let Some(found) = self.zone_hot(pfn) else { return false };
            zone = found;
            match zone.shared.flags.of_found_zone() {
                RELAXED_CHECKED => {}
                RELAXED_MIXED_CHECKED if zone.is_movable_hot(pfn) => {}
                RELAXED if !SMALL => return self.give_movable::<false>(zone, pfn, order, hint),
                _ => return false,
            }
        }
        self.give_movable::<true>(zone, pfn, order, hint)
    }

    /// Puts a movable block into the caller's pageset. A block that was allocated for another type is for the general path.
    #[inline(always)]
    fn give_movable<const CHECKED: bool>(
        &self,
        zone: &'a CachedZone<'a, M>,
        pfn: Pfn,
        order: Order,
        hint: impl CpuHint<M::Lock>,
    ) -> bool {
        let tags = [PageState::Allocated, PageState::Cached].map(|state| Tag::new(state, order, MigrateType::Movable));
        let list = self.list_of(order, MigrateType::Movable);
        list.is_some_and(|list| self.give_hot::<CHECKED>(zone, pfn, order, list, tags, hint))
    }

    /// The rest of [`Self::free_hot`], for blocks of any type in pageblocks of any type but ISOLATE.
    #[inline(always)]
    pub(crate) fn free_other(&self, pfn: Pfn, order: Order) -> bool {
        // The compiler makes one that has no shifts.
        if order == Order::ZERO { self.give_other(pfn, Order::ZERO) } else { self.give_other(pfn, order) }
    }

    #[inline(always)]
    fn give_other(&self, pfn: Pfn, order: Order) -> bool {
        let Some(zone) = self.zone_hot(pfn) else { return false };
        let flags = zone.shared.flags.of_found_zone();
        if flags & !(MIXED | CHECKED) != RELAXED {
            return false;
        }
        let Some(tag) = zone.tag_hot(pfn) else { return false };
        let page = pfn.0.wrapping_sub(zone.frames().base.0) as u32;
        let (allocated, migratetype) = (Tag(tag.get()), zone.frames().block_type(page));
        if migratetype == MigrateType::Isolate || !allocated.is(PageState::Allocated, order) {
            return false;
        }
        let Some(list) = self.list_of(order, migratetype) else { return false };
        let tags = [allocated, Tag::new(PageState::Cached, order, migratetype)];
        let hint = MachineHint::of(&self.machine);
        if flags & CHECKED == 0 {
            self.give_hot::<false>(zone, pfn, order, list, tags, hint)
        } else {
            self.give_hot::<true>(zone, pfn, order, list, tags, hint)
        }
    }

    /// Puts a block into the caller's pageset. Its tag changes from the first to the second.
    #[inline(always)]
    fn give_hot<const CHECKED: bool>(
        &self,
        zone: &'a CachedZone<'a, M>,
        pfn: Pfn,
        order: Order,
        list: usize,
        [allocated, cached]: [Tag; 2],
        hint: impl CpuHint<M::Lock>,
    ) -> bool {
        let page = pfn.0.wrapping_sub(zone.frames().base.0);
        let Some(tag) = zone.tag_hot(pfn) else { return false };
        let Some(pcp) = zone.try_lock_hinted(self.env(), hint) else { return false };
        if CHECKED && !exchange(tag, allocated, cached) {
            return false;
        }
        let Some(room) = pcp.room_hot(list, order) else {
            if CHECKED {
                tag.set(allocated.0);
            }
            return false;
        };
        if !CHECKED {
            // Tested with the lock held: of two threads on this CPU that free the block, the second sees the first one's tag.
            if tag.get() != allocated.0 {
                return false;
            }
            tag.set(cached.0);
        }
        pcp.give_hot(room, page as u32, order);
        true
    }

    /// What the first of some blocks has in common with those after it that one hold of the pageset's lock may serve. `None` if the general
    /// path must serve it.
    #[cfg_attr(feature = "rules", inline(always))]
    #[cfg_attr(not(feature = "rules"), inline(never))]
    fn run_of(&self, block: Block, state: PageState) -> Option<RunOf<'a, M>> {
        let Block { pfn, order } = block;
        let zone = self.zone_hot(pfn)?;
        let flags = zone.shared.flags.of_found_zone();
        if flags & !(MIXED | CHECKED) != RELAXED {
            return None;
        }
        let tag = zone.tag_hot(pfn).map(|tag| Tag(tag.get())).filter(|tag| tag.is(state, order))?;
        let is_mixed = flags & MIXED != 0;
        let migratetype = if is_mixed { tag.kind()? } else { MigrateType::Movable };
        Some(RunOf {
            zone,
            order,
            list: self.list_of(order, migratetype)?,
            tags: [PageState::Allocated, PageState::Cached].map(|state| Tag::new(state, order, migratetype)),
            pageblocks: is_mixed.then_some(Pageblock::with(migratetype)),
        })
    }

    /// Checks blocks and puts them into the caller's pageset, under one hold of its lock. Does so only if none of them makes a drain
    /// due. Serves blocks like the first one: [`Self::run_of`]. Returns the number of blocks, from the first on, whose tags are now
    /// Cached, and what became of them.
    #[inline(always)]
    pub(crate) fn free_run_hot<T>(&self, entries: &[T], block: impl Fn(&T) -> Block) -> (usize, FirstHold) {
        let checked = |tag: &AtomicU8, from, to| exchange(tag, from, to);
        let unchecked = |tag: &AtomicU8, _, to: Tag| {
            tag.set(to.0);
            true
        };
        let Some(first) = entries.first().map(&block) else { return (0, FirstHold::Outside) };
        // The compiler makes two for single movable pages, which have no shifts and no branches for the others.
        if let Some(zone) = self.zone_hot(first.pfn)
            && first.order == Order::ZERO
            && matches!(zone.shared.flags.of_found_zone(), RELAXED | RELAXED_CHECKED)
        {
            let run = RunOf { zone, order: Order::ZERO, list: MOVABLE_LIST, tags: MOVABLE_PAGE, pageblocks: None };
            return if self.checks_bulk {
                self.free_run_in(&run, entries, block, checked)
            } else {
                self.free_run_in(&run, entries, block, unchecked)
            };
        }
        let Some(run) = self.run_of(first, PageState::Allocated) else { return (0, FirstHold::Outside) };
        let checks = self.checks_bulk;
        self.free_run_in(
            &run,
            entries,
            block,
            |tag: &AtomicU8, from, to| {
                if checks { checked(tag, from, to) } else { unchecked(tag, from, to) }
            },
        )
    }

    #[inline(always)]
    fn free_run_in<T>(
        &self,
        run: &RunOf<'a, M>,
        entries: &[T],
        block: impl Fn(&T) -> Block,
        claim: impl Fn(&AtomicU8, Tag, Tag) -> bool,
    ) -> (usize, FirstHold) {
        let [allocated, cached] = run.tags;
        // The page of an entry whose tag is now Cached.
        let prepare = run.each(allocated, block, move |tag| claim(tag, allocated, cached));
        let count = || entries.iter().position(|entry| prepare(entry).is_none()).unwrap_or(entries.len());
        let hint = MachineHint::of(&self.machine);
        let has_room = |pageset: &Pageset<M::Lock>| pageset.room_for_run(run.order) >= entries.len();
        // Asked first without the lock, so that it is not taken needlessly.
        if entries.len() <= self.tuning.long_free_run()
            && run.zone.pagesets.get(hint.cpu() as usize).is_some_and(has_room)
        {
            let Some(pcp) = run.zone.try_lock_hinted(self.env(), hint) else {
                return (count(), FirstHold::Busy);
            };
            if !has_room(&pcp) {
                drop(pcp);
                return (count(), FirstHold::Outside);
            }
            let given = pcp.push_all(run.list, entries, &prepare);
            if given == entries.len() {
                pcp.note_given(given as u32, run.order);
                return (given, FirstHold::Inside);
            }
            // A block that is not served here, or a pageset without room: the others wait for its check.
            pcp.take_back(run.list, given);
            return (given, FirstHold::Outside);
        }
        (count(), FirstHold::Outside)
    }

    /// Checks blocks like the first one: [`Self::run_of`]. Returns the number of blocks, from the first on, whose tags are now Cached.
    pub(crate) fn prepare_run_hot<T>(&self, entries: &[T], block: impl Fn(&T) -> Block) -> usize {
        let Some(run) = entries.first().and_then(|first| self.run_of(block(first), PageState::Allocated)) else {
            return 0;
        };
        let [allocated, cached] = run.tags;
        let prepare = run.each(allocated, block, move |tag| exchange(tag, allocated, cached));
        entries.iter().position(|entry| prepare(entry).is_none()).unwrap_or(entries.len())
    }

    /// Puts blocks whose tags are Cached, like the first one, into the caller's pageset under one hold of its lock, until a drain
    /// would be due. Returns their number: 0 if another thread holds the lock, `None` if the general path must serve
    /// the call.
    #[inline(always)]
    pub(crate) fn give_run_hot<T>(&self, entries: &[T], block: impl Fn(&T) -> Block) -> Option<usize> {
        let run = self.run_of(block(entries.first()?), PageState::Cached)?;
        let hint = MachineHint::of(&self.machine);
        // Checked first, so that the lock is not taken needlessly.
        if run.zone.pagesets.get(hint.cpu() as usize)?.room_for_run(run.order) == 0 {
            return None;
        }
        let Some(pcp) = run.zone.try_lock_hinted(self.env(), hint) else { return Some(0) };
        let most = pcp.room_for_run(run.order).min(self.tuning.long_free_run()).min(entries.len());
        // Two zones may share a section. A page of the other one has no such tag here.
        let page = run.each(run.tags[1], block, |_| true);
        let given = pcp.push_all(run.list, &entries[..most], page);
        pcp.note_given(given as u32, run.order);
        (given > 0).then_some(given)
    }

    /// The zone that a page is likely to be in.
    #[inline(always)]
    fn zone_hot(&self, pfn: Pfn) -> Option<&'a CachedZone<'a, M>> {
        match self.only_zone {
            Some(zone) => Some(zone),
            None => self.zones.get(self.sections.find(pfn)?),
        }
    }

    /// The list of blocks of this order and type: [`ListRule::list`], looked up.
    #[inline(always)]
    fn list_of(&self, order: Order, migratetype: MigrateType) -> Option<usize> {
        if order == Order::ZERO && migratetype.is_ordinary() {
            return Some(migratetype.index());
        }
        let list = self.lists[(4 * order.index() + migratetype.index().min(MigrateType::PCP_COUNT)) % self.lists.len()];
        (list != NO_LIST).then_some(list as usize)
    }
}

impl<M: Machine> CachedZone<'_, M> {
    /// The tag of a page, if the zone has it. Pages outside the zone's span read as `Inside`.
    #[inline(always)]
    fn tag_hot(&self, pfn: Pfn) -> Option<&AtomicU8> {
        let page = pfn.0.wrapping_sub(self.frames().base.0);
        self.frames().tags.get(usize::try_from(page).ok()?)
    }

    /// Whether the pageblock around a page is MOVABLE. False for a page that the zone does not have.
    #[inline(always)]
    fn is_movable_hot(&self, pfn: Pfn) -> bool {
        let page = pfn.0.wrapping_sub(self.frames().base.0);
        let pageblock = usize::try_from(page >> Order::PAGEBLOCK.get()).ok().and_then(|at| self.frames().types.get(at));
        pageblock.is_some_and(|pageblock| Pageblock(pageblock.get()).is_movable())
    }
}

/// What blocks have in common that a bulk free puts into the caller's pageset under one hold of its lock.
struct RunOf<'a, M: Machine> {
    zone: &'a CachedZone<'a, M>,
    order: Order,
    list: usize,
    /// The tags of a block in use, and in a pageset.
    tags: [Tag; 2],
    /// The type of their pageblocks, in a zone that has several.
    pageblocks: Option<Pageblock>,
}

impl<'a, M: Machine> RunOf<'a, M> {
    /// Gives the page of an entry if its block is of the run, its tag is `tag`, and `then` says so.
    #[inline(always)]
    fn each<T>(
        &self,
        tag: Tag,
        block: impl Fn(&T) -> Block,
        then: impl Fn(&'a AtomicU8) -> bool,
    ) -> impl Fn(&T) -> Option<u32> {
        // Copies: the compiler would read the zone's own words again after each store.
        let &RunOf { zone, order: of_run, pageblocks, .. } = self;
        let &Frames { tags, types, base, .. } = zone.frames();
        move |entry| {
            let Block { pfn, order } = block(entry);
            let page = usize::try_from(pfn.0.wrapping_sub(base.0)).ok()?;
            let word = tags.get(page)?;
            if order != of_run || word.get() != tag.0 {
                return None;
            }
            if let Some(pageblock) = pageblocks
                && !Pageblock(types.get(page >> Order::PAGEBLOCK.get())?.get()).is_like(pageblock)
            {
                return None;
            }
            then(word).then_some(page as u32)
        }
    }
}

impl<L> Pageset<L> {
    /// Blocks of an order that can be freed one after the other before a drain is due; 0 where `drain_threshold` is 0.
    #[cfg_attr(feature = "rules", inline(always))]
    #[cfg_attr(not(feature = "rules"), inline(never))]
    fn room_for_run(&self, order: Order) -> usize {
        let count = self.count.get();
        let below = |limit: u32| (limit.saturating_sub(count).saturating_sub(1) >> order.get()) as usize;
        let room = below(self.drain_threshold.get());
        if !is_costly(order) {
            return room;
        }
        // Until that many pages are freed in a row, or with that many pages: the free that drains asks for the frees before it.
        let in_a_row = self.costly_frees.get().saturating_sub(self.free_count.get()).div_ceil(order.pages() as u32);
        room.min(below(self.costly_room.get()).max(in_a_row as usize))
    }
}

/// Room for a block on a list of a pageset whose lock is held.
struct Room<'p> {
    /// The pageset's count with the block, in pages.
    count: u32,
    place: Place<'p>,
}

impl<'p, L, G> PcpGuard<'p, L, G> {
    /// Takes the newest block of a list, if the list's newest chunk has one.
    #[inline(always)]
    fn take_hot(&self, list: usize, order: Order) -> Option<u32> {
        let page = self.pop_within(list)?;
        self.free_count.set(self.free_count.get() >> 1);
        self.count.set(self.count.get() - order.pages() as u32);
        Some(page)
    }

    /// The room for a block on a list, if a free of it drains nothing.
    #[inline(always)]
    fn room_hot(&self, list: usize, order: Order) -> Option<Room<'p>> {
        let count = self.count.get() + order.pages() as u32;
        let may_drain = || self.free_count.get() >= self.costly_frees.get() && count >= self.costly_room.get();
        if count >= self.drain_threshold.get() || is_costly(order) && may_drain() {
            return None;
        }
        Some(Room { count, place: self.place_within(list)? })
    }

    /// Puts a block on a list.
    #[inline(always)]
    fn give_hot(&self, Room { count, place }: Room<'_>, page: u32, order: Order) {
        place.push(self.words, page);
        self.count.set(count);
        let freed = self.free_count.get();
        let freed = if freed < self.free_count_cap.get() { freed + order.pages() as u32 } else { freed };
        self.free_count.set(freed);
        if order == Order::ZERO {
            // The pageset's state stays behind: `Pageset::catch_up`.
            sync::add(&self.free_pages, 1);
        } else {
            self.catch_up();
            self.alloc_factor.set(self.alloc_factor.get() >> 1);
            self.block_factor.set(self.block_factor.get() >> 1);
            self.prev_high_order.set(is_costly(order));
            self.count_freed(order.pages());
        }
    }

    /// Updates the state for blocks that were put on a list one after the other without a drain.
    fn note_given(&self, blocks: u32, order: Order) {
        if blocks == 0 {
            return;
        }
        let pages = blocks << order.get();
        self.count.set(self.count.get() + pages);
        // Counted until it reaches the cap: the block that reaches it counts as a whole.
        let (freed, cap) = (self.free_count.get(), self.free_count_cap.get());
        let counted = cap.saturating_sub(freed).div_ceil(order.pages() as u32).min(blocks);
        self.free_count.set(freed + (counted << order.get()));
        if order == Order::ZERO {
            // The pageset's state stays behind: `Pageset::catch_up`.
            return sync::add(&self.free_pages, pages.into());
        }
        self.catch_up();
        self.alloc_factor.set(self.alloc_factor.get() >> blocks.min(7));
        self.block_factor.set(self.block_factor.get() >> blocks.min(7));
        self.prev_high_order.set(is_costly(order));
        self.count_freed(pages.into());
    }
}
