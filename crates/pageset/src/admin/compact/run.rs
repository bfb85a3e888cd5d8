//! One compaction of one zone: the main loop, when it ends, and how blocks move.
//!
//! Specification: `linux-page-allocator.md` 7.3, 7.6.

use core::mem;

use super::free_scanner::Spare;
use super::migrate_scanner::Candidates;
use super::suitable::{Suitability, fragmentation_score};
use super::{CompactMode, CompactOutcome, CompactReport};
use crate::admin::owner::{MoveError, Owner};
use crate::alloc::Allocator;
use crate::buddy::capture::Capture;
use crate::frame::MigrateType;
use crate::frame::{Order, PAGEBLOCK, PageState, Tag, start_of};
use crate::machine::{LockPath, Machine};
use crate::pcp::CachedZone;
use crate::zone::ZoneGuard;
use crate::zone::memory::last_pageblock;
use crate::zone::watermark::MarkTest;

/// What a run is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The order that is wanted; everything is compacted where there is none.
    pub(super) order: Option<Order>,
    /// The kind of use that it is wanted for.
    pub(super) migratetype: MigrateType,
    pub(super) mode: CompactMode,
    /// The request's watermark test; a run for no request goes ahead without.
    pub(super) test: Option<MarkTest>,
    /// Whether a request waits for it.
    pub(super) direct: bool,
    /// Whether it begins at the zone's ends and disregards skip bits.
    pub(super) whole_zone: bool,
    /// Whether pages may move to pageblocks of any type.
    pub(super) any_type: bool,
    /// The fragmentation score that is low enough.
    pub(super) score: Option<u8>,
}

/// A run over one zone.
pub(super) struct Run<'r, 'a, M: Machine, O> {
    pub(super) allocator: &'r Allocator<'a, M>,
    pub(super) zone: &'r CachedZone<'a, M>,
    pub(super) owner: &'r O,
    pub(super) plan: Plan,
    /// The next page of the migrate scanner, and of the free scanner.
    pub(super) migrate: u32,
    pub(super) free: u32,
    /// Whether it began at the zone's start.
    whole_zone: bool,
    /// Whether the pageblock at hand was isolated from before: what is left of it is not worth another visit.
    pub(super) finish_block: bool,
    /// Whether others wanted the zone lock.
    pub(super) contended: bool,
    pub(super) candidates: Candidates,
    pub(super) spare: Spare,
    capture: Option<Capture>,
    pub(super) report: CompactReport,
}

/// What came of moving the candidates.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moves {
    All,
    /// Some stayed.
    Some,
    /// There was no place to move to, or no memory for the owner to do it.
    NoPlace,
}

impl<'r, 'a, M: Machine, O: Owner> Run<'r, 'a, M, O> {
    /// Compacts a zone, if that can help.
    pub(super) fn zone(
        allocator: &'r Allocator<'a, M>,
        zone: &'r CachedZone<'a, M>,
        owner: &'r O,
        plan: Plan,
    ) -> CompactReport {
        let at_once = |outcome| CompactReport { outcome, ..CompactReport::default() };
        match plan.test.map_or(Suitability::Suitable, |test| zone.zone.suitability(&test)) {
            Suitability::Ready => return at_once(CompactOutcome::Success),
            Suitability::Unsuitable => return at_once(CompactOutcome::Skipped),
            Suitability::Suitable => {}
        }
        if plan.order.is_some_and(|order| zone.zone.buddy.deferral.restarts(order)) {
            zone.zone.forget_skipped(allocator.env());
        }
        // What is freed from here on merges, and what was not merged so far does.
        let _merges = zone.zone.merges(allocator.env());
        let ends = (zone.frames().first, last_pageblock(zone.frames()));
        let (migrate, free) =
            if plan.whole_zone { ends } else { zone.zone.compaction.positions(zone.frames(), plan.mode.slot()) };
        let mut run = Run {
            allocator,
            zone,
            owner,
            plan,
            migrate,
            free,
            whole_zone: migrate <= zone.frames().first,
            finish_block: false,
            contended: false,
            candidates: Candidates::default(),
            spare: Spare::default(),
            capture: plan.order.filter(|_| plan.direct).map(|order| Capture::new(order, plan.migratetype)),
            report: CompactReport::default(),
        };
        zone.zone.merge_skipped(allocator.env());
        let outcome = run.main_loop();
        run.end(outcome)
    }

    fn main_loop(&mut self) -> CompactOutcome {
        // The last page that candidates were looked for at, until its block was drained.
        let mut last = None;
        loop {
            if let Some(outcome) = self.finished() {
                return outcome;
            }
            let pageblock = |page| start_of(page, Order::PAGEBLOCK);
            self.finish_block = last.is_some_and(|last| pageblock(last) == pageblock(self.migrate));
            loop {
                self.isolate_candidates();
                if self.candidates.is_empty() {
                    break;
                }
                last = Some(self.migrate - 1);
                let moves = self.move_candidates();
                if moves == Moves::NoPlace && !self.scanners_met() {
                    return CompactOutcome::Contended;
                }
                let again = moves != Moves::All
                    && !self.migrate.is_multiple_of(PAGEBLOCK)
                    && !self.plan.whole_zone
                    && self.plan.mode < CompactMode::Sync
                    && !self.finish_block;
                if !again {
                    break;
                }
                self.finish_block = true;
            }
            if let (Some(page), Some(order)) = (last, self.plan.order)
                && start_of(page, order) < start_of(self.migrate, order)
            {
                self.drain();
                last = None;
            }
            if self.captured().is_some() {
                return CompactOutcome::Success;
            }
        }
    }

    /// Whether the run has ended, and how. Specification 7.6.
    fn finished(&self) -> Option<CompactOutcome> {
        let (zone, plan) = (self.zone, &self.plan);
        if self.scanners_met() {
            zone.zone.compaction.start_over(zone.frames());
            if plan.direct {
                zone.zone.compaction.wants_flush();
            }
            let whole = if self.whole_zone { CompactOutcome::Complete } else { CompactOutcome::PartialSkipped };
            return Some(whole);
        }
        if let Some(enough) = plan.score {
            return (fragmentation_score(&zone.zone.free_by_order()) <= enough).then_some(CompactOutcome::Success);
        }
        // A pageblock that was begun is finished, so that less of its type is spread over others.
        if !self.migrate.is_multiple_of(PAGEBLOCK) {
            return None;
        }
        if zone.zone.buddy.has_block_for(plan.order?, plan.migratetype) {
            return Some(CompactOutcome::Success);
        }
        self.contended.then_some(CompactOutcome::Contended)
    }

    pub(super) fn scanners_met(&self) -> bool {
        self.free / PAGEBLOCK <= self.migrate / PAGEBLOCK
    }

    /// Moved blocks wait in the pageset; drained, they merge.
    fn drain(&self) {
        let env = self.allocator.env();
        self.zone.drain_or_capture(env, env.machine.cpu(), self.capture.as_ref());
    }

    /// Moves all candidates; those that stay are put back. No lock is held.
    fn move_candidates(&mut self) -> Moves {
        let mut moves = Moves::All;
        while let Some((page, order)) = self.candidates.first() {
            let result = if moves == Moves::NoPlace { Err(MoveError::NoMemory) } else { self.move_one(page, order) };
            self.candidates.remove_first();
            match result {
                Ok(()) => self.report.moved += order.pages(),
                Err(error) => {
                    self.owner.put_back(self.zone.frames().pfn(page), order);
                    self.report.failed += order.pages();
                    moves = match error {
                        MoveError::NoMemory => Moves::NoPlace,
                        MoveError::Busy if moves == Moves::NoPlace => moves,
                        MoveError::Busy => Moves::Some,
                    };
                }
            }
        }
        moves
    }

    fn move_one(&mut self, page: u32, order: Order) -> Result<(), MoveError> {
        let frames = self.zone.frames();
        // Where there are free pages, but none in a block as large, smaller blocks may still move.
        let to = self.target(order).ok_or(if self.spare.pages > 0 { MoveError::Busy } else { MoveError::NoMemory })?;
        let (from_pfn, to_pfn) = (frames.pfn(page), frames.pfn(to));
        let kind = frames.tag(page).kind().unwrap_or(MigrateType::Movable);
        // Before the owner hears of it: from then on it may be freed.
        frames.set_tag(to, Tag::new(PageState::Allocated, order, kind));
        self.spare.used += order.pages();
        match self.owner.move_block(from_pfn, to_pfn, order) {
            Ok(()) => {
                // Refused only where the owner has freed what it had isolated; then it is free already.
                self.allocator.free(from_pfn, order).ok();
                Ok(())
            }
            Err(error) => {
                // Else the owner has freed it.
                if frames.tag(to).is(PageState::Allocated, order) {
                    self.spare.used -= order.pages();
                    self.spare.put(self.allocator.env(), self.zone.frames(), to, order);
                }
                Err(error)
            }
        }
    }

    /// Hands out what was captured, gives back what was not used, and adds up.
    fn end(mut self, mut outcome: CompactOutcome) -> CompactReport {
        let (allocator, zone) = (self.allocator, self.zone);
        let guard = zone.zone.lock(allocator.env(), LockPath::Map);
        self.give_back(&guard);
        if let Some((page, order)) = self.captured().zip(self.plan.order) {
            self.capture = None;
            guard.frames.set_tag(page, Tag::new(PageState::Allocated, order, self.plan.migratetype));
            guard.count_direct_alloc(order.pages());
            self.report.captured = Some(zone.frames().pfn(page));
            outcome = CompactOutcome::Success;
        }
        zone.zone.compaction.count(&self.report, &guard);
        drop(guard);
        CompactReport { outcome, ..self.report }
    }
}

impl<M: Machine, O> Run<'_, '_, M, O> {
    fn captured(&self) -> Option<u32> {
        self.capture.as_ref().and_then(Capture::page)
    }

    /// Gives back the free blocks that nothing has moved to.
    fn give_back(&mut self, zone: &ZoneGuard<'_, '_, M>) {
        let mut highest = None;
        while let Some((page, order)) = self.spare.pop(zone.env(), &zone.frames) {
            highest = highest.max(Some(page));
            zone.free_or_capture(page, order, zone.frames.block_type(page), self.capture.as_ref());
        }
        if let Some(page) = highest {
            self.zone.zone.compaction.raise_free(start_of(page, Order::PAGEBLOCK));
        }
        // What the owner was given to move to was handed out past the pagesets.
        zone.count_direct_alloc(mem::take(&mut self.spare.used));
    }
}

/// A run that has ended holds nothing any more; one that the owner ends by a panic does.
impl<M: Machine, O> Drop for Run<'_, '_, M, O> {
    fn drop(&mut self) {
        let captured = self.captured().zip(self.plan.order);
        if self.spare.pages == 0 && self.spare.used == 0 && captured.is_none() {
            return;
        }
        let zone = self.zone.zone.lock(self.allocator.env(), LockPath::Map);
        self.capture = None;
        self.give_back(&zone);
        if let Some((page, order)) = captured {
            zone.free_block(page, order, zone.frames.block_type(page));
        }
    }
}
