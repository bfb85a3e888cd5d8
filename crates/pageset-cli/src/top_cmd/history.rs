//! The recent looks in compact form: what sparklines, medians and percentiles need.

use std::collections::VecDeque;
use std::rc::Rc;

use super::view::{CpuWaits, PathTimes, View, percentiles};

/// The number of looks that are kept: five minutes at one look a second. A guess.
pub(super) const KEPT: usize = 300;

/// A measure of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    /// Pages in the CPU's pageset of a zone.
    Held,
    /// The high of that pageset.
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
pub(super) struct History(VecDeque<Moment>);

impl History {
    /// Adds the next look.
    pub(super) fn push(&mut self, view: &View) {
        let mut cpus: Vec<u32> = view.traffic.iter().flatten().map(|traffic| traffic.cpu).collect();
        cpus.extend(view.zones.iter().flat_map(|zone| &zone.pagesets).map(|set| set.cpu));
        cpus.sort_unstable();
        cpus.dedup();
        let same = self.0.back().map(|last| &last.cpus).filter(|last| last[..] == cpus[..]);
        let cpus = same.map_or_else(|| cpus.into(), Rc::clone);
        let none = || vec![f32::NAN; cpus.len()].into_boxed_slice();
        let (mut refills, mut drains, mut waits) = (none(), none(), none());
        let place = |cpu: u32| cpus.binary_search(&cpu).expect("the list has every CPU of the view");
        let value = |value: Option<f64>| value.map_or(f32::NAN, |value| value as f32);
        for traffic in view.traffic.iter().flatten() {
            let place = place(traffic.cpu);
            refills[place] = value(traffic.refill_pages_per_s);
            drains[place] = value(traffic.drain_pages_per_s);
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
        let elapsed_s = view.elapsed_ns.map_or(0.0, |ns| ns as f64 / 1e9);
        let wait_times = view.zone_lock_wait_times.clone();
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Moment { elapsed_s, cpus, refills, drains, waits, zones, wait_times });
    }

    /// The number of kept looks.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The time that the kept looks cover. Unit: seconds.
    pub(super) fn seconds(&self) -> f64 {
        // The first look's changes are from before.
        self.0.iter().skip(1).map(|moment| moment.elapsed_s).sum()
    }

    /// The last `most` values of a CPU, the oldest first; `None` where there is no value.
    pub(super) fn values(&self, zone: &str, cpu: u32, of: Measure, most: usize) -> Vec<Option<f32>> {
        let first = self.0.len().saturating_sub(most);
        self.0.range(first..).map(|moment| moment.value(zone, cpu, of)).collect()
    }

    /// The median of a CPU's values before the last look, if there are at least `least`.
    pub(super) fn median_before(&self, zone: &str, cpu: u32, of: Measure, least: usize) -> Option<f32> {
        let before = self.0.len().saturating_sub(1);
        let mut values: Vec<f32> = self.0.range(..before).filter_map(|moment| moment.value(zone, cpu, of)).collect();
        if values.len() < least.max(1) {
            return None;
        }
        let middle = values.len() / 2;
        Some(*values.select_nth_unstable_by(middle, f32::total_cmp).1)
    }

    /// The largest of the last `most` values of all CPUs.
    pub(super) fn largest(&self, zone: &str, of: Measure, most: usize) -> f32 {
        let first = self.0.len().saturating_sub(most);
        let values = self.0.range(first..).filter_map(|moment| moment.all(zone, of));
        values.flatten().copied().filter(|value| value.is_finite()).fold(0.0, f32::max)
    }

    /// The percentiles 50, 90 and 99 of the waits on a path during the kept looks. Unit: nanoseconds.
    pub(super) fn wait_percentiles(&self, path: &str) -> Option<[f64; 3]> {
        let now = self.0.back()?.wait_times.as_ref()?;
        let then = self.0.front().filter(|_| self.0.len() > 1).and_then(|first| first.wait_times.as_deref());
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

    #[test]
    fn cpus_may_come_and_go() {
        let mut history = History::default();
        [2, 4, 3].into_iter().for_each(|cpus| history.push(&view(cpus)));
        let values = history.values("0 Normal", 3, Measure::High, 10);
        assert_eq!(values, [None, Some(2000.0), None]);
    }
}
