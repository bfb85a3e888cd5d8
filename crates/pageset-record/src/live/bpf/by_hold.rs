//! The part of the programs that tells holds of zone locks apart, by the times between blocks: see [`holds`](crate::live::holds).
//!
//! | words of the element from [`FIRST`] on | contents |
//! | --- | --- |
//! | 0 | the kind of the CPU's last block: 1 + order of a refill, [`DRAIN`]; 0 for none and past the pagesets |
//! | 1 | its time |
//! | 2, 3 | refills and drains that follow other blocks |
//! | 4 | blocks past the pagesets |
//! | 5 | single pages until the next one that is timed |
//! | 6 | the pages that larger lists would hold |
//! | 7, 8 | pages of refills and of drains that would pass nevertheless |
//! | 9 to 264 | the gaps in classes of duration: of refills of single pages and of other blocks, and of drains |

use super::code::{Code, Helper, R0, R1, R2, R3, R6, R7, R8, R9, When, offset};
use super::sys::Words;
use crate::live::holds::{Gaps, KINDS, TIMED_ONE_IN};
use crate::live::times::BUCKETS;

/// The first of these words.
pub(super) const FIRST: usize = super::by_process::LOST - (9 + KINDS * BUCKETS);
const KIND: usize = FIRST;
const AT: usize = KIND + 1;
const BEGUN: usize = AT + 1;
const DIRECT: usize = BEGUN + 2;
const UNTIMED: usize = DIRECT + 1;
const HELD: usize = UNTIMED + 1;
const PASSED: usize = HELD + 1;
const GAPS: usize = PASSED + 2;

/// The kind of a drained block: not 1 + any order.
const DRAIN: i32 = 32;

/// Where a block goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Refill,
    Drain,
}

/// What a CPU's element has counted.
pub(super) fn gaps(words: &Words) -> Gaps {
    let of = |kind: usize| std::array::from_fn(|class| words[GAPS + kind * BUCKETS + class]);
    Gaps { begun: [words[BEGUN], words[BEGUN + 1]], direct: words[DIRECT], gaps: std::array::from_fn(of) }
}

/// The pages of refills and of drains that would pass under zone locks with larger lists too.
pub(super) fn passed(words: &Words) -> [u64; 2] {
    [words[PASSED], words[PASSED + 1]]
}

impl Code {
    /// Moves a block of the order in R6 to or from lists that hold `extra` pages more, as
    /// [`LargerLists`](crate::live::holds::LargerLists) does. R8 is this CPU's element. Clobbers R0 to R2.
    pub(super) fn move_to_larger(&mut self, way: Way, extra: i32) -> &mut Self {
        let [passes, done] = [(); 2].map(|()| self.label());
        self.set(R1, 1).shift_left_by(R1, R6).load(R2, R8, offset(HELD));
        match way {
            Way::Refill => self.jump_if(R2, When::Less, R1, passes).subtract(R2, R1),
            Way::Drain => self.add(R2, R1).jump_if(R2, When::Greater, extra, passes),
        };
        self.store(R8, offset(HELD), R2).jump(done).here(passes).load(R2, R8, offset(PASSED + way as usize));
        self.add(R2, R1).store(R8, offset(PASSED + way as usize), R2).here(done)
    }

    /// Counts a block past the pagesets. R8 is this CPU's element. Clobbers R0 and R1.
    pub(super) fn count_direct(&mut self) -> &mut Self {
        self.set(R1, 0).store(R8, offset(KIND), R1).copy(R0, R8).count(DIRECT)
    }

    /// Counts the gap before a block of the order in R6. R8 is this CPU's element. Clobbers R0 to R5, R7 and R9.
    pub(super) fn count_hold(&mut self, way: Way) -> &mut Self {
        let [timed, follows, single, done] = [(); 4].map(|()| self.label());
        match way {
            Way::Refill => self.copy(R9, R6).add_number(R9, 1),
            Way::Drain => self.set(R9, DRAIN),
        };
        self.load(R7, R8, offset(KIND)).jump_if(R7, When::NotEqual, R9, timed).jump_if(R6, When::NotEqual, 0, timed);
        self.load(R1, R8, offset(UNTIMED)).jump_if(R1, When::Equal, 0, timed);
        self.add_number(R1, -1).store(R8, offset(UNTIMED), R1).jump(done).here(timed);
        self.set(R1, TIMED_ONE_IN as i32 - 1).store(R8, offset(UNTIMED), R1).store(R8, offset(KIND), R9);
        self.call(Helper::KtimeGetNs).load(R1, R8, offset(AT)).store(R8, offset(AT), R0);
        self.jump_if(R7, When::Equal, R9, follows).copy(R0, R8).count(BEGUN + way as usize).jump(done);
        // A clock that steps back shows no gap.
        self.here(follows).jump_if(R0, When::Less, R1, done).copy(R9, R0).subtract(R9, R1).bucket(R3, R9, R2);
        // R0 = the element plus the offset of the class.
        self.shift_left(R3, 3).copy(R0, R8).add(R0, R3).jump_if(R6, When::Equal, 0, single);
        self.add_number(R0, (BUCKETS * 8) as i32).here(single).count(GAPS + 2 * way as usize * BUCKETS).here(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_holds_have_their_places() {
        assert_eq!((FIRST, GAPS + KINDS * BUCKETS), (320, super::super::by_process::LOST));
        let words: Words = std::array::from_fn(|word| word as u64);
        let gaps = gaps(&words);
        assert_eq!((gaps.begun, gaps.direct), ([322, 323], 324));
        assert_eq!((gaps.gaps[0][0], gaps.gaps[0][63], gaps.gaps[1][0], gaps.gaps[3][63]), (329, 392, 393, 584));
        assert_eq!(passed(&words), [327, 328]);
        assert!(DRAIN as usize > super::super::programs::ORDERS, "no order of a refill looks like a drain");
    }
}
