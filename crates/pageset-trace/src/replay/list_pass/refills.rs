//! Refills: blocks that a CPU takes from a free list one after the other, and bulk allocations, which may contain one.

use pageset::{CpuId, Order, Pfn};
use rustc_hash::FxHashMap;

use super::{ListPass, level};
use crate::event::{Context, Event};
use crate::replay::findings::{Notes, Shown, Taken};
use crate::replay::gfp::migratetype_of;
use crate::replay::moves::Move;
use crate::replay::start_state::Step;
use crate::replay::types::ordinary;

/// The refills that may go on.
#[derive(Debug, Default)]
pub(super) struct Refills {
    /// The open runs of each CPU, by context. An interrupt interrupts a run with a run of its own.
    runs: Vec<[Option<Run>; 4]>,
    /// Refills by processes without a later event of the process: the process was preempted, or the recording ended. By
    /// process.
    pub(super) unfinished: FxHashMap<u32, Unfinished>,
    /// The CPU of each process's last refill.
    refilling: FxHashMap<u32, CpuId>,
    /// Whether the refill that ends now is that of a recorded bulk allocation.
    in_bulk: bool,
}

impl Refills {
    pub(super) fn new(cpus: usize) -> Self {
        Refills { runs: (0..cpus).map(|_| Default::default()).collect(), ..Refills::default() }
    }
}

/// Consecutive blocks taken from a free list: a refill or a single allocation.
#[derive(Debug)]
pub(super) struct Run {
    pid: u32,
    context: Context,
    order: Order,
    /// The requested migratetype, by the kernel's number.
    migratetype: u8,
    zone: usize,
    pub(super) blocks: Vec<Pfn>,
    /// The last event of the run.
    event: u64,
    /// The number of earlier input events.
    place: u64,
}

/// A refill without its allocation's event yet.
#[derive(Debug)]
pub(super) struct Unfinished {
    /// The refill's index in `kernel.refills`.
    pub(super) refill: usize,
    /// The allocation, without the data of its event.
    pub(super) taken: Taken,
}

impl ListPass<'_> {
    /// Removes the unfinished refill of the event's process: a process that writes an event has left the refilling
    /// allocation.
    pub(super) fn finish_refill(&mut self, event: &Event) -> Option<Unfinished> {
        match event.context {
            Context::Process if !self.refills.unfinished.is_empty() => self.refills.unfinished.remove(&event.pid),
            _ => None,
        }
    }

    /// Removes the run of the event's process that began with this page on another CPU: the process moved after its refill.
    pub(super) fn moved_run(&mut self, event: &Event, pfn: Pfn) -> Option<(CpuId, Run)> {
        let from = *self.refills.refilling.get(&event.pid).filter(|from| **from != event.cpu)?;
        if event.context != Context::Process {
            return None;
        }
        let run = &mut self.refills.runs[from.0 as usize][level(Context::Process)];
        let run = run.take_if(|run| run.pid == event.pid && run.blocks.first() == Some(&pfn))?;
        Some((from, run))
    }

    /// The open run of the event's CPU and context.
    pub(super) fn run(&mut self, event: &Event) -> &mut Option<Run> {
        &mut self.refills.runs[event.cpu.0 as usize][level(event.context)]
    }

    /// Adds a block from a free list to the open run, or starts a new run.
    pub(super) fn extend_run(
        &mut self,
        notes: &mut Notes,
        index: u64,
        event: &Event,
        pfn: Pfn,
        order: Order,
        migratetype: u8,
    ) {
        self.found.lists.found_in_buddy(pfn);
        let Some(zone) = self.zone_of(notes, pfn) else { return };
        let continues = |run: &Run| (run.pid, run.order, run.zone) == (event.pid, order, zone);
        match self.run(event).take() {
            Some(mut run) if continues(&run) => {
                run.blocks.push(pfn);
                run.event = index;
                run.place = self.place;
                *self.run(event) = Some(run);
            }
            other => {
                if let Some(run) = other {
                    self.close_run(notes, event.cpu, run, None);
                }
                let (blocks, place) = (vec![pfn], self.place);
                let context = event.context;
                // The idle process 0 runs on all CPUs.
                if context == Context::Process && event.pid != 0 {
                    self.refills.refilling.insert(event.pid, event.cpu);
                }
                *self.run(event) =
                    Some(Run { pid: event.pid, context, order, migratetype, zone, blocks, event: index, place });
            }
        }
    }

    /// Closes a run. `shown` is the allocation event of its first block, if any.
    pub(super) fn close_run(&mut self, notes: &mut Notes, cpu: CpuId, run: Run, shown: Option<Shown>) {
        let migratetype = ordinary(run.migratetype);
        let Some(list) = self.tuning.lists.list(run.order, migratetype) else { return };
        // A refill takes more than one block, unless the zone's batch is one page, as it is with disabled pagesets.
        let batch = self.settings.batch(run.zone);
        if run.blocks.len() == 1 && batch > 1 && !self.hotplug.is_off(run.zone) {
            notes.found.direct_allocs += u64::from(self.began);
            return;
        }
        if self.settings.is_shown_by_refill(run.zone, run.order, run.blocks.len() as u64) {
            self.set_before(run.place);
        }
        let id = self.found.lists.id(run.zone, cpu, list);
        let first = run.blocks[0];
        self.found.lists.refill(id, &run.blocks, run.event);
        let taken = if shown.is_some() { 1 } else { 0 };
        let pages = (run.blocks.len() as i64 - taken) * run.order.pages() as i64;
        self.balance.add(run.zone, cpu, pages);
        if shown.is_some() {
            self.found.lists.pop(id, first, run.event);
        } else {
            self.found.lists.pop_unseen(id, first, run.event);
        }
        if self.began {
            let refill = run.blocks.len() as u32;
            if !self.refills.in_bulk {
                self.found.histories.step(run.zone, cpu, Step::Alloc { order: run.order, refill });
            }
            let pages = refill * run.order.pages() as u32;
            let taken =
                Taken { event: run.event, zone: run.zone, cpu, pfn: Some(first), order: run.order, migratetype, shown };
            // The idle process 0 and interrupts allocate without an event only in bulk.
            if shown.is_none() && run.context == Context::Process && run.pid != 0 && !self.setting.bulk_unseen {
                let refill = self.found.kernel.refills.len();
                self.refills.unfinished.insert(run.pid, Unfinished { refill, taken });
            }
            self.found.kernel.refills.push(Move { place: run.place, zone: run.zone as u32, cpu, pages });
            self.note_factor(&run, cpu);
            if shown.is_some() {
                self.found.taken.push(taken);
            }
        }
    }

    /// Closes the open runs of a CPU.
    pub(super) fn close_runs(&mut self, notes: &mut Notes, cpu: CpuId) {
        for run in std::mem::take(&mut self.refills.runs[cpu.0 as usize]).into_iter().flatten() {
            self.close_run(notes, cpu, run, None);
        }
    }

    /// Keeps the factor that the first refill of single pages shows. Specification: `trace-replay.md` 3g.
    fn note_factor(&mut self, run: &Run, cpu: CpuId) {
        let batch = u64::from(self.settings.batch(run.zone));
        let blocks = run.blocks.len() as u64;
        if run.order > Order::ZERO || !self.tuning.alloc_factor {
            return;
        }
        let factor = (0..=self.tuning.batch_scale_max).find(|&k| batch << k >= blocks);
        let exact = factor.filter(|&k| batch << k == blocks);
        // An incomplete refill does not show the factor, but it still determines the factor afterwards.
        self.found.factors.entry((run.zone, cpu)).or_insert((run.event, exact.or(factor).unwrap_or(0)));
    }

    /// Handles a bulk allocation. Its pages leave one list, before and after a refill that it may have caused.
    pub(super) fn bulk(&mut self, notes: &mut Notes, index: u64, event: &Event, (taken, gfp, node): (u32, u32, i32)) {
        let run = self.run(event).take();
        let zone = self.setting.zone_of_bulk(event.cpu, gfp, node);
        let id = zone
            .zip(self.tuning.lists.list(Order::ZERO, migratetype_of(gfp)))
            .map(|(zone, list)| (zone, self.found.lists.id(zone, event.cpu, list)));
        let (mut left, mut refill) = (u64::from(taken), 0);
        if let Some(run) = run {
            let own = (run.pid, run.order, Some(run.zone)) == (event.pid, Order::ZERO, zone);
            if let (true, Some((_, id))) = (own && run.blocks.len() > 1, id) {
                // The pages that the list held went first, then the refill's first page.
                left = left.saturating_sub(self.found.lists.known(id) + 1);
                refill = run.blocks.len() as u32;
                self.refills.in_bulk = true;
            }
            self.close_run(notes, event.cpu, run, None);
            self.refills.in_bulk = false;
        }
        let Some((zone, id)) = id.filter(|_| taken > 0) else { return };
        for _ in 0..left {
            let is_known = self.found.lists.pop_in_bulk(id, index);
            self.balance.add(zone, event.cpu, -i64::from(!is_known));
        }
        if self.began {
            self.found.histories.step(zone, event.cpu, Step::Bulk { pages: taken, refill });
        }
    }
}
