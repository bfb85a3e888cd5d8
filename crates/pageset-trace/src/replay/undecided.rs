//! Moments that the input does not decide: what a pageset did first at two events.
//!
//! An allocation takes its page before its event is written, and another task or an interrupt may run in between. Where that would show in
//! the kernel's refills and drains, the reconstructed level finds it. The input does not tell. Such a moment is replayed as its events are
//! written, which is right for most, and counted here. Specification: `trace-replay.md` 3b.

use pageset::Order;
use rustc_hash::FxHashMap;

use super::findings::{Found, Shown, Taken};
use super::setting::Setting;
use super::types::ordinary;
use crate::event::{Context, Event, Kind};

/// The moments that are kept to be tried the other way. Unit: moments. A guess: a replay tries few of them.
const KEPT: usize = 4096;

/// A moment, the other way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// The allocation of a task came before the timer work that ran in between, not after it. In recordings of programs on 6.18 and 7.3, 22
    /// of 70 such allocations that refilled did.
    BeforeTick(Taken),
    /// These frees of an interrupt met the pageset locked by the allocation whose event is next. By number, ascending. In 71
    /// recordings of programs, 8 of 3,126 interrupts did, as later events of their pages show.
    LockedOut(Vec<usize>),
}

/// The frees of an interrupt that no other event followed yet.
#[derive(Debug)]
struct Interrupt {
    /// The interrupted process.
    pid: u32,
    zone: Option<usize>,
    frees: Vec<usize>,
}

/// The search, and its result.
#[derive(Debug, Default)]
pub(super) struct Undecided {
    /// Some of all moments, in the order of the events: each so many-th.
    pub(super) moments: Vec<Moment>,
    seen: usize,
    every: usize,
    /// The allocations of all [`Moment::BeforeTick`].
    takens: Vec<Taken>,
    /// The last event of each process.
    last: FxHashMap<u32, u64>,
    /// The timer work of each CPU without a later event of another process: its event and process.
    ticks: FxHashMap<u32, (u64, u32)>,
    interrupts: FxHashMap<u32, Interrupt>,
    free: usize,
}

impl Undecided {
    /// Handles event number `index` of the replayed window, or before it.
    pub(super) fn event(
        &mut self,
        found: &mut Found,
        setting: &Setting,
        index: u64,
        event: &Event,
        (is_inside, is_preemptible): (bool, bool),
    ) {
        let (cpu, pid) = (event.cpu.0, event.pid);
        let number = self.free;
        self.free += usize::from(matches!(event.kind, Kind::Free { .. }));
        if !event.kind.is_input() {
            return;
        }
        if event.context != Context::Process {
            if let Kind::Free { pfn, .. } = event.kind {
                let zone = setting.zone_of(pfn);
                let interrupt = self.interrupts.entry(cpu).or_insert(Interrupt { pid, zone, frees: Vec::new() });
                interrupt.zone = interrupt.zone.filter(|of| Some(*of) == zone);
                interrupt.frees.push(number);
            }
            return;
        }
        let interrupt = self.interrupts.remove(&cpu);
        let tick = self.ticks.get(&cpu).copied().filter(|(_, by)| *by != pid);
        let last = self.last.insert(pid, index);
        if tick.is_some() {
            self.ticks.remove(&cpu);
        }
        match event.kind {
            Kind::VmstatWork => _ = self.ticks.insert(cpu, (index, pid)),
            Kind::Alloc { pfn: Some(pfn), order, migratetype, gfp } if is_inside && order <= Order::COSTLY => {
                let Some(zone) = setting.zone_of(pfn) else { return };
                if let Some((tick, _)) = tick.filter(|_| setting.preempts)
                    && last.is_none_or(|at| at < tick)
                {
                    let (cpu, migratetype) = (event.cpu, ordinary(migratetype));
                    let shown = Some(Shown { event: index, gfp });
                    let taken = Taken { event: tick, zone, cpu, pfn: Some(pfn), order, migratetype, shown };
                    found.undecided_allocs += 1;
                    self.takens.push(taken);
                    self.keep(Moment::BeforeTick(taken));
                }
                // The idle process allocates nothing.
                let is_of = |interrupt: &Interrupt| interrupt.pid == pid && pid != 0 && interrupt.zone == Some(zone);
                if let Some(interrupt) = interrupt.filter(is_of).filter(|_| is_preemptible) {
                    found.undecided_frees += interrupt.frees.len() as u64;
                    self.keep(Moment::LockedOut(interrupt.frees));
                }
            }
            _ => {}
        }
    }

    fn keep(&mut self, moment: Moment) {
        let number = self.seen;
        self.seen += 1;
        if self.moments.len() == KEPT {
            let mut at = 0;
            self.moments.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.every = 2 * self.every.max(1);
        }
        if number.is_multiple_of(self.every.max(1)) {
            self.moments.push(moment);
        }
    }

    /// At most `most` of the moments, from all parts of the recording.
    pub(super) fn some(&self, most: usize) -> impl Iterator<Item = &Moment> {
        let (all, count) = (self.moments.len(), most.min(self.moments.len()));
        (0..count).map(move |at| &self.moments[(2 * at + 1) * all / (2 * count)])
    }

    /// The allocations that may have come before the timer work, by its event.
    pub(super) fn before_ticks(&self) -> FxHashMap<u64, Taken> {
        self.takens.iter().map(|taken| (taken.event, *taken)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pageset::{CpuId, Pfn};

    use super::*;
    use crate::trace::Trace;

    const PIECE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/real/rejoined.pstrace");

    #[test]
    fn moments_are_those_of_interrupted_allocations() {
        let setting = Setting::new(&Trace::open(Path::new(PIECE)).unwrap()).unwrap();
        assert!(setting.preempts, "a recording of 7.3");
        let pfn = |at: u64| Pfn(setting.zones.last().unwrap().frames.end - 1 - at);
        let alloc = |at| Kind::Alloc { pfn: Some(pfn(at)), order: Order::ZERO, migratetype: 1, gfp: 0 };
        let free = |at| Kind::Free { pfn: pfn(at), order: Order::ZERO };
        let of = |rows: &[(u32, Context, Kind)]| {
            let (mut undecided, mut found) = (Undecided::default(), Found::default());
            for (index, (pid, context, kind)) in rows.iter().enumerate() {
                let event = Event { time_ns: 0, cpu: CpuId(0), pid: *pid, context: *context, kind: kind.clone() };
                undecided.event(&mut found, &setting, index as u64, &event, (true, true));
            }
            assert_eq!(undecided.moments.len() as u64, found.undecided_allocs + found.undecided_frees.min(1));
            (undecided, found.undecided_allocs, found.undecided_frees)
        };
        use Context::{Process, SoftIrq};
        // The task is preempted, and goes on with its allocation.
        let row = [(7, Process, alloc(1)), (9, Process, Kind::VmstatWork), (7, Process, alloc(2))];
        let (undecided, allocs, frees) = of(&row);
        assert_eq!((allocs, frees), (1, 0));
        assert_eq!(undecided.before_ticks()[&1].pfn, Some(pfn(2)));
        let other = [&row[..2], &[(8, Process, alloc(3))], &row[2..]].concat();
        let (undecided, allocs, _) = of(&other);
        assert_eq!(
            (allocs, undecided.before_ticks()[&1].pfn),
            (1, Some(pfn(3))),
            "the first task after the timer work"
        );
        assert_eq!(of(&row[1..]).1, 1, "the task came from another CPU");
        // An interrupt frees, and the interrupted task goes on with its allocation.
        let row = [(7, SoftIrq, free(4)), (7, SoftIrq, free(5)), (7, Process, alloc(2))];
        let (undecided, allocs, frees) = of(&row);
        assert_eq!((allocs, frees, undecided.moments), (0, 2, vec![Moment::LockedOut(vec![0, 1])]));
        assert_eq!(of(&[(7, SoftIrq, free(4)), (8, Process, alloc(2))]).2, 0, "another task");
        assert_eq!(of(&[(7, SoftIrq, free(4)), (7, Process, free(6)), (7, Process, alloc(2))]).2, 0, "a free");
    }

    #[test]
    fn some_are_from_all_parts() {
        let filled = |count| {
            let mut undecided = Undecided::default();
            (0..count).for_each(|at| undecided.keep(Moment::LockedOut(vec![at])));
            undecided
        };
        // More than are kept: each fourth.
        let many = filled(3 * KEPT);
        assert!(many.moments.len() <= KEPT, "{}", many.moments.len());
        assert!(many.moments.iter().enumerate().all(|(at, moment)| *moment == Moment::LockedOut(vec![4 * at])));
        let undecided = filled(100);
        let some = |most| undecided.some(most).cloned().collect::<Vec<_>>();
        assert_eq!(some(2), [Moment::LockedOut(vec![25]), Moment::LockedOut(vec![75])]);
        assert_eq!((some(0).len(), some(200).len()), (0, 100));
    }
}
