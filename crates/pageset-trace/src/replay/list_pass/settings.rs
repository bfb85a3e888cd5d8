//! The moments of settings. A snapshot shows another batch or other bounds of `high` than the snapshot before it, and no event shows when
//! they were set. The kernel's moves do: the first drain at a free below the old bounds, where they are lower now, or the first refill of
//! the new batch.

use pageset::Order;
use pageset::policy::{Bounds, Tuning};

use crate::replay::findings::SettingMoment;
use crate::replay::setting::{Setting, ZoneState};

/// What is set between the last snapshot and the next one.
#[derive(Debug)]
pub(super) struct Settings {
    tuning: Tuning,
    /// The index of the next snapshot, if it shows a setting whose moment is not known yet.
    next: Option<usize>,
    /// For each zone, batch and bounds in the last snapshot and in the next one.
    bounds: Vec<[Bounds; 2]>,
    /// Whether those of the next snapshot are in force.
    is_made: bool,
}

impl Settings {
    /// What is set between the snapshot with this tag and the one after it; `None` for the first snapshot.
    pub(super) fn after(setting: &Setting, tag: Option<&str>) -> Self {
        let start = || setting.zones.iter().map(|zone| &zone.start).collect::<Vec<_>>();
        let states = |at: usize| setting.later.get(at).map(|(_, states)| states.iter().collect::<Vec<_>>());
        let last = tag.and_then(|tag| setting.later_by_tag.get(tag).copied());
        let next = last.map_or(0, |last| last + 1);
        let before = last.and_then(states).unwrap_or_else(start);
        let after = states(next).unwrap_or_else(|| before.clone());
        let tuning = setting.kernel_tuning();
        // With the watermarks the kernel sets one zone after the other, and a drain of one zone does not show the others' moment.
        let is_set = before.iter().zip(&after).any(|(before, after)| after.is_set_since(before, tuning.auto_high))
            && before.iter().zip(&after).all(|(before, after)| after.marks == before.marks);
        let bounds = |(zone, (before, after)): (usize, (&&ZoneState, &&ZoneState))| {
            [*before, *after].map(|state| Bounds { batch: state.bounds.batch, ..setting.kernel_bounds(zone, state) })
        };
        let bounds = before.iter().zip(&after).enumerate().map(bounds).collect();
        Settings { tuning, next: is_set.then_some(next), bounds, is_made: false }
    }

    /// The batch in force.
    pub(super) fn batch(&self, zone: usize) -> u32 {
        self.bounds[zone][usize::from(self.is_made)].batch
    }

    /// Whether something is set before the next snapshot, at a moment that is not known yet.
    pub(super) fn is_open(&self) -> bool {
        self.next.is_some()
    }

    /// Whether a drain at a free of a pageset with `held` pages shows the moment.
    pub(super) fn is_shown_by_drain(&self, zone: usize, held: i64) -> bool {
        let [before, after] = self.bounds[zone].map(|bounds| i64::from(bounds.high_min));
        self.is_open() && (after..before).contains(&held)
    }

    /// Whether a refill of so many blocks shows the moment.
    pub(super) fn is_shown_by_refill(&self, zone: usize, order: Order, blocks: u64) -> bool {
        let [before, after] = self.bounds[zone].map(|bounds| u64::from(bounds.batch));
        let scale = if self.tuning.alloc_factor { self.tuning.batch_scale_max } else { 0 };
        let fits = |batch: u64| match order {
            Order::ZERO => (0..=scale).any(|factor| batch << factor == blocks),
            _ => (batch >> order.get()).max(2) == blocks,
        };
        self.is_open() && before != after && fits(after) && !fits(before)
    }

    /// The setting is made after this many input events.
    pub(super) fn make(&mut self, place: u64) -> Option<SettingMoment> {
        let snapshot = self.next.take()?;
        self.is_made = true;
        Some(SettingMoment { place, snapshot })
    }
}
