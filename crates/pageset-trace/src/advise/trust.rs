//! The trust in a verdict. Pure: numbers in, text out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::verdict::{Basis, is_noticeable, per_cpu_s};
use crate::measure::differs_pct;
use crate::replay::Totals;
use crate::replay::agreement::deviations;

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
#[derive(Clone, Copy)]
pub(super) struct Seen {
    /// The kernel's moves.
    pub(super) kernel: Totals,
    /// The replay's moves.
    pub(super) replay: Totals,
    /// The reason of the verdict.
    pub(super) basis: Basis,
    /// The recording's duration.
    pub(super) seconds: f64,
    pub(super) cpus: usize,
    pub(super) lost_events: bool,
    /// Whether a zone was at or below its high watermark.
    pub(super) near_mark: bool,
    /// Whether the recording names its kernel.
    pub(super) kernel_known: bool,
}

/// Rates the trust in a verdict.
pub(super) fn judge(seen: &Seen) -> Sure {
    let (kernel, ours) = (seen.kernel, seen.replay);
    let moves = kernel.refills + kernel.drains;
    let kernel_per_cpu_s = per_cpu_s(moves, seen.seconds, seen.cpus);
    // The kernel itself shows that no setting is noticeable; this needs no trust in a replay.
    if seen.basis == Basis::NotFelt && !is_noticeable(kernel_per_cpu_s) && !seen.lost_events {
        let why = format!("that is what the kernel did: {kernel_per_cpu_s:.0} refills and drains a second on each CPU");
        return Sure { trust: Trust::High, reasons: vec![why] };
    }
    let mut reasons = Vec::new();
    let mut trust = Trust::High;
    let mut lower_to = |other: Trust| trust = trust.min(other);
    for deviation in deviations(&kernel, &ours).iter().filter(|deviation| !deviation.is_within()) {
        let what = deviation.limit.quantity.name();
        let differs = differs_pct(deviation.replay, deviation.kernel);
        reasons.push(match differs {
            Some(pct) => {
                format!("under the setting in force the replay's {what} differ from the kernel's by {pct:+.1} %")
            }
            None => format!("under the setting in force the replay has {} {what}, the kernel none", deviation.replay),
        });
        lower_to(if differs.is_none_or(|pct| pct.abs() > DIFFERENCE_MAX_PCT) { Trust::Low } else { Trust::Fair });
    }
    let near = reasons.is_empty();
    if moves < MOVES_MIN {
        reasons.push(format!("the kernel refilled and drained only {moves} times"));
        lower_to(Trust::Low);
    }
    if seen.lost_events {
        reasons.push("events were lost".to_owned());
        lower_to(Trust::Low);
    }
    if seen.near_mark {
        reasons
            .push("a zone was at its high watermark, where pagesets shrink for reasons that no event shows".to_owned());
        lower_to(Trust::Fair);
    }
    if !seen.kernel_known {
        reasons.push("the recording does not name its kernel".to_owned());
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
            seconds: 1.0,
            cpus: 2,
            lost_events: false,
            near_mark: false,
            kernel_known: true,
        }
    }

    type Change = fn(&mut Seen);

    #[test]
    fn each_weakness_lowers_trust_and_is_reported() {
        let cases: [(Change, Trust, &str); 11] = [
            (|_| {}, Trust::High, "under the setting in force the replay moves what the kernel moved"),
            (|seen| seen.kernel_known = false, Trust::Fair, "the recording does not name its kernel"),
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
            (
                |seen| (seen.basis, seen.lost_events, seen.seconds) = (Basis::NotFelt, true, 60.0),
                Trust::Low,
                "events were lost",
            ),
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
    fn a_verdict_from_the_kernel_needs_no_replay() {
        let seen = Seen { basis: Basis::NotFelt, kernel_known: false, near_mark: true, ..steady() };
        // 4,100 moves in 10 s on two CPUs; the replay may differ arbitrarily.
        let far = Totals { refills: 9, ..seen.replay };
        let sure = judge(&Seen { seconds: 10.0, replay: far, ..seen });
        assert_eq!((sure.trust, sure.reasons.len()), (Trust::High, 1));
        assert!(sure.reasons[0].contains("205 refills and drains a second"), "{sure:?}");
        // The kernel took its locks often, so the verdict depends on the replay.
        assert_eq!(judge(&Seen { seconds: 1.0, replay: far, ..seen }).trust, Trust::Low);
    }
}
