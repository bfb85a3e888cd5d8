//! What is unusual now. Pure: a view and its history in, findings, sentences and marks out.

use std::collections::{BTreeMap, BTreeSet};

use pageset_trace::verdict::machine::{Finding, Level, WAIT_PERCENT, judge, others};

use super::figures::rate;
use super::history::{History, Measure};
use super::view::{CpuTraffic, CpuWaits, View};

/// A CPU that refills or drains this many times its median is unusual. A guess: ten times is no noise.
const RATE_FACTOR: f64 = 10.0;
/// Smaller rates are never unusual: 1 % of what a CPU can refill. A guess. Unit: pages per second.
const RATE_LEAST: f64 = 10_000.0;
/// The looks before which no rate is unusual, because its median is not known. A guess.
const LEAST_LOOKS: usize = 10;
/// How many CPUs that only refill or drain are compared: those with the largest rates.
const PAIRS: usize = 16;
/// The largest ratio of two rates that belong together. A guess: pages wait in pagesets between the two.
const NEAR: f64 = 1.25;

/// What is unusual, the most important first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Unusual {
    /// The verdict comes first.
    pub(super) findings: Vec<Finding>,
    /// What differs from before: sentences without a full stop.
    pub(super) sentences: Vec<String>,
    /// The zones below their low watermark, by place in the view, and whether they are below min.
    pub(super) zones: BTreeMap<usize, bool>,
    pub(super) cpus: BTreeSet<(u32, Measure)>,
}

/// The verdict on a view, and what else was found.
pub(super) fn findings(view: &View) -> Vec<Finding> {
    judge(&view.numbers())
}

impl Unusual {
    /// What is unusual in the last look of `history`, which is `view`.
    pub(super) fn of(view: &View, history: &History) -> Unusual {
        let mut unusual = Unusual { findings: findings(view), ..Unusual::default() };
        let zones = view.zones.iter().enumerate().filter(|(_, zone)| zone.free < zone.low);
        unusual.zones = zones.map(|(place, zone)| (place, zone.free < zone.min)).collect();
        let waits = |traffic: &&CpuTraffic| {
            let pct = traffic.zone_lock_waits.as_ref().and_then(CpuWaits::pct);
            pct.is_some_and(|pct| pct >= WAIT_PERCENT)
        };
        let waiting = view.traffic.iter().flatten().filter(waits);
        unusual.cpus.extend(waiting.map(|traffic| (traffic.cpu, Measure::Waits)));
        unusual.rates(view, history, Measure::Refills);
        unusual.rates(view, history, Measure::Drains);
        unusual.pairs(view);
        unusual.sentences.extend(view.news.iter().cloned());
        unusual
    }

    /// All sentences, the verdict first, each in parts.
    pub(super) fn lines(&self) -> Vec<(Level, Vec<String>)> {
        let found = self.findings.iter().map(|finding| (finding.level(), finding.parts()));
        found.chain(self.sentences.iter().map(|text| (Level::Unusual, vec![text.clone()]))).collect()
    }

    /// Whether this CPU has an unusual measure.
    pub(super) fn has(&self, cpu: u32) -> bool {
        self.cpus.range((cpu, Measure::Held)..=(cpu, Measure::Waits)).next().is_some()
    }

    fn rates(&mut self, view: &View, history: &History, of: Measure) {
        let mut all: Vec<(u32, f64, f64)> = Vec::new();
        for traffic in view.traffic.iter().flatten() {
            let [refills, drains] = traffic.rates();
            let now = if of == Measure::Refills { refills } else { drains };
            let Some(now) = now.filter(|now| *now >= RATE_LEAST) else { continue };
            let Some(median) = history.median_before("", traffic.cpu, of, LEAST_LOOKS) else { continue };
            // A median of 0 would make every rate unusual.
            let times = now / f64::from(median).max(RATE_LEAST / RATE_FACTOR);
            if times >= RATE_FACTOR {
                all.push((traffic.cpu, now, times));
            }
        }
        self.cpus.extend(all.iter().map(|(cpu, ..)| (*cpu, of)));
        let Some((cpu, now, times)) = all.iter().max_by(|a, b| a.2.total_cmp(&b.2)) else { return };
        let verb = if of == Measure::Refills { "refills" } else { "drains" };
        let (now, times) = (rate(Some(*now)), rate(Some(*times)));
        let others = others(all.len());
        self.sentences.push(format!("CPU {cpu} {verb} {now} pages per second, {times} times its usual rate{others}"));
    }

    /// A CPU that only refills, and one that only drains as many pages: pages are freed on another CPU than the one
    /// that allocates them, so pagesets do not help.
    fn pairs(&mut self, view: &View) {
        let rates = |traffic: &CpuTraffic| {
            let [refills, drains] = traffic.rates();
            Some((traffic.cpu, refills?, drains?))
        };
        let all: Vec<(u32, f64, f64)> = view.traffic.iter().flatten().filter_map(rates).collect();
        let one_sided = |side: fn(&(u32, f64, f64)) -> (f64, f64)| {
            let only = all.iter().filter(|cpu| {
                let (much, little) = side(cpu);
                much >= RATE_LEAST && little * RATE_FACTOR <= much
            });
            let mut only: Vec<(u32, f64)> = only.map(|cpu| (cpu.0, side(cpu).0)).collect();
            only.sort_by(|a, b| b.1.total_cmp(&a.1));
            only.truncate(PAIRS);
            only
        };
        let (from, to) = (one_sided(|cpu| (cpu.1, cpu.2)), one_sided(|cpu| (cpu.2, cpu.1)));
        let pairs = from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to)));
        let mut near = pairs.filter(|(from, to)| (1.0 / NEAR..=NEAR).contains(&(from.1 / to.1)));
        if let Some(((from, refills), (to, drains))) = near.next() {
            let (refills, drains) = (rate(Some(refills)), rate(Some(drains)));
            self.sentences.push(format!(
                "CPU {from} only refills ({refills} pages per second), and CPU {to} only drains ({drains})"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::view;
    use super::super::view::Counter;
    use super::*;

    /// A view in which nothing is unusual.
    fn calm() -> View {
        let mut view = view(4);
        for traffic in view.traffic.as_mut().unwrap() {
            (traffic.refill_pages_per_s, traffic.drain_pages_per_s) = (Some(2000.0), Some(1900.0));
            traffic.zone_lock_waits = None;
        }
        view
    }

    /// The sentences after twenty calm looks and one changed look.
    fn said(change: &dyn Fn(&mut View)) -> (Vec<String>, Unusual) {
        let (mut history, mut now) = (History::default(), calm());
        (0..20).for_each(|_| history.push(&now));
        change(&mut now);
        history.push(&now);
        let unusual = Unusual::of(&now, &history);
        let line = |(level, parts): (Level, Vec<String>)| {
            let mark = if level == Level::Severe { "!" } else { "" };
            format!("{mark}{}", parts[0])
        };
        let healthy = |(level, _): &(Level, Vec<String>)| *level != Level::Healthy;
        (unusual.lines().into_iter().filter(healthy).map(line).collect(), unusual)
    }

    fn traffic(view: &mut View, cpu: usize, refills: f64, drains: f64) {
        let traffic = &mut view.traffic.as_mut().unwrap()[cpu];
        (traffic.refill_pages_per_s, traffic.drain_pages_per_s) = (Some(refills), Some(drains));
    }

    fn waits(into: &mut View, cpu: usize, refill: f64, drain: f64) {
        let mut waits = *view(4).waits_of(1).unwrap();
        (waits.refill.pct, waits.drain.pct) = (Some(refill), Some(drain));
        (waits.direct_alloc.pct, waits.direct_free.pct) = (Some(0.0), Some(0.0));
        into.traffic.as_mut().unwrap()[cpu].zone_lock_waits = Some(waits);
    }

    type Case = (&'static [&'static str], &'static dyn Fn(&mut View));

    #[test]
    fn sentences() {
        let cases: &[Case] = &[
            (&[], &|_| {}),
            (&["zone 0 Normal is below low: 19,000 of 19,512 pages are free"], &|v| v.zones[1].free = 19_000),
            (&["!zone 0 Normal is below min: 7 of 15,625 pages are free"], &|v| v.zones[1].free = 7),
            // At a watermark is not below it.
            (&[], &|v| v.zones[1].free = v.zones[1].low),
            (&["!allocations wait for direct reclaim: 12 a second"], &|v| {
                v.vmstat.push(Counter { name: "allocstall".to_owned(), value: 90, per_s: Some(12.0) });
            }),
            (&["CPU 2 waits 6 % of its time for zone locks"], &|v| waits(v, 2, 1.5, 5.0)),
            (&["!CPU 3 waits 20 % of its time for zone locks"], &|v| {
                waits(v, 1, 5.0, 0.0);
                waits(v, 3, 19.0, 1.0);
            }),
            (&[], &|v| waits(v, 2, 2.5, 2.4)),
            (&["CPU 1 refills 20,000 pages per second, 10 times its usual rate"], &|v| {
                traffic(v, 1, 20_000.0, 15_000.0)
            }),
            (&[], &|v| traffic(v, 1, 19_000.0, 18_900.0)),
            (&["CPU 0 refills 50,000 pages per second, 25 times its usual rate; 3 other CPUs too"], &|v| {
                (0..4).for_each(|cpu| traffic(v, cpu, 50_000.0 - cpu as f64, 9000.0));
            }),
            (
                &[
                    "CPU 1 refills 30,000 pages per second, 15 times its usual rate",
                    "CPU 3 drains 29,000 pages per second, 15 times its usual rate",
                    "CPU 1 only refills (30,000 pages per second), and CPU 3 only drains (29,000)",
                ],
                &|v| {
                    traffic(v, 1, 30_000.0, 0.0);
                    traffic(v, 3, 10.0, 29_000.0);
                },
            ),
            (&["CPU 9 appeared"], &|v| v.news.push("CPU 9 appeared".to_owned())),
            // Severe first.
            (&["!zone 0 DMA is below min: 0 of 15 pages are free", "CPU 9 appeared"], &|v| {
                v.news.push("CPU 9 appeared".to_owned());
                v.zones[0].free = 0;
            }),
        ];
        for (expected, change) in cases {
            assert_eq!(said(change).0, *expected);
        }
    }

    #[test]
    fn marks() {
        let (_, unusual) = said(&|v| {
            traffic(v, 1, 20_000.0, 19_500.0);
            waits(v, 2, 9.0, 0.0);
            v.zones[1].free = 19_000;
        });
        assert!(unusual.has(1) && unusual.has(2) && !unusual.has(0) && !unusual.has(3));
        let marks = [(1, Measure::Refills), (1, Measure::Drains), (2, Measure::Waits)];
        assert_eq!(unusual.cpus, BTreeSet::from(marks));
        assert_eq!(unusual.zones, BTreeMap::from([(1, false)]));
    }

    /// Without enough looks no rate is unusual.
    #[test]
    fn a_short_history_knows_no_usual_rate() {
        let (mut history, mut now) = (History::default(), calm());
        (0..LEAST_LOOKS - 1).for_each(|_| history.push(&now));
        traffic(&mut now, 1, 900_000.0, 890_000.0);
        history.push(&now);
        let unusual = Unusual::of(&now, &history);
        assert!(unusual.sentences.is_empty() && unusual.cpus.is_empty(), "{unusual:?}");
    }
}
