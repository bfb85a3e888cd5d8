//! The counters of a zone on each CPU. A tick that finds one of them changed restarts the countdown to the drain of another
//! node's pages.
//!
//! A CPU adds its own changes of a zone's counters, and the tick adds their sum to the zone. A sum beyond a threshold is added at
//! once, which leaves 0. Free pages change when a pageset is refilled or drained, and by blocks that no pageset keeps; the counts of
//! reclaimable pages change for pages of processes and files. Allocations and frees of other pages within a pageset change no
//! counter. Specification: `linux-page-allocator.md` 8.2.

use pageset::{CpuId, Order};

use super::setting::Setting;

/// The largest threshold. Source: `vm stats threshold` in the recordings' zoneinfo.
const THRESHOLD_MAX: u32 = 125;

/// The changes of one zone's counters on one CPU since the last tick, in pages.
#[derive(Clone, Debug, Default)]
struct Changes {
    free: u32,
    lru: u32,
    /// The recorded changes of the kernel's other counters, by its numbers for them.
    recorded: Vec<(u8, i32)>,
}

/// The changes of all zones on all CPUs of other nodes.
#[derive(Debug)]
pub(super) struct ZoneCounters {
    cpus: usize,
    /// By zone.
    thresholds: Vec<u32>,
    /// By zone, then CPU; `None` for a zone of the CPU's own node.
    changes: Vec<Option<Changes>>,
    /// Whether a refill of single pages changes the count of free pages once for each page, as kernels from 6.10 on. Larger blocks
    /// change it one by one in all kernels: on 6.1 with a threshold of 18, 15 blocks of order 1 are a change, and three of order 3 none.
    by_block: bool,
    /// Whether the recording shows the changes that `mod_zone_page_state` makes, but those of free pages. Else allocations and frees of
    /// pages of processes and files stand for them.
    are_recorded: bool,
}

impl ZoneCounters {
    pub(super) fn new(setting: &Setting) -> Self {
        let bits = |number: u64| u64::BITS - number.leading_zeros();
        let cpus = setting.cpus.len();
        // A zone's size in units of 128 MiB, for pages of 4 KiB.
        let threshold = |managed: u64| (2 * bits(cpus as u64) * (1 + bits(managed >> 15))).min(THRESHOLD_MAX);
        let pairs = setting.zones.iter().flat_map(|zone| setting.cpus.iter().map(|node| *node != zone.node));
        ZoneCounters {
            cpus,
            thresholds: setting.zones.iter().map(|zone| threshold(zone.start.managed)).collect(),
            changes: pairs.map(|is_remote| is_remote.then(Changes::default)).collect(),
            by_block: setting.kernel_tuning().type_at_drain,
            are_recorded: setting.counters_recorded,
        }
    }

    fn of(&mut self, zone: usize, cpu: CpuId) -> Option<&mut Changes> {
        let cpu = cpu.0 as usize;
        if cpu >= self.cpus { None } else { self.changes[zone * self.cpus + cpu].as_mut() }
    }

    /// Whether the counters of a zone matter on this CPU.
    pub(super) fn counts(&mut self, zone: usize, cpu: CpuId) -> bool {
        self.of(zone, cpu).is_some()
    }

    /// Notes that a block of a process or a file came or went.
    pub(super) fn change_lru(&mut self, zone: usize, cpu: CpuId, order: Order) {
        let threshold = self.thresholds[zone];
        if self.are_recorded {
            return;
        }
        if let Some(changes) = self.of(zone, cpu) {
            add(&mut changes.lru, order.pages() as u32, threshold);
        }
    }

    /// Notes a recorded change of a counter of the kernel.
    pub(super) fn change_recorded(&mut self, zone: usize, cpu: CpuId, counter: u8, change: i32) {
        let threshold = self.thresholds[zone];
        let Some(Changes { recorded, .. }) = self.of(zone, cpu) else { return };
        let at = recorded.iter().position(|(of, _)| *of == counter).unwrap_or_else(|| {
            recorded.push((counter, 0));
            recorded.len() - 1
        });
        let sum = recorded[at].1.saturating_add(change);
        recorded[at].1 = if sum.unsigned_abs() > threshold { 0 } else { sum };
    }

    /// Notes that the zone's free pages changed, by a refill of blocks of an order or otherwise.
    pub(super) fn change_free(&mut self, zone: usize, cpu: CpuId, before: u64, after: u64, refill: Option<Order>) {
        let (threshold, pages) = (self.thresholds[zone], u32::try_from(before.abs_diff(after)).unwrap_or(u32::MAX));
        // Huge pages move as they are; most other drained blocks are single pages.
        let is_huge = pages.is_multiple_of(Order::PAGEBLOCK.pages() as u32);
        let at_once = is_huge || refill == Some(Order::ZERO) && !self.by_block;
        let block = if at_once { pages } else { refill.map_or(1, |order| order.pages() as u32) };
        let Some(changes) = self.of(zone, cpu) else { return };
        for _ in 0..pages / block.max(1) {
            add(&mut changes.free, block, threshold);
        }
    }

    /// Notes that a drain ended with a huge page, which is beyond the threshold: the sum goes to the zone's counter with it.
    pub(super) fn end_with_huge(&mut self, zone: usize, cpu: CpuId) {
        if let Some(changes) = self.of(zone, cpu) {
            changes.free = 0;
        }
    }

    /// Whether a counter has changed since the last tick; `None` for a zone of the CPU's own node.
    pub(super) fn tick(&mut self, zone: usize, cpu: CpuId) -> Option<bool> {
        let changes = std::mem::take(self.of(zone, cpu)?);
        Some(changes.free != 0 || changes.lru != 0 || changes.recorded.iter().any(|(_, sum)| *sum != 0))
    }
}

/// Adds a change. A sum beyond the threshold goes to the zone's counter at once.
fn add(sum: &mut u32, pages: u32, threshold: u32) {
    *sum = sum.saturating_add(pages);
    if *sum > threshold {
        *sum = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_beyond_the_threshold_leaves_nothing() {
        let after = |changes: &[u32]| {
            let mut sum = 0;
            changes.iter().for_each(|pages| add(&mut sum, *pages, 30));
            sum
        };
        assert_eq!([after(&[30]), after(&[31]), after(&[30, 1]), after(&[30, 1, 1]), after(&[512])], [30, 0, 0, 1, 0]);
    }

    /// Refills on 6.1 with three nodes, `stress-ng --fork` and sqlite: a tick after the first restarted the countdown.
    #[test]
    fn blocks_of_a_refill_change_the_count_one_by_one() {
        let changed = |order: u8, blocks: u64, by_block: bool| {
            let changes = vec![Some(Changes::default())];
            let mut counters = ZoneCounters { cpus: 1, thresholds: vec![18], changes, by_block, are_recorded: false };
            let order = Order::new(order).unwrap();
            counters.change_free(0, CpuId(0), 1000, 1000 - (blocks << order.get()), Some(order));
            counters.tick(0, CpuId(0)) == Some(true)
        };
        assert_eq!([changed(1, 15, false), changed(3, 3, false)], [true, false]);
        assert_eq!([changed(0, 31, false), changed(0, 31, true), changed(0, 38, true)], [false, true, false]);
    }

    /// Recorded changes count by sign and counter, and stand for the guess by pages of processes.
    #[test]
    fn recorded_changes_of_a_counter_may_cancel() {
        let mut counters = ZoneCounters {
            cpus: 1,
            thresholds: vec![18],
            changes: vec![Some(Changes::default())],
            by_block: true,
            are_recorded: true,
        };
        let mut tick = |changes: &[(u8, i32)]| {
            counters.change_lru(0, CpuId(0), Order::ZERO);
            changes.iter().for_each(|(counter, change)| counters.change_recorded(0, CpuId(0), *counter, *change));
            counters.tick(0, CpuId(0))
        };
        assert_eq!([tick(&[]), tick(&[(1, 3), (1, -3)]), tick(&[(3, 19)]), tick(&[(3, -19)])], [Some(false); 4]);
        assert_eq!([tick(&[(1, 3), (2, -3)]), tick(&[(3, 18)]), tick(&[(3, 19), (3, 1)])], [Some(true); 3]);
    }

    /// CPU 0 and a zone of another node, and one of its own.
    #[test]
    fn a_drain_is_a_change_unless_it_is_of_whole_thresholds() {
        let mut counters = ZoneCounters {
            cpus: 1,
            thresholds: vec![30, 30],
            changes: vec![Some(Changes::default()), None],
            by_block: true,
            are_recorded: false,
        };
        let mut tick = |change: &dyn Fn(&mut ZoneCounters)| {
            change(&mut counters);
            counters.tick(0, CpuId(0))
        };
        assert_eq!(tick(&|_| {}), Some(false));
        assert_eq!(tick(&|all| all.change_free(0, CpuId(0), 100, 163, None)), Some(true));
        assert_eq!(tick(&|all| all.change_free(0, CpuId(0), 100, 131, None)), Some(false), "31 pages, threshold 30");
        assert_eq!(
            tick(&|all| all.change_free(0, CpuId(0), 2000, 976, Some(Order::PAGEBLOCK))),
            Some(false),
            "two huge pages"
        );
        let three_and_a_huge_page = |all: &mut ZoneCounters| {
            all.change_free(0, CpuId(0), 100, 618, None);
            all.end_with_huge(0, CpuId(0));
        };
        assert_eq!(tick(&three_and_a_huge_page), Some(false), "518 pages, the huge one last");
        assert_eq!(tick(&|all| all.change_lru(0, CpuId(0), Order::ZERO)), Some(true));
        assert_eq!(tick(&|_| {}), Some(false), "a tick starts anew");
        assert_eq!(counters.tick(1, CpuId(0)), None, "the CPU's own node");
    }
}
