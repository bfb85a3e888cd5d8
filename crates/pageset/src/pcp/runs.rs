//! Many pages through a pageset under one hold of its lock.
//!
//! Specification: `linux-page-allocator.md` 2.3, 2.5 "Batched free".

use crate::alloc::attempt::Attempt;
use crate::alloc::request::Request;
use crate::frame::{CpuId, Order, PageState, Pfn, Tag};
use crate::machine::Machine;
use crate::pcp::Pageset;
use crate::policy::Tuning;
use crate::sync::{self, Held};
use crate::zone::Zone;

impl<M: Machine> Zone<'_, M> {
    /// Takes pages of order 0 until `pages` is full or the list is empty. Ends after the first page where that took a
    /// refill: the zone then has less, and the next page may be another zone's.
    ///
    /// Returns how many there are: none where the zone had nothing to fill the list with. Nothing where another thread
    /// holds the pageset.
    #[expect(clippy::too_many_arguments, reason = "all of an allocation's inputs")]
    pub(crate) fn alloc_run<T>(
        &self,
        machine: &M,
        tuning: &Tuning,
        cpu: CpuId,
        list: usize,
        request: &Request,
        attempt: Attempt,
        pages: &mut [T],
        name: impl Fn(Pfn) -> T,
    ) -> Option<usize> {
        let pcp = self.pageset(machine, cpu);
        let _guard = pcp.try_lock(machine, cpu)?;
        let got = self.take_there(tuning, pcp, list, request, pages, &name);
        if got > 0 {
            return Some(got);
        }
        if tuning.bulk_counts {
            // The attempt that needs a refill counts as well.
            tuning.on_allocs(&mut &*pcp, 1);
        }
        let Some(slot) = pages.first_mut() else { return Some(0) };
        let Some(page) = self.refill(machine, tuning, pcp, list, request, attempt) else { return Some(0) };
        self.frames.set_tag(page, Tag::new(PageState::Allocated, Order::ZERO, request.migratetype));
        *slot = name(self.frames.pfn(page));
        tuning.on_take(&mut &*pcp, 1);
        Some(1)
    }

    /// Takes what a list of single pages has, until `pages` is full; returns how many. The pageset's lock is held.
    #[inline(always)]
    pub(crate) fn take_there<T>(
        &self,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        list: usize,
        request: &Request,
        pages: &mut [T],
        name: impl Fn(Pfn) -> T,
    ) -> usize {
        let allocated = Tag::new(PageState::Allocated, Order::ZERO, request.migratetype);
        // A copy: the zone's own would be read again after each store.
        let frames = self.frames;
        let give = |slot: &mut T, page: u32| {
            frames.set_tag(page, allocated);
            *slot = name(frames.pfn(page));
        };
        let mut got = 0;
        while let Some(rest) = pages.get_mut(got..).filter(|rest| !rest.is_empty()) {
            let run = pcp.list(list).pop_run(self.arrays, rest.len());
            // Before the caller's code has its turn, which may panic.
            tuning.on_take(&mut &*pcp, run.len() as u32);
            rest.iter_mut().zip(run.iter().rev()).for_each(|(slot, page)| give(slot, page.get()));
            got += run.len();
            if run.is_empty() {
                let Some(page) = pcp.list(list).pop(self.arrays, &pcp.pool) else { break };
                tuning.on_take(&mut &*pcp, 1);
                give(&mut rest[0], page);
                got += 1;
            }
        }
        if got > 0 && tuning.bulk_counts {
            tuning.on_allocs(&mut &*pcp, got as u32);
        }
        got
    }

    /// Puts blocks whose tags are Cached into a pageset, each with its list and order, and drains what is due after
    /// each. Returns how many: fewer where another thread holds the pageset, where it has no room, or where the lock was
    /// given back for a drain and is not to be had again.
    pub(crate) fn free_run(
        &self,
        machine: &M,
        tuning: &Tuning,
        cpu: CpuId,
        blocks: impl Iterator<Item = (usize, u32, Order)>,
    ) -> usize {
        let pcp = self.pageset(machine, cpu);
        let Some(mut guard) = pcp.try_lock(machine, cpu) else { return 0 };
        let mut done = 0;
        for (list, page, order) in blocks {
            if !pcp.lists[list].push(self.arrays, &pcp.pool, page) {
                break;
            }
            done += 1;
            let due = tuning.commit(&mut &*pcp, order, self.pressure());
            pcp.note_calm();
            sync::add(&pcp.free_pages, order.pages());
            if due > 0 {
                match self.drain_committed(machine, tuning, pcp, guard, due, list, cpu) {
                    Some(held) => guard = held,
                    None => break,
                }
            }
        }
        done
    }
}
