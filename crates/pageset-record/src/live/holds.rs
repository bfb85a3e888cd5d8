//! Holds of zone locks, from the blocks that pass under them.
//!
//! The kernel has no event for a hold. It has one for each block of a refill and of a drain, and the blocks of one hold follow one another
//! within a microsecond or so. Before the next hold a CPU hands out, or gets back, a batch of blocks or a part of one. So the time between two
//! blocks shows whether they belong to one hold. How long a block takes depends on the machine, and is measured: a hold of a pageset moves at
//! least two blocks, so that at least half of all gaps lie within holds. These are the shorter half, and the shortest quarter of all
//! gaps is what a block takes. Reading the time is most of the cost, so that of single pages every fourth is timed, see [`TIMED_ONE_IN`]:
//! a hold moves more of them. So the gaps of single pages have classes of their own.
//!
//! | path | a hold begins |
//! | --- | --- |
//! | refill | with a block after another kind of block, or of another order, or after a gap: see [`GAP`] |
//! | drain | with a block after another kind of block, or after a gap; one drain may hold blocks of all orders |
//! | past the pagesets | with each block of an order that they do not cache, and again when it is freed, which no event shows |

use super::ORDERS;
use super::times::{BUCKETS, bucket};

/// How many times as long as within a hold the time to the next block is at least between holds. A guess: between holds a batch of blocks
/// is used, 31 or more. In the lab's recordings, 99 of 100 gaps within holds are shorter, and those between holds are hundreds of times as
/// long as a block.
pub const GAP: usize = 16;
/// The classes of duration of [`GAP`]: two for each power of two.
const GAP_CLASSES: usize = 2 * GAP.ilog2() as usize;
/// Of so many single pages in a row one is timed. Blocks of other orders are fewer, and a hold may move two of them. So single pages of a
/// batch of 31 are told apart if their use takes twice the time that they take within a hold. Refills that follow one another more closely
/// count as one: what is counted is a lower bound.
pub const TIMED_ONE_IN: u64 = 4;
/// The classes of duration of [`TIMED_ONE_IN`].
const TIMED_CLASSES: usize = 2 * TIMED_ONE_IN.ilog2() as usize;

/// The holds of zone locks of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// To refill a pageset.
    pub refill: u64,
    /// To drain a pageset. From 6.19 on a long drain gives up the lock after each batch, and counts once.
    pub drain: u64,
    /// To take a block past the pagesets.
    pub direct: u64,
}

impl Holds {
    /// All of them. What was taken past the pagesets returns past them.
    pub const fn all(&self) -> u64 {
        self.refill + self.drain + 2 * self.direct
    }
}

/// A move of a block under a zone lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// A block of this order, from a free list.
    Refill(u32),
    /// A block from a pageset.
    Drain,
}

/// The kinds of gaps: those of refills and of drains, each of single pages and of other blocks.
pub(super) const KINDS: usize = 4;

/// The kind of the gap before a block.
const fn kind(is_drain: bool, order: u32) -> usize {
    2 * is_drain as usize + (order != 0) as usize
}

/// The times between the blocks of one CPU, as the BPF programs count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gaps {
    /// Refills and drains that follow other blocks.
    pub begun: [u64; 2],
    /// Blocks past the pagesets.
    pub direct: u64,
    /// The gaps in classes of duration: of refills of single pages and of other blocks, then of drains.
    pub gaps: [[u64; BUCKETS]; KINDS],
}

impl Default for Gaps {
    fn default() -> Self {
        Gaps { begun: [0; 2], direct: 0, gaps: [[0; BUCKETS]; KINDS] }
    }
}

impl Gaps {
    fn holds_since(&self, before: &Gaps, limits: [usize; KINDS]) -> Holds {
        let [refill, drain] = [0, 1].map(|way: usize| {
            let grown = |kind: usize, class: usize| self.gaps[kind][class].saturating_sub(before.gaps[kind][class]);
            let between = |kind: usize| (limits[kind]..BUCKETS).map(|class| grown(kind, class)).sum::<u64>();
            self.begun[way].saturating_sub(before.begun[way]) + between(2 * way) + between(2 * way + 1)
        });
        Holds { refill, drain, direct: self.direct.saturating_sub(before.direct) }
    }
}

/// The classes from which on a gap lies between holds, for each kind.
fn limits<'g>(all: impl Iterator<Item = &'g Gaps> + Clone) -> [usize; KINDS] {
    let quarter = |kind: usize| {
        let of = |class: usize| all.clone().map(|gaps| gaps.gaps[kind][class]).sum::<u64>();
        let count = (0..BUCKETS).map(of).sum::<u64>();
        let mut below = 0;
        let is_quarter = |class: &usize| {
            below += of(*class);
            4 * below >= count
        };
        (0..BUCKETS).find(is_quarter).filter(|_| count > 0)
    };
    let mut limits = [BUCKETS - 1; KINDS];
    for way in [0, 2] {
        // All gaps of one kind may lie between holds, such as those of a block that each drain has one of. So the shorter time decides.
        let single = quarter(way).map(|class| class.saturating_sub(TIMED_CLASSES));
        let block = [single, quarter(way + 1)].into_iter().flatten().min().unwrap_or(0);
        limits[way] = (block + TIMED_CLASSES + GAP_CLASSES).min(BUCKETS - 1);
        limits[way + 1] = (block + GAP_CLASSES).min(BUCKETS - 1);
    }
    limits
}

/// Lists that hold more pages than the kernel's, as the BPF programs fill them: with what a CPU drains, for what it refills. What they can
/// neither take nor give still passes under zone locks.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargerLists {
    extra: u64,
    held: u64,
    /// The pages of refills and of drains that still pass.
    pub passed: [u64; 2],
}

impl LargerLists {
    /// Empty lists that hold `extra` pages more.
    pub const fn new(extra: u64) -> Self {
        LargerLists { extra, held: 0, passed: [0; 2] }
    }

    /// Moves a block of a cached order.
    pub const fn pass(&mut self, block: Move, order: u32) {
        let pages = 1 << order;
        match block {
            Move::Refill(_) if self.held >= pages => self.held -= pages,
            Move::Drain if self.held + pages <= self.extra => self.held += pages,
            _ => self.passed[matches!(block, Move::Drain) as usize] += pages,
        }
    }
}

/// Counts the holds of one CPU from its events with their times, such as those of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct HoldCounter {
    last: Option<(Move, u64)>,
    /// Single pages until the next one that is timed.
    untimed: u64,
    /// What is counted.
    pub gaps: Gaps,
}

impl HoldCounter {
    /// Counts a block of this order.
    pub fn count(&mut self, block: Move, order: u32, time_ns: u64) {
        if block != Move::Drain && !ORDERS.contains(&order) {
            self.gaps.direct += 1;
            self.last = None;
            return;
        }
        let is_drain = block == Move::Drain;
        if order == 0 && self.untimed > 0 && self.last.is_some_and(|(last, _)| last == block) {
            self.untimed -= 1;
            return;
        }
        self.untimed = TIMED_ONE_IN - 1;
        match self.last.replace((block, time_ns)) {
            // A clock that steps back shows no gap.
            Some((last, at)) if last == block => {
                if let Some(gap) = time_ns.checked_sub(at) {
                    self.gaps.gaps[kind(is_drain, order)][bucket(gap)] += 1;
                }
            }
            _ => self.gaps.begun[usize::from(is_drain)] += 1,
        }
    }
}

/// Sums of holds, by CPU.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    cpus: Vec<(u32, Gaps, Holds)>,
}

impl Sums {
    /// Adds what each CPU has counted since the last call, and returns the sums in the order of `now`.
    pub fn add(&mut self, now: &[(u32, Gaps)]) -> Vec<Holds> {
        let limits = limits(now.iter().map(|(_, gaps)| gaps));
        let of_cpu = |(cpu, gaps): &(u32, Gaps)| {
            let known = self.cpus.iter().position(|known| known.0 == *cpu);
            let at = known.unwrap_or_else(|| {
                self.cpus.push((*cpu, Gaps::default(), Holds::default()));
                self.cpus.len() - 1
            });
            let (_, before, sum) = &mut self.cpus[at];
            let since = gaps.holds_since(before, limits);
            *before = *gaps;
            sum.refill += since.refill;
            sum.drain += since.drain;
            sum.direct += since.direct;
            *sum
        };
        now.iter().map(of_cpu).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds of so many blocks each, whose blocks take `block` ns, and between which `pause` ns pass.
    fn pass(counter: &mut HoldCounter, time: &mut u64, of: Move, holds: &[u32], (block, pause): (u64, u64)) {
        for blocks in holds {
            *time += pause;
            let order = if let Move::Refill(order) = of { order } else { 0 };
            for _ in 0..*blocks {
                *time += block;
                counter.count(of, order, *time);
            }
        }
    }

    fn holds(sums: &mut Sums, counter: &HoldCounter) -> Holds {
        sums.add(&[(3, counter.gaps)])[0]
    }

    /// One hold may move a batch or 32 of them, on a slow machine and on a fast one.
    #[test]
    fn long_holds_count_once() {
        for scale in [1, 10, 100] {
            let (mut counter, mut sums, mut time) = (HoldCounter::default(), Sums::default(), 7);
            // A page of the batch is used in three times the time that it takes within a hold.
            let times = (90 * scale, 31 * 270 * scale);
            pass(&mut counter, &mut time, Move::Refill(0), &[63, 63, 2016, 63, 126], times);
            assert_eq!(holds(&mut sums, &counter), Holds { refill: 5, drain: 0, direct: 0 });
            // A CPU that only drains, whole lists.
            pass(&mut counter, &mut time, Move::Drain, &[2016; 20], times);
            assert_eq!(holds(&mut sums, &counter), Holds { refill: 5, drain: 20, direct: 0 });
            pass(&mut counter, &mut time, Move::Refill(0), &[31; 100], times);
            let all = holds(&mut sums, &counter);
            assert_eq!((all.refill, all.all()), (105, 125));
        }
    }

    /// Refills of another order, and drains between refills, need no gap. Huge pages come by twos: half of the gaps are within holds.
    #[test]
    fn short_holds_are_told_apart() {
        let (mut counter, mut sums, mut time) = (HoldCounter::default(), Sums::default(), 7);
        for _ in 0..50 {
            for (of, blocks) in [(Move::Refill(0), 31), (Move::Refill(3), 3), (Move::Drain, 31)] {
                pass(&mut counter, &mut time, of, &[blocks], (90, 90));
            }
        }
        assert_eq!(holds(&mut sums, &counter), Holds { refill: 100, drain: 50, direct: 0 });
        let mut counter = HoldCounter::default();
        pass(&mut counter, &mut time, Move::Refill(9), &[2; 100], (90, 90_000));
        assert_eq!(holds(&mut Sums::default(), &counter).refill, 100);
    }

    /// The kind that takes less time decides, however few of its gaps there are. A block that each drain has one of has no gap within.
    #[test]
    fn kinds_of_gaps_have_classes_of_their_own() {
        let (mut counter, mut time) = (HoldCounter::default(), 7);
        pass(&mut counter, &mut time, Move::Refill(3), &[7; 40], (1000, 90_000));
        pass(&mut counter, &mut time, Move::Refill(0), &[31; 4], (90, 31 * 180));
        assert_eq!(holds(&mut Sums::default(), &counter).refill, 44);
        let mut counter = HoldCounter::default();
        for _ in 0..20 {
            time += 90_000;
            for order in [3].into_iter().chain([0; 62]) {
                time += 90;
                counter.count(Move::Drain, order, time);
            }
        }
        assert_eq!(holds(&mut Sums::default(), &counter).drain, 20);
    }

    #[test]
    fn larger_lists_avoid_what_they_hold() {
        let mut lists = LargerLists::new(100);
        let mut pass = |block, order, blocks: u32| {
            (0..blocks).for_each(|_| lists.pass(block, order));
            lists.passed
        };
        // They begin empty.
        assert_eq!(pass(Move::Refill(0), 0, 30), [30, 0]);
        assert_eq!(pass(Move::Drain, 3, 13), [30, 8]);
        assert_eq!(pass(Move::Refill(0), 0, 100), [34, 8]);
        assert_eq!(pass(Move::Drain, 9, 1), [34, 520]);
        // What comes and goes by less than they hold never passes.
        for _ in 0..50 {
            pass(Move::Drain, 0, 100);
            pass(Move::Refill(0), 0, 100);
        }
        assert_eq!(pass(Move::Drain, 0, 0), [34, 520]);
    }

    /// The kernel's clock may step back by a few nanoseconds, and that of a recording by any time.
    #[test]
    fn a_clock_that_steps_back_is_no_hold() {
        let mut counter = HoldCounter::default();
        [1000, 1090, 1087, 1177, 5, 95].into_iter().for_each(|time| counter.count(Move::Refill(3), 3, time));
        assert_eq!(holds(&mut Sums::default(), &counter).refill, 1);
        assert_eq!(counter.gaps.gaps.iter().flatten().sum::<u64>(), 3, "a step back is no gap, not one of 0");
    }

    /// A block past the pagesets is a hold when it comes and when it goes, and ends a refill.
    #[test]
    fn blocks_past_the_pagesets_count_twice() {
        let (mut counter, mut time) = (HoldCounter::default(), 7);
        for order in [4, 8, 10] {
            pass(&mut counter, &mut time, Move::Refill(order), &[10], (90, 0));
            pass(&mut counter, &mut time, Move::Refill(0), &[31], (90, 0));
        }
        let all = holds(&mut Sums::default(), &counter);
        assert_eq!((all, all.all()), (Holds { refill: 3, drain: 0, direct: 30 }, 63));
    }

    /// A CPU that comes later, or whose counters begin anew, takes nothing away from the sums.
    #[test]
    fn sums_never_decrease() {
        let (mut counter, mut sums, mut time) = (HoldCounter::default(), Sums::default(), 7);
        pass(&mut counter, &mut time, Move::Drain, &[31; 4], (90, 9000));
        let one = [(3, counter.gaps)];
        assert_eq!(sums.add(&one)[0].drain, 4);
        assert_eq!(sums.add(&one)[0].drain, 4);
        let two = [(3, Gaps::default()), (5, counter.gaps)];
        assert_eq!(sums.add(&two).iter().map(|holds| holds.drain).collect::<Vec<_>>(), [4, 4]);
        assert_eq!(sums.add(&[]), []);
    }
}
