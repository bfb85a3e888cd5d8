//! The cards of a recording and of its replays.

use pageset_trace::advise::{Basis, Seen, Sure, Trust, failure, is_noticeable, judge};
use pageset_trace::measure::{ReplayResult, Replayed};
use pageset_trace::replay::Totals;
use pageset_trace::replay::agreement::deviations;

use super::{Card, Figure, Kind, Verdict, capital, number, times, trust};

/// The smallest difference between two replays that a verdict names. A guess: the largest limit of
/// `pageset replay --check` on the number of refills. Unit: percent.
const DIFFERENCE_MIN_PCT: f64 = 5.0;

/// The name of the control in figures.
const OWN: &str = "the kernel's own rules";

/// The card of the replays of a recording. The control is the replay under the kernel's own rules.
pub(in super::super) fn replay(result: &ReplayResult) -> Card {
    let rows: Vec<&Replayed> = result.named().collect();
    let control = rows.iter().find(|row| row.is_kernel).copied();
    let (best, verdict) = match control {
        None => (None, Verdict::none("The kernel's own rules are not among the rows; try --rules kernel,NAME")),
        Some(own) => match failure(&result.kernel.totals, &own.totals) {
            Some(failed) => (None, Verdict::none(capital(&format!("{failed}, so the other rows say nothing either")))),
            None => judged(result, own, &rows),
        },
    };
    let figures = match control.filter(|_| verdict.kind != Kind::None) {
        Some(own) => compared(own, best.unwrap_or(own)),
        None => counted(result),
    };
    let sure = control.map_or_else(
        || Sure { trust: Trust::Low, reasons: vec!["nothing shows whether a replay follows this kernel".to_owned()] },
        |own| follows(result, own),
    );
    let about = format!("Replay of {}, level {}", result.trace.name, result.level.name());
    let mut warnings = result.warnings.clone();
    let own_warnings = rows.iter().flat_map(|row| row.warnings.iter().map(move |warning| (row, warning)));
    let of_rows = own_warnings.filter(|(_, warning)| !result.warnings.contains(warning));
    warnings.extend(of_rows.map(|(row, warning)| format!("{}: {warning}", row.name)));
    Card { about, verdict, sure, figures, warnings }
}

/// The rules with the fewest lock holds among those that lack memory no more often than the control, and the verdict.
fn judged<'r>(result: &ReplayResult, own: &Replayed, rows: &[&'r Replayed]) -> (Option<&'r Replayed>, Verdict) {
    let short = |row: &Replayed| row.failed + row.below_min;
    let locks = |row: &Replayed| row.zone_lock_acquisitions_per_1000_operations;
    let others: Vec<&Replayed> =
        rows.iter().filter(|row| !row.is_kernel && short(row) <= short(own)).copied().collect();
    let Some(best) = others.iter().min_by(|a, b| locks(a).total_cmp(&locks(b))).copied() else {
        let text = match rows.len() {
            1 => "The replay follows the kernel".to_owned(),
            _ => "All other sets of rules run short of memory more often than the kernel's own".to_owned(),
        };
        return (None, Verdict::new(Kind::Same, text, "Only the kernel's own rules can be judged"));
    };
    let noise_pct = noise_pct(&result.kernel.totals, &own.totals);
    let change_pct = 100.0 * (locks(best) / locks(own).max(1e-9) - 1.0);
    if change_pct >= -noise_pct {
        let text = match others.len() {
            1 => format!("{} takes the zone lock no less often than {OWN}", best.name),
            several => format!("None of {several} other sets of rules takes the zone lock less often than {OWN}"),
        };
        let why = format!(
            "{} comes nearest: {} holds for 1000 allocations and frees against {}; less than {noise_pct:.0} % apart counts \
             as equal",
            best.name,
            number(locks(best)),
            number(locks(own))
        );
        return (Some(best), Verdict::new(Kind::Same, text, why));
    }
    let ratio = times(locks(best), locks(own)).unwrap_or_default();
    let text = format!("{} takes the zone lock {ratio} times as often as {OWN}", best.name);
    let why = format!(
        "{} holds for 1000 allocations and frees instead of {}; all pagesets together hold up to {} pages instead of {}",
        number(locks(best)),
        number(locks(own)),
        number(best.held_pages_max as f64),
        number(own.held_pages_max as f64)
    );
    (Some(best), Verdict::new(Kind::Differs, text, why))
}

/// The difference that the control itself has from the kernel, at least [`DIFFERENCE_MIN_PCT`].
fn noise_pct(kernel: &Totals, own: &Totals) -> f64 {
    let own = deviations(kernel, own).map(|deviation| match deviation.kernel {
        0 => 0.0,
        kernel => 100.0 * deviation.kernel.abs_diff(deviation.replay) as f64 / kernel as f64,
    });
    own.into_iter().fold(DIFFERENCE_MIN_PCT, f64::max)
}

fn compared(own: &Replayed, best: &Replayed) -> [Figure; 3] {
    let figure = |name: &str, unit, of: fn(&Replayed) -> f64| {
        Figure::against(format!("{name}, {}", best.name), of(best), unit, (OWN, of(own)))
    };
    [
        figure("zone-lock holds", "per 1000 operations", |row| row.zone_lock_acquisitions_per_1000_operations),
        figure("most held", "pages", |row| row.held_pages_max as f64),
        figure("longest hold", "cache lines", |row| row.longest_hold_lines as f64),
    ]
}

/// What the kernel did, where no replay is to be trusted.
fn counted(result: &ReplayResult) -> [Figure; 3] {
    let totals = &result.kernel.totals;
    let figure = |name: &str, value: u64, unit| Figure::new(name, value as f64, unit).with_note("as recorded");
    [
        figure("refills", totals.refills, "refills"),
        figure("drains", totals.drains, "drains"),
        figure("moved by both", totals.refill_pages + totals.drain_pages, "pages"),
    ]
}

/// The trust in the replays of a recording.
fn follows(result: &ReplayResult, own: &Replayed) -> Sure {
    let near_mark = result.warnings.iter().any(|warning| warning.ends_with("[near-high-mark]"));
    judge(&Seen {
        kernel: result.kernel.totals,
        replay: own.totals,
        basis: Basis::NoGain,
        lost_events: result.trace.facts.lost_events(),
        near_mark,
        kernel_known: result.kernel.known,
        other_watermarks: false,
    })
}

/// What a recording shows of the kernel.
pub(in super::super) struct Recorded {
    pub(in super::super) name: String,
    pub(in super::super) kernel: Totals,
    pub(in super::super) seconds: f64,
    pub(in super::super) cpus: usize,
    pub(in super::super) operations: u64,
    /// The most pages in pagesets in any snapshot.
    pub(in super::super) held_max: Option<u64>,
    pub(in super::super) kernel_known: bool,
    pub(in super::super) lost_events: bool,
    pub(in super::super) warnings: Vec<String>,
}

/// The smallest recording of which a rate means something: the timer work runs once a second. Unit: seconds.
const SECONDS_MIN: f64 = 1.0;

/// The card of a recording. Its control is its own completeness: without all events there is no verdict.
pub(in super::super) fn recording(recorded: Recorded) -> Card {
    let Recorded { name, kernel, seconds, cpus, operations, held_max, kernel_known, lost_events, warnings } = recorded;
    let holds = kernel.refills + kernel.drains;
    let per_cpu_s = holds as f64 / seconds.max(1e-9) / cpus.max(1) as f64;
    let verdict = match (lost_events, operations) {
        (true, _) => Verdict::none("Events were lost, so the counts are too small by an unknown amount"),
        (_, 0) => Verdict::none("There are no allocations and frees in the recording"),
        _ if is_noticeable(per_cpu_s) => Verdict::new(
            Kind::Differs,
            "This load takes zone locks often enough to look further",
            format!(
                "Each CPU refills or drains {} times a second; the command pageset advise says what helps",
                number(per_cpu_s)
            ),
        ),
        _ => Verdict::new(
            Kind::Same,
            "This load takes zone locks too rarely for any setting to be noticed",
            format!("Each CPU refills or drains {} times a second", number(per_cpu_s)),
        ),
    };
    let sure = trust(
        [
            (lost_events, Trust::Low, "events were lost".to_owned()),
            (seconds < SECONDS_MIN, Trust::Fair, format!("the recording covers only {seconds:.2} s")),
            (!kernel_known, Trust::Fair, "the recording does not name its kernel".to_owned()),
        ],
        "the kernel's own events, and none were lost",
    );
    let per_1000 = 1000.0 * holds as f64 / operations.max(1) as f64;
    let figures = [
        Figure::new("refills and drains", per_cpu_s, "per CPU and second").with_note("each holds the zone lock"),
        Figure::new("refills and drains", per_1000, "per 1000 operations")
            .with_note("holds that no event shows are not counted"),
        Figure::new("most held", held_max.map(|pages| pages as f64), "pages").with_note("in the kernel's snapshots"),
    ];
    Card { about: format!("Recording {name}"), verdict, sure, figures, warnings }
}
