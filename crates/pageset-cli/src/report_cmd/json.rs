//! The sections of what other subcommands wrote with --json.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::draw::{Bars, COLOURS, Chart, Line, plain};
use super::{Report, Section, bench, simulated};

/// Reports on values of one schema.
///
/// # Errors
/// What is missing, or a schema that is not known.
pub(super) fn report(values: &[Value]) -> Result<Report, String> {
    let schema = values.first().and_then(|value| value["schema"].as_str()).ok_or("there is no `schema`")?;
    if let Some(other) = values.iter().find(|value| value["schema"] != schema) {
        return Err(format!("values of schema {schema} and {} in one file", other["schema"]));
    }
    match schema {
        "pageset.replay/1" => each(values, replay),
        "pageset.advise/1" => each(values, advise),
        "pageset.run/1" => each(values, |value| simulated::run(typed(value)?)),
        "pageset.compare/1" => each(values, |value| simulated::compare(typed(value)?)),
        "pageset.bench/1" => each(values, |value| bench::report(typed(value)?)),
        "pageset.top/1" => top(values),
        other => Err(format!("the schema {other} is not known")),
    }
}

/// A result that has a model.
fn typed<R: DeserializeOwned>(value: &Value) -> Result<R, String> {
    R::deserialize(value).map_err(|error| error.to_string())
}

/// One report of all values.
fn each(values: &[Value], of: fn(&Value) -> Result<Report, String>) -> Result<Report, String> {
    values.iter().map(of).reduce(joined).unwrap_or_else(|| Err("it is empty".to_owned()))
}

fn joined(one: Result<Report, String>, other: Result<Report, String>) -> Result<Report, String> {
    let (mut one, other) = (one?, other?);
    one.facts.push(other.title);
    one.facts.extend(other.facts);
    one.sections.extend(other.sections);
    Ok(one)
}

fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str, String> {
    value[name].as_str().ok_or_else(|| format!("there is no text `{name}`"))
}

fn number(value: &Value, name: &str) -> Result<f64, String> {
    value[name].as_f64().ok_or_else(|| format!("there is no number `{name}`"))
}

fn list<'v>(value: &'v Value, name: &str) -> Result<&'v [Value], String> {
    value[name].as_array().map(Vec::as_slice).ok_or_else(|| format!("there is no list `{name}`"))
}

pub(super) fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// A chart of bars whose table has a row for each category.
pub(super) fn bars(
    question: &str,
    note: &str,
    unit: &'static str,
    categories: &[String],
    series: Vec<Bars>,
) -> Section {
    let heads = std::iter::once(String::new()).chain(series.iter().map(|bars| bars.name.clone())).collect();
    let row = |(i, category): (usize, &String)| {
        std::iter::once(category.clone()).chain(series.iter().map(|bars| bars.text(i))).collect()
    };
    let rows = categories.iter().enumerate().map(row).collect();
    let below = series.iter().flat_map(|bars| bars.values.iter().flatten()).any(|value| *value < 0.0);
    let below = if below { " Values below 0 are in the table alone." } else { "" };
    let (question, note) = (question.to_owned(), format!("{note}{below}").trim().to_owned());
    Section { question, note, chart: Some(Chart::Bars { unit, categories: categories.to_vec(), series }), heads, rows }
}

fn replay(value: &Value) -> Result<Report, String> {
    let (trace, kernel, rules) = (&value["trace"], &value["kernel"], list(value, "rules")?);
    let name = text(trace, "name")?;
    let level = text(value, "level")?;
    // Rows of unlike levels are never put side by side.
    let rows: Vec<&Value> = rules.iter().filter(|row| row["level"] == level).collect();
    let names = rows.iter().map(|row| Ok(text(row, "name")?.to_owned())).collect::<Result<Vec<_>, String>>()?;
    let column = |of: &str| rows.iter().map(|row| number(row, of)).collect::<Result<Vec<_>, _>>();
    let with_kernel = |of: &str| -> Result<Vec<f64>, String> {
        Ok(std::iter::once(number(kernel, of)?).chain(column(of)?).collect())
    };
    let all: Vec<String> = std::iter::once("kernel, as recorded".to_owned()).chain(names.iter().cloned()).collect();
    let warnings = value["warnings"].as_array().map(|all| all.iter().filter_map(Value::as_str).collect::<Vec<_>>());
    let note = format!("Level: {level}.");
    let mut sections = vec![
        bars(
            &format!("{name}: how often does each set of rules take the zone lock?"),
            &note,
            "holds of zone locks for 1000 allocations and frees",
            &names,
            vec![Bars::new("locks/1000 ops", column("zone_lock_acquisitions_per_1000_operations")?)],
        ),
        bars(
            &format!("{name}: how many pages do refills and drains move?"),
            &note,
            "pages",
            &all,
            vec![
                Bars::new("refill pages", with_kernel("refill_pages")?),
                Bars::new("drain pages", with_kernel("drain_pages")?),
            ],
        ),
        bars(
            &format!("{name}: in how many refills and drains?"),
            &note,
            "refills, drains",
            &all,
            vec![Bars::new("refills", with_kernel("refills")?), Bars::new("drains", with_kernel("drains")?)],
        ),
        bars(
            &format!("{name}: how many pages do all CPUs hold at most?"),
            &note,
            "pages",
            &names,
            vec![Bars::new("most held", column("held_pages_max")?)],
        ),
    ];
    let near = |row: &Value, name: &str| row[name].as_f64().map_or("-".to_owned(), |pct| format!("{pct:.2} %"));
    let nearness = |row: &&Value| {
        vec![
            format!("{}, {}", row["name"].as_str().unwrap_or_default(), row["level"].as_str().unwrap_or_default()),
            near(row, "refills_diff_pct"),
            near(row, "refill_pages_diff_pct"),
            near(row, "drain_pages_diff_pct"),
            near(row, "refills_near_pct"),
        ]
    };
    let own: Vec<&Value> = rules.iter().filter(|row| row["is_kernel"] == true).collect();
    if !own.is_empty() {
        sections.push(Section {
            question: format!("{name}: how near do the kernel's own rules come to the kernel?"),
            note: warnings.unwrap_or_default().join(" · "),
            chart: None,
            heads: strings(&["rules", "refills", "refill pages", "drain pages", "refills near"]),
            rows: own.iter().map(nearness).collect(),
        });
    }
    let facts = vec![format!(
        "Kernel rules {}; {} CPUs; {} allocations and frees in {:.3} s.",
        text(kernel, "rules")?,
        plain(number(trace, "cpus")?),
        plain(number(trace, "operations")?),
        number(trace, "duration_ns")? / 1e9
    )];
    Ok(Report { title: format!("Replay of {name}"), facts, sections })
}

/// Pages of a huge page. Specification: `linux-page-allocator.md` 1.4.
const HUGE_PAGES: f64 = 512.0;

fn advise(value: &Value) -> Result<Report, String> {
    let name = text(value, "trace")?;
    let verdict = &value["verdict"];
    let advice = match verdict["high_fraction"].as_u64() {
        None => "Verdict: change nothing".to_owned(),
        Some(fraction) => format!("Verdict: vm.percpu_pagelist_high_fraction = {fraction}"),
    };
    let rows: Vec<&Value> = list(value, "settings")?.iter().chain(list(value, "other_kernels")?).collect();
    let label = |row: &&Value| {
        let mark = if row["in_force"] == true { ", in force" } else { "" };
        Ok(format!("{}{mark}", text(row, "setting")?))
    };
    let names = rows.iter().map(label).collect::<Result<Vec<_>, String>>()?;
    let per_1000 =
        |row: &&Value| Ok(1000.0 * number(row, "zone_lock_acquisitions")? / number(row, "operations")?.max(1.0));
    let locks = rows.iter().map(per_1000).collect::<Result<Vec<_>, String>>()?;
    let column = |of: &str| rows.iter().map(|row| number(row, of)).collect::<Result<Vec<_>, _>>();
    let mut sections = vec![
        bars(
            &format!("{name}: what would each setting gain?"),
            "Numbers are values of vm.percpu_pagelist_high_fraction; names are the rules of other kernels.",
            "holds of zone locks for 1000 allocations and frees",
            &names,
            vec![Bars::new("locks/1000 ops", locks)],
        ),
        bars(
            &format!("{name}: how many pages would each setting keep from others?"),
            "Pages that CPUs hold are free to nobody else.",
            "pages",
            &names,
            vec![Bars::new("most held", column("held_pages_max")?)],
        ),
    ];
    let huge =
        rows.iter().map(|row| Some(row["high_order_pages_min"].as_f64()? / HUGE_PAGES)).collect::<Option<Vec<_>>>();
    if let Some(huge) = huge {
        sections.push(bars(
            &format!("{name}: how many huge pages would each setting leave room for?"),
            "Free blocks of orders 9 and 10 when there were fewest. Memory that stays in use throughout is not replayed, so \
             compare the bars with each other.",
            "huge pages",
            &names,
            vec![Bars::new("huge pages free", huge)],
        ));
    }
    let reasons = list(&value["sure"], "reasons")?.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; ");
    let mut facts = vec![format!("{advice}: {}.", text(verdict, "why")?)];
    for (head, member) in [("Gain", "gain"), ("Price", "price")] {
        facts.extend(value[member].as_str().map(|said| format!("{head}: {said}.")));
    }
    facts.push(format!("How sure: {} ({reasons}).", text(&value["sure"], "trust")?));
    for pattern in value["named_patterns"].as_array().into_iter().flatten() {
        facts.push(format!("Pattern {}: {}.", text(pattern, "name")?, text(pattern, "seen")?));
    }
    Ok(Report { title: format!("Advice on {name}"), facts, sections })
}

/// Values over time by what they belong to, in the order of their names.
type Series = BTreeMap<String, Vec<(f64, f64)>>;

/// A chart of lines; the busiest are drawn, the table has all.
pub(super) fn lines(question: String, note: &str, unit: &'static str, series: Series, bounds: Series) -> Section {
    let peak = |points: &[(f64, f64)]| points.iter().fold(0.0, |most: f64, point| most.max(point.1));
    let mut busiest: Vec<&String> = series.keys().collect();
    busiest.sort_by(|a, b| peak(&series[*b]).total_cmp(&peak(&series[*a])));
    let most = if bounds.is_empty() { COLOURS } else { COLOURS / 2 };
    let all = busiest.len();
    busiest.truncate(most);
    // A line on the axis says nothing, but where there is no other.
    let used = busiest.iter().filter(|name| peak(&series[**name]) > 0.0).count();
    busiest.truncate(used.max(1));
    // By their names, so that charts of the same CPUs have the same colours.
    busiest.sort();
    let drawn = busiest.iter().flat_map(|name| {
        let line = Line { name: (*name).clone(), dashed: false, points: series[*name].clone() };
        let bound = bounds.get(*name).map(|points| Line {
            name: format!("{name}, high"),
            dashed: true,
            points: points.clone(),
        });
        std::iter::once(line).chain(bound)
    });
    let chart = Chart::Lines { unit, series: drawn.collect() };
    let mut rows = Vec::new();
    for (name, points) in &series {
        let bound = bounds.get(name);
        for (i, (time, value)) in points.iter().enumerate() {
            let mut row = vec![name.clone(), format!("{time:.3}"), plain(*value)];
            row.extend(bound.map(|points| points.get(i).map_or("-".to_owned(), |point| plain(point.1))));
            rows.push(row);
        }
    }
    let mut heads = strings(&["", "seconds", unit]);
    if !bounds.is_empty() {
        heads.push("high".to_owned());
    }
    let note = match (busiest.len(), used) {
        (drawn, _) if drawn == all => note.to_owned(),
        (drawn, used) if drawn == used && used < most => {
            format!("{note} Those that were never above 0 are in the table alone.")
        }
        (drawn, _) => format!("{note} The {drawn} highest are drawn; the table has all {all}."),
    };
    Section { question, note: note.trim().to_owned(), chart: Some(chart), heads, rows }
}

fn top(values: &[Value]) -> Result<Report, String> {
    let time = |value: &Value| value["time_ns"].as_u64();
    let begin = values.iter().filter_map(time).min();
    let (mut held, mut counts, mut highs) = <(Series, Series, Series)>::default();
    let (mut refills, mut drains, mut waits) = <(Series, Series, Series)>::default();
    for (place, value) in values.iter().enumerate() {
        // Saved copies have no time; they are told by their number.
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
            // Nothing in the first look, where nothing is measured, and where there is no member for it.
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
            "How full is each CPU's pageset, and how high may it get?".to_owned(),
            "Dashed: high.",
            "pages",
            counts,
            highs,
        ),
    ];
    for (question, unit, series) in [
        ("How many pages do refills take?", "pages/s", refills),
        ("How many pages do drains give back?", "pages/s", drains),
        ("How much of its time does each CPU wait for zone locks?", "per cent", waits),
    ] {
        if !series.is_empty() {
            sections.push(lines(question.to_owned(), "", unit, series, Series::new()));
        }
    }
    let kernel = &first["kernel"];
    let release = kernel["release"].as_str().unwrap_or("not known");
    let facts = vec![format!(
        "Kernel {release}, rules {}, auto-tuning {}.",
        text(kernel, "rules")?,
        text(kernel, "auto_tuning")?
    )];
    Ok(Report { title: format!("Pagesets over {} looks", values.len()), facts, sections })
}
