//! What the kernel's rules say of holds of zone locks: which ones look like one, and which ones no size of lists avoids.
//!
//! The pages that a CPU takes from zones and does not return are those that it allocates and other CPUs free. Its lists cannot have kept
//! them, however large they are. So the CPU refills at least for these pages, each time with as many as the kernel's rules allow at most.
//! The same holds for a CPU that frees more than it allocates.

use pageset_record::live::{ORDERS, Traffic};
use pageset_trace::CpuCache;
use pageset_trace::replay::{BulkFree, Preset, Tuning};

use super::{Zone, per_s};

/// How many blocks one hold moves at most.
#[derive(Clone, Debug)]
pub(crate) struct HoldRules {
    batch: u64,
    /// How far a refill of single pages scales the batch, in powers of two.
    refill_scale: u32,
    /// The same of a drain; `None` for no limit.
    drain_scale: Option<u32>,
    /// Whether a drain takes the lock for each batch.
    is_chunked: bool,
    /// Whether frees of orders 1 to 3 one after the other drain, however few pages the pageset holds, but for a large cache.
    high_orders: bool,
    /// Whether they do so with lists of any size.
    always_high_orders: bool,
    /// Whether all zones are of one node: no event tells zones apart, and lists of one node's zones keep no page for another's.
    is_one_node: bool,
    /// The CPUs with a large cache: they keep a batch at such frees.
    large_caches: Vec<u32>,
}

/// The bytes of a page. Specification: `linux-page-allocator.md` 4.3.
const PAGE: u64 = 4096;

impl HoldRules {
    /// The rules of this preset on a machine with these zones, with the scale of its kernel's configuration if that is known.
    pub(crate) fn new(preset: &str, zones: &[Zone], caches: &[CpuCache], configured: Option<u8>) -> Self {
        let tuning = Preset::find(preset).map(|preset| preset.tuning);
        // The kernel's build allows 0 to 6. Specification: `linux-page-allocator.md` 9.
        let configured = configured.filter(|scale| *scale <= 6).map(u32::from);
        let scale = configured.unwrap_or_else(|| tuning.map_or(5, |tuning| tuning.batch_scale_max.into()));
        // A file may have any number; the kernel's are of 32 bits.
        let batch = zones.iter().map(|zone| zone.batch).max().unwrap_or(0).clamp(1, u32::MAX.into());
        let high_min = zones.iter().max_by_key(|zone| zone.managed).and_then(|zone| zone.high_min).unwrap_or(0);
        // From 6.16 on such frees drain after half of the lower bound of high, which the count of frees may never reach. 4.10.
        let is_reached = |tuning: &Tuning| !tuning.high_threshold_616 || high_min / 2 <= (batch << scale) - batch;
        let batches = tuning.filter(|tuning| tuning.cache_slice).map(|tuning| u64::from(tuning.cache_slice_batches));
        let is_large = |cache: &&CpuCache| {
            let pages = cache.bytes / u64::from(cache.sharers.max(1)) / PAGE;
            batches.is_some_and(|batches| pages > batches * batch)
        };
        HoldRules {
            batch,
            is_chunked: tuning.is_some_and(|tuning| tuning.backing.bulk_free() == Some(BulkFree::Chunked)),
            high_orders: tuning.is_some_and(|tuning| tuning.drain_high_order && is_reached(&tuning)),
            // Before, a full list begins the growth of drains that such frees need. 4.0.
            always_high_orders: tuning.is_some_and(|tuning| tuning.free_count && !tuning.high_threshold_616),
            is_one_node: zones.windows(2).all(|pair| pair[0].node == pair[1].node),
            large_caches: caches.iter().filter(is_large).map(|cache| cache.cpu).collect(),
            refill_scale: if tuning.is_none_or(|tuning| tuning.alloc_factor) { scale } else { 0 },
            drain_scale: tuning.is_none_or(|tuning| tuning.scale_cap).then_some(scale),
        }
    }

    /// The blocks of a refill at most. Only refills of single pages scale. Specification: `linux-page-allocator.md` 4.5.
    fn refill(&self, order: u32) -> u64 {
        match order {
            0 => self.batch << self.refill_scale,
            order => (self.batch >> order).max(2),
        }
    }

    /// Drained blocks of orders 1 to 3 per second, if each may be a drain of its own.
    fn high_order_drains(&self, now: &Traffic, then: Option<&Traffic>, seconds: Option<f64>) -> f64 {
        let drains = per_s(now.high_order_drains, then.map(|then| then.high_order_drains), seconds);
        drains.filter(|_| self.high_orders && !self.large_caches.contains(&now.cpu)).unwrap_or(0.0)
    }

    /// Holds per second.
    pub(crate) fn holds(&self, now: &Traffic, then: Option<&Traffic>, seconds: Option<f64>) -> Option<f64> {
        Some(self.by_purpose(now, then, seconds)?.iter().sum())
    }

    /// Holds per second to refill, to drain, and past the pagesets.
    fn by_purpose(&self, now: &Traffic, then: Option<&Traffic>, seconds: Option<f64>) -> Option<[f64; 3]> {
        let grown = |of: fn(&Traffic) -> u64| per_s(of(now), then.map(of), seconds);
        // A block larger than a batch is a chunk of its own.
        let of_order = |(place, order): (usize, u32)| {
            let blocks = per_s(now.drain_blocks[place], then.map(|then| then.drain_blocks[place]), seconds);
            blocks.map(|blocks| blocks * (1_u64 << order).min(self.batch) as f64 / self.batch as f64)
        };
        let chunks = ORDERS.into_iter().enumerate().map(of_order).sum::<Option<f64>>().filter(|_| self.is_chunked);
        // Holds that follow one another too closely look like one, which moves no more than the rules allow.
        let refilled = |(place, order): (usize, u32)| {
            let blocks = per_s(now.refill_blocks[place], then.map(|then| then.refill_blocks[place]), seconds);
            blocks.map(|blocks| blocks / self.refill(order) as f64)
        };
        let refills =
            grown(|cpu| cpu.holds.refill)?.max(ORDERS.into_iter().enumerate().map(refilled).sum::<Option<f64>>()?);
        let drained = grown(|cpu| cpu.drain_pages)?;
        let longest = self.drain_scale.map_or(0.0, |scale| drained / (self.batch << scale) as f64);
        let drains = grown(|cpu| cpu.holds.drain)?
            .max(chunks.unwrap_or(0.0))
            .max(longest)
            .max(self.high_order_drains(now, then, seconds));
        Some([refills, drains, 2.0 * grown(|cpu| cpu.holds.direct)?])
    }

    /// Holds per second that a CPU would need with the largest lists that a setting makes: in proportion to the pages that would pass.
    pub(crate) fn with_largest(&self, now: &Traffic, then: Option<&Traffic>, seconds: Option<f64>) -> Option<f64> {
        let [refills, drains, direct] = self.by_purpose(now, then, seconds).filter(|_| self.is_one_node)?;
        let share = |way: usize, pages: fn(&Traffic) -> u64| {
            let all = per_s(pages(now), then.map(pages), seconds)?;
            let passed = per_s(now.passed_largest[way], then.map(|then| then.passed_largest[way]), seconds)?;
            Some(if all > 0.0 { (passed / all).min(1.0) } else { 0.0 })
        };
        let left = refills * share(0, |cpu| cpu.refill_pages)? + drains * share(1, |cpu| cpu.drain_pages)? + direct;
        Some(left.max(self.least(now, then, seconds)?))
    }

    /// Holds per second that a CPU needs with lists of any size.
    pub(crate) fn least(&self, now: &Traffic, then: Option<&Traffic>, seconds: Option<f64>) -> Option<f64> {
        let (mut holds, mut drained) = (0.0, 0.0);
        for (place, order) in ORDERS.into_iter().enumerate() {
            let grown = |of: fn(&Traffic) -> [u64; ORDERS.len()]| {
                per_s(of(now)[place], then.map(|then| of(then)[place]), seconds)
            };
            let (refilled, returned) = (grown(|cpu| cpu.refill_blocks)?, grown(|cpu| cpu.drain_blocks)?);
            // Frees of such orders empty the pageset, so that no block of them waits for its next allocation.
            let reused = if self.always_high_orders && (1..=3).contains(&order) { 0.0 } else { returned };
            holds += (refilled - reused).max(0.0) / self.refill(order) as f64;
            drained += (returned - refilled).max(0.0) * f64::from(1 << order);
        }
        holds += self.drain_scale.map_or(0.0, |scale| drained / (self.batch << scale) as f64);
        if self.always_high_orders {
            holds += self.high_order_drains(now, then, seconds);
        }
        // What goes past the pagesets takes the lock when it comes and when it goes.
        Some(holds + 2.0 * per_s(now.holds.direct, then.map(|then| then.holds.direct), seconds)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(refills: [u64; 5], drains: [u64; 5], direct: u64) -> Traffic {
        let mut traffic = Traffic { refill_blocks: refills, drain_blocks: drains, ..Traffic::default() };
        traffic.holds.direct = direct;
        traffic
    }

    #[test]
    fn what_travels_needs_holds_of_any_list() {
        let least = |preset: &str, now: Traffic| {
            let rules = HoldRules { batch: 63, ..HoldRules::new(preset, &[], &[], None) };
            rules.least(&now, Some(&Traffic::default()), Some(2.0)).unwrap()
        };
        // What a CPU takes and returns, larger lists keep.
        assert_eq!(least("linux-6.18", cpu([9000; 5], [9000; 5], 0)), 0.0);
        // Single pages travel by 2,016 where refills grow, and by 63 before; larger blocks by a batch of pages.
        let taken = cpu([2 * 2016, 0, 0, 0, 0], [0; 5], 0);
        assert_eq!((least("linux-6.18", taken), least("linux-5.18", taken)), (1.0, 32.0));
        let taken = cpu([0, 0, 0, 700, 20], [0, 0, 0, 0, 0], 0);
        assert_eq!(least("linux-6.18", taken), 350.0 / 7.0 + 10.0 / 2.0);
        // From 6.7 to 6.15 frees of orders 1 to 3 empty lists of any size.
        let streams = cpu([0, 0, 0, 700, 0], [0, 0, 0, 700, 0], 0);
        assert_eq!((least("linux-6.15", streams), least("linux-6.18", streams)), (50.0, 0.0));
        // Drains have no limit before the scale has one.
        let freed = cpu([0; 5], [0, 2016, 0, 0, 0], 0);
        assert_eq!((least("linux-6.18", freed), least("linux-5.18", freed)), (1.0, 0.0));
        assert_eq!(least("linux-6.18", cpu([0; 5], [0; 5], 50)), 50.0);
        let rules = HoldRules::new("linux-6.18", &[], &[], None);
        assert_eq!(rules.least(&cpu([9; 5], [0; 5], 0), None, Some(2.0)), None, "a CPU that came since has no rate");
    }

    /// Holds are in proportion to the pages that larger lists cannot keep. With several nodes there is no estimate.
    #[test]
    fn the_largest_lists_avoid_holds_for_what_they_keep() {
        let mut now = cpu([8000, 0, 0, 0, 0], [8000, 0, 0, 0, 0], 5);
        (now.refill_pages, now.drain_pages, now.passed_largest) = (8000, 8000, [2000, 800]);
        (now.holds.refill, now.holds.drain) = (200, 100);
        let rules = HoldRules { batch: 63, ..HoldRules::new("linux-6.1", &[], &[], None) };
        let largest = |rules: &HoldRules, now: &Traffic| rules.with_largest(now, Some(&Traffic::default()), Some(1.0));
        assert_eq!(largest(&rules, &now), Some(200.0 * 0.25 + 100.0 * 0.1 + 10.0));
        assert_eq!(largest(&HoldRules { is_one_node: false, ..rules.clone() }, &now), None);
        // Never fewer than lists of any size need.
        now.drain_blocks[0] = 0;
        assert_eq!(largest(&rules, &now), Some(8000.0 / 63.0 + 10.0));
    }

    /// Rules add what the gaps hide: drains of orders 1 to 3 in a row, and drains that release the lock after each batch.
    #[test]
    fn rules_tell_what_gaps_do_not() {
        let mut now = cpu([0; 5], [0, 0, 0, 1000, 0], 5);
        (now.cpu, now.high_order_drains, now.drain_pages) = (3, 1000, 8000);
        (now.holds.refill, now.holds.drain) = (100, 10);
        let caches = [CpuCache { cpu: 3, bytes: 16 << 20, sharers: 4 }];
        let holds = |preset: &str, caches: &[CpuCache]| {
            let rules = HoldRules { batch: 62, ..HoldRules::new(preset, &[], caches, None) };
            rules.holds(&now, Some(&Traffic::default()), Some(1.0)).unwrap()
        };
        assert_eq!((holds("linux-6.15", &[]), holds("linux-6.15", &caches)), (1110.0, 120.0));
        // 5.18 to 6.6 do not look at the cache; 5.14 has no such drains.
        assert_eq!((holds("linux-5.18", &caches), holds("linux-5.14", &[])), (1110.0, 120.0));
        assert_eq!(holds("linux-6.19", &caches).round(), 110.0 + (8000.0_f64 / 62.0).round());
        // Holds without a gap that is seen.
        let mut close = cpu([20 * 2016, 14, 0, 0, 0], [0; 5], 0);
        (close.cpu, close.drain_pages) = (3, 3 * 2016);
        let rules = HoldRules { batch: 63, ..HoldRules::new("linux-6.18", &[], &caches, None) };
        assert_eq!(rules.holds(&close, Some(&Traffic::default()), Some(1.0)), Some(20.0 + 14.0 / 31.0 + 3.0));
        let huge = cpu([0; 5], [0, 0, 0, 0, 40], 0);
        let rules = HoldRules::new("linux-6.19", &[], &caches, None);
        assert_eq!(rules.holds(&huge, Some(&Traffic::default()), Some(1.0)), Some(40.0), "a huge page is one chunk");
        let least = |preset: &str| {
            let rules = HoldRules { batch: 63, ..HoldRules::new(preset, &[], &[], None) };
            rules.least(&now, Some(&Traffic::default()), Some(1.0)).unwrap()
        };
        // Another scale of the batch moves as much more or less at once; a damaged file has no such one.
        let scaled = |scale| {
            let rules = HoldRules { batch: 63, ..HoldRules::new("linux-6.18", &[], &caches, Some(scale)) };
            rules.holds(&close, Some(&Traffic::default()), Some(1.0)).unwrap()
        };
        assert_eq!((scaled(4), scaled(200)), (40.0 + 14.0 / 31.0 + 6.0, 20.0 + 14.0 / 31.0 + 3.0));
        // They come with lists of any size from 6.7 to 6.15 only.
        assert!(least("linux-6.15") >= 1010.0 && least("linux-6.18") < 30.0 && least("linux-5.18") < 30.0);
    }
}
