//! Looks at the parts of chunks: when scans look, and which pages every look has found free.
//!
//! A look walks the tags of a chunk, which takes 1 to 12 µs. So scans do not look at each chunk each time: a few looks
//! cover the time that pages must stay free.

use crate::chunk_mask::{ChunkMask, MASK_WORDS};

/// What scans know about the parts of chunks. Empty while parts do not go back.
#[derive(Debug, Default)]
pub(crate) struct PartsState {
    /// The next chunk to look at.
    cursor: usize,
    /// The rest of the division that spreads looks over scans.
    credit: usize,
    /// For each chunk, how many looks `stayed_free` sums up. With 0, the other values of the chunk have no meaning.
    looks: Vec<u8>,
    /// For each chunk, how many of the next looks to skip.
    skips: Vec<u8>,
    /// The pages of each chunk that these looks found free. [`MASK_WORDS`] words for each chunk.
    stayed_free: Vec<u64>,
    /// The pages of each chunk that went back, and that each look since then has found free.
    given_back: Vec<u64>,
    /// Whether the system must not make each chunk one huge page.
    keeps_split: Vec<bool>,
    /// How many chunks that are.
    kept_split: usize,
}

impl PartsState {
    pub(crate) fn new(chunks: usize) -> PartsState {
        // The system maps zeros when a scan first writes the state of a chunk.
        let words = || vec![0; chunks * MASK_WORDS];
        PartsState {
            looks: vec![0; chunks],
            skips: vec![0; chunks],
            stayed_free: words(),
            given_back: words(),
            keeps_split: vec![false; chunks],
            ..PartsState::default()
        }
    }

    /// How many looks are due in this scan, so that there is one look at each chunk in `look_interval` scans.
    pub(crate) fn looks_due(&mut self, look_interval: usize) -> usize {
        let credit = self.credit + self.looks.len();
        self.credit = credit % look_interval;
        credit / look_interval
    }

    pub(crate) fn next_chunk(&mut self) -> usize {
        let chunk = self.cursor;
        self.cursor = if chunk + 1 < self.looks.len() { chunk + 1 } else { 0 };
        chunk
    }

    /// Whether to skip this look at a chunk: one of the last looks found no free page.
    pub(crate) fn skips_look(&mut self, chunk: usize) -> bool {
        let skips = &mut self.skips[chunk];
        let skip = *skips > 0;
        *skips = skips.saturating_sub(1);
        skip
    }

    /// Forgets a chunk: it is whole again, or offline.
    pub(crate) fn forget(&mut self, chunk: usize) {
        if self.looks[chunk] != 0 {
            self.looks[chunk] = 0;
            self.skips[chunk] = 0;
            self.set_given_back(chunk, ChunkMask::EMPTY);
        }
    }

    /// Notes the free pages of a chunk. Returns those that the last `looks_needed` looks have found free, and then starts
    /// anew with this look as the first. After a look without free pages, the next few looks are skipped.
    pub(crate) fn note_look(&mut self, chunk: usize, free: ChunkMask, looks_needed: u8) -> Option<ChunkMask> {
        if free.is_empty() {
            self.forget(chunk);
            self.skips[chunk] = SKIPPED_LOOKS;
            return None;
        }
        let words = &mut self.stayed_free[chunk * MASK_WORDS..][..MASK_WORDS];
        let looks = self.looks[chunk];
        let stayed_free = if looks == 0 || looks_needed == 1 { free } else { ChunkMask::load(words) & free };
        let enough = looks + 1 >= looks_needed;
        if enough { free } else { stayed_free }.store(words);
        self.looks[chunk] = if enough { 1 } else { looks + 1 };
        let given_back = self.given_back(chunk);
        if !given_back.is_empty() {
            self.set_given_back(chunk, given_back & free);
        }
        enough.then_some(stayed_free)
    }

    /// The pages that went back, and that each look since then has found free.
    pub(crate) fn given_back(&self, chunk: usize) -> ChunkMask {
        ChunkMask::load(&self.given_back[chunk * MASK_WORDS..][..MASK_WORDS])
    }

    pub(crate) fn set_given_back(&mut self, chunk: usize, pages: ChunkMask) {
        pages.store(&mut self.given_back[chunk * MASK_WORDS..][..MASK_WORDS]);
    }

    pub(crate) fn keeps_split(&self, chunk: usize) -> bool {
        self.keeps_split[chunk]
    }

    /// How many chunks keep split.
    pub(crate) fn kept_split(&self) -> usize {
        self.kept_split
    }

    pub(crate) fn set_keeps_split(&mut self, chunk: usize, on: bool) {
        let was = std::mem::replace(&mut self.keeps_split[chunk], on);
        self.kept_split = self.kept_split - usize::from(was) + usize::from(on);
    }
}

/// When scans look at a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LookSchedule {
    /// How many looks must find a page free, 1 to [`MAX_LOOKS`].
    pub(crate) looks: u8,
    /// The scans from one look to the next, at least 1.
    pub(crate) look_interval: usize,
}

/// How often scans look at a chunk before parts of it go back. With more looks, fewer pages that were in use meanwhile
/// count as free; each look takes 1 to 12 µs. A guess.
const MAX_LOOKS: usize = 4;

/// How many looks to skip at a chunk without free pages. The tags inside a large run in use take the longest to walk,
/// about 12 µs for a chunk. A guess.
const SKIPPED_LOOKS: u8 = 3;

impl LookSchedule {
    /// The schedule that finds pages which have stayed free for `scans` scans. As for chunks, the first and the last scan
    /// both count.
    pub(crate) fn new(scans: usize) -> LookSchedule {
        let intervals = scans.saturating_sub(1).min(MAX_LOOKS - 1);
        LookSchedule {
            looks: 1 + intervals as u8,
            look_interval: scans.saturating_sub(1).div_ceil(intervals.max(1)).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_cover_at_least_the_scans() {
        for (scans, looks, look_interval) in [(0, 1, 1), (1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 4, 1), (20, 4, 7)] {
            let schedule = LookSchedule::new(scans);
            assert_eq!(schedule, LookSchedule { looks, look_interval }, "{scans} scans");
            assert!((usize::from(looks) - 1) * look_interval + 1 >= scans);
        }
        assert_eq!(LookSchedule::new(250 * 255).look_interval, 21_250);
    }

    #[test]
    fn looks_are_spread_over_scans() {
        for (chunks, look_interval) in [(1, 7), (8, 7), (100, 7), (5, 1)] {
            let mut state = PartsState::new(chunks);
            let mut last = vec![0; chunks];
            for scan in 1..=5 * look_interval {
                for _ in 0..state.looks_due(look_interval) {
                    let since = scan - std::mem::replace(&mut last[state.next_chunk()], scan);
                    assert!(since == scan || since == look_interval, "{chunks} chunks, {look_interval} scans: {since}");
                }
            }
            assert!(last.iter().all(|&scan| scan > 4 * look_interval), "{chunks} chunks, {look_interval} scans");
        }
    }

    #[test]
    fn pages_stay_free_if_every_look_finds_them_free() {
        let mask = |pages| {
            let mut mask = ChunkMask::EMPTY;
            mask.insert(pages);
            mask
        };
        let mut state = PartsState::new(2);
        assert_eq!(state.note_look(1, mask(0..100), 3), None);
        assert_eq!(state.note_look(1, mask(10..200), 3), None);
        assert_eq!(state.note_look(1, mask(0..90), 3), Some(mask(10..90)));
        state.set_given_back(1, mask(10..90));
        // The last look counts as the first of the next time.
        assert_eq!(state.note_look(1, mask(0..50), 3), None);
        assert_eq!(state.note_look(1, mask(0..100), 3), Some(mask(0..50)));
        assert_eq!(state.given_back(1), mask(10..50), "pages were in use meanwhile");
        state.forget(1);
        assert_eq!((state.given_back(1), state.looks[1]), (ChunkMask::EMPTY, 0));
        assert_eq!(state.note_look(1, mask(3..4), 1), Some(mask(3..4)), "one look suffices");
        assert_eq!(state.note_look(1, mask(5..6), 1), Some(mask(5..6)), "one look suffices again");
        assert_eq!(state.looks[0], 0);
    }

    #[test]
    fn looks_without_free_pages_are_rarer() {
        let (mut state, mut free) = (PartsState::new(1), ChunkMask::EMPTY);
        let mut looked =
            |free| (0..8).map(|_| !state.skips_look(0) && state.note_look(0, free, 1).is_none()).collect::<Vec<_>>();
        assert_eq!(looked(free), [true, false, false, false, true, false, false, false]);
        free.insert(0..1);
        assert_eq!(looked(free), [false; 8], "a look with free pages returns them");
    }
}
