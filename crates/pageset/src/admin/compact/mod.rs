//! Compaction: free blocks made by moving movable pages out of the way.
//!
//! Two scanners walk a zone towards each other. The migrate scanner starts at the zone's start and isolates the blocks
//! in use that the [`Owner`] allows to move. The free scanner starts at the zone's end and takes free
//! blocks as move targets. When the scanners meet, the zone's start is free and the zone's end is full. Specification:
//! `linux-page-allocator.md` 7.
//!
//! The optional "fast" scanners (7.4 "Fast start", 7.5 last sentence) search the free lists for good pageblocks first.
//! They are not implemented: without them compaction finds the same blocks, later.
//!
//! # Races
//!
//! No lock is held while the owner is called, so every earlier reading may be out of date:
//!
//! - *A block is freed after the scanner read its tag and before its isolation.* The owner no longer knows the block
//!   and does not isolate it. A block that is freed and allocated again may have another order. The scanner therefore
//!   reads the tag again after the isolation, and puts the block back if its order differs from the owner's answer.
//! - *A block is freed after its isolation.* The owner's contract forbids this free until the block is moved or put
//!   back. If the owner breaks the contract, one of the two frees of the block is refused; there is no other effect.
//! - *The target block is freed at once.* From `Ok` on, the target belongs to the owner like any allocated block.
//!   Compaction does not touch it again.
//! - *A free block is taken after the scanner read its tag and before it holds the zone lock.* The scanner reads the
//!   tag again under the lock.
//! - *Free blocks that the free scanner took* are on no list and are tagged like blocks in a pageset. Nobody can free,
//!   take or merge them until compaction gives them to the owner or returns them.
//!
//! This file has the public calls, which compact for a request, a zone or a node; the skip bits; and the counters.
//!
//! | module | contents |
//! | --- | --- |
//! | [`suitable`], [`proactive`] | whether compaction can help, and whether it is due: numbers in, numbers out |
//! | `run` | one run over one zone: the main loop, block moves, the end; the blocks that the run holds |
//! | `scanners` | the migrate scanner and the free scanner |

pub mod proactive;
mod run;
mod scanners;
pub mod suitable;

use crate::admin::owner::Owner;
use crate::admin::views::{NodeView, ZoneView};
use crate::alloc::Allocator;
use crate::alloc::request::Request;
use crate::frame::{MigrateType, Order, PAGEBLOCK, Pfn, ZoneKind};
use crate::machine::{LockPath, Machine};
use crate::pcp::CachedZone;
use crate::sync::{self, LockedWord};
use crate::zone::compaction::CompactionState;
use crate::zone::watermark::MarkTest;
use crate::zone::{Env, Zone, ZoneGuard};

use run::{Plan, Run};
use suitable::fragmentation_score;

/// Skip bits cleared in one hold of the zone lock. Unit: pageblocks. A guess: some microseconds.
const CLEARED_AT_ONCE: u32 = 512;

/// How much a compaction may do. Specification 7.3.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CompactMode {
    /// Waits little: a contended zone lock ends the run soon. For a request, scans only pageblocks of the request's own
    /// type. The first attempt.
    Async,
    /// Scans all pageblocks whose skip bit is clear.
    SyncLight,
    /// Scans all pageblocks, ignores skip bits, and is never deferred. The last resort.
    Sync,
}

impl CompactMode {
    /// Index of this mode's cached position of the migrate scanner.
    const fn slot(self) -> usize {
        match self {
            Self::Async => 0,
            Self::SyncLight | Self::Sync => 1,
        }
    }
}

/// How a compaction ended. A greater value is better for the request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum CompactOutcome {
    /// No zone was suitable: too little free memory to work with, or an order that needs no compaction.
    #[default]
    Skipped,
    /// Compaction of the zone is deferred after recent failures.
    Deferred,
    /// The scanners met after a whole zone, and no block of the order was made. A run that compacts everything ends
    /// like this.
    Complete,
    /// The scanners met after part of a zone, and no block of the order was made.
    PartialSkipped,
    /// The run stopped early: no target block was free, another CPU wanted the zone lock, or the owner ended it.
    Contended,
    /// A block of the order is free, or was free from the start; or the zone reached the requested fragmentation score.
    Success,
}

/// What a compaction did and what it cost. Unit: pages; the two `_scanned` counters count looks at one page or block
/// each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompactReport {
    /// The best outcome of all zones.
    pub outcome: CompactOutcome,
    /// The requested block, already allocated for the caller. Often `None` although the outcome is success: the block
    /// is then on a free list, and another CPU may take it first.
    pub captured: Option<Pfn>,
    /// Looks of the migrate scanner.
    pub migrate_scanned: u64,
    /// Looks of the free scanner.
    pub free_scanned: u64,
    /// Pages that the owner isolated to be moved.
    pub isolated: u64,
    /// Free pages that were taken as move targets. Unused ones were returned.
    pub free_isolated: u64,
    /// Pages moved.
    pub moved: u64,
    /// Pages that were isolated and did not move.
    pub failed: u64,
}

impl CompactReport {
    /// Adds the report of another zone.
    fn add(&mut self, other: &CompactReport) {
        self.outcome = self.outcome.max(other.outcome);
        self.captured = self.captured.or(other.captured);
        self.migrate_scanned += other.migrate_scanned;
        self.free_scanned += other.free_scanned;
        self.isolated += other.isolated;
        self.free_isolated += other.free_isolated;
        self.moved += other.moved;
        self.failed += other.failed;
    }
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Compacts the zones of a request's zonelist in turn, until one has a block for the request. Skips zones that are
    /// deferred after recent failures, except with [`CompactMode::Sync`], which ignores deferral and skip bits. Calls
    /// the owner without any of the allocator's locks. A request for a single page, or one that no zone can serve, is
    /// skipped.
    ///
    /// A captured block belongs to the caller. Specification 7.6 "Direct compaction".
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let huge = Request { order: Order::PAGEBLOCK, ..MOVABLE };
    /// let report = allocator.compact(&huge, CompactMode::SyncLight, &Immovable);
    /// assert_eq!(report.moved, 0, "the owner moves nothing");
    /// # Ok(())
    /// # }
    /// ```
    pub fn compact(&self, request: &Request, mode: CompactMode, owner: &impl Owner) -> CompactReport {
        let mut report = CompactReport::default();
        let order = request.order;
        let Ok(list) = self.zonelist(request, self.machine.cpu()) else { return report };
        let last_resort = mode == CompactMode::Sync;
        let plan = Plan {
            order: Some(order),
            migratetype: request.migratetype,
            mode,
            test: Some(request.mark_test(request.rights())),
            direct: true,
            whole_zone: last_resort,
            any_type: last_resort,
            score: None,
        };
        for zone in list.zones().filter(|_| order > Order::ZERO) {
            if !last_resort && zone.shared.deferral.defers(order) {
                report.outcome = report.outcome.max(CompactOutcome::Deferred);
                continue;
            }
            let of_zone = Run::zone(self, zone, owner, plan);
            report.add(&of_zone);
            self.count_attempt(zone, of_zone.outcome);
            match of_zone.outcome {
                CompactOutcome::Success => {
                    zone.shared.deferral.reset(order, of_zone.captured.is_some());
                    break;
                }
                CompactOutcome::Complete | CompactOutcome::PartialSkipped if mode != CompactMode::Async => {
                    zone.shared.deferral.on_failure(order);
                }
                _ => {}
            }
        }
        report
    }

    fn count_attempt(&self, zone: &CachedZone<'a, M>, outcome: CompactOutcome) {
        if outcome == CompactOutcome::Skipped {
            return;
        }
        let _guard = zone.shared.lock(self.env(), LockPath::Map, 0);
        sync::add(&zone.shared.compaction.stalls, 1);
        let success = outcome == CompactOutcome::Success;
        sync::add(if success { &zone.shared.compaction.successes } else { &zone.shared.compaction.failures }, 1);
    }
}

impl Plan {
    /// A run for no particular request. A free block of any type is success, since a request can claim it.
    fn background(order: Order, highest: ZoneKind) -> Self {
        Plan {
            order: Some(order),
            migratetype: MigrateType::Unmovable,
            mode: CompactMode::SyncLight,
            test: Some(MarkTest { order, highest, ..MarkTest::SINGLE }),
            direct: false,
            whole_zone: false,
            any_type: false,
            score: None,
        }
    }

    /// Compacts a whole zone, or until its score is at most `score`.
    fn everything(score: Option<u8>) -> Self {
        Plan {
            order: None,
            migratetype: MigrateType::Movable,
            mode: CompactMode::SyncLight,
            test: None,
            direct: false,
            whole_zone: true,
            any_type: false,
            score,
        }
    }
}

/// The counters of what compaction did.
impl CompactionState {
    /// Adds a run's report to the zone's counters.
    fn count<M: Machine>(&self, report: &CompactReport, _held: &ZoneGuard<'_, '_, M>) {
        sync::add(&self.migrate_scanned, report.migrate_scanned);
        sync::add(&self.free_scanned, report.free_scanned);
        sync::add(&self.isolated, report.isolated + report.free_isolated);
        sync::add(&self.moved, report.moved);
        sync::add(&self.failed, report.failed);
    }
}

/// The skip bits of pageblocks. Specification 7.1.
impl<M: Machine> Zone<'_, M> {
    /// Clears skip bits and scanner positions, if the scanners of a direct compaction have met since the last time.
    fn forget_skipped(&self, env: Env<'_, M>) {
        if !self.compaction.flush.get() {
            return;
        }
        self.compaction.flush.set(false);
        self.compaction.start_over(&self.frames);
        for (guard, pages) in self.lock_each(env, LockPath::Map, 0..self.frames.len(), CLEARED_AT_ONCE * PAGEBLOCK) {
            for page in pages.step_by(PAGEBLOCK as usize) {
                guard.zone.frames.set_pageblock(page, guard.zone.frames.pageblock(page).with_skip(false));
            }
        }
    }

    fn set_skip(&self, env: Env<'_, M>, page: u32) {
        let guard = self.lock(env, LockPath::Map, page);
        guard.zone.frames.set_pageblock(page, guard.zone.frames.pageblock(page).with_skip(true));
    }
}

impl<M: Machine> ZoneView<'_, '_, M> {
    /// Compacts the zone: for blocks of `order`, or all of it if `order` is `None`. A block of any migratetype counts.
    /// `None` compacts the zone from end to end and ignores skip bits. Calls the owner without any of the allocator's
    /// locks.
    pub fn compact(self, order: Option<Order>, mode: CompactMode, owner: &impl Owner) -> CompactReport {
        if order == Some(Order::ZERO) {
            return CompactReport::default();
        }
        let plan = match order {
            Some(order) => {
                let last_resort = mode == CompactMode::Sync;
                Plan {
                    mode,
                    whole_zone: last_resort,
                    any_type: last_resort,
                    ..Plan::background(order, ZoneKind::Movable)
                }
            }
            None => Plan { mode, ..Plan::everything(None) },
        };
        Run::zone(self.allocator, self.zone, owner, plan)
    }
}

impl<'a, M: Machine> NodeView<'_, 'a, M> {
    /// The work of the node's background thread after reclaim wakes it: compacts the node's zones up to `highest` for
    /// blocks of `order`. After a failure, drains all pagesets of the zone and defers the zone. Specification 7.6
    /// "Background".
    pub fn compact(self, order: Order, highest: ZoneKind, owner: &impl Owner) -> CompactReport {
        let mut report = CompactReport::default();
        for zone in self.zones(highest).filter(|_| order > Order::ZERO) {
            if zone.shared.deferral.defers(order) {
                report.outcome = report.outcome.max(CompactOutcome::Deferred);
                continue;
            }
            let of_zone = Run::zone(self.allocator, zone, owner, Plan::background(order, highest));
            report.add(&of_zone);
            match of_zone.outcome {
                CompactOutcome::Success => zone.shared.deferral.reset(order, false),
                CompactOutcome::Complete | CompactOutcome::PartialSkipped => {
                    self.allocator.settle_zone(zone);
                    zone.shared.deferral.on_failure(order);
                }
                _ => {}
            }
        }
        report
    }

    /// Compacts the node until each of its zones has a score of at most [`proactive::target_score`]. [`proactive::Pace`]
    /// decides when this is due.
    pub fn compact_proactively(self, proactiveness: u8, owner: &impl Owner) -> CompactReport {
        let mut report = CompactReport::default();
        let plan = Plan::everything(Some(proactive::target_score(proactiveness)));
        for zone in self.zones(ZoneKind::Movable) {
            report.add(&Run::zone(self.allocator, zone, owner, plan));
        }
        report
    }

    /// How fragmented the node's free memory is, in percent: the mean of its zones' scores, weighted by present pages.
    /// Specification 7.6, step 2.
    #[must_use]
    pub fn fragmentation_score(self) -> u8 {
        let zones = || self.allocator.zones.iter().filter(|zone| zone.shared.node == self.node);
        let present: u64 = zones().map(|zone| zone.shared.present.get()).sum();
        let weighed = |zone: &CachedZone<'a, M>| {
            let score = u64::from(fragmentation_score(&zone.shared.free_by_order()));
            (score * zone.shared.present.get()).checked_div(present).unwrap_or(0)
        };
        zones().map(weighed).sum::<u64>() as u8
    }

    /// Clears the skip bits of the node's pageblocks in each zone where the scanners of a direct compaction have met
    /// since the last call. Reclaim calls this when it ends, because the pages it freed make the skip bits obsolete.
    /// Specification 7.1 "blockskip_flush".
    pub fn forget_skipped(self) {
        for zone in self.allocator.zones.iter().filter(|zone| zone.shared.node == self.node) {
            zone.shared.forget_skipped(self.allocator.env());
        }
    }
}
