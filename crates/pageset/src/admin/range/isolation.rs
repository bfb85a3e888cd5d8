//! Isolated pageblocks: nothing is allocated from them.

use super::{Obstacle, RangeError, Span};
use crate::buddy::Env;
use crate::frame::{MigrateType, Order, PAGEBLOCK, start_of};
use crate::machine::{LockPath, Machine};
use crate::zone::Zone;

/// The isolated pageblocks of a span. The drop gives each its former type back.
pub(super) struct Isolation<'r, 'a, M: Machine> {
    env: Env<'r, M>,
    zone: &'r Zone<'a, M>,
    from: u32,
    /// The pageblocks before this page are isolated.
    to: u32,
}

impl<'r, 'a, M: Machine> Isolation<'r, 'a, M> {
    /// Isolates the pageblocks of a span one after the other, in ascending order. Pages of the zone must already merge
    /// as they are freed. Takes the zone lock once per pageblock.
    ///
    /// # Errors
    /// A pageblock is already isolated, or a page of the span is not online.
    pub(super) fn new(env: Env<'r, M>, zone: &'r Zone<'a, M>, span: Span) -> Result<Self, RangeError> {
        let from = start_of(span.first, Order::PAGEBLOCK);
        let mut isolation = Isolation { env, zone, from, to: from };
        while isolation.to < span.end {
            isolation.isolate_next(span)?;
        }
        Ok(isolation)
    }

    fn isolate_next(&mut self, span: Span) -> Result<(), RangeError> {
        let start = self.to;
        let zone = self.zone.lock(self.env, LockPath::Map);
        let (first, end) = (start.max(span.first), (start + PAGEBLOCK).min(span.end));
        let error = |page, obstacle| Err(RangeError { pfn: zone.frames.pfn(page), obstacle });
        if zone.frames.block_type(start) == MigrateType::Isolate {
            return error(first, Obstacle::Isolated);
        }
        let mut page = first;
        while page < end {
            match zone.block_around(page) {
                Some((head, order, _)) => page = head + order.pages() as u32,
                None => return error(page, Obstacle::Offline),
            }
        }
        zone.change_type(start, MigrateType::Isolate);
        self.to += PAGEBLOCK;
        Ok(())
    }
}

impl<M: Machine> Drop for Isolation<'_, '_, M> {
    fn drop(&mut self) {
        for start in (self.from..self.to).step_by(PAGEBLOCK as usize) {
            let zone = self.zone.lock(self.env, LockPath::Map);
            // A pageblock whose type was set meanwhile keeps it.
            if let Some(former) = zone.frames.pageblock(start).former() {
                zone.change_type(start, former);
            }
        }
    }
}
