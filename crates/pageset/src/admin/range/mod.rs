//! Contiguous ranges: pages asked for by their numbers, whoever has them now.
//!
//! A range is emptied in four steps, and any failure takes them back: its pageblocks are isolated, so that nothing in
//! them is handed out any more; pagesets are drained; what is in use moves away, through the [`Owner`]; and when all of
//! it is free it is taken under one hold of the zone lock. Specification: `linux-page-allocator.md` 6.2, 7 "Callback
//! contract", 8.1.
//!
//! # What may happen meanwhile
//!
//! - *A page is freed that was seen before the isolation.* A free that has read the pageblock's type before may still put
//!   it into a pageset. The range is then found not to be free, the pagesets are drained again, and so on a few times.
//! - *A page in a pageset is allocated.* It is found in use at the next look.
//! - *Two ranges overlap, or share a pageblock.* Pageblocks are isolated from the first upwards, so of two ranges the one
//!   that comes to the first shared pageblock first gets all of them; the other finds it isolated, and fails.
//! - *Someone gives an isolated pageblock a type.* Then its pages may be handed out again and the range is not free; what
//!   has a type keeps it.
//!
//! | module | what lives there |
//! | --- | --- |
//! | `isolation` | pageblocks that nothing is handed out from, until dropped |
//! | `vacate` | blocks in use moved away |
//! | `take` | free blocks turned into the range |

mod isolation;
mod take;
mod vacate;

use core::fmt;

use crate::admin::owner::{MoveError, Owner};
use crate::alloc::Allocator;
use crate::alloc::error::{AllocError, FreeError, WrongFree};
use crate::frame::MigrateType;
use crate::frame::PageRange;
use crate::frame::range::largest_at;
use crate::frame::{Order, PageState, Pfn};
use crate::machine::{LockPath, Machine};
use crate::pcp::CachedZone;
use crate::zone::ZoneGuard;
use isolation::Isolation;

/// How often a range is looked at, and a block moved, before that counts as failed. A guess: a free that had begun has
/// ended after one look, unless its thread was held up.
const TRIES: u32 = 5;

/// A range that could not be had. All of it is as it was, but for pages that have moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeError {
    /// The page that stood in the way: the first page of a block in use, otherwise the first page of the range that is.
    pub pfn: Pfn,
    /// Why.
    pub obstacle: Obstacle,
}

/// Why a page stood in the way of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// The range has no pages.
    Empty,
    /// The range is not inside one zone.
    NotOurs,
    /// The page is not online.
    Offline,
    /// Only the three ordinary types can be asked for.
    Migratetype(MigrateType),
    /// Its pageblock is isolated already: another range is being emptied there.
    Isolated,
    /// The owner does not let go of the block.
    InUse(Order),
    /// The owner could not move the block.
    Move(Order, MoveError),
    /// There was no place to move the block to.
    NoPlace(AllocError),
    /// The block stayed in a pageset, or with a compaction.
    Cached(Order),
    /// The block is free, but its pageblock was given a type meanwhile.
    Reused,
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pfn, obstacle } = self;
        match obstacle {
            Obstacle::Empty => write!(f, "the range at {pfn} has no pages"),
            Obstacle::NotOurs => write!(f, "the range at {pfn} is not inside one zone"),
            Obstacle::Offline => write!(f, "page {pfn} is not online"),
            Obstacle::Migratetype(migratetype) => AllocError::Migratetype(*migratetype).fmt(f),
            Obstacle::Isolated => write!(f, "the pageblock of page {pfn} is isolated, for another range"),
            Obstacle::InUse(order) => write!(f, "the owner keeps the block of order {order} at {pfn} where it is"),
            Obstacle::Move(order, MoveError::Busy) => write!(f, "the block of order {order} at {pfn} is busy"),
            Obstacle::Move(order, MoveError::NoMemory) => {
                write!(f, "the owner has no memory to move the block of order {order} at {pfn}")
            }
            Obstacle::NoPlace(error) => write!(f, "the block at {pfn} has no place to move to: {error}"),
            Obstacle::Cached(order) => write!(f, "the block of order {order} at {pfn} stays in a pageset"),
            Obstacle::Reused => write!(f, "the pageblock of page {pfn} is no longer isolated"),
        }
    }
}

impl core::error::Error for RangeError {}

/// A range of one zone: its first page and the first one after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    first: u32,
    end: u32,
}

impl Span {
    fn pages(self) -> u64 {
        u64::from(self.end - self.first)
    }
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Allocates all pages of a range, wherever it begins and ends in one zone. What is in use there moves to other
    /// places on its zone's level or below; neighbours in the same pageblocks stay what they are. Holds none of the
    /// allocator's locks while it calls the owner.
    ///
    /// The range becomes blocks in use, each the largest that is aligned where it begins: as if each had been allocated
    /// for `migratetype`. [`Self::free_range`] gives all of them back, [`Self::free`] one.
    ///
    /// # Errors
    /// The page that stood in the way, and why. Nothing is lost then: pageblocks have their types back, what has moved is
    /// in use where it is.
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
        self.empty_range(zone, span, owner, |zone| zone.hand_out(span, migratetype))
    }

    /// Gives back all blocks of a range: of one that [`Self::alloc_range`] gave, or of neighbours, all in use and none
    /// reaching beyond. Past the pagesets, since nobody will want so many soon. Takes the zone lock, block by block.
    ///
    /// # Errors
    /// The first block that cannot be freed; none has been then.
    pub fn free_range(&self, range: PageRange) -> Result<(), FreeError> {
        let not_ours = FreeError { pfn: range.start, order: Order::ZERO, reason: WrongFree::NotOurs };
        let (zone, span) = self.span_of(range).map_err(|_| not_ours)?;
        let mut page = span.first;
        while page < span.end {
            let room = largest_at(page, span.end);
            let tag = zone.frames().tag(page);
            // One that reaches beyond is asked for as what fits, so that the error names both.
            let order = if tag.state() == PageState::Allocated { tag.order().min(room) } else { Order::ZERO };
            if let Err(error) = self.prepare_free(zone.frames().pfn(page), order) {
                self.each_block(zone, Span { end: page, ..span }, |page, _| {
                    zone.frames().set_tag(page, zone.frames().tag(page).with_state(PageState::Allocated));
                });
                return Err(error);
            }
            page += order.pages() as u32;
        }
        self.each_block(zone, span, |page, order| self.free_to_buddy(zone, page, order));
        Ok(())
    }

    /// Visits the blocks of a span; each begins where the one before ends.
    fn each_block(&self, zone: &CachedZone<'a, M>, span: Span, mut visit: impl FnMut(u32, Order)) {
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

    /// Makes all pages of a span free, takes them, and passes them on as `then` says, in the same hold of the zone lock.
    pub(crate) fn empty_range(
        &self,
        zone: &CachedZone<'a, M>,
        span: Span,
        owner: &impl Owner,
        then: impl FnOnce(&ZoneGuard<'_, 'a, M>),
    ) -> Result<(), RangeError> {
        let env = self.env();
        // Single pages merge as they are freed, and none of the pages below is in flight.
        let _merges = zone.zone.merges(env);
        let _isolation = Isolation::new(env, &zone.zone, span)?;
        let mut tries = 1;
        loop {
            self.drain_zone(zone.zone.index);
            self.vacate(zone, span, owner)?;
            let error = {
                let guard = zone.zone.lock(env, LockPath::Map);
                match guard.check_free(span) {
                    Ok(()) => {
                        guard.take_span(span);
                        then(&guard);
                        return Ok(());
                    }
                    Err(error) => error,
                }
            };
            if tries == TRIES {
                return Err(error);
            }
            tries += 1;
            env.machine.relax();
        }
    }
}
