//! Bulk allocation and free: each run of blocks takes the pageset's lock once.
//!
//! Specification: `linux-page-allocator.md` 2.3, 2.5 "Batched free".

use crate::alloc::Allocator;
use crate::alloc::error::{AllocError, FreeError};
use crate::alloc::fast::FirstHold;
use crate::alloc::general::Attempt;
use crate::alloc::request::{Block, PageHandle, Request};
use crate::frame::{CpuId, Order, PageState, Pfn};
use crate::machine::{LockPath, Machine};
use crate::pcp::{CachedZone, Freed, TAKEN_PER_HOLD};
use crate::policy::{BULK, ListRule, SMALL};

impl<'a, M: Machine> Allocator<'a, M> {
    /// Allocates blocks of the request's order into `blocks`, as many as available. Returns their number.
    ///
    /// The blocks and the refills are the same as with single calls of [`Self::alloc`]. Only the count of consecutive
    /// frees may differ: [`crate::Tuning::bulk_counts`] decides. Each run holds a pageset's lock until 512 blocks are taken or the list is
    /// empty, and reads the caller's CPU again. Specification 2.3, step 2.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let mut pages = [Pfn(0); 32];
    /// let count = allocator.alloc_bulk(&MOVABLE, &mut pages)?;
    /// allocator.free_bulk_of(Order::ZERO, &pages[..count])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::alloc`], if no block could be allocated.
    pub fn alloc_bulk(&self, request: &Request, blocks: &mut [Pfn]) -> Result<usize, AllocError> {
        let got = self.take_run_hot(request, blocks);
        if got == blocks.len() { Ok(got) } else { self.alloc_rest(request, blocks, got) }
    }

    /// The rest of [`Self::alloc_bulk`], which has `got` blocks.
    #[inline(never)]
    fn alloc_rest(&self, request: &Request, blocks: &mut [Pfn], mut got: usize) -> Result<usize, AllocError> {
        while got < blocks.len() {
            let rest = &mut blocks[got..];
            let there = self.take_run_apart(request, rest);
            if there > 0 {
                got += there;
                continue;
            }
            match self.take_some(request, rest) {
                Ok(run) => got += run,
                Err(error) if got == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(got)
    }

    /// Takes at least one block. A small build refills the pageset by way of a single block.
    fn take_some(&self, request: &Request, blocks: &mut [Pfn]) -> Result<usize, AllocError> {
        let cpu = self.machine.cpu();
        if SMALL && let Some(block) = blocks.first_mut() {
            *block = self.alloc_generally(request)?;
            return Ok(1);
        }
        self.walk(request, cpu, |zone, attempt| self.take_run(zone, cpu, request, attempt, blocks))
    }

    /// Takes at least one block from a zone, through the pageset or directly: [`Self::take`] for a run of blocks.
    fn take_run(
        &self,
        zone: &CachedZone<'a, M>,
        cpu: CpuId,
        request: &Request,
        attempt: Attempt,
        blocks: &mut [Pfn],
    ) -> Option<usize> {
        if attempt.reserves() {
            // Each block may reserve its pageblock.
            let block = self.take(zone, cpu, request, attempt)?;
            *blocks.first_mut()? = zone.frames().pfn(block);
            return Some(1);
        }
        if let Some(list) = self.cached_list(request) {
            let wanted = attempt.wanted(&zone.shared, request);
            match zone.alloc_run(self.env(), cpu, list, wanted, blocks) {
                // Before 5.14 the zone fails if the refill fails. Specification 2.3.
                Some(0) if self.tuning.lists == ListRule::OrderZero => return None,
                Some(0) | None => {}
                run => {
                    self.report_boost(zone, request);
                    return run;
                }
            }
        }
        // One block if the pageset is busy: the next one tries it again.
        let alone = !zone.bypasses(self.env(), zone.pagesets.get(cpu.0 as usize)?);
        let (blocks, _) = blocks.split_at_mut(blocks.len().min(if alone { 1 } else { TAKEN_PER_HOLD }));
        let mut got = 0;
        self.take_each_direct(zone, cpu, request, attempt, |page| {
            blocks[got] = zone.frames().pfn(page);
            got += 1;
            got < blocks.len() && self.may_take(zone, request, attempt)
        });
        (got > 0).then_some(got)
    }

    /// Frees many blocks. First checks all of them, then frees them in order: no block enters a pageset before all are
    /// checked. Consecutive blocks of a zone share one hold of the pageset's lock, up to [`crate::Tuning::free_run`] or
    /// [`crate::Tuning::long_free_run`]. If the pageset is busy, one block goes to the buddy and the next block tries
    /// the pageset again. Each hold reads the caller's CPU again. Specification 2.5, "Batched free".
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let order = Order::new(3).expect("at most the largest");
    /// let page = Block { pfn: allocator.alloc(&MOVABLE)?, order: Order::ZERO };
    /// let block = Block { pfn: allocator.alloc(&Request { order, ..MOVABLE })?, order };
    /// allocator.free_bulk(&[page, block])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first wrong free. No block has been freed then.
    pub fn free_bulk(&self, blocks: &[Block]) -> Result<(), FreeError> {
        self.free_all(blocks, |block| *block)
    }

    /// As [`Self::free_bulk`], for blocks of one order, named by the numbers or by the addresses of their first pages.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let pages = [allocator.alloc(&MOVABLE)?, allocator.alloc(&MOVABLE)?];
    /// allocator.free_bulk_of(Order::ZERO, &pages)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::free_bulk`].
    #[inline]
    pub fn free_bulk_of(&self, order: Order, blocks: &[impl PageHandle]) -> Result<(), FreeError> {
        self.free_all(blocks, |block| Block { pfn: block.pfn(), order })
    }

    // The closures of this module are the allocator's own: they run with the pageset's lock held, and the same entry gives
    // the same block each time.

    #[inline(always)]
    fn free_all<T>(&self, entries: &[T], block: impl Fn(&T) -> Block) -> Result<(), FreeError> {
        // In a small build all blocks take the way of the rest.
        let first = if SMALL { (0, FirstHold::Outside) } else { self.free_run_hot(entries, &block) };
        match first {
            (_, FirstHold::Inside) => Ok(()),
            (prepared, run) => self.free_rest(entries, prepared, run == FirstHold::Busy, block),
        }
    }

    /// Frees blocks, of which the first `prepared` ones are checked: their tags are Cached. `is_busy` says that another thread was
    /// just seen to hold the pageset's lock: the first block then goes to the buddy.
    #[inline(never)]
    fn free_rest<T>(
        &self,
        entries: &[T],
        prepared: usize,
        is_busy: bool,
        block: impl Fn(&T) -> Block,
    ) -> Result<(), FreeError> {
        if prepared < entries.len() {
            self.prepare_rest(entries, prepared, &block)?;
        }
        let mut rest = entries;
        if is_busy {
            rest = &rest[self.free_first_to_buddy(rest, &block)..];
        }
        while !rest.is_empty() {
            let given = if BULK { self.give_run_hot(rest, &block) } else { None };
            let done = match given.unwrap_or_else(|| self.commit_run(rest, &block)) {
                0 => self.free_first_to_buddy(rest, &block),
                run => run,
            };
            rest = &rest[done..];
        }
        Ok(())
    }

    /// Checks the blocks after the first `prepared` ones and sets their tags to Cached.
    #[cold]
    pub(crate) fn prepare_rest<T>(
        &self,
        entries: &[T],
        prepared: usize,
        block: impl Fn(&T) -> Block,
    ) -> Result<(), FreeError> {
        let mut done = prepared;
        while let Some(first) = entries.get(done) {
            let alike = if BULK { self.prepare_run_hot(&entries[done..], &block) } else { 0 };
            if alike == 0 {
                let Block { pfn, order } = block(first);
                if let Err(error) = self.claim_free(pfn, order) {
                    for done in &entries[..done] {
                        if let Some((zone, page)) = self.locate(block(done).pfn) {
                            zone.frames().set_tag(page, zone.frames().tag(page).with_state(PageState::Allocated));
                        }
                    }
                    return Err(error);
                }
            }
            done += alike.max(1);
        }
        Ok(())
    }

    /// Frees checked blocks.
    pub(crate) fn commit_all<T>(&self, entries: &[T], block: impl Fn(&T) -> Block) {
        let mut rest = entries;
        while !rest.is_empty() {
            let done = match self.commit_run(rest, &block) {
                0 => self.free_first_to_buddy(rest, &block),
                run => run,
            };
            rest = &rest[done..];
        }
    }

    /// Puts checked blocks into the pageset of the first block's zone, up to the first block of another zone. Returns
    /// their number.
    #[inline(never)]
    fn commit_run<T>(&self, entries: &[T], block: impl Fn(&T) -> Block) -> usize {
        let Some((zone, _)) = entries.first().and_then(|entry| self.locate(block(entry).pfn)) else { return 0 };
        if self.tuning.backing.has_owners() {
            // Each block may have another owner, and one pageset's lock is held at a time.
            return self.free_first(entries, &block);
        }
        if zone.pagesets.get(self.machine.cpu().0 as usize).is_some_and(|pageset| zone.bypasses(self.env(), pageset)) {
            return self.free_run_to_buddy(zone, entries, &block);
        }
        let run = entries.iter().take(self.tuning.free_run()).map_while(|entry| {
            let Block { pfn, order } = block(entry);
            let page = zone.frames().page(pfn)?;
            Some(Freed { page, order, list: self.list_for(zone, page, order)? })
        });
        zone.free_run(self.env(), self.machine.cpu(), run)
    }

    /// Frees checked blocks to the buddy under one hold of the first block's region, up to the first block elsewhere. Returns their number.
    #[cold]
    fn free_run_to_buddy<T>(&self, zone: &CachedZone<'a, M>, entries: &[T], block: impl Fn(&T) -> Block) -> usize {
        let at = |entry: &T| Some((zone.frames().page(block(entry).pfn)?, block(entry).order));
        let Some((first, _)) = entries.first().and_then(at) else { return 0 };
        let guard = zone.shared.lock(self.env(), LockPath::DirectFree, first);
        let is_here = |&(page, _): &(u32, Order)| guard.covers(page);
        let run = entries.iter().take(TAKEN_PER_HOLD).map_while(|entry| at(entry).filter(is_here));
        run.map(|(page, order)| guard.free_direct(page, order)).count()
    }

    /// Frees the first of the checked blocks. Returns the number of blocks freed: 0 or 1.
    fn free_first<T>(&self, entries: &[T], block: impl Fn(&T) -> Block) -> usize {
        let Some(Block { pfn, order }) = entries.first().map(block) else { return 0 };
        if let Some((zone, page)) = self.locate(pfn) {
            self.commit_free(zone, page, order, true);
        }
        1
    }

    /// Frees the first of the checked blocks to the buddy. Returns the number of blocks freed: 0 or 1.
    #[cold]
    fn free_first_to_buddy<T>(&self, entries: &[T], block: impl Fn(&T) -> Block) -> usize {
        let Some(Block { pfn, order }) = entries.first().map(block) else { return 0 };
        if let Some((zone, page)) = self.locate(pfn) {
            self.free_to_buddy(zone, page, order);
        }
        1
    }
}
