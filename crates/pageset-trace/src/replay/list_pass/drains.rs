//! Drains: blocks that go from a pageset to the buddy, one after the other.

use pageset::policy::BulkFree;
use pageset::policy::expiry::Expiry;
use pageset::{CpuId, Order, Pfn};
use rustc_hash::FxHashMap;

use super::{ListPass, level};
use crate::event::{Context, Event, Kind};
use crate::replay::findings::{DrainRequest, Notes};
use crate::replay::kernel_lists::ListId;
use crate::replay::moves::Move;
use crate::replay::setting::{State, ZoneState};
use crate::replay::types::{ORDINARY, ordinary};

/// The drains so far of all CPUs.
#[derive(Debug, Default)]
pub(super) struct Drains {
    cpus: Vec<CpuDrains>,
    /// Drains that other processes or interrupts interrupted, and their CPUs. A drain by the timer work gives up the pageset's lock after
    /// each batch from 6.12.67 on, and a drain at a free from 6.19 on (`kernels-2026.md` 2.2). Recordings show it of the timer work of
    /// 6.18, and of frees of 7.3. No event shows the exit of a process, so an entry ends at the CPU's second tick at the latest.
    interrupted: Vec<(CpuId, OpenDrain)>,
    /// Requested drains by the process that has done nothing else since.
    emptying: FxHashMap<u32, Emptying>,
}

impl Drains {
    pub(super) fn new(cpus: usize) -> Self {
        Drains { cpus: (0..cpus).map(|_| CpuDrains::default()).collect(), ..Drains::default() }
    }

    /// Counts a run of the timer work that finds pages of the zone on the CPU. The countdown of an empty pageset stands still.
    pub(super) fn tick(&mut self, zone: usize, cpu: CpuId) {
        let ticks = &mut self.cpus[cpu.0 as usize].ticks;
        ticks.resize(ticks.len().max(zone + 1), 0);
        ticks[zone] = ticks[zone].saturating_add(1);
    }
}

/// The open drain of one CPU, and what may cause the next.
#[derive(Debug, Default)]
struct CpuDrains {
    open: Option<OpenDrain>,
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
    /// Runs of the timer work since the replay began that found pages, by zone.
    ticks: Vec<u8>,
}

/// Whether an event of this kind may cause a drain of the own CPU's pagesets.
fn may_drain(kind: &Kind) -> bool {
    matches!(kind, Kind::Free { .. } | Kind::FreeBatched { .. } | Kind::VmstatWork)
}

/// Whether a drain of another node's pageset by the timer work can only be one of idle pages: those take one batch, or all pages. The decay
/// leaves at least `decays_above` pages; `None` if the kernel has no decay.
fn is_expiry(pages: u32, held: i64, batch: u32, decays_above: Option<i64>) -> bool {
    let may_decay = decays_above.is_some_and(|kept| held > kept);
    let is_batch = i64::from(pages) == held.min(i64::from(batch));
    is_batch || !may_decay
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
    /// Of another node's pages by the timer work: its runs that found pages since the replay began, with this one.
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

impl ListPass<'_> {
    /// Goes on with drains at an event or ends them, before the event's own effect.
    pub(super) fn follow_drains(&mut self, event: &Event, state: State) {
        if matches!(event.kind, Kind::VmstatWork) {
            self.end_interrupted(event.cpu);
        }
        self.resume_drain(event);
        if !matches!(event.kind, Kind::Drain { .. }) {
            self.interrupt_drain(event, state);
            let cpu = &mut self.drains.cpus[event.cpu.0 as usize];
            cpu.cause = self.place;
            cpu.may_drain = may_drain(&event.kind) && state == State::Inside;
        }
    }

    /// Keeps the possible cause of a later drain in this context.
    pub(super) fn note_cause(&mut self, event: &Event) {
        if matches!(event.kind, Kind::Drain { .. }) {
            return;
        }
        if event.context == Context::Process && !self.drains.emptying.is_empty() {
            self.drains.emptying.remove(&event.pid);
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
        let (runs, level) = (&mut self.drains.cpus[event.cpu.0 as usize], level(event.context));
        runs.requested[level] = runs.requested[level].filter(|pid| *pid != event.pid);
        let freed = &mut runs.freed[level];
        freed.iter_mut().for_each(|slot| *slot = slot.filter(|freed| freed.pid != event.pid));
        if may_drain(&event.kind) {
            *freed = [Some(Cause { pid: event.pid, zone }), freed[0].or(freed[1])];
        }
    }

    /// Follows drains after the last marker: other CPUs still drain for replayed frees.
    pub(super) fn after(&mut self, notes: &mut Notes, index: u64, event: &Event) {
        match event.kind {
            Kind::Drain { pfn, order, migratetype } if self.drains.cpus[event.cpu.0 as usize].may_drain => {
                self.drained(notes, index, event, (pfn, order, migratetype));
            }
            _ => {}
        }
        self.ended = self.drains.cpus.iter().all(|cpu| cpu.open.is_none() && !cpu.may_drain);
        if self.ended {
            self.close_all(notes);
        }
    }

    /// Handles a block that goes from a pageset to the buddy.
    pub(super) fn drained(&mut self, notes: &mut Notes, index: u64, event: &Event, block: (Pfn, Order, u8)) {
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
        if self.cause_of(event, zone).is_some_and(|cause| cause.zone.is_some())
            && self.settings.is_shown_by_drain(zone, block.held)
        {
            self.set_before(self.drains.cpus[cpu.0 as usize].cause);
        }
        let (step, is_requested) = self.note_step(event, block);
        let is_of = |open: &OpenDrain| (open.zone, open.owner) == (zone, owner);
        let passed = if let Some(open) = self.drains.cpus[cpu.0 as usize].open.as_mut().filter(|open| is_of(open)) {
            open.moved.pages += block.pages;
            if std::mem::take(&mut open.is_resumed) {
                notes.found.interrupted_drains += u64::from(self.began && !open.went_on);
                open.went_on = true;
            }
            open.reached
        } else {
            self.open_drain(notes, index, event, block, step, is_requested)
        };
        if let Some(open) = self.drains.cpus[cpu.0 as usize].open.as_mut() {
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
        let open = self.drains.cpus[event.cpu.0 as usize].open.as_ref().filter(|open| open.asked_by == Some(event.pid));
        self.hotplug.emptied_by(event.pid).or(open.map(|open| open.owner))
    }

    /// The free or timer work of the event's process that may have caused a drain of the zone.
    fn cause_of(&self, event: &Event, zone: usize) -> Option<Cause> {
        let freed = &self.drains.cpus[event.cpu.0 as usize].freed[level(event.context)];
        let causes = |cause: &&Cause| cause.pid == event.pid && cause.zone.is_none_or(|freed_in| freed_in == zone);
        freed.iter().flatten().find(causes).copied()
    }

    /// Notes a drained block in the pageset's history. Returns the operation that caused the drain, and whether a process requested it.
    fn note_step(&mut self, event: &Event, block: Drained) -> (Option<usize>, bool) {
        let Drained { zone, owner, pages, .. } = block;
        let is_caused = self.cause_of(event, zone).is_some();
        let runs = &mut self.drains.cpus[event.cpu.0 as usize];
        let asked = &mut runs.requested[level(event.context)];
        let goes_on = runs
            .open
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
        let mut open = OpenDrain::new(event, index, block, step, self.drains.cpus[cpu.0 as usize].cause);
        open.asked_by = is_requested.then_some(event.pid);
        open.by_timer = by_timer && !is_requested;
        if self.began {
            if is_requested {
                self.request_drain(event.pid, DrainRequest { event: index, zone, cpu: owner, pages: None });
            }
            notes.found.remote_drains += u64::from(owner != cpu);
            let is_remote = self.setting.zones[zone].node != self.setting.cpus[cpu.0 as usize];
            let ticks = self.drains.cpus[cpu.0 as usize].ticks.get(zone).copied().unwrap_or(0);
            open.ticks = (open.by_timer && is_remote).then_some(ticks);
            notes.found.expiries += u64::from(open.ticks.is_some());
        }
        self.drains.cpus[cpu.0 as usize].open = Some(open);
        // The timer work begins with the first list.
        by_timer.then_some(0)
    }

    /// Keeps the countdown at the start that the first drain of another node's pageset by the timer work shows. Later countdowns follow
    /// from what happened since. A first drain that may be one of the decay shows none: it begins the next countdown.
    fn note_countdown(&mut self, open: &OpenDrain) {
        let Some(ticks) = open.ticks else { return };
        let ZoneState { bounds, bounds_shown, .. } = &self.setting.zones[open.zone].start;
        let kept = if *bounds_shown { i64::from(bounds.high_min) } else { 0 };
        let decays_above = self.tuning.auto_high.then_some(kept);
        let is_shown = is_expiry(open.moved.pages, open.held, bounds.batch, decays_above);
        *self.found.expired.entry((open.moved.place, open.zone, open.owner)).or_default() |= is_shown;
        let left = if is_shown { ticks } else { 0 };
        self.found.expiring.entry((open.zone, open.owner)).or_insert(Expiry { left });
    }

    /// Adds a requested drain. If it goes on with the pageset that the same process drained last, that drain ended early: the pageset
    /// stays in use between the holds of its lock.
    fn request_drain(&mut self, pid: u32, request: DrainRequest) {
        let requests = &mut self.found.drain_requests;
        if let Some(before) = self.drains.emptying.get(&pid)
            && let Some(part) = requests.get_mut(before.request)
            && (part.zone, part.cpu) == (request.zone, request.cpu)
        {
            part.pages = Some(before.pages);
        }
        self.drains.emptying.insert(pid, Emptying { request: requests.len(), pages: 0 });
        requests.push(request);
    }

    /// Handles an event other than a drain. It ends the CPU's drain, unless another process or an interrupt wrote it and the drain gives
    /// up the pageset's lock between its parts.
    fn interrupt_drain(&mut self, event: &Event, state: State) {
        match self.drains.cpus[event.cpu.0 as usize].open.take() {
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
            self.drains.interrupted.push((cpu, open));
        } else {
            self.end_drain(open);
        }
    }

    /// Goes on with an interrupted drain, or ends it if its process has done something else.
    fn resume_drain(&mut self, event: &Event) {
        let is_pinned = event.context != Context::Process || event.pid == 0;
        let is_of = |(cpu, open): &(CpuId, OpenDrain)| open.is_of(event) && (*cpu == event.cpu || !is_pinned);
        let Some(at) = self.drains.interrupted.iter().position(is_of) else { return };
        let (cpu, mut open) = self.drains.interrupted.remove(at);
        if cpu == event.cpu && matches!(event.kind, Kind::Drain { .. }) {
            open.is_resumed = true;
            // Pages may have come to lists that the drain has emptied.
            open.reached = None;
            if let Some(other) = self.drains.cpus[cpu.0 as usize].open.replace(open) {
                self.keep_interrupted(cpu, other);
            }
        } else {
            self.end_drain(open);
        }
    }

    pub(super) fn end_all_interrupted(&mut self) {
        std::mem::take(&mut self.drains.interrupted).into_iter().for_each(|(_, open)| self.end_drain(open));
    }

    /// Ends a CPU's drains that were interrupted before: their processes have not gone on.
    fn end_interrupted(&mut self, cpu: CpuId) {
        while let Some(at) = self.drains.interrupted.iter().position(|(on, _)| *on == cpu) {
            let (_, open) = self.drains.interrupted.remove(at);
            self.end_drain(open);
        }
    }

    pub(super) fn close_drain(&mut self, cpu: CpuId) {
        if let Some(open) = self.drains.cpus[cpu.0 as usize].open.take() {
            self.end_drain(open);
        }
    }

    fn end_drain(&mut self, open: OpenDrain) {
        if self.began {
            self.note_countdown(&open);
            if let Some(emptying) = open.asked_by.and_then(|pid| self.drains.emptying.get_mut(&pid)) {
                emptying.pages = open.moved.pages;
            }
            self.found.kernel.drains.push(open.moved);
            if open.moved.pages <= 3 * self.setting.zones[open.zone].start.bounds.batch {
                self.found.small_drains.push(open.event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_expiry;

    #[test]
    fn a_drain_that_may_be_of_the_decay_shows_no_expiry() {
        for (pages, held, decays_above, expected) in [
            (31, 200, None, true),
            (96, 200, None, true),
            (25, 200, Some(100), false),
            (25, 100, Some(100), true),
            (31, 200, Some(100), true),
            (20, 20, Some(0), true),
            (96, 200, Some(0), false),
        ] {
            assert_eq!(is_expiry(pages, held, 31, decays_above), expected, "{pages} of {held}, {decays_above:?}");
        }
    }
}
