//! Moves the blocks in use out of a range.

use super::{Obstacle, RangeError, Span, TRIES};
use crate::admin::owner::Owner;
use crate::alloc::Allocator;
use crate::alloc::request::Request;
use crate::frame::{MigrateType, Order, PageState};
use crate::machine::Machine;
use crate::pcp::CachedZone;

impl<'a, M: Machine> Allocator<'a, M> {
    /// Moves all blocks in use that overlap a span, also those that begin before it or end after it. Holds no lock.
    pub(super) fn vacate(&self, zone: &CachedZone<'a, M>, span: Span, owner: &impl Owner) -> Result<(), RangeError> {
        let mut page = span.first;
        while page < span.end {
            // These reads hold no lock. An outdated answer is found when the range is taken.
            page = match zone.shared.block_around(page) {
                Some((head, order, state)) => {
                    if state == PageState::Allocated {
                        if !owner.keep_going() {
                            return Err(RangeError { pfn: zone.frames().pfn(head), obstacle: Obstacle::Cancelled });
                        }
                        self.move_away(zone, head, owner)?;
                    }
                    head + order.pages() as u32
                }
                None => page + 1,
            };
        }
        Ok(())
    }

    /// Moves one block. Succeeds also if the owner has freed the block meanwhile.
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
            // The block may have been freed during the last try.
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
        let kind = tag.kind().unwrap_or(MigrateType::Movable);
        // The block's original request allowed this zone, and so all lower zones; it may have excluded higher ones.
        let request = Request { highest: zone.shared.kind, node: Some(zone.shared.node), ..Request::new(order, kind) };
        let to = self.alloc(&request).map_err(|error| {
            owner.put_back(pfn, order);
            Obstacle::NoPlace(error)
        })?;
        // A block that was just allocated is in a zone.
        let Some((target, at)) = self.locate(to) else {
            owner.put_back(pfn, order);
            return Err(Obstacle::InUse(looked));
        };
        target.frames().lend(at, order);
        match owner.move_block(pfn, to, order) {
            Ok(()) => {
                target.frames().keep_lent(at, order, kind);
                // The free is refused only if the owner broke its contract and freed the isolated block. The block is
                // free then.
                self.free(pfn, order).ok();
                Ok(())
            }
            Err(error) => {
                if target.frames().take_back(at, order) {
                    self.commit_free(target, at, order, true);
                }
                owner.put_back(pfn, order);
                Err(Obstacle::Move(order, error))
            }
        }
    }
}
