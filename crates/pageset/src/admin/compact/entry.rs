//! The public calls: compaction for a request, of a zone, of a node.
//!
//! Specification: `linux-page-allocator.md` 7.6, last paragraphs.

use super::proactive;
use super::run::{Plan, Run};
use super::suitable::fragmentation_score;
use super::{CompactMode, CompactOutcome, CompactReport};
use crate::admin::owner::Owner;
use crate::alloc::Allocator;
use crate::alloc::request::Request;
use crate::frame::MigrateType;
use crate::frame::Order;
use crate::frame::{NodeId, ZoneKind};
use crate::machine::{LockPath, Machine};
use crate::pcp::CachedZone;
use crate::sync::{self, LockedWord};
use crate::zone::watermark::MarkTest;

impl<'a, M: Machine> Allocator<'a, M> {
    /// Compacts the zones of a request's zonelist in turn, until one has a block for the request. Skips zones that are
    /// deferred after recent failures, except with [`CompactMode::Sync`], which ignores deferral and skip bits. Calls
    /// the owner without any of the allocator's locks. A request for a single page, or one that no zone can serve, is
    /// skipped.
    ///
    /// A captured block belongs to the caller. Specification 7.6 "Direct compaction".
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
            if !last_resort && zone.shared.buddy.deferral.defers(order) {
                report.outcome = report.outcome.max(CompactOutcome::Deferred);
                continue;
            }
            let of_zone = Run::zone(self, zone, owner, plan);
            report.absorb(&of_zone);
            self.count_attempt(zone, of_zone.outcome);
            match of_zone.outcome {
                CompactOutcome::Success => {
                    zone.shared.buddy.deferral.reset(order, of_zone.captured.is_some());
                    break;
                }
                CompactOutcome::Complete | CompactOutcome::PartialSkipped if mode != CompactMode::Async => {
                    zone.shared.buddy.deferral.on_failure(order);
                }
                _ => {}
            }
        }
        report
    }

    /// Compacts one zone: for blocks of `order`, or all of it if `order` is `None`. A block of any migratetype counts.
    /// `None` compacts the zone from end to end and ignores skip bits. Calls the owner without any of the allocator's
    /// locks.
    ///
    /// # Panics
    /// There is no zone of that number.
    pub fn compact_zone(
        &self,
        zone: usize,
        order: Option<Order>,
        mode: CompactMode,
        owner: &impl Owner,
    ) -> CompactReport {
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
        Run::zone(self, &self.zones[zone], owner, plan)
    }

    /// The work of a node's background thread after reclaim wakes it: compacts the node's zones up to `highest` for
    /// blocks of `order`. After a failure, drains all pagesets of the zone and defers the zone. Specification 7.6
    /// "Background".
    pub fn compact_node(&self, node: NodeId, order: Order, highest: ZoneKind, owner: &impl Owner) -> CompactReport {
        let mut report = CompactReport::default();
        for zone in self.zones_of(node, highest).filter(|_| order > Order::ZERO) {
            if zone.shared.buddy.deferral.defers(order) {
                report.outcome = report.outcome.max(CompactOutcome::Deferred);
                continue;
            }
            let of_zone = Run::zone(self, zone, owner, Plan::background(order, highest));
            report.absorb(&of_zone);
            match of_zone.outcome {
                CompactOutcome::Success => zone.shared.buddy.deferral.reset(order, false),
                CompactOutcome::Complete | CompactOutcome::PartialSkipped => {
                    self.drain_zone(zone.shared.index);
                    zone.shared.buddy.deferral.on_failure(order);
                }
                _ => {}
            }
        }
        report
    }

    /// Compacts a node until each of its zones has a score of at most [`proactive::target_score`]. [`proactive::Pace`]
    /// decides when this is due.
    pub fn compact_proactively(&self, node: NodeId, proactiveness: u8, owner: &impl Owner) -> CompactReport {
        let mut report = CompactReport::default();
        let plan = Plan::everything(Some(proactive::target_score(proactiveness)));
        for zone in self.zones_of(node, ZoneKind::Movable) {
            report.absorb(&Run::zone(self, zone, owner, plan));
        }
        report
    }

    /// How fragmented a node's free memory is, in percent: the mean of its zones' scores, weighted by present pages.
    /// Specification 7.6, step 2.
    #[must_use]
    pub fn fragmentation_score(&self, node: NodeId) -> u8 {
        let zones = || self.zones.iter().filter(|zone| zone.shared.node == node);
        let present: u64 = zones().map(|zone| zone.shared.buddy.present.get()).sum();
        let weighed = |zone: &CachedZone<'a, M>| {
            let score = u64::from(fragmentation_score(&zone.shared.free_by_order()));
            (score * zone.shared.buddy.present.get()).checked_div(present).unwrap_or(0)
        };
        zones().map(weighed).sum::<u64>() as u8
    }

    /// Clears the skip bits of a node's pageblocks in each zone where the scanners of a direct compaction have met
    /// since the last call. Reclaim calls this when it ends, because the pages it freed make the skip bits obsolete.
    /// Specification 7.1 "blockskip_flush".
    pub fn forget_skipped(&self, node: NodeId) {
        for zone in self.zones.iter().filter(|zone| zone.shared.node == node) {
            zone.shared.forget_skipped(self.env());
        }
    }

    fn count_attempt(&self, zone: &CachedZone<'a, M>, outcome: CompactOutcome) {
        if outcome == CompactOutcome::Skipped {
            return;
        }
        let _guard = zone.shared.lock(self.env(), LockPath::Map);
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
