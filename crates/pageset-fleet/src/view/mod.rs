//! The shown values of a look and their changes since the previous look: the same for the screen, text, JSON and
//! metrics.
//!
//! | module | contents |
//! | --- | --- |
//! | `holds` | which holds no list avoids |
//! | `kernel` | the rules in force |
//! | `movers` | what processes and call sites have in common |
//! | `processes` | what processes move |
//! | `sites` | what call sites move |
//! | `traffic` | what CPUs move, and how long they wait |

mod holds;
mod kernel;
mod movers;
mod processes;
mod sites;
mod traffic;

use std::collections::BTreeMap;

use pageset_trace::procfs::{PagesetSection, ZoneSection, buddyinfo};
use pageset_trace::verdict::machine::{Held, Numbers, PURPOSES, Short, Wait};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::holds::HoldRules;
pub use self::kernel::{AutoTuning, Kernel};
pub use self::movers::{By, Lost, Mover, sort};
pub use self::processes::ProcessTraffic;
pub use self::sites::SiteTraffic;
pub use self::traffic::{CpuTraffic, CpuWaits, PATHS, PathTimes, PathWait, percentiles};
use self::traffic::{traffic, wait_times};
use crate::largest::largest;
use crate::look::Look;

/// The name and version of the JSON of a look.
pub const SCHEMA: &str = "pageset.top/1";

/// All that is shown, in JSON of the schema `pageset.top/1`: pages, nanoseconds, counts.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct View {
    /// The form of the JSON, with its version. Within a version the meaning of a member never changes.
    pub schema: String,
    /// The source of the figures: `live`, or the name of a saved file.
    pub source: String,
    /// The time of the look. Unit: nanoseconds since 1970; null for a saved file.
    pub time_ns: Option<u64>,
    /// The time since the previous look, to which all changes are relative; null for the first look and for saved files.
    /// Unit: nanoseconds.
    pub elapsed_ns: Option<u64>,
    /// The running kernel and its rules.
    pub kernel: Kernel,
    /// A member for each zone that has pages, with its pages, watermarks and pagesets.
    pub zones: Vec<Zone>,
    /// How refills and drains are counted: `bpf`; null if they are not counted.
    pub counted_by: Option<String>,
    /// The pages that each CPU moved between zones and pagesets; null if refills and drains are not counted.
    pub traffic: Option<Vec<CpuTraffic>>,
    /// How long waits for zone locks took: a member for each path, with the waits of all CPUs in classes of duration.
    /// Null if waits are not measured.
    #[schemars(extend("as" = "wait %"))]
    #[serde(default)]
    pub zone_lock_wait_times: Option<Vec<PathTimes>>,
    /// What processes moved since the previous look, the most pages first. Null if it is not counted: only programs in
    /// the kernel (bpf) count it.
    #[serde(default)]
    pub processes: Option<Vec<ProcessTraffic>>,
    /// Pages and waits of processes beyond the 8,192 that the kernel counts between two looks. Null if processes are
    /// not counted.
    #[schemars(extend("bad" = "Above 0 pages.", "todo" = "Look more often."))]
    #[serde(default)]
    pub processes_lost: Option<Lost>,
    /// What call sites in the kernel moved since the previous look, the most pages first; pages are estimated from
    /// samples. Null if it is not counted: only programs in the kernel (bpf) count it.
    #[serde(default)]
    pub call_sites: Option<Vec<SiteTraffic>>,
    /// Pages and waits of call chains beyond the 4,096 that the kernel counts between two looks. Null if call sites are
    /// not counted.
    #[schemars(extend("bad" = "Above 0 pages.", "todo" = "Look more often."))]
    #[serde(default)]
    pub call_sites_lost: Option<Lost>,
    /// The memory node of each CPU, by CPU number; empty if unknown.
    #[serde(default)]
    pub cpu_nodes: Vec<u32>,
    /// The counters of [`SHOWN`] that the kernel has.
    pub vmstat: Vec<Counter>,
    /// Changes since the previous look other than numbers, such as a zone that disappeared.
    pub news: Vec<String>,
    /// The values that this kernel or this user's rights do not provide, each with the reason.
    #[schemars(extend("todo" = "Each entry says how to get the value."))]
    pub missing: Vec<String>,
}

/// A zone that has pages. Amounts in pages; changes since the previous look.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Zone {
    /// The zone's memory node (NUMA).
    pub node: u32,
    /// A part of a node's memory with the same use: DMA, DMA32, Normal or Movable. Each zone has its own lock and
    /// pagesets.
    pub zone: String,
    /// Pages of the zone that belong to the allocator.
    #[schemars(extend("metric" = "pageset_zone_managed_pages", "tables" = "zones"))]
    pub managed: u64,
    /// Pages on the zone's free lists, without the pages in pagesets.
    #[schemars(extend("metric" = "pageset_zone_free_pages", "tables" = "zones",
        "bad" = "Below `high` kswapd reclaims memory and pagesets shrink at every free; below `min` allocations wait.",
        "todo" = "Free memory, or give the machine more memory."))]
    pub free: u64,
    /// Change of the zone's free pages since the previous look.
    #[schemars(extend("heading" = "free +-", "tables" = "zones"))]
    pub free_change: Option<i64>,
    /// The min watermark. Below it only urgent allocations succeed. Unit: pages.
    #[schemars(extend("metric" = "pageset_zone_min_pages", "tables" = "zones", "bad" = "free is below it.",
        "todo" = "Free memory."))]
    pub min: u64,
    /// The low watermark. Below it kswapd wakes up. From 5.14 on it also sets `high_min`: its pages divided by the
    /// node's CPUs. Unit: pages.
    #[schemars(extend("metric" = "pageset_zone_low_pages", "tables" = "zones", "bad" = "free is below it.",
        "todo" = "Free memory."))]
    pub low: u64,
    /// The high watermark, at which kswapd stops. Unit: pages.
    #[schemars(extend("metric" = "pageset_zone_high_pages", "tables" = "zones"))]
    pub high: u64,
    /// Pages of the zone that are kept from requests that may use the zone Normal: lowmem_reserve, `protection` in
    /// zoneinfo.
    #[schemars(extend("todo" = "See `pageset explain lowmem_reserve`."))]
    #[serde(default)]
    pub reserve: u64,
    /// Pages in pagesets: free, but only for the CPU that holds them.
    #[schemars(extend("metric" = "pageset_zone_held_pages", "tables" = "zones",
        "bad" = "Several percent of the zone on a machine short of memory, or nearly all on one CPU.",
        "todo" = "See the pattern hoarding-cpu."))]
    pub held: u64,
    /// Change of the pages in all pagesets of the zone since the previous look.
    #[schemars(extend("heading" = "held +-", "tables" = "zones", "bad" = "Thousands up and down in step with the load: bursts.",
        "todo" = "See the pattern exit-bursts."))]
    pub held_change: Option<i64>,
    /// The share of the zone's pages that pagesets hold.
    #[schemars(extend("heading" = "held %", "digits" = 2, "tables" = "zones", "bad" = "Several percent, on a machine short of memory.",
        "todo" = "Set vm.percpu_pagelist_high_fraction to 100 or more, which limits it. See `pageset explain \
        high_fraction`."))]
    pub held_pct: f64,
    /// Pages that an unscaled refill or drain moves: 63 for zones of 256 MiB and more (31 up to 4.18).
    #[schemars(extend("metric" = "pageset_zone_batch_pages"))]
    pub batch: u64,
    /// The lower bound of a pageset's high; printed from 6.13 on. If it equals high_max, auto-tuning is off. Unit:
    /// pages.
    #[schemars(extend("heading" = "high_min", "metric" = "pageset_zone_high_min_pages", "tables" = "zones"))]
    pub high_min: Option<u64>,
    /// The upper bound of a pageset's high: an eighth of the zone divided by its CPUs; printed from 6.13 on. Unit:
    /// pages.
    #[schemars(extend("heading" = "high_max", "metric" = "pageset_zone_high_max_pages", "tables" = "zones"))]
    pub high_max: Option<u64>,
    /// A member for each CPU's pageset of the zone.
    pub pagesets: Vec<Pageset>,
    /// The free blocks of order 0, 1, 2 and so on of a zone; a block of order 9 is a huge page.
    #[schemars(extend("metric" = "pageset_zone_free_blocks",
        "bad" = "None of order 9 and above: a huge page needs compaction.", "todo" = "See fragmentation index."))]
    #[serde(default)]
    pub free_blocks: Option<Vec<u64>>,
}

/// The order of a huge page.
pub const HUGE: usize = 9;

impl Zone {
    /// Why a block of this order cannot be had: near 0 for lack of memory, near 1 because free memory is in small
    /// blocks. `None` if there is such a block, or if free blocks are not known.
    pub fn fragmentation_index(&self, order: usize) -> Option<f64> {
        buddyinfo::fragmentation_index(self.free_blocks.as_ref()?, order)
    }

    /// Whether no CPU holds pages of the zone.
    pub fn is_idle(&self) -> bool {
        self.held == 0 && self.held_change.unwrap_or(0) == 0
    }

    /// The lowest watermark that the free pages are below, or that the reserve closes the zone to ordinary requests.
    pub fn mark(&self) -> &'static str {
        match self.free {
            free if free < self.min => "< min",
            free if free < self.low => "< low",
            free if free < self.high => "< high",
            free if self.reserve > 0 && free <= self.min.saturating_add(self.reserve) => "closed",
            _ => "ok",
        }
    }

    /// A CPU's pageset. Most zones have every CPU, in order.
    pub fn pageset_of(&self, cpu: u32) -> Option<&Pageset> {
        let guess = usize::try_from(cpu).ok().and_then(|place| self.pagesets.get(place));
        guess.filter(|set| set.cpu == cpu).or_else(|| self.pagesets.iter().find(|set| set.cpu == cpu))
    }

    /// `0 Normal`.
    pub fn name(&self) -> String {
        format!("{} {}", self.node, self.zone)
    }
}

/// One CPU's pageset of a zone; amounts in pages.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Pageset {
    /// The CPU's number.
    pub cpu: u32,
    /// Pages of the zone that the CPU holds.
    #[schemars(extend("metric" = "pageset_count_pages", "tables" = "pagesets", "bad" = "Near high_max on one CPU and near 0 on the others: \
        the CPU hoards pages. Far below high_min under load: pages travel between CPUs.",
        "todo" = "See the patterns hoarding-cpu and travelling-pages."))]
    pub count: u64,
    /// Additional pages since the previous look.
    #[schemars(extend("heading" = "count +-", "tables" = "pagesets"))]
    pub change: Option<i64>,
    /// The pages that the pageset may hold before it drains. Unit: pages.
    #[schemars(extend("metric" = "pageset_high_pages", "tables" = "pagesets",
        "bad" = "Always at high_min under load while its zone has enough free pages.",
        "todo" = "See the table in docs/guide/advice.md of loads that auto-tuning does not suit."))]
    pub high: u64,
    /// The lower bound of the pageset's high. Unit: pages.
    pub high_min: Option<u64>,
    /// The upper bound of the pageset's high. Unit: pages.
    pub high_max: Option<u64>,
    /// Pages that an unscaled refill or drain of the pageset moves.
    #[schemars(extend("tables" = "pagesets"))]
    pub batch: u64,
}

/// A counter of the whole machine.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Counter {
    /// The counter's name.
    pub name: String,
    /// The counter's value since boot.
    pub value: u64,
    /// The counter's growth per second since the previous look.
    pub per_s: Option<f64>,
}

/// The shown counters of `/proc/vmstat`. A name that ends in `_` is the sum of all counters with this prefix.
pub const SHOWN: [&str; 8] = [
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
    pub fn new(look: &Look, before: Option<&Look>) -> View {
        let instants = look.when.zip(before.and_then(|before| before.when));
        let elapsed = instants.map(|(now, then)| now.since.saturating_sub(then.since));
        let seconds = elapsed.map(|elapsed| elapsed.as_secs_f64()).filter(|seconds| *seconds > 0.0);
        let reserves = pageset_explain::reserves(&look.zoneinfo.zones);
        let zones = look.zoneinfo.zones.iter().zip(reserves).filter(|(zone, _)| zone.managed > 0);
        let zones: Vec<Zone> = zones
            .map(|(zone, reserve)| Zone {
                reserve,
                free_blocks: look.free_blocks(zone),
                ..Zone::new(zone, before.and_then(|before| before.zoneinfo.zone(zone.node, &zone.name)))
            })
            .collect();
        let mut missing = look.missing.clone();
        if zones.iter().flat_map(|zone| &zone.pagesets).any(|set| set.high_max.is_none()) {
            missing.push("this kernel does not print high_min and high_max (kernels from 6.13 on do)".to_owned());
        }
        let kernel = Kernel::new(look, &zones);
        let rules = HoldRules::new(&kernel.rules, &zones, &look.caches, look.batch_scale_max);
        let lost = |pages, wait_ns| Lost::new(pages, wait_ns, look.wait_times.is_some());
        View {
            schema: SCHEMA.to_owned(),
            source: look.source.clone(),
            time_ns: look.when.and_then(|when| when.unix_ns),
            elapsed_ns: elapsed.and_then(|elapsed| u64::try_from(elapsed.as_nanos()).ok()),
            kernel,
            zones,
            counted_by: look.counted.then(|| "bpf".to_owned()),
            traffic: traffic(look, before, seconds, &rules),
            zone_lock_wait_times: look.wait_times.as_ref().map(wait_times),
            processes: look.processes.as_ref().map(|now| processes::processes(now, &mut missing)),
            processes_lost: look.processes.as_ref().map(|now| lost(now.lost_pages, now.lost_wait_ns)),
            call_sites: look.sites.as_ref().map(|now| sites::sites(now, &mut missing)),
            call_sites_lost: look.sites.as_ref().map(|now| lost(now.lost_pages, now.lost_wait_ns)),
            cpu_nodes: look.cpu_nodes.clone(),
            vmstat: vmstat(look, before, seconds),
            news: before.map(|before| news(look, before)).unwrap_or_default(),
            missing,
        }
    }

    /// The numbers of a view that a verdict needs.
    pub fn numbers(&self) -> Numbers {
        let short = self.zones.iter().filter(|zone| zone.free < zone.low).map(|zone| {
            let is_min = zone.free < zone.min;
            Short { zone: zone.name(), free: zone.free, is_min, mark: if is_min { zone.min } else { zone.low } }
        });
        let stalls = self.vmstat.iter().find(|counter| counter.name == "allocstall");
        let wait = |traffic: &CpuTraffic| {
            let waits = traffic.zone_lock_waits.as_ref()?;
            let pct = |path: &PathWait| path.pct.unwrap_or(0.0);
            let most = PURPOSES.into_iter().zip(waits.paths()).max_by(|a, b| pct(&a.1).total_cmp(&pct(&b.1)));
            Some(Wait { cpu: traffic.cpu, percent: waits.pct()?, mostly: most.map_or("", |(purpose, _)| purpose) })
        };
        let traffic = || self.traffic.iter().flatten();
        let waits: Vec<Wait> = traffic().filter_map(wait).collect();
        let moves = traffic().filter_map(|cpu| Some((cpu.cpu, self.moves(cpu)?)));
        let moves = moves.max_by(|a, b| a.1.total_cmp(&b.1));
        Numbers {
            lists: self.kernel.lists(),
            short: short.collect(),
            stalls_per_s: stalls.and_then(|counter| counter.per_s),
            waits: (!waits.is_empty()).then_some(waits),
            held: moves.and_then(|(cpu, _)| self.held(cpu)),
            moves,
            counted: self.traffic.is_some(),
            two_looks: self.elapsed_ns.is_some(),
            saved: self.source != "live",
        }
    }

    /// How often a CPU took zone locks. Where that is not counted, its pages per batch, of which one hold may move 32.
    fn moves(&self, cpu: &CpuTraffic) -> Option<f64> {
        let batch = self.zones.iter().map(|zone| zone.batch).max().unwrap_or(0).max(1);
        cpu.zone_lock_holds_per_s.or_else(|| Some(cpu.moved()? / batch as f64))
    }

    /// What is known of the holds, of which this CPU has most.
    fn held(&self, cpu: u32) -> Option<Held> {
        // A CPU that came since the last look has no rate yet.
        let of = |of: fn(&CpuTraffic) -> Option<f64>| {
            let rates = self.traffic.iter().flatten();
            let rates = rates.filter_map(|cpu| Some((of(cpu)?, cpu.zone_lock_holds_per_s?)));
            let (some, all) = rates.reduce(|sum, rate| (sum.0 + rate.0, sum.1 + rate.1))?;
            Some(if all > 0.0 { some / all } else { 0.0 })
        };
        let unavoidable = Some(of(|cpu| cpu.least_zone_lock_holds_per_s)?);
        let with_largest = of(|cpu| cpu.zone_lock_holds_with_largest_per_s);
        Some(Held { unavoidable, with_largest, are_largest: self.are_largest(cpu) })
    }

    /// Whether the pageset of the CPU's largest zone is as large as any setting makes it: an eighth of the zone, divided by its CPUs. The
    /// decay takes an eighth at once.
    fn are_largest(&self, cpu: u32) -> bool {
        let node = self.node_of(cpu);
        let own = self.zones.iter().filter(|zone| node.is_none_or(|node| node == zone.node));
        let Some(zone) = own.max_by_key(|zone| zone.managed) else { return false };
        let cpus = zone.pagesets.iter().filter(|set| self.node_of(set.cpu).is_none_or(|of| of == zone.node)).count();
        let largest = zone.high_max.unwrap_or(largest(zone.managed, cpus));
        zone.pageset_of(cpu).is_some_and(|set| largest > 0 && 8 * u128::from(set.high) >= 7 * u128::from(largest))
    }

    /// The time since the previous look, if there was one.
    pub fn seconds(&self) -> Option<f64> {
        self.elapsed_ns.filter(|elapsed| *elapsed > 0).map(|elapsed| elapsed as f64 / 1e9)
    }

    /// What a CPU has moved, if it is counted.
    pub fn traffic_of(&self, cpu: u32) -> Option<&CpuTraffic> {
        let all = self.traffic.as_ref()?;
        all.binary_search_by_key(&cpu, |traffic| traffic.cpu).ok().map(|place| &all[place])
    }

    /// The memory node of a CPU, if it is known.
    pub fn node_of(&self, cpu: u32) -> Option<u32> {
        self.cpu_nodes.get(usize::try_from(cpu).ok()?).copied()
    }

    /// How long a CPU has waited for zone locks, if it is measured.
    pub fn waits_of(&self, cpu: u32) -> Option<&CpuWaits> {
        self.traffic_of(cpu)?.zone_lock_waits.as_ref()
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
        Zone {
            node: now.node,
            zone: now.name.clone(),
            managed: now.managed,
            free: now.free,
            free_change: then.map(|then| change(now.free, then.free)),
            min: now.min,
            low: now.low,
            high: now.high,
            reserve: 0,
            held: held(now),
            held_change: then.map(|then| change(held(now), held(then))),
            held_pct: 100.0 * held(now) as f64 / now.managed.max(1) as f64,
            batch: first.batch,
            high_min: first.high_min,
            high_max: first.high_max,
            pagesets: now.pagesets.iter().map(set).collect(),
            free_blocks: None,
        }
    }
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
        Some(Counter { name: name.trim_end_matches('_').to_owned(), value: now, per_s: per_s(now, then, seconds) })
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

/// How much a counter grows in a second. A counter that decreased has no rate: those of a CPU that was off-line restart at 0.
fn per_s(now: u64, then: Option<u64>, seconds: Option<f64>) -> Option<f64> {
    Some(now.checked_sub(then?)? as f64 / seconds?)
}
