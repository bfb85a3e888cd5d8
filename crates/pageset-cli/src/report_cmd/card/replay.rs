//! The card of the replays of a recording.

use pageset_trace::measure::ReplayResult;
use pageset_trace::verdict::Kind;

use super::{Card, Figure, Verdict, capital, deciding_figures};

pub(in super::super) fn replay(result: &ReplayResult) -> Card {
    let verdict = result.verdict();
    let figures = match verdict.rows().filter(|_| verdict.kind() != Kind::None) {
        Some((best, against)) => {
            let control = (best.name != against.name).then_some((against.name.as_str(), against));
            deciding_figures(Some(best), &format!(", {}", best.name), control)
        }
        None => counted(result),
    };
    let shared = result.warnings.iter().map(ToString::to_string);
    let own = result.named().flat_map(|row| row.warnings.iter().map(move |warning| (row, warning)));
    let own = own.filter(|(_, warning)| !result.warnings.contains(warning));
    Card {
        about: format!("Replay of {}, level {}", result.trace.name, result.level.name()),
        verdict: match verdict.kind() {
            Kind::None if verdict.own.is_none() => Verdict::none(capital(&verdict.sure.reasons[0].text)),
            // A sentence that begins with a name keeps its letters.
            kind if verdict.decided.is_none() => Verdict::new(kind, verdict.text(), verdict.why()),
            kind => Verdict::new(kind, capital(&verdict.text()), capital(&verdict.why())),
        },
        sure: (&verdict.sure).into(),
        figures,
        warnings: shared.chain(own.map(|(row, warning)| format!("{}: {warning}", row.name))).collect(),
        next: (result.trace.form == "pstrace").then(|| format!("pageset advise {}.pstrace", result.trace.name)),
    }
}

/// What the kernel did, where no replay is to be trusted or compared.
fn counted(result: &ReplayResult) -> [Figure; 3] {
    let totals = &result.kernel.totals;
    let figure = |name: &str, value: u64, unit| Figure::new(name, value as f64, unit).with_note("as recorded");
    [
        figure("refills", totals.refills, "refills"),
        figure("drains", totals.drains, "drains"),
        figure("moved by both", totals.refill_pages + totals.drain_pages, "pages"),
    ]
}
