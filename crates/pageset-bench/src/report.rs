//! What came of it: medians, ratios, table, JSON.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::floors::FLOOR_B;
use crate::pattern::Pattern;

/// The form of the JSON.
pub const SCHEMA: &str = "pageset.bench/1";

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Where.
    pub machine: MachineFacts,
    /// How long a sample took, in nanoseconds.
    pub window_ns: u64,
    /// Samples that were wanted of each.
    pub rounds: u32,
    /// Whether it was stopped before the end.
    pub interrupted: bool,
    /// What, in the order of the patterns, then of threads, then of subjects.
    pub rows: Vec<Row>,
}

/// The machine, as far as it matters to a reader of figures.
#[derive(Clone, Debug, Serialize)]
pub struct MachineFacts {
    /// The processor's name.
    pub processor: String,
    /// The kernel's release.
    pub kernel: String,
    /// CPUs that the process may use.
    pub cpus: usize,
}

/// One subject under one pattern.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The subject's name.
    pub who: &'static str,
    /// The pattern's name.
    pub pattern: String,
    /// How many threads.
    pub threads: usize,
    /// Every sample that was kept: ns of a page taken and given back, the mean of the threads.
    pub ns_per_pair: Vec<f64>,
    /// Samples thrown away because a thread did not have its CPU.
    pub discarded: u32,
    /// The median, beside floor b's of the same pattern and threads; nothing where that has none.
    pub ratio_to_floor_b: Option<f64>,
}

impl Row {
    pub(crate) fn new(who: &'static str, pattern: Pattern, threads: usize) -> Row {
        let pattern = pattern.to_string();
        Row { who, pattern, threads, ns_per_pair: vec![], discarded: 0, ratio_to_floor_b: None }
    }

    /// The median of its samples, if it has any.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        let mut samples = self.ns_per_pair.clone();
        samples.sort_by(f64::total_cmp);
        let (low, high) = (samples.get(samples.len().checked_sub(1)? / 2)?, samples.get(samples.len() / 2)?);
        Some(f64::midpoint(*low, *high))
    }
}

impl Report {
    /// Sets each row's ratio.
    pub(crate) fn compare(&mut self) {
        let of_floor: Vec<_> = self
            .rows
            .iter()
            .filter(|row| row.who == FLOOR_B)
            .filter_map(|row| Some((row.pattern.clone(), row.threads, row.median()?)))
            .collect();
        for row in &mut self.rows {
            let floor = of_floor.iter().find(|floor| floor.0 == row.pattern && floor.1 == row.threads);
            row.ratio_to_floor_b = floor.and_then(|floor| Some(row.median()? / floor.2));
        }
    }

    /// The table: a row a subject, a column a pattern and number of threads.
    #[must_use]
    pub fn table(&self) -> String {
        let mut columns: Vec<(&str, usize)> = vec![];
        let mut names: Vec<&str> = vec![];
        for row in &self.rows {
            if !columns.contains(&(&row.pattern, row.threads)) {
                columns.push((&row.pattern, row.threads));
            }
            if !names.contains(&row.who) {
                names.push(row.who);
            }
        }
        let find = |who: &str, column: (&str, usize)| {
            self.rows.iter().find(|row| row.who == who && (row.pattern.as_str(), row.threads) == column)
        };
        let mut text = String::new();
        // As many columns side by side as a terminal of 120 has room for.
        for some in columns.chunks(9) {
            let mut table = Table::new();
            let heads = some.iter().map(|(pattern, threads)| format!("{pattern} {threads}T"));
            table.load_preset(presets::NOTHING).set_header(std::iter::once("ns per pair".to_owned()).chain(heads));
            for &who in &names {
                let cells = some.iter().map(|&column| cell(find(who, column)));
                table.add_row(std::iter::once(who.to_owned()).chain(cells));
            }
            for column in table.column_iter_mut().skip(1) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            for line in table.lines() {
                let _ = writeln!(text, "{}", line.trim_end());
            }
            text.push('\n');
        }
        let _ = writeln!(
            text,
            "In brackets: times floor b. Medians of up to {} samples of {} ms.",
            self.rounds,
            self.window_ns / 1_000_000
        );
        text
    }

    /// What a reader has to know of samples that are missing, one line each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let discarded: u32 = self.rows.iter().map(|row| row.discarded).sum();
        let kept: usize = self.rows.iter().map(|row| row.ns_per_pair.len()).sum();
        let short = self.rows.iter().filter(|row| row.ns_per_pair.len() < self.rounds as usize).count();
        let mut lines = vec![];
        if discarded > 0 {
            lines.push(format!(
                "{discarded} of {} samples were thrown away: a thread had its CPU for less than 97 % of the time",
                discarded as usize + kept
            ));
        }
        if short > 0 {
            lines.push(format!(
                "{short} of {} figures have fewer than {} samples; let nothing else run, or give more time with --window-ms",
                self.rows.len(),
                self.rounds
            ));
        }
        lines
    }
}

fn cell(row: Option<&Row>) -> String {
    let Some((row, ns)) = row.and_then(|row| Some((row, row.median()?))) else { return "-".to_owned() };
    let ns = if ns < 99.95 { format!("{ns:.1}") } else { format!("{ns:.0}") };
    row.ratio_to_floor_b.map_or_else(|| ns.clone(), |ratio| format!("{ns} ({ratio:.2})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(who: &'static str, pattern: Pattern, samples: &[f64]) -> Row {
        Row { ns_per_pair: samples.to_vec(), ..Row::new(who, pattern, 1) }
    }

    fn report() -> Report {
        let machine = MachineFacts { processor: "P".into(), kernel: "K".into(), cpus: 2 };
        let rows = vec![
            row(FLOOR_B, Pattern::Hot, &[4.0, 2.0, 3.0]),
            Row { discarded: 2, ..row("x", Pattern::Hot, &[9.0, 6.0]) },
            row("x", Pattern::HotHuge, &[250.0]),
        ];
        let mut report = Report { schema: SCHEMA, machine, window_ns: 5_000_000, rounds: 3, interrupted: false, rows };
        report.compare();
        report
    }

    #[test]
    fn medians_and_ratios() {
        let report = report();
        let ratios: Vec<_> = report.rows.iter().map(|row| (row.median(), row.ratio_to_floor_b)).collect();
        assert_eq!(ratios, [(Some(3.0), Some(1.0)), (Some(7.5), Some(2.5)), (Some(250.0), None)]);
        assert_eq!(row("x", Pattern::Hot, &[]).median(), None);
    }

    #[test]
    fn the_table_and_its_warnings() {
        let report = report();
        let table = report.table();
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["ns", "per", "pair", "hot", "1T", "order-9", "1T"]);
        assert_eq!(lines[1], ["floor", "b", "3.0", "(1.00)", "-"]);
        assert_eq!(lines[2], ["x", "7.5", "(2.50)", "250"]);
        assert_eq!(
            report.warnings(),
            [
                "2 of 8 samples were thrown away: a thread had its CPU for less than 97 % of the time",
                "2 of 3 figures have fewer than 3 samples; let nothing else run, or give more time with --window-ms"
            ]
        );
    }
}
