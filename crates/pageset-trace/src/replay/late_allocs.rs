//! Huge pages whose event comes late. A kernel that clears pages when it allocates them (`init_on_alloc`) clears the page before it
//! writes the event. What other tasks, interrupts and the timer work do on the CPU in between is recorded first.
//!
//! Only an allocation that refilled its list shows when it took its page. These show the share of the time since the process's last event
//! that clearing takes. Every other allocation is put before the events of others that came within that share. Kernels before 6.13 let no
//! other task run while they clear. In recordings of programs on 6.18 and 7.3, other tasks ran between the last event and the event of 17
//! allocations of huge pages that refilled, all of them after the page was taken in 13, and before in 4, of which 2 had slept.
//! Specification: `trace-replay.md` 3b.

use std::collections::VecDeque;

use pageset::{CpuId, Order, Pfn};
use rustc_hash::FxHashMap;

use super::findings::{Shown, Taken};
use super::setting::Setting;
use super::types::ordinary;
use crate::event::{Context, Event, Kind};

/// A process without an event for as long has slept, and not only cleared a page. khugepaged sleeps for 10 s between its rounds, and the
/// slowest of 13 clearings that other tasks interrupted took 5.9 s. Unit: nanoseconds.
const AWAKE_NS: u64 = 8_000_000_000;

/// The bursts of a CPU that are kept. A guess: a tick and a few processes come while a page is cleared.
const BURSTS_MAX: usize = 32;

/// Consecutive events of one task or interrupt on a CPU.
#[derive(Clone, Copy, Debug)]
struct Burst {
    by: (u32, Context),
    /// The first event.
    event: u64,
    begin_ns: u64,
    end_ns: u64,
}

/// The allocation of a huge page.
#[derive(Debug)]
struct Allocation {
    time_ns: u64,
    /// The process's last event.
    since_ns: u64,
    cpu: CpuId,
    pfn: Pfn,
    migratetype: u8,
    shown: Shown,
    /// Bursts of others on the CPU since the process's last event, the oldest first.
    others: Vec<Burst>,
}

/// The state of the search.
#[derive(Debug, Default)]
pub(super) struct LateAllocs {
    bursts: FxHashMap<u32, VecDeque<Burst>>,
    /// The last event of each process: its CPU and time.
    last: FxHashMap<u32, (CpuId, u64)>,
    /// The last event of the free of each huge page.
    freed: FxHashMap<Pfn, u64>,
    /// The last huge page that each process took from a free list.
    taken_ns: FxHashMap<u32, u64>,
    /// The time from there to the event of the allocation, as a share of the time since the process's last event, in thousandths.
    shares: Vec<u64>,
    allocations: Vec<Allocation>,
}

impl LateAllocs {
    /// Handles event number `index` of a kernel that lets others run while it clears a page.
    pub(super) fn event(&mut self, index: u64, event: &Event, is_inside: bool) {
        let (pid, time_ns) = (event.pid, event.time_ns);
        let in_process = event.context == Context::Process;
        match event.kind {
            Kind::ZoneLocked { order: Order::PAGEBLOCK, .. } if in_process => _ = self.taken_ns.insert(pid, time_ns),
            Kind::Alloc { pfn: Some(pfn), order: Order::PAGEBLOCK, migratetype, gfp } if in_process => {
                let (taken_ns, freed) = (self.taken_ns.remove(&pid), self.freed.remove(&pfn));
                // A process that has moved may have taken the page before.
                if let Some(&(_, since_ns)) = self.last.get(&pid).filter(|(cpu, _)| *cpu == event.cpu) {
                    if let Some(clearing_ns) = taken_ns.map(|taken_ns| time_ns.saturating_sub(taken_ns)) {
                        let share =
                            (1000 * u128::from(clearing_ns)).checked_div(time_ns.saturating_sub(since_ns).into());
                        self.shares.push(share.unwrap_or(0).min(1000) as u64);
                    }
                    // The page was taken after its free.
                    let is_other = |burst: &Burst| {
                        let is_later = since_ns < burst.begin_ns && freed.is_none_or(|freed| freed < burst.event);
                        is_later && burst.by != (pid, event.context)
                    };
                    let bursts = self.bursts.get(&event.cpu.0).into_iter().flatten().copied();
                    let others: Vec<Burst> = bursts.filter(is_other).collect();
                    let is_awake = time_ns.saturating_sub(since_ns) < AWAKE_NS;
                    if is_inside && is_awake && !others.is_empty() {
                        let (cpu, shown) = (event.cpu, Shown { event: index, gfp });
                        self.allocations.push(Allocation { time_ns, since_ns, cpu, pfn, migratetype, shown, others });
                    }
                }
            }
            Kind::Free { pfn, order: Order::PAGEBLOCK } => _ = self.freed.insert(pfn, index),
            Kind::FreeBatched { pfn } => _ = self.freed.get_mut(&pfn).map(|freed| *freed = index),
            _ => {}
        }
        if event.kind.is_input() {
            if in_process {
                self.taken_ns.remove(&pid);
            }
            self.add(index, event);
        }
    }

    fn add(&mut self, index: u64, event: &Event) {
        let (by, time_ns) = ((event.pid, event.context), event.time_ns);
        if event.context == Context::Process {
            self.last.insert(event.pid, (event.cpu, time_ns));
        }
        let bursts = self.bursts.entry(event.cpu.0).or_default();
        match bursts.back_mut() {
            Some(burst) if burst.by == by => burst.end_ns = time_ns,
            _ => {
                if bursts.len() == BURSTS_MAX {
                    bursts.pop_front();
                }
                bursts.push_back(Burst { by, event: index, begin_ns: time_ns, end_ns: time_ns });
            }
        }
    }

    /// The allocations that come before other events, sorted by the event that they come before.
    pub(super) fn finish(mut self, setting: &Setting) -> Vec<Taken> {
        let Some(share) = median(&mut self.shares) else { return Vec::new() };
        let taken = self.allocations.iter().filter_map(|allocation| {
            let event = allocation.comes_before(share)?;
            let Allocation { cpu, pfn, migratetype, shown, .. } = *allocation;
            let (zone, migratetype) = (setting.zone_of(pfn)?, ordinary(migratetype));
            let order = Order::PAGEBLOCK;
            Some(Taken { event, zone, cpu, pfn: Some(pfn), order, migratetype, shown: Some(shown) })
        });
        let mut taken: Vec<Taken> = taken.collect();
        taken.sort_by_key(|taken| taken.event);
        taken
    }
}

fn median(of: &mut [u64]) -> Option<u64> {
    of.sort_unstable();
    of.get(of.len() / 2).copied()
}

impl Allocation {
    /// The first event of others that the allocation comes before, if its page was cleared for `share` thousandths of the time since the
    /// process's last event.
    fn comes_before(&self, share: u64) -> Option<u64> {
        let since_ns = self.time_ns.saturating_sub(self.since_ns);
        let taken_ns = self.time_ns - since_ns.min(AWAKE_NS) * share / 1000;
        let is_later = |burst: &&Burst| burst.begin_ns.midpoint(burst.end_ns) > taken_ns;
        self.others.iter().find(is_later).filter(|_| since_ns < AWAKE_NS).map(|burst| burst.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of `bursts` (begin, end; in ms) an allocation comes before, by the share of the time since 0.
    fn before(bursts: &[(u64, u64)], at_ms: u64, share: u64) -> Option<u64> {
        let burst = |(event, &(begin, end)): (usize, &(u64, u64))| Burst {
            by: (event as u32, Context::Process),
            event: event as u64,
            begin_ns: begin * 1_000_000,
            end_ns: end * 1_000_000,
        };
        let (cpu, shown) = (CpuId(0), Shown { event: 99, gfp: 0 });
        let others = bursts.iter().enumerate().map(burst).collect();
        let time_ns = at_ms * 1_000_000;
        Allocation { time_ns, since_ns: 0, cpu, pfn: Pfn(512), migratetype: 1, shown, others }.comes_before(share)
    }

    #[test]
    fn others_run_while_a_page_is_cleared() {
        let two = [(100, 100), (990, 990)];
        assert_eq!(before(&two, 1000, 0), None, "the kernel does not clear it");
        assert_eq!(before(&two, 1000, 980), Some(0));
        assert_eq!(before(&two, 1000, 500), Some(1));
        assert_eq!(before(&two, 7999, 990), Some(0));
        assert_eq!(before(&two, 8000, 990), None, "the process slept");
        assert_eq!(before(&[(100, 100), (400, 580)], 1000, 500), None, "most of the burst is before");
        assert_eq!(before(&[(100, 100), (400, 620)], 1000, 500), Some(1));
    }

    #[test]
    fn the_window_begins_with_the_last_event_of_the_process() {
        let event = |time_ns, pid, kind| Event { time_ns, cpu: CpuId(0), pid, context: Context::Process, kind };
        let order = Order::PAGEBLOCK;
        let huge = |pfn| Kind::Alloc { pfn: Some(Pfn(pfn)), order, migratetype: 1, gfp: 0 };
        let mut late = LateAllocs::default();
        for (index, (time_ns, pid, kind)) in [
            (50, 7, Kind::VmstatWork),
            (60, 7, Kind::ZoneLocked { pfn: Pfn(512), order, migratetype: 1, percpu_refill: true }),
            (100, 7, huge(512)),
            (150, 8, Kind::VmstatWork),
            (160, 7, Kind::Free { pfn: Pfn(1), order: Order::ZERO }),
            (200, 8, Kind::VmstatWork),
            (210, 7, huge(1024)),
            (220, 8, Kind::Free { pfn: Pfn(1024), order }),
            (230, 9, Kind::VmstatWork),
            (240, 7, huge(1024)),
        ]
        .into_iter()
        .enumerate()
        {
            late.event(index as u64, &event(time_ns, pid, kind), true);
        }
        assert_eq!(late.shares, [800]);
        // The last page was freed before.
        let found: Vec<_> = late.allocations.iter().map(|late| (late.shown.event, late.comes_before(800))).collect();
        assert_eq!(found, [(6, Some(5)), (9, Some(8))]);
    }
}
