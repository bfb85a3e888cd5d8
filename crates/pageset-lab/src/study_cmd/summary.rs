//! What became of the cells, as text.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::Path;

use pageset_study::cell::{Cell, Cells};
use pageset_study::table::Collected;
use pageset_study::work::Summary;

use crate::columns::grouped;
use crate::output::is_standard;

pub(super) fn counted(cells: &Cells<'_>) -> String {
    let study = cells.study();
    let places: usize = study.machines.iter().map(|(_, tasks)| tasks.len()).sum();
    format!(
        "{}: {} on {} x {} x {} x {}",
        counted_of(cells.all().len(), "cell", "cells"),
        counted_of(places, "number of tasks", "numbers of tasks"),
        counted_of(study.machines.len(), "machine", "machines"),
        counted_of(study.workloads.len(), "workload", "workloads"),
        counted_of(study.rules.len(), "set of rules", "sets of rules"),
        counted_of(study.seeds as usize, "seed", "seeds"),
    )
}

/// A number with the noun that fits.
fn counted_of(count: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count as u64), if count == 1 { one } else { many })
}

/// What a run did.
pub(super) fn ran(summary: &Summary, workers: NonZeroUsize) -> String {
    let [all, found, ran, failed] =
        [summary.cells, summary.found, summary.ran, summary.failed.len()].map(|count| grouped(count as u64));
    let mut text = format!("{all} cells: {ran} finished now, {found} found, {failed} failed");
    let open = summary.cells - summary.found - summary.ran - summary.failed.len();
    if open > 0 {
        let _ = write!(text, ", {} not run", grouped(open as u64));
    }
    let (simulated, elapsed) = (summary.simulated.as_secs_f64(), summary.elapsed.as_secs_f64());
    let _ = writeln!(text, "; {simulated:.3} s of simulation in {elapsed:.3} s on {workers} threads");
    text
}

/// Adds a line for each of these failed cells.
pub(super) fn failed(cells: &Cells<'_>, failed: &[(Cell, String)], text: &mut String) {
    listed(cells, "failed", failed, text);
}

/// What a collection found.
pub(super) fn collected(cells: &Cells<'_>, Collected { missing, .. }: &Collected, table: &Path) -> String {
    let all = cells.all().len();
    let rows = grouped((all - missing.len()) as u64);
    let mut text = format!("{rows} of {} cells are in {}\n", grouped(all as u64), table.display());
    listed(cells, "missing", missing, &mut text);
    // A table on standard output has no name.
    if !is_standard(table) && missing.len() < all {
        let _ = writeln!(text, "next: pageset-lab report {}", table.display());
    }
    text
}

/// The builds that ran the cells, if there are several: their outcomes may differ.
pub(super) fn of_builds(Collected { builds, .. }: &Collected) -> Option<String> {
    let named = |(build, cells): (&String, &usize)| {
        let build = if build.is_empty() { "an older version" } else { build };
        format!("{build} ({})", grouped(*cells as u64))
    };
    let all: Vec<String> = builds.iter().map(named).collect();
    (all.len() > 1).then(|| {
        format!(
            "cells of {} builds, whose outcomes may differ: {}; use a new folder for each build",
            all.len(),
            all.join(", ")
        )
    })
}

/// A line for each of these cells.
fn listed(cells: &Cells<'_>, fate: &str, some: &[(Cell, String)], text: &mut String) {
    for (cell, why) in some {
        let _ = writeln!(text, "{fate}: {}: {why}", cells.named(*cell));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_builds_are_named() {
        let of = |builds: &[(&str, usize)]| {
            let builds = builds.iter().map(|(build, cells)| ((*build).to_owned(), *cells)).collect();
            of_builds(&Collected { builds, ..Collected::default() })
        };
        assert_eq!([of(&[]), of(&[("1 (a)", 7)])], [None, None]);
        let text = "cells of 2 builds, whose outcomes may differ: an older version (2), 1 (a) (1,234); use a new folder for each build";
        assert_eq!(of(&[("1 (a)", 1234), ("", 2)]).as_deref(), Some(text));
    }
}
