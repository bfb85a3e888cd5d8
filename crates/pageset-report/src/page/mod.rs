//! The content of a report, and its form as HTML, SVG and Markdown.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`draw`] | the layout of charts |
//! | [`sections`] | a question, its chart and its data |
//! | [`card`] | the verdict, how far to trust it, three numbers, warnings |
//! | `data` | the data of charts that the page's script reads |
//! | `render` | cards and sections as HTML, SVG and Markdown |

pub mod card;
mod data;
pub mod draw;
pub(crate) mod render;
pub mod sections;

use self::card::Card;
use self::draw::Chart;

/// The content of a report.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The title.
    pub title: String,
    /// One for each input, and for each result in it.
    pub cards: Vec<Card>,
    /// What was measured, and on which machine.
    pub facts: Vec<String>,
    /// The questions.
    pub sections: Vec<Section>,
}

/// A question, its answer as a chart, and the data.
#[derive(Clone, Debug)]
pub struct Section {
    /// The question.
    pub question: String,
    /// An explanation or a weakness of the answer; may be empty.
    pub note: String,
    /// The chart.
    pub chart: Option<Chart>,
    /// The headings of the data.
    pub heads: Vec<String>,
    /// The data.
    pub rows: Vec<Vec<String>>,
}

/// Joins the reports of all parts of an input into one.
///
/// # Errors
/// There is no part, or a part has no report.
pub fn joined<T>(all: impl IntoIterator<Item = T>, of: fn(T) -> Result<Report, String>) -> Result<Report, String> {
    let mut more = 0;
    let mut report: Option<Report> = None;
    for part in all {
        let part = of(part)?;
        match &mut report {
            None => report = Some(part),
            Some(report) => {
                more += 1;
                report.facts.push(part.title);
                report.cards.extend(part.cards);
                report.facts.extend(part.facts);
                report.sections.extend(part.sections);
            }
        }
    }
    let mut report = report.ok_or("the input is empty")?;
    if more > 0 {
        report.title += &format!(" and {more} more");
    }
    Ok(report)
}
