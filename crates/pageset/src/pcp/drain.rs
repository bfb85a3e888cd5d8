//! Blocks that go from a pageset to the buddy: after a free, once a second, on request.
//!
//! Specification: `linux-page-allocator.md` 3, 4.7, 8.1, 8.2.

use super::Pageset;
use crate::buddy::capture::Capture;
use crate::frame::MigrateType;
use crate::frame::{CpuId, Order};
use crate::history::round_robin::RoundRobin;
use crate::machine::{Guard, Line, LockPath, Machine};
use crate::policy::lists::{LISTS, order_of};
use crate::policy::{BulkFree, Tuning};
use crate::sync::{self, Held};
use crate::zone::Zone;

impl<M: Machine> Zone<'_, M> {
    /// Drains what the rules ask for: at once, or a batch a hold of the pageset's lock, which the caller has again
    /// afterwards unless `relock` refused it. Specification 3.3, "E7".
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "all of a drain's inputs")]
    pub(super) fn drain_due<'p>(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &'p Pageset<M::Lock>,
        guard: Guard<'p, M::Lock>,
        mut due: u32,
        list: usize,
        relock: impl Fn() -> Option<Guard<'p, M::Lock>>,
    ) -> Option<Guard<'p, M::Lock>> {
        let chunk = if tuning.bulk_free == BulkFree::Chunked { pcp.batch.get() } else { due };
        let mut guard = Some(guard);
        while guard.is_some() {
            self.drain(machine, tuning, pcp, due.min(chunk), list, None);
            due = due.saturating_sub(chunk);
            if due == 0 {
                break;
            }
            // Between chunks others get at the pageset.
            drop(guard.take());
            guard = relock();
        }
        guard
    }

    /// Moves about `pages` pages, oldest first, from a pageset to the buddy; its lock is held. Specification 3.
    /// What becomes a block that a compaction waits for is captured.
    pub(crate) fn drain(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        pages: u32,
        start: usize,
        capture: Option<&Capture>,
    ) {
        let wanted = pages.min(pcp.count());
        if wanted == 0 {
            return;
        }
        let drained = if capture.is_none() && self.drains_cluster(tuning, pcp, wanted, start) {
            self.drain_cluster(machine, tuning, pcp, wanted)
        } else {
            self.drain_blocks(machine, tuning, pcp, wanted, start, capture)
        };
        pcp.count.set(pcp.count.get() - drained);
        sync::add(&pcp.drains, 1);
        sync::add(&pcp.drain_pages, u64::from(drained));
    }

    /// The touches of a first pass: every page that the drain is about to take, and ahead of their use the buddies of the
    /// first batch of them. Specification 3.2.
    #[cold]
    fn probe_picks(&self, machine: &M, tuning: &Tuning, pcp: &Pageset<M::Lock>, wanted: u32) {
        let mut turns = RoundRobin::new(tuning);
        let mut lists: [_; LISTS] = core::array::from_fn(|list| pcp.blocks(self.arrays, list));
        let used = tuning.lists.count();
        let mut oldest: [_; LISTS] = core::array::from_fn(|list| if list < used { lists[list].next() } else { None });
        let (mut picked, mut blocks) = (0, 0);
        while picked < wanted {
            let list = turns.next(wanted - picked, |list| oldest[list].is_none());
            let Some(page) = oldest[list] else { return };
            oldest[list] = lists[list].next();
            machine.touch(Line::Page(self.frames.pfn(page)));
            if blocks < pcp.batch() {
                machine.prefetch(Line::Page(self.frames.pfn(page ^ 1)));
            }
            blocks += 1;
            picked += order_of(list).pages() as u32;
        }
    }

    fn drain_blocks(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        wanted: u32,
        start: usize,
        capture: Option<&Capture>,
    ) -> u32 {
        self.expect_picks(machine, pcp, wanted);
        if tuning.bulk_free == BulkFree::TwoPass && machine.follows_picks() {
            self.probe_picks(machine, tuning, pcp, wanted);
        }
        // Lock order: pageset, then zone.
        let _zone = self.lock(machine, LockPath::Drain);
        match tuning.bulk_free {
            // Which blocks go, and in which order, is the same whether they were picked before or under the lock.
            BulkFree::PickLocked | BulkFree::TwoPass => self.drain_round_robin(machine, tuning, pcp, wanted, capture),
            BulkFree::SinglePass | BulkFree::Chunked => {
                self.drain_whole_lists(machine, tuning, pcp, wanted, start, capture)
            }
        }
    }

    fn drain_round_robin(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        wanted: u32,
        capture: Option<&Capture>,
    ) -> u32 {
        let mut drained = match self.only_list(tuning, pcp) {
            Some(list) => self.drain_list(machine, tuning, pcp, list, wanted, capture),
            None => 0,
        };
        let mut turns = RoundRobin::new(tuning);
        while drained < wanted {
            let list = turns.next(wanted - drained, |list| pcp.lists[list].is_empty());
            drained += self.drain_one(machine, tuning, pcp, list, capture).unwrap_or(0);
        }
        drained
    }

    fn drain_whole_lists(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        wanted: u32,
        start: usize,
        capture: Option<&Capture>,
    ) -> u32 {
        let lists = tuning.lists.count();
        let mut drained = 0;
        for list in (start..lists).chain(0..start) {
            // Who follows each page has it one by one, and is told ahead of a run of them; others take blocks at once.
            if machine.follows_picks() && order_of(list) == Order::ZERO {
                drained += self.drain_list(machine, tuning, pcp, list, wanted.saturating_sub(drained), capture);
            }
            while drained < wanted {
                let together = match order_of(list) {
                    _ if capture.is_some() => None,
                    Order::ZERO => self.drain_together(machine, tuning, pcp, list, wanted - drained),
                    Order::PAGEBLOCK => self.drain_pair(machine, tuning, pcp, list, wanted - drained),
                    _ => None,
                };
                let pages = together.or_else(|| self.drain_one(machine, tuning, pcp, list, capture));
                let Some(pages) = pages else { break };
                drained += pages;
            }
        }
        drained
    }

    /// The list of single pages that has all blocks of a pageset, if one has: all turns are its own.
    fn only_list(&self, tuning: &Tuning, pcp: &Pageset<M::Lock>) -> Option<usize> {
        let mut filled = (0..tuning.lists.count()).filter(|&list| !pcp.lists[list].is_empty());
        filled.next().filter(|&list| order_of(list) == Order::ZERO && filled.next().is_none())
    }

    /// Moves the oldest single pages of a list, `wanted` if it has as many; returns how many.
    fn drain_list(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        list: usize,
        wanted: u32,
        capture: Option<&Capture>,
    ) -> u32 {
        let mut drained = 0;
        while drained < wanted {
            let oldest = pcp.lists[list].oldest(self.arrays);
            let run = &oldest[..oldest.len().min((wanted - drained) as usize)];
            if run.is_empty() {
                break;
            }
            // They are still there to be read: whoever would use their places needs the pageset's lock.
            pcp.lists[list].drop_oldest(self.arrays, &pcp.pool, run.len() as u32);
            drained += run.len() as u32;
            for page in self.expecting(machine, run) {
                let migratetype = self.drained_type(tuning, page);
                self.free_or_capture(machine, tuning, page, Order::ZERO, migratetype, capture);
            }
        }
        drained
    }

    /// Moves the oldest block of a list; returns its pages.
    fn drain_one(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        list: usize,
        capture: Option<&Capture>,
    ) -> Option<u32> {
        let page = pcp.lists[list].pop_oldest(self.arrays, &pcp.pool)?;
        let order = order_of(list);
        self.free_or_capture(machine, tuning, page, order, self.drained_type(tuning, page), capture);
        Some(order.pages() as u32)
    }

    /// The list that a drained block goes to; the zone lock is held. Specification 2.6.
    pub(crate) fn drained_type(&self, tuning: &Tuning, page: u32) -> MigrateType {
        let block_type = self.frames.block_type(page);
        if tuning.type_at_drain || block_type == MigrateType::Isolate {
            block_type
        } else {
            self.frames.tag(page).kind().unwrap_or(block_type)
        }
    }

    /// The once-a-second decay of one pageset, and the expiry of pages of another node (`remote`). True when another tick
    /// has more to do. Specification 4.7, 8.2.
    pub(crate) fn tick(&self, machine: &M, tuning: &Tuning, cpu: CpuId, remote: bool) -> bool {
        let pcp = self.pageset(machine, cpu);
        let guard = pcp.lock(machine, cpu);
        let decay = tuning.decay(&mut &*pcp);
        pcp.note_calm();
        let _guard = self.drain_due(machine, tuning, pcp, guard, decay.drain, 0, || Some(pcp.lock(machine, cpu)));
        let expired = pcp.expire(remote, tuning.expire_all);
        self.drain(machine, tuning, pcp, expired.drain, 0, None);
        tuning.end_tick(&mut &*pcp);
        decay.more || expired.more
    }

    /// Empties one pageset. One that looks empty without its lock is taken for that: a page that comes in meanwhile stays,
    /// where the pageset may keep it. Whoever has just told it to keep nothing had its lock, and so sees all that came
    /// before.
    pub(crate) fn drain_cpu(&self, machine: &M, tuning: &Tuning, cpu: CpuId) {
        self.drain_or_capture(machine, tuning, cpu, None);
    }

    /// As [`Self::drain_cpu`], for a compaction that waits for a block.
    pub(crate) fn drain_or_capture(&self, machine: &M, tuning: &Tuning, cpu: CpuId, capture: Option<&Capture>) {
        let pcp = self.pageset(machine, cpu);
        if pcp.count() == 0 {
            return;
        }
        // A lock hold is bounded. Specification 8.1.
        loop {
            let _guard = pcp.lock(machine, cpu);
            self.drain(machine, tuning, pcp, pcp.batch.get().max(1) << tuning.batch_scale_max, 0, capture);
            if pcp.count() == 0 {
                break;
            }
        }
    }
}
