//! Text for pipes, logs and `--plain`: one block per look, which fits the terminal if there is one.

use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use pageset_record::live::sites::PAGES_APART;
use pageset_trace::verdict::machine::Finding;
use schemars::JsonSchema;

use super::figures::{NONE, index, percent, rate};
use super::unusual::findings;
use super::view::{CpuTraffic, CpuWaits, HUGE, Mover, Pageset, PathWait, ProcessTraffic, SiteTraffic, View, Zone};
use crate::columns::{Fit, Shown, grouped, numbers};

/// The column headings of processes.
pub(super) static PROCESSES: LazyLock<Vec<String>> = LazyLock::new(headings::<ProcessTraffic>);

/// The column headings of call sites. The samples stand before what is estimated from them.
pub(super) static SITES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut heads = headings::<SiteTraffic>();
    heads[2..5].rotate_right(1);
    heads
});

fn headings<T: JsonSchema>() -> Vec<String> {
    Shown::of::<T>("movers").headings().map(str::to_owned).collect()
}

/// The name of a function that a call chain does not show.
pub(super) const UNKNOWN: &str = "unknown";

/// A table of processes or of call sites.
struct MoversShown {
    heads: &'static LazyLock<Vec<String>>,
    /// What a row is, one and several.
    kind: [&'static str; 2],
    /// The importance of the columns.
    ranks: &'static [usize],
}

/// A wait decides, so its column leaves last.
const PROCESSES_SHOWN: MoversShown =
    MoversShown { heads: &PROCESSES, kind: ["process", "processes"], ranks: &[0, 4, 2, 3, 1] };
const SITES_SHOWN: MoversShown =
    MoversShown { heads: &SITES, kind: ["call site", "call sites"], ranks: &[0, 5, 4, 2, 3, 1] };

/// The processes and call sites that the text shows. A guess; `--json` has all.
const TOP: usize = 5;

/// Whether lists tune themselves, and the kernel and its rules.
pub(super) fn kernel_parts(view: &View) -> Vec<String> {
    let kernel = &view.kernel;
    let release = kernel.release.as_deref().unwrap_or("unknown kernel");
    let guess = if kernel.known { "rules" } else { "assumed rules" };
    let fraction = kernel.high_fraction.filter(|fraction| *fraction > 0);
    let fraction = fraction.map(|fraction| format!(" = {fraction}")).unwrap_or_default();
    let mut parts = vec![
        format!("{}{fraction}", kernel.auto_tuning.text()),
        format!("; {guess} {}", kernel.rules),
        format!("; {release}"),
    ];
    if kernel.is_another {
        parts.push(
            ", which tunes high as kernels from 6.7 on do; try `pageset replay FILE --identify` on a recording"
                .to_owned(),
        );
    }
    parts
}

pub(super) fn text(view: &View, fit: Fit) -> String {
    let verdict = findings(view).first().map(Finding::sentence).unwrap_or_default();
    let mut text = fit.prose(&format!("{verdict}\n{}: {}\n", view.source, kernel_parts(view).concat()));
    let at = view.time_ns.map(|ns| httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_nanos(ns)));
    let changes = view.elapsed_ns.map(|elapsed| format!("changes of {:.3} s", elapsed as f64 / 1e9));
    let line: Vec<String> = at.into_iter().chain(changes).collect();
    if !line.is_empty() {
        text += &format!("{}\n", line.join(", "));
    }
    text += "\n";
    let shown = Shown::of::<Zone>("zones");
    let mut table = numbers(["zone", "mark"].into_iter().chain(shown.headings()), 0..2);
    for zone in &view.zones {
        table.add_row([zone.name(), zone.mark().to_owned()].into_iter().chain(shown.cells(zone)));
    }
    text += &fit.table(table, &in_order(2, shown.headings().count()));
    text += &blocks(view, fit);
    text += "\n";
    text += &cpus(view, fit);
    text += &waits(view, fit);
    let process = |process: &ProcessTraffic| vec![process.name.clone(), process.pid.to_string()];
    text += &movers(view, view.processes.as_ref(), &PROCESSES_SHOWN, process, fit, "");
    let sites = view.call_sites.iter().flatten();
    let samples = sampled(sites.fold(0, |sum: u64, site| sum.saturating_add(site.page_samples)));
    let site = |site: &SiteTraffic| vec![function(&site.function), function(&site.caller), grouped(site.page_samples)];
    text += &movers(view, view.call_sites.as_ref(), &SITES_SHOWN, site, fit, &samples);
    let rates: Vec<String> = view
        .vmstat
        .iter()
        .map(|counter| match counter.per_s {
            Some(per_s) => format!("{} {}/s", counter.name, rate(Some(per_s))),
            None => format!("{} {}", counter.name, grouped(counter.value)),
        })
        .collect();
    if !rates.is_empty() {
        text += &fit.prose(&format!("\n{}\n", rates.join(", ")));
    }
    for news in &view.news {
        text += &fit.prose(&format!("note: {news}\n"));
    }
    for missing in &view.missing {
        text += &fit.prose(&format!("missing: {missing}\n"));
    }
    text
}

/// The importance of columns: the first `names` stay, and the last of the other ones leaves first.
fn in_order(names: usize, others: usize) -> Vec<usize> {
    std::iter::repeat_n(0, names).chain(1..=others).collect()
}

/// A row for each zone whose free blocks are known.
fn blocks(view: &View, fit: Fit) -> String {
    let mut table = numbers(["zone", "free blocks", "fragmentation index"].into_iter(), 0..2);
    for zone in &view.zones {
        let Some(blocks) = &zone.free_blocks else { continue };
        let by_order: Vec<String> = blocks.iter().map(u64::to_string).collect();
        table.add_row([zone.name(), by_order.join(" "), index(zone.fragmentation_index(HUGE))]);
    }
    if table.row_count() == 0 { String::new() } else { format!("\n{}", fit.words(table)) }
}

/// A row for each pageset that holds or has moved pages. A CPU's traffic is shown in the CPU's last row.
fn cpus(view: &View, fit: Fit) -> String {
    let (of_set, of_cpu) = (Shown::of::<Pageset>("pagesets"), Shown::of::<CpuTraffic>("traffic"));
    let heads: Vec<&str> = of_cpu.headings().collect();
    let mut table = numbers(["CPU", "zone"].into_iter().chain(of_set.headings()).chain(heads.iter().copied()), 1..2);
    for zone in &view.zones {
        for set in &zone.pagesets {
            let moved = view.traffic_of(set.cpu).filter(|_| is_last(view, zone, set.cpu));
            if set.count == 0 && set.change.unwrap_or(0) == 0 && moved.is_none() {
                continue;
            }
            let moved = moved.map_or_else(|| vec![NONE.to_owned(); heads.len()], |traffic| of_cpu.cells(traffic));
            table.add_row([set.cpu.to_string(), zone.name()].into_iter().chain(of_set.cells(set)).chain(moved));
        }
    }
    fit.table(table, &in_order(2, of_set.headings().count() + heads.len()))
}

/// A row for each CPU that waited for a zone lock since the previous look. Empty if waits are not measured.
fn waits(view: &View, fit: Fit) -> String {
    let (of_paths, of_path) = (Shown::of::<CpuWaits>("waits"), Shown::of::<PathWait>("paths"));
    let mut table = numbers(["CPU"].into_iter().chain(of_paths.headings()).chain(of_path.headings()), 0..0);
    let heads = of_paths.headings().count() + of_path.headings().count();
    let (mut measured, mut waited) = (false, false);
    for traffic in view.traffic.iter().flatten() {
        let Some(waits) = &traffic.zone_lock_waits else { continue };
        let Some(per_s) = waits.paths().iter().map(|path| path.per_s).sum::<Option<f64>>() else { continue };
        measured = true;
        if per_s > 0.0 {
            waited = true;
            let mut cells = vec![traffic.cpu.to_string()];
            cells.extend(waits.paths().map(|path| percent(path.pct)));
            cells.push(rate(Some(per_s)));
            table.add_row(cells);
        }
    }
    match (measured, waited) {
        (false, _) => String::new(),
        (true, false) => "\nno CPU waited for a zone lock\n".to_owned(),
        (true, true) => format!("\n{}", fit.table(table, &in_order(1, heads))),
    }
}

/// A number of some time as a rate.
pub(super) fn per_second(number: u64, seconds: Option<f64>) -> Option<f64> {
    seconds.map(|seconds| number as f64 / seconds)
}

/// The waits of a process or call site in milliseconds per second.
pub(super) fn wait_ms(mover: &impl Mover, seconds: Option<f64>) -> Option<f64> {
    per_second(mover.wait_ns()?, seconds).map(|ns| ns / 1e6)
}

/// A row for each of the processes or call sites that moved most pages, with a note below. Empty if they are not counted,
/// and without a previous look. `of` makes the first cells.
fn movers<T: Mover>(
    view: &View,
    all: Option<&Vec<T>>,
    of_kind: &MoversShown,
    of: fn(&T) -> Vec<String>,
    fit: Fit,
    note: &str,
) -> String {
    let (Some(all), Some(seconds)) = (all, view.seconds()) else { return String::new() };
    let MoversShown { heads, kind, ranks } = of_kind;
    if all.is_empty() {
        return format!("\nno {} moved pages\n", kind[0]);
    }
    // Without a measured wait, the last column does not exist.
    let shown = heads.len() - usize::from(all.iter().all(|mover| mover.wait_ns().is_none()));
    let mut table = numbers(heads.iter().take(shown).map(String::as_str), 0..if note.is_empty() { 1 } else { 2 });
    for mover in all.iter().take(TOP) {
        let mut cells = of(mover);
        cells.extend([mover.pages_in(), mover.pages_out()].map(|pages| rate(per_second(pages, Some(seconds)))));
        cells.push(percent(wait_ms(mover, Some(seconds))));
        table.add_row(cells.into_iter().take(shown));
    }
    let more = match all.len().saturating_sub(TOP) {
        0 => String::new(),
        more => format!("and {} {} with fewer pages", grouped(more as u64), kind[usize::from(more > 1)]),
    };
    let notes: Vec<&str> = [more.as_str(), note].into_iter().filter(|note| !note.is_empty()).collect();
    let end = if notes.is_empty() { "" } else { "\n" };
    format!("\n{}{}", fit.table(table, &ranks[..shown]), fit.prose(&format!("{}{end}", notes.join("; "))))
}

/// What the call sites' pages are estimated from.
pub(super) fn sampled(samples: u64) -> String {
    format!("{} samples, one in about {} pages", grouped(samples), grouped(PAGES_APART.into()))
}

/// A function's name, or that it is not known.
pub(super) fn function(name: &str) -> String {
    if name.is_empty() { UNKNOWN.to_owned() } else { name.to_owned() }
}

/// Whether `zone` is the last zone in which the CPU has a pageset. The CPU's traffic of all zones is shown there.
fn is_last(view: &View, zone: &Zone, cpu: u32) -> bool {
    let has = |zone: &&Zone| zone.pagesets.iter().any(|set| set.cpu == cpu);
    view.zones.iter().rfind(has).is_some_and(|last| (last.node, &last.zone) == (zone.node, &zone.zone))
}
