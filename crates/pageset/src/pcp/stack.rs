//! The arrays of a pageset's lists: block numbers, the newest on top, the oldest at the bottom.
//!
//! All lists of a pageset share one pool of memory, since each list alone may hold all pages of the pageset. The pool
//! consists of chunks. A list is a chain of chunks, each linked to its neighbours. So a push or pop touches one word
//! besides the list's head, and memory that was never used is never touched. All calls are made with the pageset's lock
//! held.

use core::sync::atomic::AtomicU32;

use crate::sync::LockedWord;

/// Words in a chunk: four cache lines, so that one call in sixty touches more than the head and its entry.
const CHUNK: u32 = 64;
/// The first words of a chunk: the older neighbour, then the newer one (in the pool: the next free chunk). The entries
/// follow.
const OLDER: u32 = 0;
const NEWER: u32 = 1;
const FIRST: u32 = 2;
const LAST: u32 = CHUNK - 1;
const ENTRIES: u32 = CHUNK - FIRST;

/// No position. Its place in a chunk is [`LAST`], so a push on an empty list takes the path of a full chunk.
const NONE: u32 = u32::MAX;

/// The place of a position in its chunk.
const fn place(at: u32) -> u32 {
    at % CHUNK
}

/// The chunk of a position.
const fn chunk(at: u32) -> u32 {
    at - at % CHUNK
}

/// The words for `lists` lists with `entries` entries in total, however they are divided. Two chunks of each list may
/// be partly used.
pub(crate) const fn words(entries: u32, lists: u32) -> u64 {
    (entries.div_ceil(ENTRIES) + 2 * lists) as u64 * CHUNK as u64
}

/// The free chunks of one pageset.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The next chunk that was never used, and the end of the pool.
    fresh: AtomicU32,
    end: AtomicU32,
    /// The first returned chunk.
    free: AtomicU32,
}

impl Pool {
    pub(crate) const fn new() -> Self {
        Pool { fresh: AtomicU32::new(0), end: AtomicU32::new(0), free: AtomicU32::new(NONE) }
    }

    /// Sets the pool's memory: `words` words from `start` on. `start` is a multiple of the chunk size.
    pub(crate) fn place(&self, start: u32, words: u32) {
        self.fresh.set(start);
        self.end.set(start + words);
    }

    /// Whether any list can get another chunk.
    pub(crate) fn has_room(&self) -> bool {
        self.free.get() != NONE || self.fresh.get() < self.end.get()
    }

    #[cold]
    fn take(&self, words: &[AtomicU32]) -> Option<u32> {
        let free = self.free.get();
        if free != NONE {
            self.free.set(words[(free + NEWER) as usize].get());
            return Some(free);
        }
        let fresh = self.fresh.get();
        (fresh < self.end.get()).then(|| {
            self.fresh.set(fresh + CHUNK);
            fresh
        })
    }

    fn give(&self, words: &[AtomicU32], chunk: u32) {
        words[(chunk + NEWER) as usize].set(self.free.get());
        self.free.set(chunk);
    }
}

/// One list: the positions of its newest and its oldest entry.
///
/// The newest chunk stays with the list when its last entry is popped. A list that loses and gains one entry repeatedly
/// then stays on the shortest path, wherever that entry is.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct Stack {
    /// The newest entry; in an empty newest chunk, the position before its entries; [`NONE`] without a chunk.
    top: AtomicU32,
    /// Pops above this position touch one word. The position before the newest chunk's oldest entry.
    floor: AtomicU32,
    /// The oldest entry; in an empty list the position after `top`.
    bottom: AtomicU32,
}

/// The free place after the newest block of a list.
pub(crate) struct Place<'w> {
    stack: &'w Stack,
    at: u32,
    word: &'w AtomicU32,
}

impl Place<'_> {
    /// Pushes a block there.
    #[inline(always)]
    pub(crate) fn push(self, block: u32) {
        self.word.set(block);
        self.stack.top.set(self.at);
    }
}

impl Default for Stack {
    fn default() -> Self {
        Stack::new()
    }
}

impl Stack {
    pub(crate) const fn new() -> Self {
        Stack { top: AtomicU32::new(NONE), floor: AtomicU32::new(NONE), bottom: AtomicU32::new(NONE.wrapping_add(1)) }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.end() == self.bottom.get()
    }

    /// The position after the newest entry.
    #[inline]
    fn end(&self) -> u32 {
        self.top.get().wrapping_add(1)
    }

    /// Makes the list empty, without a chunk.
    fn clear(&self) {
        self.top.set(NONE);
        self.bottom.set(NONE.wrapping_add(1));
        self.floor.set(NONE);
    }

    /// Recomputes the floor after the newest chunk or its oldest entry has changed.
    fn settle(&self) {
        let (top, bottom) = (self.top.get(), self.bottom.get());
        let oldest_in_chunk = if chunk(top) == chunk(bottom) { bottom } else { chunk(top) + FIRST };
        self.floor.set(if top == NONE { NONE } else { oldest_in_chunk - 1 });
    }

    /// The place after the newest block, if the newest chunk has room.
    #[inline(always)]
    pub(crate) fn place_within<'w>(&'w self, words: &'w [AtomicU32]) -> Option<Place<'w>> {
        // The position after `NONE`, and the position after a chunk's last place, are multiples of the chunk size.
        let at = self.top.get().wrapping_add(1);
        if place(at) == 0 {
            return None;
        }
        Some(Place { stack: self, at, word: words.get(at as usize)? })
    }

    /// Pushes a block if the newest chunk has room. Otherwise returns false.
    #[inline(always)]
    fn push_within(&self, words: &[AtomicU32], block: u32) -> bool {
        self.place_within(words).map(|place| place.push(block)).is_some()
    }

    /// Pushes a block. Returns false if the pool has no room.
    #[inline]
    pub(crate) fn push(&self, words: &[AtomicU32], pool: &Pool, block: u32) -> bool {
        self.push_within(words, block) || self.push_beyond(words, pool, block)
    }

    #[cold]
    fn push_beyond(&self, words: &[AtomicU32], pool: &Pool, block: u32) -> bool {
        let Some(new) = pool.take(words) else { return false };
        let (top, at) = (self.top.get(), new + FIRST);
        if top == NONE {
            self.bottom.set(at);
        } else {
            words[(chunk(top) + NEWER) as usize].set(new);
            words[(new + OLDER) as usize].set(chunk(top));
        }
        words[at as usize].set(block);
        self.top.set(at);
        self.floor.set(at - 1);
        true
    }

    /// Pushes one block per entry, in order, until the pool has no room. Returns the number of blocks pushed.
    #[inline(always)]
    pub(crate) fn push_all<T>(
        &self,
        words: &[AtomicU32],
        pool: &Pool,
        entries: &[T],
        block: impl Fn(&T) -> u32,
    ) -> usize {
        let mut rest = entries;
        while let [first, others @ ..] = rest {
            let places = self.places(words);
            if places.is_empty() {
                if !self.push_beyond(words, pool, block(first)) {
                    break;
                }
                rest = others;
                continue;
            }
            let (now, later) = rest.split_at(places.len().min(rest.len()));
            places.iter().zip(now).for_each(|(place, entry)| place.set(block(entry)));
            self.top.set(self.top.get().wrapping_add(now.len() as u32));
            rest = later;
        }
        entries.len() - rest.len()
    }

    /// The free places of the newest chunk, after its newest entry.
    #[inline(always)]
    fn places<'w>(&self, words: &'w [AtomicU32]) -> &'w [AtomicU32] {
        let at = self.top.get().wrapping_add(1);
        let start = at as usize;
        // If the newest chunk is full, this is the start of another chunk, which does not belong to the list.
        let end = if place(at) == 0 { start } else { (chunk(at) + CHUNK) as usize };
        words.get(start..end).unwrap_or(&[])
    }

    /// Pops the newest block if it is in the newest chunk.
    #[inline(always)]
    pub(crate) fn pop_within(&self, words: &[AtomicU32]) -> Option<u32> {
        let top = self.top.get();
        if top <= self.floor.get() {
            return None;
        }
        let block = words.get(top as usize)?.get();
        self.top.set(top - 1);
        Some(block)
    }

    /// Pops up to `most` blocks, as that many calls of [`Self::pop_within`] would. The result is in reverse order.
    #[inline]
    pub(crate) fn pop_run<'w>(&self, words: &'w [AtomicU32], most: usize) -> &'w [AtomicU32] {
        let (top, floor) = (self.top.get(), self.floor.get());
        let len = most.min(top.saturating_sub(floor) as usize);
        let end = top.wrapping_add(1) as usize;
        let Some(run) = end.checked_sub(len).and_then(|start| words.get(start..end)) else { return &[] };
        self.top.set(top.wrapping_sub(len as u32));
        run
    }

    /// Pops the newest block.
    #[inline]
    pub(crate) fn pop(&self, words: &[AtomicU32], pool: &Pool) -> Option<u32> {
        self.pop_within(words).or_else(|| self.pop_older(words, pool))
    }

    /// Pops the newest block if the newest chunk is empty. The empty chunk returns to the pool if the list has an older
    /// one.
    #[cold]
    fn pop_older(&self, words: &[AtomicU32], pool: &Pool) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let emptied = chunk(self.top.get());
        self.top.set(words[(emptied + OLDER) as usize].get() + LAST);
        self.settle();
        pool.give(words, emptied);
        self.pop_within(words)
    }

    /// Pops the oldest block.
    pub(crate) fn pop_oldest(&self, words: &[AtomicU32], pool: &Pool) -> Option<u32> {
        let oldest = self.oldest(words).first()?.get();
        self.drop_oldest(words, pool, 1);
        Some(oldest)
    }

    /// The blocks of the oldest chunk, oldest first; all blocks if the list has only one chunk.
    pub(crate) fn oldest<'w>(&self, words: &'w [AtomicU32]) -> &'w [AtomicU32] {
        let (top, bottom) = (self.top.get(), self.bottom.get());
        if self.is_empty() {
            return &[];
        }
        let end = if chunk(top) == chunk(bottom) { top } else { chunk(bottom) + LAST };
        words.get(bottom as usize..end as usize + 1).unwrap_or(&[])
    }

    /// Removes the `blocks` oldest blocks: at least one, at most the length of [`Self::oldest`].
    pub(crate) fn drop_oldest(&self, words: &[AtomicU32], pool: &Pool, blocks: u32) {
        let last = self.bottom.get() + (blocks - 1);
        if last == self.top.get() {
            self.clear();
            pool.give(words, chunk(last));
            return;
        }
        if place(last) == LAST {
            self.bottom.set(words[(chunk(last) + NEWER) as usize].get() + FIRST);
            pool.give(words, chunk(last));
        } else {
            self.bottom.set(last + 1);
        }
        self.settle();
    }

    /// Inserts up to `want` blocks at the bottom. If the list was empty, they pop in the order in which `next` returned
    /// them. Returns the number inserted.
    pub(crate) fn fill(&self, words: &[AtomicU32], pool: &Pool, want: u32, next: impl FnMut() -> Option<u32>) -> u32 {
        if self.is_empty() && self.top.get() != NONE {
            // The pool's size allows one partly used chunk at each end of a list. The empty chunk goes back, so that
            // the new entries fill a chunk from its end.
            pool.give(words, chunk(self.top.get()));
            self.clear();
        }
        let came = self.fill_down(words, pool, want, next);
        self.settle();
        came
    }

    fn fill_down(&self, words: &[AtomicU32], pool: &Pool, want: u32, mut next: impl FnMut() -> Option<u32>) -> u32 {
        for came in 0..want {
            let bottom = self.bottom.get();
            let in_chunk = self.top.get() != NONE && place(bottom) != FIRST;
            if !in_chunk && !pool.has_room() {
                return came;
            }
            let Some(block) = next() else { return came };
            let at = if in_chunk { bottom - 1 } else { self.grow_down(words, pool, bottom) };
            words[at as usize].set(block);
            self.bottom.set(at);
        }
        want
    }

    #[cold]
    fn grow_down(&self, words: &[AtomicU32], pool: &Pool, bottom: u32) -> u32 {
        // The pool has room: the only caller has checked.
        let new = pool.take(words).unwrap_or(0);
        if self.top.get() == NONE {
            self.top.set(new + LAST);
        } else {
            words[(chunk(bottom) + OLDER) as usize].set(new);
            words[(new + NEWER) as usize].set(chunk(bottom));
        }
        new + LAST
    }

    /// The entries, oldest first.
    pub(crate) fn iter<'w>(&self, words: &'w [AtomicU32]) -> impl Iterator<Item = u32> + use<'w> {
        let (top, end, mut at) = (self.top.get(), self.end(), self.bottom.get());
        core::iter::from_fn(move || {
            if at == end {
                return None;
            }
            let block = words[at as usize].get();
            at = match at {
                _ if at != top && place(at) == LAST => words[(chunk(at) + NEWER) as usize].get() + FIRST,
                _ => at + 1,
            };
            Some(block)
        })
    }

    /// The number of entries. Reads each chunk.
    pub(crate) fn len(&self, words: &[AtomicU32]) -> u32 {
        let (top, mut at) = (self.top.get(), self.bottom.get());
        if self.is_empty() {
            return 0;
        }
        let before = place(at);
        let mut len = place(top) + 1;
        while chunk(at) != chunk(top) {
            at = words[(chunk(at) + NEWER) as usize].get();
            len += ENTRIES;
        }
        len - before
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    #[derive(Clone, Copy, Debug)]
    enum Op {
        Push(usize),
        PushAll(usize, u32),
        Pop(usize),
        PopOldest(usize),
        Fill(usize, u32),
        PopRun(usize, usize),
        DropOldest(usize, u32),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0..3_usize).prop_map(Op::Push),
            (0..3_usize).prop_map(Op::Push),
            (0..3_usize, 0..200_u32).prop_map(|(list, n)| Op::PushAll(list, n)),
            (0..3_usize).prop_map(Op::Pop),
            (0..3_usize).prop_map(Op::PopOldest),
            (0..3_usize, 0..200_u32).prop_map(|(list, n)| Op::Fill(list, n)),
            (0..3_usize, 0..80_usize).prop_map(|(list, n)| Op::PopRun(list, n)),
            (0..3_usize, 1..80_u32).prop_map(|(list, n)| Op::DropOldest(list, n)),
        ]
    }

    proptest! {
        /// Three lists over one pool behave like three double-ended queues, and the pool always has room for its
        /// capacity.
        #[test]
        fn lists_are_queues(ops in prop::collection::vec((op(), 1..80_usize), 0..60)) {
            const ROOM: u32 = 500;
            // The pool of another pageset comes first; it must stay unchanged.
            let words: Vec<AtomicU32> = (0..CHUNK as u64 + words(ROOM, 3)).map(|_| AtomicU32::new(0)).collect();
            let pool = Pool::new();
            pool.place(CHUNK, words.len() as u32 - CHUNK);
            let lists: [Stack; 3] = Default::default();
            let mut models: [VecDeque<u32>; 3] = Default::default();
            let mut number = 0;
            for (op, times) in ops {
                for _ in 0..times {
                    let held: usize = models.iter().map(VecDeque::len).sum();
                    match op {
                        Op::Push(list) if held < ROOM as usize => {
                            number += 1;
                            prop_assert!(lists[list].push(&words, &pool, number));
                            models[list].push_front(number);
                        }
                        Op::Push(_) => {}
                        Op::PushAll(list, n) => {
                            let n = n.min(ROOM - held as u32);
                            let pages: Vec<_> = (number..number + n).collect();
                            prop_assert_eq!(lists[list].push_all(&words, &pool, &pages, |page| *page), pages.len());
                            pages.iter().for_each(|&page| models[list].push_front(page));
                            number += n;
                        }
                        Op::Pop(list) => prop_assert_eq!(lists[list].pop(&words, &pool), models[list].pop_front()),
                        Op::PopOldest(list) => {
                            prop_assert_eq!(lists[list].pop_oldest(&words, &pool), models[list].pop_back());
                        }
                        Op::PopRun(list, n) => {
                            let run = lists[list].pop_run(&words, n);
                            prop_assert!(run.len() <= n);
                            for page in run.iter().rev() {
                                prop_assert_eq!(Some(page.get()), models[list].pop_front());
                            }
                        }
                        Op::DropOldest(list, n) => {
                            let oldest = lists[list].oldest(&words);
                            prop_assert_eq!(oldest.is_empty(), models[list].is_empty());
                            let n = n.min(oldest.len() as u32);
                            let taken: Vec<_> = oldest[..n as usize].iter().map(|page| Some(page.get())).collect();
                            if n > 0 {
                                lists[list].drop_oldest(&words, &pool, n);
                            }
                            for page in taken {
                                prop_assert_eq!(page, models[list].pop_back());
                            }
                        }
                        Op::Fill(list, n) => {
                            let n = n.min(ROOM - held as u32);
                            let taken = lists[list].fill(&words, &pool, n, || {
                                number += 1;
                                models[list].push_back(number);
                                Some(number)
                            });
                            prop_assert_eq!(taken, n);
                        }
                    }
                }
                for (list, model) in lists.iter().zip(&models) {
                    prop_assert_eq!(list.len(&words) as usize, model.len());
                    prop_assert_eq!(list.is_empty(), model.is_empty());
                    prop_assert!(list.iter(&words).eq(model.iter().rev().copied()));
                }
                prop_assert!(words[..CHUNK as usize].iter().all(|word| word.get() == 0));
            }
        }
    }

    #[test]
    fn a_full_pool_says_so() {
        let words: Vec<AtomicU32> = (0..2 * CHUNK).map(|_| AtomicU32::new(0)).collect();
        let pool = Pool::new();
        pool.place(0, 2 * CHUNK);
        let (one, other): (Stack, Stack) = Default::default();
        assert!(other.push(&words, &pool, 7));
        let mut next = 0..;
        assert_eq!(one.fill(&words, &pool, 1000, || next.next()), ENTRIES);
        assert_eq!(next.next(), Some(ENTRIES), "each requested block had a place");
        assert!(!one.push(&words, &pool, 8));
        assert_eq!(one.push_all(&words, &pool, &[8, 9], |page| *page), 0);
        assert_eq!(other.pop_oldest(&words, &pool), Some(7));
        assert!(one.push(&words, &pool, 8), "the chunk returned to the pool");
        assert_eq!(one.iter(&words).count() as u32, ENTRIES + 1);
    }

    /// At every list length, alternating one push and one pop stays on the shortest path.
    #[test]
    fn alternating_push_and_pop_stay_in_one_chunk() {
        let words: Vec<AtomicU32> = (0..words(300, 1)).map(|_| AtomicU32::new(0)).collect();
        let (pool, list) = (Pool::new(), Stack::default());
        pool.place(0, words.len() as u32);
        for block in 0..300 {
            assert!(list.push(&words, &pool, block));
            assert_eq!(list.pop(&words, &pool), Some(block));
            for _ in 0..2 {
                assert!(list.push_within(&words, block), "push on {block}");
                assert_eq!(list.pop_within(&words), Some(block), "pop of {block}");
            }
            assert!(list.push(&words, &pool, block));
        }
    }
}
