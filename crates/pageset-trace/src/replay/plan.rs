//! The inputs of one replay, and the machine that it runs on.

use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::sizes::ZoneSize;
use pageset::policy::{BatchRule, Bounds, PcpState, Tuning};
use pageset::{Allocator, CpuId, PageRange, ZoneSpec};

use super::run::Run;
use super::setting::{PagesetSnapshot, Setting, State, ZoneState};
use super::start_state::Shown;
use super::survey::Survey;
use super::what_if::WhatIf;
use super::world::{self, Plans, ReplayMachine};
use super::{Level, Outcome, ReplayError, RuleSet, high_orders};
use crate::trace::Trace;

/// The inputs of a run.
pub(super) struct Plan<'r> {
    pub(super) trace: &'r Trace,
    pub(super) setting: &'r Setting,
    pub(super) survey: &'r Survey,
    pub(super) level: Level,
    pub(super) rules: &'r RuleSet,
    pub(super) what_if: WhatIf,
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
        let node = self.setting.zones[zone].node;
        let online = || self.setting.cpus.iter().zip(&self.setting.online).filter(|(_, online)| **online);
        let local = online().filter(|(n, _)| **n == node).count();
        let cpus = sharers.unwrap_or(if local == 0 { online().count().max(1) } else { local } as u32);
        let size = ZoneSize { managed: state.managed, low: state.watermarks.low, cpus };
        let fraction = self.rules.high_fraction.unwrap_or(self.setting.high_fraction);
        // The recorded batch is exact for any size of pages. Disabled pagesets show none.
        let is_shown = self.tuning().batch == self.setting.kernel_tuning().batch && state.bounds.high_max > 0;
        let batch = if is_shown { BatchRule::Fixed(state.bounds.batch) } else { self.tuning().batch };
        Tuning { batch, ..self.tuning() }.bounds(size, fraction)
    }

    /// The counters of a pageset at the start, and whether the kernel's first refills and drains show them.
    pub(super) fn start(&self, zone: usize, cpu: usize, snapshot: PagesetSnapshot) -> (PcpState, bool) {
        let bounds = self.bounds(zone, &self.setting.zones[zone].start, None);
        let slice = self.rules.cache_slice_pages.or(self.setting.cache_slice_pages).unwrap_or(0);
        let large_cache = self.tuning().large_cache(slice, bounds.batch);
        let shown = Shown { snapshot, bounds, large_cache };
        self.survey.histories.start(zone, CpuId(cpu as u32), &self.tuning(), shown)
    }

    /// Runs the replay. Reports the number of events read to `progress`.
    pub(super) fn run(&self, progress: &mut dyn FnMut(u64)) -> Result<Outcome, ReplayError> {
        let setting = self.setting;
        let reconstructed = self.level == Level::Reconstructed;
        let earlier = if reconstructed { &self.survey.earlier } else { &self.survey.earlier_by_input };
        let initial = &self.survey.initial;
        let plans = Plans::new(setting, earlier, initial);
        let states = || {
            std::iter::once(setting.zones.iter().map(|z| &z.start).collect::<Vec<_>>())
                .chain(setting.later.iter().map(|(_, states)| states.iter().collect()))
        };
        let limits: Vec<u32> = (0..setting.zones.len())
            .map(|zone| {
                let fewest = self.survey.fewest_sharers[zone];
                let cases = states().flat_map(|s| [(s[zone], None), (s[zone], fewest)]);
                let bounds = cases.map(|(state, sharers)| self.bounds(zone, state, sharers));
                bounds.map(|b| b.high_max.max(4 * b.batch)).max().unwrap_or(0)
            })
            .collect();
        let held: u64 = initial.iter().flatten().map(world::pages_of).max().unwrap_or(0);
        let capacity = limits.iter().copied().max().unwrap_or(0).max(u32::try_from(held).unwrap_or(0));

        let ranges = plans.ranges();
        let specs: Vec<ZoneSpec<'_>> = setting
            .zones
            .iter()
            .zip(&ranges)
            .map(|(z, (span, online))| ZoneSpec {
                node: z.node,
                kind: z.kind,
                span: *span,
                ranges: std::slice::from_ref(online),
            })
            .collect();
        let config = world::config(setting, self.rules, &specs, capacity);
        let metadata = OwnedMetadata::new(&config)?;
        let mut zones = metadata.zones();
        let world = Allocator::new(ReplayMachine::default(), &config, metadata.lend(&mut zones))?;
        let is_kernel = self.is_kernel();
        let keep: Vec<u32> = if is_kernel { vec![capacity; limits.len()] } else { limits };
        let placed = world::apply(&world, &plans, &keep);

        let spare = ranges.iter().map(|(span, online)| PageRange::new(online.end(), span.pages - online.pages));
        let online = ranges.iter().map(|(_, online)| *online);
        let mut run = Run::new(self, &world, placed, online, spare.collect());
        run.begin();
        let mut window = setting.window();
        for (index, event) in self.trace.events()?.enumerate() {
            let event = event?;
            let state = window.at(&event);
            if state == State::After {
                break;
            }
            if state == State::Inside {
                run.event(index as u64, &event);
            }
            if (index as u64).is_multiple_of(high_orders::SAMPLE_EVERY) {
                run.sample_high_orders();
            }
            progress(index as u64);
        }
        Ok(run.finish())
    }
}
