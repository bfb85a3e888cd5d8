//! The rules in force.

use pageset_trace::replay::setting::{has_high_fraction, kernel_of, tuned_of};
use pageset_trace::verdict::machine::Lists;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Zone;
use crate::look::Look;

/// The rules in force.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Kernel {
    /// The running kernel, as in `uname -r`; null if unknown.
    #[schemars(extend("as" = "kernel_release"))]
    pub release: Option<String>,
    /// The preset's name: that of the release, or that of its lists where the two disagree, which `is_another` says.
    pub rules: String,
    /// Whether the release is known. If not, the rules are guessed from the form of zoneinfo.
    #[schemars(extend("bad" = "false: the rules are a guess.", "todo" = "As the warning kernel-unknown."))]
    pub known: bool,
    /// Whether the kernel tunes high although its release does not. Backported memory management does that.
    #[schemars(extend("bad" = "true: the kernel's memory management is newer than its release.",
        "todo" = "Record the machine and run `pageset replay FILE --identify`."))]
    pub is_another: bool,
    /// Whether pagesets size themselves.
    pub auto_tuning: AutoTuning,
    /// `vm.percpu_pagelist_high_fraction`, 0 for none; null if unknown.
    pub high_fraction: Option<u32>,
}

/// Whether pagesets size themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AutoTuning {
    /// They do.
    On,
    /// An administrator's fraction fixes high.
    OffByFraction,
    /// Each zone's bounds are equal, but no fraction is known.
    OffByBounds,
    /// The kernel has none: before 6.7.
    NotInKernel,
    /// Neither the release nor bounds are known, and high is equal in each zone.
    Unknown,
}

impl AutoTuning {
    /// For a line of text.
    pub const fn text(self) -> &'static str {
        match self {
            AutoTuning::On => "lists tune themselves",
            AutoTuning::OffByFraction => "lists are FIXED by vm.percpu_pagelist_high_fraction",
            AutoTuning::OffByBounds => "lists are fixed: high_min is high_max",
            AutoTuning::NotInKernel => "lists are fixed: auto-tuning came with 6.7",
            AutoTuning::Unknown => "auto-tuning unknown: no release",
        }
    }

    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            AutoTuning::On => "on",
            AutoTuning::OffByFraction => "off-by-fraction",
            AutoTuning::OffByBounds => "off-by-bounds",
            AutoTuning::NotInKernel => "not-in-kernel",
            AutoTuning::Unknown => "unknown",
        }
    }
}

impl Kernel {
    pub(crate) fn new(look: &Look, zones: &[Zone]) -> Kernel {
        let (preset, known) = kernel_of(look.release.as_deref(), look.version.as_deref(), &look.zoneinfo);
        let mut bounds = zones.iter().filter_map(|zone| zone.high_min.zip(zone.high_max)).peekable();
        let shows_bounds = bounds.peek().is_some();
        // Kernels print the bounds since 6.13 only, and tune since 6.7. Without them a known release decides; a `high`
        // that differs within a zone shows tuning under any release.
        let differs = zones.iter().any(|zone| zone.pagesets.windows(2).any(|pair| pair[0].high != pair[1].high));
        let tunes = shows_bounds || differs || known && preset.tuning.auto_high;
        let auto_tuning = if !tunes {
            if known { AutoTuning::NotInKernel } else { AutoTuning::Unknown }
        } else if look.high_fraction.is_some_and(|fraction| fraction > 0) {
            AutoTuning::OffByFraction
        } else if shows_bounds && bounds.all(|(min, max)| min == max) {
            AutoTuning::OffByBounds
        } else {
            AutoTuning::On
        };
        let (release, high_fraction) = (look.release.clone(), look.high_fraction);
        let is_another = known && tunes && !preset.tuning.auto_high;
        let preset = if is_another { tuned_of(&look.zoneinfo) } else { preset };
        Kernel { release, rules: preset.name.to_owned(), known, is_another, auto_tuning, high_fraction }
    }

    /// What sizes the lists, for the verdict.
    pub fn lists(&self) -> Lists {
        match (self.auto_tuning, self.high_fraction) {
            (AutoTuning::On, _) => Lists::Tuned,
            (AutoTuning::OffByFraction, Some(fraction)) => Lists::Fraction(fraction),
            (AutoTuning::NotInKernel, Some(fraction)) => Lists::Fixed(fraction),
            // Newer kernels have the setting; its value could not be read.
            (AutoTuning::NotInKernel, None) if !has_high_fraction(self.release.as_deref()) => Lists::Without,
            _ => Lists::Unknown,
        }
    }
}
