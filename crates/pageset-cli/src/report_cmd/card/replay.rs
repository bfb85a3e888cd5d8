//! The card of the replays of a recording.

use pageset_trace::measure::{ReplayResult, Replayed};
use pageset_trace::verdict::Kind;

use super::{Card, Figure, Verdict, capital};

/// The card of the replays of a recording.
pub(in super::super) fn replay(result: &ReplayResult) -> Card {
    let verdict = result.verdict();
    let figures = match verdict.rows().filter(|_| verdict.kind() != Kind::None) {
        Some((best, against)) => compared(best, against),
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

/// The numbers of the winner, next to those of the rules that it is compared with.
fn compared(best: &Replayed, against: &Replayed) -> [Figure; 3] {
    let figure = |name: &str, unit, of: fn(&Replayed) -> f64| {
        let name = format!("{name}, {}", best.name);
        match best.name == against.name {
            true => Figure::new(name, of(best), unit),
            false => Figure::against(name, of(best), unit, (&against.name, of(against))),
        }
    };
    [
        figure("zone-lock holds", "per 1000 operations", |row| row.zone_lock_acquisitions_per_1000_operations),
        figure("most held", "pages", |row| row.held_pages_max as f64),
        figure("longest hold", "cache lines", |row| row.longest_hold_lines as f64),
    ]
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
