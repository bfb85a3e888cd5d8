//! A replay of a machine that differs from the recorded one: other watermarks, or other CPUs that free.

use pageset::ZoneKind;
use pageset::policy::{HighRule, Watermarks};

use super::Replay;
use super::setting::{Setting, ZoneSetting, ZoneState};

/// `vm.watermark_scale_factor` of a kernel that nobody configured. Specification: `linux-page-allocator.md` 9.
pub const DEFAULT_WATERMARK_SCALE: u32 = 10;
/// The largest `vm.watermark_scale_factor`: 30 % of memory. Source: the kernel's own documentation of its sysctls.
pub const MAX_WATERMARK_SCALE: u32 = 3000;

/// A difference of the replayed machine from the recorded one. The rules are no part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhatIf {
    /// None.
    #[default]
    AsRecorded,
    /// This `vm.watermark_scale_factor`: other low and high watermarks, and bounds of `high` that follow from them.
    /// Reclaim stays as recorded.
    WatermarkScale(u32),
    /// Each block is freed on the CPU that allocated it. Blocks without a recorded allocation are freed as recorded.
    LocalFrees,
}

/// Watermarks of a zone at a scale: the distance between them is a quarter of `share`, which is the zone's part of
/// `vm.min_free_kbytes`, or more. Specification: `linux-page-allocator.md` 1.2.
fn scaled(state: &ZoneState, share: u64, scale: u32) -> Watermarks {
    let gap = (share / 4).max((u128::from(state.managed) * u128::from(scale) / 10_000) as u64);
    let min = state.watermarks.min;
    Watermarks { min, low: min.saturating_add(gap), high: min.saturating_add(gap.saturating_mul(2)) }
}

/// Whether the zone's min watermark is its part of `vm.min_free_kbytes`.
fn is_ordinary(zone: &ZoneSetting) -> bool {
    zone.kind != ZoneKind::Movable
}

/// The zones' parts of `vm.min_free_kbytes`. That of a movable zone follows from the largest other zone.
fn shares(zones: &[ZoneSetting], states: &[&ZoneState]) -> Vec<u64> {
    let min = |state: &ZoneState| state.watermarks.min.saturating_sub(state.boost);
    let ordinary = || zones.iter().zip(states).filter(|(zone, _)| is_ordinary(zone)).map(|(_, state)| *state);
    let largest = ordinary().filter(|state| state.managed > 0).max_by_key(|state| state.managed);
    let share = |(zone, state): (&ZoneSetting, &&ZoneState)| match largest {
        Some(of) if !is_ordinary(zone) => {
            (u128::from(min(of)) * u128::from(state.managed) / u128::from(of.managed)) as u64
        }
        _ => min(state),
    };
    zones.iter().zip(states).map(share).collect()
}

/// The zones' watermarks at a scale.
fn marks(zones: &[ZoneSetting], states: &[&ZoneState], scale: u32) -> Vec<Watermarks> {
    let shares = shares(zones, states);
    states.iter().zip(shares).map(|(state, share)| scaled(state, share, scale)).collect()
}

impl Setting {
    fn start_states(&self) -> Vec<&ZoneState> {
        self.zones.iter().map(|zone| &zone.start).collect()
    }

    /// A `vm.watermark_scale_factor` that gives the recorded watermarks: the default if it does, else the smallest.
    /// `None` if the watermarks follow from no scale.
    fn watermark_scale(&self) -> Option<u32> {
        let states = self.start_states();
        let gives = |scale: &u32| {
            let marks = marks(&self.zones, &states, *scale);
            let zones = self.zones.iter().zip(marks).filter(|(zone, _)| is_ordinary(zone) && zone.start.managed > 0);
            let same = |(zone, mark): (&ZoneSetting, Watermarks)| zone.start.watermarks == mark;
            zones.map(same).reduce(|all, same| all && same).unwrap_or(false)
        };
        std::iter::once(DEFAULT_WATERMARK_SCALE).chain(1..=MAX_WATERMARK_SCALE).find(gives)
    }

    /// The machine with the watermarks of another scale, in all snapshots.
    pub(super) fn with_watermark_scale(&self, scale: u32) -> Setting {
        let mut other = self.clone();
        let start = marks(&self.zones, &self.start_states(), scale);
        other.zones.iter_mut().zip(start).for_each(|(zone, marks)| zone.start.watermarks = marks);
        for (_, states) in &mut other.later {
            let marks = marks(&self.zones, &states.iter().collect::<Vec<_>>(), scale);
            states.iter_mut().zip(marks).for_each(|(state, marks)| state.watermarks = marks);
        }
        other
    }

    /// A zone that is above its high watermark in all snapshots, but not above the one of this scale.
    fn zone_below(&self, scale: u32) -> Option<&ZoneSetting> {
        let other = self.with_watermark_scale(scale);
        let snapshots = |of: &Setting, zone: usize| -> Vec<ZoneState> {
            let later = of.later.iter().map(|(_, states)| states[zone].clone());
            std::iter::once(of.zones[zone].start.clone()).chain(later).collect()
        };
        let is_below = |of: &Setting, zone: usize| {
            snapshots(of, zone).iter().any(|state| state.managed > 0 && state.free <= state.watermarks.high)
        };
        (0..self.zones.len())
            .find(|&zone| is_below(&other, zone) && !is_below(self, zone))
            .map(|zone| &self.zones[zone])
    }
}

impl Replay<'_> {
    /// A `vm.watermark_scale_factor` that gives the recorded watermarks. Small scales all give the same ones.
    ///
    /// # Errors
    /// A sentence why another scale cannot be replayed.
    pub fn watermark_scale(&self) -> Result<u32, &'static str> {
        if self.setting.kernel_tuning().high != HighRule::FromLowWatermark {
            return Err("before 5.14, pagesets do not depend on watermarks");
        }
        if self.setting.high_fraction > 0 {
            return Err("vm.percpu_pagelist_high_fraction sets the size of pagesets, whatever the watermarks are");
        }
        self.setting.watermark_scale().ok_or("the recorded watermarks do not follow from any scale")
    }

    /// Whether a replay can tell what this `vm.watermark_scale_factor` does.
    ///
    /// # Errors
    /// A sentence why it cannot.
    pub fn check_watermark_scale(&self, scale: u32) -> Result<(), String> {
        self.setting.zone_below(scale).map_or(Ok(()), |zone| {
            let (name, node) = (&zone.name, zone.node.0);
            Err(format!(
                "zone {name} of node {node} would have less free memory than its high watermark, so kswapd would reclaim"
            ))
        })
    }

    /// The low watermarks of all zones together at a scale. Unit: pages.
    #[must_use]
    pub fn low_watermarks(&self, scale: u32) -> u64 {
        let marks = marks(&self.setting.zones, &self.setting.start_states(), scale);
        marks.iter().fold(0, |sum, marks| sum.saturating_add(marks.low))
    }
}

#[cfg(test)]
mod tests {
    use pageset::NodeId;
    use pageset::policy::Bounds;

    use super::*;

    /// A zone with these managed pages and watermarks.
    fn zone(kind: ZoneKind, managed: u64, [min, low, high]: [u64; 3]) -> ZoneSetting {
        let start = ZoneState {
            free: managed,
            managed,
            watermarks: Watermarks { min, low, high },
            bounds: Bounds::DISABLED,
            ..ZoneState::default()
        };
        ZoneSetting {
            node: NodeId(0),
            kind,
            name: kind.name().to_owned(),
            frames: 0..managed,
            start,
            free_blocks: [[0; 11]; 3],
        }
    }

    fn lows(zones: &[ZoneSetting], scale: u32) -> Vec<u64> {
        let states: Vec<&ZoneState> = zones.iter().map(|zone| &zone.start).collect();
        marks(zones, &states, scale).iter().map(|marks| marks.low).collect()
    }

    /// The zones of `sock-q1`, where the default scale has no effect, and a movable zone of 1,000,000 pages.
    #[test]
    fn watermarks_follow_from_the_scale() {
        let mut zones = vec![
            zone(ZoneKind::Dma, 3840, [26, 32, 38]),
            zone(ZoneKind::Dma32, 772_915, [5407, 6758, 8109]),
            zone(ZoneKind::Normal, 1_638_400, [11_461, 14_326, 17_191]),
        ];
        for scale in [1, 10, 17] {
            assert_eq!(lows(&zones, scale), [32, 6758, 14_326], "{scale}");
        }
        assert_eq!(lows(&zones, 200), [26 + 76, 5407 + 15_458, 11_461 + 32_768]);
        // Its min watermark is no part of min_free_kbytes; its distance is.
        zones.push(zone(ZoneKind::Movable, 1_000_000, [128, 128 + 1748, 128 + 2 * 1748]));
        assert_eq!(lows(&zones, 10)[3], 128 + 1748);
        assert_eq!(lows(&zones, 100)[3], 128 + 10_000);
        // A boost raises each watermark, but not their distance.
        let boosted = &mut zones[2].start;
        boosted.boost = 1000;
        boosted.watermarks.min += 1000;
        assert_eq!(lows(&zones, 10)[2..], [15_326, 128 + 1748]);
    }
}
