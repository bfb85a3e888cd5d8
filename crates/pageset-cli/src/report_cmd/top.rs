//! The sections of the output of `pageset top --json`.

use pageset_trace::verdict::machine::Wait;
use serde_json::Value;

use super::Report;
use super::card::looks::{Looks, looks};
use super::draw::Joined;
use super::sections::{Point, Series, lines, map};

fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str, String> {
    value[name].as_str().ok_or_else(|| format!("missing text `{name}`"))
}

fn number(value: &Value, name: &str) -> Result<f64, String> {
    value[name].as_f64().ok_or_else(|| format!("missing number `{name}`"))
}

fn list<'v>(value: &'v Value, name: &str) -> Result<&'v [Value], String> {
    value[name].as_array().map(Vec::as_slice).ok_or_else(|| format!("missing list `{name}`"))
}

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

/// Reports on looks.
pub(crate) fn top(values: &[Value]) -> Result<Report, String> {
    let time = |value: &Value| value["time_ns"].as_u64();
    let begin = values.iter().filter_map(time).min();
    let mut all = Top::default();
    let mut seen = Looks { looks: values.len(), ..Looks::default() };
    for (place, value) in values.iter().enumerate() {
        // Saved copies have no time; their index replaces it.
        let at = time(value).zip(begin).map_or(place as f64, |(time, begin)| (time - begin) as f64 / 1e9);
        seen.seconds = seen.seconds.max(at);
        zones(value, at, &mut all, &mut seen)?;
        traffic(value, at, &mut all, &mut seen)?;
        for missing in value["missing"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !seen.missing.iter().any(|other| other == missing) {
                seen.missing.push(missing.to_owned());
            }
        }
    }
    let kernel = &values[0]["kernel"];
    let release = kernel["release"].as_str().unwrap_or("unknown");
    let facts = vec![format!(
        "Kernel {release}, rules {}, auto-tuning {}.",
        text(kernel, "rules")?,
        text(kernel, "auto_tuning")?
    )];
    let title = format!("Pagesets over {} looks", values.len());
    Ok(Report { title, cards: vec![looks(&seen)], facts, sections: all.sections(seen.seconds) })
}

/// Adds the zones of a look.
fn zones(value: &Value, at: f64, all: &mut Top, seen: &mut Looks) -> Result<(), String> {
    let (mut held, mut managed) = (0.0, 0.0);
    let mut by_cpu = std::collections::BTreeMap::new();
    for zone in list(value, "zones")? {
        let name = format!("{} {}", number(zone, "node")?, text(zone, "zone")?);
        held += number(zone, "held")?;
        managed += zone["managed"].as_f64().unwrap_or(0.0);
        all.held.entry(name.clone()).or_default().push((at, number(zone, "held")?));
        for set in list(zone, "pagesets")? {
            let (cpu, count) = (number(set, "cpu")?, number(set, "count")?);
            let name = format!("CPU {cpu}, {name}");
            *by_cpu.entry(cpu as u32).or_insert(0.0) += count;
            all.counts.entry(name.clone()).or_default().push((at, count));
            all.highs.entry(name).or_default().push((at, number(set, "high")?));
        }
    }
    all.held_by_cpu.extend(by_cpu.into_iter().map(|(cpu, count)| (cpu, at, count)));
    seen.held_max = seen.held_max.max(held);
    seen.managed = seen.managed.max(managed);
    Ok(())
}

/// Adds the refills, drains and waits of a look.
fn traffic(value: &Value, at: f64, all: &mut Top, seen: &mut Looks) -> Result<(), String> {
    let batch = list(value, "zones")?.iter().filter_map(|zone| zone["batch"].as_f64()).reduce(f64::max);
    let mut moved = None;
    for traffic in value["traffic"].as_array().into_iter().flatten() {
        let cpu = number(traffic, "cpu")?;
        let name = format!("CPU {cpu}");
        let mut of_cpu = None;
        let mut rate = |series: &mut Series, of: &str| {
            if let Some(rate) = traffic[of].as_f64() {
                *of_cpu.get_or_insert(0.0) += rate;
                series.entry(name.clone()).or_default().push((at, rate));
            }
        };
        rate(&mut all.refills, "refill_pages_per_s");
        rate(&mut all.drains, "drain_pages_per_s");
        if let Some(pages) = of_cpu {
            *moved.get_or_insert(0.0) += pages;
            let moves = batch.map_or(0.0, |batch| pages / batch.max(1.0));
            if seen.moves_max.is_none_or(|(_, most)| moves > most) {
                seen.moves_max = Some((cpu as u32, moves));
            }
        }
        // None in the first look, without measurement, and without the member.
        let paths = [
            ("refill", "to refill"),
            ("drain", "to drain"),
            ("direct_alloc", "to allocate directly"),
            ("direct_free", "to free directly"),
        ];
        let waits: Option<Vec<f64>> =
            paths.iter().map(|(path, _)| traffic["zone_lock_waits"][path]["pct"].as_f64()).collect();
        if let Some(waits) = waits {
            let percent: f64 = waits.iter().sum();
            all.waits.entry(name.clone()).or_default().push((at, percent));
            all.waits_by_cpu.push((cpu as u32, at, percent));
            if seen.wait_max.as_ref().is_none_or(|wait| percent > wait.percent) {
                let most = waits.iter().zip(paths).max_by(|a, b| a.0.total_cmp(b.0));
                let mostly = most.map_or("", |(_, (_, purpose))| purpose);
                seen.wait_max = Some(Wait { cpu: cpu as u32, percent, mostly });
            }
        }
    }
    if let Some(moved) = moved {
        seen.pages_per_s_max = Some(seen.pages_per_s_max.map_or(moved, |most: f64| most.max(moved)));
    }
    Ok(())
}

impl Top {
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
