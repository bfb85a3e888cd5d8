//! The migrate scanner: walks from the zone's start upwards and isolates blocks in use that can move.
//!
//! Specification: `linux-page-allocator.md` 7.4. Reads tags without the zone lock. Only the owner's isolation, and a
//! second read of the tag after it, decide.

use super::CompactMode;
use super::run::Run;
use crate::admin::owner::Owner;
use crate::frame::MigrateType;
use crate::frame::{Order, PAGEBLOCK, PageState, start_of};
use crate::machine::{Line, Machine};

impl<M: Machine, O: Owner> Run<'_, '_, M, O> {
    /// Isolates blocks of the next pageblock that has movable blocks: at most one cluster.
    ///
    /// The specification isolates the rest of a pageblock at once. This function returns to the pageblock cluster by
    /// cluster, so that the candidates have a fixed size. The result is the same, since the main loop always finishes a
    /// pageblock.
    pub(super) fn isolate_candidates(&mut self) {
        let mut page = self.migrate;
        loop {
            let start = start_of(page, Order::PAGEBLOCK);
            let end = start + PAGEBLOCK;
            if end > self.free {
                break;
            }
            if !self.is_source(page, start) {
                page = end;
                continue;
            }
            page = self.scan_source(page, end);
            break;
        }
        self.migrate = page;
    }

    /// Whether the scanner isolates blocks of the pageblock that starts at `start`.
    fn is_source(&self, page: u32, start: u32) -> bool {
        let frames = &self.zone.frames();
        let pageblock = frames.pageblock(start);
        let (migratetype, wanted) = (pageblock.migratetype(), self.plan.migratetype);
        let whole = start >= frames.first && start + PAGEBLOCK <= frames.end;
        if !whole || !pageblock.is_online() || migratetype == MigrateType::Isolate {
            return false;
        }
        if page == start && pageblock.skips() && !self.plan.whole_zone {
            return false;
        }
        let cma = migratetype == MigrateType::Cma && wanted == MigrateType::Movable;
        let suits = !self.is_direct_async() || migratetype == wanted || cma;
        if !suits {
            self.zone.shared.compaction.advance_migrate(start + PAGEBLOCK, self.plan.mode.slot());
        }
        suits
    }

    /// An async run for a request needs one whole block and nothing else.
    fn is_direct_async(&self) -> bool {
        self.plan.direct && self.plan.mode == CompactMode::Async
    }

    /// Scans a pageblock from `from` to `end`. Returns where the scan stopped.
    fn scan_source(&mut self, from: u32, end: u32) -> u32 {
        let sub_block = self.plan.order.filter(|_| self.is_direct_async());
        let end_of = |page, order: Order| start_of(page, order) + order.pages() as u32;
        let mut page = self.enter(from, end);
        let mut sub_end = sub_block.map_or(end, |order| end_of(page, order));
        while page < end && !self.candidates.is_full() {
            if let Some(order) = sub_block
                && page >= sub_end
            {
                // The whole previous sub-block is isolated. Once it has moved, it is the wanted block.
                if !self.candidates.is_empty() {
                    break;
                }
                sub_end = end_of(page, order);
            }
            let (pages, obstacle) = self.look(page);
            page += pages;
            if obstacle && sub_block.is_some() {
                // The sub-block cannot become free, so moving its isolated blocks gains nothing.
                self.put_back_all();
                page = page.max(sub_end);
            }
        }
        let page = page.min(end);
        if page == end && (self.candidates.is_empty() || self.finish_block) {
            self.zone.shared.set_skip(self.allocator.env(), end - 1);
            self.zone.shared.compaction.advance_migrate(end, self.plan.mode.slot());
        }
        page
    }

    /// The first page at or after `page` where a block begins: a block of the largest order may reach in from the
    /// previous pageblock.
    fn enter(&mut self, page: u32, end: u32) -> u32 {
        match self.zone.shared.buddy.block_around(page) {
            Some((head, order, _)) if head < page => {
                self.report.migrate_scanned += 1;
                end.min(head + order.pages() as u32)
            }
            _ => page,
        }
    }

    /// Reads the tag of a page and isolates the block that begins there, if it can move. Returns the pages to advance,
    /// and whether the block prevents a free block here.
    fn look(&mut self, page: u32) -> (u32, bool) {
        self.report.migrate_scanned += 1;
        self.allocator.env().touch(Line::Page(self.zone.frames().pfn(page)));
        let tag = self.zone.frames().tag(page);
        let pages = tag.order().pages() as u32;
        match tag.state() {
            PageState::Free => (pages, false),
            PageState::Allocated if !self.is_too_large(tag.order()) => match self.isolate(page) {
                Some(order) => {
                    self.candidates.push(page, order);
                    self.report.isolated += order.pages();
                    (order.pages() as u32, false)
                }
                None => (pages, true),
            },
            PageState::Allocated | PageState::Cached => (pages, true),
            PageState::Inside => (1, true),
        }
    }

    /// Whether a block is too large for a move to gain anything.
    fn is_too_large(&self, order: Order) -> bool {
        order >= Order::PAGEBLOCK || self.plan.order.is_some_and(|wanted| order >= wanted)
    }

    /// Lets the owner isolate the block at a page. The owner may have freed the block since the scan, and allocated it
    /// again.
    fn isolate(&self, page: u32) -> Option<Order> {
        let pfn = self.zone.frames().pfn(page);
        let order = self.owner.isolate(pfn)?;
        if self.zone.frames().tag(page).is(PageState::Allocated, order) && !self.is_too_large(order) {
            return Some(order);
        }
        self.owner.put_back(pfn, order);
        None
    }

    fn put_back_all(&mut self) {
        while let Some((page, order)) = self.candidates.first() {
            self.candidates.remove_first();
            self.owner.put_back(self.zone.frames().pfn(page), order);
            self.report.failed += order.pages();
        }
    }
}
