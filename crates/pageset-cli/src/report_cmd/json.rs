//! The sections of the JSON output of other subcommands.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::sections::{Series, lines};
use super::{Report, bench, results, simulated};

/// Reports on values of one schema.
///
/// # Errors
/// A member is missing, or the schema is unknown.
pub(super) fn report(values: &[Value]) -> Result<Report, String> {
    let schema = values.first().and_then(|value| value["schema"].as_str()).ok_or("missing text `schema`")?;
    if let Some(other) = values.iter().find(|value| value["schema"] != schema) {
        return Err(format!("the file mixes values of the schemas {schema} and {}", other["schema"]));
    }
    match schema {
        "pageset.replay/1" => each(values, |value| Ok(results::replay(&typed(value)?))),
        "pageset.advise/1" => each(values, |value| Ok(results::advise(&typed(value)?))),
        "pageset.run/1" => each(values, |value| simulated::run(typed(value)?)),
        "pageset.compare/1" => each(values, |value| simulated::compare(typed(value)?)),
        "pageset.bench/1" => each(values, |value| bench::report(typed(value)?)),
        "pageset.top/1" => top(values),
        other => Err(format!("unknown schema `{other}`")),
    }
}

/// Parses a result of a typed schema.
fn typed<R: DeserializeOwned>(value: &Value) -> Result<R, String> {
    R::deserialize(value).map_err(|error| error.to_string())
}

/// Joins the reports of all values into one.
fn each(values: &[Value], of: fn(&Value) -> Result<Report, String>) -> Result<Report, String> {
    joined_all(values, of)
}

/// As [`each`], of anything.
pub(super) fn joined_all<T>(
    all: impl IntoIterator<Item = T>,
    of: fn(T) -> Result<Report, String>,
) -> Result<Report, String> {
    all.into_iter().map(of).reduce(joined).unwrap_or_else(|| Err("the input is empty".to_owned()))
}

fn joined(one: Result<Report, String>, other: Result<Report, String>) -> Result<Report, String> {
    let (mut one, other) = (one?, other?);
    one.facts.push(other.title);
    one.facts.extend(other.facts);
    one.sections.extend(other.sections);
    Ok(one)
}

fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str, String> {
    value[name].as_str().ok_or_else(|| format!("missing text `{name}`"))
}

fn number(value: &Value, name: &str) -> Result<f64, String> {
    value[name].as_f64().ok_or_else(|| format!("missing number `{name}`"))
}

fn list<'v>(value: &'v Value, name: &str) -> Result<&'v [Value], String> {
    value[name].as_array().map(Vec::as_slice).ok_or_else(|| format!("missing list `{name}`"))
}

fn top(values: &[Value]) -> Result<Report, String> {
    let time = |value: &Value| value["time_ns"].as_u64();
    let begin = values.iter().filter_map(time).min();
    let (mut held, mut counts, mut highs) = <(Series, Series, Series)>::default();
    let (mut refills, mut drains, mut waits) = <(Series, Series, Series)>::default();
    for (place, value) in values.iter().enumerate() {
        // Saved copies have no time; their index replaces it.
        let at = time(value).zip(begin).map_or(place as f64, |(time, begin)| (time - begin) as f64 / 1e9);
        for zone in list(value, "zones")? {
            let name = format!("{} {}", number(zone, "node")?, text(zone, "zone")?);
            held.entry(name.clone()).or_default().push((at, number(zone, "held")?));
            for set in list(zone, "pagesets")? {
                let name = format!("CPU {}, {name}", number(set, "cpu")?);
                counts.entry(name.clone()).or_default().push((at, number(set, "count")?));
                highs.entry(name).or_default().push((at, number(set, "high")?));
            }
        }
        for traffic in value["traffic"].as_array().into_iter().flatten() {
            let name = format!("CPU {}", number(traffic, "cpu")?);
            let rate = |series: &mut Series, of: &str| {
                if let Some(rate) = traffic[of].as_f64() {
                    series.entry(name.clone()).or_default().push((at, rate));
                }
            };
            rate(&mut refills, "refill_pages_per_s");
            rate(&mut drains, "drain_pages_per_s");
            let paths = traffic["zone_lock_waits"].as_object().into_iter().flatten();
            // None in the first look, without measurement, and without the member.
            let pct: Option<f64> = paths.map(|(_, path)| path["pct"].as_f64()).sum();
            if let Some(pct) = pct.filter(|_| traffic["zone_lock_waits"].is_object()) {
                waits.entry(name.clone()).or_default().push((at, pct));
            }
        }
    }
    let first = &values[0];
    let mut sections = vec![
        lines("How many pages do pagesets hold?".to_owned(), "", "pages", held, Series::new()),
        lines(
            "How many pages does each CPU's pageset hold, and what is its limit?".to_owned(),
            "Dashed: high, the limit.",
            "pages",
            counts,
            highs,
        ),
    ];
    for (question, unit, series) in [
        ("How many pages do refills take?", "pages/s", refills),
        ("How many pages do drains return?", "pages/s", drains),
        ("How much of its time does each CPU wait for zone locks?", "percent", waits),
    ] {
        if !series.is_empty() {
            sections.push(lines(question.to_owned(), "", unit, series, Series::new()));
        }
    }
    let kernel = &first["kernel"];
    let release = kernel["release"].as_str().unwrap_or("unknown");
    let facts = vec![format!(
        "Kernel {release}, rules {}, auto-tuning {}.",
        text(kernel, "rules")?,
        text(kernel, "auto_tuning")?
    )];
    Ok(Report { title: format!("Pagesets over {} looks", values.len()), facts, sections })
}
