//! Knobs other than `vm.percpu_pagelist_high_fraction`: which values a replay can tell of, and their replays.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::patterns::{NAMED_FROM_PCT, Patterns};
use super::verdict::Setting;
use crate::number::grouped;
use crate::replay::{Replay, WhatIf};
use crate::verdict::LOCKS_LEFT_MAX;

/// The values of `vm.watermark_scale_factor` that are replayed, besides the one in force: the default, and values up to
/// 10 % of memory.
const SCALES: [u32; 4] = [10, 50, 200, 1000];

/// A knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KnobName {
    /// `vm.watermark_scale_factor`.
    WatermarkScaleFactor,
    /// The CPUs that the load runs on.
    Affinity,
    /// `transparent_hugepage/enabled` and `defrag`, and `vm.nr_hugepages`.
    HugePages,
    /// `net.core.high_order_alloc_disable`.
    HighOrderAllocDisable,
}

impl KnobName {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            KnobName::WatermarkScaleFactor => "watermark-scale-factor",
            KnobName::Affinity => "affinity",
            KnobName::HugePages => "huge-pages",
            KnobName::HighOrderAllocDisable => "high-order-alloc-disable",
        }
    }
}

/// What a knob would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knob {
    /// The knob: `watermark-scale-factor`, `affinity`, `huge-pages` or `high-order-alloc-disable`.
    pub knob: KnobName,
    /// Replays under its values, including the one in force; empty if none can be replayed.
    pub settings: Vec<Setting>,
    /// The values that a replay cannot tell of, each with the reason; a null value stands for all values.
    #[schemars(extend("todo" = "Record under each value, and compare with `pageset diff`."))]
    pub not_replayable: Vec<NotReplayable>,
    /// What to know of the replays, in a sentence each.
    pub notes: Vec<String>,
}

/// A value that a replay cannot tell of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotReplayable {
    /// The value; null for all values.
    pub setting: Option<String>,
    /// The reason in a sentence.
    pub why: String,
}

/// A knob before its replays.
pub(super) struct Plan {
    knob: Knob,
    /// The name of the value in force; `None` if nothing can be replayed.
    in_force: Option<Value>,
    others: Vec<Value>,
}

struct Value {
    name: String,
    what_if: WhatIf,
}

impl Value {
    fn scale(scale: u32) -> Value {
        Value { name: scale.to_string(), what_if: WhatIf::WatermarkScale(scale) }
    }

    /// The value with its measurements.
    fn row(&self, measured: Setting, in_force: bool, replay: &Replay<'_>) -> Setting {
        let scale = match self.what_if {
            WhatIf::WatermarkScale(scale) => Some(scale),
            _ => None,
        };
        Setting {
            setting: self.name.clone(),
            high_fraction: None,
            watermark_scale_factor: scale,
            low_watermark_pages: scale.map(|scale| replay.low_watermarks(scale)),
            in_force,
            ..measured
        }
    }
}

impl Plan {
    fn new(knob: KnobName) -> Plan {
        let knob = Knob { knob, settings: Vec::new(), not_replayable: Vec::new(), notes: Vec::new() };
        Plan { knob, in_force: None, others: Vec::new() }
    }

    fn cannot(&mut self, setting: Option<u32>, why: String) {
        self.knob.not_replayable.push(NotReplayable { setting: setting.map(|value| value.to_string()), why });
    }

    fn note(&mut self, note: String) {
        self.knob.notes.push(note);
    }

    /// The replays to make, with their names. The replay of the setting in force is not repeated.
    pub(super) fn replays(&self) -> impl Iterator<Item = (&str, WhatIf)> {
        self.others.iter().map(|value| (value.name.as_str(), value.what_if))
    }

    /// The knob with its replays. `now` is the replay of the setting in force, `measured` yields those of
    /// [`Self::replays`].
    pub(super) fn knob(self, replay: &Replay<'_>, now: &Setting, measured: &mut dyn Iterator<Item = Setting>) -> Knob {
        let mut knob = self.knob;
        knob.settings.extend(self.in_force.iter().map(|value| value.row(now.clone(), true, replay)));
        knob.settings.extend(self.others.iter().zip(measured).map(|(value, of)| value.row(of, false, replay)));
        knob.settings.sort_by_key(|setting| setting.watermark_scale_factor);
        knob
    }
}

/// The knobs that matter for a recording.
pub(super) fn plan(replay: &Replay<'_>, patterns: &Patterns) -> Vec<Plan> {
    let knobs = [Some(watermark_scale(replay)), affinity(patterns), huge_pages(patterns), socket_blocks(patterns)];
    knobs.into_iter().flatten().collect()
}

fn watermark_scale(replay: &Replay<'_>) -> Plan {
    let mut plan = Plan::new(KnobName::WatermarkScaleFactor);
    let in_force = match replay.watermark_scale() {
        Ok(scale) => scale,
        Err(why) => {
            plan.cannot(None, why.to_owned());
            return plan;
        }
    };
    plan.in_force = Some(Value::scale(in_force));
    let low = |scale| replay.low_watermarks(scale);
    // Values with the same watermarks have the same replay.
    for scale in SCALES.into_iter().filter(|scale| low(*scale) != low(in_force)) {
        match replay.check_watermark_scale(scale) {
            Ok(()) => plan.others.push(Value::scale(scale)),
            Err(why) => plan.cannot(Some(scale), why),
        }
    }
    let lows: Vec<String> = std::iter::once(in_force)
        .chain(plan.others.iter().filter_map(|value| value.name.parse().ok()))
        .map(|scale| format!("{} with {scale}", grouped(low(scale))))
        .collect();
    plan.note("a replay does not tell when kswapd wakes, which depends on the low watermarks".to_owned());
    plan.note(format!("low watermarks of all zones, in pages: {}", lows.join(", ")));
    plan
}

fn affinity(patterns: &Patterns) -> Option<Plan> {
    if patterns.travelling_pct < NAMED_FROM_PCT {
        return None;
    }
    let mut plan = Plan::new(KnobName::Affinity);
    plan.in_force = Some(Value { name: "as recorded".to_owned(), what_if: WhatIf::AsRecorded });
    plan.others.push(Value { name: "same CPU".to_owned(), what_if: WhatIf::LocalFrees });
    plan.note(format!("{:.0} % of the pages are freed on another CPU", patterns.travelling_pct));
    plan.note("a replay does not tell the time that one CPU needs for the work of both".to_owned());
    Some(plan)
}

fn huge_pages(patterns: &Patterns) -> Option<Plan> {
    if patterns.huge_page_allocs == 0 {
        return None;
    }
    let mut plan = Plan::new(KnobName::HugePages);
    let why = "a recording fixes the orders of requests; record under each setting, and compare with `pageset diff`";
    plan.cannot(None, why.to_owned());
    Some(plan)
}

fn socket_blocks(patterns: &Patterns) -> Option<Plan> {
    if patterns.socket_blocks_pct < NAMED_FROM_PCT {
        return None;
    }
    let mut plan = Plan::new(KnobName::HighOrderAllocDisable);
    let why = "with 1 a socket takes single pages when it fills them, and a recording does not show when; record with 0 and with 1, and \
               compare with `pageset diff`";
    plan.cannot(None, why.to_owned());
    plan.note(format!(
        "{:.0} % of the allocated pages are blocks of order 3 with the flags of sockets' buffers, which it replaces",
        patterns.socket_blocks_pct
    ));
    Some(plan)
}

/// The replays under values of `vm.watermark_scale_factor`.
pub(super) fn scales(knobs: &[Knob]) -> &[Setting] {
    knobs.iter().find(|knob| knob.knob == KnobName::WatermarkScaleFactor).map_or(&[], |knob| &knob.settings)
}

/// What freeing on the allocating CPU gains, if it is as much as a setting must gain.
pub(super) fn affinity_gain(knobs: &[Knob]) -> Option<String> {
    let settings = &knobs.iter().find(|knob| knob.knob == KnobName::Affinity)?.settings;
    let (now, then) = settings.iter().find(|row| row.in_force).zip(settings.iter().find(|row| !row.in_force))?;
    let left = then.zone_lock_acquisitions as f64 / now.zone_lock_acquisitions.max(1) as f64;
    (left <= LOCKS_LEFT_MAX && then.short <= now.short).then(|| {
        format!(
            "if pages were freed on the CPU that allocated them, zone locks would be taken {:.1} times for 1000 allocations \
             and frees instead of {:.1}; see below",
            then.locks_per_1000(),
            now.locks_per_1000()
        )
    })
}
