//! The sizes of batch, high and the watermarks: formulas over a zone's managed pages.
//!
//! Specification: `linux-page-allocator.md` 1.2, 2.2. All divisions round down; all results are pages unless a name says
//! otherwise.

use super::{BatchRule, HighAtomicRule, HighRule, Tuning};
use crate::frame::{Order, Pfn};

/// The largest batch that may be set by hand, in pages. A guess: beyond it a refill holds the zone lock for
/// milliseconds.
pub const MAX_BATCH: u32 = 65_536;
/// The largest high that may be set by hand, in pages: 1 TiB of pages of 4 KiB, so that sums of two fit in 32 bits.
pub const MAX_HIGH: u32 = 1 << 28;
/// The smallest fraction that an administrator may set: an eighth of a zone. Specification 9.
pub const MIN_HIGH_FRACTION: u32 = 8;
/// The largest batch with a fraction before 5.14, in pages: 96 with pages of 4 KiB. Specification 9.
const OLD_FRACTION_MAX_BATCH: u64 = 8 * Pfn::PAGE_SHIFT as u64;
/// KiB in a page.
const PAGE_KIB: u64 = Pfn::PAGE_BYTES / 1024;

/// The batch of a pageset and the bounds of its high, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bounds {
    /// The base size of refills and drains, at least 1.
    pub batch: u32,
    /// The lower bound of high.
    pub high_min: u32,
    /// The upper bound of high; equal to the lower one without auto-tuning.
    pub high_max: u32,
}

impl Bounds {
    /// The bounds of a pageset that keeps nothing: every free goes to the buddy, every refill takes one block.
    /// Specification 2.2.
    pub const DISABLED: Bounds = Bounds { batch: 1, high_min: 0, high_max: 0 };
}

/// The inputs of the formulas for a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneSize {
    /// Managed pages of the zone.
    pub managed: u64,
    /// The low watermark in pages, with its boost.
    pub low: u64,
    /// CPUs that share the zone: those of its node, or all if the node has none. At least 1.
    pub cpus: u32,
}

/// The batch for a zone's size, in pages; 0 for the smallest zones.
#[must_use]
pub const fn zone_batch(managed: u64, cap_kib: u32) -> u32 {
    let cap = cap_kib as u64 / PAGE_KIB;
    let mut b = managed / 1024;
    if b > cap {
        b = cap;
    }
    b /= 4;
    if b == 0 {
        b = 1;
    }
    let x = b + b / 2;
    ((1 << x.ilog2()) - 1) as u32
}

impl HighAtomicRule {
    /// The upper limit of the reserve in pages: another pageblock is reserved only while it has fewer. Specification
    /// 1.6, "HIGHATOMIC reserve".
    #[must_use]
    pub const fn limit(self, managed: u64) -> u64 {
        let (hundredth, pageblock) = (managed / 100, Order::PAGEBLOCK.pages());
        match self {
            Self::Reserved => hundredth + pageblock,
            Self::Free if hundredth < pageblock => 0,
            Self::Free => hundredth.next_multiple_of(pageblock),
        }
    }
}

impl Tuning {
    /// The batch and the bounds of high for a zone. `fraction` is the administrator's setting, 0 for none.
    #[must_use]
    pub fn bounds(&self, zone: ZoneSize, fraction: u32) -> Bounds {
        let batch = match self.batch {
            BatchRule::FromZone { cap_kib } => zone_batch(zone.managed, cap_kib).max(1),
            BatchRule::Fixed(pages) => pages.max(1),
        };
        let at_most = |pages: u64| pages.min(MAX_HIGH as u64) as u32;
        let cpus = u64::from(zone.cpus.max(1));
        let shared = |total: u64| at_most((total / cpus).max(4 * u64::from(batch)));
        let fixed = |batch, high| Bounds { batch, high_min: high, high_max: high };
        match (self.high, fraction) {
            (HighRule::Fixed { min, .. }, _) if !self.auto_high => fixed(batch, min),
            (HighRule::Fixed { min, max }, _) => Bounds { batch, high_min: min, high_max: max },
            (HighRule::SixBatches, 0) => fixed(batch, 6 * batch),
            (HighRule::SixBatches, f) => {
                let high = zone.managed / u64::from(f);
                fixed((high / 4).clamp(1, OLD_FRACTION_MAX_BATCH) as u32, at_most(high))
            }
            (HighRule::FromLowWatermark, 0) if self.auto_high => Bounds {
                batch,
                high_min: shared(zone.low),
                high_max: shared(zone.managed / u64::from(MIN_HIGH_FRACTION)),
            },
            (HighRule::FromLowWatermark, 0) => fixed(batch, shared(zone.low)),
            (HighRule::FromLowWatermark, f) => fixed(batch, shared(zone.managed / u64::from(f))),
        }
    }
}

impl Tuning {
    /// The bounds within [`Tuning::kept_fraction`] of a zone of `managed` pages, for each of the pagesets of `cpus` CPUs, if nothing is
    /// lent.
    #[must_use]
    pub fn within_share(&self, bounds: Bounds, managed: u64, cpus: u32) -> Bounds {
        self.pagesets_share(managed).map_or(bounds, |all| bounds.within((all / cpus.max(1)).min(MAX_HIGH)))
    }

    /// What all pagesets of a zone may keep together within [`Tuning::kept_fraction`].
    fn pagesets_share(&self, managed: u64) -> Option<u32> {
        let share = managed.checked_div(self.kept_fraction.into())?;
        Some((if self.backing.depot() { share - share / DEPOTS } else { share }).min(i32::MAX as u64) as u32)
    }

    /// How the pagesets of `cpus` CPUs share a zone; `None` without a limit. Nothing is lent where each share is large, or so small that
    /// half of it is less than half a batch, nor if an administrator or the rules set the upper bound of high.
    pub(crate) fn share(&self, managed: u64, cpus: u32, fraction: u32) -> Option<Share> {
        let all = self.pagesets_share(managed)?;
        let fair = all / cpus.max(1);
        let lends = self.auto_high && self.high == HighRule::FromLowWatermark && fraction == 0;
        let each = if lends && LENT_FROM.contains(&fair) { fair / 2 } else { fair };
        Some(Share { each, lent: if each < fair { all - each * cpus } else { 0 } })
    }

    /// The pages that each of the depots of a zone may keep within [`Tuning::kept_fraction`].
    pub(crate) fn depot_share(&self, managed: u64, depots: usize) -> u32 {
        let share = managed.checked_div(self.kept_fraction.into());
        share.map_or(u32::MAX, |share| (share / DEPOTS / depots.max(1) as u64).min(MAX_HIGH.into()) as u32)
    }
}

impl Bounds {
    /// The bounds for a pageset that may keep `most` pages. When it drains it may have up to a batch more than high, so a batch is at most
    /// a quarter of that.
    pub(crate) fn within(self, most: u32) -> Bounds {
        let batch = self.batch.min((most / 4).max(1));
        match self.high_max.min(most.saturating_sub(batch)) {
            0 => Bounds::DISABLED,
            high_max => Bounds { batch, high_min: self.high_min.min(high_max), high_max },
        }
    }
}

/// How the pagesets of a zone share what they may keep, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Share {
    /// What each may keep.
    pub(crate) each: u32,
    /// What is lent to those that need more.
    pub(crate) lent: u32,
}

/// The shares of which half is lent, in pages: with a larger one, of 128 MiB, a CPU works well with its own. Counted for half of 4 GiB in
/// huge pages on two CPUs, once they have found their size: 118 locks taken with 2 CPUs configured, 209 with 64, 222 with 1,024; if
/// nothing is lent 768 and 2,048.
const LENT_FROM: core::ops::Range<u32> = 64..1 << 15;
/// The most that a pageset keeps with what it has borrowed, in pages. A guess: with 256 MiB a refill of huge pages brings 16.
pub(crate) const MAX_SHARE: u32 = 1 << 16;

/// The part of [`Tuning::kept_fraction`] that is for depots: one page of so many. A guess: of a quarter of the zone that is a 16th of each
/// region, and without a limit depots keep at most a 32nd.
const DEPOTS: u64 = 4;

/// A zone's marks in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Watermarks {
    /// Below this mark only urgent requests are served.
    pub min: u64,
    /// Below this mark reclaim is woken.
    pub low: u64,
    /// Reclaim stops at this mark; above it pagesets may grow.
    pub high: u64,
}

/// The inputs of the watermarks of all zones. Specification 1.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatermarkRule {
    /// The administrator's reserve in KiB; `None` for the formula.
    pub min_free_kbytes: Option<u64>,
    /// Whether transparent huge pages are enabled, which raises the formula's reserve.
    pub huge_pages: bool,
    /// The distance between marks, in ten-thousandths of the zone. The kernel's default is 10.
    pub scale_factor: u64,
    /// The largest temporary boost of all marks after a request takes part of another type's pageblock, in
    /// ten-thousandths of the high mark; 0 for no boost. The kernel's value is [`Self::KERNEL_BOOST_FACTOR`] since 5.0.
    /// Here the default is 0: a boost lasts until [`crate::ZoneView::decay_boost`] is called, so without an owner that
    /// reclaims in the background memory is lost. Specification 1.6.
    pub boost_factor: u64,
}

impl Default for WatermarkRule {
    fn default() -> Self {
        // Scale factor: specification 9.
        WatermarkRule { min_free_kbytes: None, huge_pages: false, scale_factor: 10, boost_factor: 0 }
    }
}

impl WatermarkRule {
    /// The kernel's default `watermark_boost_factor`: 150 %. Source: specification 9.
    pub const KERNEL_BOOST_FACTOR: u64 = 15_000;

    /// The reserve of the whole machine in KiB. `lowmem` is the number of managed pages in all zones that ordinary
    /// requests may use; `zones` is the number of those zones that have pages.
    #[must_use]
    pub fn reserve_kib(&self, lowmem: u64, zones: u64) -> u64 {
        if let Some(kib) = self.min_free_kbytes {
            return kib;
        }
        // Bounds: specification 9.
        let base = root(16 * lowmem * PAGE_KIB).clamp(128, 262_144);
        if !self.huge_pages {
            return base;
        }
        // Per zone: two pageblocks that keep types apart, and one for each pair of types. Specification 1.2.
        let wanted = Order::PAGEBLOCK.pages() * zones * (2 + 9);
        base.max(wanted.min(lowmem / 20) * PAGE_KIB)
    }

    /// A zone's marks. `lowmem` as for [`Self::reserve_kib`]. `movable_only` selects the MOVABLE zone, which holds no
    /// reserve of its own.
    #[must_use]
    pub fn marks(&self, reserve_kib: u64, managed: u64, lowmem: u64, movable_only: bool) -> Watermarks {
        let reserve = reserve_kib / PAGE_KIB;
        let share = part(managed, reserve, lowmem.max(1));
        let min = if movable_only { (managed / 1024).clamp(32, 128) } else { share };
        let gap = (share / 4).max(managed * self.scale_factor / 10_000);
        Watermarks { min, low: min + gap, high: min + 2 * gap }
    }
}

/// The square root, rounded down. A bit at a time: the library's own is faster, and ten times as much code.
const fn root(value: u64) -> u64 {
    let mut root = 0_u64;
    let mut bit = 1 << 31;
    while bit > 0 {
        let more = root | bit;
        if more * more <= value {
            root = more;
        }
        bit >>= 1;
    }
    root
}

/// `value * times / divisor`, rounded down, without 128-bit arithmetic: a kernel has no compiler runtime for that. The divisor is 1 to
/// 2^63. A result above 64 bits becomes the largest number.
const fn part(value: u64, times: u64, divisor: u64) -> u64 {
    let rest = value % divisor;
    let (mut quotient, mut remainder) = (0_u64, 0);
    let mut bit = u64::BITS - times.leading_zeros();
    // Long multiplication and division together, from the highest bit of `times` on. The remainder stays below the divisor.
    while bit > 0 {
        bit -= 1;
        quotient = quotient.saturating_mul(2);
        remainder *= 2;
        if remainder >= divisor {
            remainder -= divisor;
            quotient = quotient.saturating_add(1);
        }
        if times >> bit & 1 == 1 {
            remainder += rest;
            if remainder >= divisor {
                remainder -= divisor;
                quotient = quotient.saturating_add(1);
            }
        }
    }
    (value / divisor).saturating_mul(times).saturating_add(quotient)
}

/// A zone's boost after one more request took part of another type's pageblock: one pageblock more, up to `factor`
/// ten-thousandths of the high mark. `high` excludes the boost. Specification 1.6.
#[must_use]
pub const fn boosted(boost: u64, managed: u64, high: u64, factor: u64) -> u64 {
    let pageblock = Order::PAGEBLOCK.pages();
    if factor == 0 || high == 0 || managed < 4 * pageblock {
        return boost;
    }
    let share = part(high, factor, 10_000);
    let cap = if share > pageblock { share } else { pageblock };
    let more = boost + pageblock;
    if more < cap { more } else { cap }
}

#[cfg(test)]
mod tests {
    use super::super::presets::*;
    use super::*;

    #[test]
    fn parts_are_exact() {
        let numbers = [0, 1, 2, 3, 255, 10_000, (1 << 32) - 1, 1 << 32, (1 << 52) - 3, 1 << 62, u64::MAX - 1, u64::MAX];
        for (value, times) in numbers.iter().flat_map(|&value| numbers.map(|times| (value, times))) {
            for divisor in [1, 2, 3, 7, 10_000, (1 << 32) + 1, (1 << 52) - 1, 1 << 63] {
                let exact = u128::from(value) * u128::from(times) / u128::from(divisor);
                let expected = u64::try_from(exact).unwrap_or(u64::MAX);
                assert_eq!(part(value, times, divisor), expected, "{value} * {times} / {divisor}");
            }
        }
    }

    #[test]
    fn roots_are_exact() {
        let powers = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        let squares =
            [3, 1000, (1 << 31) + 1, u64::from(u32::MAX)].into_iter().flat_map(|n| [n * n - 1, n * n, n * n + 1]);
        for value in powers.chain(squares).chain([u64::MAX]) {
            assert_eq!(root(value), value.isqrt(), "{value}");
        }
    }

    #[test]
    fn batches_of_the_specification() {
        // 2.2: large zones, and the sizes at which the rounding steps.
        for (managed, cap, batch) in [
            (1 << 20, 512, 31),
            (1 << 20, 1024, 63),
            (176_128, 1024, 63),
            (176_127, 1024, 31),
            (90_112, 1024, 31),
            (90_111, 1024, 15),
            (3840, 1024, 0),
        ] {
            assert_eq!(zone_batch(managed, cap), batch, "managed {managed}, cap {cap} KiB");
        }
    }

    #[test]
    fn live_bounds() {
        // 2.2, [LIVE] 6.18.44 with 2 CPUs.
        for (managed, low, batch, high_min, high_max) in
            [(3840, 60, 1, 30, 240), (772_915, 12_237, 63, 6118, 48_307), (557_056, 8820, 63, 4410, 34_816)]
        {
            let bounds = LINUX_6_18.bounds(ZoneSize { managed, low, cpus: 2 }, 0);
            assert_eq!(bounds, Bounds { batch, high_min, high_max }, "managed {managed}");
        }
    }

    #[test]
    fn worked_example_10_1() {
        let rule = WatermarkRule::default();
        let zone = 1 << 20;
        let plain = rule.reserve_kib(zone, 1);
        assert_eq!(plain, 8192);
        assert_eq!(rule.marks(plain, zone, zone, false), Watermarks { min: 2048, low: 3096, high: 4144 });
        let huge = WatermarkRule { huge_pages: true, ..rule };
        let reserve = huge.reserve_kib(zone, 1);
        assert_eq!(reserve, 5632 * 4);
        assert_eq!(huge.marks(reserve, zone, zone, false), Watermarks { min: 5632, low: 7040, high: 8448 });

        for (low, min) in [(3096, 1548), (7040, 3520)] {
            let size = ZoneSize { managed: zone, low, cpus: 2 };
            for (tuning, batch, high_min, high_max) in [
                (LINUX_4_16, 31, 186, 186),
                (LINUX_4_19, 63, 378, 378),
                (LINUX_5_14, 63, min, min),
                (LINUX_5_18, 63, min, min),
                (LINUX_6_18, 63, min, 65_536),
            ] {
                assert_eq!(tuning.bounds(size, 0), Bounds { batch, high_min, high_max });
            }
        }
        let size = ZoneSize { managed: zone, low: 3096, cpus: 2 };
        for tuning in [LINUX_5_14, LINUX_6_18] {
            assert_eq!(tuning.bounds(size, 100), Bounds { batch: 63, high_min: 5242, high_max: 5242 });
        }
        let many = LINUX_6_18.bounds(ZoneSize { cpus: 32, ..size }, 0);
        assert_eq!(many, Bounds { batch: 63, high_min: 252, high_max: 4096 });
    }

    /// By hand: a quarter of the zone, of which a quarter is for depots.
    #[test]
    fn all_cpus_keep_a_share_together() {
        let bounds = Bounds { batch: 63, high_min: 252, high_max: 40_000 };
        for (fraction, managed, cpus, expected) in [
            (0, 1 << 20, 224, bounds),
            (4, 1 << 20, 2, bounds),
            // 196,608 / 224 is 877.
            (4, 1 << 20, 224, Bounds { batch: 63, high_min: 252, high_max: 877 - 63 }),
            // 12,288 / 224 is 54: smaller batches, and a fixed high.
            (4, 1 << 16, 224, Bounds { batch: 13, high_min: 41, high_max: 41 }),
            (4, 4096, 224, Bounds { batch: 1, high_min: 2, high_max: 2 }),
            (4, 512, 224, Bounds::DISABLED),
            (100, 1 << 20, 8, Bounds { batch: 63, high_min: 252, high_max: 983 - 63 }),
        ] {
            let tuning = Tuning { kept_fraction: fraction, ..PAGESET };
            assert_eq!(tuning.within_share(bounds, managed, cpus), expected, "{fraction}, {managed}, {cpus}");
        }
    }

    /// By hand, from the same quarters.
    #[test]
    fn small_shares_are_lent_in_part() {
        for (managed, cpus, each, lent) in [
            (1 << 20, 2, 98_304, 0),
            (1 << 20, 6, 32_768, 0),
            (1 << 20, 7, 14_043, 196_608 - 7 * 14_043),
            (1 << 20, 1024, 96, 98_304),
            // A share of 63 is not halved.
            (1 << 18, 780, 63, 0),
            (512, 224, 0, 0),
        ] {
            assert_eq!(PAGESET.share(managed, cpus, 0), Some(Share { each, lent }), "{managed}, {cpus}");
        }
        assert_eq!(PAGESET.share(1 << 20, 1024, 8), Some(Share { each: 192, lent: 0 }), "set by an administrator");
        assert_eq!(LINUX_6_18.share(1 << 20, 1024, 0), None);
    }

    #[test]
    fn old_fraction_sets_the_batch_too() {
        let size = ZoneSize { managed: 10_000, low: 100, cpus: 2 };
        assert_eq!(LINUX_4_19.bounds(size, 100), Bounds { batch: 25, high_min: 100, high_max: 100 });
        assert_eq!(LINUX_4_19.bounds(size, 8), Bounds { batch: 96, high_min: 1250, high_max: 1250 });
    }

    #[test]
    fn live_reserve_with_huge_pages() {
        // 1.2: three zones, 67584 KiB.
        let lowmem = 3840 + 772_915 + 557_056;
        let huge = WatermarkRule { huge_pages: true, ..WatermarkRule::default() };
        assert_eq!(huge.reserve_kib(lowmem, 3), 67_584);
    }

    #[test]
    fn boosts() {
        let factor = WatermarkRule::KERNEL_BOOST_FACTOR;
        for (name, boost, managed, high, factor, expected) in [
            ("a pageblock", 0, 1 << 20, 4144, factor, 512),
            ("and one more", 512, 1 << 20, 4144, factor, 1024),
            ("up to one and a half times the high mark", 6000, 1 << 20, 4144, factor, 6216),
            ("where it stays", 6216, 1 << 20, 4144, factor, 6216),
            ("a pageblock where that is less", 0, 1 << 20, 10, factor, 512),
            ("and no more", 512, 1 << 20, 10, factor, 512),
            ("none without a high mark", 0, 1 << 20, 0, factor, 0),
            ("none in a zone of less than four pageblocks", 0, 2047, 4144, factor, 0),
            ("but in one of four", 0, 2048, 4144, factor, 512),
            ("none where it is off", 0, 1 << 20, 4144, 0, 0),
            ("a share of the high mark", 0, 1 << 20, 1000, 6000, 512),
            ("a larger share", 512, 1 << 20, 1000, 6000, 600),
        ] {
            assert_eq!(boosted(boost, managed, high, factor), expected, "{name}");
        }
    }

    #[test]
    fn limits_of_the_highatomic_reserve() {
        for (managed, reserved, free) in [
            (1 << 20, 10_485 + 512, 21 * 512),
            // A hundredth is exactly one pageblock, or one page less.
            (51_200, 512 + 512, 512),
            (51_199, 511 + 512, 0),
            // And just above it.
            (51_300, 513 + 512, 1024),
            (0, 512, 0),
        ] {
            assert_eq!(HighAtomicRule::Reserved.limit(managed), reserved, "{managed} pages, before 6.13");
            assert_eq!(HighAtomicRule::Free.limit(managed), free, "{managed} pages");
        }
    }

    /// Specification 1.2: a MOVABLE zone keeps a thousandth of itself, 32 to 128 pages; its share of the reserve sets the gap.
    #[test]
    fn marks_of_a_movable_zone() {
        let rule = WatermarkRule { scale_factor: 0, ..WatermarkRule::default() };
        for (managed, min) in [(1000, 32), (65_536, 64), (66_000, 64), (131_072, 128), (1 << 20, 128)] {
            let marks = rule.marks(4096, managed, 1 << 20, true);
            let gap = 1024 * managed / (1 << 20) / 4;
            assert_eq!(marks, Watermarks { min, low: min + gap, high: min + 2 * gap }, "{managed} pages");
        }
    }
}
