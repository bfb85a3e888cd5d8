//! What each pageset should hold by the events, against what the snapshots say it held: the difference was taken
//! without an event.
//!
//! Specification: `linux-page-allocator.md` 8.4 "Balance for one PCP", `trace-replay.md` 3a.

use std::collections::HashMap;

use pageset::CpuId;

use super::setting::ZoneState;

/// The pages of all pagesets by the events, and how far they were off at each snapshot.
#[derive(Debug)]
pub(super) struct Balance {
    cpus: usize,
    /// By zone, then CPU. Pages taken unseen make it too high.
    pages: Vec<i64>,
    /// The same as it was when the snapshot that is under way began.
    before: Vec<i64>,
    gaps: Vec<Gap>,
}

/// At one snapshot: at least so many pages too many, by pageset.
#[derive(Debug)]
struct Gap {
    event: u64,
    pages: Vec<i64>,
}

impl Balance {
    pub(super) fn new(zones: usize, cpus: usize) -> Self {
        Balance { cpus, pages: vec![0; zones * cpus], before: Vec::new(), gaps: Vec::new() }
    }

    /// The replay begins with what the first snapshot shows.
    pub(super) fn begin<'s>(&mut self, zones: impl Iterator<Item = &'s ZoneState>) {
        self.pages = self.counts(zones);
    }

    fn counts<'s>(&self, zones: impl Iterator<Item = &'s ZoneState>) -> Vec<i64> {
        let of = |zone: &ZoneState, cpu: usize| zone.pagesets.get(cpu).map_or(0, |p| p.count.min(1 << 40) as i64);
        zones.flat_map(|zone| (0..self.cpus).map(move |cpu| of(zone, cpu))).collect()
    }

    /// Pages entered a pageset, or left it where negative.
    pub(super) fn add(&mut self, zone: usize, cpu: CpuId, pages: i64) {
        self.pages[zone * self.cpus + cpu.0 as usize] += pages;
    }

    /// A snapshot is about to be read.
    pub(super) fn snapshot_begins(&mut self) {
        self.before.clone_from(&self.pages);
    }

    /// A snapshot has been read, at some moment since it began: the smaller of the two differences is sure.
    pub(super) fn snapshot_ends(&mut self, event: u64, zones: &[ZoneState]) {
        let counts = self.counts(zones.iter());
        let before = if self.before.len() == counts.len() { &self.before } else { &self.pages };
        let sure = self.pages.iter().zip(before).zip(counts).map(|((now, before), count)| now.min(before) - count);
        self.gaps.push(Gap { event, pages: sure.collect() });
    }

    /// Pages of each pageset that were taken without an event, beyond those that are `known` to be (by event and
    /// pages): the event before which they were gone, and how many. A difference that a later snapshot does not
    /// confirm was a matter of time.
    pub(super) fn unseen(&self, known: &HashMap<(usize, CpuId), Vec<(u64, u64)>>) -> Vec<(usize, CpuId, u64, u64)> {
        let mut found = Vec::new();
        for pageset in 0..self.pages.len() {
            let (zone, cpu) = (pageset / self.cpus, CpuId((pageset % self.cpus) as u32));
            let known = known.get(&(zone, cpu)).map_or(&[][..], Vec::as_slice);
            let by =
                |event: u64| known.iter().filter(|(e, _)| *e <= event).map(|(_, pages)| *pages as i64).sum::<i64>();
            let mut sure: Vec<i64> = self.gaps.iter().map(|gap| gap.pages[pageset] - by(gap.event)).collect();
            for at in (1..sure.len()).rev() {
                sure[at - 1] = sure[at - 1].min(sure[at]);
            }
            let (mut last, mut since) = (0, self.gaps.first().map_or(0, |gap| gap.event));
            for (gap, sure) in self.gaps.iter().zip(sure) {
                if sure > last {
                    found.push((zone, cpu, since.midpoint(gap.event), (sure - last) as u64));
                    last = sure;
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

    /// One pageset that begins with 100 pages; at each event a snapshot that shows so many.
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
    fn what_the_snapshots_lack_was_taken() {
        assert_eq!(unseen(&[100, 100, 96, 96, 95], &[]), [(15, 4), (35, 1)]);
        assert_eq!(unseen(&[100, 100, 96, 96, 95], &[(12, 4)]), [(35, 1)], "the four are known");
        assert_eq!(unseen(&[100, 60, 100, 100], &[]), [], "a matter of time");
        assert_eq!(unseen(&[100, 110, 120], &[]), [], "pages that came unseen are left alone");
    }

    #[test]
    fn a_snapshot_is_read_at_some_moment_since_it_began() {
        let mut balance = Balance::new(1, 1);
        balance.begin(shows(100).iter());
        balance.snapshot_begins();
        balance.add(0, CpuId(0), 30);
        balance.snapshot_ends(5, &shows(100));
        assert_eq!(balance.unseen(&HashMap::new()), []);
    }
}
