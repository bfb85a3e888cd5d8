//! Takes the free blocks of isolated pageblocks and allocates the range. The zone lock is held throughout.

use super::{Obstacle, RangeError, Span};
use crate::frame::MigrateType;
use crate::frame::largest_blocks;
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

    /// Takes the blocks of a span off their lists, after [`Self::check_free`] has succeeded. The parts of the first and
    /// last block outside the span are freed again.
    pub(super) fn take_span(&self, span: Span) {
        let (mut lowest, mut page) = (span.first, span.first);
        while page < span.end {
            let Some((head, order, _)) = self.block_around(page) else { break };
            self.remove(head, order);
            lowest = lowest.min(head);
            page = head + order.pages() as u32;
        }
        // The outer parts are freed last, so that they cannot merge with blocks still to be taken.
        for (outer, order) in largest_blocks(lowest, span.first).chain(largest_blocks(span.end, page)) {
            self.free_block(outer, order, MigrateType::Isolate);
        }
    }

    /// Allocates the pages of a taken span as the largest aligned blocks.
    pub(super) fn hand_out(&self, span: Span, migratetype: MigrateType) {
        for (page, order) in largest_blocks(span.first, span.end) {
            self.frames.set_tag(page, Tag::new(PageState::Allocated, order, migratetype));
        }
        self.count_direct_alloc(span.pages());
    }

    /// Turns the pages of a taken span into pages that are neither present nor managed.
    pub(crate) fn retire(&self, span: Span) {
        sync::sub(&self.managed, span.pages());
        sync::sub(&self.present, span.pages());
        for start in (start_of(span.first, Order::PAGEBLOCK)..span.end).step_by(PAGEBLOCK as usize) {
            let end = start + PAGEBLOCK;
            let mut others = (start..span.first.max(start)).chain(span.end.min(end)..end);
            if !others.any(|page| self.frames.tag(page) != Tag::INSIDE) {
                self.frames.set_pageblock(start, self.frames.pageblock(start).with_online(false));
                // An empty pageblock has no HIGHATOMIC pages to reserve or to return.
                if self.frames.pageblock(start).former() == Some(MigrateType::HighAtomic) {
                    self.set_block_type(start, MigrateType::Movable);
                }
            }
        }
    }
}
