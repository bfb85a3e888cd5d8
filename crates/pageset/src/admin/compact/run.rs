//! One compaction run over one zone: the main loop, its end conditions, the moves of blocks, and the blocks that the run
//! holds: [`Candidates`] and [`FreeTargets`].
//!
//! Specification: `linux-page-allocator.md` 7.3 to 7.6.

use core::mem;

use super::suitable::{Suitability, fragmentation_score};
use super::{CompactMode, CompactOutcome, CompactReport};
use crate::admin::owner::{MoveError, Owner};
use crate::alloc::Allocator;
use crate::buddy::Capture;
use crate::frame::{End, Frames, List, MigrateType, Order, PAGEBLOCK, PageState, Tag, start_of};
use crate::machine::{Line, LockPath, Machine};
use crate::pcp::CachedZone;
use crate::store::{self, Scope};
use crate::zone::compaction::last_pageblock;
use crate::zone::watermark::MarkTest;
use crate::zone::{Env, ZoneGuard};

/// The purpose and limits of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The wanted order. `None` compacts the whole zone.
    pub(super) order: Option<Order>,
    /// The migratetype of the wanted block.
    pub(super) migratetype: MigrateType,
    pub(super) mode: CompactMode,
    /// The request's watermark test. A run without a request skips the test.
    pub(super) test: Option<MarkTest>,
    /// Whether a request waits for the result.
    pub(super) direct: bool,
    /// Whether the scanners start at the zone's ends and ignore skip bits.
    pub(super) whole_zone: bool,
    /// Whether pages may move to pageblocks of any type.
    pub(super) any_type: bool,
    /// The fragmentation score at which the run ends. Unit: percent.
    pub(super) score: Option<u8>,
}

/// A run over one zone.
pub(super) struct Run<'r, 'a, M: Machine, O> {
    pub(super) allocator: &'r Allocator<'a, M>,
    pub(super) zone: &'r CachedZone<'a, M>,
    pub(super) owner: &'r O,
    pub(super) plan: Plan,
    /// The next page of the migrate scanner.
    pub(super) migrate: u32,
    /// The next page of the free scanner.
    pub(super) free: u32,
    /// Whether the migrate scanner began at the zone's start.
    whole_zone: bool,
    /// Whether blocks of the current pageblock were isolated before. The scanner does not visit the rest of it again.
    pub(super) finish_block: bool,
    /// Whether another CPU wanted the zone lock.
    pub(super) contended: bool,
    pub(super) candidates: Candidates,
    pub(super) targets: FreeTargets,
    capture: Option<Capture>,
    pub(super) report: CompactReport,
}

/// The result of moving the candidates.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moves {
    All,
    /// At least one block did not move.
    Some,
    /// There was no target block, or the owner had no memory for the move.
    NoTarget,
}

impl<'r, 'a, M: Machine, O: Owner> Run<'r, 'a, M, O> {
    /// Compacts a zone, if the zone is suitable.
    pub(super) fn zone(
        allocator: &'r Allocator<'a, M>,
        zone: &'r CachedZone<'a, M>,
        owner: &'r O,
        plan: Plan,
    ) -> CompactReport {
        let at_once = |outcome| CompactReport { outcome, ..CompactReport::default() };
        match plan.test.map_or(Suitability::Suitable, |test| zone.shared.suitability(&test)) {
            Suitability::Ready => return at_once(CompactOutcome::Success),
            Suitability::Unsuitable => return at_once(CompactOutcome::Skipped),
            Suitability::Suitable => {}
        }
        if plan.order.is_some_and(|order| zone.shared.deferral.restarts(order)) {
            zone.shared.forget_skipped(allocator.env());
        }
        // Pages freed from here on must merge, and so must pages that skipped merging before.
        let _merges = zone.shared.merges(allocator.env());
        let ends = (zone.frames().first, last_pageblock(zone.frames()));
        let (migrate, free) =
            if plan.whole_zone { ends } else { zone.shared.compaction.positions(zone.frames(), plan.mode.slot()) };
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
            targets: FreeTargets::default(),
            capture: plan.order.filter(|_| plan.direct).map(|order| Capture::new(order, plan.migratetype)),
            report: CompactReport::default(),
        };
        // The end conditions, which are tested for each pageblock, read lists only.
        zone.settle_all(allocator.env(), Scope::Unmerged);
        let outcome = run.main_loop();
        run.end(outcome)
    }

    fn main_loop(&mut self) -> CompactOutcome {
        // The last page scanned for candidates, until the block around it is drained.
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
                if moves == Moves::NoTarget && !self.scanners_met() {
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
            if let Some(page) = last {
                let is_behind = |order| start_of(page, order) < start_of(self.migrate, order);
                if self.plan.order.is_some_and(is_behind) {
                    self.drain();
                    last = None;
                }
                if is_behind(Order::PAGEBLOCK) && store::hides(&self.zone.shared) {
                    // The blocks that left are in the pageset, or in the bitmap if that had no room. Left there, the pageblock would be
                    // split between list and bitmap, and never whole.
                    self.drain();
                    self.settle(pageblock(page));
                }
            }
            if self.captured().is_some() {
                return CompactOutcome::Success;
            }
        }
    }

    /// The outcome, if the run has ended. Specification 7.6.
    ///
    /// Pages that drains have put into bitmaps since the run began do not count. Both scanners empty the bitmaps of the pageblocks that they
    /// visit, so only the pages that enter a bitmap later are missed: a run may miss a block of less than a pageblock, and go on.
    fn finished(&self) -> Option<CompactOutcome> {
        let (zone, plan) = (self.zone, &self.plan);
        if self.scanners_met() {
            zone.shared.compaction.start_over(zone.frames());
            if plan.direct {
                zone.shared.compaction.wants_flush();
            }
            let whole = if self.whole_zone { CompactOutcome::Complete } else { CompactOutcome::PartialSkipped };
            return Some(whole);
        }
        if self.migrate.is_multiple_of(PAGEBLOCK) && !self.owner.keep_going() {
            return Some(CompactOutcome::Contended);
        }
        if let Some(enough) = plan.score {
            return (fragmentation_score(&zone.shared.listed_by_order()) <= enough).then_some(CompactOutcome::Success);
        }
        // A started pageblock is finished, so that fewer pageblocks hold scattered blocks of its type.
        if !self.migrate.is_multiple_of(PAGEBLOCK) {
            return None;
        }
        if zone.shared.has_block_for(plan.order?, plan.migratetype) {
            return Some(CompactOutcome::Success);
        }
        self.contended.then_some(CompactOutcome::Contended)
    }

    pub(super) fn scanners_met(&self) -> bool {
        self.free / PAGEBLOCK <= self.migrate / PAGEBLOCK
    }

    /// Drains the caller's pageset, where the freed source blocks wait: only drained blocks merge.
    fn drain(&self) {
        let env = self.allocator.env();
        // A pageset that another thread holds drains later: this is only to find the block sooner.
        let _ = self.zone.try_drain_cpu(env, env.machine.cpu(), self.capture.as_ref());
    }

    /// Moves all candidates. Puts back those that cannot move. Holds no lock.
    fn move_candidates(&mut self) -> Moves {
        let mut moves = Moves::All;
        while let Some((page, order)) = self.candidates.first() {
            let result = if moves == Moves::NoTarget { Err(MoveError::NoMemory) } else { self.move_one(page, order) };
            self.candidates.remove_first();
            match result {
                Ok(()) => self.report.moved += order.pages(),
                Err(error) => {
                    self.owner.put_back(self.zone.frames().pfn(page), order);
                    self.report.failed += order.pages();
                    moves = match error {
                        MoveError::NoMemory => Moves::NoTarget,
                        MoveError::Busy if moves == Moves::NoTarget => moves,
                        MoveError::Busy => Moves::Some,
                    };
                }
            }
        }
        moves
    }

    fn move_one(&mut self, page: u32, order: Order) -> Result<(), MoveError> {
        let frames = self.zone.frames();
        // If the remaining targets are too small for this block, smaller candidates may still move.
        let to =
            self.target(order).ok_or(if self.targets.pages > 0 { MoveError::Busy } else { MoveError::NoMemory })?;
        let (from_pfn, to_pfn) = (frames.pfn(page), frames.pfn(to));
        let kind = frames.tag(page).kind().unwrap_or(MigrateType::Movable);
        // The tag is set before the owner gets the block, because the owner may free it from then on.
        frames.lend(to, order);
        self.targets.used += order.pages();
        match self.owner.move_block(from_pfn, to_pfn, order) {
            Ok(()) => {
                frames.keep_lent(to, order, kind);
                // The free is refused only if the owner broke its contract and freed the isolated block. The block is
                // free then.
                self.allocator.free(from_pfn, order).ok();
                Ok(())
            }
            Err(error) => {
                if frames.take_back(to, order) {
                    self.targets.used -= order.pages();
                    self.targets.put(self.allocator.env(), self.zone.frames(), to, order);
                }
                Err(error)
            }
        }
    }

    /// Allocates the captured block, returns unused targets, and adds the report to the zone's counters.
    fn end(mut self, mut outcome: CompactOutcome) -> CompactReport {
        let (allocator, zone) = (self.allocator, self.zone);
        let mut guard = self.give_back(zone.shared.lock(allocator.env(), LockPath::Map, 0));
        if let Some((page, order)) = self.captured().zip(self.plan.order) {
            self.capture = None;
            guard = guard.at(page);
            guard.zone.frames.set_tag(page, Tag::new(PageState::Allocated, order, self.plan.migratetype));
            guard.count_direct_alloc(order.pages());
            self.report.captured = Some(zone.frames().pfn(page));
            outcome = CompactOutcome::Success;
        }
        zone.shared.compaction.count(&self.report, &guard.at(0));
        CompactReport { outcome, ..self.report }
    }
}

impl<M: Machine, O> Run<'_, '_, M, O> {
    fn captured(&self) -> Option<u32> {
        self.capture.as_ref().and_then(Capture::page)
    }

    /// Returns the unused targets to the free lists. Returns the lock of the region of the last one.
    fn give_back<'z, 'b>(&mut self, mut guard: ZoneGuard<'z, 'b, M>) -> ZoneGuard<'z, 'b, M> {
        let mut highest = None;
        while let Some((page, order)) = self.targets.pop(guard.env, &guard.zone.frames) {
            highest = highest.max(Some(page));
            guard = guard.at(page);
            guard.free_or_capture(page, order, guard.zone.frames.block_type(page), self.capture.as_ref());
        }
        if let Some(page) = highest {
            self.zone.shared.compaction.raise_free(start_of(page, Order::PAGEBLOCK));
        }
        // The used targets were allocated without a pageset.
        guard.count_direct_alloc(mem::take(&mut self.targets.used));
        guard
    }
}

/// Returns all blocks of a run that a panic of the owner ended. A run that ended normally holds none.
impl<M: Machine, O> Drop for Run<'_, '_, M, O> {
    fn drop(&mut self) {
        let captured = self.captured().zip(self.plan.order);
        if self.targets.pages == 0 && self.targets.used == 0 && captured.is_none() {
            return;
        }
        self.capture = None;
        let zone = self.give_back(self.zone.shared.lock(self.allocator.env(), LockPath::Map, 0));
        if let Some((page, order)) = captured {
            let zone = zone.at(page);
            zone.free_block(page, order);
        }
    }
}

/// Pages isolated before they are moved. Source: specification 9, "compaction cluster".
pub(super) const CLUSTER: u32 = 32;

/// The blocks that are isolated and not yet moved. The last block may take their pages to [`CLUSTER`] or beyond.
#[derive(Default)]
pub(super) struct Candidates {
    blocks: [(u32, Order); CLUSTER as usize],
    first: usize,
    end: usize,
    /// Pages of all candidates.
    pub(super) pages: u64,
}

impl Candidates {
    pub(super) fn is_empty(&self) -> bool {
        self.first == self.end
    }

    pub(super) fn is_full(&self) -> bool {
        self.pages >= u64::from(CLUSTER)
    }

    pub(super) fn push(&mut self, page: u32, order: Order) {
        if self.is_empty() {
            (self.first, self.end) = (0, 0);
        }
        self.blocks[self.end] = (page, order);
        self.end += 1;
        self.pages += order.pages();
    }

    pub(super) fn first(&self) -> Option<(u32, Order)> {
        (!self.is_empty()).then(|| self.blocks[self.first])
    }

    pub(super) fn remove_first(&mut self) {
        if let Some((_, order)) = self.first() {
            self.first += 1;
            self.pages -= order.pages();
        }
    }
}

/// Free blocks that a run has taken and not yet used, by order. The links of their own pages hold the lists; those
/// links are unused while a block is on no list of the zone. The blocks are tagged like blocks in a pageset.
#[derive(Debug, Default)]
pub(super) struct FreeTargets {
    lists: [List; Order::COUNT],
    /// Pages on the lists.
    pub(super) pages: u64,
    /// Pages that were given to the owner as targets.
    used: u64,
}

impl FreeTargets {
    pub(super) fn put<M: Machine>(&mut self, env: Env<'_, M>, frames: &Frames<'_>, page: u32, order: Order) {
        frames.set_tag(page, Tag::new(PageState::Cached, order, MigrateType::Movable));
        let touch = |slot| env.touch(Line::Page(frames.pfn(frames.page_of_slot(slot, order))));
        self.lists[order.index()].push(frames.links, frames.slot(page, order), End::Head, touch);
        self.pages += order.pages();
    }

    fn take_first<M: Machine>(&mut self, env: Env<'_, M>, frames: &Frames<'_>, order: Order) -> Option<u32> {
        let list = &self.lists[order.index()];
        let slot = list.first()?;
        list.remove(frames.links, slot, |slot| env.touch(Line::Page(frames.pfn(frames.page_of_slot(slot, order)))));
        self.pages -= order.pages();
        Some(frames.page_of_slot(slot, order))
    }

    /// Takes the smallest block that fits and splits it. The unused upper halves stay on the lists.
    pub(super) fn take<M: Machine>(&mut self, env: Env<'_, M>, frames: &Frames<'_>, order: Order) -> Option<u32> {
        let (page, found) =
            Order::all().skip(order.index()).find_map(|found| Some((self.take_first(env, frames, found)?, found)))?;
        for half in Order::all().take(found.index()).skip(order.index()) {
            self.put(env, frames, page + half.pages() as u32, half);
        }
        Some(page)
    }

    /// Takes any block.
    fn pop<M: Machine>(&mut self, env: Env<'_, M>, frames: &Frames<'_>) -> Option<(u32, Order)> {
        Order::all().find_map(|order| Some((self.take_first(env, frames, order)?, order)))
    }
}
