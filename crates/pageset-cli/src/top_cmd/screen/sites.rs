//! The list of call sites in the kernel: pages per second from samples, and waits for zone locks.

use super::super::fit::Column;
use super::super::plain::{SITES, function, sampled};
use super::super::state::{Scene, State};
use super::super::view::{SiteTraffic, View};
use super::movers::{self, Movers};
use super::table::pages;

/// All but the caller.
const ESSENTIAL: usize = 5;

/// The headings of short columns.
const SHORT: [&str; 6] = ["call site", "called by", "samples", "in/s", "out/s", "wait ms/s"];

fn columns(view: &View, shown: &[&SiteTraffic], short: bool) -> Vec<Column> {
    let heads = if short { SHORT } else { SITES };
    let column = |place: usize, usual: usize, rank: usize, words: bool, cell: &dyn Fn(&SiteTraffic) -> String| {
        let cells = shown.iter().map(|site| cell(site)).collect();
        Column { head: heads[place].to_owned(), cells, usual, rank, words }
    };
    let mut columns = vec![
        column(0, 20, 0, true, &|site| function(&site.function)),
        column(1, 20, 5, true, &|site| function(&site.caller)),
        column(2, 13, 1, false, &|site| pages(site.page_samples, short)),
    ];
    columns.extend(movers::columns(view, shown, short, [(heads[3], 2), (heads[4], 3), (heads[5], 4)]));
    columns
}

/// Why there are no call sites, and what to do.
fn reason(scene: &Scene<'_>) -> &'static str {
    match (scene.position.is_some(), scene.view.counted_by.as_deref()) {
        (true, _) => "no call sites: these looks were saved without; save looks as root with `top --json`",
        (false, Some("bpf")) => {
            "no call sites: they need Linux 5.6 and addresses in /proc/kallsyms (kernel.kptr_restrict)"
        }
        (false, Some(_)) => "no call sites: perf does not count them; run as root, without --count-by perf",
        (false, None) => "no call sites: nothing is counted; run as root, without --no-count",
    }
}

/// The list.
pub(super) fn list<'a>(scene: &Scene<'a>, state: &State) -> Movers<'a, SiteTraffic> {
    let all = state.call_sites(scene.view);
    let samples = all.as_ref().map(|all| all.iter().fold(0, |sum: u64, site| sum.saturating_add(site.page_samples)));
    Movers {
        name: "call sites",
        none: "no call site was seen moving pages",
        all: all.ok_or_else(|| reason(scene)),
        note: samples.map(sampled),
        columns,
        essential: ESSENTIAL,
    }
}
