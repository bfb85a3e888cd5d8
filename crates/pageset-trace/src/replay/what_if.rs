//! A replay of a machine that differs from the recorded one: other watermarks, or other CPUs that free.

use pageset::ZoneKind;
use pageset::policy::{HighRule, Watermarks};

use super::Replay;
use super::setting::{Setting, ZoneSetting, ZoneState};

/// The default of `vm.watermark_scale_factor`. Specification: `linux-page-allocator.md` 9.
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
    /// Each block is freed on the CPU that allocated it; of a block that is freed in parts, only the first part. Blocks without
    /// a recorded allocation, or of a CPU that is off-line by then, are freed as recorded.
    LocalFrees,
}

/// A share of a zone's managed pages. Unit of the scale: ten-thousandths.
fn part(state: &ZoneState, scale: u32) -> u64 {
    (u128::from(state.managed) * u128::from(scale) / 10_000) as u64
}

/// Whether the zone's min watermark is its part of `vm.min_free_kbytes`.
fn is_ordinary(zone: &ZoneSetting) -> bool {
    zone.kind != ZoneKind::Movable
}

/// The smallest distance of the zone's watermarks at any scale: a quarter of its part of `vm.min_free_kbytes`. The
/// recorded watermarks of a movable zone tell it if they do not follow from the scale `in_force`; else it is no larger.
fn least_gap(zone: &ZoneSetting, state: &ZoneState, in_force: u32) -> u64 {
    let Watermarks { min, low, .. } = state.watermarks;
    match is_ordinary(zone) {
        true => min / 4,
        false => Some(low.saturating_sub(min)).filter(|gap| *gap > part(state, in_force)).unwrap_or(0),
    }
}

/// A zone's watermarks at a scale. Specification: `linux-page-allocator.md` 1.2.
fn marks(zone: &ZoneSetting, state: &ZoneState, in_force: u32, scale: u32) -> Watermarks {
    let gap = least_gap(zone, state, in_force).max(part(state, scale));
    let min = state.watermarks.min;
    Watermarks { min, low: min.saturating_add(gap), high: min.saturating_add(gap.saturating_mul(2)) }
}

impl Setting {
    /// A `vm.watermark_scale_factor` that gives the recorded watermarks: the default if it does, else the smallest.
    /// `None` if the watermarks follow from no scale.
    fn watermark_scale(&self) -> Option<u32> {
        let ordinary = || self.zones.iter().filter(|zone| is_ordinary(zone) && zone.start.managed > 0);
        let gives =
            |scale: &u32| ordinary().all(|zone| marks(zone, &zone.start, *scale, *scale) == zone.start.watermarks);
        ordinary().next()?;
        std::iter::once(DEFAULT_WATERMARK_SCALE).chain(1..=MAX_WATERMARK_SCALE).find(gives)
    }

    /// A zone's states in all snapshots.
    fn states(&self, zone: usize) -> impl Iterator<Item = &ZoneState> {
        std::iter::once(&self.zones[zone].start).chain(self.later.iter().map(move |(_, states)| &states[zone]))
    }

    /// Whether a snapshot shows boosted watermarks.
    fn is_boosted(&self) -> bool {
        (0..self.zones.len()).flat_map(|zone| self.states(zone)).any(|state| state.boost > 0)
    }

    /// The machine with the watermarks of another scale, in all snapshots.
    pub(super) fn with_watermark_scale(&self, scale: u32) -> Setting {
        let in_force = self.watermark_scale().unwrap_or(DEFAULT_WATERMARK_SCALE);
        let mut other = self.clone();
        for (at, zone) in self.zones.iter().enumerate() {
            other.zones[at].start.set_marks(marks(zone, &zone.start, in_force, scale));
            for (_, states) in &mut other.later {
                let scaled = marks(zone, &states[at], in_force, scale);
                states[at].set_marks(scaled);
            }
        }
        other
    }

    /// A zone whose high watermark at this scale is higher than the recorded one, and not below its free pages in all snapshots.
    fn zone_below(&self, scale: u32) -> Option<&ZoneSetting> {
        let other = self.with_watermark_scale(scale);
        let is_below = |&zone: &usize| {
            self.states(zone).zip(other.states(zone)).any(|(recorded, state)| {
                let (high, before) = (state.watermarks.high, recorded.watermarks.high);
                state.managed > 0 && high > before && state.free <= high
            })
        };
        (0..self.zones.len()).find(is_below).map(|zone| &self.zones[zone])
    }
}

impl Replay<'_> {
    /// A `vm.watermark_scale_factor` that gives the recorded watermarks. Small scales all give the same ones.
    ///
    /// # Errors
    /// A sentence why another scale cannot be replayed.
    pub fn watermark_scale(&self) -> Result<u32, &'static str> {
        if self.setting().kernel_tuning().high != HighRule::FromLowWatermark {
            return Err("before 5.14, pagesets do not depend on watermarks");
        }
        if self.setting().high_fraction > 0 {
            return Err("vm.percpu_pagelist_high_fraction sets the size of pagesets, whatever the watermarks are");
        }
        if self.setting().is_boosted() {
            return Err("a snapshot shows boosted watermarks, and `high` does not follow a boost");
        }
        self.setting().watermark_scale().ok_or("the recorded watermarks do not follow from any scale")
    }

    /// Whether a replay can tell what this `vm.watermark_scale_factor` does.
    ///
    /// # Errors
    /// A sentence why it cannot.
    pub fn check_watermark_scale(&self, scale: u32) -> Result<(), String> {
        self.setting().zone_below(scale).map_or(Ok(()), |zone| {
            let (name, node) = (&zone.name, zone.node.0);
            Err(format!(
                "zone {name} of node {node} would have less free memory than its high watermark, so kswapd would reclaim"
            ))
        })
    }

    /// The low watermarks of all zones together at a scale. Unit: pages.
    #[must_use]
    pub fn low_watermarks(&self, scale: u32) -> u64 {
        let other = self.setting().with_watermark_scale(scale);
        other.zones.iter().fold(0, |sum, zone| sum.saturating_add(zone.start.watermarks.low))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pageset::NodeId;
    use pageset::policy::Bounds;

    use super::*;
    use crate::Trace;

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
        zones.iter().map(|zone| marks(zone, &zone.start, 10, scale).low).collect()
    }

    /// The zones of `sock-q1`, where the default scale has no effect, and movable zones of 1,000,000 pages.
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
        // The distance of a movable zone's watermarks follows from min_free_kbytes, or from the scale in force.
        zones.push(zone(ZoneKind::Movable, 1_000_000, [128, 128 + 1748, 128 + 2 * 1748]));
        zones.push(zone(ZoneKind::Movable, 1_000_000, [128, 128 + 1000, 128 + 2 * 1000]));
        assert_eq!(lows(&zones, 1)[3..], [128 + 1748, 128 + 100]);
        assert_eq!(lows(&zones, 10)[3..], [128 + 1748, 128 + 1000]);
        assert_eq!(lows(&zones, 100)[3..], [128 + 10_000; 2]);
    }
    /// A recorded machine, but with one zone and its `free` pages in each snapshot.
    fn setting(free: &[u64]) -> Setting {
        let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/lab/6.18-amd64.4cpu.unix1.pstrace");
        let trace = Trace::open(Path::new(recording)).unwrap();
        let mut setting = Replay::prepare(&trace, &mut |_| {}).unwrap().setting().clone();
        setting.zones = vec![zone(ZoneKind::Normal, 1_638_400, [11_461, 14_326, 17_191])];
        let state = |&free: &u64| ZoneState { free, ..setting.zones[0].start.clone() };
        let states: Vec<ZoneState> = free.iter().map(state).collect();
        setting.zones[0].start = states[0].clone();
        setting.later = states[1..].iter().map(|state| (String::new(), vec![state.clone()])).collect();
        setting
    }

    /// A scale is refused if its high watermark is above the recorded one, and not below the free pages of all snapshots: also if the
    /// recorded one was not.
    #[test]
    fn a_scale_above_the_free_memory_is_refused() {
        // The high watermark with 200 is 11,461 + 2 * 32,768.
        for (free, scale, refused) in [
            (&[80_000, 80_000][..], 200, false),
            (&[80_000, 76_997], 200, true),
            (&[10_000, 80_000], 200, true),
            (&[10_000], 17, false),
        ] {
            assert_eq!(setting(free).zone_below(scale).is_some(), refused, "{free:?}, {scale}");
        }
    }

    #[test]
    fn one_boosted_snapshot_is_seen() {
        let mut setting = setting(&[80_000, 80_000]);
        assert!(!setting.is_boosted());
        setting.later[0].1[0].boost = 1;
        assert!(setting.is_boosted());
    }
}
