//! The second pass: follows the kernel's lists page by page and counts its refills and drains.
//!
//! Specification: `linux-page-allocator.md` 8.4, `trace-replay.md` 1 and 3.

use std::collections::{HashMap, HashSet};

use pageset::policy::expiry::{self, Expiry};
use pageset::policy::lists::order_of;
use pageset::policy::{BulkFree, FallbackRule, Tuning};
use pageset::{CpuId, MigrateType, Order, Pfn};
use rustc_hash::FxHashMap;

use super::balance::Balance;
use super::blocks::{BlockMap, Freed, PageMap};
use super::findings::{DrainRequest, Earlier, Notes, Shown, Taken};
use super::free_pass::FreeNotes;
use super::gfp::migratetype_of;
use super::hotplug::Hotplug;
use super::kernel_lists::{KernelLists, ListId, Unseen};
use super::moves::{Move, Moves};
use super::setting::{Setting, State, ZoneState};
use super::start_state::{Histories, Step};
use super::types::{ORDINARY, list_type, ordinary};
use crate::event::{Context, Event, Kind};

/// Consecutive blocks taken from a free list: a refill or a single allocation.
#[derive(Debug)]
struct Run {
    pid: u32,
    context: Context,
    order: Order,
    /// The requested migratetype, by the kernel's number.
    migratetype: u8,
    zone: usize,
    blocks: Vec<Pfn>,
    /// The last event of the run.
    event: u64,
    /// The number of earlier input events.
    place: u64,
}

/// Blocks given to the buddy at one free or timer work, or on one request.
#[derive(Debug)]
struct OpenDrain {
    pid: u32,
    context: Context,
    /// The operation that caused it, in the pageset's history.
    step: Option<usize>,
    zone: usize,
    /// The pageset's CPU.
    owner: CpuId,
    moved: Move,
    /// The drain's first event.
    event: u64,
    /// The process that drains on request.
    asked_by: Option<u32>,
    /// Whether the timer work drains.
    by_timer: bool,
    /// Of another node's pages by the timer work: its runs on the CPU since the replay began, with this one.
    ticks: Option<u8>,
    /// The pages of the pageset before the drain, by the events.
    held: i64,
    /// Whether the next event of the process after an interruption is a block of a drain, perhaps not of this one.
    is_resumed: bool,
    /// Whether it has gone on after an interruption.
    went_on: bool,
    /// A list that it has reached, if that is known. The lists from there to the next block's are empty.
    reached: Option<usize>,
}

/// A block that goes from a pageset to the buddy.
#[derive(Clone, Copy, Debug)]
struct Drained {
    zone: usize,
    /// The pageset's CPU.
    owner: CpuId,
    pages: u32,
    /// The pages of the pageset before, by the events.
    held: i64,
}

impl OpenDrain {
    /// A drain that begins with this block at the event numbered `index`. `place`: the number of input events before its cause.
    fn new(event: &Event, index: u64, block: Drained, step: Option<usize>, place: u64) -> Self {
        let Drained { zone, owner, pages, held } = block;
        OpenDrain {
            pid: event.pid,
            context: event.context,
            step,
            zone,
            owner,
            moved: Move { place, zone: zone as u32, cpu: owner, pages },
            event: index,
            asked_by: None,
            by_timer: false,
            ticks: None,
            held,
            is_resumed: false,
            went_on: false,
            reached: None,
        }
    }

    fn is_of(&self, event: &Event) -> bool {
        (self.pid, self.context) == (event.pid, event.context)
    }
}

/// A requested drain of a process that has done nothing else since.
#[derive(Clone, Copy, Debug)]
struct Emptying {
    /// The index in `drain_requests`.
    request: usize,
    /// The pages that it drained.
    pages: u32,
}

/// A free or a run of the timer work, which may cause a drain.
#[derive(Clone, Copy, Debug)]
struct Cause {
    pid: u32,
    /// `None` for the timer work, which visits all zones.
    zone: Option<usize>,
}

/// A refill without its allocation's event yet.
#[derive(Debug)]
struct Unfinished {
    /// The refill's index in `kernel.refills`.
    refill: usize,
    /// The allocation, without the data of its event.
    taken: Taken,
}

/// The open runs of one CPU, by context. An interrupt interrupts a run with a run of its own.
#[derive(Debug, Default)]
struct CpuRuns {
    runs: [Option<Run>; 4],
    drain: Option<OpenDrain>,
    /// Whether the last event other than a drain may cause a drain and is in the replayed window.
    may_drain: bool,
    /// The place of the last event other than a drain, which caused the current drain.
    cause: u64,
    /// The possible causes of a drain in each context: the last free or timer work of the current process, until that
    /// process does something else, and the same of the process that it preempted. Direct reclaim, compaction or
    /// hot-plug requested every other drain.
    freed: [[Option<Cause>; 2]; 4],
    /// The process in each context whose drains since its last other event were requested.
    requested: [Option<u32>; 4],
}

/// The index of a context, 0 to 3.
fn level(context: Context) -> usize {
    match context {
        Context::Process => 0,
        Context::SoftIrq => 1,
        Context::HardIrq => 2,
        Context::Nmi => 3,
    }
}

/// The result of the pass.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) lists: KernelLists,
    pub(super) kernel: Moves,
    pub(super) earlier: Vec<Earlier>,
    pub(super) taken: Vec<Taken>,
    pub(super) factors: FxHashMap<(usize, CpuId), (u64, u8)>,
    pub(super) histories: Histories,
    pub(super) drain_requests: Vec<DrainRequest>,
    /// The events of drains of at most three batches. Under reclaim a pageset keeps four batches and drains three.
    pub(super) small_drains: Vec<u64>,
    /// The countdowns of pagesets of other nodes at the start, as the first drain of each shows them.
    pub(super) expiring: FxHashMap<(usize, CpuId), Expiry>,
    /// The events of allocations and frees that used the pageset of another CPU.
    pub(super) moved_tasks: FxHashMap<u64, CpuId>,
}

/// The state of the pass.
#[derive(Debug)]
pub(super) struct ListPass<'s> {
    setting: &'s Setting,
    tuning: Tuning,
    frees: &'s FreeNotes,
    /// Frees so far.
    free: usize,
    /// Input events so far.
    place: u64,
    /// Frees that a later batch event commits: order and list type, by page.
    pending: FxHashMap<Pfn, (Order, MigrateType)>,
    cpus: Vec<CpuRuns>,
    /// Drains that other processes or interrupts interrupted, and their CPUs. A drain by the timer work gives up the pageset's lock after
    /// each batch from 6.12.67 on, and a drain at a free from 6.19 on (`kernels-2026.md` 2.2). Recordings show it of the timer work of
    /// 6.18, and of frees of 7.3. No event shows the exit of a process, so an entry ends at the CPU's second tick at the latest.
    interrupted: Vec<(CpuId, OpenDrain)>,
    live: BlockMap<u32>,
    /// Pages freed since the replay began.
    freed: PageMap<bool>,
    balance: Balance,
    hotplug: Hotplug,
    /// Refills by processes without a later event of the process: the process was preempted, or the recording ended. By
    /// process.
    unfinished: FxHashMap<u32, Unfinished>,
    /// Requested drains by the process that has done nothing else since.
    emptying: FxHashMap<u32, Emptying>,
    /// Runs of the timer work on each CPU since the replay began.
    ticks: Vec<u8>,
    /// The CPU of each process's last refill.
    refilling: FxHashMap<u32, CpuId>,
    /// Whether the refill that ends now is that of a recorded bulk allocation.
    in_bulk: bool,
    began: bool,
    ended: bool,
    found: Found,
}

impl<'s> ListPass<'s> {
    pub(super) fn new(setting: &'s Setting, frees: &'s FreeNotes) -> Self {
        ListPass {
            setting,
            tuning: setting.kernel_tuning(),
            frees,
            free: 0,
            place: 0,
            pending: FxHashMap::default(),
            cpus: (0..setting.cpus.len()).map(|_| CpuRuns::default()).collect(),
            interrupted: Vec::new(),
            live: BlockMap::new(),
            freed: PageMap::new(),
            balance: Balance::new(setting.zones.len(), setting.cpus.len()),
            hotplug: Hotplug::new(setting),
            unfinished: FxHashMap::default(),
            emptying: FxHashMap::default(),
            ticks: vec![0; setting.cpus.len()],
            refilling: FxHashMap::default(),
            in_bulk: false,
            began: false,
            ended: false,
            found: Found {
                lists: KernelLists::new(setting.zones.len(), setting.cpus.len()),
                kernel: Moves::default(),
                earlier: Vec::new(),
                taken: Vec::new(),
                factors: FxHashMap::default(),
                histories: Histories::new(setting.zones.len(), setting.cpus.len()),
                drain_requests: Vec::new(),
                small_drains: Vec::new(),
                expiring: FxHashMap::default(),
                moved_tasks: FxHashMap::default(),
            },
        }
    }

    pub(super) fn event(&mut self, notes: &mut Notes, index: u64, event: &Event, state: State) {
        if state == State::Inside && !self.began {
            self.began = true;
            self.found.lists.begin();
            self.balance.begin(self.setting.zones.iter().map(|zone| &zone.start));
            self.live = BlockMap::new();
        }
        let cpu = event.cpu;
        if self.ended {
            return;
        }
        if cpu.0 as usize >= self.cpus.len() {
            self.place += u64::from(event.kind.is_input());
            return;
        }
        let may_drain = matches!(event.kind, Kind::Free { .. } | Kind::FreeBatched { .. } | Kind::VmstatWork);
        if matches!(event.kind, Kind::VmstatWork) {
            self.end_interrupted(cpu);
        }
        self.resume_drain(event);
        if !matches!(event.kind, Kind::Drain { .. }) {
            self.interrupt_drain(event, state);
            let runs = &mut self.cpus[cpu.0 as usize];
            runs.cause = self.place;
            runs.may_drain = may_drain && state == State::Inside;
        }
        if state == State::After {
            self.after(notes, index, event);
            return;
        }
        self.note_cause(event, may_drain);
        let finished = self.finish_refill(event);
        match event.kind {
            Kind::ZoneLocked { pfn, order, migratetype, .. } => {
                self.extend_run(notes, index, event, pfn, order, migratetype);
            }
            Kind::ExtFrag { pfn, alloc_order, alloc_migratetype, .. }
                if self.tuning.fallback == FallbackRule::ClaimThenSteal =>
            {
                let run = self.run(event);
                // A claim within a pageblock shows the block before this event.
                if run.as_ref().is_none_or(|run| run.blocks.last() != Some(&pfn)) {
                    self.extend_run(notes, index, event, pfn, alloc_order, alloc_migratetype);
                }
            }
            Kind::SnapshotBegin(_) => self.balance.snapshot_begins(),
            Kind::SnapshotEnd(ref tag) => {
                if let Some(zones) = self.setting.snapshot(tag) {
                    self.balance.snapshot_ends(index, zones);
                }
            }
            Kind::ExtFrag { .. } => {}
            Kind::Alloc { pfn: Some(pfn), order, migratetype, gfp } => {
                let begins_with = |run: &Option<Run>| run.as_ref().is_some_and(|run| run.blocks.first() == Some(&pfn));
                let run = self.run(event).take();
                let moved = if begins_with(&run) { None } else { self.moved_run(event, pfn) };
                let ends_run = moved.is_some() || begins_with(&run);
                let shown = Shown { event: index, gfp };
                if let Some(run) = run {
                    let shown = (run.blocks.first() == Some(&pfn)).then_some(shown);
                    self.close_run(notes, cpu, run, shown);
                }
                if let Some((from, run)) = moved {
                    self.close_run(notes, from, run, Some(shown));
                    self.move_task(notes, index, from);
                }
                let late = finished.filter(|refill| !ends_run && refill.taken.pfn == Some(pfn));
                let from = late.as_ref().map_or(cpu, |refill| refill.taken.cpu);
                if let Some(refill) = &late {
                    self.found.taken.push(Taken { shown: Some(shown), ..refill.taken });
                }
                if from != cpu {
                    self.move_task(notes, index, from);
                }
                if !ends_run {
                    self.alloc(notes, index, from, (pfn, order, migratetype), late.is_some());
                }
                self.live.insert(pfn, order, 0);
            }
            Kind::BulkAlloc { taken, gfp, node, .. } => self.bulk(notes, index, event, (taken, gfp, node)),
            _ => {
                if let Some(run) = self.run(event).take() {
                    self.close_run(notes, cpu, run, None);
                }
                self.other(notes, index, event);
            }
        }
        // This event of the same process may have closed the run of a refill.
        self.finish_refill(event);
        self.place += u64::from(event.kind.is_input());
    }

    /// Removes the unfinished refill of the event's process: a process that writes an event has left the refilling
    /// allocation.
    fn finish_refill(&mut self, event: &Event) -> Option<Unfinished> {
        match event.context {
            Context::Process if !self.unfinished.is_empty() => self.unfinished.remove(&event.pid),
            _ => None,
        }
    }

    /// Removes the run of the event's process that began with this page on another CPU: the process moved after its refill.
    fn moved_run(&mut self, event: &Event, pfn: Pfn) -> Option<(CpuId, Run)> {
        let from = *self.refilling.get(&event.pid).filter(|from| **from != event.cpu)?;
        if event.context != Context::Process {
            return None;
        }
        let run = &mut self.cpus[from.0 as usize].runs[level(Context::Process)];
        let run = run.take_if(|run| run.pid == event.pid && run.blocks.first() == Some(&pfn))?;
        Some((from, run))
    }

    /// Notes that the allocation or free at an event used the pageset of another CPU.
    fn move_task(&mut self, notes: &mut Notes, event: u64, to: CpuId) {
        if self.began {
            notes.found.moved_tasks += 1;
            self.found.moved_tasks.insert(event, to);
        }
    }

    /// Keeps the possible cause of a later drain in this context.
    fn note_cause(&mut self, event: &Event, may_drain: bool) {
        if matches!(event.kind, Kind::Drain { .. }) {
            return;
        }
        if event.context == Context::Process && !self.emptying.is_empty() {
            self.emptying.remove(&event.pid);
        }
        let zone = match event.kind {
            Kind::Free { pfn, .. } | Kind::FreeBatched { pfn } => self.setting.zone_of(pfn),
            _ => {
                if !matches!(event.kind, Kind::StateChange(_)) {
                    self.hotplug.end_emptying(event.pid);
                }
                None
            }
        };
        let (runs, level) = (&mut self.cpus[event.cpu.0 as usize], level(event.context));
        runs.requested[level] = runs.requested[level].filter(|pid| *pid != event.pid);
        let freed = &mut runs.freed[level];
        freed.iter_mut().for_each(|slot| *slot = slot.filter(|freed| freed.pid != event.pid));
        if may_drain {
            *freed = [Some(Cause { pid: event.pid, zone }), freed[0].or(freed[1])];
        }
    }

    /// Follows drains after the last marker: other CPUs still drain for replayed frees.
    fn after(&mut self, notes: &mut Notes, index: u64, event: &Event) {
        match event.kind {
            Kind::Drain { pfn, order, migratetype } if self.cpus[event.cpu.0 as usize].may_drain => {
                self.drained(notes, index, event, (pfn, order, migratetype));
            }
            _ => {}
        }
        self.ended = self.cpus.iter().all(|cpu| cpu.drain.is_none() && !cpu.may_drain);
        if self.ended {
            self.close_all(notes);
        }
    }

    fn other(&mut self, notes: &mut Notes, index: u64, event: &Event) {
        match event.kind {
            Kind::Free { pfn, order } => {
                let number = self.free;
                self.free += 1;
                let Some((pfn, order)) = self.frees.block(number, pfn, order) else { return };
                self.freed(index, pfn, order, number);
                if self.setting.zone_of(pfn).is_some_and(|zone| self.hotplug.is_offlined_by(zone, event.pid)) {
                    return;
                }
                let migratetype = self.frees.list_type(number);
                if self.frees.is_batched(number) {
                    self.pending.insert(pfn, (order, migratetype));
                } else if self.frees.is_direct(number) {
                    let cached = self.tuning.lists.list(order, migratetype).is_some();
                    notes.found.direct_frees += u64::from(self.began && cached);
                } else {
                    self.commit(notes, index, event.cpu, pfn, order, migratetype);
                }
            }
            Kind::FreeBatched { pfn } => {
                if let Some((order, migratetype)) = self.pending.remove(&pfn) {
                    self.commit(notes, index, event.cpu, pfn, order, migratetype);
                }
            }
            Kind::Drain { pfn, order, migratetype } => {
                self.drained(notes, index, event, (pfn, order, migratetype));
            }
            Kind::VmstatWork if self.began => {
                let ticks = &mut self.ticks[event.cpu.0 as usize];
                *ticks = ticks.saturating_add(1);
                for zone in 0..self.setting.zones.len() {
                    self.found.histories.step(zone, event.cpu, Step::Tick { drained: 0 });
                }
            }
            // The state machine does not know reclaim and hot-plug.
            Kind::KswapdWake | Kind::StateChange(_) if self.began => {
                if let Kind::StateChange(change) = event.kind {
                    self.hotplug.change(change, event.pid, self.setting.zone_of_change(change));
                }
                for zone in 0..self.setting.zones.len() {
                    (0..self.cpus.len()).for_each(|cpu| self.found.histories.close(zone, CpuId(cpu as u32)));
                }
            }
            _ => {}
        }
    }

    /// The open run of the event's CPU and context.
    fn run(&mut self, event: &Event) -> &mut Option<Run> {
        &mut self.cpus[event.cpu.0 as usize].runs[level(event.context)]
    }

    /// Adds a block from a free list to the open run, or starts a new run.
    fn extend_run(&mut self, notes: &mut Notes, index: u64, event: &Event, pfn: Pfn, order: Order, migratetype: u8) {
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
                    self.refilling.insert(event.pid, event.cpu);
                }
                *self.run(event) =
                    Some(Run { pid: event.pid, context, order, migratetype, zone, blocks, event: index, place });
            }
        }
    }

    /// Closes a run. `shown` is the allocation event of its first block, if any.
    fn close_run(&mut self, notes: &mut Notes, cpu: CpuId, run: Run, shown: Option<Shown>) {
        let migratetype = ordinary(run.migratetype);
        let Some(list) = self.tuning.lists.list(run.order, migratetype) else { return };
        // A refill takes more than one block, unless the zone's batch is one page, as it is with disabled pagesets.
        let batch = self.setting.zones[run.zone].start.bounds.batch;
        if run.blocks.len() == 1 && batch > 1 && !self.hotplug.is_off(run.zone) {
            notes.found.direct_allocs += u64::from(self.began);
            return;
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
            if !self.in_bulk {
                self.found.histories.step(run.zone, cpu, Step::Alloc { order: run.order, refill });
            }
            let pages = refill * run.order.pages() as u32;
            let taken =
                Taken { event: run.event, zone: run.zone, cpu, pfn: Some(first), order: run.order, migratetype, shown };
            // The idle process 0 and interrupts allocate without an event only in bulk.
            if shown.is_none() && run.context == Context::Process && run.pid != 0 && !self.setting.bulk_unseen {
                let refill = self.found.kernel.refills.len();
                self.unfinished.insert(run.pid, Unfinished { refill, taken });
            }
            self.found.kernel.refills.push(Move { place: run.place, zone: run.zone as u32, cpu, pages });
            self.note_factor(&run, cpu);
            if shown.is_some() {
                self.found.taken.push(taken);
            }
        }
    }

    /// Keeps the factor that the first refill of single pages shows. Specification: `trace-replay.md` 3g.
    fn note_factor(&mut self, run: &Run, cpu: CpuId) {
        let batch = u64::from(self.setting.zones[run.zone].start.bounds.batch);
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
    fn bulk(&mut self, notes: &mut Notes, index: u64, event: &Event, (taken, gfp, node): (u32, u32, i32)) {
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
                self.in_bulk = true;
            }
            self.close_run(notes, event.cpu, run, None);
            self.in_bulk = false;
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

    /// Handles an allocation outside a run: it took the block from a list, if its order is cached. `is_counted` says
    /// that the history already has the allocation with its refill.
    fn alloc(&mut self, notes: &mut Notes, index: u64, cpu: CpuId, block: (Pfn, Order, u8), is_counted: bool) {
        let (pfn, order, migratetype) = block;
        let Some(zone) = self.zone_of(notes, pfn) else { return };
        let Some(list) = self.tuning.lists.list(order, ordinary(migratetype)) else { return };
        let pages = order.pages() as i64;
        let mut cpu = cpu;
        if let Some(held) = self.found.lists.held(pfn)
            && let (held_in, other, same) = self.found.lists.parts(held.list)
            && (held_in, same) == (zone, list)
            && other != cpu
        {
            if held.is_newest {
                // The allocation took the page before its task moved.
                self.move_task(notes, index, other);
                cpu = other;
            } else {
                // The free put the page on this list after its task had moved.
                self.move_task(notes, held.since, cpu);
                self.found.lists.push(self.found.lists.id(zone, cpu, list), pfn, index);
                self.balance.add(zone, other, -pages);
                self.balance.add(zone, cpu, pages);
            }
        }
        let id = self.found.lists.id(zone, cpu, list);
        self.found.lists.pop(id, pfn, index);
        self.balance.add(zone, cpu, -pages);
        if self.began && !is_counted {
            self.found.histories.step(zone, cpu, Step::Alloc { order, refill: 0 });
        }
    }

    fn freed(&mut self, index: u64, pfn: Pfn, order: Order, number: usize) {
        if self.found.lists.freed_again(pfn, index) {
            // The block was allocated without an event and is free again.
            return;
        }
        let known = self.live.free(pfn, order, |_, _, _| {}, |_, _| 0);
        // A page that was freed earlier was free at the start, and was allocated without an event since.
        let again = self.freed.get(pfn);
        self.freed.set(pfn, self.began);
        if self.began && known == Freed::Unknown && !again {
            self.found.earlier.push(Earlier { pfn, order, migratetype: self.frees.list_type(number) });
        }
    }

    fn commit(&mut self, notes: &mut Notes, index: u64, cpu: CpuId, pfn: Pfn, order: Order, migratetype: MigrateType) {
        let Some(list) = self.tuning.lists.list(order, migratetype) else { return };
        let Some(zone) = self.zone_of(notes, pfn) else { return };
        let id = self.found.lists.id(zone, cpu, list);
        self.found.lists.push(id, pfn, index);
        self.balance.add(zone, cpu, order.pages() as i64);
        if self.began {
            self.found.histories.step(zone, cpu, Step::Free { order, drained: 0, last: 0 });
        }
    }

    /// Handles a block that goes from a pageset to the buddy.
    fn drained(&mut self, notes: &mut Notes, index: u64, event: &Event, block: (Pfn, Order, u8)) {
        let (cpu, (pfn, order, migratetype)) = (event.cpu, block);
        let Some(zone) = self.zone_of(notes, pfn) else { return };
        let Some(list) = self.tuning.lists.list(order, ordinary(migratetype)) else { return };
        let id = self.found.lists.id(zone, self.emptied_by(event).unwrap_or(cpu), list);
        let from: ListId = self.found.lists.drain(id, pfn);
        let (_, owner, list) = self.found.lists.parts(from);
        let block = Drained { zone, owner, pages: order.pages() as u32, held: self.balance.pages(zone, owner) };
        self.balance.add(zone, owner, -i64::from(block.pages));
        // From 6.10 on, the event shows the pageblock's type, which may differ from the list's. The order is right.
        let is_exact = !self.tuning.type_at_drain;
        let first_of_order = if is_exact { list } else { list / ORDINARY.len() * ORDINARY.len() };
        let (step, is_requested) = self.note_step(event, block);
        let is_of = |open: &OpenDrain| (open.zone, open.owner) == (zone, owner);
        let passed = if let Some(open) = self.cpus[cpu.0 as usize].drain.as_mut().filter(|open| is_of(open)) {
            open.moved.pages += block.pages;
            if std::mem::take(&mut open.is_resumed) {
                notes.found.interrupted_drains += u64::from(self.began && !open.went_on);
                open.went_on = true;
            }
            open.reached
        } else {
            self.open_drain(notes, index, event, block, step, is_requested)
        };
        if let Some(open) = self.cpus[cpu.0 as usize].drain.as_mut() {
            open.reached = if is_exact { Some(list) } else { passed };
        }
        // From 5.18 on, a drain empties one list after the other. Specification 3.3.
        if let (Some(passed), Some(BulkFree::SinglePass | BulkFree::Chunked)) =
            (passed, self.tuning.backing.bulk_free())
        {
            self.found.lists.passed(zone, owner, passed..first_of_order);
        }
    }

    /// The CPU whose pageset the event's process empties. A process empties one CPU's pageset after the other, so an unknown page is of
    /// the same one as the page before.
    fn emptied_by(&self, event: &Event) -> Option<CpuId> {
        let open = self.cpus[event.cpu.0 as usize].drain.as_ref().filter(|open| open.asked_by == Some(event.pid));
        self.hotplug.emptied_by(event.pid).or(open.map(|open| open.owner))
    }

    /// The free or timer work of the event's process that may have caused a drain of the zone.
    fn cause_of(&self, event: &Event, zone: usize) -> Option<Cause> {
        let freed = &self.cpus[event.cpu.0 as usize].freed[level(event.context)];
        let causes = |cause: &&Cause| cause.pid == event.pid && cause.zone.is_none_or(|freed_in| freed_in == zone);
        freed.iter().flatten().find(causes).copied()
    }

    /// Notes a drained block in the pageset's history. Returns the operation that caused the drain, and whether a process requested it.
    fn note_step(&mut self, event: &Event, block: Drained) -> (Option<usize>, bool) {
        let Drained { zone, owner, pages, .. } = block;
        let is_caused = self.cause_of(event, zone).is_some();
        let runs = &mut self.cpus[event.cpu.0 as usize];
        let asked = &mut runs.requested[level(event.context)];
        let goes_on = runs
            .drain
            .as_ref()
            .filter(|open| open.is_of(event) && (open.zone, open.owner) == (zone, owner) && open.asked_by.is_none());
        if goes_on.is_none() && (owner != event.cpu || !is_caused || *asked == Some(event.pid)) {
            *asked = Some(event.pid);
            if self.began {
                self.found.histories.close(zone, owner);
            }
            return (None, true);
        }
        let step = goes_on.and_then(|open| open.step);
        (self.found.histories.drained(zone, owner, step, pages), false)
    }

    /// Begins a drain and ends the CPU's last one. Returns the list that it has certainly reached.
    fn open_drain(
        &mut self,
        notes: &mut Notes,
        index: u64,
        event: &Event,
        block: Drained,
        step: Option<usize>,
        is_requested: bool,
    ) -> Option<usize> {
        let (cpu, Drained { zone, owner, .. }) = (event.cpu, block);
        let by_timer = self.cause_of(event, zone).is_some_and(|cause| cause.zone.is_none());
        self.close_drain(cpu);
        let mut open = OpenDrain::new(event, index, block, step, self.cpus[cpu.0 as usize].cause);
        open.asked_by = is_requested.then_some(event.pid);
        open.by_timer = by_timer && !is_requested;
        if self.began {
            if is_requested {
                self.request_drain(event.pid, DrainRequest { event: index, zone, cpu: owner, pages: None });
            }
            notes.found.remote_drains += u64::from(owner != cpu);
            let is_remote = self.setting.zones[zone].node != self.setting.cpus[cpu.0 as usize];
            open.ticks = (open.by_timer && is_remote).then_some(self.ticks[cpu.0 as usize]);
            notes.found.expiries += u64::from(open.ticks.is_some());
        }
        self.cpus[cpu.0 as usize].drain = Some(open);
        // The timer work begins with the first list.
        by_timer.then_some(0)
    }

    /// Keeps the countdown at the start that the first drain of another node's pageset by the timer work shows. Later countdowns follow
    /// from what happened since. A first drain that may be one of the decay shows none: it begins the next countdown.
    fn note_countdown(&mut self, open: &OpenDrain) {
        let Some(ticks) = open.ticks else { return };
        let ZoneState { bounds, bounds_shown, .. } = &self.setting.zones[open.zone].start;
        // The decay leaves at least `high_min` pages. An expiry takes one batch, or all pages.
        let kept = if *bounds_shown { i64::from(bounds.high_min) } else { 0 };
        let may_decay = self.tuning.auto_high && open.held > kept;
        let is_batch = i64::from(open.moved.pages) == open.held.min(i64::from(bounds.batch));
        let is_shown = ticks <= expiry::TICKS && (is_batch || !may_decay);
        let left = if is_shown { ticks } else { 0 };
        self.found.expiring.entry((open.zone, open.owner)).or_insert(Expiry { left });
    }

    /// Adds a requested drain. If it goes on with the pageset that the same process drained last, that drain ended early: the pageset
    /// stays in use between the holds of its lock.
    fn request_drain(&mut self, pid: u32, request: DrainRequest) {
        let requests = &mut self.found.drain_requests;
        if let Some(before) = self.emptying.get(&pid)
            && let Some(part) = requests.get_mut(before.request)
            && (part.zone, part.cpu) == (request.zone, request.cpu)
        {
            part.pages = Some(before.pages);
        }
        self.emptying.insert(pid, Emptying { request: requests.len(), pages: 0 });
        requests.push(request);
    }

    /// Handles an event other than a drain. It ends the CPU's drain, unless another process or an interrupt wrote it and the drain gives
    /// up the pageset's lock between its parts.
    fn interrupt_drain(&mut self, event: &Event, state: State) {
        match self.cpus[event.cpu.0 as usize].drain.take() {
            Some(open) if !open.is_of(event) && state == State::Inside => self.keep_interrupted(event.cpu, open),
            Some(open) => self.end_drain(open),
            None => {}
        }
    }

    /// Keeps an interrupted drain, or ends it if such a drain holds the pageset's lock until its end.
    fn keep_interrupted(&mut self, cpu: CpuId, open: OpenDrain) {
        let in_parts = match open.by_timer {
            true => self.setting.timer_in_parts,
            false => self.tuning.backing.bulk_free() == Some(BulkFree::Chunked),
        };
        if in_parts && open.asked_by.is_none() {
            self.interrupted.push((cpu, open));
        } else {
            self.end_drain(open);
        }
    }

    /// Goes on with an interrupted drain, or ends it if its process has done something else.
    fn resume_drain(&mut self, event: &Event) {
        let is_pinned = event.context != Context::Process || event.pid == 0;
        let is_of = |(cpu, open): &(CpuId, OpenDrain)| open.is_of(event) && (*cpu == event.cpu || !is_pinned);
        let Some(at) = self.interrupted.iter().position(is_of) else { return };
        let (cpu, mut open) = self.interrupted.remove(at);
        if cpu == event.cpu && matches!(event.kind, Kind::Drain { .. }) {
            open.is_resumed = true;
            // Pages may have come to lists that the drain has emptied.
            open.reached = None;
            if let Some(other) = self.cpus[cpu.0 as usize].drain.replace(open) {
                self.keep_interrupted(cpu, other);
            }
        } else {
            self.end_drain(open);
        }
    }

    /// Ends a CPU's drains that were interrupted before: their processes have not gone on.
    fn end_interrupted(&mut self, cpu: CpuId) {
        while let Some(at) = self.interrupted.iter().position(|(on, _)| *on == cpu) {
            let (_, open) = self.interrupted.remove(at);
            self.end_drain(open);
        }
    }

    fn close_drain(&mut self, cpu: CpuId) {
        if let Some(open) = self.cpus[cpu.0 as usize].drain.take() {
            self.end_drain(open);
        }
    }

    fn end_drain(&mut self, open: OpenDrain) {
        if self.began {
            self.note_countdown(&open);
            if let Some(emptying) = open.asked_by.and_then(|pid| self.emptying.get_mut(&pid)) {
                emptying.pages = open.moved.pages;
            }
            self.found.kernel.drains.push(open.moved);
            if open.moved.pages <= 3 * self.setting.zones[open.zone].start.bounds.batch {
                self.found.small_drains.push(open.event);
            }
        }
    }

    fn zone_of(&self, notes: &mut Notes, pfn: Pfn) -> Option<usize> {
        let zone = self.setting.zone_of(pfn);
        notes.found.foreign += u64::from(zone.is_none() && self.began);
        zone
    }

    fn close_all(&mut self, notes: &mut Notes) {
        std::mem::take(&mut self.interrupted).into_iter().for_each(|(_, open)| self.end_drain(open));
        for cpu in (0..self.cpus.len()).map(|cpu| CpuId(cpu as u32)) {
            self.close_drain(cpu);
            for level in 0..4 {
                if let Some(run) = self.cpus[cpu.0 as usize].runs[level].take() {
                    self.close_run(notes, cpu, run, None);
                }
            }
        }
    }

    pub(super) fn finish(mut self, notes: &mut Notes) -> Found {
        if !self.ended {
            self.close_all(notes);
        }
        let Found { lists, taken, .. } = &mut self.found;
        let mut known: HashMap<_, Vec<_>> = HashMap::new();
        for Unseen { event, list, pfn } in lists.unseen() {
            let (zone, cpu, list) = lists.parts(list);
            let (order, migratetype) = (order_of(list), list_type(list));
            known.entry((zone, cpu)).or_default().push((event, order.pages()));
            taken.push(Taken { event, zone, cpu, pfn: Some(pfn), order, migratetype, shown: None });
        }
        notes.found.bulk_allocs = lists.unseen().count() as u64;
        for (zone, cpu, event, pages) in self.balance.unseen(&known) {
            notes.found.bulk_allocs += pages;
            // Most bulk allocations are for kernel memory.
            let (order, migratetype) = (Order::ZERO, MigrateType::Unmovable);
            lists.held_more(lists.id(zone, cpu, 0), pages);
            let page = Taken { event, zone, cpu, pfn: None, order, migratetype, shown: None };
            taken.extend((0..pages).map(|_| page));
        }
        notes.found.surprises = lists.surprises;
        // The recording ended within these allocations, so no event of them is replayed.
        let unfinished: HashSet<usize> = self.unfinished.values().map(|refill| refill.refill).collect();
        let mut place = 0;
        self.found.kernel.refills.retain(|_| {
            place += 1;
            !unfinished.contains(&(place - 1))
        });
        // An interrupted drain ends after later ones.
        self.found.kernel.drains.sort_by_key(|drain| drain.place);
        self.found.small_drains.sort_unstable();
        self.found.drain_requests.sort_by_key(|request| request.event);
        let Found { taken, .. } = &mut self.found;
        // The sort is stable and keeps the order of allocations before the same event.
        taken.sort_by_key(|t| t.event);
        self.found
    }
}
