//! The inputs of one replay: the bounds and the first counters of the pagesets under its rules.

use pageset::CpuId;
use pageset::policy::{Bounds, Tuning};

use super::findings::Taken;
use super::setting::{PagesetSnapshot, Setting, ZoneState};
use super::start_state::{Shown, Start};
use super::survey::Survey;
use super::what_if::WhatIf;
use super::{Level, Recorded, RuleSet};

/// The inputs of a run.
pub(super) struct Plan<'r> {
    pub(super) recorded: Recorded<'r>,
    pub(super) setting: &'r Setting,
    pub(super) survey: &'r Survey,
    pub(super) level: Level,
    pub(super) rules: &'r RuleSet,
    pub(super) what_if: WhatIf,
    /// Allocations before their events, by the input alone. Sorted by event.
    pub(super) input_taken: &'r [Taken],
    /// The numbers of frees, ascending, that find the pageset locked: a moment that the input does not decide.
    pub(super) locked_out: &'r [usize],
}

impl Plan<'_> {
    fn tuning(&self) -> Tuning {
        self.rules.tuning
    }

    /// Whether these are the recorded kernel's rules, with the bounds in its snapshots.
    pub(super) fn is_kernel(&self) -> bool {
        self.tuning() == self.setting.kernel_tuning() && self.has_kernel_sizes()
    }

    /// Whether batch and `high` depend on a zone's size as in the recorded kernel.
    fn has_kernel_sizes(&self) -> bool {
        let sizes = |tuning: &Tuning| (tuning.batch, tuning.high, tuning.auto_high);
        sizes(&self.tuning()) == sizes(&self.setting.kernel_tuning())
            && self.rules.high_fraction.is_none()
            && !matches!(self.what_if, WhatIf::WatermarkScale(_))
    }

    /// Batch and the bounds of `high` of a zone in this state. `sharers` is the number of CPUs that share `high`, if
    /// hot-plug changed it; the bounds are then calculated.
    pub(super) fn bounds(&self, zone: usize, state: &ZoneState, sharers: Option<u32>) -> Bounds {
        // Kernels from 6.7 to 6.13 tune `high` within bounds that they do not print: `kernels-2026.md` 3.4.
        let shown = state.bounds_shown || !self.tuning().auto_high;
        if shown && self.has_kernel_sizes() && sharers.is_none() {
            return state.bounds;
        }
        let fraction = self.rules.high_fraction.unwrap_or(self.setting.high_fraction);
        self.setting.computed_bounds(&self.tuning(), fraction, zone, state, sharers)
    }

    /// The counters of a pageset at the start.
    pub(super) fn start(&self, zone: usize, cpu: usize, snapshot: PagesetSnapshot) -> Start {
        let bounds = self.bounds(zone, &self.setting.zones[zone].start, None);
        let slice = self.rules.cache_slice_pages.or(self.setting.cache_slice_pages).unwrap_or(0);
        let large_cache = self.tuning().large_cache(slice, bounds.batch);
        let shown = Shown { snapshot, bounds, large_cache };
        self.survey.histories.start(zone, CpuId(cpu as u32), &self.tuning(), shown)
    }
}
