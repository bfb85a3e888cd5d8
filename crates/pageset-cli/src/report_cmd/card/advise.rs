//! The card of an advice: its own verdict, trust, and the numbers of the setting.

use pageset_trace::advise::{Advice, Basis, HUGE_PAGES, Setting};

use super::{Card, Figure, Kind, Verdict, capital};

/// The card of an advice.
pub(in super::super) fn advise(advice: &Advice) -> Card {
    let verdict = &advice.verdict;
    let sentence = match (verdict.basis, verdict.sysctl()) {
        (Basis::ControlFailed, _) => Verdict::none(capital(&verdict.why)),
        (_, Some((name, value))) => Verdict::new(Kind::Differs, format!("Set {name} = {value}"), capital(&verdict.why)),
        (_, None) => Verdict::new(Kind::Same, "Change nothing", capital(&verdict.why)),
    };
    let warnings = advice.kernel.disagreement.iter().cloned();
    let unknown = (!advice.kernel.known && advice.kernel.disagreement.is_none()).then(|| {
        format!("the recording does not name its kernel; it is taken to have the rules of {}", advice.kernel.rules)
    });
    Card {
        about: format!("Advice on {}", advice.trace),
        figures: figures(advice, sentence.kind),
        verdict: sentence,
        sure: advice.sure.clone(),
        warnings: warnings.chain(unknown).collect(),
    }
}

fn figures(advice: &Advice, kind: Kind) -> [Figure; 3] {
    let now = advice.settings.iter().find(|setting| setting.in_force);
    let (Some(now), true) = (now, kind != Kind::None) else {
        let seconds = advice.duration_ns as f64 / 1e9;
        return [
            Figure::new("allocations and frees", advice.operations as f64, "operations"),
            Figure::new("recorded", seconds, "s"),
            Figure::new("CPUs", advice.cpus as f64, "CPUs"),
        ];
    };
    let then = advice.verdict.chosen(advice.settings.iter().chain(advice.scales()));
    let figure = |name: &str, unit, of: fn(&Setting) -> Option<f64>| match (of(now), then.and_then(of)) {
        (Some(now), Some(then)) => Figure::against(name, then, unit, ("now", now)),
        (now, _) => Figure::new(name, now, unit).with_note("in force"),
    };
    [
        figure("zone-lock holds", "per 1000 operations", |row| Some(row.locks_per_1000())),
        figure("most held", "pages", |row| Some(row.held_pages_max as f64)),
        figure("room for huge pages", "huge pages", |row| {
            row.high_order_pages_min.map(|pages| (pages / HUGE_PAGES) as f64)
        }),
    ]
}
