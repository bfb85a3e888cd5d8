//! A look as OpenMetrics text, for a scrape or for a file that a collector reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pageset_columns::{Column, columns};
use pageset_trace::verdict::machine::{Finding, Larger};
use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::look::Look;
use crate::view::{CpuTraffic, HUGE, PATHS, Pageset, PathWait, View, Zone};

/// The labels of a sample, and the object with its value, or the value.
type Sample = (String, Value);

/// The family that no column is.
const FRAGMENTATION: [&str; 2] =
    ["pageset_zone_fragmentation_ratio", "Why no block is free: 0 no memory, 1 fragmentation; -1 if one is."];

/// The columns of a type that are metrics.
fn metrics<T: JsonSchema>() -> impl Iterator<Item = Column> {
    columns::<T>().into_iter().filter(|column| column.path.len() == 1 && !column.metric.is_empty())
}

/// Adds the families of a type's columns.
fn families<T: JsonSchema>(kind: &str, objects: &[Sample], text: &mut String) {
    for column in metrics::<T>() {
        let of = |(labels, object): &Sample| Some((labels.clone(), column.of(object)?.clone()));
        family([&column.metric, &column.what], kind, objects.iter().filter_map(of), text);
    }
}

/// Adds a family. One without samples is left out. Lists have a sample for each order, durations are in seconds.
fn family([name, help]: [&str; 2], kind: &str, samples: impl Iterator<Item = Sample>, text: &mut String) {
    let (unit, total) = (name.rsplit('_').next().unwrap_or_default(), if kind == "counter" { "_total" } else { "" });
    let mut lines = String::new();
    let mut add = |labels: &str, value: String| lines += &format!("{name}{total}{{{labels}}} {value}\n");
    for (labels, value) in samples {
        match value {
            Value::Array(all) => {
                all.iter().enumerate().for_each(|(i, one)| add(&format!("{labels},order=\"{i}\""), one.to_string()));
            }
            Value::Number(ns) if unit == "seconds" => add(&labels, (ns.as_f64().unwrap_or(0.0) / 1e9).to_string()),
            Value::Number(number) => add(&labels, number.to_string()),
            _ => {}
        }
    }
    if !lines.is_empty() {
        let help = help.replace('\n', " ");
        *text += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n# UNIT {name} {unit}\n{lines}");
    }
}

/// A value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The names of all metrics with their units, for `pageset explain`.
pub fn names() -> impl Iterator<Item = String> {
    let of = metrics::<Zone>().chain(metrics::<Pageset>()).chain(metrics::<CpuTraffic>()).chain(metrics::<PathWait>());
    of.map(|column| column.metric).chain([FRAGMENTATION[0].to_owned()])
}

/// One look after the other as metrics. The counter of holds has what the kernel's rules add, so that its rate is at least what an agent judges by.
#[derive(Default)]
pub struct Exporter {
    before: Option<Look>,
    holds: BTreeMap<u32, f64>,
}

impl Exporter {
    /// The text of the next look. The verdict is that of an agent's last interval.
    pub fn text(&mut self, look: Look, verdict: Option<&Finding>) -> String {
        let view = View::new(&look, self.before.as_ref());
        self.before = Some(look);
        self.of_view(view, verdict)
    }

    /// The text of a view with the changes since the one before.
    pub fn of_view(&mut self, mut view: View, verdict: Option<&Finding>) -> String {
        let seconds = view.seconds().unwrap_or(0.0);
        for cpu in view.traffic.iter_mut().flatten() {
            let Some(counted) = &mut cpu.zone_lock_holds else { continue };
            let sum = self.holds.entry(cpu.cpu).or_insert(*counted as f64);
            *sum += seconds * cpu.zone_lock_holds_per_s.unwrap_or(0.0);
            *counted = *sum as u64;
        }
        text(&view, verdict)
    }
}

/// The text, with the end mark that OpenMetrics requires. The verdict is that of an agent's last interval.
pub fn text(view: &View, verdict: Option<&Finding>) -> String {
    let (mut text, traffic) = (String::new(), || view.traffic.iter().flatten());
    let of_zone = |zone: &Zone| format!("node=\"{}\",zone=\"{}\"", zone.node, escaped(&zone.zone));
    let zones: Vec<Sample> = view.zones.iter().map(|zone| (of_zone(zone), json!(zone))).collect();
    families::<Zone>("gauge", &zones, &mut text);
    let known = view.zones.iter().filter(|zone| zone.free_blocks.is_some());
    // As the kernel: -1 if there is a block.
    let index = |zone: &Zone| json!(zone.fragmentation_index(HUGE).unwrap_or(-1.0));
    let known = known.map(|zone| (format!("{},order=\"{HUGE}\"", of_zone(zone)), index(zone)));
    family(FRAGMENTATION, "gauge", known, &mut text);
    let sets = view.zones.iter().flat_map(|zone| zone.pagesets.iter().map(move |set| (zone, set)));
    let sets = sets.map(|(zone, set)| (format!("{},cpu=\"{}\"", of_zone(zone), set.cpu), json!(set)));
    families::<Pageset>("gauge", &sets.collect::<Vec<_>>(), &mut text);
    let cpus = traffic().map(|cpu| (format!("cpu=\"{}\"", cpu.cpu), json!(cpu)));
    families::<CpuTraffic>("counter", &cpus.collect::<Vec<_>>(), &mut text);
    let waits = traffic().filter_map(|traffic| Some((traffic.cpu, traffic.zone_lock_waits?)));
    let paths = waits.flat_map(|(cpu, waits)| PATHS.into_iter().zip(waits.paths()).map(move |path| (cpu, path)));
    let paths = paths.map(|(cpu, (path, wait))| (format!("cpu=\"{cpu}\",path=\"{path}\""), json!(wait)));
    families::<PathWait>("counter", &paths.collect::<Vec<_>>(), &mut text);
    let kernel = &view.kernel;
    let _ = write!(
        text,
        "# HELP pageset_kernel The kernel, its rules for pagesets, and whether they size themselves.\n\
         # TYPE pageset_kernel info\n\
         pageset_kernel_info{{release=\"{}\",rules=\"{}\",auto_tuning=\"{}\",high_fraction=\"{}\"}} 1\n",
        escaped(kernel.release.as_deref().unwrap_or_default()),
        escaped(&kernel.rules),
        kernel.auto_tuning.name(),
        kernel.high_fraction.map(|fraction| fraction.to_string()).unwrap_or_default(),
    );
    if let Some(finding) = verdict {
        let _ = write!(
            text,
            "# HELP pageset_verdict The verdict of the last interval, and the setting that may help.\n\
             # TYPE pageset_verdict info\n\
             pageset_verdict_info{{verdict=\"{}\",level=\"{}\",set=\"{}\",needs_recording=\"{}\"}} 1\n",
            finding.key(),
            json!(finding.level()).as_str().unwrap_or_default(),
            finding.set().map(Larger::text).unwrap_or_default(),
            finding.needs_recording(),
        );
    }
    text + "# EOF\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its columns are used")]
    struct Small {
        /// Pages that moved twice.
        #[schemars(extend("metric" = "pageset_twice_pages"))]
        twice: u64,
    }

    #[test]
    fn a_field_with_a_name_is_a_family() {
        let mut text = String::new();
        families::<Small>("counter", &[("cpu=\"1\"".to_owned(), json!({ "twice": 7 }))], &mut text);
        let head = "# HELP pageset_twice_pages Pages that moved twice.\n# TYPE pageset_twice_pages counter\n";
        assert_eq!(text, format!("{head}# UNIT pageset_twice_pages pages\npageset_twice_pages_total{{cpu=\"1\"}} 7\n"));
    }
}
