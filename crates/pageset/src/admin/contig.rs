//! Runs of neighbouring pages: any number, at any alignment.
//!
//! A run that fits the largest block is the first part of one block, and the rest of the block is free. A larger run is a range
//! ([`crate::Allocator::alloc_range`]) that a search finds, from the zone's first page on. The search goes over each zone up to
//! three times: for free memory; for free memory after all pagesets have drained; and for blocks that their owner may move.

use crate::admin::owner::Owner;
use crate::alloc::Allocator;
use crate::alloc::error::{AllocError, FreeError, WrongFree};
use crate::alloc::request::{AllocFrom, Request, Wait};
use crate::frame::{MigrateType, Order, PageRange, PageState, Pfn};
use crate::machine::Machine;
use crate::pcp::CachedZone;

/// What a search takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// What looks free without a lock. A free page may look otherwise while its block is merged.
    Free,
    /// What is free with the zone's lock held.
    Settled,
    /// Also blocks in use that may move.
    Movable,
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// [`Self::alloc_with`] for a run of pages, with an owner.
    #[inline]
    pub(super) fn alloc_run(
        &self,
        request: &Request,
        pages: u64,
        align_pages: u64,
        from: AllocFrom,
        owner: &impl Owner,
    ) -> Result<Pfn, AllocError> {
        // The compiler makes a shorter fast path for a constant request, if it is not copied.
        if pages == 1 && align_pages == 1 && request.order == Order::ZERO && from == AllocFrom::Pageset {
            return self.alloc(request);
        }
        if pages == 0 || !align_pages.is_power_of_two() {
            return Err(AllocError::Run { pages, align_pages });
        }
        match Order::holding(pages.max(align_pages)).map(|order| (order, self.alloc_first(request, order, pages, from)))
        {
            // The run may fit where no block of this order is aligned.
            Some((order, Err(AllocError::OutOfMemory(_))))
                if order > Order::PAGEBLOCK && request.wait == Wait::Memory => {}
            Some((_, result)) => return result,
            None => {}
        }
        self.search_run(request, pages, align_pages, owner)
    }

    /// [`Self::alloc_with`] [`AllocFrom::Search`].
    #[cold]
    pub(super) fn search_run(
        &self,
        request: &Request,
        pages: u64,
        align_pages: u64,
        owner: &impl Owner,
    ) -> Result<Pfn, AllocError> {
        if pages == 0 || !align_pages.is_power_of_two() {
            return Err(AllocError::Run { pages, align_pages });
        }
        if !request.migratetype.is_ordinary() {
            return Err(AllocError::Migratetype(request.migratetype));
        }
        let list = self.zonelist(request, self.machine.cpu())?;
        let find =
            |pass| list.zones().find_map(|zone| self.search_zone(zone, request, pages, align_pages, pass, owner));
        let drained = || {
            // Cached pages keep their blocks from merging.
            list.zones().for_each(|zone| self.settle_zone(zone));
            find(Look::Settled).or_else(|| if owner.moves() { find(Look::Movable) } else { None })
        };
        let fits = |zone: &CachedZone<'a, M>| zone.frames().spanned() >= pages;
        let may_search = request.wait == Wait::Memory && list.zones().any(fits);
        let found = if may_search { find(Look::Free).or_else(drained) } else { None };
        found.ok_or(AllocError::NoRun { pages, align_pages })
    }

    fn search_zone(
        &self,
        zone: &CachedZone<'a, M>,
        request: &Request,
        pages: u64,
        align_pages: u64,
        pass: Look,
        owner: &impl Owner,
    ) -> Option<Pfn> {
        let span = self.view(zone).span();
        let step = align_pages.max(Order::PAGEBLOCK.pages());
        let mut start = span.start.0.checked_next_multiple_of(step).map(Pfn)?;
        while start.0.checked_add(pages).is_some_and(|end| end <= span.end().0) && owner.keep_going() {
            let range = PageRange::new(start, pages);
            let obstacle = match self.first_obstacle(range, pass) {
                Some(pfn) => pfn,
                None => match self.alloc_range(range, request.migratetype, owner) {
                    Ok(()) => return Some(start),
                    Err(error) => error.pfn,
                },
            };
            // The block in the way may begin before the range.
            start = (obstacle.max(start).0 + 1).checked_next_multiple_of(step).map(Pfn)?;
        }
        None
    }

    /// The first page of a range that the pass does not take, at a recent moment.
    fn first_obstacle(&self, range: PageRange, pass: Look) -> Option<Pfn> {
        let may_move = |pfn: Pfn| {
            let (zone, page) = self.locate(pfn)?;
            let (head, order, state) = zone.shared.block_around(page)?;
            let moves = state == PageState::Cached || zone.frames().tag(head).kind() == Some(MigrateType::Movable);
            moves.then(|| PageRange::new(zone.frames().pfn(head), order.pages()))
        };
        let around = |pfn| {
            let free = self.free_block_around(pfn);
            match pass {
                Look::Free => free,
                // Offline memory needs no lock to be seen.
                Look::Settled => free.or_else(|| self.block_of(pfn).and_then(|_| self.settled_free_block_around(pfn))),
                Look::Movable => free.or_else(|| may_move(pfn)),
            }
        };
        let mut pfn = range.start;
        while pfn < range.end() {
            match around(pfn) {
                Some(block) if block.end() > pfn => pfn = block.end(),
                _ => return Some(pfn),
            }
        }
        None
    }

    /// Frees the pages of a range, all of which are in use: a block, any part of one, or several neighbours. The rest of each block stays
    /// in use, as the largest aligned blocks, with the type of the block. Uses the caller's pageset, as [`Self::free`] does.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let three = allocator.alloc_with(Alloc::new(&MOVABLE).pages(3))?;
    /// allocator.free_range(PageRange::new(three.offset(1), 2))?;
    /// assert!(allocator.free_range(PageRange::new(three, 2)).is_err(), "the second page is free");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first page that is not in use, or a range of 0 pages. Nothing has changed then, unless another caller freed a page of
    /// the range at the same time.
    #[inline]
    pub fn free_range(&self, range: PageRange) -> Result<(), FreeError> {
        let PageRange { start: pfn, pages } = range;
        // As in `alloc_run`.
        if pages == 1 && self.free(pfn, Order::ZERO).is_ok() {
            return Ok(());
        }
        if let Some(order) = Order::holding(pages)
            && order.pages() == pages
            && self.free(pfn, order).is_ok()
        {
            return Ok(());
        }
        self.free_pieces(range)
    }

    #[cold]
    fn free_pieces(&self, run: PageRange) -> Result<(), FreeError> {
        if run.pages == 0 {
            return Err(FreeError { pfn: run.start, order: Order::ZERO, reason: WrongFree::NoPages });
        }
        if run.start.0.checked_add(run.pages).is_none() {
            return Err(FreeError { pfn: run.start, order: Order::ZERO, reason: WrongFree::NotOurs });
        }
        self.for_each_piece(run, |_, _| Ok(()))?;
        self.for_each_piece(run, |start, pages| match Order::holding(pages) {
            // Mostly a whole block, which has a shorter way.
            Some(order) if order.pages() == pages && self.free(start, order).is_ok() => Ok(()),
            _ => self.free_part(start, pages),
        })
    }

    /// Calls `visit` with the part of each block in use that lies in a run.
    fn for_each_piece(
        &self,
        run: PageRange,
        mut visit: impl FnMut(Pfn, u64) -> Result<(), FreeError>,
    ) -> Result<(), FreeError> {
        let mut at = run.start;
        while at < run.end() {
            let wrong = |reason| Err(FreeError { pfn: at, order: Order::ZERO, reason });
            let end = match self.block_of(at) {
                Some((block, PageState::Allocated)) => block.pfn.offset(block.order.pages()).min(run.end()),
                Some((block, state)) if block.pfn == at => return wrong(WrongFree::NotAllocated(state)),
                Some((block, state)) => {
                    return wrong(WrongFree::Inside { head: block.pfn, order: block.order, state });
                }
                None if self.locate(at).is_some() => return wrong(WrongFree::NotAllocated(PageState::Inside)),
                None => return wrong(WrongFree::NotOurs),
            };
            visit(at, end.0 - at.0)?;
            at = end;
        }
        Ok(())
    }
}
