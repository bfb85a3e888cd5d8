//! Holds of zone locks, from the blocks that pass under them.
//!
//! The kernel has no event for a hold. It has one for each block of a refill and of a drain, and the blocks of one hold follow one another
//! within a microsecond or so. Before the next hold a CPU hands out, or gets back, a batch of blocks or a part of one. So the time between two
//! blocks shows whether they belong to one hold. How long a block takes depends on the machine, and is measured: a hold of a pageset moves at
//! least two blocks, so that at least half of all gaps lie within holds. These are the shorter half, and the shortest quarter of all
//! gaps is what a block takes. Reading the time is most of the cost, so that of single pages every fourth is timed, see [`APART`]: a hold
//! moves more of them.
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
/// Of so many single pages in a row one is timed, and the gap is divided among them. Blocks of other orders are fewer, and a hold may move
/// two of them. So single pages of a batch of 31 are told apart if their use takes twice the time that they take within a hold. Refills that
/// follow one another more closely count as one: what is counted is a lower bound.
pub const APART: u64 = 4;

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

/// What passes under a zone lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// A block of this order, from a free list.
    Refill(u32),
    /// A block from a pageset.
    Drain,
}

impl Passes {
    const fn way(self) -> usize {
        matches!(self, Passes::Drain) as usize
    }
}

/// The times between the blocks of one CPU, as the BPF programs count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gaps {
    /// Refills and drains that follow other blocks.
    pub begun: [u64; 2],
    /// Blocks past the pagesets.
    pub direct: u64,
    /// The gaps of refills and of drains, in classes of duration.
    pub gaps: [[u64; BUCKETS]; 2],
}

impl Default for Gaps {
    fn default() -> Self {
        Gaps { begun: [0; 2], direct: 0, gaps: [[0; BUCKETS]; 2] }
    }
}

impl Gaps {
    fn holds_since(&self, before: &Gaps, limits: [usize; 2]) -> Holds {
        let [refill, drain] = [0, 1].map(|way: usize| {
            let grown = |class: usize| self.gaps[way][class].saturating_sub(before.gaps[way][class]);
            self.begun[way].saturating_sub(before.begun[way]) + (limits[way]..BUCKETS).map(grown).sum::<u64>()
        });
        Holds { refill, drain, direct: self.direct.saturating_sub(before.direct) }
    }
}

/// The classes from which on a gap lies between holds, for refills and drains.
fn limits<'g>(all: impl Iterator<Item = &'g Gaps> + Clone) -> [usize; 2] {
    [0, 1].map(|way: usize| {
        let of = |class: usize| all.clone().map(|gaps| gaps.gaps[way][class]).sum::<u64>();
        let count = (0..BUCKETS).map(of).sum::<u64>();
        let mut below = 0;
        let quarter = (0..BUCKETS).find(|class| {
            below += of(*class);
            4 * below >= count
        });
        (quarter.unwrap_or(0) + GAP_CLASSES).min(BUCKETS - 1)
    })
}

/// The gaps between events of one CPU with their times, such as those of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Follower {
    last: Option<(Passes, u64)>,
    /// Single pages until the next one that is timed.
    left: u64,
    /// What is counted.
    pub gaps: Gaps,
}

impl Follower {
    /// Counts a block of this order.
    pub fn passes(&mut self, block: Passes, order: u32, time_ns: u64) {
        if block != Passes::Drain && !ORDERS.contains(&order) {
            self.gaps.direct += 1;
            self.last = None;
            return;
        }
        let way = block.way();
        if order == 0 && self.left > 0 && self.last.is_some_and(|(last, _)| last == block) {
            self.left -= 1;
            return;
        }
        self.left = APART - 1;
        match self.last.replace((block, time_ns)) {
            Some((last, at)) if last == block => {
                let gap = time_ns.saturating_sub(at) / if order == 0 { APART } else { 1 };
                self.gaps.gaps[way][bucket(gap)] += 1;
            }
            _ => self.gaps.begun[way] += 1,
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
    fn follow(follower: &mut Follower, time: &mut u64, of: Passes, holds: &[u32], (block, pause): (u64, u64)) {
        for blocks in holds {
            *time += pause;
            let order = if let Passes::Refill(order) = of { order } else { 0 };
            for _ in 0..*blocks {
                *time += block;
                follower.passes(of, order, *time);
            }
        }
    }

    fn holds(sums: &mut Sums, follower: &Follower) -> Holds {
        sums.add(&[(3, follower.gaps)])[0]
    }

    /// One hold may move a batch or 32 of them, on a slow machine and on a fast one.
    #[test]
    fn long_holds_count_once() {
        for scale in [1, 10, 100] {
            let (mut follower, mut sums, mut time) = (Follower::default(), Sums::default(), 7);
            // A page of the batch is used in three times the time that it takes within a hold.
            let times = (90 * scale, 31 * 270 * scale);
            follow(&mut follower, &mut time, Passes::Refill(0), &[63, 63, 2016, 63, 126], times);
            assert_eq!(holds(&mut sums, &follower), Holds { refill: 5, drain: 0, direct: 0 });
            // A CPU that only drains, whole lists.
            follow(&mut follower, &mut time, Passes::Drain, &[2016; 20], times);
            assert_eq!(holds(&mut sums, &follower), Holds { refill: 5, drain: 20, direct: 0 });
            follow(&mut follower, &mut time, Passes::Refill(0), &[31; 100], times);
            let all = holds(&mut sums, &follower);
            assert_eq!((all.refill, all.all()), (105, 125));
        }
    }

    /// Refills of another order, and drains between refills, need no gap. Huge pages come by twos: half of the gaps are within holds.
    #[test]
    fn short_holds_are_told_apart() {
        let (mut follower, mut sums, mut time) = (Follower::default(), Sums::default(), 7);
        for _ in 0..50 {
            for (of, blocks) in [(Passes::Refill(0), 31), (Passes::Refill(3), 3), (Passes::Drain, 31)] {
                follow(&mut follower, &mut time, of, &[blocks], (90, 90));
            }
        }
        assert_eq!(holds(&mut sums, &follower), Holds { refill: 100, drain: 50, direct: 0 });
        let mut follower = Follower::default();
        follow(&mut follower, &mut time, Passes::Refill(9), &[2; 100], (90, 90_000));
        assert_eq!(holds(&mut Sums::default(), &follower).refill, 100);
    }

    /// A block past the pagesets is a hold when it comes and when it goes, and ends a refill.
    #[test]
    fn blocks_past_the_pagesets_count_twice() {
        let (mut follower, mut time) = (Follower::default(), 7);
        for order in [4, 8, 10] {
            follow(&mut follower, &mut time, Passes::Refill(order), &[10], (90, 0));
            follow(&mut follower, &mut time, Passes::Refill(0), &[31], (90, 0));
        }
        let all = holds(&mut Sums::default(), &follower);
        assert_eq!((all, all.all()), (Holds { refill: 3, drain: 0, direct: 30 }, 63));
    }

    /// A CPU that comes later, or whose counters begin anew, takes nothing away from the sums.
    #[test]
    fn sums_never_decrease() {
        let (mut follower, mut sums, mut time) = (Follower::default(), Sums::default(), 7);
        follow(&mut follower, &mut time, Passes::Drain, &[31; 4], (90, 9000));
        let one = [(3, follower.gaps)];
        assert_eq!(sums.add(&one)[0].drain, 4);
        assert_eq!(sums.add(&one)[0].drain, 4);
        let two = [(3, Gaps::default()), (5, follower.gaps)];
        assert_eq!(sums.add(&two).iter().map(|holds| holds.drain).collect::<Vec<_>>(), [4, 4]);
        assert_eq!(sums.add(&[]), []);
    }
}
