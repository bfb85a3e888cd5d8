//! Free parts of pageblocks as bits, which CPUs set and take without a lock: [`Holds::Short`](crate::policy::Holds::Short).
//!
//! A pageblock has a word for each 32 pages, all in one cache line with pages of 4 KiB. A set bit is a page that is free, belongs to
//! no block and no list, and has the tag `Inside`. Whoever clears the bit owns the page. A pageblock whose bits are all set goes to the
//! buddy as one block. So a block that is freed in any order costs one atomic instruction, and merges without one link.
//!
//! A second array has a bit for each pageblock that may have free parts, so that refills find them. Bits of pages are set first, then
//! that of the pageblock. A refill that finds no page clears the pageblock's bit first, then looks again. A fence between the two steps
//! on each side ensures that one of the two sees the other.
//!
//! Whoever sets bits looks afterwards whether the pageblock is whole: a drain, and a refill that puts back what it took.

use core::fmt;
use core::iter;
use core::sync::atomic::AtomicU32;

use crate::frame::Order;
use crate::policy::SMALL;
use crate::sync::LockedWord;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::fence;

/// Pages of a word.
const BITS: u32 = u32::BITS;
/// Pages of a pageblock.
const PAGES: u32 = Order::PAGEBLOCK.pages() as u32;
/// Words of a pageblock.
const WORDS: usize = PAGES.div_ceil(BITS) as usize;
/// Words of a cache line.
const LINE: usize = 16;

/// A word of bits. The metadata have atomics of the hardware, a model checker has its own.
pub(crate) trait Word: fmt::Debug {
    fn read(&self) -> u32;
    fn set_bits(&self, bits: u32) -> u32;
    /// Sets the bits of a word. The caller owns all its pages, so none of its bits is set, and nobody else changes the word.
    fn fill(&self, bits: u32);
    fn clear_bits(&self, bits: u32) -> u32;
    /// Takes all bits.
    fn take(&self) -> u32;
    /// Clears `bits` if the word is still `from`. Else returns what it is.
    fn take_from(&self, from: u32, bits: u32) -> Result<(), u32>;
}

macro_rules! word {
    ($type:ty) => {
        impl Word for $type {
            #[inline(always)]
            fn read(&self) -> u32 {
                // Relaxed: the operation that takes bits acquires.
                self.load(Relaxed)
            }
            #[inline(always)]
            fn set_bits(&self, bits: u32) -> u32 {
                // Release: pairs with the acquire of the operation that takes the bits; its caller then writes the tags of these pages.
                self.fetch_or(bits, AcqRel)
            }
            #[inline(always)]
            fn fill(&self, bits: u32) {
                // Release: as in set_bits.
                self.store(bits, Release);
            }
            #[inline(always)]
            fn clear_bits(&self, bits: u32) -> u32 {
                self.fetch_and(!bits, AcqRel)
            }
            #[inline(always)]
            fn take(&self) -> u32 {
                // Acquire: pairs with the release in set_bits.
                self.swap(0, Acquire)
            }
            #[inline(always)]
            fn take_from(&self, from: u32, bits: u32) -> Result<(), u32> {
                // Acquire: pairs with the release in set_bits.
                self.compare_exchange(from, from & !bits, Acquire, Relaxed).map(drop)
            }
        }
    };
}
word!(AtomicU32);
#[cfg(all(loom, test))]
word!(loom::sync::atomic::AtomicU32);

/// What [`Bitmaps::take`] took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TakenBits {
    pub(crate) blocks: u32,
    /// Some pages were put back, and the pageblock may be whole: then the caller calls [`Bitmaps::take_whole`].
    pub(crate) whole: bool,
}

/// Blocks whose bits are in one word, or one block of at least a word: [`Bitmaps::first_run`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BitRun {
    /// The first page of the first block.
    page: u32,
    order: Order,
    /// The number of blocks.
    pub(crate) blocks: usize,
    /// The bits of blocks that are smaller than a word.
    bits: u32,
}

/// The bits of a zone's pages, in pageblocks of `N` words; none without the rule.
#[derive(Debug)]
pub(crate) struct Bitmaps<'a, W = AtomicU32, const N: usize = WORDS> {
    /// `N` words for each pageblock.
    pages: &'a [W],
    /// A bit for each pageblock that may have a page.
    pageblocks: &'a [W],
}

impl<W, const N: usize> Copy for Bitmaps<'_, W, N> {}

impl<W, const N: usize> Clone for Bitmaps<'_, W, N> {
    fn clone(&self) -> Self {
        *self
    }
}

/// The words for a zone of some pageblocks, with the words that [`Bitmaps::new`] may skip.
pub(crate) const fn words(pageblocks: usize) -> usize {
    pageblocks * WORDS + pageblocks.div_ceil(BITS as usize) + LINE - 1
}

impl<'a> Bitmaps<'a> {
    /// The bitmaps of a zone of some pageblocks in [`words`] words, which are zero. Those of a pageblock begin with a cache line.
    pub(crate) fn new(words: &'a [AtomicU32], pageblocks: usize) -> Self {
        let skipped = words.as_ptr().align_offset(LINE * size_of::<u32>()).min(LINE - 1);
        let needed = skipped + pageblocks * WORDS + pageblocks.div_ceil(BITS as usize);
        debug_assert!(needed <= words.len(), "bitmaps of {needed} words in {}", words.len());
        let Some(words) = words.get(skipped..) else { return Self::NONE };
        let (pages, pageblocks) = words.split_at((pageblocks * WORDS).min(words.len()));
        Bitmaps { pages, pageblocks }
    }
}

impl<'a, W, const N: usize> Bitmaps<'a, W, N> {
    /// No bitmaps.
    pub(crate) const NONE: Self = Bitmaps { pages: &[], pageblocks: &[] };

    /// Bitmaps in words of any kind: `N` for each pageblock, and those for notes.
    #[cfg(test)]
    pub(crate) fn of_words(pages: &'a [W], pageblocks: &'a [W]) -> Self {
        Bitmaps { pages, pageblocks }
    }

    /// Whether free parts of pageblocks may be here.
    #[inline(always)]
    pub(crate) fn are_kept(&self) -> bool {
        !self.pages.is_empty()
    }
}

impl<W: Word, const N: usize> Bitmaps<'_, W, N> {
    /// Pages of a pageblock.
    const PAGES: u32 = if N == WORDS { PAGES } else { N as u32 * BITS };
    /// A word whose pages are all free.
    const FULL: u32 = if Self::PAGES < BITS { ones(Self::PAGES) } else { u32::MAX };

    #[inline(always)]
    fn word(&self, page: u32) -> &W {
        &self.pages[(page / Self::PAGES) as usize * N + (page % Self::PAGES / BITS) as usize]
    }

    /// The bit of a page in its word.
    #[inline(always)]
    const fn bit(page: u32) -> u32 {
        page % Self::PAGES % BITS
    }

    /// The pages of a word.
    const SPAN: u32 = if Self::PAGES < BITS { Self::PAGES } else { BITS };

    #[inline(always)]
    fn of(&self, pageblock: u32) -> &[W] {
        &self.pages[pageblock as usize * N..][..N]
    }

    /// Whether a page is free here, at a recent moment.
    pub(crate) fn has(&self, page: u32) -> bool {
        self.are_kept() && self.word(page).read() & 1 << Self::bit(page) != 0
    }

    /// The first of some blocks of an order, and those after it that are in the same word. `None` without blocks.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "so that callers need not name the type")]
    pub(crate) fn first_run(&self, blocks: &[AtomicU32], order: Order) -> Option<BitRun> {
        let page = blocks.first()?.get();
        let mut run = BitRun { page, order, blocks: 1, bits: 0 };
        let pages = order.pages() as u32;
        if pages < BITS {
            run.bits = ones(pages) << Self::bit(page);
            let next =
                blocks[1..].iter().map(LockedWord::get).take_while(|next| next / Self::SPAN == page / Self::SPAN);
            for page in next {
                run.bits |= ones(pages) << Self::bit(page);
                run.blocks += 1;
            }
        }
        Some(run)
    }

    /// Frees the blocks of a run. The caller owns their pages, whose tags are `Inside`. Then it calls [`Self::fence`] once for all runs that it
    /// frees, and then [`Self::note`] for each. Returns whether the pageblock may be whole: then the caller calls [`Self::take_whole`] as well.
    #[inline(always)]
    pub(crate) fn free_run(&self, run: BitRun) -> bool {
        if run.bits == 0 {
            return self.free(run.page, run.order);
        }
        self.word(run.page).set_bits(run.bits) | run.bits == Self::FULL
    }

    /// As [`Self::free_run`], one block.
    pub(crate) fn free(&self, page: u32, order: Order) -> bool {
        let pages = order.pages() as u32;
        if pages < Self::SPAN {
            let bits = ones(pages) << Self::bit(page);
            return self.word(page).set_bits(bits) | bits == Self::FULL;
        }
        self.words_of(page, order).iter().for_each(|word| word.fill(Self::FULL));
        true
    }

    /// The words of the pageblock around a block of at least a word: those before it, its own, and those after it.
    #[inline(always)]
    fn words_around(&self, page: u32, order: Order) -> [&[W]; 3] {
        let (before, rest) = self.of(page / Self::PAGES).split_at((page % Self::PAGES / BITS) as usize);
        let (own, after) = rest.split_at(order.pages().div_ceil(u64::from(BITS)) as usize);
        [before, own, after]
    }

    /// The words of a block of at least a word.
    #[inline(always)]
    fn words_of(&self, page: u32, order: Order) -> &[W] {
        self.words_around(page, order)[1]
    }

    /// Whether the block is all that its pageblock lacks, at a recent moment. `false` for blocks smaller than a word or a quarter of a
    /// pageblock: they seldom are, and looking would cost more than it saves.
    #[inline(always)]
    pub(crate) fn is_rest(&self, page: u32, order: Order) -> bool {
        let pages = order.pages() as u32;
        // The small build does without: it would be 1 % larger.
        if !cfg!(feature = "rules") || pages < Self::SPAN || 4 * pages < Self::PAGES {
            return false;
        }
        let [before, _, after] = self.words_around(page, order);
        [before, after].into_iter().flatten().all(|word| word.read() == Self::FULL)
    }

    /// Takes all other pages of the pageblock around a block of at least a word, which the caller owns, if all are free. If not, the
    /// caller frees its block, and then looks whether the pageblock is whole.
    pub(crate) fn take_around(&self, page: u32, order: Order) -> bool {
        let [before, _, after] = self.words_around(page, order);
        let took = self.take_words([before, after], page);
        if took.is_ok() {
            self.forget(page / Self::PAGES);
        }
        took.is_ok()
    }

    /// Puts back a block that the caller owns, and whose tags are `Inside`. Returns whether the pageblock may be whole, as [`Self::free_run`] does.
    pub(crate) fn put_back(&self, page: u32, order: Order) -> bool {
        let whole = self.free(page, order);
        self.fence();
        self.note(page);
        whole
    }

    /// Orders [`Self::free`] before [`Self::note`] and [`Self::take_whole`].
    #[inline(always)]
    pub(crate) fn fence(&self) {
        // Pairs with the fence in forget.
        fence(SeqCst);
    }

    /// Notes that the pageblock around a page has free parts.
    #[inline(always)]
    pub(crate) fn note(&self, page: u32) {
        let pageblock = page / Self::PAGES;
        let (word, bit) = (&self.pageblocks[(pageblock / BITS) as usize], 1 << (pageblock % BITS));
        // Read first: the line stays shared.
        if word.read() & bit == 0 {
            word.set_bits(bit);
        }
    }

    /// Clears the note of a pageblock.
    pub(crate) fn clear_note(&self, pageblock: u32) {
        self.pageblocks[(pageblock / BITS) as usize].clear_bits(1 << (pageblock % BITS));
    }

    /// Clears the note of a pageblock that has no page, unless it has one again.
    #[cold]
    fn forget(&self, pageblock: u32) {
        self.clear_note(pageblock);
        // Pairs with the fence in Self::fence: either this call sees the pages, or their note comes after it.
        fence(SeqCst);
        if self.of(pageblock).iter().any(|word| word.read() != 0) {
            self.note(pageblock * Self::PAGES);
        }
    }

    /// The first pageblock from `from` on and before `end` that may have free parts.
    #[inline]
    pub(crate) fn next(&self, from: u32, end: u32) -> Option<u32> {
        let mut at = from;
        while at < end {
            let noted = self.pageblocks[(at / BITS) as usize].read() >> (at % BITS);
            if noted != 0 {
                return Some(at + noted.trailing_zeros()).filter(|&found| found < end);
            }
            at = (at / BITS + 1) * BITS;
        }
        None
    }

    /// Whether all pages of a pageblock are free, at a recent moment.
    pub(crate) fn is_whole(&self, pageblock: u32) -> bool {
        self.of(pageblock).iter().all(|word| word.read() == Self::FULL)
    }

    /// Takes all pages of a pageblock if all are free: then this is the only caller that gets them.
    pub(crate) fn take_whole(&self, pageblock: u32) -> bool {
        // Again after pages were put back: a CPU that freed other pages meanwhile found the pageblock incomplete.
        while self.is_whole(pageblock) {
            if self.take_words([self.of(pageblock), &[]], pageblock * Self::PAGES).is_ok() {
                self.forget(pageblock);
                return true;
            }
        }
        false
    }

    /// Takes up to `most` blocks of a pageblock and gives each to `give`, in ascending order.
    #[inline]
    pub(crate) fn take(&self, pageblock: u32, order: Order, most: u32, mut give: impl FnMut(u32)) -> TakenBits {
        if SMALL {
            // One copy for all.
            let give: &mut dyn FnMut(u32) = &mut give;
            return self.take_each(pageblock, order, most, give);
        }
        self.take_each(pageblock, order, most, give)
    }

    #[cfg_attr(not(feature = "rules"), inline(never))]
    fn take_each(&self, pageblock: u32, order: Order, most: u32, mut give: impl FnMut(u32)) -> TakenBits {
        let (start, pages) = (pageblock * Self::PAGES, order.pages() as u32);
        let (mut came, mut is_empty) = (0, true);
        if pages > BITS {
            let mut taken = TakenBits::default();
            for page in (start..start + Self::PAGES).step_by(pages as usize) {
                let words = self.words_of(page, order);
                if taken.blocks == most || words.iter().any(|word| word.read() != Self::FULL) {
                    continue;
                }
                match self.take_words([words, &[]], page) {
                    Ok(()) => {
                        taken.blocks += 1;
                        give(page);
                    }
                    Err(some) => taken.whole |= some,
                }
            }
            if self.of(pageblock).iter().all(|word| word.read() == 0) {
                self.forget(pageblock);
            }
            return taken;
        }
        for (word, first) in self.of(pageblock).iter().zip((start..).step_by(BITS as usize)) {
            let mut now = word.read();
            while now != 0 {
                let heads = lowest(heads(now, order), most - came);
                // The blocks do not overlap, so no sum carries.
                let bits = (u64::from(heads) * u64::from(ones(pages))) as u32;
                if heads == 0 {
                    break;
                }
                match word.take_from(now, bits) {
                    Ok(()) => {
                        each(heads, |bit| give(first + bit));
                        came += count(heads);
                        now &= !bits;
                        break;
                    }
                    Err(changed) => now = changed,
                }
            }
            is_empty &= now == 0;
            if came == most {
                return TakenBits { blocks: came, whole: false };
            }
        }
        if is_empty {
            self.forget(pageblock);
        }
        TakenBits { blocks: came, whole: false }
    }

    /// Takes the pages of some words of a pageblock, of which `page` is one, if all are free. If not, puts back what it took. Then a CPU
    /// that freed the others meanwhile found the pageblock incomplete; the error is whether that may be.
    // Not inlined: the three callers are rare, and the small build has room for one.
    #[inline(never)]
    fn take_words(&self, words: [&[W]; 2], page: u32) -> Result<(), bool> {
        let words = || words.into_iter().flatten();
        let taken = words().take_while(|word| word.take_from(Self::FULL, Self::FULL).is_ok()).count();
        if taken == words().count() {
            return Ok(());
        }
        words().take(taken).for_each(|word| word.fill(Self::FULL));
        self.fence();
        self.note(page);
        Err(taken > 0)
    }

    /// Whether a pageblock has a block of an order, at a recent moment.
    pub(crate) fn has_block(&self, pageblock: u32, order: Order) -> bool {
        let words = self.of(pageblock);
        match order.pages() as u32 / BITS {
            0 | 1 => words.iter().any(|word| heads(word.read(), order) != 0),
            many => words.chunks_exact(many as usize).any(|block| block.iter().all(|word| word.read() == Self::FULL)),
        }
    }

    /// The pages of a pageblock that are here, at a recent moment.
    pub(crate) fn pages_of(&self, pageblock: u32) -> u32 {
        self.of(pageblock).iter().map(|word| word.read().count_ones()).sum()
    }

    /// Takes all pages of a pageblock, and gives each run of them to `give` as its first page and the page after its last.
    pub(crate) fn take_all(&self, pageblock: u32, mut give: impl FnMut(u32, u32)) {
        let mut had_pages = false;
        let take = |word: &W| if word.read() == 0 { 0 } else { word.take() };
        self.each_run(pageblock, take, |from, end| {
            had_pages = true;
            give(from, end);
        });
        if had_pages || self.is_noted(pageblock) {
            self.forget(pageblock);
        }
    }

    /// Visits the runs of free pages of a pageblock, as [`Self::take_all`] does. Meaningful while nobody changes them.
    pub(crate) fn runs(&self, pageblock: u32, visit: impl FnMut(u32, u32)) {
        self.each_run(pageblock, Word::read, visit);
    }

    fn each_run(&self, pageblock: u32, bits: impl Fn(&W) -> u32, mut visit: impl FnMut(u32, u32)) {
        let start = pageblock * Self::PAGES;
        let (mut from, mut end) = (start, start);
        for (word, first) in self.of(pageblock).iter().zip((start..).step_by(BITS as usize)) {
            let mut left = bits(word);
            while left != 0 {
                let (bit, pages) = (left.trailing_zeros(), (left >> left.trailing_zeros()).trailing_ones());
                if first + bit != end {
                    if from < end {
                        visit(from, end);
                    }
                    from = first + bit;
                }
                end = first + bit + pages;
                left &= !(ones(pages) << bit);
            }
        }
        if from < end {
            visit(from, end);
        }
    }

    /// The pageblocks from `from` on and before `end` that may have free parts.
    pub(crate) fn noted(&self, from: u32, end: u32) -> impl Iterator<Item = u32> {
        let mut at = from;
        iter::from_fn(move || {
            let pageblock = self.next(at, end)?;
            at = pageblock + 1;
            Some(pageblock)
        })
    }

    /// Visits the pageblocks that may have free parts.
    pub(crate) fn each_noted(&self, visit: impl FnMut(u32)) {
        self.noted(0, (self.pages.len() / N) as u32).for_each(visit);
    }

    /// Whether refills find the pageblock, at a recent moment.
    pub(crate) fn is_noted(&self, pageblock: u32) -> bool {
        self.are_kept() && self.pageblocks[(pageblock / BITS) as usize].read() & 1 << (pageblock % BITS) != 0
    }
}

/// A word whose lowest `count` bits are set, of 1 to 32.
#[inline(always)]
const fn ones(count: u32) -> u32 {
    u32::MAX >> (BITS - count)
}

/// The first pages of the free blocks of an order, up to 5.
#[inline(always)]
fn heads(free: u32, order: Order) -> u32 {
    // Of each order the pages at which a block of it may begin.
    const STARTS: [u32; 6] = [u32::MAX, 0x5555_5555, 0x1111_1111, 0x0101_0101, 0x0001_0001, 1];
    let mut heads = free;
    for step in 0..order.get() {
        heads &= heads >> (1 << step);
    }
    heads & STARTS[order.index()]
}

/// The set bits of a word. The small build has one copy: its processors may have no instruction for it.
#[cfg_attr(not(feature = "rules"), inline(never))]
#[cfg_attr(feature = "rules", inline(always))]
fn count(word: u32) -> u32 {
    word.count_ones()
}

/// The lowest bits of a word, at most `most`.
#[inline(always)]
fn lowest(word: u32, most: u32) -> u32 {
    let mut left = word;
    let mut surplus = count(word).saturating_sub(most);
    while surplus > 0 {
        left &= !(1 << left.ilog2());
        surplus -= 1;
    }
    left
}

#[inline(always)]
fn each(mut bits: u32, mut visit: impl FnMut(u32)) {
    while bits != 0 {
        visit(bits.trailing_zeros());
        bits &= bits - 1;
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
