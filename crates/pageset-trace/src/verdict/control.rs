//! The kernel next to the replay of its own rules. Pure: numbers in, values out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Kind;
use super::Trust;
use super::trust::{Cause, Reason, Sure};
use crate::measure::differs_pct;
use crate::replay::Totals;
use crate::replay::agreement::{Deviation, agrees, deviations};

/// Zone lock acquisitions per second and CPU below which no setting is noticeable. With the longest known hold, 50 us
/// for 2016 pages, that is a twentieth of the time; with the usual hold a thousandth. A guess.
pub const NOTICEABLE_PER_CPU_S: f64 = 1000.0;
/// The largest remaining share of lock acquisitions for which a change is advised. A change that does not halve them is
/// not worth a permanent setting. A guess, as in `docs/guide/advice.md`.
pub const LOCKS_LEFT_MAX: f64 = 0.5;
/// The smallest number of refills and drains of a useful recording. A guess: one of them is 1 %.
const MOVES_MIN: u64 = 100;
/// The largest difference of a useful replay from the kernel. A guess. Unit: percent.
const DIFFERENCE_MAX_PCT: f64 = 20.0;
/// The smallest recording of which a rate means something: the timer work runs once a second. Unit: seconds.
const SECONDS_MIN: f64 = 1.0;
/// The smallest difference between two replays that a verdict names. A guess: the largest limit of
/// `pageset replay --check` on the number of refills. Unit: percent.
const DIFFERENCE_MIN_PCT: f64 = 5.0;

/// Why the rows of a replay may be compared.
const FOLLOWS: &str = "under the setting in force the replay moves what the kernel moved";

/// The reason of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The kernel takes zone locks too rarely for any setting to be noticeable.
    NotFelt,
    /// No setting gains enough.
    NoGain,
    /// A setting gains enough.
    Gain,
    /// The replay of the setting in force does not follow the kernel, so the replays of other settings say nothing.
    ControlFailed,
    /// The kernel's own rules were not replayed.
    NoControl,
    /// Events were lost, so the kernel's rate is unknown.
    EventsLost,
    /// The recording has no allocations and frees.
    Empty,
    /// The recorded kernel has no setting for pagesets.
    NoSetting,
    /// Recordings were made under different settings, so there is no single setting to compare with.
    Mixed,
}

impl Basis {
    /// What such a verdict says of the control.
    pub const fn kind(self) -> Kind {
        match self {
            Basis::Gain => Kind::Differs,
            Basis::NotFelt | Basis::NoGain | Basis::NoSetting => Kind::Same,
            Basis::ControlFailed | Basis::NoControl | Basis::EventsLost | Basis::Empty | Basis::Mixed => Kind::None,
        }
    }
}

/// A verdict that follows from the control alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The reason of the verdict.
    pub basis: Basis,
    /// The reason in one sentence.
    pub why: String,
}

/// The kernel's moves in a recording, and those of the replay of its own rules under the setting in force.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// The kernel's moves.
    pub kernel: Totals,
    /// The replay's moves.
    pub replay: Totals,
    /// Zone locks that the replay took.
    pub replay_locks: u64,
    /// The kernel's refills and drains on the CPU that has most of them.
    pub busiest: u64,
    /// Allocations and frees.
    pub operations: u64,
    /// The time from the first event to the last.
    pub seconds: f64,
    /// Whether events were lost.
    pub lost_events: bool,
    /// Whether a zone was at or below its high watermark.
    pub near_mark: bool,
    /// Whether more than a few drains of other nodes' idle pages come at the kernel's ticks.
    pub kernel_ticks: bool,
    /// Whether the recording names its kernel.
    pub kernel_known: bool,
    /// What a better recording would be made with, see `Facts::remedy`.
    pub remedy: &'static str,
}

/// Whether this rate of zone lock acquisitions, per second and CPU, is noticeable.
pub fn is_noticeable(per_cpu_s: f64) -> bool {
    per_cpu_s >= NOTICEABLE_PER_CPU_S
}

/// The verdict that so few zone locks cannot be felt; `None` if they can. `locks` is the most that one CPU took: one that
/// waits is enough to slow a program, as in `top`.
pub fn rare(locks: f64, seconds: f64) -> Option<Decided> {
    let per_s = locks / seconds.max(1e-9);
    (!is_noticeable(per_s)).then(|| {
        let why = format!(
            "no CPU takes a zone lock more than {per_s:.0} times a second; below {NOTICEABLE_PER_CPU_S:.0} no setting can be felt"
        );
        Decided { basis: Basis::NotFelt, why }
    })
}

impl Control {
    /// Zone locks that the kernel took: for its refills and drains, and past the pagesets, where no choice of the replay
    /// plays a part.
    pub fn locks(&self) -> u64 {
        let moves = |totals: &Totals| totals.refills + totals.drains;
        moves(&self.kernel) + self.replay_locks.saturating_sub(moves(&self.replay))
    }

    /// Zone locks that the busiest CPU took, at most: its refills and drains, and all that were taken past the pagesets.
    fn busiest_locks(&self) -> u64 {
        self.busiest + self.locks().saturating_sub(self.kernel.refills + self.kernel.drains)
    }

    /// How the replay misses the kernel, if it is of no use: its largest difference.
    pub fn failure(&self) -> Option<String> {
        let deviations = deviations(&self.kernel, &self.replay);
        let failures = deviations.iter().filter(|deviation| !deviation.is_within() && is_failure(deviation));
        let size =
            |deviation: &Deviation| differs_pct(deviation.replay, deviation.kernel).map_or(f64::INFINITY, f64::abs);
        failures.max_by(|a, b| size(a).total_cmp(&size(b))).map(said)
    }

    /// The verdict that follows from the control alone. Rare locks need no replay: the kernel's own events count them.
    pub fn decided(&self) -> Option<Decided> {
        if self.operations == 0 {
            let why = "there are no allocations and frees in the recording".to_owned();
            return Some(Decided { basis: Basis::Empty, why });
        }
        match rare(self.busiest_locks() as f64, self.seconds) {
            Some(_) if self.lost_events => {
                let why = "events were lost, so the counts are too small by an unknown amount; record with a larger \
                           --buffer";
                Some(Decided { basis: Basis::EventsLost, why: why.to_owned() })
            }
            Some(rare) => Some(rare),
            None => self.failure().map(|failed| {
                let why = format!("cannot judge: {failed}; try a longer recording{}", self.remedy);
                Decided { basis: Basis::ControlFailed, why }
            }),
        }
    }

    /// The difference that the control itself has from the kernel, and at least what counts as equal. Unit: percent.
    pub fn noise_pct(&self) -> f64 {
        let own = deviations(&self.kernel, &self.replay).map(|deviation| match deviation.kernel {
            0 => 0.0,
            kernel => 100.0 * deviation.kernel.abs_diff(deviation.replay) as f64 / kernel as f64,
        });
        own.into_iter().fold(DIFFERENCE_MIN_PCT, f64::max)
    }

    /// Rates the trust in a verdict. `other_watermarks`: the verdict is another `vm.watermark_scale_factor`.
    pub fn sure(&self, basis: Basis, other_watermarks: bool) -> Sure {
        let mut sure = Sure { trust: Trust::High, reasons: Vec::new() };
        if self.lost_events {
            sure.lower(Trust::Low, Cause::EventsLost, "events were lost");
        }
        if basis == Basis::Empty {
            sure.lower(Trust::Low, Cause::Empty, "there is nothing to judge");
        }
        if basis == Basis::NotFelt {
            // The kernel's own events say it, whatever the replay does.
            self.short(&mut sure);
            sure.add(Cause::Counted, "the kernel's own refills and drains, which were counted, are that rare");
            match (self.failure(), agrees(&self.kernel, &self.replay)) {
                (Some(failed), _) => sure.add(Cause::ControlFails, format!("but compare no rows: {failed}")),
                (None, true) => sure.add(Cause::ControlFollows, FOLLOWS),
                (None, false) => {}
            }
            return sure;
        }
        let before = sure.reasons.len();
        for deviation in deviations(&self.kernel, &self.replay).iter().filter(|deviation| !deviation.is_within()) {
            match is_failure(deviation) {
                true => sure.lower(Trust::Low, Cause::ControlFails, said(deviation)),
                false => sure.lower(Trust::Fair, Cause::ControlDiffers, said(deviation)),
            }
        }
        let follows = sure.reasons.len() == before;
        let moves = self.kernel.refills + self.kernel.drains;
        if moves < MOVES_MIN {
            sure.lower(Trust::Low, Cause::FewMoves, format!("the kernel refilled and drained only {moves} times"));
        }
        if self.near_mark {
            let text = "a zone was at its high watermark, where pagesets shrink for reasons that no event shows";
            sure.lower(Trust::Fair, Cause::NearHighMark, text);
        }
        if self.kernel_ticks {
            let text =
                "many drains of other nodes' idle pages come at the kernel's ticks, which the events do not give";
            sure.lower(Trust::Fair, Cause::KernelTicks, text);
        }
        if !self.kernel_known {
            sure.lower(Trust::Fair, Cause::KernelUnknown, "the recording does not name its kernel");
        }
        self.short(&mut sure);
        if other_watermarks {
            let text = "a replay does not tell when kswapd wakes, which depends on the watermarks";
            sure.lower(Trust::Fair, Cause::OtherWatermarks, text);
        }
        if follows {
            let but = if sure.reasons.is_empty() { "" } else { "but " };
            sure.add(Cause::ControlFollows, format!("{but}{FOLLOWS}"));
        }
        sure
    }

    fn short(&self, sure: &mut Sure) {
        if self.seconds < SECONDS_MIN {
            let text = format!("the recording covers only {:.2} s", self.seconds);
            sure.lower(Trust::Fair, Cause::ShortRecording, text);
        }
    }
}

impl Sure {
    fn add(&mut self, name: Cause, text: impl Into<String>) {
        self.reasons.push(Reason { name, text: text.into() });
    }

    fn lower(&mut self, to: Trust, name: Cause, text: impl Into<String>) {
        self.trust = self.trust.min(to);
        self.add(name, text);
    }
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::facts::{Facts, Recipe};

    /// A recording of one second on two CPUs whose replay agrees with the kernel.
    pub(in super::super) fn steady() -> Control {
        let moved = Totals { refills: 4000, refill_pages: 250_000, drains: 100, drain_pages: 200_000 };
        Control {
            kernel: moved,
            replay: moved,
            replay_locks: 4100,
            busiest: 2050,
            operations: 500_000,
            seconds: 1.0,
            lost_events: false,
            near_mark: false,
            kernel_ticks: false,
            kernel_known: true,
            remedy: Facts::default().remedy(),
        }
    }

    type Change = fn(&mut Control);

    #[test]
    fn each_weakness_lowers_trust_and_is_reported() {
        let cases: [(Change, Trust, Cause, &str); 12] = [
            (|_| {}, Trust::High, Cause::ControlFollows, "the replay moves what the kernel moved"),
            (|seen| seen.kernel_known = false, Trust::Fair, Cause::KernelUnknown, "does not name its kernel"),
            (|seen| seen.near_mark = true, Trust::Fair, Cause::NearHighMark, "a zone was at its high watermark"),
            (|seen| seen.kernel_ticks = true, Trust::Fair, Cause::KernelTicks, "come at the kernel's ticks"),
            (|seen| seen.lost_events = true, Trust::Low, Cause::EventsLost, "events were lost"),
            (|seen| seen.seconds = 0.5, Trust::Fair, Cause::ShortRecording, "covers only 0.50 s"),
            (
                |seen| seen.replay.refill_pages = 257_500,
                Trust::Fair,
                Cause::ControlDiffers,
                "the replay's refill pages differ from the kernel's by +3.0 %",
            ),
            (
                |seen| seen.replay.refills = 2000,
                Trust::Low,
                Cause::ControlFails,
                "the replay's refills differ from the kernel's by -50.0 %",
            ),
            (
                |seen| seen.replay.drain_pages = 220_000,
                Trust::Fair,
                Cause::ControlDiffers,
                "the replay's drain pages differ",
            ),
            (
                |seen| seen.replay.drains = 111,
                Trust::Fair,
                Cause::ControlDiffers,
                "the replay's drains differ from the kernel's by +11.0 %",
            ),
            // Within the floor for small samples.
            (
                |seen| (seen.kernel.drain_pages, seen.replay.drain_pages) = (100, 356),
                Trust::High,
                Cause::ControlFollows,
                "moves what the kernel moved",
            ),
            (
                |seen| {
                    (seen.kernel.refills, seen.replay.refills, seen.kernel.drains, seen.replay.drains) =
                        (50, 50, 49, 49)
                },
                Trust::Low,
                Cause::FewMoves,
                "the kernel refilled and drained only 99 times",
            ),
        ];
        for (change, trust, cause, expected) in cases {
            let mut seen = steady();
            change(&mut seen);
            let sure = seen.sure(Basis::NoGain, false);
            assert_eq!((sure.trust, sure.reasons[0].name), (trust, cause), "{expected}: {sure:?}");
            assert!(sure.reasons[0].text.contains(expected), "{expected}: {sure:?}");
        }
        let sure = steady().sure(Basis::Gain, true);
        assert_eq!((sure.trust, sure.reasons[0].name), (Trust::Fair, Cause::OtherWatermarks));
    }

    /// The kernel's own events show that locks are rare: neither the replay, nor the name of the rules, nor the number of
    /// moves matters. Lost events do.
    #[test]
    fn rare_locks_need_no_control() {
        let few = Totals { refills: 4, refill_pages: 252, drains: 1, drain_pages: 63 };
        let far = Totals { drains: 986, ..few };
        let rare = Control {
            kernel: few,
            replay: far,
            replay_locks: 990,
            busiest: 4,
            kernel_known: false,
            near_mark: true,
            ..steady()
        };
        assert_eq!(rare.locks(), 5);
        let decided = rare.decided().unwrap();
        assert_eq!(decided.basis, Basis::NotFelt);
        assert!(decided.why.starts_with("no CPU takes a zone lock more than 4 times a second"), "{decided:?}");
        let sure = rare.sure(Basis::NotFelt, false);
        let names: Vec<Cause> = sure.reasons.iter().map(|reason| reason.name).collect();
        // The rows of other settings say nothing still.
        assert_eq!((sure.trust, names), (Trust::High, vec![Cause::Counted, Cause::ControlFails]));
        let lost = Control { lost_events: true, ..rare };
        assert_eq!(lost.decided().unwrap().basis, Basis::EventsLost);
        assert_eq!(lost.sure(Basis::EventsLost, false).trust, Trust::Low);
        // One busy CPU of many is felt.
        let one = Control { kernel: Totals { refills: 1500, ..few }, busiest: 1500, ..rare };
        assert!(one.decided().is_none_or(|d| d.basis != Basis::NotFelt), "{one:?}");
        // Direct allocations count, whatever the pagesets do.
        assert!(Control { replay_locks: 990 + 2000, ..rare }.decided().is_none_or(|d| d.basis != Basis::NotFelt));
        assert_eq!(Control { operations: 0, ..rare }.decided().unwrap().basis, Basis::Empty);
    }

    #[test]
    fn a_failed_control_names_a_remedy_that_was_not_used() {
        let failed = Control { replay: Totals { drains: 986, ..steady().replay }, ..steady() };
        let decided = failed.decided().unwrap();
        assert_eq!(decided.basis, Basis::ControlFailed);
        assert!(decided.why.contains("by +886.0 %; try a longer recording, made with --empty-lists"), "{decided:?}");
        let emptied = Facts { lists_emptied: true, ..Facts::default() };
        let decided = Control { remedy: emptied.remedy(), ..failed }.decided().unwrap();
        assert!(decided.why.ends_with("; try a longer recording"), "{decided:?}");
        // A recording of perf was not made with the recorder's options.
        let of = |recipe| Facts { recipe: Some(recipe), ..Facts::default() }.remedy();
        let recipe = Recipe::default;
        assert_eq!(of(Recipe { call_graphs: true, ..recipe() }), ", made without call graphs (-g)");
        assert_eq!(of(Recipe { groups: true, ..recipe() }), ", made without a group of events ({ })");
        assert_eq!(of(Recipe { some_processes: true, ..recipe() }), ", made of all processes");
        assert_eq!(of(Recipe { cpus: Some(vec![0]), ..recipe() }), ", made of all CPUs");
        assert_eq!(of(recipe()), ", made with `pageset record --empty-lists`");
        assert_eq!(failed.sure(Basis::ControlFailed, false).trust, Trust::Low);
        let near = Control { replay: Totals { drains: 111, ..steady().replay }, ..steady() };
        assert_eq!((steady().decided(), near.decided()), (None, None));
    }
}
