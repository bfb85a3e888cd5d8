//! The list of processes: pages per second, and waits for zone locks.

use super::super::fit::Column;
use super::super::plain::PROCESSES;
use super::super::state::{Scene, State};
use super::super::view::{ProcessTraffic, View};
use super::movers::{self, Movers};

/// The name and both rates.
const ESSENTIAL: usize = 3;

/// The headings of short columns.
const SHORT: [&str; 5] = ["process", "pid", "in/s", "out/s", "wait ms/s"];

fn columns(view: &View, shown: &[&ProcessTraffic], short: bool) -> Vec<Column> {
    let heads = if short { SHORT } else { PROCESSES };
    let column = |place: usize, usual: usize, rank: usize, words: bool, cell: &dyn Fn(&ProcessTraffic) -> String| {
        let cells = shown.iter().map(|process| cell(process)).collect();
        Column { head: heads[place].to_owned(), cells, usual, rank, words }
    };
    let mut columns = vec![
        column(0, 17, 0, true, &|process| process.name.clone()),
        column(1, 9, 4, false, &|process| process.pid.to_string()),
    ];
    columns.extend(movers::columns(view, shown, short, [(heads[2], 1), (heads[3], 2), (heads[4], 3)]));
    columns
}

/// Why there are no processes, and what to do.
fn reason(scene: &Scene<'_>) -> &'static str {
    match (scene.position.is_some(), scene.view.counted_by.as_deref()) {
        (true, _) => "no processes: these looks were saved without; save looks as root with `top --json`",
        (false, Some("bpf")) => "no processes: this kernel cannot empty a table of processes; use Linux 5.6 or later",
        (false, Some(_)) => "no processes: perf does not count them; run as root, without --count-by perf",
        (false, None) => "no processes: nothing is counted; run as root, without --no-count",
    }
}

/// The list.
pub(super) fn list<'a>(scene: &Scene<'a>, state: &State) -> Movers<'a, ProcessTraffic> {
    Movers {
        name: "processes",
        none: "no process moved pages",
        all: state.processes(scene.view).ok_or_else(|| reason(scene)),
        note: None,
        columns,
        essential: ESSENTIAL,
    }
}
