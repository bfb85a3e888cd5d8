//! Contiguous ranges: allocation of given page numbers, also where the pages are in use.
//!
//! A range is emptied in four steps. Any failure undoes them. First its pageblocks are isolated, so that nothing is
//! allocated from them. Then the pagesets are drained. Then the blocks in use move away, through the [`Owner`]. Then the
//! free pages are taken, piece by piece: each hold of the zone lock takes the pages of one pageblock. Specification:
//! `linux-page-allocator.md` 6.2, 7 "Callback contract", 8.1.
//!
//! # Races
//!
//! - *A page is freed by a call that read the pageblock's type before the isolation.* Such a free may still put the
//!   page into a pageset. The range is then found not to be free, and the pagesets are drained again, up to five times.
//! - *A page in a pageset is allocated.* The next pass finds it in use.
//! - *Two ranges overlap, or share a pageblock.* Pageblocks are isolated in ascending order. Of two ranges, the one
//!   that isolates the first shared pageblock gets all of them. The other finds it isolated and fails.
//! - *Another caller sets the type of an isolated pageblock.* Its pages may then be allocated again, and the range is
//!   not free. The pageblock keeps the new type.
//!
//! The pieces that are taken already are tagged like blocks in a pageset: nobody can allocate, free or merge them.
//!
//! The module `vacate` moves the blocks in use. The other steps are in this file.

mod vacate;

use core::fmt;

use crate::admin::owner::{MoveError, Owner};
use crate::alloc::Allocator;
use crate::alloc::error::{AllocError, FreeError, WrongFree};
use crate::frame::{
    MigrateType, Order, PAGEBLOCK, PageRange, PageState, Pfn, Tag, largest_at, largest_blocks, pageblocks, start_of,
};
use crate::machine::{LockPath, Machine};
use crate::pcp::CachedZone;
use crate::store;
use crate::zone::{Env, Zone, ZoneGuard};

/// How often the passes over a range, and the moves of a block, are tried before they fail. A guess: a free that had
/// begun has ended after one pass, unless its thread was suspended.
const TRIES: u32 = 5;

/// A range that could not be allocated. Nothing has changed, except that pages may have moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeError {
    /// The page that caused the failure: the first page of the block in use, otherwise the first affected page of the
    /// range.
    pub pfn: Pfn,
    /// The reason.
    pub obstacle: Obstacle,
}

/// Why a range could not be allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Obstacle {
    /// The range has no pages.
    Empty,
    /// The range is not inside one zone.
    NotOurs,
    /// The page is not online.
    Offline,
    /// The migratetype is not one of the three ordinary types.
    Migratetype(MigrateType),
    /// The page's pageblock is already isolated, for another range.
    Isolated,
    /// The owner does not release the block.
    InUse(Order),
    /// The owner could not move the block.
    Move(Order, MoveError),
    /// No target block could be allocated for the move.
    NoPlace(AllocError),
    /// The block stayed in a pageset, or is held by a compaction.
    Cached(Order),
    /// The block is free, but the type of its pageblock was set meanwhile.
    Reused,
    /// The owner ended the call: [`Owner::keep_going`].
    Cancelled,
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pfn, obstacle } = self;
        f.write_str("cannot take the range: ")?;
        match obstacle {
            Obstacle::Empty => write!(f, "the range at {pfn} has no pages"),
            Obstacle::NotOurs => write!(f, "the range at {pfn} is not inside one zone"),
            Obstacle::Offline => write!(f, "page {pfn} is not online"),
            Obstacle::Migratetype(migratetype) => {
                write!(f, "its pages cannot have type {migratetype:?}; allowed: Unmovable, Movable, Reclaimable")
            }
            Obstacle::Isolated => write!(f, "the pageblock of page {pfn} is already isolated for another range"),
            Obstacle::InUse(order) => write!(f, "the owner does not release the block of order {order} at {pfn}"),
            Obstacle::Move(order, MoveError::Busy) => write!(f, "the block of order {order} at {pfn} is busy"),
            Obstacle::Move(order, MoveError::NoMemory) => {
                write!(f, "the owner has no memory to move the block of order {order} at {pfn}")
            }
            Obstacle::NoPlace(error) => write!(f, "the block at {pfn} has no target to move to: {error}"),
            Obstacle::Cached(order) => write!(f, "the block of order {order} at {pfn} stays in a pageset"),
            Obstacle::Reused => write!(f, "the pageblock of page {pfn} is no longer isolated"),
            Obstacle::Cancelled => write!(f, "the owner ended the call at page {pfn}"),
        }
    }
}

impl core::error::Error for RangeError {}

/// A range of one zone, as page indexes in the zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) first: u32,
    end: u32,
}

impl Span {
    pub(crate) fn pages(self) -> u64 {
        u64::from(self.end - self.first)
    }

    /// The span cut at the blocks of an order, in ascending order.
    pub(crate) fn cut(self, order: Order) -> impl Iterator<Item = Span> {
        let pages = order.pages() as u32;
        let starts = (start_of(self.first, order)..self.end).step_by(pages as usize);
        starts.map(move |start| Span { first: start.max(self.first), end: (start + pages).min(self.end) })
    }
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Allocates all pages of a range in one zone. The range may begin and end at any page. Blocks in use move to other
    /// zones of the same or a lower kind. Other pages of the same pageblocks are not affected. Holds none of the
    /// allocator's locks while it calls the owner, and the zone lock for the pages of one pageblock at a time.
    ///
    /// The range becomes allocated blocks of `migratetype`. Each is the largest block that is aligned at its start and
    /// fits. [`Self::free_range`] frees all of them or any part.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let range = PageRange::new(ZONE.start, 600);
    /// allocator.alloc_range(range, MigrateType::Movable, &Immovable)?;
    /// allocator.free_range(range)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The page that caused the failure, and the reason. Pageblocks then have their former types, and moved pages stay
    /// in use at their targets.
    pub fn alloc_range(
        &self,
        range: PageRange,
        migratetype: MigrateType,
        owner: &impl Owner,
    ) -> Result<(), RangeError> {
        if !migratetype.is_ordinary() {
            return Err(RangeError { pfn: range.start, obstacle: Obstacle::Migratetype(migratetype) });
        }
        let (zone, span) = self.span_of(range)?;
        // Only the heads of the largest blocks are written.
        self.empty_range(zone, span, owner, Order::MAX, |zone, piece| zone.hand_out(piece, migratetype))
    }

    /// Claims all blocks of a range, as [`crate::Free::whole_blocks`] names them: every other free of them fails.
    pub(crate) fn claim_range(&self, range: PageRange) -> Result<(&'a CachedZone<'a, M>, Span), FreeError> {
        let (zone, span) = self.span_of(range).map_err(|error| {
            let reason = if error.obstacle == Obstacle::Empty { WrongFree::NoPages } else { WrongFree::NotOurs };
            FreeError { pfn: range.start, order: Order::ZERO, reason }
        })?;
        let mut page = span.first;
        while page < span.end {
            let room = largest_at(page, span.end);
            let tag = zone.frames().tag(page);
            // A block that reaches beyond the range is freed with the order that fits, so that the error names both
            // orders.
            let order = if tag.state() == PageState::Allocated { tag.order().min(room) } else { Order::ZERO };
            if let Err(error) = self.claim_free(zone.frames().pfn(page), order) {
                self.each_block(zone, Span { end: page, ..span }, |page, _| {
                    zone.frames().set_tag(page, zone.frames().tag(page).with_state(PageState::Allocated));
                });
                return Err(error);
            }
            page += order.pages() as u32;
        }
        Ok((zone, span))
    }

    /// Visits the blocks of a span in ascending order.
    pub(crate) fn each_block(&self, zone: &CachedZone<'a, M>, span: Span, mut visit: impl FnMut(u32, Order)) {
        let mut page = span.first;
        while page < span.end {
            let order = zone.frames().tag(page).order();
            visit(page, order);
            page += order.pages() as u32;
        }
    }

    /// The zone and the pages of a range.
    pub(crate) fn span_of(&self, range: PageRange) -> Result<(&'a CachedZone<'a, M>, Span), RangeError> {
        let error = |obstacle| RangeError { pfn: range.start, obstacle };
        if range.pages == 0 {
            return Err(error(Obstacle::Empty));
        }
        let (zone, first) = self.locate(range.start).ok_or(error(Obstacle::NotOurs))?;
        if range.pages > u64::from(zone.frames().end - first) {
            return Err(error(Obstacle::NotOurs));
        }
        Ok((zone, Span { first, end: first + range.pages as u32 }))
    }

    /// Empties a span, takes all its pages, and then calls `then` with the zone lock held for each piece of the span, cut at the blocks
    /// of an order. While `then` runs the pageblocks are still isolated.
    pub(crate) fn empty_range(
        &self,
        zone: &CachedZone<'a, M>,
        span: Span,
        owner: &impl Owner,
        cut: Order,
        then: impl Fn(&ZoneGuard<'_, 'a, M>, Span),
    ) -> Result<(), RangeError> {
        let env = self.env();
        // Single pages must merge as they are freed, and no refill may be in flight with a page of the span.
        let _merges = zone.shared.merges(env);
        let _isolation = self.isolate(zone, span)?;
        let mut taken = TakenSpan { env, zone: &zone.shared, span: Span { end: span.first, ..span } };
        let mut tries = 1;
        loop {
            let rest = Span { first: taken.span.end, ..span };
            self.settle_zone(zone);
            self.vacate(zone, rest, owner)?;
            let Err(error) = rest.cut(Order::PAGEBLOCK).try_for_each(|piece| taken.take(piece, owner)) else { break };
            if tries == TRIES || error.obstacle == Obstacle::Cancelled {
                return Err(error);
            }
            tries += 1;
            env.machine.relax();
        }
        for piece in taken.keep().cut(cut) {
            then(&zone.shared.lock(env, LockPath::Map, piece.first), piece);
        }
        Ok(())
    }
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Isolates the pageblocks of a span. In a zone with stores that hide pages, a page that belongs to no block may be on its way
    /// between a pageset and a bitmap: the call tries again after such moves are over.
    fn isolate<'r>(&'r self, zone: &'r CachedZone<'a, M>, span: Span) -> Result<Isolation<'r, 'a, M>, RangeError> {
        let new = || Isolation::new(self.env(), &zone.shared, span);
        if !store::hides(&zone.shared) {
            return new();
        }
        let looks_offline =
            |result: &Result<_, RangeError>| result.as_ref().is_err_and(|error| error.obstacle == Obstacle::Offline);
        for _ in 1..TRIES {
            let result = new();
            if !looks_offline(&result) {
                return result;
            }
            zone.finish_moves(self.env());
        }
        new()
    }
}

/// The pages of a span that are taken so far. The drop frees them again.
struct TakenSpan<'r, 'a, M: Machine> {
    env: Env<'r, M>,
    zone: &'r Zone<'a, M>,
    span: Span,
}

impl<M: Machine> TakenSpan<'_, '_, M> {
    /// Takes the next piece, if all of it is free.
    fn take(&mut self, piece: Span, owner: &impl Owner) -> Result<(), RangeError> {
        if !owner.keep_going() {
            return Err(RangeError { pfn: self.zone.frames.pfn(piece.first), obstacle: Obstacle::Cancelled });
        }
        let guard = self.zone.lock(self.env, LockPath::Map, piece.first);
        guard.check_free(piece)?;
        guard.take_span(piece);
        self.span.end = piece.end;
        Ok(())
    }

    /// The taken pages, which the caller has from now on.
    fn keep(self) -> Span {
        core::mem::ManuallyDrop::new(self).span
    }
}

impl<M: Machine> Drop for TakenSpan<'_, '_, M> {
    fn drop(&mut self) {
        for piece in self.span.cut(Order::PAGEBLOCK) {
            let guard = self.zone.lock(self.env, LockPath::Map, piece.first);
            for (page, order) in largest_blocks(piece.first, piece.end) {
                guard.free_block(page, order);
            }
        }
    }
}

/// The isolated pageblocks of a span. The drop gives each its former type back.
struct Isolation<'r, 'a, M: Machine> {
    env: Env<'r, M>,
    zone: &'r Zone<'a, M>,
    from: u32,
    /// The pageblocks before this page are isolated.
    to: u32,
}

impl<'r, 'a, M: Machine> Isolation<'r, 'a, M> {
    /// Isolates the pageblocks of a span one after the other, in ascending order. Pages of the zone must already merge
    /// as they are freed. Takes the zone lock once per pageblock.
    ///
    /// # Errors
    /// A pageblock is already isolated, or a page of the span is not online.
    fn new(env: Env<'r, M>, zone: &'r Zone<'a, M>, span: Span) -> Result<Self, RangeError> {
        let from = start_of(span.first, Order::PAGEBLOCK);
        let mut isolation = Isolation { env, zone, from, to: from };
        while isolation.to < span.end {
            isolation.isolate_next(span)?;
        }
        Ok(isolation)
    }

    fn isolate_next(&mut self, span: Span) -> Result<(), RangeError> {
        let start = self.to;
        let guard = self.zone.lock(self.env, LockPath::Map, start);
        let (first, end) = (start.max(span.first), (start + PAGEBLOCK).min(span.end));
        let error = |page, obstacle| Err(RangeError { pfn: guard.zone.frames.pfn(page), obstacle });
        if guard.zone.frames.block_type(start) == MigrateType::Isolate {
            return error(first, Obstacle::Isolated);
        }
        let mut page = first;
        while page < end {
            match guard.zone.block_around(page) {
                Some((head, order, _)) => page = head + order.pages() as u32,
                None => return error(page, Obstacle::Offline),
            }
        }
        guard.change_type(start, MigrateType::Isolate);
        self.to += PAGEBLOCK;
        Ok(())
    }
}

impl<M: Machine> Drop for Isolation<'_, '_, M> {
    fn drop(&mut self) {
        for start in (self.from..self.to).step_by(PAGEBLOCK as usize) {
            let guard = self.zone.lock(self.env, LockPath::Map, start);
            // A pageblock whose type was set meanwhile keeps it.
            if let Some(former) = guard.zone.frames.pageblock(start).former() {
                guard.change_type(start, former);
            }
        }
    }
}

/// The last steps: takes the free blocks of isolated pageblocks, then allocates them or takes them offline.
impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Checks that all pages of a span are in free blocks of isolated pageblocks.
    fn check_free(&self, span: Span) -> Result<(), RangeError> {
        let mut page = span.first;
        while page < span.end {
            let error = |page, obstacle| Err(RangeError { pfn: self.zone.frames.pfn(page), obstacle });
            match self.zone.block_around(page) {
                Some((head, order, PageState::Free)) if self.zone.list_of(head) == MigrateType::Isolate => {
                    page = head + order.pages() as u32;
                }
                Some((_, _, PageState::Free)) => return error(page, Obstacle::Reused),
                Some((head, order, PageState::Cached)) => return error(head, Obstacle::Cached(order)),
                Some((head, order, _)) => return error(head, Obstacle::InUse(order)),
                None => return error(page, Obstacle::Offline),
            }
        }
        Ok(())
    }

    /// Takes the blocks of a piece off their lists, after [`Self::check_free`] has succeeded, and tags them like blocks in
    /// a pageset. The parts of the first and last block outside the piece are freed again.
    fn take_span(&self, span: Span) {
        let (mut lowest, mut page) = (span.first, span.first);
        while page < span.end {
            let Some((head, order, _)) = self.zone.block_around(page) else { break };
            self.remove(head, order);
            lowest = lowest.min(head);
            page = head + order.pages() as u32;
        }
        // The outer parts are freed last, so that they cannot merge with blocks still to be taken.
        for (outer, order) in largest_blocks(lowest, span.first).chain(largest_blocks(span.end, page)) {
            self.free_or_capture(outer, order, MigrateType::Isolate, None);
        }
        self.tag_blocks(span, PageState::Cached, MigrateType::Movable);
    }

    /// Tags a span as its largest aligned blocks. Its pageblocks may be tagged as blocks of their own before.
    fn tag_blocks(&self, span: Span, state: PageState, migratetype: MigrateType) {
        for (page, order) in largest_blocks(span.first, span.end) {
            self.zone.frames.set_tag(page, Tag::new(state, order, migratetype));
            pageblocks(page, order).skip(1).for_each(|inner| self.zone.frames.set_tag(inner, Tag::INSIDE));
        }
    }

    /// Allocates the pages of a taken piece as the largest aligned blocks.
    fn hand_out(&self, span: Span, migratetype: MigrateType) {
        self.tag_blocks(span, PageState::Allocated, migratetype);
        self.count_direct_alloc(span.pages());
    }

    /// Turns the pages of a taken piece into pages that are neither present nor managed.
    pub(crate) fn retire(&self, span: Span) {
        largest_blocks(span.first, span.end).for_each(|(page, _)| self.zone.frames.set_tag(page, Tag::INSIDE));
        self.zone.managed.sub(span.pages());
        self.zone.present.sub(span.pages());
        for start in (start_of(span.first, Order::PAGEBLOCK)..span.end).step_by(PAGEBLOCK as usize) {
            let end = start + PAGEBLOCK;
            let mut others = (start..span.first.max(start)).chain(span.end.min(end)..end);
            if !others.any(|page| self.zone.frames.tag(page) != Tag::INSIDE) {
                self.zone.frames.set_pageblock(start, self.zone.frames.pageblock(start).with_online(false));
                // An empty pageblock has no HIGHATOMIC pages to reserve or to return.
                if self.zone.frames.pageblock(start).former() == Some(MigrateType::HighAtomic) {
                    self.set_block_type(start, MigrateType::Movable);
                }
            }
        }
    }
}
