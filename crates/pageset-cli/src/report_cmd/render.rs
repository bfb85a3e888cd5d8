//! A report as HTML, SVG and Markdown.

use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;

use super::draw::drawing;
use super::{Report, Section};
use crate::error::{Exit, Failure};

const STYLE: &str = include_str!("templates/chart.css");

fn templates() -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    // Escape all text that is not marked safe, also in SVG.
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("report.html", include_str!("templates/report.html"))?;
    environment.add_template("chart.svg", include_str!("templates/chart.svg"))?;
    Ok(environment)
}

/// The failure for an error in our templates. Such an error is a bug, and any test that makes a report finds it.
fn broken(error: minijinja::Error) -> Failure {
    Failure::new(Exit::Failed, format!("cannot write the report: {error:#}"))
}

/// `chart-1`, `chart-2`, …
fn id(place: usize) -> String {
    format!("chart-{}", place + 1)
}

fn svg(environment: &Environment<'_>, place: usize, section: &Section, alone: bool) -> Result<Option<String>, Failure> {
    let Some(chart) = &section.chart else { return Ok(None) };
    let question = &section.question;
    let drawing = Value::from(Serde(drawing(chart)));
    let context = context! { id => id(place), question, drawing, alone, style => STYLE };
    Ok(Some(environment.get_template("chart.svg").and_then(|t| t.render(context)).map_err(broken)?))
}

/// The name and the text of each chart's file.
pub(super) fn charts(report: &Report) -> Result<Vec<(String, String)>, Failure> {
    let environment = templates().map_err(broken)?;
    let mut charts = Vec::new();
    for (place, section) in report.sections.iter().enumerate() {
        if let Some(svg) = svg(&environment, place, section, true)? {
            charts.push((format!("{}.svg", id(place)), svg));
        }
    }
    Ok(charts)
}

#[derive(Serialize)]
struct Drawn<'r> {
    id: String,
    question: &'r str,
    note: &'r str,
    svg: Option<String>,
    heads: &'r [String],
    rows: &'r [Vec<String>],
}

/// The page.
pub(super) fn html(report: &Report) -> Result<String, Failure> {
    let environment = templates().map_err(broken)?;
    let mut sections = Vec::new();
    for (place, section) in report.sections.iter().enumerate() {
        sections.push(Drawn {
            id: format!("question-{}", place + 1),
            question: &section.question,
            note: &section.note,
            svg: svg(&environment, place, section, false)?,
            heads: &section.heads,
            rows: &section.rows,
        });
    }
    let footer = format!("pageset {}. `pageset explain NAME` describes each column.", env!("CARGO_PKG_VERSION"));
    let sections = Value::from(Serde(sections));
    let context =
        context! { title => report.title.as_str(), facts => report.facts.clone(), sections, style => STYLE, footer };
    environment.get_template("report.html").and_then(|t| t.render(context)).map_err(broken)
}

/// The tables, without charts.
pub(super) fn markdown(report: &Report) -> String {
    let escaped = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    let row =
        |cells: &[String]| format!("| {} |\n", cells.iter().map(|cell| escaped(cell)).collect::<Vec<_>>().join(" | "));
    let mut text = format!("# {}\n", report.title);
    for fact in &report.facts {
        text += &format!("\n{fact}\n");
    }
    for section in &report.sections {
        text += &format!("\n## {}\n\n", section.question);
        if !section.note.is_empty() {
            text += &format!("{}\n\n", section.note);
        }
        text += &row(&section.heads);
        let rule: Vec<String> =
            (0..section.heads.len()).map(|i| if i == 0 { "---" } else { "---:" }.to_owned()).collect();
        text += &row(&rule);
        section.rows.iter().for_each(|cells| text += &row(cells));
    }
    text
}
