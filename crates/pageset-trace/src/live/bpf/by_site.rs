//! The part of the programs that adds to call sites.
//!
//! A call chain takes microseconds, and page events occur with the zone lock held. So a CPU reads the chain of one block in
//! about [`PAGES_APART`] pages, separately for refills and drains. The sample stands for all pages since the CPU's last
//! sample. The distance is random, so that a load that repeats itself is not always seen at the same place. A wait needs
//! its call chain for its purpose, so each wait is a sample.
//!
//! | words of the element from [`SITES`] on | contents |
//! | --- | --- |
//! | 0, 1 | pages since the last sample: see [`Of`] |
//! | 2, 3 | pages after which the next sample is taken; 0 before the first page |
//! | 4, 5 | what the sample stands for, and the number one |
//! | 6 to 30 | the key of the sampled block: the [`Of`] plus one, and the call chain |
//! | 31 to 55 | the key of the wait |
//! | 56 to 61 | for each [`Of`], what belongs to no call site because the table is full, and the number of samples |

use super::code::{Code, Helper, R, R0, R1, R2, R3, R4, R7, R8, R9, When, offset};
use super::sys;
use super::table::{Added, Of};
use crate::live::sites::PAGES_APART;

/// The number of entries of a call chain that are kept. A page fault has 12 from the tracepoint to `handle_mm_fault`, and
/// a message through slabs has 16 to the socket. Each needs 8 bytes in each element of the table.
pub(super) const FRAMES: usize = 24;
/// The number of words of a call site's key.
pub(super) const SITE_KEY: usize = 1 + FRAMES;
/// The number of words of a call site: what its samples stand for, and their number.
pub(super) const OF_SITE: usize = 2;

/// What a sample stands for, in the order of the words.
const OF: [Of; 3] = [Of::RefillPages, Of::DrainPages, Of::WaitNs];

/// The first of these words: they are an element's last.
pub(super) const SITES: usize = sys::WORDS - (2 + 2 + OF_SITE + 2 * SITE_KEY + OF.len() * OF_SITE);
const SINCE: usize = SITES;
const NEXT: usize = SINCE + 2;
const VALUES: usize = NEXT + 2;
const BLOCK: usize = VALUES + OF_SITE;
const WAIT: usize = BLOCK + SITE_KEY;
const LOST: usize = WAIT + SITE_KEY;
/// The call chain of a wait.
pub(super) const WAIT_CHAIN: usize = WAIT + 1;

/// The place on the stack where a program keeps its context.
const CONTEXT: i16 = -16;
const END: R = R(10);

/// What a key's samples stand for.
pub(super) fn of(key: &[u64; SITE_KEY]) -> Option<Of> {
    OF.into_iter().find(|of| *of as u64 + 1 == key[0])
}

/// What belongs to no call site, by [`Of`], in a CPU's element.
pub(super) fn lost(words: &sys::Words) -> [u64; 3] {
    OF.map(|of| words[LOST + OF_SITE * of as usize])
}

impl Code {
    /// Keeps the context, which is in R1 at the start of a program.
    pub(super) fn keep_context(&mut self) -> &mut Self {
        self.store(END, CONTEXT, R1)
    }

    /// Adds R7 pages to those since the last sample, and takes a sample if there are enough. R8 is this CPU's element.
    /// Needs [`Self::keep_context`]. Clobbers R0 to R5 and R9.
    pub(super) fn sample_pages(&mut self, table: i32, of: Of) -> &mut Self {
        let done = self.label();
        let (since, next) = (offset(SINCE + of as usize), offset(NEXT + of as usize));
        self.load(R1, R8, since).add(R1, R7).store(R8, since, R1);
        self.load(R2, R8, next).jump_if(R1, When::Less, R2, done);
        self.copy(R9, R2).store(R8, offset(VALUES), R1);
        self.call(Helper::GetPrandomU32).mask(R0, 2 * PAGES_APART as i32 - 1).add_number(R0, 1).store(R8, next, R0);
        // A CPU's first page only determines the distance to its first sample.
        self.jump_if(R9, When::Equal, 0, done).set(R1, 0).store(R8, since, R1);
        self.load(R1, END, CONTEXT).chain(BLOCK + 1).add_to_site(table, of, BLOCK).here(done)
    }

    /// Adds R7 nanoseconds to the site of this CPU's wait. R8 is this CPU's element. Clobbers R0 to R5.
    pub(super) fn add_wait_to_site(&mut self, table: i32) -> &mut Self {
        self.store(R8, offset(VALUES), R7).add_to_site(table, Of::WaitNs, WAIT)
    }

    /// Reads the call chain of the context in R1 to words of R8, this CPU's element. The words after its end are zero.
    /// Sets R0 to the chain's number of bytes, or to an error.
    pub(super) fn chain(&mut self, word: usize) -> &mut Self {
        self.set(R2, 0);
        for frame in 0..FRAMES {
            self.store(R8, offset(word + frame), R2);
        }
        self.copy(R2, R8).add_number(R2, offset(word).into());
        self.set(R3, i32::from(offset(FRAMES))).set(R4, 0).call(Helper::GetStack)
    }

    fn add_to_site(&mut self, table: i32, of: Of, key: usize) -> &mut Self {
        self.set(R1, of as i32 + 1).store(R8, offset(key), R1).set(R1, 1).store(R8, offset(VALUES + 1), R1);
        let lost = LOST + OF_SITE * of as usize;
        self.add_to_table(table, Added { key, values: VALUES, count: OF_SITE, lost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_call_sites_have_their_places() {
        assert_eq!(OF.map(|of| of as usize), [0, 1, 2]);
        assert_eq!([SINCE, NEXT, VALUES, BLOCK, WAIT, LOST].map(|word| word - SITES), [0, 2, 4, 6, 31, 56]);
        assert_eq!(LOST + 3 * OF_SITE, sys::WORDS);
        let words: sys::Words = std::array::from_fn(|word| (word - word.min(SITES)) as u64);
        assert_eq!(lost(&words), [56, 58, 60]);
        let key = |first| std::array::from_fn(|word| if word == 0 { first } else { 7 });
        assert_eq!(
            [0, 1, 2, 3, 4].map(|first| of(&key(first))),
            [None, Some(Of::RefillPages), Some(Of::DrainPages), Some(Of::WaitNs), None]
        );
        assert!(PAGES_APART.count_ones() == 1);
    }
}
