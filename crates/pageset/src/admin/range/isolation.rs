//! Pageblocks that nothing is handed out from.

use super::{Obstacle, RangeError, Span};
use crate::frame::MigrateType;
use crate::frame::{Order, PAGEBLOCK, start_of};
use crate::history::merge_skip::NoClusters;
use crate::machine::{LockPath, Machine};
use crate::policy::Tuning;
use crate::zone::Zone;

/// The pageblocks of a span, isolated until dropped: then each has the type back that it had. Single pages merge
/// meanwhile as they are freed.
pub(super) struct Isolation<'r, 'a, M: Machine> {
    machine: &'r M,
    tuning: &'r Tuning,
    zone: &'r Zone<'a, M>,
    from: u32,
    /// Those before this page are isolated.
    to: u32,
    /// Dropped last.
    _merging: NoClusters<'r, 'a, M>,
}

impl<'r, 'a, M: Machine> Isolation<'r, 'a, M> {
    /// Isolates the pageblocks of a span one after the other, from the first on.
    ///
    /// # Errors
    /// One is isolated already, or a page of the span is not online.
    pub(super) fn new(
        machine: &'r M,
        tuning: &'r Tuning,
        zone: &'r Zone<'a, M>,
        span: Span,
    ) -> Result<Self, RangeError> {
        let from = start_of(span.first, Order::PAGEBLOCK);
        // Before the first pageblock's pages are looked at: then none of them is on its way to a pageset.
        let merging = NoClusters::new(machine, zone);
        let mut isolation = Isolation { machine, tuning, zone, from, to: from, _merging: merging };
        while isolation.to < span.end {
            isolation.isolate_next(span)?;
        }
        Ok(isolation)
    }

    fn isolate_next(&mut self, span: Span) -> Result<(), RangeError> {
        let (zone, start) = (self.zone, self.to);
        let _guard = zone.lock(self.machine, LockPath::Map);
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
        zone.change_type(self.machine, self.tuning, start, MigrateType::Isolate);
        self.to += PAGEBLOCK;
        Ok(())
    }
}

impl<M: Machine> Drop for Isolation<'_, '_, M> {
    fn drop(&mut self) {
        for start in (self.from..self.to).step_by(PAGEBLOCK as usize) {
            let _guard = self.zone.lock(self.machine, LockPath::Map);
            // One that was given a type meanwhile keeps it.
            if let Some(former) = self.zone.frames.pageblock(start).former() {
                self.zone.change_type(self.machine, self.tuning, start, former);
            }
        }
    }
}
