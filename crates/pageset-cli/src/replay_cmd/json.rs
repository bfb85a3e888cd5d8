//! A report as JSON of the schema `pageset.replay/1`: pages, nanoseconds, counts, percent.

use std::collections::BTreeSet;

use pageset::tuning::Tuning;
use pageset_rules::described;
use pageset_trace::Facts;
use pageset_trace::replay::agreement::agrees;
use pageset_trace::replay::{Borrowed, Near, Totals};
use serde::{Serialize, Serializer};

use super::check::Checked;
use super::measure::{Amounts, Report, Row, differs_pct};

/// The schema's name and version.
const SCHEMA: &str = "pageset.replay/1";

/// One recording's result; the fields stand in this order.
#[derive(Serialize)]
pub(super) struct Document<'r> {
    schema: &'static str,
    /// `input` or `reconstructed`: what the replays of the named rules were allowed to use.
    level: &'static str,
    /// Whose refills and drains are counted; null where all are.
    only: Option<Counted>,
    trace: Recording<'r>,
    kernel: Kernel<'r>,
    /// The named rules at the level; after them the kernel's by the input alone.
    rules: Vec<Rules<'r>>,
    /// Nothing unless it was asked for.
    check: Option<Check<'r>>,
    /// What weakens every result.
    warnings: Vec<String>,
}

/// Conditions on what is counted.
#[derive(Serialize)]
struct Counted {
    conditions: Vec<String>,
    selected_operations: u64,
    unlisted_operations: u64,
}

#[derive(Serialize)]
struct Recording<'r> {
    name: &'r str,
    form: &'static str,
    events: u64,
    replayed_events: u64,
    operations: u64,
    duration_ns: u64,
    cpus: usize,
    nodes: usize,
    zones: Vec<Zone<'r>>,
    facts: &'r Facts,
    found: Found,
}

/// A zone as the replay begins; amounts in pages.
#[derive(Serialize)]
struct Zone<'r> {
    node: u32,
    name: &'r str,
    managed: u64,
    free: u64,
    held: u64,
    watermark_min: u64,
    watermark_low: u64,
    watermark_high: u64,
    batch: u32,
    high_min: u32,
    high_max: u32,
}

/// What was counted in the recording beside refills and drains.
#[derive(Serialize)]
struct Found {
    failed: u64,
    ticks: u64,
    fallbacks: u64,
    reclaims: u64,
    bulk_allocs: u64,
    direct_allocs: u64,
    direct_frees: u64,
    remote_drains: u64,
    foreign: u64,
    surprises: u64,
    markers: u64,
}

#[derive(Serialize)]
struct Kernel<'r> {
    /// Its rules' name.
    rules: &'static str,
    /// Whether the recording tells, or they are guessed.
    known: bool,
    #[serde(flatten)]
    amounts: Sums,
    pagesets: Vec<Pageset<'r>>,
}

#[derive(Serialize)]
struct Sums {
    refills: u64,
    refill_pages: u64,
    drains: u64,
    drain_pages: u64,
}

/// By how much refills and drains differ from the kernel's, in percent; null where it has none to differ from.
#[derive(Serialize)]
struct Differences {
    refills_diff_pct: Option<f64>,
    refill_pages_diff_pct: Option<f64>,
    drains_diff_pct: Option<f64>,
    drain_pages_diff_pct: Option<f64>,
}

/// The share of the kernel's refills and drains that the replay makes near the same place, in percent, and that of a
/// replay which makes as many at places drawn by chance; null where the kernel made none.
#[derive(Serialize)]
struct Nearness {
    refills_near_pct: Option<f64>,
    refills_near_by_chance_pct: Option<f64>,
    drains_near_pct: Option<f64>,
    drains_near_by_chance_pct: Option<f64>,
}

impl Nearness {
    fn new(refills: Option<Near>, drains: Option<Near>) -> Self {
        Nearness {
            refills_near_pct: refills.map(|near| near.pct),
            refills_near_by_chance_pct: refills.map(|near| near.chance_pct),
            drains_near_pct: drains.map(|near| near.pct),
            drains_near_by_chance_pct: drains.map(|near| near.chance_pct),
        }
    }
}

/// What the replay took from the kernel's own moves and from later snapshots: [`Borrowed`].
#[derive(Serialize)]
struct TakenFromKernel {
    start_lists: u64,
    start_counters: u64,
    drain_requests: u64,
    inferred_allocs: u64,
    moved_allocs: u64,
    direct_frees: u64,
    later_snapshots: u64,
}

fn borrowed(from: Borrowed) -> TakenFromKernel {
    TakenFromKernel {
        start_lists: from.start_lists,
        start_counters: from.start_counters,
        drain_requests: from.drain_requests,
        inferred_allocs: from.inferred_allocs,
        moved_allocs: from.moved_allocs,
        direct_frees: from.direct_frees,
        later_snapshots: from.snapshots,
    }
}

#[derive(Serialize)]
struct Rules<'r> {
    name: &'r str,
    level: &'static str,
    is_kernel: bool,
    #[serde(flatten)]
    amounts: Sums,
    #[serde(flatten)]
    differences: Differences,
    #[serde(flatten)]
    near: Nearness,
    /// The share of what the kernel and the replay move that both move near the same place, in percent.
    explained_pct: f64,
    /// Whether all four quantities are within the limits of `--check`.
    agrees: bool,
    taken_from_kernel: TakenFromKernel,
    zone_lock_acquisitions: u64,
    zone_lock_acquisitions_per_1000_operations: f64,
    held_pages_max: u64,
    operations: u64,
    failed: u64,
    below_min: u64,
    unseen_allocs: u64,
    lost_frees: u64,
    refused_frees: u64,
    #[serde(serialize_with = "tuning")]
    tuning: &'r Tuning,
    high_fraction: u32,
    /// Each CPU's share of the last-level cache in pages; null where it is not known.
    cache_slice_pages: Option<u64>,
    pagesets: Vec<Pageset<'r>>,
    /// What weakens this result, those that weaken every one included.
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Pageset<'r> {
    cpu: u32,
    node: u32,
    zone: &'r str,
    #[serde(flatten)]
    amounts: Sums,
    #[serde(flatten)]
    near: Nearness,
}

#[derive(Serialize)]
struct Check<'r> {
    passed: bool,
    limits: Vec<Limit<'r>>,
}

#[derive(Serialize)]
struct Limit<'r> {
    rules: &'r str,
    level: &'static str,
    what: &'static str,
    measured_pct: Option<f64>,
    allowed_pct: Option<f64>,
    /// The largest difference in pages, refills or drains; null for a share.
    allowed: Option<u64>,
    /// `pass`, `fail` or `not judged`.
    verdict: &'static str,
}

impl<'r> Document<'r> {
    /// The report in the schema's form; `checks` are those asked for.
    pub(super) fn new(report: &'r Report<'_>, checks: Option<&'r [Checked]>) -> Self {
        let kernel = Kernel {
            rules: report.setting().kernel.name,
            known: report.setting().kernel_known,
            amounts: sums(&report.kernel.totals),
            pagesets: pagesets(report, &report.kernel),
        };
        Document {
            schema: SCHEMA,
            level: report.level.name(),
            only: report.only.as_ref().map(|(only, selection)| Counted {
                conditions: only.iter().map(ToString::to_string).collect(),
                selected_operations: selection.operations,
                unlisted_operations: selection.unlisted,
            }),
            trace: recording(report),
            kernel,
            rules: report.rows.iter().map(|row| rules(report, row)).collect(),
            check: checks.map(check),
            warnings: report.warnings.iter().map(ToString::to_string).collect(),
        }
    }
}

fn recording<'r>(report: &'r Report<'_>) -> Recording<'r> {
    let (notes, setting) = (report.replay.notes(), report.setting());
    let zone = |zone: &'r pageset_trace::replay::setting::ZoneSetting| Zone {
        node: zone.node.0,
        name: &zone.name,
        managed: zone.start.managed,
        free: zone.start.free,
        held: zone.start.pagesets.iter().map(|pageset| pageset.count).sum(),
        watermark_min: zone.start.watermarks.min,
        watermark_low: zone.start.watermarks.low,
        watermark_high: zone.start.watermarks.high,
        batch: zone.start.bounds.batch,
        high_min: zone.start.bounds.high_min,
        high_max: zone.start.bounds.high_max,
    };
    Recording {
        name: report.trace.name(),
        form: report.form(),
        events: notes.events,
        replayed_events: notes.replayed,
        operations: notes.operations,
        duration_ns: notes.duration_ns,
        cpus: setting.cpus.len(),
        nodes: setting.zones.iter().map(|zone| zone.node).collect::<BTreeSet<_>>().len(),
        zones: setting.zones.iter().map(zone).collect(),
        facts: report.facts(),
        found: Found {
            failed: notes.failed,
            ticks: notes.ticks,
            fallbacks: notes.fallbacks,
            reclaims: notes.reclaims,
            bulk_allocs: notes.bulk_allocs,
            direct_allocs: notes.direct_allocs,
            direct_frees: notes.direct_frees,
            remote_drains: notes.remote_drains,
            foreign: notes.foreign,
            surprises: notes.surprises,
            markers: notes.markers,
        },
    }
}

fn rules<'r>(report: &'r Report<'_>, row: &'r Row) -> Rules<'r> {
    let (ours, kernel, outcome) = (&row.amounts.totals, &report.kernel.totals, &row.outcome);
    let own = row.warnings.iter().map(|counted| counted.warning("").to_string());
    Rules {
        name: &row.name,
        level: row.level.name(),
        is_kernel: row.is_kernel,
        amounts: sums(ours),
        differences: Differences {
            refills_diff_pct: differs_pct(ours.refills, kernel.refills),
            refill_pages_diff_pct: differs_pct(ours.refill_pages, kernel.refill_pages),
            drains_diff_pct: differs_pct(ours.drains, kernel.drains),
            drain_pages_diff_pct: differs_pct(ours.drain_pages, kernel.drain_pages),
        },
        near: Nearness::new(row.refills_near, row.drains_near),
        explained_pct: row.explained_pct,
        agrees: agrees(kernel, ours),
        taken_from_kernel: borrowed(outcome.borrowed),
        zone_lock_acquisitions: outcome.zone_lock_acquisitions,
        zone_lock_acquisitions_per_1000_operations: row.locks_per_1000(),
        held_pages_max: outcome.held_pages_max,
        operations: outcome.operations,
        failed: outcome.failed,
        below_min: outcome.below_min,
        unseen_allocs: outcome.unseen_allocs,
        lost_frees: outcome.lost_frees,
        refused_frees: outcome.refused_frees,
        tuning: &row.tuning,
        high_fraction: row.high_fraction,
        cache_slice_pages: row.cache_slice_pages,
        pagesets: pagesets(report, &row.amounts),
        warnings: report.warnings.iter().map(ToString::to_string).chain(own).collect(),
    }
}

fn sums(totals: &Totals) -> Sums {
    Sums {
        refills: totals.refills,
        refill_pages: totals.refill_pages,
        drains: totals.drains,
        drain_pages: totals.drain_pages,
    }
}

fn pagesets<'r>(report: &'r Report<'_>, amounts: &Amounts) -> Vec<Pageset<'r>> {
    let pageset = |part: &super::measure::Part| {
        let zone = report.setting().zones.get(part.of.zone? as usize)?;
        Some(Pageset {
            cpu: part.of.cpu?,
            node: zone.node.0,
            zone: &zone.name,
            amounts: sums(&part.totals),
            near: Nearness::new(part.refills_near, part.drains_near),
        })
    };
    amounts.pagesets.iter().filter_map(pageset).collect()
}

fn check<'r>(checks: &'r [Checked]) -> Check<'r> {
    let limits = checks.iter().flat_map(|checked| {
        checked.limits.iter().map(|limit| Limit {
            rules: &checked.name,
            level: checked.level.name(),
            what: limit.what,
            measured_pct: limit.measured_pct,
            allowed_pct: limit.allowed_pct,
            allowed: limit.deviation.map(|deviation| deviation.allowed()),
            verdict: limit.verdict.name(),
        })
    });
    Check { passed: checks.iter().all(Checked::passed), limits: limits.collect() }
}

/// By the keys of `--set`, switches and numbers as such.
fn tuning<S: Serializer>(tuning: &Tuning, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(described(tuning))
}
