//! Free blocks of isolated pageblocks turned into a range. Holds the zone lock throughout.

use super::{Obstacle, RangeError, Span};
use crate::frame::MigrateType;
use crate::frame::range::largest_blocks;
use crate::frame::{Order, PAGEBLOCK, PageState, Tag, start_of};
use crate::machine::Machine;
use crate::sync;
use crate::zone::ZoneGuard;

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Checks that all pages of a span are in free blocks of isolated pageblocks.
    pub(super) fn check_free(&self, span: Span) -> Result<(), RangeError> {
        let mut page = span.first;
        while page < span.end {
            let error = |page, obstacle| Err(RangeError { pfn: self.frames.pfn(page), obstacle });
            match self.block_around(page) {
                Some((head, order, PageState::Free)) if self.list_of(head) == MigrateType::Isolate => {
                    page = head + order.pages() as u32;
                }
                Some((_, _, PageState::Free)) => return error(page, Obstacle::Reused),
                Some((head, order, PageState::Cached)) => return error(head, Obstacle::Cached(order)),
                Some((head, order, _)) => return error(head, Obstacle::InUse(order)),
                None => return error(page, Obstacle::Offline),
            }
        }
        Ok(())
    }

    /// Takes the blocks of a span off their lists, which [`Self::check_free`] has seen to be there. What of the first and
    /// last reaches beyond goes back.
    pub(super) fn take_span(&self, span: Span) {
        let (mut lowest, mut page) = (span.first, span.first);
        while page < span.end {
            let Some((head, order, _)) = self.block_around(page) else { break };
            self.remove(head, order);
            lowest = lowest.min(head);
            page = head + order.pages() as u32;
        }
        // Only now: what goes back must not merge with what is still to be taken.
        for (outer, order) in largest_blocks(lowest, span.first).chain(largest_blocks(span.end, page)) {
            self.free_block(outer, order, MigrateType::Isolate);
        }
    }

    /// Turns pages that were taken into blocks in use.
    pub(super) fn hand_out(&self, span: Span, migratetype: MigrateType) {
        for (page, order) in largest_blocks(span.first, span.end) {
            self.frames.set_tag(page, Tag::new(PageState::Allocated, order, migratetype));
        }
        self.count_direct_alloc(span.pages());
    }

    /// Turns pages that were taken into pages that are not there.
    pub(crate) fn retire(&self, span: Span) {
        sync::sub(&self.managed, span.pages());
        sync::sub(&self.present, span.pages());
        for start in (start_of(span.first, Order::PAGEBLOCK)..span.end).step_by(PAGEBLOCK as usize) {
            let end = start + PAGEBLOCK;
            let mut others = (start..span.first.max(start)).chain(span.end.min(end)..end);
            if !others.any(|page| self.frames.tag(page) != Tag::INSIDE) {
                self.frames.set_pageblock(start, self.frames.pageblock(start).with_online(false));
                // Nothing is left in it to be kept, or to be found when it is to be given back.
                if self.frames.pageblock(start).former() == Some(MigrateType::HighAtomic) {
                    self.set_block_type(start, MigrateType::Movable);
                }
            }
        }
    }
}
