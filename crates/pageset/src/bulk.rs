//! Pages by the array: many taken or given back in one call, a run of them under one hold of a pageset's lock.
//!
//! Specification: `linux-page-allocator.md` 2.3, 2.5 "Batched free".

use crate::allocator::Allocator;
use crate::attempt::Attempt;
use crate::error::{AllocError, FreeError};
use crate::frame::{CpuId, Order, PageState, Pfn};
use crate::machine::Machine;
use crate::request::{Block, Request};
use crate::tuning::ListRule;
use crate::zone::Zone;

impl<'a, M: Machine> Allocator<'a, M> {
    /// Takes single pages into `pages`, as many as can be had; returns how many.
    ///
    /// The same pages come as from as many calls of [`Self::alloc`], with the same refills; whether consecutive frees go
    /// on counting as such is a rule ([`crate::Tuning::bulk_counts`]). A pageset's lock is held until its list is empty, at
    /// most for one batch that a refill brought; the caller's CPU is looked up for each such run. Specification 2.3,
    /// step 2.
    ///
    /// # Errors
    /// As [`Self::alloc`], when not even one page was to be had; an order above 0.
    pub fn alloc_bulk(&self, request: &Request, pages: &mut [Pfn]) -> Result<usize, AllocError> {
        if request.order > Order::ZERO {
            return Err(AllocError::BulkOrder(request.order));
        }
        let mut got = 0;
        while got < pages.len() {
            let cpu = self.machine.cpu();
            match self.walk(request, cpu, |zone, attempt| self.take_run(zone, cpu, request, attempt, &mut pages[got..]))
            {
                Ok(run) => got += run,
                Err(error) if got == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(got)
    }

    /// Takes at least one page from a zone, through the pageset or past it; as [`Self::take`] for a run of pages.
    fn take_run(
        &self,
        zone: &Zone<'a, M>,
        cpu: CpuId,
        request: &Request,
        attempt: Attempt,
        pages: &mut [Pfn],
    ) -> Option<usize> {
        let (machine, tuning) = (&self.machine, &self.tuning);
        if let Some(list) = self.cached_list(request) {
            match zone.alloc_run(machine, tuning, cpu, list, request, attempt, pages) {
                // Before 5.14 a refill that failed was the zone's answer. Specification 2.3.
                Some(0) if tuning.lists == ListRule::OrderZero => return None,
                Some(0) | None => {}
                run => {
                    self.tell_of_boost(zone, request);
                    return run;
                }
            }
        }
        *pages.first_mut()? = zone.frames.pfn(self.take_direct(zone, request, attempt)?);
        Some(1)
    }

    /// Gives many blocks back: all are checked first, then freed in order, so that none comes back to a pageset before
    /// all have been seen. Consecutive blocks of a zone share a hold of the pageset's lock, up to
    /// [`crate::Tuning::free_run`]; where it is busy, one block goes to the buddy and the next tries again. The caller's
    /// CPU is looked up for each hold. Specification 2.5, "Batched free".
    ///
    /// # Errors
    /// The first wrong one; none has been freed then.
    pub fn free_bulk(&self, blocks: &[Block]) -> Result<(), FreeError> {
        for (i, block) in blocks.iter().enumerate() {
            if !self.prepare_hot(block)
                && let Err(error) = self.prepare_free(block.pfn, block.order)
            {
                for done in &blocks[..i] {
                    if let Some((zone, page)) = self.locate(done.pfn) {
                        zone.frames.set_tag(page, zone.frames.tag(page).with_state(PageState::Allocated));
                    }
                }
                return Err(error);
            }
        }
        let mut rest = blocks;
        while let Some(block) = rest.first() {
            let mut done = 1;
            if let Some((zone, page)) = self.locate(block.pfn) {
                match self.commit_run(zone, rest) {
                    0 => self.give_to_buddy(zone, page, block.order),
                    run => done = run,
                }
            }
            rest = &rest[done..];
        }
        Ok(())
    }

    /// Puts blocks into the pageset of a zone, as far as they are of that zone; returns how many.
    fn commit_run(&self, zone: &'a Zone<'a, M>, blocks: &[Block]) -> usize {
        let (machine, tuning, cpu) = (&self.machine, &self.tuning, self.machine.cpu());
        if let Some(given) = self.give_run_hot(zone, cpu, blocks) {
            return given;
        }
        let run = blocks.iter().take(tuning.free_run()).map_while(|block| {
            let page = zone.frames.page(block.pfn)?;
            Some((self.list_for(zone, page, block.order)?, page, block.order))
        });
        zone.free_run(machine, tuning, cpu, run)
    }
}
