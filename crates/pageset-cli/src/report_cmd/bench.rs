//! The sections of what `pageset bench` wrote with --json.

use serde_json::Value;

use super::Report;
use super::draw::{Bars, plain};
use super::json::{bars, list, number, text};

/// A value below which the given share of the sorted samples lie, between two of them where it is not one.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}

/// A row's median and quartiles; nothing where all samples were thrown away.
fn spread(row: &Value) -> Option<(f64, (f64, f64))> {
    let mut samples: Vec<f64> = row["ns_per_pair"].as_array()?.iter().filter_map(Value::as_f64).collect();
    samples.sort_by(f64::total_cmp);
    Some((quantile(&samples, 0.5)?, (quantile(&samples, 0.25)?, quantile(&samples, 0.75)?)))
}

/// What the bars are, and why some are not there.
fn note(rows: &[&Value]) -> &'static str {
    if rows.iter().any(|row| spread(row).is_none()) {
        return "Medians; whiskers: quartiles. Where no bar is, each sample was thrown away, for something else ran on the \
                CPU meanwhile.";
    }
    "Medians; whiskers: quartiles."
}

/// Reports on one result.
///
/// # Errors
/// What is missing in it.
pub(super) fn report(value: &Value) -> Result<Report, String> {
    let (machine, rows) = (&value["machine"], list(value, "rows")?);
    let mut patterns: Vec<(&str, Vec<&Value>)> = Vec::new();
    for row in rows {
        let pattern = text(row, "pattern")?;
        match patterns.iter_mut().find(|(name, _)| *name == pattern) {
            Some((_, rows)) => rows.push(row),
            None => patterns.push((pattern, vec![row])),
        }
    }
    let mut sections = Vec::new();
    for (pattern, rows) in patterns {
        let (mut who, mut threads) = (Vec::<String>::new(), Vec::<u64>::new());
        for row in &rows {
            let (name, number) = (text(row, "who")?.to_owned(), number(row, "threads")? as u64);
            if !who.contains(&name) {
                who.push(name);
            }
            if !threads.contains(&number) {
                threads.push(number);
            }
        }
        let of_threads = |number: &u64| {
            let find = |name: &String| rows.iter().find(|row| row["who"] == **name && row["threads"] == *number);
            let spreads: Vec<Option<_>> = who.iter().map(|name| find(name).and_then(|row| spread(row))).collect();
            Bars {
                name: format!("{number} thread{}", if *number == 1 { "" } else { "s" }),
                values: spreads.iter().map(|spread| spread.map(|spread| spread.0)).collect(),
                whiskers: spreads.iter().map(|spread| spread.map(|spread| spread.1)).collect(),
            }
        };
        sections.push(bars(
            &format!("{pattern}: how long does a page taken and given back take?"),
            note(&rows),
            "ns per pair",
            &who,
            threads.iter().map(of_threads).collect(),
        ));
    }
    if sections.is_empty() {
        return Err("there are no rows".to_owned());
    }
    let mut facts = vec![format!(
        "{}, Linux {}, {} CPUs; up to {} samples of {} ms.",
        text(machine, "processor")?,
        text(machine, "kernel")?,
        number(machine, "cpus")?,
        number(value, "rounds")?,
        number(value, "window_ns")? / 1e6
    )];
    let thrown: u64 = rows.iter().filter_map(|row| row["discarded"].as_u64()).sum();
    if thrown > 0 {
        facts.push(format!(
            "{} samples were thrown away, for something else had a thread's CPU meanwhile; the others may be slower for it.",
            plain(thrown as f64)
        ));
    }
    Ok(Report { title: "How fast the pool is".to_owned(), facts, sections })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_between_samples() {
        let row = |samples: &[f64]| spread(&serde_json::json!({ "ns_per_pair": samples }));
        assert_eq!(row(&[4.0, 1.0, 3.0, 2.0, 5.0]), Some((3.0, (2.0, 4.0))));
        assert_eq!(row(&[2.0, 1.0]), Some((1.5, (1.25, 1.75))));
        assert_eq!(row(&[]), None);
        let rows = [&[1.0][..], &[]].map(|samples| serde_json::json!({ "ns_per_pair": samples }));
        assert!(!note(&[&rows[0]]).contains("thrown") && note(&[&rows[0], &rows[1]]).contains("thrown"));
    }
}
