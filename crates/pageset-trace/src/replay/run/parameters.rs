//! Marks, bounds and sizes of pagesets that change during a replay: by snapshots, settings, and CPUs that come and go.

use pageset::Order;
use pageset::policy::{Bounds, PcpState};

use super::Run;
use crate::event::{Event, StateChange};
use crate::replay::findings::SettingMoment;
use crate::replay::setting::ZoneState;
use crate::replay::{Level, holds};

impl<'r> Run<'r, '_> {
    pub(super) fn set_parameters(&self, zone: usize) {
        let state = self.states[zone];
        let watermarks = if self.is_set { state.marks } else { state.watermarks };
        self.zone(zone).set_watermarks(watermarks, state.reserve);
        let sharers = self.hotplug.sharers(zone).filter(|_| self.hotplug_changed || !state.bounds_shown);
        let bounds = match self.hotplug.is_off(zone) {
            true => Bounds::DISABLED,
            false => self.plan.bounds(zone, state, sharers),
        };
        // The capacity of the pagesets fits the largest bounds of all snapshots, so this cannot fail.
        let _ = self.zone(zone).set_bounds(bounds);
    }

    pub(super) fn state_change(&mut self, change: StateChange, event: &Event) {
        let zone = self.plan.setting.zone_of_change(change);
        if let (StateChange::ZoneCounter { counter, change, .. }, Some(zone)) = (change, zone) {
            self.counters.change_recorded(zone, event.cpu, counter, change);
        }
        if !self.hotplug.change(change, event.pid, zone) {
            return;
        }
        // Pagesets that are switched off are in use until the kernel has drained them one by one. Those drains are requests.
        let emptied = self.pagesets().filter(|(z, c)| match change {
            StateChange::CpuOffline(cpu) => *c == cpu,
            StateChange::PagesetsOn(_) => Some(*z) == zone,
            _ => false,
        });
        for (zone, cpu) in emptied {
            self.operate(zone, cpu, Order::ZERO, |run| run.zone(zone).drain_local());
        }
        self.hotplug_changed = true;
        (0..self.states.len()).for_each(|zone| self.set_parameters(zone));
    }

    /// Applies a later snapshot's parameters.
    pub(super) fn snapshot(&mut self, tag: &str) {
        match self.plan.level {
            Level::Input => self.apply_settings(tag),
            Level::Reconstructed => self.apply_snapshot(tag),
        }
    }

    /// Makes a setting at its moment, before the snapshot that shows it.
    pub(super) fn set(&mut self, moment: &SettingMoment) {
        let (_, states) = &self.plan.setting.later[moment.snapshot];
        let states: Vec<_> = states.iter().collect();
        match self.plan.level {
            Level::Input => self.apply_states(states),
            Level::Reconstructed => {
                self.states = states;
                self.uncounted(|run| (0..run.states.len()).for_each(|zone| run.set_parameters(zone)));
            }
        }
        self.fix_high();
        self.outcome.borrowed.setting_moments += 1;
    }

    /// Sets `high` where the bounds that were set are equal and the snapshot shows `high` there. The program that set the
    /// bounds may have set `high`, too. Otherwise a tick would lower it by an eighth each second where the pageset was unused since.
    fn fix_high(&self) {
        for (zone, cpu) in self.pagesets() {
            let state = self.pageset(zone, cpu).state();
            let shown = self.states[zone].pagesets.get(cpu.0 as usize).map(|pageset| pageset.high);
            if state.high_min == state.high_max && shown == Some(state.high_max.into()) {
                self.pageset(zone, cpu).restore(&PcpState { high: state.high_max, ..state });
            }
        }
    }

    /// Runs `work` that the recorded kernel did not do. Its locks and pages do not count.
    fn uncounted(&mut self, work: impl FnOnce(&mut Self)) {
        let (locks, pages) = (self.locks(), self.direct_pages());
        holds::uncounted(|| work(self));
        self.own_locks += self.locks() - locks;
        self.own_pages += self.direct_pages() - pages;
    }

    /// Applies what was set since the last snapshot: input as the requests are. No event shows the moment.
    fn apply_settings(&mut self, tag: &str) {
        let Some(states) = self.plan.setting.snapshot(tag) else { return };
        let tunes = self.plan.setting.kernel_tuning().auto_high;
        if !states.iter().zip(&self.states).any(|(state, before)| state.is_set_since(before, tunes)) {
            return;
        }
        self.apply_states(states.iter().collect());
    }

    fn apply_states(&mut self, states: Vec<&'r ZoneState>) {
        self.states = states;
        (self.is_set, self.hotplug_changed) = (true, false);
        self.uncounted(|run| (0..run.states.len()).for_each(|zone| run.set_parameters(zone)));
        self.outcome.borrowed.settings += 1;
    }

    fn apply_snapshot(&mut self, tag: &str) {
        let Some(states) = self.plan.setting.snapshot(tag) else { return };
        self.hotplug_changed = false;
        self.uncounted(|run| {
            for (zone, state) in states.iter().enumerate() {
                run.states[zone] = state;
                run.set_parameters(zone);
                let stats = run.zone(zone).stats();
                let unused = stats.nr_free_pages + stats.cached_pages();
                run.corrections.correct(run.world, zone, unused, state.unused());
            }
        });
        self.outcome.borrowed.snapshots += 1;
        self.sample_high_orders();
    }
}
