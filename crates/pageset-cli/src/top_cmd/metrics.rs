//! A look as OpenMetrics text, for a scrape or for a file that a collector reads.

use std::fmt::Write as _;

use super::view::{CpuTraffic, HUGE, PATHS, Pageset, PathWait, View, Zone};

/// What a family has a sample of, and its value.
enum Of {
    Zone(fn(&Zone) -> Option<u64>),
    Blocks,
    Fragmentation,
    Pageset(fn(&Pageset) -> u64),
    Cpu(fn(&CpuTraffic) -> u64),
    Wait(fn(&PathWait) -> f64),
}

/// All families but the kernel's: name without the unit, unit, help.
const FAMILIES: [(&str, &str, &str, Of); 19] = [
    ("zone_managed", "pages", "Pages that the zone's allocator was given", Of::Zone(|z| Some(z.managed))),
    ("zone_free", "pages", "Pages on the zone's free lists, without the pages in pagesets", Of::Zone(|z| Some(z.free))),
    (
        "zone_min",
        "pages",
        "Min watermark with its boost; below, only urgent requests are served",
        Of::Zone(|z| Some(z.min)),
    ),
    ("zone_low", "pages", "Low watermark with its boost, below which kswapd is woken", Of::Zone(|z| Some(z.low))),
    ("zone_high", "pages", "High watermark with its boost, at which kswapd stops", Of::Zone(|z| Some(z.high))),
    ("zone_held", "pages", "Pages in the pagesets of all CPUs", Of::Zone(|z| Some(z.held))),
    ("zone_batch", "pages", "Pages that an unscaled refill or drain moves", Of::Zone(|z| Some(z.batch))),
    ("zone_high_min", "pages", "Lower bound of each pageset's high; from Linux 6.13 on", Of::Zone(|z| z.high_min)),
    ("zone_high_max", "pages", "Upper bound of each pageset's high; from Linux 6.13 on", Of::Zone(|z| z.high_max)),
    ("zone_free", "blocks", "Free blocks of the zone, by order", Of::Blocks),
    (
        "zone_fragmentation",
        "ratio",
        "Why no block is free: 0 no memory, 1 fragmentation; -1 if one is",
        Of::Fragmentation,
    ),
    ("count", "pages", "Pages that a CPU holds of a zone", Of::Pageset(|set| set.count)),
    ("high", "pages", "Pages that a CPU may keep of a zone before it drains", Of::Pageset(|set| set.high)),
    ("refill", "pages", "Pages that a CPU took from zones under the zone lock", Of::Cpu(|t| t.refill_pages)),
    ("drain", "pages", "Pages that a CPU returned from pagesets to zones", Of::Cpu(|t| t.drain_pages)),
    (
        "high_order_drain",
        "blocks",
        "Blocks of orders 1 to 3 that a CPU returned to zones",
        Of::Cpu(|t| t.high_order_drains),
    ),
    ("fallback", "blocks", "Blocks taken from another migratetype's pageblocks", Of::Cpu(|t| t.fallbacks)),
    (
        "zone_lock_wait",
        "seconds",
        "Time that a CPU waited for zone locks, by path",
        Of::Wait(|wait| wait.ns as f64 / 1e9),
    ),
    ("zone_lock", "waits", "How often a CPU waited for a zone lock, by path", Of::Wait(|wait| wait.times as f64)),
];

impl Of {
    /// The labels and the value of each sample.
    fn samples(&self, view: &View) -> Vec<(String, String)> {
        let of_zone = |zone: &Zone| format!("node=\"{}\",zone=\"{}\"", zone.node, escaped(&zone.zone));
        let (zones, traffic) = (view.zones.iter(), view.traffic.iter().flatten());
        match self {
            Of::Zone(of) => zones.filter_map(|zone| Some((of_zone(zone), of(zone)?.to_string()))).collect(),
            Of::Blocks => {
                let of_order = |zone: &Zone| {
                    let labels = of_zone(zone);
                    let blocks = zone.free_blocks.clone().unwrap_or_default().into_iter().enumerate();
                    blocks.map(move |(order, free)| (format!("{labels},order=\"{order}\""), free.to_string()))
                };
                zones.flat_map(of_order).collect()
            }
            Of::Fragmentation => {
                // As the kernel: -1 if there is a block.
                let index = |zone: &Zone| zone.fragmentation_index(HUGE).unwrap_or(-1.0).to_string();
                let known = zones.filter(|zone| zone.free_blocks.is_some());
                known.map(|zone| (format!("{},order=\"{HUGE}\"", of_zone(zone)), index(zone))).collect()
            }
            Of::Pageset(of) => {
                let sets = zones.flat_map(|zone| zone.pagesets.iter().map(move |set| (zone, set)));
                sets.map(|(zone, set)| (format!("{},cpu=\"{}\"", of_zone(zone), set.cpu), of(set).to_string()))
                    .collect()
            }
            Of::Cpu(of) => traffic.map(|cpu| (format!("cpu=\"{}\"", cpu.cpu), of(cpu).to_string())).collect(),
            Of::Wait(of) => {
                let measured = traffic.filter_map(|traffic| Some((traffic.cpu, traffic.zone_lock_waits?)));
                let paths =
                    measured.flat_map(|(cpu, waits)| PATHS.into_iter().zip(waits.paths()).map(move |p| (cpu, p)));
                let sample = |(cpu, (path, wait))| (format!("cpu=\"{cpu}\",path=\"{path}\""), of(&wait).to_string());
                paths.map(sample).collect()
            }
        }
    }
}

/// A value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The names of all metrics with their units, for `pageset explain`.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = String> {
    FAMILIES.iter().map(|(name, unit, ..)| format!("pageset_{name}_{unit}"))
}

/// The text, with the end mark that OpenMetrics requires. A family without samples is left out.
pub(super) fn text(view: &View) -> String {
    let mut text = String::new();
    for (name, unit, help, of) in &FAMILIES {
        let samples = of.samples(view);
        if samples.is_empty() {
            continue;
        }
        let name = format!("pageset_{name}_{unit}");
        let (kind, total) = if matches!(of, Of::Cpu(_) | Of::Wait(_)) { ("counter", "_total") } else { ("gauge", "") };
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}\n# UNIT {name} {unit}");
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{total}{{{labels}}} {value}");
        }
    }
    let kernel = &view.kernel;
    let _ = write!(
        text,
        "# HELP pageset_kernel The kernel, its rules for pagesets, and whether they size themselves.\n\
         # TYPE pageset_kernel info\n\
         pageset_kernel_info{{release=\"{}\",rules=\"{}\",auto_tuning=\"{}\",high_fraction=\"{}\"}} 1\n# EOF\n",
        escaped(kernel.release.as_deref().unwrap_or_default()),
        escaped(&kernel.rules),
        kernel.auto_tuning.name(),
        kernel.high_fraction.map(|fraction| fraction.to_string()).unwrap_or_default(),
    );
    text
}
