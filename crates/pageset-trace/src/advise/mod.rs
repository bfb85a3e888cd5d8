//! The result of `pageset advise`: whether another setting of the kernel serves a load better.
//!
//! | module | contents |
//! | --- | --- |
//! | `patterns` | kinds of page traffic, from one pass over the recording |
//! | `verdict` | the setting to change, or none, from the measured replays |
//! | `knobs` | what other knobs would do, and what a replay cannot tell of them |
//! | `price` | the setting's gain and cost |
//! | `joint` | one verdict over several recordings |

mod joint;
mod knobs;
mod patterns;
mod price;
mod verdict;

use pageset::policy::Preset;
use pageset_rules::on_machine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use joint::AdviceSet;
pub use knobs::{Knob, KnobName, NotReplayable};
pub use patterns::{Hoarder, NAMES, Named, Patterns};
pub use price::HUGE_PAGES;
pub use verdict::{Setting, Verdict};

use crate::facts::Facts;
use crate::measure::warnings::Name;
use crate::measure::{disagreement, kernel_ticks, of_recording, per_1000};
use crate::replay::agreement::agrees;
use crate::replay::identify::identify_surveyed;
use crate::replay::parallel::{Progress, both, run_all};
use crate::replay::{Decoded, Level, Outcome, Replay, ReplayError, RuleSet, Step, Totals, WhatIf};
use crate::trace::Trace;
use crate::verdict::{Basis, Cause, Control, Kind, Sure};

/// The fractions that are replayed: none, the smallest allowed one, and commonly used ones.
const FRACTIONS: [u32; 7] = [0, 8, 12, 16, 25, 50, 100];
/// The other kernels that are replayed: the ends of each era. The recorded kernel's own preset is left out.
const OTHER_KERNELS: [&str; 4] = ["linux-4.19", "linux-5.18", "linux-6.7", "linux-6.18"];

schema!("pageset.advise/1");

/// The advice for one recording.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// `pageset.advise/1`.
    pub schema: Schema,
    /// The recording's name.
    pub trace: String,
    /// The recorded kernel.
    pub kernel: Kernel,
    /// Nanoseconds from the first replayed event to the last.
    pub duration_ns: u64,
    /// Allocations and frees.
    pub operations: u64,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Managed pages of all zones, to compare with the pages in pagesets.
    pub managed_pages: u64,
    /// The setting to change, or none.
    pub verdict: Verdict,
    /// The gain of the setting, in a sentence; null if nothing should change.
    pub gain: Option<String>,
    /// The cost of the setting, in a sentence; null if nothing should change.
    pub price: Option<String>,
    /// The confidence in the advice, and its reasons.
    pub sure: Sure,
    /// Free pages in blocks of orders 9 and 10. They show how closely the replay follows the kernel.
    pub high_orders: HighOrderPages,
    /// Replays under the settings of this kernel.
    pub settings: Vec<Setting>,
    /// A member for each knob other than vm.percpu_pagelist_high_fraction.
    #[serde(default)]
    pub knobs: Vec<Knob>,
    /// A member for each other kernel whose rules were replayed.
    pub other_kernels: Vec<Setting>,
    /// The measured patterns of page traffic.
    pub patterns: Patterns,
    /// The patterns of the traffic, each with its evidence.
    #[schemars(extend("todo" = "Run `pageset explain` with the pattern's name."))]
    pub named_patterns: Vec<Named>,
}

/// Free pages in large blocks: in the kernel, and in the replay of the setting in force.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HighOrderPages {
    /// Free pages in blocks of orders 9 and 10 at the start of the recording; null if not recorded.
    pub begin_pages: Option<u64>,
    /// Free pages in blocks of orders 9 and 10 at the end of the recording, in the kernel.
    pub kernel_end_pages: Option<u64>,
    /// Free pages in blocks of orders 9 and 10 at the end of the recording, in the replay.
    #[schemars(extend("bad" = "Far from kernel_end_pages: the cost in huge pages is a guess.",
        "todo" = "Trust the locks, not the huge pages."))]
    pub replay_end_pages: Option<u64>,
}

/// The recorded kernel.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Kernel {
    /// The kernel's release, if recorded.
    pub release: Option<String>,
    /// The name of the kernel's rules.
    pub rules: String,
    /// Whether the recording names the kernel; if not, the rules are guessed.
    pub known: bool,
    /// A sentence on the rules that the traffic agrees with, if the traffic disagrees with the rules of the release.
    #[schemars(extend("bad" = "Any text: the kernel's rules differ from those of its release number, or the recording \
        lacks something.", "todo" = "See `pageset replay FILE --identify`."))]
    pub disagreement: Option<String>,
    /// `vm.percpu_pagelist_high_fraction` during the recording.
    pub high_fraction: u32,
}

impl Advice {
    /// Replays a recording under every setting and decides on a verdict.
    pub fn of(trace: &Trace, progress: &mut dyn FnMut(Step<'_>)) -> Result<Self, ReplayError> {
        progress(Step::LookOver);
        let mut events = |events| progress(Step::Events(events));
        let decoded = Decoded::new(trace, &mut events)?;
        let patterns = || Patterns::find(trace, decoded.recorded());
        let (replay, patterns) = both(decoded.threads(0), || decoded.replay(&mut events), patterns);
        let (mut replay, patterns) = (replay?, patterns?);
        let facts = trace.facts();
        let in_force = facts.high_fraction.unwrap_or(0);
        let mut replays = Replays::of(&replay, &patterns, facts, progress)?;
        let mut identified = None;
        let own = replays.in_force.as_ref();
        if own.is_some_and(|own| !agrees(&replay.kernel().totals(|_| true), &totals(own))) {
            let found = identify_surveyed(&replay, &mut |done, of| progress(Step::Presets { done, of }))?;
            if found.choice().tuning != replay.setting().kernel.tuning {
                replay = replay.under(found.choice(), &mut |events| progress(Step::Events(events)))?;
                replays = Replays::of(&replay, &patterns, facts, progress)?;
            }
            identified = Some(found);
        }
        let notes = *replay.notes();
        let Replays { settings, knobs, other_kernels, in_force: in_force_outcome } = replays;
        let setting = replay.setting();
        let managed_pages = setting.zones.iter().map(|zone| zone.start.managed).sum();
        let seconds = notes.duration_ns as f64 / 1e9;
        let control = in_force_outcome.as_ref().map(|outcome| Control {
            kernel: replay.kernel().totals(|_| true),
            replay: totals(outcome),
            replay_locks: outcome.zone_lock_acquisitions,
            busiest: replay.kernel().busiest(),
            operations: notes.operations,
            seconds,
            lost_events: facts.lost_events(),
            near_mark: of_recording(trace, &replay).iter().any(|warning| warning.name == Name::NearHighMark),
            kernel_ticks: kernel_ticks(&outcome.borrowed, &notes.found).is_some(),
            kernel_known: setting.kernel_known,
            remedy: facts.remedy(),
        });
        let decided = control.and_then(|control| control.decided());
        let judge = |settings: &[Setting]| verdict::judge(settings, decided.as_ref());
        let scales = knobs::scales(&knobs);
        let verdict = verdict::better(judge(&settings), &settings, judge(scales), scales);
        let sure = match control {
            Some(control) => control.sure(verdict.basis, verdict.watermark_scale_factor.is_some()),
            None => Sure::none(Cause::NoControl, "the setting in force was not replayed"),
        };
        let seen = in_force_outcome.and_then(|outcome| outcome.high_orders);
        let chosen = price::chosen([settings.as_slice(), scales], &verdict);
        Ok(Advice {
            schema: Schema::V1,
            trace: trace.name().to_owned(),
            kernel: Kernel {
                release: facts.kernel_release.clone(),
                rules: setting.kernel.name.to_owned(),
                known: setting.kernel_known,
                disagreement: identified.as_ref().map(disagreement),
                high_fraction: in_force,
            },
            duration_ns: notes.duration_ns,
            operations: notes.operations,
            cpus: setting.cpus.len(),
            managed_pages,
            gain: chosen.map(|(now, then)| price::gain(now, then)),
            price: chosen.map(|(now, then)| {
                price::price(&[price::Replayed { load: trace.name(), managed: managed_pages, now, then }])
            }),
            verdict,
            sure,
            high_orders: HighOrderPages {
                begin_pages: seen.map(|seen| seen.begin),
                kernel_end_pages: replay.kernel_high_orders_end(),
                replay_end_pages: seen.map(|seen| seen.end),
            },
            settings,
            knobs,
            other_kernels,
            named_patterns: patterns.named(),
            patterns,
        })
    }

    /// How often zone locks would be taken if pages were freed on the CPU that allocated them, in a sentence. `None` if that
    /// is not clearly less often, or if locks are rare. Not part of the verdict: a replay does not show the cost.
    pub fn affinity_gain(&self) -> Option<String> {
        knobs::affinity_gain(&self.knobs)
            .filter(|_| matches!(self.verdict.basis, Basis::NoGain | Basis::Gain | Basis::NoSetting))
    }

    /// Whether the replays say something: that of the setting in force follows the kernel.
    pub fn rows_follow(&self) -> bool {
        self.verdict.kind() != Kind::None && !self.sure.has(Cause::ControlFails)
    }

    /// The replays under values of `vm.watermark_scale_factor`; none if it cannot be replayed.
    pub fn scales(&self) -> &[Setting] {
        knobs::scales(&self.knobs)
    }
}

struct Replays {
    settings: Vec<Setting>,
    knobs: Vec<Knob>,
    other_kernels: Vec<Setting>,
    /// The outcome of the setting in force.
    in_force: Option<Outcome>,
}

impl Replays {
    fn of(
        replay: &Replay<'_>,
        patterns: &Patterns,
        facts: &Facts,
        progress: &mut dyn FnMut(Step<'_>),
    ) -> Result<Self, ReplayError> {
        let in_force = facts.high_fraction.unwrap_or(0);
        let kernel = replay.kernel_rules();
        let has_fraction = has_high_fraction(facts);
        let offered = match has_fraction {
            true => settings(&kernel, in_force),
            false => vec![(in_force, RuleSet { name: "as recorded".to_owned(), ..kernel.clone() })],
        };
        let other_rules = other_rules(&kernel);
        let plans = knobs::plan(replay, patterns);
        let of_knob = |(name, what_if): (&str, WhatIf)| (RuleSet { name: name.to_owned(), ..kernel.clone() }, what_if);
        let jobs: Vec<(RuleSet, WhatIf)> = offered
            .iter()
            .map(|(_, rules)| (rules.clone(), WhatIf::AsRecorded))
            .chain(plans.iter().flat_map(knobs::Plan::replays).map(of_knob))
            .chain(other_rules.into_iter().map(|rules| (rules, WhatIf::AsRecorded)))
            .collect();
        let mut measured = measured_all(replay, &jobs, progress)?.into_iter();
        let (mut settings, mut in_force_outcome) = (Vec::new(), None);
        for ((fraction, _), (measured, outcome)) in offered.iter().zip(&mut measured) {
            let now = *fraction == in_force;
            if now {
                in_force_outcome = Some(outcome);
            }
            settings.push(Setting { high_fraction: has_fraction.then_some(*fraction), in_force: now, ..measured });
        }
        let now = settings.iter().find(|setting| setting.in_force).cloned().unwrap_or_default();
        let mut measured = measured.map(|(measured, _)| measured);
        let knobs = plans.into_iter().map(|plan| plan.knob(replay, &now, &mut measured)).collect();
        Ok(Replays { settings, knobs, other_kernels: measured.collect(), in_force: in_force_outcome })
    }
}

/// The replays in order, each with its outcome.
fn measured_all(
    replay: &Replay<'_>,
    jobs: &[(RuleSet, WhatIf)],
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<Vec<(Setting, Outcome)>, ReplayError> {
    let seconds = replay.notes().duration_ns as f64 / 1e9;
    let run = |(rules, what_if): &(RuleSet, WhatIf), count: &mut dyn FnMut(u64)| {
        let outcome = replay.run_if(rules, Level::Reconstructed, *what_if, count)?;
        Ok((measured(rules, &outcome, seconds), outcome))
    };
    let (events, of) = (replay.notes().events, jobs.len() as u64);
    run_all(jobs, replay.threads(), run, &mut |step| match step {
        Progress::Begin(done) => progress(Step::Replay { rules: &jobs[done].0.name, events, done: done as u64, of }),
        Progress::Events(read) => progress(Step::Events(read)),
    })
}

fn totals(outcome: &Outcome) -> Totals {
    outcome.moves.totals(|_| true)
}

/// Whether the recorded kernel has `vm.percpu_pagelist_high_fraction`: a recorded value shows it, else the release.
fn has_high_fraction(facts: &Facts) -> bool {
    facts.high_fraction.is_some() || crate::replay::setting::has_high_fraction(facts.kernel_release.as_deref())
}

/// The settings to replay, by their fraction. The one in force is replayed with the bounds in the snapshots.
fn settings(kernel: &RuleSet, in_force: u32) -> Vec<(u32, RuleSet)> {
    let mut fractions = FRACTIONS.to_vec();
    if !fractions.contains(&in_force) {
        fractions.push(in_force);
        fractions.sort_unstable();
    }
    let rules = |fraction: u32| {
        let high_fraction = (fraction != in_force).then_some(fraction);
        (fraction, RuleSet { name: fraction.to_string(), high_fraction, ..kernel.clone() })
    };
    fractions.into_iter().map(rules).collect()
}

fn other_rules(kernel: &RuleSet) -> Vec<RuleSet> {
    let rules = OTHER_KERNELS.iter().filter_map(|name| Preset::find(name)).map(|preset| {
        let tuning = on_machine(preset.tuning, Some(kernel.tuning.batch_scale_max));
        RuleSet { high_fraction: Some(0), ..RuleSet::new(preset.name, tuning) }
    });
    rules.filter(|rules| rules.name != kernel.name).collect()
}

fn measured(rules: &RuleSet, outcome: &Outcome, seconds: f64) -> Setting {
    let moves = || outcome.moves.refills.iter().chain(&outcome.moves.drains).map(|moved| u64::from(moved.pages));
    let (locks, high_orders) = (outcome.zone_lock_acquisitions, outcome.high_orders.map(|seen| seen.least));
    Setting {
        setting: rules.name.clone(),
        operations: outcome.operations,
        zone_lock_acquisitions: locks,
        zone_lock_acquisitions_per_1000_operations: per_1000(locks, outcome.operations),
        zone_lock_acquisitions_per_s: (locks as f64 / seconds.max(1e-9)).round() as u64,
        longest_hold_pages: moves().max().unwrap_or(0),
        moved_pages: moves().sum(),
        held_pages_max: outcome.held_pages_max,
        high_order_pages_min: high_orders,
        huge_pages_free: high_orders.map(|pages| pages / HUGE_PAGES),
        short: outcome.failed + outcome.below_min,
        ..Setting::default()
    }
}
