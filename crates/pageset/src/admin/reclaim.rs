//! Support for background reclaim: which zones need it, when it may rest, how it reports its state.
//!
//! The allocator has no reclaimer of its own. [`crate::Machine::wake_reclaim`] reports that one is needed. The
//! reclaimer then
//!
//! 1. saves each zone's [`crate::admin::stats::ZoneStats::watermark_boost`] and calls
//!    [`Allocator::set_node_reclaim_active`];
//! 2. frees pages until [`Allocator::is_balanced`];
//! 3. removes the saved boosts with [`Allocator::decay_boost`];
//! 4. makes blocks of the order it was woken for with [`Allocator::compact_node`], if that order is above 0;
//! 5. calls [`Allocator::forget_skipped`], since the freed pages make skip bits obsolete, and
//!    [`Allocator::set_node_reclaim_active`] with `false`.
//!
//! Specification: `linux-page-allocator.md` 1.6, 4.11 "RECLAIM_ACTIVE".

use crate::alloc::Allocator;
use crate::frame::Order;
use crate::frame::{NodeId, ZoneKind};
use crate::machine::{LockPath, Machine};
use crate::pcp::CachedZone;
use crate::sync::LockedWord;
use crate::zone::watermark::{Mark, MarkTest};

impl<'a, M: Machine> Allocator<'a, M> {
    /// Whether a zone is not above its high mark, boost included, so that reclaim has work there. Takes no lock.
    ///
    /// # Panics
    /// There is no zone of that number.
    #[must_use]
    pub fn needs_reclaim(&self, zone: usize) -> bool {
        let zone = &self.zones[zone];
        zone.shared.buddy.managed.get() > 0
            && !zone.shared.passes_mark(Mark::High, &MarkTest { highest: zone.shared.kind, ..MarkTest::SINGLE })
    }

    /// Whether reclaim of a node may rest: one of its zones up to `highest` has a block of `order` above its high mark,
    /// or the node has no such zone. Takes no lock.
    #[must_use]
    pub fn is_balanced(&self, node: NodeId, order: Order, highest: ZoneKind) -> bool {
        let test = MarkTest { order, highest, ..MarkTest::SINGLE };
        let mut zones = self.zones_of(node, highest).peekable();
        zones.peek().is_none() || zones.any(|zone| zone.shared.passes_mark(Mark::High, &test))
    }

    /// Sets whether reclaim works on a node's zones up to `highest`. While it does, pagesets of these zones keep at
    /// most four batches (5.14 on). Specification 4.11.
    pub fn set_node_reclaim_active(&self, node: NodeId, highest: ZoneKind, on: bool) {
        self.zones_of(node, highest).for_each(|zone| zone.shared.set_reclaim_active(on));
    }

    /// Lowers a zone's watermark boost by up to `pages`, after reclaim has worked for it. Returns the remaining boost.
    /// Holds the zone lock. Specification 1.6, "Watermark boost".
    ///
    /// # Panics
    /// There is no zone of that number.
    pub fn decay_boost(&self, zone: usize, pages: u64) -> u64 {
        let zone = &self.zones[zone];
        zone.shared.lock(self.env(), LockPath::Map).lower_boost(pages)
    }

    /// A node's zones up to `highest` that have managed pages.
    pub(crate) fn zones_of(&self, node: NodeId, highest: ZoneKind) -> impl Iterator<Item = &'a CachedZone<'a, M>> {
        let here = move |zone: &&CachedZone<'a, M>| {
            zone.shared.node == node && zone.shared.kind <= highest && zone.shared.buddy.managed.get() > 0
        };
        self.zones.iter().filter(here)
    }
}
