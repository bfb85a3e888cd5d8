//! The card of an advice: its verdict, trust, and the numbers of the setting; and that of an advice over several recordings.

use std::path::Path;

use pageset_trace::advise::{self, Advice, AdviceSet};
use pageset_trace::verdict::{Basis, Kind};

use super::{Card, Figure, Verdict, capital, deciding_figures};

/// The card of an advice. `file` is the recording, if it is known.
pub(in super::super) fn advise(advice: &Advice, file: Option<&Path>) -> Card {
    let warnings = advice.kernel.disagreement.iter().cloned();
    let unknown = (!advice.kernel.known && advice.kernel.disagreement.is_none()).then(|| {
        format!("the recording does not name its kernel; it is taken to have the rules of {}", advice.kernel.rules)
    });
    Card {
        about: format!("Advice on {}", advice.trace),
        figures: figures(advice),
        verdict: sentence(&advice.verdict),
        sure: (&advice.sure).into(),
        warnings: warnings.chain(unknown).collect(),
        next: next(&advice.verdict, file),
    }
}

/// The command that follows from a verdict.
fn next(verdict: &advise::Verdict, file: Option<&Path>) -> Option<String> {
    Some(match (verdict.basis, verdict.sysctl()) {
        (_, Some((name, value))) => format!("sudo sysctl -w {name}={value}"),
        (Basis::NotFelt | Basis::Empty, _) => "sudo pageset top".to_owned(),
        (Basis::EventsLost, _) => "sudo pageset record --buffer 256M -o again.pstrace -- COMMAND".to_owned(),
        (Basis::ControlFailed | Basis::Mixed, _) => {
            "sudo pageset record --empty-lists -o again.pstrace -- COMMAND".to_owned()
        }
        _ => format!("pageset replay {} --rules kernel,linux-5.18,linux-6.18", file?.display()),
    })
}

pub(in super::super) fn joint(set: &AdviceSet) -> Card {
    let mut sentence = sentence(&set.verdict);
    for (name, said) in [("Gain", &set.gain), ("Price", &set.price)] {
        if let Some(said) = said {
            sentence.why += &format!(". {name}: {said}");
        }
    }
    let used: Vec<&Advice> = set.used().collect();
    let left_out = set.left_out.iter().map(|name| format!("{name} is left out: the replay does not follow the kernel"));
    let operations: u64 = used.iter().map(|advice| advice.operations).sum();
    let seconds = used.iter().map(|advice| advice.duration_ns).sum::<u64>() as f64 / 1e9;
    Card {
        about: "All recordings together".to_owned(),
        figures: [
            Figure::new("recordings", used.len() as f64, "recordings").with_note("that the verdict uses"),
            Figure::new("allocations and frees", operations as f64, "operations"),
            Figure::new("recorded", seconds, "s"),
        ],
        verdict: sentence,
        sure: (&set.sure()).into(),
        warnings: left_out.collect(),
        next: next(&set.verdict, None),
    }
}

/// A verdict of `advise` as that of a card.
fn sentence(verdict: &advise::Verdict) -> Verdict {
    match (verdict.kind(), verdict.sysctl()) {
        (Kind::None, _) => Verdict::none(capital(&verdict.why)),
        (kind, Some((name, value))) => Verdict::new(kind, format!("Set {name} = {value}"), capital(&verdict.why)),
        (kind, None) => Verdict::new(kind, capital(&verdict.text()), capital(&verdict.why)),
    }
}

fn figures(advice: &Advice) -> [Figure; 3] {
    let now = advice.settings.iter().find(|setting| setting.in_force);
    let (Some(now), true) = (now, advice.rows_follow()) else {
        let seconds = advice.duration_ns as f64 / 1e9;
        return [
            Figure::new("allocations and frees", advice.operations as f64, "operations"),
            Figure::new("recorded", seconds, "s"),
            Figure::new("CPUs", advice.cpus as f64, "CPUs"),
        ];
    };
    let then = advice.verdict.chosen(advice.settings.iter().chain(advice.scales()));
    match then {
        Some(then) => deciding_figures(Some(then), "", Some(("now", now))),
        None => deciding_figures(Some(now), "", None).map(|figure| figure.with_note("in force")),
    }
}
