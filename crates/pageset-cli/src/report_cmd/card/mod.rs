//! The card at the top of a report: the verdict, how far to trust it, three numbers, and the warnings.
//!
//! A pure function for each kind of input computes it. There is no verdict where the control fails: the replay under
//! the kernel's own rules, the first row of a simulation, the floor of a benchmark, the base row of a comparison.
//!
//! | module | the card of |
//! | --- | --- |
//! | `replay` | a recording, and its replays |
//! | `advise` | an advice, on one recording or on several |
//! | `simulation` | a run or a sweep, and a study |
//! | `compare` | a comparison with published values |
//! | `bench` | a benchmark |
//! | `looks` | the output of `pageset top` |

pub(super) mod advise;
pub(super) mod bench;
pub(super) mod compare;
pub(super) mod looks;
pub(super) mod replay;
pub(super) mod simulation;

use pageset_trace::advise::{Sure, Trust};

/// The card of one input.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Card {
    /// What the card is about.
    pub(super) about: String,
    pub(super) verdict: Verdict,
    /// How far to trust the verdict, and why.
    pub(super) sure: Sure,
    /// The most important numbers.
    pub(super) figures: [Figure; 3],
    /// What weakens the result.
    pub(super) warnings: Vec<String>,
}

/// What to conclude.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) kind: Kind,
    /// The verdict in a sentence without its full stop.
    pub(super) text: String,
    /// The reason in a sentence without its full stop; may be empty.
    pub(super) why: String,
}

/// The kind of a verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Something is better or worse than the control.
    Differs,
    /// Nothing has to change, or nothing differs from the control.
    Same,
    /// The control fails or is missing.
    None,
}

impl Kind {
    /// The name in the page's style.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Kind::Differs => "differs",
            Kind::Same => "same",
            Kind::None => "none",
        }
    }
}

impl Verdict {
    fn new(kind: Kind, text: impl Into<String>, why: impl Into<String>) -> Verdict {
        Verdict { kind, text: text.into(), why: why.into() }
    }

    /// No verdict, and why.
    fn none(why: impl Into<String>) -> Verdict {
        Verdict::new(Kind::None, "No verdict", why)
    }
}

/// A number with its unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figure {
    pub(super) name: String,
    /// The number; `None` if it is unknown.
    pub(super) value: Option<f64>,
    pub(super) unit: &'static str,
    /// What the number is compared with, or where it is from; may be empty.
    pub(super) note: String,
}

impl Figure {
    fn new(name: impl Into<String>, value: impl Into<Option<f64>>, unit: &'static str) -> Figure {
        Figure { name: name.into(), value: value.into(), unit, note: String::new() }
    }

    fn with_note(self, note: impl Into<String>) -> Figure {
        Figure { note: note.into(), ..self }
    }

    /// A number next to that of a control.
    fn against(name: impl Into<String>, value: f64, unit: &'static str, (of, control): (&str, f64)) -> Figure {
        let times = times(value, control).map(|times| format!(", {times} times")).unwrap_or_default();
        let note = if value == control { format!("as {of}") } else { format!("{of}: {}{times}", number(control)) };
        Figure::new(name, value, unit).with_note(note)
    }
}

/// The sentence with a capital letter.
fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// A number of the card.
pub(super) fn number(value: f64) -> String {
    super::draw::plain(value)
}

/// A ratio of two numbers, as text; `None` if there is none.
pub(super) fn times(value: f64, control: f64) -> Option<String> {
    let ratio = value / control;
    (control > 0.0 && ratio.is_finite()).then(|| match ratio {
        large if large >= 100.0 => number(large.round()),
        large if large >= 10.0 => format!("{large:.1}"),
        0.0 => "0".to_owned(),
        small if small < 0.01 => "less than 0.01".to_owned(),
        ratio => format!("{ratio:.2}"),
    })
}

/// The trust that all conditions leave. Each condition is a fault, the trust it leaves, and its description. Without
/// faults, the trust is high for the given reason.
fn trust<const N: usize>(faults: [(bool, Trust, String); N], without: &str) -> Sure {
    let found: Vec<(Trust, String)> =
        faults.into_iter().filter(|fault| fault.0).map(|(_, trust, reason)| (trust, reason)).collect();
    let trust = found.iter().map(|fault| fault.0).min().unwrap_or(Trust::High);
    let mut reasons: Vec<String> = found.into_iter().map(|fault| fault.1).collect();
    if reasons.is_empty() {
        reasons.push(without.to_owned());
    }
    Sure { trust, reasons }
}

#[cfg(test)]
mod tests;
