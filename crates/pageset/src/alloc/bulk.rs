//! Pages by the array: many taken or given back in one call, a run of them under one hold of a pageset's lock.
//!
//! Specification: `linux-page-allocator.md` 2.3, 2.5 "Batched free".

use crate::alloc::Allocator;
use crate::alloc::attempt::Attempt;
use crate::alloc::error::{AllocError, FreeError};
use crate::alloc::request::{Block, Request};
use crate::frame::{CpuId, Order, PageState, Pfn};
use crate::machine::Machine;
use crate::pcp::CachedZone;
use crate::policy::ListRule;

impl<'a, M: Machine> Allocator<'a, M> {
    /// Takes single pages into `pages`, as many as can be had; returns how many.
    ///
    /// The same pages come as from as many calls of [`Self::alloc`], with the same refills; whether consecutive frees go
    /// on counting as such is a rule ([`crate::Tuning::bulk_counts`]). A pageset's lock is held until its list is empty, for
    /// as many pages as the list has; the caller's CPU is looked up for each such run. Specification 2.3,
    /// step 2.
    ///
    /// # Errors
    /// As [`Self::alloc`], when not even one page was to be had; an order above 0.
    pub fn alloc_bulk(&self, request: &Request, pages: &mut [Pfn]) -> Result<usize, AllocError> {
        self.alloc_pages(request, pages, |pfn| pfn)
    }

    /// As [`Self::alloc_bulk`], for a caller that names pages in its own way; `name` makes that of each. It runs with the
    /// pageset's lock held, and so does the drop of what was in a slot: neither may call the allocator. Should one panic,
    /// the pages of the run are lost.
    ///
    /// # Errors
    /// As there.
    pub fn alloc_pages<T>(
        &self,
        request: &Request,
        pages: &mut [T],
        name: impl Fn(Pfn) -> T,
    ) -> Result<usize, AllocError> {
        if request.order > Order::ZERO {
            return Err(AllocError::BulkOrder(request.order));
        }
        let mut got = 0;
        while got < pages.len() {
            let rest = &mut pages[got..];
            let there = self.take_run_hot(request, rest, &name);
            if there > 0 {
                got += there;
                continue;
            }
            let cpu = self.machine.cpu();
            match self.walk(request, cpu, |zone, attempt| self.take_run(zone, cpu, request, attempt, rest, &name)) {
                Ok(run) => got += run,
                Err(error) if got == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(got)
    }

    /// Takes at least one page from a zone, through the pageset or past it; as [`Self::take`] for a run of pages.
    fn take_run<T>(
        &self,
        zone: &CachedZone<'a, M>,
        cpu: CpuId,
        request: &Request,
        attempt: Attempt,
        pages: &mut [T],
        name: impl Fn(Pfn) -> T,
    ) -> Option<usize> {
        if let Some(list) = self.cached_list(request) {
            let wanted = attempt.wanted(&zone.zone, request);
            match zone.alloc_run(self.env(), cpu, list, wanted, pages, &name) {
                // Before 5.14 a refill that failed was the zone's answer. Specification 2.3.
                Some(0) if self.tuning.lists == ListRule::OrderZero => return None,
                Some(0) | None => {}
                run => {
                    self.report_boost(zone, request);
                    return run;
                }
            }
        }
        *pages.first_mut()? = name(zone.frames().pfn(self.take_direct(zone, request, attempt)?));
        Some(1)
    }

    /// Gives many blocks back: all are checked first, then freed in order, so that none comes back to a pageset before
    /// all have been seen. Consecutive blocks of a zone share a hold of the pageset's lock, up to
    /// [`crate::Tuning::free_run`] or [`crate::Tuning::long_free_run`]; where it is busy, one block goes to the buddy and
    /// the next tries again. The caller's CPU is looked up for each hold. Specification 2.5, "Batched free".
    ///
    /// # Errors
    /// The first wrong one; none has been freed then.
    pub fn free_bulk(&self, blocks: &[Block]) -> Result<(), FreeError> {
        self.free_all(blocks, |block| *block)
    }

    /// As [`Self::free_bulk`], for single pages that the caller names in its own way; `pfn` says which each is. It says
    /// the same each time that it is asked, for what was checked is not checked again; it runs with the pageset's lock
    /// held, where it may not call the allocator, and does not panic.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn free_pages<T>(&self, pages: &[T], pfn: impl Fn(&T) -> Pfn) -> Result<(), FreeError> {
        self.free_all(pages, |page| Block { pfn: pfn(page), order: Order::ZERO })
    }

    #[inline(always)]
    fn free_all<T>(&self, entries: &[T], block: impl Fn(&T) -> Block) -> Result<(), FreeError> {
        let prepared = self.prepare_movable(entries, &block);
        if prepared < entries.len() {
            self.prepare_rest(entries, prepared, &block)?;
        }
        let all_prepared = prepared == entries.len();
        let mut rest = entries;
        while !rest.is_empty() {
            let given = if all_prepared { self.give_run_hot(rest, &block) } else { None };
            let done = match given.unwrap_or_else(|| self.commit_run(rest, &block)) {
                0 => self.free_first_to_buddy(rest, &block),
                run => run,
            };
            rest = &rest[done..];
        }
        Ok(())
    }

    /// Checks the blocks after the first `prepared` and turns their tags to Cached.
    #[cold]
    fn prepare_rest<T>(&self, entries: &[T], prepared: usize, block: impl Fn(&T) -> Block) -> Result<(), FreeError> {
        for (i, entry) in entries.iter().enumerate().skip(prepared) {
            let Block { pfn, order } = block(entry);
            if let Err(error) = self.prepare_free(pfn, order) {
                for done in &entries[..i] {
                    if let Some((zone, page)) = self.locate(block(done).pfn) {
                        zone.frames().set_tag(page, zone.frames().tag(page).with_state(PageState::Allocated));
                    }
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Puts checked blocks into the pageset of the first one's zone, as far as they are of that zone; returns how many.
    #[inline(never)]
    fn commit_run<T>(&self, entries: &[T], block: impl Fn(&T) -> Block) -> usize {
        let Some((zone, _)) = entries.first().and_then(|entry| self.locate(block(entry).pfn)) else { return 0 };
        let run = entries.iter().take(self.tuning.free_run()).map_while(|entry| {
            let Block { pfn, order } = block(entry);
            let page = zone.frames().page(pfn)?;
            Some((self.list_for(zone, page, order)?, page, order))
        });
        zone.free_run(self.env(), self.machine.cpu(), run)
    }

    /// Gives the first of some checked blocks to the buddy; returns that it was one.
    #[cold]
    fn free_first_to_buddy<T>(&self, entries: &[T], block: impl Fn(&T) -> Block) -> usize {
        let Some(Block { pfn, order }) = entries.first().map(block) else { return 0 };
        if let Some((zone, page)) = self.locate(pfn) {
            self.free_to_buddy(zone, page, order);
        }
        1
    }
}
