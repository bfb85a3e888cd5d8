//! The sections of the output of `pageset top --json`.

use std::collections::BTreeMap;

use pageset_fleet::view::{CpuWaits, View, Zone};
use pageset_report::kinds::typed;
use pageset_trace::verdict::machine::judge;
use serde_json::Value;

use super::Report;
use super::card::looks::{Looks, looks};
use super::draw::Joined;
use super::sections::{Point, Series, lines, map};

/// The values of all looks over time.
#[derive(Default)]
struct Top {
    held: Series,
    counts: Series,
    highs: Series,
    refills: Series,
    drains: Series,
    waits: Series,
    /// Pages held, by CPU, all zones together.
    held_by_cpu: Vec<Point>,
    waits_by_cpu: Vec<Point>,
}

pub(crate) fn top(values: &[Value]) -> Result<Report, String> {
    let views = values.iter().map(typed).collect::<Result<Vec<View>, String>>()?;
    let begin = views.iter().filter_map(|view| view.time_ns).min();
    let mut all = Top::default();
    let mut seen = Looks { looks: views.len(), ..Looks::default() };
    for (place, view) in views.iter().enumerate() {
        // Saved copies have no time; their index replaces it.
        let at = view.time_ns.zip(begin).map_or(place as f64, |(time, begin)| (time - begin) as f64 / 1e9);
        seen.seconds = seen.seconds.max(at);
        all.add_zones(view, at, &mut seen);
        all.add_traffic(view, at, &mut seen);
        seen.judged(judge(&view.numbers()).swap_remove(0));
        for missing in &view.missing {
            if !seen.missing.contains(missing) {
                seen.missing.push(missing.clone());
            }
        }
    }
    let kernel = &views[0].kernel;
    let release = kernel.release.as_deref().unwrap_or("unknown");
    let facts = vec![format!("Kernel {release}, rules {}, auto-tuning {}.", kernel.rules, kernel.auto_tuning.name())];
    let title = format!("Pagesets over {} looks", views.len());
    Ok(Report { title, cards: vec![looks(&seen)], facts, sections: all.sections(seen.seconds) })
}

impl Top {
    fn add_zones(&mut self, view: &View, at: f64, seen: &mut Looks) {
        let mut by_cpu = BTreeMap::new();
        for zone in &view.zones {
            self.held.entry(zone.name()).or_default().push((at, zone.held as f64));
            for set in &zone.pagesets {
                let name = format!("CPU {}, {}", set.cpu, zone.name());
                *by_cpu.entry(set.cpu).or_insert(0.0) += set.count as f64;
                self.counts.entry(name.clone()).or_default().push((at, set.count as f64));
                self.highs.entry(name).or_default().push((at, set.high as f64));
            }
        }
        self.held_by_cpu.extend(by_cpu.into_iter().map(|(cpu, count)| (cpu, at, count)));
        let sum = |of: fn(&Zone) -> u64| view.zones.iter().map(|zone| of(zone) as f64).sum();
        seen.held_max = seen.held_max.max(sum(|zone| zone.held));
        seen.managed = seen.managed.max(sum(|zone| zone.managed));
    }

    fn add_traffic(&mut self, view: &View, at: f64, seen: &mut Looks) {
        let mut moved = None;
        for traffic in view.traffic.iter().flatten() {
            let name = format!("CPU {}", traffic.cpu);
            for (series, rate) in [&mut self.refills, &mut self.drains].into_iter().zip(traffic.rates()) {
                if let Some(rate) = rate {
                    *moved.get_or_insert(0.0) += rate;
                    series.entry(name.clone()).or_default().push((at, rate));
                }
            }
            // None in the first look, and without measurement.
            if let Some(percent) = traffic.zone_lock_waits.as_ref().and_then(CpuWaits::pct) {
                self.waits.entry(name).or_default().push((at, percent));
                self.waits_by_cpu.push((traffic.cpu, at, percent));
                seen.wait_max = Some(seen.wait_max.map_or(percent, |most: f64| most.max(percent)));
            }
        }
        if let Some(moved) = moved {
            seen.pages_per_s_max = Some(seen.pages_per_s_max.map_or(moved, |most: f64| most.max(moved)));
        }
    }

    fn sections(self, seconds: f64) -> Vec<super::Section> {
        let mut sections = vec![
            lines("How many pages do pagesets hold?".to_owned(), "", "pages", self.held, Series::new()),
            lines(
                "How many pages does each CPU's pageset hold, and what is its limit?".to_owned(),
                "Dashed: high, the limit.",
                "pages",
                self.counts,
                self.highs,
            ),
        ];
        for (question, unit, series) in [
            ("How many pages do refills take?", "pages/s", self.refills),
            ("How many pages do drains return?", "pages/s", self.drains),
            ("How much of its time does each CPU wait for zone locks?", "percent", self.waits),
        ] {
            if !series.is_empty() {
                sections.push(lines(question.to_owned(), "", unit, series, Series::new()));
            }
        }
        for (question, unit, points) in [
            ("Which CPUs hold pages, and when?", "pages", self.held_by_cpu),
            ("Which CPUs wait for zone locks, and when?", "percent of the time", self.waits_by_cpu),
        ] {
            sections.extend(map(question, "", unit, &points, seconds, Joined::Largest));
        }
        sections
    }
}
