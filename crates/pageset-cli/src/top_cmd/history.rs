//! The recent looks in compact form: what sparklines, medians and percentiles need.

use std::collections::VecDeque;
use std::rc::Rc;

use super::view::{CpuWaits, Mover, PathTimes, ProcessTraffic, SiteTraffic, View, percentiles};

/// The number of looks that are kept: five minutes at one look a second. A guess.
pub(super) const KEPT: usize = 300;

/// A measure of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    /// Pages in the CPU's pageset of a zone.
    Held,
    /// The high of that pageset. No map shows it.
    High,
    /// Pages refilled per second, in all zones.
    Refills,
    /// Pages drained per second, in all zones.
    Drains,
    /// Percent of the time that the CPU waited for zone locks.
    Waits,
}

/// One look.
struct Moment {
    elapsed_s: f64,
    /// Sorted; shared by consecutive looks at the same CPUs.
    cpus: Rc<[u32]>,
    refills: Box<[f32]>,
    drains: Box<[f32]>,
    waits: Box<[f32]>,
    zones: Vec<OfZone>,
    wait_times: Option<Vec<PathTimes>>,
}

/// The pagesets of a zone, by place of the CPU. NaN stands for no value, here and in [`Moment`].
struct OfZone {
    name: String,
    counts: Box<[f32]>,
    highs: Box<[f32]>,
}

/// The last [`KEPT`] looks.
#[derive(Default)]
pub(super) struct History {
    moments: VecDeque<Moment>,
    pub(super) processes: Smooth<ProcessTraffic>,
    pub(super) sites: Smooth<SiteTraffic>,
}

/// The time over which processes and call sites are added up, so that rows do not jump. Unit: seconds.
const SMOOTH_S: f64 = 10.0;

/// Processes or call sites of the looks of the last [`SMOOTH_S`].
pub(super) struct Smooth<T> {
    /// The time of each look, and what moved in it.
    looks: VecDeque<(f64, Vec<T>)>,
    /// The sums over the looks; `None` if the last look counted none.
    pub(super) all: Option<Vec<T>>,
    /// The time that the sums are of; `None` without two looks.
    pub(super) seconds: Option<f64>,
}

impl<T> Default for Smooth<T> {
    fn default() -> Self {
        Smooth { looks: VecDeque::new(), all: None, seconds: None }
    }
}

impl<T: Mover + Clone> Smooth<T> {
    fn push(&mut self, seconds: Option<f64>, movers: Option<&Vec<T>>) {
        let Some(movers) = movers else { return *self = Smooth::default() };
        // What the first look has is from an unknown time before.
        let Some(seconds) = seconds else {
            return *self = Smooth { all: Some(movers.clone()), ..Smooth::default() };
        };
        self.looks.push_back((seconds, movers.clone()));
        let mut covered: f64 = self.looks.iter().map(|(seconds, _)| seconds).sum();
        while let Some((first, _)) = self.looks.front().filter(|_| covered > SMOOTH_S && self.looks.len() > 1) {
            covered -= first;
            self.looks.pop_front();
        }
        let mut sums: Vec<T> = self.looks.iter().flat_map(|(_, movers)| movers).cloned().collect();
        sums.sort_by(|a, b| a.name().cmp(&b.name()));
        sums.dedup_by(|next, sum| {
            let same = sum.name() == next.name();
            if same {
                sum.add(next);
            }
            same
        });
        sums.retain(|mover| mover.pages_in() > 0 || mover.pages_out() > 0 || mover.wait_ns().unwrap_or(0) > 0);
        (self.all, self.seconds) = (Some(sums), Some(covered));
    }
}

impl History {
    /// Adds the next look.
    pub(super) fn push(&mut self, view: &View) {
        let seconds = view.seconds();
        self.processes.push(seconds, view.processes.as_ref());
        self.sites.push(seconds, view.call_sites.as_ref());
        let mut cpus: Vec<u32> = view.traffic.iter().flatten().map(|traffic| traffic.cpu).collect();
        cpus.extend(view.zones.iter().flat_map(|zone| &zone.pagesets).map(|set| set.cpu));
        cpus.sort_unstable();
        cpus.dedup();
        let same = self.moments.back().map(|last| &last.cpus).filter(|last| last[..] == cpus[..]);
        let cpus = same.map_or_else(|| cpus.into(), Rc::clone);
        let none = || vec![f32::NAN; cpus.len()].into_boxed_slice();
        let (mut refills, mut drains, mut waits) = (none(), none(), none());
        let place = |cpu: u32| cpus.binary_search(&cpu).expect("the list has every CPU of the view");
        let value = |value: Option<f64>| value.map_or(f32::NAN, |value| value as f32);
        for traffic in view.traffic.iter().flatten() {
            let place = place(traffic.cpu);
            [refills[place], drains[place]] = traffic.rates().map(value);
            waits[place] = value(traffic.zone_lock_waits.as_ref().and_then(CpuWaits::pct));
        }
        let zones = view.zones.iter().map(|zone| {
            let (mut counts, mut highs) = (none(), none());
            for set in &zone.pagesets {
                (counts[place(set.cpu)], highs[place(set.cpu)]) = (set.count as f32, set.high as f32);
            }
            OfZone { name: zone.name(), counts, highs }
        });
        let zones = zones.collect();
        let elapsed_s = seconds.unwrap_or(0.0);
        let wait_times = view.zone_lock_wait_times.clone();
        if self.moments.len() == KEPT {
            self.moments.pop_front();
        }
        self.moments.push_back(Moment { elapsed_s, cpus, refills, drains, waits, zones, wait_times });
    }

    pub(super) fn len(&self) -> usize {
        self.moments.len()
    }

    /// The time that the kept looks cover. Unit: seconds.
    pub(super) fn seconds(&self) -> f64 {
        // The first look's changes are from before.
        self.moments.iter().skip(1).map(|moment| moment.elapsed_s).sum()
    }

    /// The last `most` values of a CPU, the oldest first; `None` where there is no value.
    pub(super) fn values(&self, zone: &str, cpu: u32, of: Measure, most: usize) -> Vec<Option<f32>> {
        let first = self.moments.len().saturating_sub(most);
        self.moments.range(first..).map(|moment| moment.value(zone, cpu, of)).collect()
    }

    /// The last `most` sums over all CPUs; `None` where no CPU has a value.
    pub(super) fn sums(&self, of: Measure, most: usize) -> Vec<Option<f32>> {
        let first = self.moments.len().saturating_sub(most);
        let sum = |moment: &Moment| {
            let values = moment.all("", of)?.iter().copied().filter(|value| value.is_finite());
            values.reduce(|sum, value| sum + value)
        };
        self.moments.range(first..).map(sum).collect()
    }

    /// The age of each of the last `most` looks, the oldest first; `None` if the times are not known. Unit: seconds.
    pub(super) fn ages(&self, most: usize) -> Option<Vec<f64>> {
        let first = self.moments.len().saturating_sub(most);
        let mut age = 0.0;
        let mut ages: Vec<f64> = Vec::new();
        for moment in self.moments.range(first..).rev() {
            ages.push(age);
            age += moment.elapsed_s;
        }
        ages.reverse();
        (age > 0.0).then_some(ages)
    }

    /// The median of a CPU's values before the last look, if there are at least `least`.
    pub(super) fn median_before(&self, zone: &str, cpu: u32, of: Measure, least: usize) -> Option<f32> {
        let before = self.moments.len().saturating_sub(1);
        let mut values: Vec<f32> =
            self.moments.range(..before).filter_map(|moment| moment.value(zone, cpu, of)).collect();
        if values.len() < least.max(1) {
            return None;
        }
        let middle = values.len() / 2;
        Some(*values.select_nth_unstable_by(middle, f32::total_cmp).1)
    }

    /// The largest of the last `most` values of all CPUs.
    pub(super) fn largest(&self, zone: &str, of: Measure, most: usize) -> f32 {
        let first = self.moments.len().saturating_sub(most);
        let values = self.moments.range(first..).filter_map(|moment| moment.all(zone, of));
        values.flatten().copied().filter(|value| value.is_finite()).fold(0.0, f32::max)
    }

    /// The percentiles 50, 90 and 99 of the waits on a path during the kept looks. Unit: nanoseconds.
    pub(super) fn wait_percentiles(&self, path: &str) -> Option<[f64; 3]> {
        let now = self.moments.back()?.wait_times.as_ref()?;
        let then =
            self.moments.front().filter(|_| self.moments.len() > 1).and_then(|first| first.wait_times.as_deref());
        percentiles(now, then, path)
    }
}

impl Moment {
    fn all(&self, zone: &str, of: Measure) -> Option<&[f32]> {
        let of_zone = || self.zones.iter().find(|of| of.name == zone);
        match of {
            Measure::Held => of_zone().map(|of| &of.counts[..]),
            Measure::High => of_zone().map(|of| &of.highs[..]),
            Measure::Refills => Some(&self.refills),
            Measure::Drains => Some(&self.drains),
            Measure::Waits => Some(&self.waits),
        }
    }

    fn value(&self, zone: &str, cpu: u32, of: Measure) -> Option<f32> {
        let place = self.cpus.binary_search(&cpu).ok()?;
        self.all(zone, of)?.get(place).copied().filter(|value| value.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::view;
    use super::*;

    #[test]
    fn the_last_looks_are_kept() {
        let mut history = History::default();
        let mut changing = view(3);
        for look in 0..KEPT + 5 {
            changing.traffic.as_mut().unwrap()[1].refill_pages_per_s = Some(look as f64);
            history.push(&changing);
        }
        assert_eq!(history.len(), KEPT);
        let last = history.values("0 Normal", 1, Measure::Refills, 2);
        assert_eq!(last, [Some((KEPT + 3) as f32), Some((KEPT + 4) as f32)]);
        assert_eq!(history.values("0 Normal", 7, Measure::Held, 1), [None], "no such CPU");
        assert_eq!(history.values("9 Normal", 1, Measure::Held, 1), [None], "no such zone");
        // Looks 5 to 303 come before the last one.
        assert_eq!(history.median_before("", 1, Measure::Refills, 10), Some(154.0));
        assert_eq!(history.median_before("", 1, Measure::Refills, KEPT), None);
        assert_eq!(history.largest("0 Normal", Measure::Refills, 1), 9450.0, "CPU 2");
        assert!((history.seconds() - 2.0 * (KEPT - 1) as f64).abs() < 1e-6);
    }

    /// Processes and call sites are sums over ten seconds: a row stays although its process rests for a look, and leaves
    /// after ten seconds without a page.
    #[test]
    fn movers_are_smoothed() {
        let mut history = History::default();
        let mut quiet = view(2);
        quiet.processes.as_mut().unwrap().retain(|process| process.pid == 777);
        let seen = |history: &History, pid| {
            let all = history.processes.all.as_ref().unwrap();
            let pages = all.iter().find(|process| process.pid == pid).map(|process| process.pages_in);
            (pages, history.processes.seconds.unwrap().round())
        };
        history.push(&view(2));
        assert_eq!(seen(&history, 4242), (Some(1_800_000), 2.0));
        (0..4).for_each(|_| history.push(&quiet));
        assert_eq!((seen(&history, 4242), seen(&history, 777)), ((Some(1_800_000), 10.0), (Some(630_000), 10.0)));
        history.push(&quiet);
        assert_eq!((seen(&history, 4242), seen(&history, 777)), ((None, 10.0), (Some(630_000), 10.0)));
        assert_eq!(history.ages(3), Some(vec![4.0, 2.0, 0.0]));
        let sums = history.sums(Measure::Refills, 1);
        assert_eq!(sums, [Some(9450.0)]);
        quiet.processes = None;
        history.push(&quiet);
        assert!(history.processes.all.is_none());
    }

    #[test]
    fn cpus_may_come_and_go() {
        let mut history = History::default();
        [2, 4, 3].into_iter().for_each(|cpus| history.push(&view(cpus)));
        let values = history.values("0 Normal", 3, Measure::High, 10);
        assert_eq!(values, [None, Some(2000.0), None]);
    }
}
