//! A look as OpenMetrics text, for a scrape or for a file that a collector reads.

use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::view::{CpuTraffic, CpuWaits, PATHS, Pageset, View, Zone};

type Labels = Vec<(&'static str, String)>;

/// A metric's name without its unit, its help, and its value if any.
type Of<T> = (&'static str, &'static str, fn(&T) -> Option<u64>);

/// The metrics of zones.
const OF_ZONES: &[Of<Zone>] = &[
    ("pageset_zone_managed", "Pages that the zone's allocator was given", |zone| Some(zone.managed)),
    ("pageset_zone_free", "Pages on the zone's free lists, without the pages in pagesets", |zone| Some(zone.free)),
    ("pageset_zone_min", "Min watermark with its boost, below which only urgent requests are served", |zone| {
        Some(zone.min)
    }),
    ("pageset_zone_low", "Low watermark with its boost, below which kswapd is woken", |zone| Some(zone.low)),
    ("pageset_zone_high", "High watermark with its boost, at which kswapd stops", |zone| Some(zone.high)),
    ("pageset_zone_held", "Pages in the pagesets of all CPUs", |zone| Some(zone.held)),
    ("pageset_zone_batch", "Pages that an unscaled refill or drain moves", |zone| Some(zone.batch)),
    ("pageset_zone_high_min", "Lower bound of each pageset's high; from Linux 6.7 on", |zone| zone.high_min),
    ("pageset_zone_high_max", "Upper bound of each pageset's high; from Linux 6.7 on", |zone| zone.high_max),
];

/// The metrics of pagesets.
const OF_PAGESETS: &[Of<Pageset>] = &[
    ("pageset_count", "Pages that a CPU holds of a zone", |set| Some(set.count)),
    ("pageset_high", "Pages that a CPU may keep of a zone before it drains", |set| Some(set.high)),
];

/// The metrics of CPUs, each after its unit.
const OF_CPUS: &[(&str, Of<CpuTraffic>)] = &[
    ("pages", ("pageset_refill", "Pages that a CPU took from zones under the zone lock", |t| Some(t.refill_pages))),
    ("pages", ("pageset_drain", "Pages that a CPU returned from pagesets to zones", |t| Some(t.drain_pages))),
    (
        "blocks",
        ("pageset_high_order_drain", "Blocks of orders 1 to 3 that a CPU returned from pagesets to zones", |t| {
            Some(t.high_order_drains)
        }),
    ),
    ("blocks", ("pageset_fallback", "Blocks taken from another migratetype's pageblocks", |t| Some(t.fallbacks))),
];

/// The metrics of waits for zone locks: name, help.
const WAITED: (&str, &str) = ("pageset_zone_lock_wait", "Time that a CPU waited for zone locks, by path");
const WAITS: (&str, &str) = ("pageset_zone_lock", "How often a CPU waited for a zone lock, by path");

/// The names of all metrics with their units, for `pageset explain`.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = String> {
    let pages = OF_ZONES.iter().map(|m| m.0).chain(OF_PAGESETS.iter().map(|m| m.0)).map(|name| format!("{name}_pages"));
    let of_cpus = OF_CPUS.iter().map(|(unit, (name, ..))| format!("{name}_{unit}"));
    pages.chain(of_cpus).chain([format!("{}_seconds", WAITED.0), format!("{}_waits", WAITS.0)])
}

/// The text, with the end mark that OpenMetrics requires.
///
/// # Errors
/// Errors of the encoder; none is known.
pub(super) fn text(view: &View) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    let pages = || Unit::Other("pages".to_owned());
    let of_zone = |zone: &Zone| -> Labels { vec![("node", zone.node.to_string()), ("zone", zone.zone.clone())] };
    for (name, help, of) in OF_ZONES {
        let family = Family::<Labels, Gauge>::default();
        let mut any = false;
        for zone in &view.zones {
            if let Some(value) = of(zone) {
                family.get_or_create(&of_zone(zone)).set(i64::try_from(value).unwrap_or(i64::MAX));
                any = true;
            }
        }
        if any {
            registry.register_with_unit(*name, *help, pages(), family);
        }
    }
    for (name, help, of) in OF_PAGESETS {
        let family = Family::<Labels, Gauge>::default();
        for zone in &view.zones {
            for set in &zone.pagesets {
                let mut labels = of_zone(zone);
                labels.push(("cpu", set.cpu.to_string()));
                family.get_or_create(&labels).set(i64::try_from(of(set).unwrap_or(0)).unwrap_or(i64::MAX));
            }
        }
        registry.register_with_unit(*name, *help, pages(), family);
    }
    for (unit, (name, help, of)) in OF_CPUS {
        let family = Family::<Labels, Counter>::default();
        for traffic in view.traffic.iter().flatten() {
            family.get_or_create(&vec![("cpu", traffic.cpu.to_string())]).inc_by(of(traffic).unwrap_or(0));
        }
        if view.traffic.is_some() {
            registry.register_with_unit(*name, *help, Unit::Other((*unit).to_owned()), family);
        }
    }
    register_waits(&mut registry, view);
    let kernel = &view.kernel;
    let labels: Labels = vec![
        ("release", kernel.release.clone().unwrap_or_default()),
        ("rules", kernel.rules.clone()),
        ("auto_tuning", kernel.auto_tuning.name().to_owned()),
        ("high_fraction", kernel.high_fraction.map(|fraction| fraction.to_string()).unwrap_or_default()),
    ];
    registry.register(
        "pageset_kernel",
        "The kernel, its rules for pagesets, and whether they size themselves",
        Info::new(labels),
    );
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(in_order(&text))
}

/// Sorts the samples of each metric by their labels, and numbers in labels by value. The encoder keeps samples in a
/// hash map; sorted texts of two looks can be compared line by line.
fn in_order(text: &str) -> String {
    let is_head = |line: &&str| line.starts_with('#');
    let mut ordered = String::new();
    let mut lines = text.lines().peekable();
    while lines.peek().is_some() {
        let heads: Vec<&str> = std::iter::from_fn(|| lines.next_if(is_head)).collect();
        let mut samples: Vec<&str> = std::iter::from_fn(|| lines.next_if(|line| !is_head(line))).collect();
        samples.sort_by_cached_key(|sample| with_long_numbers(sample));
        for line in heads.into_iter().chain(samples) {
            ordered.push_str(line);
            ordered.push('\n');
        }
    }
    ordered
}

/// A line with its numbers padded with zeros, so that the alphabetical order is the order of the numbers.
fn with_long_numbers(line: &str) -> String {
    let of_digits = |a: &u8, b: &u8| a.is_ascii_digit() == b.is_ascii_digit();
    let parts = line.as_bytes().chunk_by(of_digits).map(String::from_utf8_lossy);
    parts
        .map(|part| if part.starts_with(|c: char| c.is_ascii_digit()) { format!("{part:0>20}") } else { part.into() })
        .collect()
}

#[test]
fn samples_are_sorted_by_their_labels() {
    let text =
        "# HELP b x\n# TYPE b gauge\nb{cpu=\"10\"} 1\nb{cpu=\"9\"} 2\nb{cpu=\"0\"} 30\n# TYPE a gauge\na 1\n# EOF\n";
    let ordered =
        "# HELP b x\n# TYPE b gauge\nb{cpu=\"0\"} 30\nb{cpu=\"9\"} 2\nb{cpu=\"10\"} 1\n# TYPE a gauge\na 1\n# EOF\n";
    assert_eq!(in_order(text), ordered);
}

/// Adds the waits of the CPUs whose waits are measured.
fn register_waits(registry: &mut Registry, view: &View) {
    let measured: Vec<(u32, &CpuWaits)> = view
        .traffic
        .iter()
        .flatten()
        .filter_map(|traffic| Some((traffic.cpu, traffic.zone_lock_waits.as_ref()?)))
        .collect();
    if measured.is_empty() {
        return;
    }
    let waited = Family::<Labels, Counter<f64, AtomicU64>>::default();
    let waits = Family::<Labels, Counter>::default();
    for (cpu, of_cpu) in measured {
        for (path, wait) in PATHS.into_iter().zip(of_cpu.paths()) {
            let labels = vec![("cpu", cpu.to_string()), ("path", path.to_owned())];
            waited.get_or_create(&labels).inc_by(wait.ns as f64 / 1e9);
            waits.get_or_create(&labels).inc_by(wait.times);
        }
    }
    registry.register_with_unit(WAITED.0, WAITED.1, Unit::Seconds, waited);
    registry.register_with_unit(WAITS.0, WAITS.1, Unit::Other("waits".to_owned()), waits);
}
