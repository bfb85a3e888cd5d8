//! The card of the output of `pageset top`.

use pageset_trace::verdict::Trust;
use pageset_trace::verdict::machine::{Finding, Level};

use super::{Card, Figure, Kind, Verdict, capital, number, sure};

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
    /// The largest share of its time that a CPU waited for zone locks. Unit: percent.
    pub(in super::super) wait_max: Option<f64>,
    /// What `top` finds in the worst look.
    pub(in super::super) worst: Option<Finding>,
    /// What the looks could not see.
    pub(in super::super) missing: Vec<String>,
}

impl Looks {
    /// Keeps what `top` finds in a look, if it is worse than that of the looks before.
    pub(in super::super) fn judged(&mut self, found: Finding) {
        // A look that judges replaces one that cannot, and a busier one a calmer one.
        let rank = |finding: &Finding| {
            let level = match finding.level() {
                Level::Severe => 3,
                Level::Unusual => 2,
                Level::Healthy => 1,
                Level::Unknown => 0,
            };
            (level, finding.busy())
        };
        if self.worst.as_ref().is_none_or(|worst| rank(&found) > rank(worst)) {
            self.worst = Some(found);
        }
    }
}

/// The card of looks: the verdict that `top` has on the worst of them.
pub(in super::super) fn looks(looks: &Looks) -> Card {
    let first = looks.worst.as_ref().unwrap_or(&Finding::FirstLook);
    let kind = match first.level() {
        Level::Unknown => Kind::None,
        Level::Healthy => Kind::Same,
        Level::Severe | Level::Unusual => Kind::Differs,
    };
    let parts = first.parts();
    let why = parts[1..].concat();
    let verdict = Verdict::new(kind, capital(&parts[0]), capital(why.trim_start_matches([';', ',', ' '])));
    let share = 100.0 * looks.held_max / looks.managed.max(1.0);
    let figures = [
        Figure::new("longest wait for zone locks", looks.wait_max, "% of a CPU's time"),
        Figure::new("refilled and drained, at most", looks.pages_per_s_max, "pages/s").with_note("all CPUs together"),
        Figure::new("held, at most", looks.held_max, "pages").with_note(format!("{} % of the memory", number(share))),
    ];
    let faults = [
        (looks.looks < 3, Trust::Low, format!("only {} looks", looks.looks)),
        ((3..10).contains(&looks.looks), Trust::Fair, format!("only {} looks", looks.looks)),
        (looks.pages_per_s_max.is_none(), Trust::Low, "refills and drains were not counted".to_owned()),
        (looks.wait_max.is_none(), Trust::Fair, "waits were not measured".to_owned()),
    ];
    let sure = sure(
        faults.into_iter().filter(|fault| fault.0).map(|(_, trust, reason)| (trust, reason)),
        "waits, refills and drains were counted in all intervals",
    );
    let about = format!("{} looks at pagesets over {} s", looks.looks, number(looks.seconds));
    let next = match first {
        Finding::Waits { .. } | Finding::Moves { .. } => Some("sudo pageset advise --live 5".to_owned()),
        Finding::Uncounted | Finding::FirstLook => Some("sudo pageset top --json -n 20".to_owned()),
        _ => None,
    };
    Card { about, verdict, sure, figures, warnings: looks.missing.clone(), next }
}
