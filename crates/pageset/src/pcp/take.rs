//! One block taken through a pageset, which the zone fills where it is empty.
//!
//! Specification: `linux-page-allocator.md` 2.3, 2.4.

use super::Pageset;
use super::pieces::Pieces;
use crate::alloc::attempt::Attempt;
use crate::alloc::request::Request;
use crate::buddy::fallback::Mode;
use crate::frame::MigrateType;
use crate::frame::{CpuId, PageState, Tag};
use crate::machine::{LockPath, Machine};
use crate::policy::Tuning;
use crate::sync::{self, Held};
use crate::zone::Zone;

/// What came of asking a pageset for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FromCache {
    Page(u32),
    /// One that was there only after the zone had filled it.
    Refilled(u32),
    /// Another thread holds it.
    Busy,
    /// It was empty and the zone had nothing to fill it with, or was busy for a caller that waits for nothing.
    Empty,
}

impl<M: Machine> Zone<'_, M> {
    /// Takes one block through a pageset.
    #[inline]
    pub(crate) fn alloc_cached(
        &self,
        machine: &M,
        tuning: &Tuning,
        cpu: CpuId,
        list: usize,
        request: &Request,
        attempt: Attempt,
    ) -> FromCache {
        let pcp = self.pageset(machine, cpu);
        let Some(_guard) = pcp.try_lock(machine, cpu) else {
            return FromCache::Busy;
        };
        let mut state = pcp;
        tuning.on_alloc(&mut state);
        let from = match pcp.lists[list].pop(self.arrays, &pcp.pool) {
            Some(page) => FromCache::Page(page),
            None => {
                self.refill(machine, tuning, pcp, list, request, attempt).map_or(FromCache::Empty, FromCache::Refilled)
            }
        };
        if let FromCache::Page(page) | FromCache::Refilled(page) = from {
            tuning.on_take(&mut state, request.order.pages() as u32);
            self.frames.set_tag(page, Tag::new(PageState::Allocated, request.order, request.migratetype));
        }
        from
    }

    /// Fills an empty list and takes the first block: under one hold of the zone lock, or two where whole clusters did
    /// not make it all. Specification 2.4, 6.2.
    #[cold]
    pub(super) fn refill(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        list: usize,
        request: &Request,
        attempt: Attempt,
    ) -> Option<u32> {
        let wanted = attempt.wanted(self, request);
        let blocks = tuning.refill(&mut &*pcp, wanted.order, self.pressure()).0;
        pcp.note_calm();
        // Lock order: pageset, then zone.
        let mut zone = Some(self.lock_for(machine, LockPath::Refill, request.wait)?);
        let cut = self.cut_clusters(machine, tuning, wanted, blocks, pcp.room());
        let mut taken = 0;
        if cut.first().is_some() {
            self.in_flight.begin();
            drop(zone.take());
            taken = self.take_in(machine, tuning, pcp, list, &cut, wanted);
            self.in_flight.end();
        }
        if taken < blocks
            && let Some(_zone) = zone.or_else(|| self.lock_for(machine, LockPath::Refill, request.wait))
        {
            let mut mode = Mode::default();
            let mut pieces = Pieces::default();
            taken += pcp.lists[list].fill(self.arrays, &pcp.pool, blocks - taken, || {
                let piece = self
                    .next_piece(machine, wanted, &mut pieces)
                    .or_else(|| self.cut_pieces(machine, wanted, &mut pieces));
                let page = piece.or_else(|| self.take(machine, tuning, wanted, &mut mode))?;
                let kind = self.remembered_type(tuning, page, wanted.migratetype);
                self.frames.set_tag(page, Tag::new(PageState::Cached, wanted.order, kind));
                Some(page)
            });
            self.give_rest(machine, wanted, pieces);
        }
        let pages = u64::from(taken) * wanted.order.pages();
        pcp.count.set(pcp.count.get() + pages as u32);
        sync::add(&pcp.refills, u64::from(taken > 0));
        sync::add(&pcp.refill_pages, pages);
        pcp.lists[list].pop(self.arrays, &pcp.pool)
    }

    /// The type that a cached page carries: its pageblock's. Specification 2.6.
    pub(crate) fn remembered_type(&self, tuning: &Tuning, page: u32, fallback: MigrateType) -> MigrateType {
        if tuning.type_at_drain { fallback } else { self.frames.block_type(page) }
    }
}
