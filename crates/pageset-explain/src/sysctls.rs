//! Which sysctls gave the marks of a text, and which marks other values would give.
//!
//! Specification: `linux-page-allocator.md` 1.2.

use pageset::policy::Watermarks;
use pageset::policy::sizes::WatermarkRule;

use crate::zone::Zone;

/// KiB in the pages of [`WatermarkRule`].
const RULE_PAGE_KIB: u64 = pageset::Pfn::PAGE_BYTES / 1024;

/// The settings in force, found from the marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    /// The pages of `vm.min_free_kbytes`.
    pub(crate) reserve: u64,
    /// `vm.watermark_scale_factor`; 0 if a quarter of min is larger everywhere, as always before 4.6.
    pub(crate) scale: u64,
    /// Managed pages of the zones that share the reserve.
    lowmem: u64,
}

/// The largest `vm.watermark_scale_factor` of any kernel.
const MAX_SCALE: u64 = 3000;

fn is_lowmem(zone: &Zone) -> bool {
    zone.name != "HighMem" && zone.name != "Movable" && zone.name != "Device"
}

fn rule(scale_factor: u64) -> WatermarkRule {
    WatermarkRule { scale_factor, ..WatermarkRule::default() }
}

impl Found {
    /// Finds the settings. `None` if a zone's size or marks are missing, or if no setting gives these marks.
    pub(crate) fn new(zones: &[Zone]) -> Option<Found> {
        let mut known = Vec::new();
        for zone in zones.iter().filter(|zone| zone.has_pages()) {
            let boost = zone.boost.unwrap_or(0);
            let without = |mark: Option<u64>| mark.map(|mark| mark.saturating_sub(boost));
            let marks = Watermarks { min: without(zone.min)?, low: without(zone.low)?, high: without(zone.high)? };
            // The zone's part of a cut text would be taken for the whole machine's.
            zone.place()?;
            // 4 PiB of pages of 4 KiB: more is not a machine, and would overflow the formulas.
            let is_sane = |pages: u64| pages < 1 << 40;
            if ![zone.managed?, marks.min, marks.low, marks.high].into_iter().all(is_sane) {
                return None;
            }
            known.push((zone.managed?, marks, is_lowmem(zone)));
        }
        let low = || known.iter().filter(|(.., is_lowmem)| *is_lowmem);
        let lowmem = low().fold(0, |sum: u64, (managed, ..)| sum.saturating_add(*managed));
        let least = low().fold(0, |sum: u64, (_, marks, _)| sum.saturating_add(marks.min));
        // The largest zone shows the gap most exactly. A tenth of a thousandth of a small zone is less than a page.
        let (managed, marks, _) = low().max_by_key(|(managed, ..)| *managed)?;
        let gap = marks.low.saturating_sub(marks.min);
        let exact = (gap.saturating_mul(10_000)).div_ceil((*managed).max(1));
        let scales = if gap == marks.min / 4 { [0, 10] } else { [exact, exact.saturating_sub(1)] };
        // Shares are rounded down, so the sum is up to a page for each zone less.
        let reserves = least..=least.saturating_add(known.len() as u64);
        let found = reserves.flat_map(|reserve| scales.map(|scale| Found { reserve, scale, lowmem }));
        let mut found = found.filter(|found| found.scale <= MAX_SCALE).filter(|found| {
            let share_of = |managed: u64| found.marks(found.reserve, found.scale, managed);
            low().all(|(managed, marks, _)| share_of(*managed) == *marks)
        });
        found.next()
    }

    /// `vm.watermark_scale_factor` as it is set: 10 by default.
    pub(crate) const fn set_scale(&self) -> u64 {
        if self.scale == 0 { 10 } else { self.scale }
    }

    /// A zone's marks with other settings. Unit: pages.
    pub(crate) fn marks(&self, reserve: u64, scale: u64, managed: u64) -> Watermarks {
        rule(scale).marks(reserve.saturating_mul(RULE_PAGE_KIB), managed, self.lowmem, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Unit;

    /// A machine of the specification: 16,896 pages of reserve, scale 10.
    fn machine(scale: u64) -> Vec<Zone> {
        let sizes = [("DMA", 3840_u64), ("DMA32", 772_915), ("Normal", 557_056)];
        let lowmem = sizes.iter().map(|(_, managed)| managed).sum();
        let zone = |(name, managed): (&str, u64)| {
            let marks = rule(scale).marks(67_584, managed, lowmem, false);
            let zone = Zone::new(Some(0), name, Unit::Pages);
            Zone { managed: Some(managed), min: Some(marks.min), low: Some(marks.low), high: Some(marks.high), ..zone }
        };
        sizes.into_iter().map(zone).collect()
    }

    #[test]
    fn settings_are_found_from_marks() {
        let zones = machine(10);
        assert_eq!(zones[2].low, Some(8820));
        let found = Found::new(&zones).unwrap();
        assert!((16_893..=16_896).contains(&found.reserve), "{found:?}");
        assert_eq!(found.marks(found.reserve, found.scale, 557_056).low, 8820);
        assert_eq!(Found::new(&machine(200)).unwrap().scale, 200);
        let mut other = zones;
        other[2].high = Some(9000);
        assert_eq!(Found::new(&other), None);
    }
}
