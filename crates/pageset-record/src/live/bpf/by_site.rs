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
//! | 4 to 8 | the sample, in the words of a call site |
//! | 9 to 32 | the call chain of the sampled block: the key of its call site |
//! | 33 to 56 | the call chain of the wait |
//! | 57 to 61 | what belongs to no call site because the table is full, in the words of a call site |
//!
//! | words of a call site | contents |
//! | --- | --- |
//! | 0 to 2 | what its samples stand for: see [`Of`] |
//! | 3, 4 | the number of page samples and of waits |

use super::code::{Code, Helper, R, R0, R1, R2, R3, R4, R7, R8, R9, When, offset};
use super::sys;
use super::table::{Added, Of};
use crate::live::sites::{PAGES_APART, Samples};

/// The number of entries of a call chain that are kept. A page fault has 12 from the tracepoint to `handle_mm_fault`, and
/// a message through slabs has 16 to the socket. Each needs 8 bytes in each element of the table.
pub(super) const CHAIN_ENTRIES: usize = 24;
/// The number of words of a call site. Each kind of sample has its own words, because an addition may go to another call
/// site: see [`sys::Table::take`].
pub(super) const OF_SITE: usize = 5;
const PAGE_SAMPLES: usize = 3;
const WAITS: usize = 4;

/// The first of these words: they are an element's last.
pub(super) const SITES: usize = sys::WORDS - (2 + 2 + OF_SITE + 2 * CHAIN_ENTRIES + OF_SITE);
const SINCE: usize = SITES;
const NEXT: usize = SINCE + 2;
const VALUES: usize = NEXT + 2;
const BLOCK: usize = VALUES + OF_SITE;
/// The call chain of a wait.
pub(super) const WAIT: usize = BLOCK + CHAIN_ENTRIES;
const LOST: usize = WAIT + CHAIN_ENTRIES;

/// The place on the stack where a program keeps its context.
const CONTEXT: i16 = -16;
const END: R = R(10);

/// The samples in the words of a call site.
pub(super) fn samples(words: [u64; OF_SITE]) -> Samples {
    Samples {
        refill_pages: words[Of::RefillPages as usize],
        drain_pages: words[Of::DrainPages as usize],
        wait_ns: words[Of::WaitNs as usize],
        page_samples: words[PAGE_SAMPLES],
        waits: words[WAITS],
    }
}

/// What belongs to no call site, by [`Of`], in a CPU's element.
pub(super) fn lost(words: &sys::Words) -> [u64; 3] {
    [Of::RefillPages, Of::DrainPages, Of::WaitNs].map(|of| words[LOST + of as usize])
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
        self.copy(R9, R2).sample(of, R1);
        self.call(Helper::GetPrandomU32).mask(R0, 2 * PAGES_APART as i32 - 1).add_number(R0, 1).store(R8, next, R0);
        // A CPU's first page only determines the distance to its first sample.
        self.jump_if(R9, When::Equal, 0, done).set(R1, 0).store(R8, since, R1);
        self.load(R1, END, CONTEXT).chain(BLOCK).add_to_site(table, BLOCK).here(done)
    }

    /// Adds R7 nanoseconds to the site of this CPU's wait. R8 is this CPU's element. Clobbers R0 to R5.
    pub(super) fn add_wait_to_site(&mut self, table: i32) -> &mut Self {
        self.sample(Of::WaitNs, R7).add_to_site(table, WAIT)
    }

    /// Reads the call chain of the context in R1 to words of R8, this CPU's element. The words after its end are zero.
    /// Sets R0 to the chain's number of bytes, or to an error.
    pub(super) fn chain(&mut self, word: usize) -> &mut Self {
        self.set(R2, 0);
        for frame in 0..CHAIN_ENTRIES {
            self.store(R8, offset(word + frame), R2);
        }
        self.copy(R2, R8).add_number(R2, offset(word).into());
        self.set(R3, i32::from(offset(CHAIN_ENTRIES))).set(R4, 0).call(Helper::GetStack)
    }

    /// Sets the words of the sample to one of `amount`. Clobbers R2.
    fn sample(&mut self, of: Of, amount: R) -> &mut Self {
        let times = if of == Of::WaitNs { WAITS } else { PAGE_SAMPLES };
        self.set(R2, 0);
        for word in 0..OF_SITE {
            self.store(R8, offset(VALUES + word), if word == of as usize { amount } else { R2 });
        }
        self.set(R2, 1).store(R8, offset(VALUES + times), R2)
    }

    /// Adds the sample to the call site of the call chain from word `key` on. Clobbers R0 to R5.
    fn add_to_site(&mut self, table: i32, key: usize) -> &mut Self {
        self.add_to_table(table, Added { key, values: VALUES, count: OF_SITE, lost: LOST })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_call_sites_have_their_places() {
        assert_eq!([SINCE, NEXT, VALUES, BLOCK, WAIT, LOST].map(|word| word - SITES), [0, 2, 4, 9, 33, 57]);
        assert_eq!(LOST + OF_SITE, sys::WORDS);
        let words: sys::Words = std::array::from_fn(|word| (word - word.min(SITES)) as u64);
        assert_eq!(lost(&words), [57, 58, 59]);
        assert!(PAGES_APART.count_ones() == 1);
    }

    /// Pages and nanoseconds are never added to each other, nor samples and waits.
    #[test]
    fn each_kind_of_sample_has_its_own_words() {
        let expected = Samples { refill_pages: 10, drain_pages: 20, wait_ns: 30, page_samples: 40, waits: 50 };
        assert_eq!(samples([10, 20, 30, 40, 50]), expected);
        let code = |add: &dyn Fn(&mut Code)| {
            let mut code = Code::default();
            add(&mut code);
            code.done()
        };
        let kinds = [Of::RefillPages, Of::DrainPages, Of::WaitNs];
        let store = |of: Of| code(&|code| _ = code.store(R8, offset(VALUES + of as usize), R7))[0];
        let stores = kinds.map(store);
        for (kind, of) in kinds.into_iter().enumerate() {
            let sample = code(&|code| _ = code.sample(of, R7));
            let stored: Vec<bool> = stores.iter().map(|store| sample.contains(store)).collect();
            assert_eq!(stored, [kind == 0, kind == 1, kind == 2], "{of:?}");
            // The number of samples is the last thing that is set: word 3 for pages, word 4 for waits.
            let number = code(&|code| _ = code.store(R8, offset(VALUES + [3, 3, 4][kind]), R2));
            assert_eq!(sample.last(), number.last(), "{of:?}");
        }
    }
}
