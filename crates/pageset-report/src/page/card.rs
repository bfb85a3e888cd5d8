//! The card at the top of a report: the verdict, how far to trust it, three numbers, and the warnings.
//!
//! A pure function for each kind of input computes it. There is no verdict where the control fails: the replay under
//! the kernel's own rules, the first row of a simulation, the floor of a benchmark, the base row of a comparison.

use std::borrow::Cow;
use std::iter::repeat;

use pageset_columns::Column;
use pageset_trace::verdict;
pub use pageset_trace::verdict::{Kind, Trust};
use schemars::JsonSchema;
use serde::Serialize;

use crate::columns::deciding;

/// The card of one input.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// What the card is about.
    pub about: String,
    /// What to conclude.
    pub verdict: Verdict,
    /// How far to trust the verdict, and why.
    pub sure: Sure,
    /// The most important numbers.
    pub figures: [Figure; 3],
    /// What weakens the result.
    pub warnings: Vec<String>,
    /// The next command to run.
    pub next: Option<String>,
}

impl Card {
    /// The verdict, why, and how far to trust it: the first line of a text.
    pub fn answer(&self) -> String {
        let Verdict { text, why, .. } = &self.verdict;
        let reason = self.sure.reasons.first().map(|reason| format!(": {reason}")).unwrap_or_default();
        let why = if why.is_empty() { String::new() } else { format!(" {why}.") };
        format!("{text}.{why} Trust {}{reason}.\n", self.sure.trust.name())
    }
}

/// What to conclude.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Its kind.
    pub kind: Kind,
    /// The verdict in a sentence without its full stop.
    pub text: String,
    /// The reason in a sentence without its full stop; may be empty.
    pub why: String,
}

/// How far to trust a verdict, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Sure {
    /// The trust.
    pub trust: Trust,
    /// The reasons: those against it come first.
    pub reasons: Vec<String>,
}

impl From<&verdict::Sure> for Sure {
    fn from(sure: &verdict::Sure) -> Sure {
        Sure { trust: sure.trust, reasons: sure.reasons.iter().map(ToString::to_string).collect() }
    }
}

impl Verdict {
    /// A verdict of a kind.
    pub fn new(kind: Kind, text: impl Into<String>, why: impl Into<String>) -> Verdict {
        Verdict { kind, text: text.into(), why: why.into() }
    }

    /// No verdict, and why.
    pub fn none(why: impl Into<String>) -> Verdict {
        Verdict::new(Kind::None, "No verdict", why)
    }
}

/// A number with its unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// What the number is.
    pub name: String,
    /// The number; `None` if it is unknown.
    pub value: Option<f64>,
    /// The unit.
    pub unit: Cow<'static, str>,
    /// What the number is compared with, or where it is from; may be empty.
    pub note: String,
}

impl Figure {
    /// A number without a note.
    pub fn new(name: impl Into<String>, value: impl Into<Option<f64>>, unit: impl Into<Cow<'static, str>>) -> Figure {
        Figure { name: name.into(), value: value.into(), unit: unit.into(), note: String::new() }
    }

    /// Adds a note.
    pub fn with_note(self, note: impl Into<String>) -> Figure {
        Figure { note: note.into(), ..self }
    }

    /// A number next to that of a control.
    pub fn against(
        name: impl Into<String>,
        value: f64,
        unit: impl Into<Cow<'static, str>>,
        (of, control): (&str, f64),
    ) -> Figure {
        let times = times(value, control).map(|times| format!(", {times} times")).unwrap_or_default();
        let note = if value == control { format!("as {of}") } else { format!("{of}: {}{times}", number(control)) };
        Figure::new(name, value, unit).with_note(note)
    }
}

/// The numbers of a row that decide, next to those of its control. `of` completes the names of those that are known.
pub fn deciding_figures<R: JsonSchema + Serialize>(
    row: Option<&R>,
    of: &str,
    control: Option<(&str, &R)>,
) -> [Figure; 3] {
    let controls = control.map(|(_, row)| deciding(Some(row))).unwrap_or_default();
    let mut values = deciding(row).into_iter().zip(controls.into_iter().map(|(_, value)| value).chain(repeat(None)));
    std::array::from_fn(|_| {
        let Some(((Column { figure: name, unit, .. }, value), against)) = values.next() else {
            return Figure::default();
        };
        let Some(value) = value else { return Figure::new(name, None, unit) };
        let name = format!("{name}{of}");
        match control.zip(against) {
            Some(((of, _), against)) => Figure::against(name, value, unit, (of, against)),
            None => Figure::new(name, value, unit),
        }
    })
}

/// The sentence with a capital letter.
pub fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// A number of the card.
pub fn number(value: f64) -> String {
    super::draw::plain(value)
}

/// A ratio of two numbers, as text; `None` if there is none.
pub fn times(value: f64, control: f64) -> Option<String> {
    let ratio = value / control;
    (control > 0.0 && ratio.is_finite()).then(|| match ratio {
        large if large >= 100.0 => number(large.round()),
        large if large >= 10.0 => format!("{large:.1}"),
        0.0 => "0".to_owned(),
        small if small < 0.01 => "less than 0.01".to_owned(),
        ratio => format!("{ratio:.2}"),
    })
}

/// The trust that faults leave, with their descriptions. Without faults, the trust is high for the given reason.
pub fn sure(faults: impl IntoIterator<Item = (Trust, impl ToString)>, without: &str) -> Sure {
    let (trusts, mut reasons): (Vec<Trust>, Vec<String>) =
        faults.into_iter().map(|(trust, reason)| (trust, reason.to_string())).unzip();
    if reasons.is_empty() {
        reasons.push(without.to_owned());
    }
    Sure { trust: trusts.into_iter().min().unwrap_or(Trust::High), reasons }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_three_digits_at_most() {
        for (value, control, text) in [
            (1.0, 2.0, Some("0.50")),
            (2.0, 2.0, Some("1.00")),
            (25.0, 2.0, Some("12.5")),
            (250_000.0, 2.0, Some("125,000")),
            (0.0, 2.0, Some("0")),
            (0.001, 2.0, Some("less than 0.01")),
            (1.0, 0.0, None),
            (0.0, 0.0, None),
        ] {
            assert_eq!(times(value, control).as_deref(), text, "{value} {control}");
        }
    }

    #[test]
    fn figures_are_compared_with_their_control() {
        let figure = |value, control| Figure::against("most held", value, "pages", ("kernel", control)).note;
        assert_eq!(figure(1500.0, 3000.0), "kernel: 3,000, 0.50 times");
        assert_eq!(figure(3000.0, 3000.0), "as kernel");
        assert_eq!(figure(5.0, 0.0), "kernel: 0");
    }

    #[test]
    fn the_worst_fault_decides_and_all_are_listed() {
        let judged = |faults: &[(Trust, &str)]| {
            let sure = sure(faults.iter().copied(), "all is well");
            (sure.trust, sure.reasons.join("; "))
        };
        assert_eq!(judged(&[]), (Trust::High, "all is well".to_owned()));
        assert_eq!(judged(&[(Trust::Fair, "few")]), (Trust::Fair, "few".to_owned()));
        assert_eq!(judged(&[(Trust::Fair, "few"), (Trust::Low, "lost")]), (Trust::Low, "few; lost".to_owned()));
    }
}
