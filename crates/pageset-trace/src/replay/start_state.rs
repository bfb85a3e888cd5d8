//! The counters of each pageset at the start: the refill and free factors, which zoneinfo does not print.
//!
//! The counters settle after a few events, but a short recording ends before that. The state machine is pure. It runs
//! alone over each pageset's first operations, from every plausible start. The start that explains the kernel's first
//! refills and drains best is chosen. Specification: `trace-replay.md` 3g, `kernels-2026.md` 3.3.

use std::cmp::Reverse;

use pageset::policy::{Bounds, PcpState, Pressure, Tuning};
use pageset::{CpuId, Order};

use super::setting::PagesetSnapshot;

/// The number of operations used per pageset. A guess: the first drain of a CPU that frees into an empty pageset comes
/// after `high` pages, some thousands.
const STEPS_MAX: usize = 8192;
/// The number of refills and drains used per pageset. A guess: each one halves or doubles the factors, which have six
/// values.
const MOVES_MAX: u32 = 8;
/// The weight of a page of the first refill or drain. A power of four, so that [`MOVES_MAX`] moves have a weight.
const FIRST: u64 = 4_u64.pow(MOVES_MAX);
/// The number of operations after which starts that have come to the same state are merged.
const STEPS_PER_MERGE: usize = 32;

/// One operation on a pageset, and the kernel's move at that operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// An allocation. `refill` is the number of blocks of its refill, or 0.
    Alloc { order: Order, refill: u32 },
    /// A bulk allocation of single pages. `refill` is the number of pages of its refill, or 0.
    Bulk { pages: u32, refill: u32 },
    /// A free. `drained` is the number of pages of its drain, or 0, and `last` those of the drain's last block.
    Free { order: Order, drained: u32, last: u32 },
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
        // The timer work leaves the factors as they are, so that its drains show nothing of them.
        let moved = matches!(
            step,
            Step::Alloc { refill: 1.., .. } | Step::Bulk { refill: 1.., .. } | Step::Free { drained: 1.., .. }
        );
        history.moves += u32::from(moved);
        history.steps.push(step);
    }

    /// Adds pages of a drain that a free or tick caused: `step`, or the last one. Returns its number, unless it does not count.
    pub(super) fn drained(&mut self, zone: usize, cpu: CpuId, step: Option<usize>, pages: u32) -> Option<usize> {
        let history = self.of(zone, cpu);
        let last = history.steps.len().checked_sub(1).filter(|_| !history.closed);
        let at = step.or(last)?;
        let step = &mut history.steps[at];
        if let Step::Free { last, .. } = step {
            *last = pages;
        }
        match step {
            Step::Free { drained, .. } => {
                history.moves += u32::from(*drained == 0);
                *drained += pages;
            }
            Step::Tick { drained } => *drained += pages,
            Step::Alloc { .. } | Step::Bulk { .. } => {}
        }
        Some(at)
    }

    /// Closes the history: an event outside the state machine changes the pageset.
    pub(super) fn close(&mut self, zone: usize, cpu: CpuId) {
        self.of(zone, cpu).closed = true;
    }

    /// The counters of a pageset at the start under these rules.
    pub(super) fn start(&self, zone: usize, cpu: CpuId, tuning: &Tuning, shown: Shown) -> Start {
        let History { steps, moves, .. } = &self.of[zone * self.cpus + cpu.0 as usize];
        // Without allocations the free factor never decays, so the last free before the start has left its factor.
        let allocates = steps.iter().any(|step| matches!(step, Step::Alloc { .. } | Step::Bulk { .. }));
        let at_rest =
            Hidden { free: u32::from(!tuning.free_count && !steps.is_empty() && !allocates), ..Hidden::default() };
        // A free of orders 1 to 3 restricts the factors even without a drain.
        let costly =
            |step: &Step| matches!(step, Step::Free { order, .. } if (1..=Order::COSTLY.get()).contains(&order.get()));
        let is_shown = *moves > 0 || steps.iter().any(costly);
        if !is_shown {
            return Start { state: at_rest.state(tuning, shown), is_shown, is_unclear: false };
        }
        let starts = std::iter::once(at_rest).chain(candidates(tuning, shown));
        let mut trials: Vec<Trial> = starts.map(|hidden| Trial::new(hidden.state(tuning, shown))).collect();
        for (chunk, steps) in steps.chunks(STEPS_PER_MERGE).enumerate() {
            let numbered = || steps.iter().enumerate().map(|(at, step)| (chunk * STEPS_PER_MERGE + at, step));
            trials.iter_mut().for_each(|trial| numbered().for_each(|(at, step)| trial.step(tuning, at, step)));
            merge(&mut trials);
        }
        // Starts that explain the first moves equally well, but end in other states, may move other amounts later.
        let best = &trials[0];
        let is_unclear = best.agrees < usize::MAX || trials.get(1).is_some_and(|second| second.key() == best.key());
        Start { state: best.start, is_shown, is_unclear }
    }
}

/// The counters of a pageset at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) state: PcpState,
    /// Whether the kernel's first refills and drains show the counters.
    pub(super) is_shown: bool,
    /// Whether they show them in part only: other counters explain them equally well, or none explains all of them.
    pub(super) is_unclear: bool,
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

/// The state machine from one start on.
#[derive(Clone, Debug)]
struct Trial {
    start: PcpState,
    state: PcpState,
    /// The number of operations before the first one at which its refill or drain differs from the kernel's by more than
    /// an eighth. After it the two have other counts, so that later moves differ for any start.
    agrees: usize,
    /// The difference between its refills and drains and the kernel's. A page of the first move counts [`FIRST`], and
    /// each further move, of the kernel or of the state machine, counts a quarter of the one before.
    cost: u64,
    weight: u64,
}

impl Trial {
    fn new(start: PcpState) -> Self {
        Trial { start, state: start, agrees: usize::MAX, cost: 0, weight: FIRST }
    }

    /// Small for a start that explains the first moves well.
    fn key(&self) -> (Reverse<usize>, u64) {
        (Reverse(self.agrees), self.cost)
    }

    /// Does operation number `at`.
    fn step(&mut self, tuning: &Tuning, at: usize, step: &Step) {
        let state = &mut self.state;
        let (ours, kernel) = match *step {
            Step::Alloc { order, refill } => {
                tuning.on_alloc(state);
                let moved = refilled(tuning, state, order, refill);
                // Bulk allocations may write no event, so the count may be too low.
                let pages = order.pages() as u32;
                state.count = state.count.max(pages);
                tuning.on_take(state, pages);
                moved
            }
            Step::Bulk { pages, refill } => {
                let moved = refilled(tuning, state, Order::ZERO, refill);
                state.count = state.count.saturating_sub(pages);
                moved
            }
            Step::Free { order, drained, last } => {
                let count = state.count;
                let due = tuning.commit(state, order, Pressure::default()).min(state.count);
                state.count = (count + order.pages() as u32).saturating_sub(drained);
                // A drain ends with the block that completes its pages.
                let is_due = due <= drained && due + last > drained;
                (if is_due { drained } else { due }, drained)
            }
            Step::Tick { drained } => {
                let _ = tuning.decay(state);
                state.count = state.count.saturating_sub(drained);
                (drained, drained)
            }
        };
        if (ours, kernel) != (0, 0) {
            if ours.abs_diff(kernel) > ours.max(kernel) / 8 {
                self.agrees = self.agrees.min(at);
            }
            self.cost += self.weight * u64::from(ours.abs_diff(kernel));
            self.weight /= 4;
        }
    }
}

/// Sorts the trials, the most likely start first, and keeps the best of the trials that have come to the same state.
fn merge(trials: &mut Vec<Trial>) {
    trials.sort_by_key(Trial::key);
    let mut kept: Vec<Trial> = Vec::new();
    for trial in trials.drain(..) {
        if !kept.iter().any(|other| (other.state, other.weight) == (trial.state, trial.weight)) {
            kept.push(trial);
        }
    }
    *trials = kept;
}

/// The pages of the state machine's refill and of the kernel's, which is `refill` blocks or none. The count follows the kernel.
fn refilled(tuning: &Tuning, state: &mut PcpState, order: Order, refill: u32) -> (u32, u32) {
    if refill == 0 {
        return (0, 0);
    }
    let asked = tuning.refill(state, order, Pressure::default()).0;
    let pages = order.pages() as u32;
    state.count += refill * pages;
    (asked * pages, refill * pages)
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

    fn found(rules: &str, shown: Shown, steps: &[Step]) -> Start {
        let mut histories = Histories::new(1, 4);
        for &step in steps {
            histories.step(0, CpuId(3), step);
        }
        histories.start(0, CpuId(3), &Preset::find(rules).unwrap().tuning, shown)
    }

    fn start(rules: &str, shown: Shown, steps: &[Step]) -> (PcpState, bool) {
        let Start { state, is_shown, .. } = found(rules, shown, steps);
        (state, is_shown)
    }

    #[test]
    fn the_first_refill_shows_the_factor() {
        for factor in 0..=5 {
            // Five frees halve the factor to 0; without a free it keeps its value.
            let steps = [Step::Alloc { order: Order::ZERO, refill: 63 << factor }];
            let (state, is_shown) = start("linux-6.18", SHOWN, &steps);
            assert_eq!((state.alloc_factor, is_shown), (factor as u8, true));
        }
        let freed =
            [Step::Free { order: Order::ZERO, drained: 0, last: 1 }, Step::Alloc { order: Order::ZERO, refill: 126 }];
        assert!((2..=3).contains(&start("linux-6.18", SHOWN, &freed).0.alloc_factor));
        assert!(!start("linux-6.18", SHOWN, &freed[..1]).1);
    }

    /// A later move that no start explains does not outweigh the first ones.
    #[test]
    fn the_first_moves_count_most() {
        let alloc = |refill| Step::Alloc { order: Order::ZERO, refill };
        let mut steps = vec![alloc(1008), alloc(2016)];
        // The pageset cannot hold so much, so the state machine drains at each of these frees.
        steps.extend([Step::Free { order: Order::ZERO, drained: 0, last: 1 }; 2000]);
        let found = found("linux-6.18", SHOWN, &steps);
        assert_eq!((found.state.alloc_factor, found.is_unclear), (4, true));
    }

    #[test]
    fn a_bulk_allocation_takes_pages_and_ends_no_frees() {
        let shown = Shown { snapshot: PagesetSnapshot { count: 3400, high: 3492 }, ..SHOWN };
        // 200 pages leave, so 200 frees drain nothing; the next ones drain a row of frees.
        let mut steps = vec![Step::Bulk { pages: 200, refill: 0 }];
        steps.extend([Step::Free { order: Order::ZERO, drained: 0, last: 1 }; 291]);
        steps.push(Step::Free { order: Order::ZERO, drained: 292, last: 1 });
        let found = found("linux-6.18", shown, &steps);
        assert_eq!((found.state.free_count, found.is_unclear), (0, false));
    }

    /// 6.1 on three nodes: the timer work drains batches of a pageset that nobody allocates from, and a free of order 3 drains nothing.
    #[test]
    fn drains_of_the_timer_work_show_nothing_and_end_no_history() {
        let mut steps = vec![Step::Tick { drained: 31 }; MOVES_MAX as usize + 1];
        let shown = Shown { snapshot: PagesetSnapshot { count: 3000, high: 3492 }, ..SHOWN };
        assert_eq!(start("linux-6.1", shown, &steps).0.free_factor, 1, "nobody allocates");
        steps.push(Step::Free { order: Order::new(3).unwrap(), drained: 0, last: 1 });
        assert_eq!(start("linux-6.1", shown, &steps).0.free_factor, 0);
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
            let Start { state, is_shown, .. } = histories.start(zone, CpuId(cpu), tuning, SHOWN);
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
        let at_once = [Step::Free { order, drained: 3197, last: 1 }];
        let (state, is_shown) = start("linux-6.1", shown, &at_once);
        assert!(is_shown && state.free_factor >= 1, "{state:?}");
        let kept = [Step::Alloc { order, refill: 7 }, Step::Free { order, drained: 0, last: 1 }];
        assert_eq!(start("linux-6.1", shown, &kept).0.free_factor, 0);
        // The pageset has no allocations, and a free of order 3 drained nothing.
        assert_eq!(start("linux-6.1", shown, &[Step::Free { order, drained: 0, last: 1 }]).0.free_factor, 0);
        // The pageset has no allocations: the factor that a free before the start left never decays.
        assert_eq!(
            start("linux-6.1", shown, &[Step::Free { order: Order::ZERO, drained: 0, last: 1 }]).0.free_factor,
            1
        );
    }
}
