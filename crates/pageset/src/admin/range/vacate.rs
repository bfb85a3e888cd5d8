//! Blocks in use moved out of a range.

use super::{Obstacle, RangeError, Span, TRIES};
use crate::admin::owner::Owner;
use crate::alloc::Allocator;
use crate::alloc::request::Request;
use crate::frame::MigrateType;
use crate::frame::{Order, PageState};
use crate::machine::Machine;
use crate::pcp::CachedZone;

impl<'a, M: Machine> Allocator<'a, M> {
    /// Moves all blocks in use that reach into a span, also those that begin before it or end after it. No lock is held.
    pub(super) fn vacate(&self, zone: &CachedZone<'a, M>, span: Span, owner: &impl Owner) -> Result<(), RangeError> {
        let mut page = span.first;
        while page < span.end {
            // Reads without the lock: what is wrong is found when the range is taken.
            page = match zone.zone.buddy.block_around(page) {
                Some((head, order, state)) => {
                    if state == PageState::Allocated {
                        self.move_away(zone, head, owner)?;
                    }
                    head + order.pages() as u32
                }
                None => page + 1,
            };
        }
        Ok(())
    }

    /// Moves one block, or finds that it was freed.
    fn move_away(&self, zone: &CachedZone<'a, M>, page: u32, owner: &impl Owner) -> Result<(), RangeError> {
        let mut last = None;
        for _ in 0..TRIES {
            let tag = zone.frames().tag(page);
            if tag.state() != PageState::Allocated {
                return Ok(());
            }
            match self.move_once(zone, page, tag.order(), owner) {
                Ok(()) => return Ok(()),
                Err(obstacle) => last = Some(obstacle),
            }
            self.machine.relax();
        }
        match last {
            // Unless it was freed in the last try.
            Some(obstacle) if zone.frames().tag(page).state() == PageState::Allocated => {
                Err(RangeError { pfn: zone.frames().pfn(page), obstacle })
            }
            _ => Ok(()),
        }
    }

    fn move_once(
        &self,
        zone: &CachedZone<'a, M>,
        page: u32,
        looked: Order,
        owner: &impl Owner,
    ) -> Result<(), Obstacle> {
        let pfn = zone.frames().pfn(page);
        let order = owner.isolate(pfn).ok_or(Obstacle::InUse(looked))?;
        let tag = zone.frames().tag(page);
        if !tag.is(PageState::Allocated, order) {
            owner.put_back(pfn, order);
            return Err(Obstacle::InUse(looked));
        }
        // Whoever asked for it may have excluded higher zones, but not this one, and so none below.
        let request = Request {
            highest: zone.zone.kind,
            node: Some(zone.zone.node),
            ..Request::new(order, tag.kind().unwrap_or(MigrateType::Movable))
        };
        let to = self.alloc(&request).map_err(|error| {
            owner.put_back(pfn, order);
            Obstacle::NoPlace(error)
        })?;
        match owner.move_block(pfn, to, order) {
            Ok(()) => {
                // Refused only where the owner has freed what it had isolated; then it is free already.
                self.free(pfn, order).ok();
                Ok(())
            }
            Err(error) => {
                self.free(to, order).ok();
                owner.put_back(pfn, order);
                Err(Obstacle::Move(order, error))
            }
        }
    }
}
