//! The counters of each pageset at the start: the refill and free factors, which zoneinfo does not print.
//!
//! The counters settle after a few events, but a short recording ends before that. The state machine is pure. It runs
//! alone over each pageset's first operations, from every plausible start. The start that explains the kernel's first
//! refills and drains best is chosen. Specification: `trace-replay.md` 3g, `kernels-2026.md` 3.3.

use pageset::policy::{Bounds, PcpState, Pressure, Tuning};
use pageset::{CpuId, Order};

use super::setting::PagesetSnapshot;

/// The number of operations used per pageset. A guess: the first drain of a CPU that frees into an empty pageset comes
/// after `high` pages, some thousands.
const STEPS_MAX: usize = 8192;
/// The number of refills and drains used per pageset. A guess: each one halves or doubles the factors, which have six
/// values.
const MOVES_MAX: u32 = 8;

/// One operation on a pageset, and the kernel's move at that operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// An allocation. `refill` is the number of blocks of its refill, or 0.
    Alloc { order: Order, refill: u32 },
    /// A free. `drained` is the number of pages of its drain, or 0.
    Free { order: Order, drained: u32 },
    /// The timer work. `drained` is the number of pages that it drained.
    Tick { drained: u32 },
}

/// The first operations of a pageset.
#[derive(Clone, Debug, Default)]
struct History {
    steps: Vec<Step>,
    moves: u32,
    /// Whether an event outside the state machine has occurred. Later operations do not count.
    closed: bool,
}

/// The first operations of every pageset.
#[derive(Clone, Debug)]
pub(super) struct Histories {
    cpus: usize,
    /// By zone, then CPU.
    of: Vec<History>,
}

impl Histories {
    pub(super) fn new(zones: usize, cpus: usize) -> Self {
        Histories { cpus, of: vec![History::default(); zones * cpus] }
    }

    fn of(&mut self, zone: usize, cpu: CpuId) -> &mut History {
        &mut self.of[zone * self.cpus + cpu.0 as usize]
    }

    /// Adds an operation, unless the history is closed or full.
    pub(super) fn step(&mut self, zone: usize, cpu: CpuId, step: Step) {
        let history = self.of(zone, cpu);
        if history.closed || history.steps.len() == STEPS_MAX || history.moves == MOVES_MAX {
            history.closed = true;
            return;
        }
        let moved = matches!(
            step,
            Step::Alloc { refill: 1.., .. } | Step::Free { drained: 1.., .. } | Step::Tick { drained: 1.. }
        );
        history.moves += u32::from(moved);
        history.steps.push(step);
    }

    /// Adds pages of a drain that the last free or tick caused.
    pub(super) fn drained(&mut self, zone: usize, cpu: CpuId, pages: u32) {
        let history = self.of(zone, cpu);
        if history.closed {
            return;
        }
        if let Some(Step::Free { drained, .. } | Step::Tick { drained }) = history.steps.last_mut() {
            history.moves += u32::from(*drained == 0);
            *drained += pages;
        }
    }

    /// Closes the history: an event outside the state machine changes the pageset.
    pub(super) fn close(&mut self, zone: usize, cpu: CpuId) {
        self.of(zone, cpu).closed = true;
    }

    /// The counters of a pageset at the start under these rules, and whether a refill or drain shows them.
    pub(super) fn start(&self, zone: usize, cpu: CpuId, tuning: &Tuning, shown: Shown) -> (PcpState, bool) {
        let History { steps, moves, .. } = &self.of[zone * self.cpus + cpu.0 as usize];
        // Without allocations the free factor never decays, so the last free before the start has left its factor.
        let allocates = steps.iter().any(|step| matches!(step, Step::Alloc { .. }));
        let at_rest =
            Hidden { free: u32::from(!tuning.free_count && !steps.is_empty() && !allocates), ..Hidden::default() };
        // A free of orders 1 to 3 restricts the factors even without a drain.
        let costly =
            |step: &Step| matches!(step, Step::Free { order, .. } if (1..=Order::COSTLY.get()).contains(&order.get()));
        let is_shown = *moves > 0 || steps.iter().any(costly);
        if !is_shown {
            return (at_rest.state(tuning, shown), false);
        }
        let mut best = (u64::MAX, at_rest);
        for hidden in std::iter::once(at_rest).chain(candidates(tuning, shown)) {
            let cost = cost(tuning, hidden.state(tuning, shown), steps, best.0);
            if cost < best.0 {
                best = (cost, hidden);
            }
        }
        (best.1.state(tuning, shown), true)
    }
}

/// A pageset in zoneinfo at the start, and its bounds under the rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) snapshot: PagesetSnapshot,
    pub(super) bounds: Bounds,
    /// [`PcpState::large_cache`].
    pub(super) large_cache: bool,
}

/// The counters that zoneinfo does not print.
#[derive(Clone, Copy, Debug, Default)]
struct Hidden {
    alloc_factor: u8,
    /// `free_count` if the rules have it, otherwise `free_factor`.
    free: u32,
    prev_high_order: bool,
}

impl Hidden {
    fn state(self, tuning: &Tuning, shown: Shown) -> PcpState {
        let small = |pages: u64| u32::try_from(pages).unwrap_or(u32::MAX);
        let (count, high) = (small(shown.snapshot.count), small(shown.snapshot.high));
        let Bounds { batch, high_min, high_max } = shown.bounds;
        PcpState {
            count,
            high: if tuning.auto_high { high } else { high_min },
            high_min,
            high_max,
            batch,
            free_count: if tuning.free_count { self.free } else { 0 },
            count_min: count,
            free_factor: if tuning.free_count { 0 } else { self.free as u8 },
            alloc_factor: self.alloc_factor,
            block_factor: 0,
            prev_high_order: self.prev_high_order,
            large_cache: shown.large_cache,
        }
    }
}

/// All starts with different effects, the most likely first.
fn candidates(tuning: &Tuning, shown: Shown) -> impl Iterator<Item = Hidden> {
    let scale = tuning.batch_scale_max;
    let batch = shown.bounds.batch;
    let allocs = if tuning.alloc_factor { 0..=scale } else { 0..=0 };
    let frees: Vec<u32> = if tuning.free_count {
        // The threshold is one batch, and from 6.16 on half of the lowest high more. Drains are as large as the count.
        let threshold = batch + shown.bounds.high_min / 2;
        let scaled =
            (0..=2 * u32::from(scale)).map(|half| (batch << (half / 2)) + (half % 2) * (batch << (half / 2)) / 2);
        [0, batch / 2, threshold].into_iter().chain(scaled).collect()
    } else if tuning.scale_drain {
        (0..=6).collect()
    } else {
        vec![0]
    };
    let flags = if tuning.prev_high_order { 0..=1 } else { 0..=0 };
    allocs.flat_map(move |alloc_factor| {
        let (frees, flags) = (frees.clone(), flags.clone());
        frees.into_iter().flat_map(move |free| {
            flags.clone().map(move |flag| Hidden { alloc_factor, free, prev_high_order: flag == 1 })
        })
    })
}

/// The difference between the state machine's refills and drains and the kernel's, in pages. Stops at `cost_max`.
fn cost(tuning: &Tuning, mut state: PcpState, steps: &[Step], cost_max: u64) -> u64 {
    let rest = Pressure::default();
    let mut cost = 0;
    for step in steps {
        match *step {
            Step::Alloc { order, refill } => {
                tuning.on_alloc(&mut state);
                let pages = order.pages() as u32;
                if refill > 0 {
                    let asked = tuning.refill(&mut state, order, rest).0;
                    cost += u64::from(asked.abs_diff(refill)) * order.pages();
                    state.count += refill * pages;
                }
                // Bulk allocations may write no event, so the count may be too low.
                state.count = state.count.max(pages);
                tuning.on_take(&mut state, pages);
            }
            Step::Free { order, drained } => {
                let count = state.count;
                let due = tuning.commit(&mut state, order, rest).min(state.count);
                cost += u64::from(due.abs_diff(drained));
                state.count = (count + order.pages() as u32).saturating_sub(drained);
            }
            Step::Tick { drained } => {
                let _ = tuning.decay(&mut state);
                state.count = state.count.saturating_sub(drained);
            }
        }
        if cost >= cost_max {
            break;
        }
    }
    cost
}

#[cfg(test)]
mod tests {
    use pageset::policy::Preset;

    use super::*;

    const SHOWN: Shown = Shown {
        snapshot: PagesetSnapshot { count: 0, high: 3492 },
        bounds: Bounds { batch: 63, high_min: 3492, high_max: 15_630 },
        large_cache: true,
    };

    fn start(rules: &str, shown: Shown, steps: &[Step]) -> (PcpState, bool) {
        let mut histories = Histories::new(1, 4);
        for &step in steps {
            histories.step(0, CpuId(3), step);
        }
        histories.start(0, CpuId(3), &Preset::find(rules).unwrap().tuning, shown)
    }

    #[test]
    fn the_first_refill_shows_the_factor() {
        for factor in 0..=5 {
            // Five frees halve the factor to 0; without a free it keeps its value.
            let steps = [Step::Alloc { order: Order::ZERO, refill: 63 << factor }];
            let (state, is_shown) = start("linux-6.18", SHOWN, &steps);
            assert_eq!((state.alloc_factor, is_shown), (factor as u8, true));
        }
        let freed = [Step::Free { order: Order::ZERO, drained: 0 }, Step::Alloc { order: Order::ZERO, refill: 126 }];
        assert!((2..=3).contains(&start("linux-6.18", SHOWN, &freed).0.alloc_factor));
        assert!(!start("linux-6.18", SHOWN, &freed[..1]).1);
    }

    #[test]
    fn each_pageset_has_its_own_history() {
        let mut histories = Histories::new(2, 3);
        let refill = |factor: u8| Step::Alloc { order: Order::ZERO, refill: 63 << factor };
        histories.step(0, CpuId(2), refill(2));
        histories.step(1, CpuId(0), refill(4));
        histories.close(1, CpuId(1));
        histories.step(1, CpuId(1), refill(1));
        let tuning = &Preset::find("linux-6.18").unwrap().tuning;
        let start = |zone, cpu| {
            let (state, is_shown) = histories.start(zone, CpuId(cpu), tuning, SHOWN);
            is_shown.then_some(state.alloc_factor)
        };
        let starts = [0, 1].map(|zone| [0, 1, 2].map(|cpu| start(zone, cpu)));
        assert_eq!(starts, [[None, None, Some(2)], [Some(4), None, None]]);
    }

    /// `kernels-2026.md` 3.3: a drain of all pages follows the first free of order 3.
    #[test]
    fn a_drain_below_high_shows_the_free_factor() {
        let order = Order::new(3).unwrap();
        let shown = Shown {
            snapshot: PagesetSnapshot { count: 3189, high: 3492 },
            bounds: Bounds { batch: 63, high_min: 3492, high_max: 3492 },
            ..SHOWN
        };
        let at_once = [Step::Free { order, drained: 3197 }];
        let (state, is_shown) = start("linux-6.1", shown, &at_once);
        assert!(is_shown && state.free_factor >= 1, "{state:?}");
        let kept = [Step::Alloc { order, refill: 7 }, Step::Free { order, drained: 0 }];
        assert_eq!(start("linux-6.1", shown, &kept).0.free_factor, 0);
        // The pageset has no allocations, and a free of order 3 drained nothing.
        assert_eq!(start("linux-6.1", shown, &[Step::Free { order, drained: 0 }]).0.free_factor, 0);
        // The pageset has no allocations: the factor that a free before the start left never decays.
        assert_eq!(start("linux-6.1", shown, &[Step::Free { order: Order::ZERO, drained: 0 }]).0.free_factor, 1);
    }
}
