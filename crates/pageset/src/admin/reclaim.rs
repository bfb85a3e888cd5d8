//! For a reclaimer in the background: which zones it is needed for, when it may rest, what it says of itself.
//!
//! The allocator has none of its own. [`crate::Machine::wake_reclaim`] says when one is wanted; then it
//!
//! 1. notes each zone's [`crate::admin::stats::ZoneStats::watermark_boost`] and says [`Allocator::set_node_reclaim_active`];
//! 2. gives pages back until [`Allocator::is_balanced`];
//! 3. takes the noted boosts off with [`Allocator::decay_boost`];
//! 4. makes blocks of the order that it was woken for with [`Allocator::compact_node`], where it was one above 0;
//! 5. calls [`Allocator::forget_skipped`], for what it gave back has changed where blocks can be had, and says that it has
//!    ended.
//!
//! Specification: `linux-page-allocator.md` 1.6, 4.11 "RECLAIM_ACTIVE".

use crate::alloc::Allocator;
use crate::frame::Order;
use crate::frame::{NodeId, ZoneKind};
use crate::machine::{LockPath, Machine};
use crate::pcp::CachedZone;
use crate::sync::Held;
use crate::zone::watermark::{Mark, MarkTest};

impl<'a, M: Machine> Allocator<'a, M> {
    /// Whether a zone is not above its high mark, boost included: reclaim has something to do there. Looks without a lock.
    ///
    /// # Panics
    /// There is no zone of that number.
    #[must_use]
    pub fn needs_reclaim(&self, zone: usize) -> bool {
        let zone = &self.zones[zone];
        zone.zone.buddy.managed.get() > 0
            && !zone.zone.passes_mark(Mark::High, &MarkTest { highest: zone.zone.kind, ..MarkTest::SINGLE })
    }

    /// Whether reclaim of a node may rest: one of its zones up to `highest` has a block of `order` above its high mark,
    /// or it has no such zone. Looks without a lock.
    #[must_use]
    pub fn is_balanced(&self, node: NodeId, order: Order, highest: ZoneKind) -> bool {
        let test = MarkTest { order, highest, ..MarkTest::SINGLE };
        let mut zones = self.zones_of(node, highest).peekable();
        zones.peek().is_none() || zones.any(|zone| zone.zone.passes_mark(Mark::High, &test))
    }

    /// Says that reclaim balances a node's zones up to `highest`, or has ended. Pagesets of these zones keep at most four
    /// batches meanwhile (5.14 on). Specification 4.11.
    pub fn set_node_reclaim_active(&self, node: NodeId, highest: ZoneKind, on: bool) {
        self.zones_of(node, highest).for_each(|zone| zone.zone.set_reclaim_active(on));
    }

    /// Takes up to `pages` off a zone's watermark boost, once reclaim has worked for it; returns what is left of it.
    /// Holds the zone lock. Specification 1.6, "Watermark boost".
    ///
    /// # Panics
    /// There is no zone of that number.
    pub fn decay_boost(&self, zone: usize, pages: u64) -> u64 {
        let zone = &self.zones[zone];
        zone.zone.lock(self.env(), LockPath::Map).lower_boost(pages)
    }

    /// A node's zones that have memory, up to a kind.
    pub(crate) fn zones_of(&self, node: NodeId, highest: ZoneKind) -> impl Iterator<Item = &'a CachedZone<'a, M>> {
        let here = move |zone: &&CachedZone<'a, M>| {
            zone.zone.node == node && zone.zone.kind <= highest && zone.zone.buddy.managed.get() > 0
        };
        self.zones.iter().filter(here)
    }
}
