//! The state machine that decides how many pages move. Pure functions.
//!
//! Specification: `linux-page-allocator.md` 2.3 to 2.5 and 4. A pageset calls [`Tuning::on_alloc`] once for each
//! allocation, [`Tuning::refill`] when a list is empty, [`Tuning::on_take`] when pages leave a list, [`Tuning::commit`]
//! when a block enters a list, and [`Tuning::decay`] once a second. All amounts are pages, except [`Blocks`].
//!
//! `alloc/fast.rs` repeats `on_alloc`, `on_take` and the common case of `commit`, for the rules that `Tuning::has_fast_path`
//! allows.

use super::{DecayRule, ListRule, OwnerRule, Tuning};
use crate::frame::Order;

/// The kernels' default of [`Tuning::batch_scale_max`]. Specification 9.
const KERNEL_SCALE: u8 = 5;

/// A number of blocks of one order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Blocks(pub u32);

/// The state of a pageset between calls. Specification 2.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PcpState {
    /// Pages on all lists of the pageset.
    pub count: u32,
    /// The current limit; clamped to its bounds at each use under auto-tuning.
    pub high: u32,
    /// The lower bound of `high`.
    pub high_min: u32,
    /// The upper bound of `high`.
    pub high_max: u32,
    /// The base size of refills and drains.
    pub batch: u32,
    /// Pages freed in a row. Each allocation halves it; from the largest drain on it no longer grows.
    pub free_count: u32,
    /// The smallest `count` since the last tick (patch 9).
    pub count_min: u32,
    /// Exponent of the next drain (before patch 10).
    pub free_factor: u8,
    /// Exponent of the next refill of single pages.
    pub alloc_factor: u8,
    /// The same of blocks above order 0, by [`Tuning::double_blocks`]; else 0.
    pub block_factor: u8,
    /// Whether the last free was of order 1 to 3.
    pub prev_high_order: bool,
    /// Whether this CPU's share of the cache is large: [`Tuning::large_cache`].
    pub large_cache: bool,
}

/// The zone's memory pressure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pressure {
    /// Reclaim works on the zone.
    pub reclaim_active: bool,
    /// An allocation found the zone below its high watermark.
    pub below_high: bool,
}

impl Pressure {
    /// Whether the zone is under none.
    pub(crate) const fn is_none(self) -> bool {
        !self.reclaim_active && !self.below_high
    }
}

/// The result of a tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Decay {
    /// Pages to drain, from the first list on.
    pub drain: u32,
    /// Whether another tick has more to do.
    pub more: bool,
}

/// Whether frees of this order count for high-order draining: 1 to 3, not huge pages.
pub(crate) const fn is_costly(order: Order) -> bool {
    order.get() >= 1 && order.get() <= Order::COSTLY.get()
}

/// `clamp` of the specification: the lower bound wins if the bounds cross.
fn clamp(x: u32, lo: u32, hi: u32) -> u32 {
    x.min(hi).max(lo)
}

/// Calls a macro with the words of a pageset's state: for each the getter, the setter (if the rules write it), and its
/// type.
macro_rules! words {
    ($then:ident) => {
        $then! {
            count / set_count: u32,
            high / set_high: u32,
            high_min: u32,
            high_max: u32,
            batch: u32,
            free_count / set_free_count: u32,
            count_min / set_count_min: u32,
            free_factor / set_free_factor: u8,
            alloc_factor / set_alloc_factor: u8,
            block_factor / set_block_factor: u8,
            prev_high_order / set_prev_high_order: bool,
            large_cache: bool,
        }
    };
}
pub(crate) use words;

macro_rules! state {
    ($($get:ident $(/ $set:ident)?: $type:ty,)*) => {
        /// Storage for the words of a [`PcpState`]: a value of it, or a pageset. With a pageset, a call reads and
        /// writes only the words it needs. Each method is the field of that name.
        pub trait State {
            $(
                #[doc = concat!("Reads [`PcpState::", stringify!($get), "`].")]
                fn $get(&self) -> $type;
                $(
                    #[doc = concat!("Writes [`PcpState::", stringify!($get), "`].")]
                    fn $set(&mut self, value: $type);
                )?
            )*
        }

        impl State for PcpState {
            $(
                #[inline]
                fn $get(&self) -> $type {
                    self.$get
                }
                $(
                    #[inline]
                    fn $set(&mut self, value: $type) {
                        self.$get = value;
                    }
                )?
            )*
        }
    };
}
words!(state);

fn clamp_high(s: &mut impl State) {
    s.set_high(clamp(s.high(), s.high_min(), s.high_max()));
}

/// Whether `high` is auto-tuned.
fn tunes(s: &impl State) -> bool {
    s.high_min() != s.high_max()
}

impl Tuning {
    /// Whether the fast path follows these rules. It repeats `on_alloc`, `on_take` and the common case of `commit` for the
    /// presets of 6.7 and later; a rule that changes one of these is excluded here. `tests/suite/fast_paths.rs` compares the
    /// fast path with the general path.
    pub(crate) fn has_fast_path(&self) -> bool {
        self.alloc_factor
            && self.free_count
            && self.drain_high_order
            && !self.count_min
            && !self.cma_skip
            && self.lists != ListRule::OrderZero
            && !self.backing.has_owners()
    }

    /// An allocation begins, which ends consecutive frees. Not called for bulk allocations of pages, unless a rule
    /// requires it.
    #[inline]
    pub fn on_alloc(&self, s: &mut impl State) {
        self.on_allocs(s, 1);
    }

    /// `allocs` allocations begin, one after the other.
    #[inline]
    pub fn on_allocs(&self, s: &mut impl State, allocs: u32) {
        if self.free_count {
            s.set_free_count(s.free_count() >> allocs.min(31));
        } else {
            s.set_free_factor(s.free_factor() >> allocs.min(7));
        }
    }

    /// The number of blocks of `order` that a refill requests from the zone. Specification 2.4, 4.5, 4.7.
    #[must_use]
    pub fn refill(&self, s: &mut impl State, order: Order, pressure: Pressure) -> Blocks {
        let Blocks(blocks) = self.refill_beyond(s, order, pressure);
        if self.kept_fraction == 0 {
            return Blocks(blocks);
        }
        // The first block serves the request, and the others stay.
        Blocks(blocks.min(1 + (s.high_max().saturating_sub(s.count()) >> order.get())))
    }

    /// The room that a refill of blocks of `order` should find below what the pageset may keep, in pages: for the largest refill of single
    /// pages, or a batch of blocks, but at most half of all. Counted: with room for a batch of single pages alone, each bulk call for 512
    /// pages still refills and drains next to huge pages. 0 without a limit.
    pub(crate) fn refill_room(&self, s: &impl State, order: Order) -> u32 {
        if self.kept_fraction == 0 {
            return 0;
        }
        (s.batch() << self.batch_scale_max).max(u32::from(self.batch_blocks) << order.get()).min(s.high_max() / 2)
    }

    /// As [`Self::refill`], perhaps more than the pageset may keep.
    fn refill_beyond(&self, s: &mut impl State, order: Order, pressure: Pressure) -> Blocks {
        if !self.scale_drain {
            return Blocks(s.batch());
        }
        if !self.alloc_factor {
            return blocks(s.batch(), order);
        }
        if self.auto_high {
            clamp_high(s);
        }
        if s.high() < s.batch() {
            return Blocks(1);
        }
        let single = order == Order::ZERO;
        let grows = single || self.double_blocks;
        let factor = if single { s.alloc_factor() } else { s.block_factor() };
        let scaled = if grows {
            let fewest = self.batch_of(order, s.high()) >> self.batch_scale_max.saturating_sub(factor);
            let most = if single { self.batch_scale_max } else { self.block_scale() };
            (s.batch() << factor.min(most)).max(fewest).min(self.refill_share(s.high(), s.batch()))
        } else {
            s.batch()
        };
        let stopped = if self.below_high { pressure.below_high } else { pressure.reclaim_active };
        if self.auto_high && tunes(s) && !stopped {
            // In the kernels each refill raises `high` by at most a batch. This refill brings the blocks of several of those, so it
            // raises `high` by a batch for each. Above the order of a batch, theirs bring two blocks.
            let refills = ((scaled >> order.get()) / blocks(s.batch(), order).0).max(1);
            s.set_high((s.high() + scaled.min(refills * s.batch())).min(s.high_max()));
        }
        if !grows {
            return blocks(scaled, order);
        }
        let cap = s.high().saturating_sub(s.count()).saturating_sub(s.batch()).max(s.batch());
        if scaled <= cap && factor < self.batch_scale_max {
            if single {
                s.set_alloc_factor(factor + 1);
            } else {
                s.set_block_factor(factor + 1);
            }
        }
        Blocks((scaled.min(cap) >> order.get()).max(blocks(s.batch(), order).0))
    }

    /// Pages left a list for an allocation.
    #[inline]
    pub fn on_take(&self, s: &mut impl State, pages: u32) {
        s.set_count(s.count() - pages);
        if self.count_min {
            s.set_count_min(s.count_min().min(s.count()));
        }
    }

    /// A freed block entered a list. Returns the number of pages to drain now, from that list on; usually 0.
    ///
    /// Follows specification 4.11 step by step; with fewer patches, 4.0 to 4.10.
    #[inline]
    #[must_use]
    pub fn commit(&self, s: &mut impl State, order: Order, pressure: Pressure) -> u32 {
        if self.alloc_factor {
            s.set_alloc_factor(s.alloc_factor() >> 1);
            s.set_block_factor(s.block_factor() >> 1);
        }
        let count = s.count() + order.pages() as u32;
        s.set_count(count);
        // Before this block is counted: the test asks for the frees before it.
        let high_order = self.frees_high_order(s, order);
        if self.free_count && s.free_count() < self.free_count_cap(s.batch()) {
            s.set_free_count(s.free_count() + order.pages() as u32);
        }
        // The common case: no drain is due, and high is within its bounds.
        let high = s.high();
        let settled = s.high_min() <= high && high <= s.high_max() || !self.auto_high;
        if count < high && settled && !high_order && pressure.is_none() {
            return 0;
        }
        self.beyond_common_case(s, order, high_order, pressure)
    }

    /// Pages to drain at a free that is not the common case. Moves `high` under auto-tuning.
    #[cold]
    fn beyond_common_case(&self, s: &mut impl State, order: Order, high_order: bool, pressure: Pressure) -> u32 {
        let limit = self.limit(s, order, high_order, pressure);
        let due = if s.count() < limit { 0 } else { self.drain_amount(s, order, high_order, limit) };
        // This block at least. What was too much before, because the bounds have fallen, goes in drains of the largest size.
        let at_once = (order.pages() as u32).max(s.batch() << self.batch_scale_max);
        due.max(self.beyond_share(s).min(at_once))
    }

    /// Pages of a pageset that are too many for [`Tuning::kept_fraction`].
    pub(crate) fn beyond_share(&self, s: &impl State) -> u32 {
        if self.kept_fraction == 0 { 0 } else { s.count().saturating_sub(s.high_max()) }
    }

    /// Whether this free, after others of orders 1 to 3, drains the pageset. Specification 4.0, 4.1, 4.3, 4.10.
    #[inline]
    fn frees_high_order(&self, s: &mut impl State, order: Order) -> bool {
        if !self.drain_high_order {
            return false;
        }
        if !is_costly(order) {
            s.set_prev_high_order(false);
            return false;
        }
        let recent = if self.free_count {
            s.free_count() >= self.costly_frees(s.batch(), s.high_min())
        } else {
            s.free_factor() > 0
        };
        // The rule, then the state of the same name.
        let in_a_row = !self.prev_high_order || s.prev_high_order();
        let room = self.cache_slice && s.large_cache() && s.count() < self.costly_room(s.batch(), s.high_min());
        s.set_prev_high_order(true);
        recent && in_a_row && !room
    }

    /// Pages freed in a row from which on blocks of orders 1 to 3 may drain. Specification 4.10.
    pub(crate) const fn costly_frees(&self, batch: u32, high_min: u32) -> u32 {
        if self.high_threshold_616 { batch + high_min / 2 } else { batch }
    }

    /// From this value on `free_count` no longer grows: the largest drain, in pages. With [`Tuning::cache_slice_batches`] = 0 at
    /// least that of the kernels, so that smaller drains do not change which frees in a row count as many.
    pub(crate) const fn free_count_cap(&self, batch: u32) -> u32 {
        let scale = self.batch_scale_max;
        batch << if self.cache_slice_batches == 0 && scale < KERNEL_SCALE { KERNEL_SCALE } else { scale }
    }

    /// The count below which blocks of orders 1 to 3 drain nothing with a large cache: [`Self::cache_slice`]. With
    /// [`Tuning::cache_slice_batches`] = 0 the pages of the largest refill and a batch, a guess: the drain takes all, and 32 blocks of order
    /// 3 in use are 4 pages more than such a refill. And at least the lower bound of high: a pageset may keep as many pages of any other order, also
    /// where memory is short, so a drain below that helps nobody.
    pub(crate) const fn costly_room(&self, batch: u32, high_min: u32) -> u32 {
        if self.cache_slice_batches > 0 {
            return batch;
        }
        let largest = (batch << self.block_scale()) + batch;
        if largest > high_min { largest } else { high_min }
    }

    /// A free drains if the count is at least this; 0 means always. The result follows from `high` as it was; under auto-tuning
    /// the call also moves `high`.
    fn limit(&self, s: &mut impl State, order: Order, high_order: bool, pressure: Pressure) -> u32 {
        let reclaim = self.reclaim_limit && pressure.reclaim_active;
        if !self.auto_high {
            let high = s.high();
            return match (high == 0 || high_order, reclaim) {
                (true, _) => 0,
                (false, true) => high.min(4 * s.batch()),
                (false, false) => high,
            };
        }
        clamp_high(s);
        let high = s.high();
        let lower = |by: u32| high.saturating_sub(by).max(s.high_min());
        let recent = match (self.free_count, self.shrink_by_count) {
            (true, false) => s.free_count().max(s.batch()),
            (true, true) => s.free_count(),
            (false, _) => s.batch() << s.free_factor(),
        };
        if high == 0 {
            return 0;
        }
        if high_order {
            s.set_high(lower(s.batch() << self.batch_scale_max));
            return 0;
        }
        if reclaim {
            s.set_high(lower(recent));
            return s.high().min(4 * s.batch());
        }
        if !tunes(s) {
            return high;
        }
        if self.below_high && pressure.below_high {
            s.set_high(lower(recent));
            return s.count().max(s.high_min());
        }
        if s.count() >= high {
            let row = if self.free_count { self.row(s, order) } else { s.batch() << s.free_factor() };
            let need = row + s.batch();
            if high < need {
                s.set_high(clamp(need, s.high_min(), s.high_max()));
            }
        }
        high
    }

    /// Pages freed in a row, as far as a drain takes them: with [`Tuning::cache_slice_batches`] = 0 as many blocks as the largest drain has
    /// pages, since a block is as much work as a page. `high` makes room for no more: a CPU that only frees passes its pages on after so
    /// many others, and a longer way means more memory in use.
    fn row(&self, s: &impl State, order: Order) -> u32 {
        let most = u64::from(s.batch() << self.batch_scale_max) << order.get();
        if self.cache_slice_batches == 0 && most < u64::from(s.free_count()) { most as u32 } else { s.free_count() }
    }

    /// Pages that a free drains from `limit` on.
    pub(crate) fn drain_amount(&self, s: &mut impl State, order: Order, high_order: bool, limit: u32) -> u32 {
        let most = s.batch() << self.batch_scale_max;
        if !self.scale_drain {
            return s.batch();
        }
        if high_order {
            return if self.auto_high { s.count().min(most) } else { s.count() };
        }
        if limit < s.batch() {
            return 1;
        }
        let rest = limit - s.batch();
        if self.free_count {
            return clamp(self.row(s, order), s.batch().max(self.batch_of(order, limit)), rest);
        }
        let scaled = s.batch() << s.free_factor();
        let grows = if self.auto_high { scaled <= rest } else { scaled < rest };
        if grows && !(self.scale_cap && s.free_factor() >= self.batch_scale_max) {
            s.set_free_factor(s.free_factor() + 1);
        }
        clamp(scaled, s.batch(), rest)
    }

    /// [`Tuning::block_scale_max`], at most [`Tuning::batch_scale_max`].
    const fn block_scale(&self) -> u8 {
        if self.block_scale_max < self.batch_scale_max { self.block_scale_max } else { self.batch_scale_max }
    }

    /// A batch of blocks of `order`, in pages: [`Self::batch_blocks`] blocks, but at most the share of `high` that [`Self::high_share`]
    /// allows, and at most a quarter. A call that moves more of what the pageset may keep makes the next calls move it back.
    fn batch_of(&self, order: Order, high: u32) -> u32 {
        (u32::from(self.batch_blocks) << order.get()).min(high >> self.high_share.max(2))
    }

    /// The most pages of a refill by [`Self::high_share`]: a multiple of eight, so that `high`, which rises by it, and the drains
    /// that start there stay in step with blocks of that size. Counted: 150 instead of 161 instructions for `free-half-0`.
    const fn refill_share(&self, high: u32, batch: u32) -> u32 {
        match (high >> self.high_share) & !7 {
            _ if self.high_share == 0 => u32::MAX,
            share if share > batch => share,
            _ => batch,
        }
    }

    /// The once-a-second tick. Specification 4.7 "Timer decay", 4.9.
    #[must_use]
    pub fn decay(&self, s: &mut impl State) -> Decay {
        if !self.auto_high {
            // What other CPUs left for the pageset: no free of its own has drained it.
            let above = s.count().saturating_sub(s.high());
            return Decay { drain: if self.backing.owners() == OwnerRule::List { above } else { 0 }, more: false };
        }
        let mut more = false;
        if s.high() > s.high_min() {
            let idle = match (self.decay, self.count_min) {
                (DecayRule::Eighth, false) => s.high() / 8,
                (DecayRule::Eighth, true) => s.count_min().min(s.high() / 8),
                // First posted as the four fifths that stay, then as the fifth that goes: the two round differently.
                (DecayRule::Fifth, false) => s.high() - s.high() * 4 / 5,
                (DecayRule::Fifth, true) => s.count_min().min(s.high() / 5),
            };
            let near = s.count().saturating_sub(s.batch() << self.batch_scale_max);
            s.set_high(near.max(s.high() - idle).max(s.high_min()));
            more = s.high() > s.high_min();
        }
        let drain = s.count().saturating_sub(s.high()).max(self.beyond_share(s));
        Decay { drain, more: more || drain > 0 }
    }

    /// Ends a tick, after its pages are drained.
    pub fn end_tick(&self, s: &mut impl State) {
        s.set_count_min(s.count());
    }

    /// Whether a CPU with `slice_pages` of the last-level cache keeps a batch at high-order frees. Specification 4.3.
    #[must_use]
    pub fn large_cache(&self, slice_pages: u64, batch: u32) -> bool {
        self.cache_slice_batches == 0 || slice_pages > u64::from(self.cache_slice_batches) * u64::from(batch)
    }
}

/// About `pages` pages in blocks of `order`: at least two blocks, unless `pages` is at most 1.
fn blocks(pages: u32, order: Order) -> Blocks {
    Blocks(if pages > 1 { (pages >> order.get()).max(2) } else { pages })
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
