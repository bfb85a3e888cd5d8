//! The shown values of a look and their changes since the previous look: the same for the screen, text, JSON and
//! metrics.

use std::collections::BTreeMap;

use pageset_trace::live::{Wait, Waits, Way};
use pageset_trace::procfs::{PagesetSection, ZoneSection};
use pageset_trace::replay::setting::kernel_of;
use serde::Serialize;

use super::look::Look;

/// All that is shown, in JSON of the schema `pageset.top/1`: pages, nanoseconds, counts.
#[derive(Clone, Debug, Serialize)]
pub(super) struct View {
    schema: &'static str,
    /// `live`, or a saved file's name.
    pub(super) source: String,
    /// Since 1970; null for a saved file.
    pub(super) time_ns: Option<u64>,
    /// Since the previous look, to which all changes are relative; null for the first look and for saved files.
    pub(super) elapsed_ns: Option<u64>,
    pub(super) kernel: Kernel,
    pub(super) zones: Vec<Zone>,
    /// `bpf` or `perf`; null if refills and drains are not counted.
    pub(super) counted_by: Option<&'static str>,
    /// Null if refills and drains are not counted.
    pub(super) traffic: Option<Vec<CpuTraffic>>,
    /// The counters of [`SHOWN`] that the kernel has.
    pub(super) vmstat: Vec<Counter>,
    /// Zones and CPUs that appeared or disappeared since the previous look.
    pub(super) news: Vec<String>,
    /// The unavailable values, each with the reason.
    pub(super) missing: Vec<String>,
}

/// The rules in force.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Kernel {
    pub(super) release: Option<String>,
    /// The preset's name.
    pub(super) rules: &'static str,
    /// Whether the release is known. If not, the rules are guessed from the form of zoneinfo.
    pub(super) known: bool,
    /// Whether the kernel tunes high although its release does not. Backported memory management does that.
    pub(super) is_another: bool,
    pub(super) auto_tuning: AutoTuning,
    pub(super) high_fraction: Option<u32>,
}

/// Whether pagesets size themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AutoTuning {
    On,
    /// An administrator's fraction fixes high.
    OffByFraction,
    /// Each zone's bounds are equal, but no fraction is known.
    OffByBounds,
    /// The kernel has none: before 6.7.
    NotInKernel,
}

impl AutoTuning {
    /// For a line of text.
    pub(super) const fn text(self) -> &'static str {
        match self {
            AutoTuning::On => "auto-tuning on",
            AutoTuning::OffByFraction => "auto-tuning OFF by vm.percpu_pagelist_high_fraction",
            AutoTuning::OffByBounds => "auto-tuning off: high_min is high_max",
            AutoTuning::NotInKernel => "no auto-tuning (before 6.7)",
        }
    }

    /// As in JSON.
    pub(super) const fn name(self) -> &'static str {
        match self {
            AutoTuning::On => "on",
            AutoTuning::OffByFraction => "off-by-fraction",
            AutoTuning::OffByBounds => "off-by-bounds",
            AutoTuning::NotInKernel => "not-in-kernel",
        }
    }
}

/// A zone that has pages. Amounts in pages; changes since the previous look.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Zone {
    pub(super) node: u32,
    pub(super) zone: String,
    pub(super) managed: u64,
    pub(super) free: u64,
    pub(super) free_change: Option<i64>,
    /// With the boost in force.
    pub(super) min: u64,
    pub(super) low: u64,
    pub(super) high: u64,
    /// In all pagesets.
    pub(super) held: u64,
    pub(super) held_change: Option<i64>,
    pub(super) held_pct: f64,
    pub(super) batch: u64,
    pub(super) high_min: Option<u64>,
    pub(super) high_max: Option<u64>,
    pub(super) pagesets: Vec<Pageset>,
}

impl Zone {
    /// The lowest watermark that the free pages are below.
    pub(super) fn mark(&self) -> &'static str {
        match self.free {
            free if free < self.min => "< min",
            free if free < self.low => "< low",
            free if free < self.high => "< high",
            _ => "ok",
        }
    }

    /// `0 Normal`.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.node, self.zone)
    }
}

/// One CPU's pageset; amounts in pages.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Pageset {
    pub(super) cpu: u32,
    pub(super) count: u64,
    pub(super) change: Option<i64>,
    pub(super) high: u64,
    pub(super) high_min: Option<u64>,
    pub(super) high_max: Option<u64>,
    pub(super) batch: u64,
}

/// What a CPU has moved since counting began, and per second since the previous look.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CpuTraffic {
    pub(super) cpu: u32,
    pub(super) refill_pages: u64,
    pub(super) drain_pages: u64,
    pub(super) high_order_drains: u64,
    pub(super) fallbacks: u64,
    pub(super) refill_pages_per_s: Option<f64>,
    pub(super) drain_pages_per_s: Option<f64>,
    pub(super) high_order_drains_per_s: Option<f64>,
    pub(super) fallbacks_per_s: Option<f64>,
    /// Null if waits are not measured.
    pub(super) zone_lock_waits: Option<CpuWaits>,
}

/// How long a CPU has waited for zone locks since counting began, by path.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CpuWaits {
    pub(super) refill: PathWait,
    pub(super) drain: PathWait,
    pub(super) direct_alloc: PathWait,
    pub(super) direct_free: PathWait,
}

impl CpuWaits {
    fn new(now: &Waits, then: Option<&Waits>, seconds: Option<f64>) -> CpuWaits {
        let path = |of: fn(&Waits) -> Wait| {
            let (now, then) = (of(now), then.map(of));
            PathWait {
                times: now.times,
                ns: now.ns,
                per_s: per_s(now.times, then.map(|then| then.times), seconds),
                pct: per_s(now.ns, then.map(|then| then.ns), seconds).map(|ns_per_s| ns_per_s / 1e7),
            }
        };
        CpuWaits {
            refill: path(|waits| waits.refill),
            drain: path(|waits| waits.drain),
            direct_alloc: path(|waits| waits.direct_alloc),
            direct_free: path(|waits| waits.direct_free),
        }
    }

    /// All paths, in the order of their columns.
    pub(super) fn paths(&self) -> [PathWait; 4] {
        [self.refill, self.drain, self.direct_alloc, self.direct_free]
    }

    /// Percent of the time since the previous look.
    pub(super) fn pct(&self) -> Option<f64> {
        self.paths().iter().map(|path| path.pct).sum()
    }
}

/// Waits for zone locks on one path.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct PathWait {
    pub(super) times: u64,
    pub(super) ns: u64,
    pub(super) per_s: Option<f64>,
    /// Percent of the time since the previous look.
    pub(super) pct: Option<f64>,
}

/// A counter of the whole machine.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Counter {
    pub(super) name: &'static str,
    pub(super) value: u64,
    pub(super) per_s: Option<f64>,
}

/// The shown counters of `/proc/vmstat`. A name that ends in `_` is the sum of all counters with this prefix.
pub(super) const SHOWN: [&str; 8] = [
    "pgalloc_",
    "pgfree",
    "pgfault",
    "allocstall_",
    "pgscan_kswapd",
    "compact_stall",
    "thp_fault_alloc",
    "thp_fault_fallback",
];

impl View {
    /// The view of a look, with changes since `before`.
    pub(super) fn new(look: &Look, before: Option<&Look>) -> View {
        let instants = look.when.zip(before.and_then(|before| before.when));
        let elapsed = instants.map(|(now, then)| now.instant.duration_since(then.instant));
        let seconds = elapsed.map(|elapsed| elapsed.as_secs_f64()).filter(|seconds| *seconds > 0.0);
        let zones = look.zoneinfo.zones.iter().filter(|zone| zone.managed > 0);
        let zones: Vec<Zone> = zones
            .map(|zone| Zone::new(zone, before.and_then(|before| before.zoneinfo.zone(zone.node, &zone.name))))
            .collect();
        let mut missing = look.missing.clone();
        if zones.iter().flat_map(|zone| &zone.pagesets).any(|set| set.high_max.is_none()) {
            missing.push("this kernel does not print high_min and high_max (kernels from 6.7 on do)".to_owned());
        }
        View {
            schema: "pageset.top/1",
            source: look.source.clone(),
            time_ns: look.when.map(|when| when.unix_ns),
            elapsed_ns: elapsed.and_then(|elapsed| u64::try_from(elapsed.as_nanos()).ok()),
            kernel: Kernel::new(look, &zones),
            zones,
            counted_by: look.counted_by.map(Way::name),
            traffic: traffic(look, before, seconds),
            vmstat: vmstat(look, before, seconds),
            news: before.map(|before| news(look, before)).unwrap_or_default(),
            missing,
        }
    }

    /// What a CPU has moved, if it is counted.
    pub(super) fn traffic_of(&self, cpu: u32) -> Option<&CpuTraffic> {
        self.traffic.as_ref()?.iter().find(|traffic| traffic.cpu == cpu)
    }

    /// How long a CPU has waited for zone locks, if it is measured.
    pub(super) fn waits_of(&self, cpu: u32) -> Option<&CpuWaits> {
        self.traffic_of(cpu)?.zone_lock_waits.as_ref()
    }
}

impl Kernel {
    fn new(look: &Look, zones: &[Zone]) -> Kernel {
        let (preset, known) = kernel_of(look.release.as_deref(), look.version.as_deref(), &look.zoneinfo);
        let mut bounds = zones.iter().filter_map(|zone| zone.high_min.zip(zone.high_max)).peekable();
        let auto_tuning = if bounds.peek().is_none() {
            AutoTuning::NotInKernel
        } else if look.high_fraction.is_some_and(|fraction| fraction > 0) {
            AutoTuning::OffByFraction
        } else if bounds.all(|(min, max)| min == max) {
            AutoTuning::OffByBounds
        } else {
            AutoTuning::On
        };
        let (release, high_fraction) = (look.release.clone(), look.high_fraction);
        let is_another = known && auto_tuning != AutoTuning::NotInKernel && !preset.tuning.auto_high;
        Kernel { release, rules: preset.name, known, is_another, auto_tuning, high_fraction }
    }
}

/// The difference between now and then.
fn change(now: u64, then: u64) -> i64 {
    i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(i64::try_from(then).unwrap_or(i64::MAX))
}

fn held(zone: &ZoneSection) -> u64 {
    zone.pagesets.iter().fold(0, |sum: u64, set| sum.saturating_add(set.count))
}

impl Zone {
    fn new(now: &ZoneSection, then: Option<&ZoneSection>) -> Zone {
        // batch and the bounds belong to the zone, but the kernel prints them with each CPU.
        let first = now.pagesets.first().copied().unwrap_or_default();
        let set = |set: &PagesetSection| {
            let then = then.and_then(|zone| zone.pagesets.iter().find(|then| then.cpu == set.cpu));
            Pageset {
                cpu: set.cpu,
                count: set.count,
                change: then.map(|then| change(set.count, then.count)),
                high: set.high,
                high_min: set.high_min,
                high_max: set.high_max,
                batch: set.batch,
            }
        };
        let boosted = |mark: u64| mark.saturating_add(now.boost);
        Zone {
            node: now.node,
            zone: now.name.clone(),
            managed: now.managed,
            free: now.free,
            free_change: then.map(|then| change(now.free, then.free)),
            min: boosted(now.min),
            low: boosted(now.low),
            high: boosted(now.high),
            held: held(now),
            held_change: then.map(|then| change(held(now), held(then))),
            held_pct: 100.0 * held(now) as f64 / now.managed.max(1) as f64,
            batch: first.batch,
            high_min: first.high_min,
            high_max: first.high_max,
            pagesets: now.pagesets.iter().map(set).collect(),
        }
    }
}

fn per_s(now: u64, then: Option<u64>, seconds: Option<f64>) -> Option<f64> {
    // The counters of a CPU that was offline restart at 0. A counter that decreased has no rate.
    Some(now.checked_sub(then?)? as f64 / seconds?)
}

fn traffic(look: &Look, before: Option<&Look>, seconds: Option<f64>) -> Option<Vec<CpuTraffic>> {
    let all = look.traffic.as_ref()?.iter().map(|now| {
        let then = before.and_then(|before| before.traffic.as_ref()?.iter().find(|then| then.cpu == now.cpu));
        CpuTraffic {
            cpu: now.cpu,
            refill_pages: now.refill_pages,
            drain_pages: now.drain_pages,
            high_order_drains: now.high_order_drains,
            fallbacks: now.fallbacks,
            refill_pages_per_s: per_s(now.refill_pages, then.map(|then| then.refill_pages), seconds),
            drain_pages_per_s: per_s(now.drain_pages, then.map(|then| then.drain_pages), seconds),
            high_order_drains_per_s: per_s(now.high_order_drains, then.map(|then| then.high_order_drains), seconds),
            fallbacks_per_s: per_s(now.fallbacks, then.map(|then| then.fallbacks), seconds),
            zone_lock_waits: now
                .waits
                .as_ref()
                .map(|waits| CpuWaits::new(waits, then.and_then(|then| then.waits.as_ref()), seconds)),
        }
    });
    Some(all.collect())
}

fn vmstat(look: &Look, before: Option<&Look>, seconds: Option<f64>) -> Vec<Counter> {
    let value = |counters: &BTreeMap<String, u64>, name: &str| match name.ends_with('_') {
        false => counters.get(name).copied(),
        true => {
            let parts = counters.iter().filter(|(part, _)| part.starts_with(name)).map(|(_, value)| *value);
            parts.reduce(u64::saturating_add)
        }
    };
    let counter = |name: &'static str| {
        let now = value(&look.vmstat, name)?;
        let then = before.and_then(|before| value(&before.vmstat, name));
        Some(Counter { name: name.trim_end_matches('_'), value: now, per_s: per_s(now, then, seconds) })
    };
    SHOWN.into_iter().filter_map(counter).collect()
}

/// Zones and CPUs that appeared or disappeared.
fn news(look: &Look, before: &Look) -> Vec<String> {
    let zones = |look: &Look| {
        let zones = look.zoneinfo.zones.iter().filter(|zone| zone.managed > 0);
        zones.map(|zone| format!("zone {} of node {}", zone.name, zone.node)).collect::<Vec<_>>()
    };
    let cpus = |look: &Look| {
        let mut cpus: Vec<u32> = look.zoneinfo.zones.iter().flat_map(|z| &z.pagesets).map(|set| set.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus.into_iter().map(|cpu| format!("CPU {cpu}")).collect::<Vec<_>>()
    };
    let mut news = Vec::new();
    for (now, then) in [(zones(look), zones(before)), (cpus(look), cpus(before))] {
        news.extend(now.iter().filter(|name| !then.contains(name)).map(|name| format!("{name} appeared")));
        news.extend(then.iter().filter(|name| !now.contains(name)).map(|name| format!("{name} is gone")));
    }
    news
}
