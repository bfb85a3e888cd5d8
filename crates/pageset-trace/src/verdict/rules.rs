//! Which of the replayed rules take zone locks least.

use super::control::{Basis, Control};
use super::trust::{Cause, Sure};
use super::{Decided, Kind};
use crate::measure::warnings::Name;
use crate::measure::{ReplayResult, Replayed, Whole};
use crate::replay::busiest;

/// A difference in lock holds below which rules count as equal where no control tells the noise. A guess: half of the smallest
/// gain that `advise` would name. Unit: percent.
const ALIKE_PCT: f64 = 5.0;

/// The verdict on the rules of a replay.
#[derive(Clone, Debug)]
pub struct RulesVerdict<'r> {
    /// The reason of the verdict.
    pub basis: Basis,
    /// How far to trust it.
    pub sure: Sure,
    /// The row of the kernel's own rules at the level of the named rules.
    pub own: Option<&'r Replayed>,
    /// Why the control alone decides, if it does.
    pub decided: Option<String>,
    /// The order of the rules.
    pub ranking: Ranking<'r>,
}

/// The order of rules by their zone locks.
#[derive(Clone, Debug)]
pub enum Ranking<'r> {
    /// There is none: the replays say nothing.
    None,
    /// There is only one row.
    Only(&'r Replayed),
    /// No two rows differ by more than the noise.
    Alike(&'r Replayed),
    /// A row takes zone locks least.
    Least {
        /// That row.
        best: &'r Replayed,
        /// The kernel's own rules, or the worst row if they are the best.
        against: &'r Replayed,
    },
}

fn locks(row: &Replayed) -> f64 {
    row.zone_lock_acquisitions_per_1000_operations
}

impl ReplayResult {
    fn control_of(&self, own: &Replayed) -> Control {
        let whole = self.only.as_ref().map(|only| only.whole);
        let Whole { kernel, busiest, replay } = whole.flatten().unwrap_or_else(|| Whole {
            kernel: self.kernel.totals,
            busiest: busiest(self.kernel.pagesets.iter().map(|of| (of.cpu, of.totals.refills + of.totals.drains))),
            replay: own.totals,
        });
        Control {
            kernel,
            replay,
            busiest,
            // The moves next to the locks are unknown: the locks do not count as rare.
            replay_locks: if whole == Some(None) { u64::MAX / 2 } else { own.zone_lock_acquisitions },
            operations: self.trace.operations,
            seconds: self.trace.duration_ns as f64 / 1e9,
            lost_events: self.trace.facts.lost_events(),
            near_mark: self.warnings.iter().any(|warning| warning.name == Name::NearHighMark),
            kernel_ticks: own.warnings.iter().any(|warning| warning.name == Name::KernelTicks),
            kernel_known: self.kernel.known,
            remedy: self.trace.facts.remedy(),
        }
    }

    /// Which rules take zone locks least, and whether that may be trusted. The control is the replay under the kernel's own
    /// rules. Rules that run short of memory more often than the control are no choice.
    pub fn verdict(&self) -> RulesVerdict<'_> {
        let rows: Vec<&Replayed> = self.named().collect();
        let Some(own) = rows.iter().copied().find(|row| row.is_kernel) else {
            let sure =
                Sure::none(Cause::NoControl, "the kernel's own rules are not among the rows; try --rules kernel,NAME");
            let ranking = ranking(&rows, None, ALIKE_PCT);
            return RulesVerdict { basis: Basis::NoControl, sure, own: None, decided: None, ranking };
        };
        let control = self.control_of(own);
        let short = |row: &Replayed| row.failed + row.below_min;
        let able: Vec<&Replayed> = rows.into_iter().filter(|row| short(row) <= short(own)).collect();
        let ranking = match control.failure() {
            Some(_) => Ranking::None,
            None => ranking(&able, Some(own), control.noise_pct()),
        };
        let (basis, decided) = match (control.decided(), &ranking) {
            (Some(Decided { basis, why }), _) => (basis, Some(why)),
            (None, Ranking::Least { best, .. }) if !best.is_kernel => (Basis::Gain, None),
            _ => (Basis::NoGain, None),
        };
        RulesVerdict { basis, sure: control.sure(basis, false), own: Some(own), decided, ranking }
    }
}

fn ranking<'r>(rows: &[&'r Replayed], own: Option<&'r Replayed>, noise_pct: f64) -> Ranking<'r> {
    let by_locks = |a: &&&Replayed, b: &&&Replayed| locks(a).total_cmp(&locks(b));
    let (Some(&least), Some(&most)) = (rows.iter().min_by(by_locks), rows.iter().max_by(by_locks)) else {
        return Ranking::None;
    };
    let is_near = |row: &Replayed| locks(row) <= locks(least) * (1.0 + noise_pct / 100.0);
    match own {
        _ if rows.len() == 1 => Ranking::Only(least),
        _ if is_near(most) => Ranking::Alike(least),
        Some(own) if is_near(own) => Ranking::Least { best: own, against: most },
        Some(own) => Ranking::Least { best: least, against: own },
        None => Ranking::Least { best: least, against: most },
    }
}

impl<'r> RulesVerdict<'r> {
    /// What the verdict says of the kernel's own rules.
    pub const fn kind(&self) -> Kind {
        self.basis.kind()
    }

    /// The row that wins, and the one that it is compared with.
    pub const fn rows(&self) -> Option<(&'r Replayed, &'r Replayed)> {
        match self.ranking {
            Ranking::None => None,
            Ranking::Only(row) | Ranking::Alike(row) => Some((row, row)),
            Ranking::Least { best, against } => Some((best, against)),
        }
    }

    /// The verdict in a sentence without its full stop.
    pub fn text(&self) -> String {
        match (&self.decided, self.kind()) {
            (Some(_), Kind::None) => "no verdict".to_owned(),
            (Some(_), _) => "change nothing".to_owned(),
            _ => self.order().0,
        }
    }

    /// What the verdict rests on and compares, in a sentence without its full stop; may be empty.
    pub fn why(&self) -> String {
        let (order, compared) = self.order();
        let parts = match &self.decided {
            Some(decided) => [decided.clone(), order, compared],
            None => [compared, String::new(), String::new()],
        };
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// The order of the rules, the verdict, and how far to trust it, in one line.
    pub fn sentence(&self) -> String {
        let (order, compared) = self.order();
        let decided = self.decided.as_ref().map(|why| format!("{}: {why}", self.text())).unwrap_or_default();
        let sure = match &self.decided {
            // The reason has said it.
            Some(_) => format!("trust {}", self.sure.trust.name()),
            None => self.sure.to_string(),
        };
        let parts = [order, compared, decided, sure].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("; ")
    }

    /// Which rules take the zone lock least, and what they are compared with; may be empty.
    fn order(&self) -> (String, String) {
        let holds = |row: &Replayed| format!("{:.1} times in 1,000 allocations and frees", locks(row));
        match &self.ranking {
            Ranking::None => (String::new(), String::new()),
            Ranking::Only(row) => (format!("{} takes the zone lock {}", row.name, holds(row)), String::new()),
            Ranking::Alike(row) => {
                (format!("the rules do not differ: each takes the zone lock about {}", holds(row)), String::new())
            }
            Ranking::Least { best, against } => {
                let compared = match locks(best) {
                    none if none <= 0.0 => format!("{} takes it {:.1} times", against.name, locks(against)),
                    some => format!("{} takes it {:.1} times as often", against.name, locks(against) / some),
                };
                (format!("{} takes the zone lock least, {}", best.name, holds(best)), compared)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows by their names and zone locks, of which `own` is the kernel's.
    fn rows(all: &[(&str, f64)]) -> Vec<Replayed> {
        let row = |&(name, locks): &(&str, f64)| Replayed {
            is_kernel: name == "own",
            zone_lock_acquisitions_per_1000_operations: locks,
            ..Replayed::empty(name)
        };
        all.iter().map(row).collect()
    }

    fn said(all: &[(&str, f64)], noise_pct: f64) -> String {
        let rows = rows(all);
        let rows: Vec<&Replayed> = rows.iter().collect();
        let own = rows.iter().copied().find(|row| row.is_kernel);
        let ranking = ranking(&rows, own, noise_pct);
        let sure = Sure { trust: super::super::Trust::High, reasons: Vec::new() };
        RulesVerdict { basis: Basis::NoGain, sure, own, decided: None, ranking }.sentence()
    }

    #[test]
    fn the_winner_is_named_first() {
        let of = "times in 1,000 allocations and frees";
        for (all, noise_pct, sentence) in [
            (
                &[("own", 10.0), ("a", 5.0), ("b", 20.0)][..],
                5.0,
                format!("a takes the zone lock least, 5.0 {of}; own takes it 2.0 times as often; trust high"),
            ),
            // Within the noise of the control, the kernel's own rules win: there is no reason to change.
            (
                &[("own", 10.0), ("a", 9.6), ("b", 20.0)],
                5.0,
                format!("own takes the zone lock least, 10.0 {of}; b takes it 2.0 times as often; trust high"),
            ),
            (
                &[("own", 10.0), ("a", 8.6)],
                5.0,
                format!("a takes the zone lock least, 8.6 {of}; own takes it 1.2 times as often; trust high"),
            ),
            (
                &[("own", 10.0), ("a", 8.6)],
                20.0,
                format!("the rules do not differ: each takes the zone lock about 8.6 {of}; trust high"),
            ),
            (&[("own", 10.0)], 5.0, format!("own takes the zone lock 10.0 {of}; trust high")),
            (
                &[("a", 0.0), ("b", 1.5)],
                5.0,
                format!("a takes the zone lock least, 0.0 {of}; b takes it 1.5 times; trust high"),
            ),
            (&[], 5.0, "trust high".to_owned()),
        ] {
            assert_eq!(said(all, noise_pct), sentence, "{all:?}");
        }
    }
}
