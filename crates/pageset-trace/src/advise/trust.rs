//! How sure a verdict is. Numbers in, words out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::verdict::{Basis, felt, per_cpu_s};
use crate::measure::differs_pct;
use crate::replay::Totals;
use crate::replay::agreement::deviations;

/// Refills and drains below which a recording says little. A guess: one of them is 1 %.
const FEW: u64 = 100;
/// A replay that is further off than this says little of other rules. A guess. Unit: percent.
const FAR_OFF_PCT: f64 = 20.0;

/// How far the replay of the kernel's own rules may be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Not at all.
    Low,
    /// With care.
    Fair,
    /// As far as any.
    High,
}

impl Trust {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Trust::Low => "low",
            Trust::Fair => "fair",
            Trust::High => "high",
        }
    }
}

/// How far it may be trusted, and why: what speaks against it comes first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sure {
    /// How far.
    pub trust: Trust,
    /// Why.
    pub reasons: Vec<String>,
}

/// What is known of a recording and of its replay under the setting in force.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    /// What the kernel moved.
    pub(super) kernel: Totals,
    /// What the replay did.
    pub(super) replay: Totals,
    /// What the verdict rests on.
    pub(super) basis: Basis,
    /// How long the recording is.
    pub(super) seconds: f64,
    pub(super) cpus: usize,
    pub(super) lost_events: bool,
    /// Whether a zone was at or below its high watermark.
    pub(super) near_mark: bool,
    /// Whether the recording names its kernel.
    pub(super) kernel_known: bool,
}

/// Judges.
pub(super) fn judge(seen: &Seen) -> Sure {
    let (kernel, ours) = (seen.kernel, seen.replay);
    let moves = kernel.refills + kernel.drains;
    let kernel_per_cpu_s = per_cpu_s(moves, seen.seconds, seen.cpus);
    // That nothing can be felt is what the kernel itself shows; no replay has to be trusted for it.
    if seen.basis == Basis::NotFelt && !felt(kernel_per_cpu_s) && !seen.lost_events {
        let why = format!("that is what the kernel did: {kernel_per_cpu_s:.0} refills and drains a second on each CPU");
        return Sure { trust: Trust::High, reasons: vec![why] };
    }
    let mut reasons = Vec::new();
    let mut trust = Trust::High;
    let mut least = |other: Trust| trust = trust.min(other);
    for deviation in deviations(&kernel, &ours).iter().filter(|deviation| !deviation.is_within()) {
        let what = deviation.limit.quantity.name();
        let differs = differs_pct(deviation.replay, deviation.kernel);
        reasons.push(match differs {
            Some(pct) => {
                format!("under the setting in force the replay's {what} differ from the kernel's by {pct:+.1} %")
            }
            None => format!("under the setting in force the replay has {} {what}, the kernel none", deviation.replay),
        });
        least(if differs.is_none_or(|pct| pct.abs() > FAR_OFF_PCT) { Trust::Low } else { Trust::Fair });
    }
    let near = reasons.is_empty();
    if moves < FEW {
        reasons.push(format!("the kernel refilled and drained only {moves} times"));
        least(Trust::Low);
    }
    if seen.lost_events {
        reasons.push("events were lost".to_owned());
        least(Trust::Low);
    }
    if seen.near_mark {
        reasons
            .push("a zone was at its high watermark, where pagesets shrink for reasons that no event shows".to_owned());
        least(Trust::Fair);
    }
    if !seen.kernel_known {
        reasons.push("the recording does not name its kernel".to_owned());
        least(Trust::Fair);
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

    /// A second on two CPUs in which the replay did what the kernel did.
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
    fn each_weakness_counts_and_is_said() {
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
            // Seldom enough not to be felt, but some of it was lost.
            (
                |seen| (seen.basis, seen.lost_events, seen.seconds) = (Basis::NotFelt, true, 60.0),
                Trust::Low,
                "events were lost",
            ),
        ];
        for (change, trust, said) in cases {
            let mut seen = steady();
            change(&mut seen);
            let sure = judge(&seen);
            assert_eq!(sure.trust, trust, "{said}: {sure:?}");
            assert!(sure.reasons[0].contains(said), "{said}: {sure:?}");
        }
    }

    #[test]
    fn what_the_kernel_shows_needs_no_replay() {
        let seen = Seen { basis: Basis::NotFelt, kernel_known: false, near_mark: true, ..steady() };
        // 4,100 moves in 10 s on two CPUs; the replay may be as far off as it likes.
        let far = Totals { refills: 9, ..seen.replay };
        let sure = judge(&Seen { seconds: 10.0, replay: far, ..seen });
        assert_eq!((sure.trust, sure.reasons.len()), (Trust::High, 1));
        assert!(sure.reasons[0].contains("205 refills and drains a second"), "{sure:?}");
        // The kernel itself took its locks often, so the replay that says otherwise is to be trusted or not.
        assert_eq!(judge(&Seen { seconds: 1.0, replay: far, ..seen }).trust, Trust::Low);
    }
}
