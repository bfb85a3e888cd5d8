//! The trust in a verdict. Pure: numbers in, text out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::verdict::Basis;
use crate::measure::differs_pct;
use crate::replay::Totals;
use crate::replay::agreement::{Deviation, deviations};

/// The smallest number of refills and drains of a useful recording. A guess: one of them is 1 %.
const MOVES_MIN: u64 = 100;
/// The largest difference of a useful replay from the kernel. A guess. Unit: percent.
const DIFFERENCE_MAX_PCT: f64 = 20.0;

/// The trust in the replay of the kernel's own rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// No trust.
    Low,
    /// Limited trust.
    Fair,
    /// Full trust.
    High,
}

impl Trust {
    /// The name in tables and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Trust::Low => "low",
            Trust::Fair => "fair",
            Trust::High => "high",
        }
    }
}

/// The trust in a verdict and its reasons: reasons against it come first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sure {
    /// The trust.
    pub trust: Trust,
    /// The reasons.
    pub reasons: Vec<String>,
}

/// The facts about a recording and its replay under the setting in force.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The kernel's moves.
    pub kernel: Totals,
    /// The replay's moves.
    pub replay: Totals,
    /// The reason of the verdict.
    pub basis: Basis,
    /// Whether events were lost.
    pub lost_events: bool,
    /// Whether a zone was at or below its high watermark.
    pub near_mark: bool,
    /// Whether the recording names its kernel.
    pub kernel_known: bool,
    /// Whether the verdict is another `vm.watermark_scale_factor`.
    pub other_watermarks: bool,
}

/// How the replay of the setting in force misses the kernel, if it is of no use: its largest difference.
#[must_use]
pub fn failure(kernel: &Totals, replay: &Totals) -> Option<String> {
    let deviations = deviations(kernel, replay);
    let failures = deviations.iter().filter(|deviation| !deviation.is_within() && is_failure(deviation));
    let size = |deviation: &Deviation| differs_pct(deviation.replay, deviation.kernel).map_or(f64::INFINITY, f64::abs);
    failures.max_by(|a, b| size(a).total_cmp(&size(b))).map(said)
}

fn is_failure(deviation: &Deviation) -> bool {
    differs_pct(deviation.replay, deviation.kernel).is_none_or(|pct| pct.abs() > DIFFERENCE_MAX_PCT)
}

fn said(deviation: &Deviation) -> String {
    let what = deviation.limit.quantity.name();
    match differs_pct(deviation.replay, deviation.kernel) {
        Some(pct) => format!("under the setting in force the replay's {what} differ from the kernel's by {pct:+.1} %"),
        None => format!("under the setting in force the replay has {} {what}, the kernel none", deviation.replay),
    }
}

/// Rates the trust in a verdict.
#[must_use]
pub fn judge(seen: &Seen) -> Sure {
    let (kernel, ours) = (seen.kernel, seen.replay);
    let moves = kernel.refills + kernel.drains;
    // That locks are rare under the setting in force needs a replay of that setting only, whatever its rules are called
    // and however few the moves are.
    let of_in_force = seen.basis == Basis::NotFelt;
    let mut reasons = Vec::new();
    let mut trust = Trust::High;
    let mut lower_to = |other: Trust| trust = trust.min(other);
    for deviation in deviations(&kernel, &ours).iter().filter(|deviation| !deviation.is_within()) {
        reasons.push(said(deviation));
        lower_to(if is_failure(deviation) { Trust::Low } else { Trust::Fair });
    }
    let near = reasons.is_empty();
    if moves < MOVES_MIN && !of_in_force {
        reasons.push(format!("the kernel refilled and drained only {moves} times"));
        lower_to(Trust::Low);
    }
    if seen.lost_events {
        reasons.push("events were lost".to_owned());
        lower_to(Trust::Low);
    }
    if seen.near_mark && !of_in_force {
        reasons
            .push("a zone was at its high watermark, where pagesets shrink for reasons that no event shows".to_owned());
        lower_to(Trust::Fair);
    }
    if !seen.kernel_known && !of_in_force {
        reasons.push("the recording does not name its kernel".to_owned());
        lower_to(Trust::Fair);
    }
    if seen.other_watermarks {
        reasons.push("a replay does not tell when kswapd wakes, which depends on the watermarks".to_owned());
        lower_to(Trust::Fair);
    }
    if near {
        let but = if reasons.is_empty() { "" } else { "but " };
        reasons.push(format!("{but}under the setting in force the replay moves what the kernel moved"));
    }
    Sure { trust, reasons }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording of one second on two CPUs whose replay agrees with the kernel.
    fn steady() -> Seen {
        let moved = Totals { refills: 4000, refill_pages: 250_000, drains: 100, drain_pages: 200_000 };
        Seen {
            kernel: moved,
            replay: moved,
            basis: Basis::NoGain,
            lost_events: false,
            near_mark: false,
            kernel_known: true,
            other_watermarks: false,
        }
    }

    type Change = fn(&mut Seen);

    #[test]
    fn each_weakness_lowers_trust_and_is_reported() {
        let cases: [(Change, Trust, &str); 12] = [
            (|_| {}, Trust::High, "under the setting in force the replay moves what the kernel moved"),
            (|seen| seen.kernel_known = false, Trust::Fair, "the recording does not name its kernel"),
            (|seen| seen.other_watermarks = true, Trust::Fair, "a replay does not tell when kswapd wakes"),
            (|seen| seen.near_mark = true, Trust::Fair, "a zone was at its high watermark"),
            (|seen| seen.lost_events = true, Trust::Low, "events were lost"),
            (
                |seen| seen.replay.refill_pages = 257_500,
                Trust::Fair,
                "the replay's refill pages differ from the kernel's by +3.0 %",
            ),
            (|seen| seen.replay.refills = 2000, Trust::Low, "the replay's refills differ from the kernel's by -50.0 %"),
            (|seen| seen.replay.drain_pages = 220_000, Trust::Fair, "the replay's drain pages differ"),
            (|seen| seen.replay.drains = 111, Trust::Fair, "the replay's drains differ from the kernel's by +11.0 %"),
            // Within the floor for small samples.
            (
                |seen| (seen.kernel.drain_pages, seen.replay.drain_pages) = (100, 356),
                Trust::High,
                "moves what the kernel moved",
            ),
            (
                |seen| {
                    (seen.kernel.refills, seen.replay.refills, seen.kernel.drains, seen.replay.drains) =
                        (50, 50, 49, 49)
                },
                Trust::Low,
                "the kernel refilled and drained only 99 times",
            ),
            // Too rare to be noticeable, but events were lost.
            (|seen| (seen.basis, seen.lost_events) = (Basis::NotFelt, true), Trust::Low, "events were lost"),
        ];
        for (change, trust, expected) in cases {
            let mut seen = steady();
            change(&mut seen);
            let sure = judge(&seen);
            assert_eq!(sure.trust, trust, "{expected}: {sure:?}");
            assert!(sure.reasons[0].contains(expected), "{expected}: {sure:?}");
        }
    }

    #[test]
    fn rare_locks_need_a_control_too() {
        let seen = Seen { basis: Basis::NotFelt, kernel_known: false, near_mark: true, ..steady() };
        // The control follows the kernel: neither the name of the rules nor the number of moves matters.
        let few = Totals { refills: 4, refill_pages: 252, drains: 1, drain_pages: 63 };
        let sure = judge(&Seen { kernel: few, replay: few, ..seen });
        assert_eq!((sure.trust, sure.reasons.len()), (Trust::High, 1));
        // The control fails: never high, and there is a failure to tell.
        let far = Totals { drains: 986, ..seen.replay };
        let sure = judge(&Seen { replay: far, ..seen });
        assert_eq!(sure.trust, Trust::Low);
        assert!(sure.reasons[0].contains("differ from the kernel's by +886.0 %"), "{sure:?}");
        assert!(failure(&seen.kernel, &far).is_some_and(|failed| failed.contains("+886.0 %")));
        let near = Totals { drains: 111, ..seen.replay };
        assert_eq!((failure(&seen.kernel, &seen.kernel), failure(&seen.kernel, &near)), (None, None));
    }
}
