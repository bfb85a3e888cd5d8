//! Sets of the pages of one 2 MiB chunk.

use std::ops::{BitAnd, BitOr, Not, Range};

use crate::size::{CHUNK_BYTES, PAGE_BYTES};

/// The pages of a chunk.
pub(crate) const CHUNK_PAGES: usize = CHUNK_BYTES / PAGE_BYTES;
/// The 64-bit words of a set.
pub(crate) const MASK_WORDS: usize = CHUNK_PAGES / 64;

/// A set of the pages of one chunk. Page numbers count from the start of the chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ChunkMask([u64; MASK_WORDS]);

impl ChunkMask {
    pub(crate) const EMPTY: ChunkMask = ChunkMask([0; MASK_WORDS]);

    /// The set that [`Self::store`] wrote. `words` has [`MASK_WORDS`] elements.
    pub(crate) fn load(words: &[u64]) -> ChunkMask {
        let mut mask = ChunkMask::EMPTY;
        mask.0.copy_from_slice(words);
        mask
    }

    /// Writes the set to `words`, which has [`MASK_WORDS`] elements.
    pub(crate) fn store(self, words: &mut [u64]) {
        words.copy_from_slice(&self.0);
    }

    /// Adds the pages of a range, which ends at or before [`CHUNK_PAGES`].
    pub(crate) fn insert(&mut self, pages: Range<usize>) {
        let mut page = pages.start;
        while page < pages.end {
            let (word, bit) = (page / 64, page % 64);
            let count = (pages.end - page).min(64 - bit);
            self.0[word] |= u64::MAX >> (64 - count) << bit;
            page += count;
        }
    }

    pub(crate) fn len(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn is_empty(self) -> bool {
        self == ChunkMask::EMPTY
    }

    /// The first page of the set at or after `page`.
    pub(crate) fn next(self, page: usize) -> Option<usize> {
        let mut page = page;
        while page < CHUNK_PAGES {
            let rest = self.0[page / 64] >> (page % 64);
            if rest != 0 {
                return Some(page + rest.trailing_zeros() as usize);
            }
            page = (page / 64 + 1) * 64;
        }
        None
    }

    /// The runs of consecutive pages, in order.
    pub(crate) fn runs(self) -> impl Iterator<Item = Range<usize>> {
        let mut page = 0;
        std::iter::from_fn(move || {
            let start = self.next(page)?;
            page = (!self).next(start).unwrap_or(CHUNK_PAGES);
            Some(start..page)
        })
    }

    /// The smallest range that contains all pages of the set inside `pages`; `None` if there are none.
    pub(crate) fn extent(self, pages: Range<usize>) -> Option<Range<usize>> {
        let mut range = ChunkMask::EMPTY;
        range.insert(pages);
        let mut runs = (self & range).runs();
        let first = runs.next()?;
        let end = runs.last().map_or(first.end, |last| last.end);
        Some(first.start..end)
    }
}

impl BitAnd for ChunkMask {
    type Output = ChunkMask;

    fn bitand(self, other: ChunkMask) -> ChunkMask {
        ChunkMask(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }
}

impl BitOr for ChunkMask {
    type Output = ChunkMask;

    fn bitor(self, other: ChunkMask) -> ChunkMask {
        ChunkMask(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }
}

impl Not for ChunkMask {
    type Output = ChunkMask;

    fn not(self) -> ChunkMask {
        ChunkMask(self.0.map(|word| !word))
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "sets are written as lists of ranges")]
mod tests {
    use super::*;

    fn mask(ranges: &[Range<usize>]) -> ChunkMask {
        let mut mask = ChunkMask::EMPTY;
        ranges.iter().for_each(|range| mask.insert(range.clone()));
        mask
    }

    #[test]
    fn runs_are_the_ranges_that_were_inserted() {
        for (ranges, pages) in [
            (vec![], 0),
            (vec![0..1], 1),
            (vec![0..512], 512),
            (vec![511..512], 1),
            (vec![63..65, 128..192, 300..511], 277),
            (vec![0..64, 65..128], 127),
        ] {
            let mask = mask(&ranges);
            assert_eq!(mask.runs().collect::<Vec<_>>(), ranges);
            assert_eq!((mask.len(), mask.is_empty(), (!mask).len()), (pages, pages == 0, 512 - pages), "{ranges:?}");
        }
    }

    #[test]
    fn sets_combine_page_by_page() {
        let (a, b) = (mask(&[0..100]), mask(&[50..512]));
        assert_eq!(a & b, mask(&[50..100]));
        assert_eq!(a | b, mask(&[0..512]));
        assert_eq!(a & !b, mask(&[0..50]));
    }

    #[test]
    fn the_extent_is_the_range_around_all_pages() {
        let some = mask(&[3..4, 60..70, 500..512]);
        for (pages, expected) in
            [(0..512, Some(3..512)), (4..512, Some(60..512)), (0..65, Some(3..65)), (4..60, None), (0..0, None)]
        {
            assert_eq!(some.extent(pages.clone()), expected, "{pages:?}");
        }
    }

    #[test]
    fn a_stored_set_loads_again() {
        let (mut words, some) = ([0; MASK_WORDS], mask(&[1..2, 400..512]));
        some.store(&mut words);
        assert_eq!(ChunkMask::load(&words), some);
    }
}
