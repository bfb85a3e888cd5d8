//! The blocks that a run holds: candidates that are isolated, and free blocks as their targets.
//!
//! Specification: `linux-page-allocator.md` 7.4, 7.5.

use crate::buddy::Env;
use crate::buddy::list::{End, List};
use crate::frame::{Frames, MigrateType, Order, PageState, Tag};
use crate::machine::{Line, Machine};

/// Pages isolated before they are moved. Source: specification 9, "compaction cluster".
pub(super) const CLUSTER: u32 = 32;

/// The blocks that are isolated and not yet moved. The last block may take their pages to [`CLUSTER`] or beyond.
#[derive(Default)]
pub(super) struct Candidates {
    blocks: [(u32, Order); CLUSTER as usize],
    first: usize,
    end: usize,
    /// Pages of all candidates.
    pub(super) pages: u64,
}

impl Candidates {
    pub(super) fn is_empty(&self) -> bool {
        self.first == self.end
    }

    pub(super) fn is_full(&self) -> bool {
        self.pages >= u64::from(CLUSTER)
    }

    pub(super) fn push(&mut self, page: u32, order: Order) {
        if self.is_empty() {
            (self.first, self.end) = (0, 0);
        }
        self.blocks[self.end] = (page, order);
        self.end += 1;
        self.pages += order.pages();
    }

    pub(super) fn first(&self) -> Option<(u32, Order)> {
        (!self.is_empty()).then(|| self.blocks[self.first])
    }

    pub(super) fn remove_first(&mut self) {
        if let Some((_, order)) = self.first() {
            self.first += 1;
            self.pages -= order.pages();
        }
    }
}

/// Free blocks that a run has taken and not yet used, by order. The links of their own pages hold the lists; those
/// links are unused while a block is on no list of the zone. The blocks are tagged like blocks in a pageset.
#[derive(Debug, Default)]
pub(super) struct FreeTargets {
    lists: [List; Order::COUNT],
    /// Pages on the lists.
    pub(super) pages: u64,
    /// Pages that were given to the owner as targets.
    pub(super) used: u64,
}

impl FreeTargets {
    pub(super) fn put<M: Machine>(&mut self, env: Env<'_, M>, frames: &Frames<'_>, page: u32, order: Order) {
        frames.set_tag(page, Tag::new(PageState::Cached, order, MigrateType::Movable));
        let touch = |slot| env.touch(Line::Page(frames.pfn(frames.page_of_slot(slot, order))));
        self.lists[order.index()].push(frames.links, frames.slot(page, order), End::Head, touch);
        self.pages += order.pages();
    }

    fn take_first<M: Machine>(&mut self, env: Env<'_, M>, frames: &Frames<'_>, order: Order) -> Option<u32> {
        let list = &self.lists[order.index()];
        let slot = list.first()?;
        list.remove(frames.links, slot, |slot| env.touch(Line::Page(frames.pfn(frames.page_of_slot(slot, order)))));
        self.pages -= order.pages();
        Some(frames.page_of_slot(slot, order))
    }

    /// Takes the smallest block that fits and splits it. The unused upper halves stay on the lists.
    pub(super) fn take<M: Machine>(&mut self, env: Env<'_, M>, frames: &Frames<'_>, order: Order) -> Option<u32> {
        let (page, found) =
            Order::all().skip(order.index()).find_map(|found| Some((self.take_first(env, frames, found)?, found)))?;
        for half in Order::all().take(found.index()).skip(order.index()) {
            self.put(env, frames, page + half.pages() as u32, half);
        }
        Some(page)
    }

    /// Takes any block.
    pub(super) fn pop<M: Machine>(&mut self, env: Env<'_, M>, frames: &Frames<'_>) -> Option<(u32, Order)> {
        Order::all().find_map(|order| Some((self.take_first(env, frames, order)?, order)))
    }
}
