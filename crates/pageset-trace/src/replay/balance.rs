//! Compares each pageset's count from the events with the snapshots. Missing pages were allocated without an event.
//!
//! Specification: `linux-page-allocator.md` 8.4 "Balance for one PCP", `trace-replay.md` 3a.

use std::collections::HashMap;

use pageset::CpuId;

use super::setting::ZoneState;

/// The counts of all pagesets from the events, and their difference from each snapshot.
#[derive(Debug)]
pub(super) struct Balance {
    cpus: usize,
    /// Counts by zone, then CPU. Allocations without an event make them too high. Unit: pages.
    pages: Vec<i64>,
    /// `pages` at the begin of the current snapshot.
    before: Vec<i64>,
    gaps: Vec<Gap>,
}

/// At one snapshot, the minimum number of excess pages of each pageset.
#[derive(Debug)]
struct Gap {
    event: u64,
    pages: Vec<i64>,
}

impl Balance {
    pub(super) fn new(zones: usize, cpus: usize) -> Self {
        Balance { cpus, pages: vec![0; zones * cpus], before: Vec::new(), gaps: Vec::new() }
    }

    /// Starts with the counts of the first snapshot.
    pub(super) fn begin<'s>(&mut self, zones: impl Iterator<Item = &'s ZoneState>) {
        self.pages = self.counts(zones);
    }

    fn counts<'s>(&self, zones: impl Iterator<Item = &'s ZoneState>) -> Vec<i64> {
        let of = |zone: &ZoneState, cpu: usize| zone.pagesets.get(cpu).map_or(0, |p| p.count.min(1 << 40) as i64);
        zones.flat_map(|zone| (0..self.cpus).map(move |cpu| of(zone, cpu))).collect()
    }

    /// The pages of a pageset, by the events. Allocations without an event make the number too high.
    pub(super) fn pages(&self, zone: usize, cpu: CpuId) -> i64 {
        self.pages[zone * self.cpus + cpu.0 as usize]
    }

    /// Adds pages to a pageset; a negative number removes pages.
    pub(super) fn add(&mut self, zone: usize, cpu: CpuId, pages: i64) {
        self.pages[zone * self.cpus + cpu.0 as usize] += pages;
    }

    /// Notes that the recorder begins to read a snapshot.
    pub(super) fn snapshot_begins(&mut self) {
        self.before.clone_from(&self.pages);
    }

    /// Compares the counts with a snapshot. The recorder read the snapshot at an unknown moment since its begin, so
    /// only the smaller of the two differences is certain.
    pub(super) fn snapshot_ends(&mut self, event: u64, zones: &[ZoneState]) {
        let counts = self.counts(zones.iter());
        let before = if self.before.len() == counts.len() { &self.before } else { &self.pages };
        let certain = self.pages.iter().zip(before).zip(counts).map(|((now, before), count)| now.min(before) - count);
        self.gaps.push(Gap { event, pages: certain.collect() });
    }

    /// Pages of each pageset that were allocated without an event, except the `known` allocations (by event and pages).
    /// Returns zone, CPU, the event before which they were allocated, and pages. A difference that a later snapshot
    /// does not confirm was an effect of timing.
    pub(super) fn unseen(&self, known: &HashMap<(usize, CpuId), Vec<(u64, u64)>>) -> Vec<(usize, CpuId, u64, u64)> {
        let mut found = Vec::new();
        for pageset in 0..self.pages.len() {
            let (zone, cpu) = (pageset / self.cpus, CpuId((pageset % self.cpus) as u32));
            let known = known.get(&(zone, cpu)).map_or(&[][..], Vec::as_slice);
            let by =
                |event: u64| known.iter().filter(|(e, _)| *e <= event).map(|(_, pages)| *pages as i64).sum::<i64>();
            let mut certain: Vec<i64> = self.gaps.iter().map(|gap| gap.pages[pageset] - by(gap.event)).collect();
            for at in (1..certain.len()).rev() {
                certain[at - 1] = certain[at - 1].min(certain[at]);
            }
            let (mut last, mut since) = (0, self.gaps.first().map_or(0, |gap| gap.event));
            for (gap, certain) in self.gaps.iter().zip(certain) {
                if certain > last {
                    found.push((zone, cpu, since.midpoint(gap.event), (certain - last) as u64));
                    last = certain;
                }
                since = gap.event;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::setting::PagesetSnapshot;
    use super::*;

    fn shows(count: u64) -> [ZoneState; 1] {
        [ZoneState { pagesets: vec![PagesetSnapshot { count, high: 0 }], ..ZoneState::default() }]
    }

    /// One pageset that begins with 100 pages, and a snapshot with each of `counts`.
    fn unseen(counts: &[u64], known: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut balance = Balance::new(1, 1);
        balance.begin(shows(100).iter());
        for (event, &count) in counts.iter().enumerate() {
            balance.snapshot_begins();
            balance.snapshot_ends(10 * event as u64, &shows(count));
        }
        let known = HashMap::from([((0, CpuId(0)), known.to_vec())]);
        balance.unseen(&known).into_iter().map(|(_, _, event, pages)| (event, pages)).collect()
    }

    #[test]
    fn pages_missing_in_later_snapshots_are_unseen_allocations() {
        assert_eq!(unseen(&[100, 100, 96, 96, 95], &[]), [(15, 4), (35, 1)]);
        assert_eq!(unseen(&[100, 100, 96, 96, 95], &[(12, 4)]), [(35, 1)], "the four pages are known");
        assert_eq!(unseen(&[100, 60, 100, 100], &[]), [], "an effect of timing");
        assert_eq!(unseen(&[100, 110, 120], &[]), [], "pages freed without an event are ignored");
    }

    #[test]
    fn a_free_during_a_snapshot_is_no_difference() {
        let mut balance = Balance::new(1, 1);
        balance.begin(shows(100).iter());
        balance.snapshot_begins();
        balance.add(0, CpuId(0), 30);
        balance.snapshot_ends(5, &shows(100));
        assert_eq!(balance.unseen(&HashMap::new()), []);
    }
}
