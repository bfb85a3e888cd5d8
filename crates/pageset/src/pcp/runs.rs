//! Allocates or frees many pages through a pageset under one hold of its lock.
//!
//! Specification: `linux-page-allocator.md` 2.3, 2.5 "Batched free".

use super::{CachedZone, PcpGuard};
use crate::buddy::{Env, Wanted};
use crate::frame::{CpuId, MigrateType, Order, PageState, Pfn, Tag};
use crate::machine::Machine;
use crate::sync::{self, LockedWord};

impl<M: Machine> CachedZone<'_, M> {
    /// Allocates pages of order 0 until `pages` is full or the list is empty. Ends after the first page if that needed
    /// a refill: the zone then has fewer pages, and the next page may come from another zone.
    ///
    /// Returns the number of pages: 0 if the zone had no pages for a refill, `None` if another thread holds the
    /// pageset.
    pub(crate) fn alloc_run<T>(
        &self,
        env: Env<'_, M>,
        cpu: CpuId,
        list: usize,
        wanted: Wanted,
        pages: &mut [T],
        name: impl Fn(Pfn) -> T,
    ) -> Option<usize> {
        let mut pcp = self.try_lock_pageset(env, cpu)?;
        let got = self.take_run(env, &mut pcp, list, wanted.migratetype, pages, &name);
        if got > 0 {
            return Some(got);
        }
        if env.tuning.bulk_counts {
            // The attempt that needs a refill counts as an allocation as well.
            env.tuning.on_allocs(&mut pcp, 1);
        }
        let Some(slot) = pages.first_mut() else { return Some(0) };
        let Some(page) = self.refill(env, &mut pcp, list, wanted) else { return Some(0) };
        let frames = &self.shared.buddy.frames;
        frames.set_tag(page, Tag::new(PageState::Allocated, Order::ZERO, wanted.migratetype));
        *slot = name(frames.pfn(page));
        env.tuning.on_take(&mut pcp, 1);
        Some(1)
    }

    /// Takes pages of a list of single pages, until `pages` is full. Returns their number.
    #[inline(always)]
    pub(crate) fn take_run<T, G>(
        &self,
        env: Env<'_, M>,
        pcp: &mut PcpGuard<'_, M::Lock, G>,
        list: usize,
        migratetype: MigrateType,
        pages: &mut [T],
        name: impl Fn(Pfn) -> T,
    ) -> usize {
        let allocated = Tag::new(PageState::Allocated, Order::ZERO, migratetype);
        // A copy: the compiler would read the zone's own slice again after each store.
        let frames = self.shared.buddy.frames;
        let give = |slot: &mut T, page: u32| {
            frames.set_tag(page, allocated);
            *slot = name(frames.pfn(page));
        };
        let mut got = 0;
        while let Some(rest) = pages.get_mut(got..).filter(|rest| !rest.is_empty()) {
            let run = pcp.pop_run(list, rest.len());
            // This precedes the caller's code, which may panic.
            env.tuning.on_take(pcp, run.len() as u32);
            rest.iter_mut().zip(run.iter().rev()).for_each(|(slot, page)| give(slot, page.get()));
            got += run.len();
            if run.is_empty() {
                let Some(page) = pcp.pop(list) else { break };
                env.tuning.on_take(pcp, 1);
                give(&mut rest[0], page);
                got += 1;
            }
        }
        if got > 0 && env.tuning.bulk_counts {
            env.tuning.on_allocs(pcp, got as u32);
        }
        got
    }

    /// Puts blocks whose tags are Cached into a CPU's pageset, each with its list and order, and drains the pages that
    /// are due after each. Returns the number of blocks. It is smaller if another thread holds the pageset, if the
    /// pageset has no room, or if another thread took its lock during a drain.
    pub(crate) fn free_run(
        &self,
        env: Env<'_, M>,
        cpu: CpuId,
        blocks: impl Iterator<Item = (usize, u32, Order)>,
    ) -> usize {
        let Some(mut pcp) = self.try_lock_pageset(env, cpu) else { return 0 };
        let mut done = 0;
        for (list, page, order) in blocks {
            if !pcp.push(list, page) {
                break;
            }
            done += 1;
            let due = env.tuning.commit(&mut pcp, order, self.shared.pressure());
            pcp.update_threshold();
            sync::add(&pcp.free_pages, order.pages());
            if due > 0 {
                match self.drain_after_free(env, pcp, due, list, cpu) {
                    Some(held) => pcp = held,
                    None => break,
                }
            }
        }
        done
    }
}
