//! The lists of a pageset: block numbers, the newest on top, the oldest at the bottom.
//!
//! A list is a chain of *chunks* from a pool that all lists of a pageset share, since each list alone may hold all pages of the
//! pageset. An empty list has no chunk, or one. Chunks have a constant length that is a power of two, so a position names its chunk.
//! Blocks are not copied: a chunk returns to the pool when it is empty. Pool memory that was never used is never touched. All calls
//! are made with the pageset's lock held.

use core::sync::atomic::AtomicU32;

use crate::policy::BULK;
use crate::sync::LockedWord;

/// Words in a chunk: four cache lines, or one without the feature `bulk`.
const CHUNK: u32 = if BULK { 64 } else { 16 };
/// The first words of a chunk: the older neighbour, then the newer one (in the pool: the next free chunk). The entries
/// follow. The newest chunk of a list has [`NONE`] for its newer neighbour.
const OLDER: u32 = 0;
const NEWER: u32 = 1;
const FIRST: u32 = 2;
const LAST: u32 = CHUNK - 1;
pub(crate) const ENTRIES: u32 = CHUNK - FIRST;
/// Chunks for the ends of lists, beside those for the capacity, where not every list has its own. A guess: a program uses some orders
/// of one or two types. Where no chunk is left, the blocks of another list go to the zone.
pub(crate) const PARTLY_USED: u32 = if BULK { 12 } else { 9 };

/// No chunk. Also stands for no block, in the place before the oldest block of a list or of a chunk: a pop that reads it has found
/// the chunk empty. No position is as large, so a list without a chunk has it as its top.
const NONE: u32 = u32::MAX;

/// The words for `entries` entries of all lists in total, where so many chunks are partly used.
pub(crate) const fn words(entries: u32, partly: u32) -> u64 {
    (entries.div_ceil(ENTRIES) + partly) as u64 * CHUNK as u64
}

/// The chunk around a position.
#[inline(always)]
const fn chunk_of(at: u32) -> u32 {
    at & !(CHUNK - 1)
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
    #[inline]
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
            self.free.set(get(words, free + NEWER));
            return Some(free);
        }
        let fresh = self.fresh.get();
        (fresh < self.end.get()).then(|| {
            self.fresh.set(fresh + CHUNK);
            fresh
        })
    }

    fn give(&self, words: &[AtomicU32], chunk: u32) {
        set(words, chunk + NEWER, self.free.get());
        self.free.set(chunk);
    }
}

/// One list. Both words are positions in the words of all pagesets.
#[derive(Debug)]
pub(crate) struct Stack {
    /// The newest entry. In an empty list, and where pops have emptied the newest chunk, the place before its entries, which has
    /// [`NONE`]; [`NONE`] in a list without a chunk.
    top: AtomicU32,
    /// The oldest entry. In an empty list the place after `top`.
    bottom: AtomicU32,
}

/// The free place after the newest block of a list.
pub(crate) struct Place<'w> {
    stack: &'w Stack,
    at: u32,
}

impl Place<'_> {
    /// Pushes a block there.
    #[inline(always)]
    pub(crate) fn push(self, words: &[AtomicU32], block: u32) {
        set(words, self.at, block);
        self.stack.top.set(self.at);
    }
}

impl Default for Stack {
    fn default() -> Self {
        Stack::new()
    }
}

impl Stack {
    #[inline]
    pub(crate) const fn new() -> Self {
        Stack { top: AtomicU32::new(NONE), bottom: AtomicU32::new(0) }
    }

    /// Without the lock, a guess.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Positions in different chunks are no neighbours: a chunk begins with two links.
        self.top.get().wrapping_add(1) == self.bottom.get()
    }

    #[inline]
    fn has_chunk(&self) -> bool {
        self.top.get() != NONE
    }

    /// The newest chunk, and the oldest one, of a list that has one.
    #[inline]
    fn newest_chunk(&self) -> u32 {
        chunk_of(self.top.get())
    }

    #[inline]
    fn oldest_chunk(&self) -> u32 {
        chunk_of(self.bottom.get())
    }

    /// Whether there are blocks outside the newest chunk.
    #[inline]
    fn has_older(&self) -> bool {
        self.newest_chunk() != self.oldest_chunk()
    }

    /// Gives back the chunk of an empty list, if it has one.
    pub(crate) fn release(&self, words: &[AtomicU32], pool: &Pool) {
        if self.has_chunk() && self.is_empty() {
            pool.give(words, self.newest_chunk());
            self.top.set(NONE);
            self.bottom.set(0);
        }
    }

    /// The blocks of a chunk, whose first block has the position `from`, the oldest first.
    fn blocks_of<'w>(&self, words: &'w [AtomicU32], from: u32) -> &'w [AtomicU32] {
        let chunk = chunk_of(from);
        let end = if chunk == self.newest_chunk() { self.top.get().wrapping_add(1) } else { chunk.wrapping_add(CHUNK) };
        // A reader without the lock may see words of different moments.
        words.get(from as usize..end as usize).unwrap_or(&[])
    }

    /// The place after the newest block, if the newest chunk has room.
    #[inline(always)]
    pub(crate) fn place_within(&self) -> Option<Place<'_>> {
        let at = self.top.get().wrapping_add(1);
        // The position after a chunk is the start of another, which is no place. That of a list without a chunk is 0.
        (!at.is_multiple_of(CHUNK)).then_some(Place { stack: self, at })
    }

    /// Pushes a block if the newest chunk has room. Otherwise returns false.
    #[inline(always)]
    fn push_within(&self, words: &[AtomicU32], block: u32) -> bool {
        self.place_within().map(|place| place.push(words, block)).is_some()
    }

    /// Pushes a block. Returns false if the pool has no room.
    #[inline]
    pub(crate) fn push(&self, words: &[AtomicU32], pool: &Pool, block: u32) -> bool {
        self.push_within(words, block) || self.grow_up(words, pool) && self.push_within(words, block)
    }

    /// Begins a new newest chunk. Returns false if the pool has no room.
    #[cold]
    #[inline(never)]
    fn grow_up(&self, words: &[AtomicU32], pool: &Pool) -> bool {
        let Some(new) = pool.take(words) else { return false };
        set(words, new + NEWER, NONE);
        if self.has_chunk() {
            set(words, new + OLDER, self.newest_chunk());
            set(words, self.newest_chunk() + NEWER, new);
        } else {
            self.bottom.set(new + FIRST);
        }
        self.top.set(new + FIRST - 1);
        true
    }

    /// Pushes one block per entry, in order, until an entry has no block or the pool has no room. Returns the number of blocks
    /// pushed.
    #[inline(always)]
    pub(crate) fn push_all<T>(
        &self,
        words: &[AtomicU32],
        pool: &Pool,
        entries: &[T],
        block: impl Fn(&T) -> Option<u32>,
    ) -> usize {
        let mut rest = entries;
        while !rest.is_empty() {
            let places = self.places(words);
            if places.is_empty() {
                if self.grow_up(words, pool) {
                    continue;
                }
                break;
            }
            let (now, later) = rest.split_at(places.len().min(rest.len()));
            let pushed = write_all(places, now, &block);
            self.top.set(self.top.get() + pushed as u32);
            if pushed < now.len() {
                return entries.len() - rest.len() + pushed;
            }
            rest = later;
        }
        entries.len() - rest.len()
    }

    /// The free places of the newest chunk, after its newest entry.
    #[inline(always)]
    fn places<'w>(&self, words: &'w [AtomicU32]) -> &'w [AtomicU32] {
        // Both are 0 in a list without a chunk.
        let (first, end) = (self.top.get().wrapping_add(1), self.newest_chunk().wrapping_add(CHUNK));
        let places = words.get(first as usize..end as usize);
        debug_assert!(places.is_some(), "no places from {first} to {end}");
        places.unwrap_or(&[])
    }

    /// Pops the newest block if it is in the newest chunk.
    #[inline(always)]
    pub(crate) fn pop_within(&self, words: &[AtomicU32]) -> Option<u32> {
        let top = self.top.get();
        let block = words.get(top as usize)?.get();
        if block == NONE {
            return None;
        }
        self.top.set(top.wrapping_sub(1));
        Some(block)
    }

    /// Pops up to `most` blocks, as that many calls of [`Self::pop_within`] would. The result is in reverse order.
    #[inline]
    pub(crate) fn pop_run<'w>(&self, words: &'w [AtomicU32], most: usize) -> &'w [AtomicU32] {
        let top = self.top.get();
        let first = if self.has_older() { self.newest_chunk() + FIRST } else { self.bottom.get() };
        let end = top.wrapping_add(1);
        let len = most.min(end.saturating_sub(first) as usize);
        let Some(run) = (end as usize).checked_sub(len).and_then(|start| words.get(start..end as usize)) else {
            debug_assert!(false, "no {len} blocks before {end}");
            return &[];
        };
        self.top.set(top.wrapping_sub(len as u32));
        run
    }

    /// Pops the newest block.
    #[inline]
    pub(crate) fn pop(&self, words: &[AtomicU32], pool: &Pool) -> Option<u32> {
        self.pop_within(words).or_else(|| self.pop_older(words, pool))
    }

    /// Pops the newest block if the newest chunk is empty. Gives that chunk back.
    #[cold]
    #[inline(never)]
    fn pop_older(&self, words: &[AtomicU32], pool: &Pool) -> Option<u32> {
        if !self.has_chunk() || !self.has_older() {
            self.release(words, pool);
            return None;
        }
        let newest = self.newest_chunk();
        let older = get(words, newest + OLDER);
        pool.give(words, newest);
        set(words, older + NEWER, NONE);
        self.top.set(older + LAST);
        self.pop_within(words)
    }

    /// Pops the `blocks` newest blocks.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_back(&self, words: &[AtomicU32], pool: &Pool, blocks: usize) {
        for _ in 0..blocks {
            let popped = self.pop(words, pool);
            debug_assert!(popped.is_some(), "a list with fewer than {blocks} blocks");
        }
    }

    /// Pops the oldest block.
    pub(crate) fn pop_oldest(&self, words: &[AtomicU32], pool: &Pool) -> Option<u32> {
        let oldest = self.oldest(words).first()?.get();
        self.drop_oldest(words, pool, 1);
        Some(oldest)
    }

    /// The blocks of the oldest chunk, oldest first; all blocks if they lie in one.
    pub(crate) fn oldest<'w>(&self, words: &'w [AtomicU32]) -> &'w [AtomicU32] {
        if self.is_empty() { &[] } else { self.blocks_of(words, self.bottom.get()) }
    }

    /// Removes the `blocks` oldest blocks: at least one, at most the length of [`Self::oldest`].
    pub(crate) fn drop_oldest(&self, words: &[AtomicU32], pool: &Pool, blocks: u32) {
        let (chunk, bottom) = (self.oldest_chunk(), self.bottom.get() + blocks);
        if self.has_older() && bottom == chunk + CHUNK {
            self.bottom.set(get(words, chunk + NEWER).wrapping_add(FIRST));
            pool.give(words, chunk);
        } else {
            self.bottom.set(bottom);
            set(words, bottom - 1, NONE);
        }
        self.release(words, pool);
    }

    /// Inserts up to `want` blocks at the bottom. If the list was empty, they pop in the order in which `next` returned
    /// them. Returns the number inserted.
    #[cfg_attr(not(feature = "rules"), inline(never))]
    pub(crate) fn fill(
        &self,
        words: &[AtomicU32],
        pool: &Pool,
        want: u32,
        mut next: impl FnMut() -> Option<u32>,
    ) -> u32 {
        self.release(words, pool);
        // Without a chunk as with a full one.
        let mut bottom = if self.has_chunk() { self.bottom.get() } else { FIRST };
        let mut came = 0;
        while came < want {
            let is_full = bottom % CHUNK == FIRST;
            // Asked first: a block that came must have a place.
            if is_full && !pool.has_room() {
                break;
            }
            let Some(block) = next() else { break };
            if is_full {
                bottom = self.grow_down(words, pool, bottom);
            }
            bottom -= 1;
            set(words, bottom, block);
            came += 1;
        }
        if came > 0 {
            self.bottom.set(bottom);
            if bottom % CHUNK > FIRST {
                set(words, bottom - 1, NONE);
            }
        }
        came
    }

    /// Begins a new oldest chunk below the one around `bottom`, and returns the position after it. The pool has room.
    #[cold]
    #[inline(never)]
    fn grow_down(&self, words: &[AtomicU32], pool: &Pool, bottom: u32) -> u32 {
        let new = pool.take(words);
        // Position 0 is a chunk of another CPU's pageset.
        debug_assert!(new.is_some(), "a pool without a chunk");
        let new = new.unwrap_or(0);
        if self.has_chunk() {
            let oldest = chunk_of(bottom);
            set(words, oldest + OLDER, new);
            set(words, new + NEWER, oldest);
        } else {
            set(words, new + NEWER, NONE);
            self.top.set(new + LAST);
        }
        new + CHUNK
    }

    /// The chunk with the blocks that follow those of a chunk, or the oldest chunk; and its blocks, at most [`ENTRIES`], the oldest
    /// first.
    pub(crate) fn chunk_after<'w>(&self, words: &'w [AtomicU32], chunk: Option<u32>) -> Option<(u32, &'w [AtomicU32])> {
        match chunk {
            None if self.is_empty() => None,
            None => Some((self.oldest_chunk(), self.oldest(words))),
            Some(chunk) if chunk == self.newest_chunk() => None,
            Some(chunk) => {
                // A reader without the lock may see words of different moments.
                let newer = words.get((chunk + NEWER) as usize).map_or(NONE, LockedWord::get);
                Some((newer, self.blocks_of(words, newer.saturating_add(FIRST))))
            }
        }
    }

    /// The entries, oldest first.
    #[cfg(any(test, feature = "research"))]
    pub(crate) fn iter<'w>(&'w self, words: &'w [AtomicU32]) -> impl Iterator<Item = u32> + use<'w> {
        let chunks =
            core::iter::successors(self.chunk_after(words, None), |&(chunk, _)| self.chunk_after(words, Some(chunk)));
        chunks.flat_map(|(_, blocks)| blocks).map(LockedWord::get)
    }

    /// The number of entries. Reads each chunk.
    pub(crate) fn len(&self, words: &[AtomicU32]) -> u32 {
        let (mut at, mut len) = (self.chunk_after(words, None), 0);
        while let Some((chunk, blocks)) = at {
            len += blocks.len();
            at = self.chunk_after(words, Some(chunk));
        }
        len as u32
    }
}

/// The word at a position. Positions are below the length of the words.
#[inline(always)]
fn get(words: &[AtomicU32], at: u32) -> u32 {
    debug_assert!((at as usize) < words.len(), "position {at} of {}", words.len());
    words.get(at as usize).map_or(NONE, LockedWord::get)
}

#[inline(always)]
fn set(words: &[AtomicU32], at: u32, value: u32) {
    debug_assert!((at as usize) < words.len(), "position {at} of {}", words.len());
    if let Some(word) = words.get(at as usize) {
        word.set(value);
    }
}

/// Writes one block per entry, until an entry has none. Returns the number of blocks. `places` has one for each entry.
#[inline(always)]
fn write_all<T>(places: &[AtomicU32], entries: &[T], block: impl Fn(&T) -> Option<u32>) -> usize {
    let mut written = 0;
    // Eight at a time, at constant places: the loop's own instructions and its tests count once for eight blocks.
    let (eights, odd) = entries.as_chunks::<8>();
    let (front, back) = places.split_at(8 * eights.len());
    for (entries, places) in eights.iter().zip(front.as_chunks::<8>().0) {
        for at in 0..8 {
            let Some(block) = block(&entries[at]) else { return stopped(written + at) };
            places[at].set(block);
        }
        written += 8;
    }
    for (entry, place) in odd.iter().zip(back) {
        let Some(block) = block(entry) else { return written };
        place.set(block);
        written += 1;
    }
    written
}

/// Returns its argument. A call of its own for each end of a loop keeps the loop from counting along.
#[cold]
#[inline(never)]
fn stopped(at: usize) -> usize {
    at
}

#[cfg(test)]
mod tests;
