//! The card of the output of `pageset top`.

use pageset_trace::advise::Trust;

use super::{Card, Figure, Kind, Verdict, number, trust};

/// The share of a CPU's time that is worth a look. A guess: the gain of a perfect remedy. Unit: percent.
const WAIT_PCT_MIN: f64 = 1.0;

/// What all looks together show.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct Looks {
    pub(in super::super) looks: usize,
    /// From the first look to the last.
    pub(in super::super) seconds: f64,
    pub(in super::super) managed: f64,
    /// The most pages in all pagesets together.
    pub(in super::super) held_max: f64,
    /// The most pages that all CPUs together refilled and drained a second; `None` if they were not counted.
    pub(in super::super) pages_per_s_max: Option<f64>,
    /// The largest share of its time that a CPU waited for zone locks, in percent, and the CPU.
    pub(in super::super) wait_pct_max: Option<(f64, u64)>,
    /// What the looks could not see.
    pub(in super::super) missing: Vec<String>,
}

/// The card of looks. The control is that waits are measured: without them there is no verdict.
pub(in super::super) fn looks(looks: &Looks) -> Card {
    let verdict = match looks.wait_pct_max {
        None => Verdict::none("No waits for zone locks were measured; try sudo pageset top --json"),
        Some((pct, cpu)) if pct >= WAIT_PCT_MIN => Verdict::new(
            Kind::Differs,
            format!("CPU {cpu} waits up to {} % of its time for zone locks", number(pct)),
            "The command pageset advise --live 5 says what helps",
        ),
        Some((pct, _)) => Verdict::new(
            Kind::Same,
            "No CPU waits noticeably for zone locks",
            format!("At most {} % of its time in any interval", number(pct)),
        ),
    };
    let share = 100.0 * looks.held_max / looks.managed.max(1.0);
    let figures = [
        Figure::new("longest wait for zone locks", looks.wait_pct_max.map(|wait| wait.0), "% of a CPU's time"),
        Figure::new("refilled and drained, at most", looks.pages_per_s_max, "pages/s").with_note("all CPUs together"),
        Figure::new("most held", looks.held_max, "pages").with_note(format!("{} % of the memory", number(share))),
    ];
    let sure = trust(
        [
            (looks.looks < 3, Trust::Low, format!("only {} looks", looks.looks)),
            ((3..10).contains(&looks.looks), Trust::Fair, format!("only {} looks", looks.looks)),
            (looks.pages_per_s_max.is_none(), Trust::Low, "refills and drains were not counted".to_owned()),
            (looks.wait_pct_max.is_none(), Trust::Low, "waits were not measured".to_owned()),
        ],
        "waits, refills and drains were counted in all intervals",
    );
    let about = format!("{} looks at pagesets over {} s", looks.looks, number(looks.seconds));
    Card { about, verdict, sure, figures, warnings: looks.missing.clone() }
}
