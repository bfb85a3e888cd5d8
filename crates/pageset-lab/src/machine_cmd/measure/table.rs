//! The result as text: the quantities, and the page faults next to their prediction.

use std::fmt::Write as _;

use pageset_bench::hardware::{Figure, Quantity};

use super::result::{Measured, Measurement, Row, note};
use crate::columns::{grouped, numbers, trimmed};

/// Two tables.
pub(super) fn text(measured: &Measured) -> String {
    let mut text = format!(
        "{}, kernel {}, {} CPUs\n\n",
        measured.host.processor,
        measured.host.kernel,
        if measured.host.cpus == measured.online_cpus {
            measured.online_cpus.to_string()
        } else {
            format!("{} of {}", measured.host.cpus, measured.online_cpus)
        }
    );
    text += &quantities(measured);
    let kernel = &measured.kernel;
    let _ = writeln!(
        text,
        "\nPage faults a second: each task maps 128 MiB, writes a byte in each page, unmaps. Predicted with rules\n{}, era \
         {}.\n",
        kernel.rules, kernel.era
    );
    text += &faults(measured);
    if let Some(fit) = measured.fit {
        let _ = writeln!(
            text,
            "\npace = {} was fitted to the faults of one process. All other predictions follow from the figures above\n\
             and from the model.",
            fit.pace
        );
    }
    text
}

fn quantities(measured: &Measured) -> String {
    let heads = ["quantity", "ns", "spread %", "samples", "over", "note"];
    let mut table = numbers(heads.into_iter(), 0..1);
    for column in [4, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(comfy_table::CellAlignment::Left);
        }
    }
    for it in &measured.quantities {
        let Measurement { quantity, median, figure, .. } = it;
        let value = median.map_or_else(dash, |median| decimals(*quantity, median));
        table.add_row([
            quantity.about().to_owned(),
            value,
            spread(figure),
            count(figure),
            figure.over.clone(),
            note(figure),
        ]);
    }
    trimmed(&table)
}

fn faults(measured: &Measured) -> String {
    let heads = ["tasks", "measured", "spread %", "samples", "predicted", "error %", "note"];
    let mut table = numbers(heads.into_iter(), 0..1);
    if let Some(column) = table.column_mut(6) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    for row in &measured.faults {
        let rate = |rate: Option<f64>| rate.map_or_else(dash, |rate| grouped(rate.round() as u64));
        table.add_row([
            row.name(),
            rate(row.faults_per_s),
            spread(&row.figure),
            count(&row.figure),
            rate(row.predicted_per_s),
            error(row),
            note(&row.figure),
        ]);
    }
    trimmed(&table)
}

fn error(row: &Row) -> String {
    match row.error_pct() {
        Some(_) if row.fitted => "fitted".to_owned(),
        Some(pct) => format!("{pct:+.1}"),
        None => dash(),
    }
}

fn dash() -> String {
    "-".to_owned()
}

fn spread(figure: &Figure) -> String {
    figure.spread_pct().map_or_else(dash, |pct| format!("{pct:.1}"))
}

/// The samples, and those that were discarded.
fn count(figure: &Figure) -> String {
    let (kept, discarded) = (figure.samples.len(), figure.discarded as usize);
    match (figure.missing.is_some(), figure.disturbed) {
        (true, _) => dash(),
        (false, true) => format!("0 of {discarded}"),
        (false, false) if discarded > 0 => format!("{kept} of {}", kept + discarded),
        (false, false) => kept.to_string(),
    }
}

fn decimals(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Turbo => format!("{value:.2} x"),
        _ if value < 9.995 => format!("{value:.2}"),
        _ => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::result::example;
    use super::*;

    #[test]
    fn tables_have_figures_notes_and_predictions() {
        let text = text(&example());
        let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        assert_eq!(lines.next().unwrap(), "P, kernel 6.18.1, 2 of 8 CPUs");
        for wanted in [
            "load, first level 1.50 0.7 3 16 KiB",
            "load, memory 200.0 - 0 of 4 64 MiB disturbed",
            "load, other socket's memory - - - not measured: only one socket",
            "line of a core, same last level 40.0 25.0 3 3 pairs of CPUs noisy",
            "clock of one core to all cores 0.99 x - 1 8 cores",
            "1 process 1,005,000 0.5 2 of 3 1,005,100 fitted",
            "2 processes 1,500,000 - 1 1,800,000 +20.0",
            "1 thread 900,000 - 1 - -",
            "2 threads - - - - - not measured: tasks need 257 MiB; 100 MiB of memory are free",
        ] {
            assert!(lines.any(|line| line == wanted), "{wanted}\n{text}");
        }
        // Columns line up: all heads begin where their columns do.
        let of = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
        let end = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        assert_eq!(end(of(" tasks"), "measured"), end(of(" 1 process"), "1,005,000"), "{text}");
        assert_eq!(end(of(" tasks"), "error %"), end(of(" 2 processes"), "+20.0"), "{text}");
        assert!(text.contains("pace = 1.2345 was fitted"), "{text}");
    }
}
