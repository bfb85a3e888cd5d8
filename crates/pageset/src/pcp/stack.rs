//! The lists of a pageset: block numbers, the newest on top, the oldest at the bottom.
//!
//! The newest blocks of a list lie in its two *banks*, next to its head: arrays of constant length, so that an index needs a mask
//! instead of a test. Each list's older blocks lie in a chain of *chunks* from a pool that all lists of a pageset share, since each
//! list alone may hold all pages of the pageset. A bank and a chunk have the same layout. When both banks are full, the older one
//! is copied to a chunk; when both are empty, the newest chunk is copied to a bank. So the border between two banks costs no copy
//! when a list loses and gains one block there repeatedly. Pool memory that was never used is never touched. All calls are made
//! with the pageset's lock held.

use core::sync::atomic::AtomicU32;

use crate::sync::LockedWord;

/// Words in a chunk, and in a bank: four cache lines.
const CHUNK: u32 = 64;
/// The first words of a chunk: the older neighbour, then the newer one (in the pool: the next free chunk). The entries
/// follow. A bank has no neighbours there, but [`NONE`] before its entries.
const OLDER: u32 = 0;
const NEWER: u32 = 1;
const FIRST: u32 = 2;
const LAST: u32 = CHUNK - 1;
const ENTRIES: u32 = CHUNK - FIRST;
/// The words of both banks, a power of two.
const BANKS: usize = 2 * CHUNK as usize;

/// No chunk. Also stands for no block, in the place before the oldest block of a list or of a bank: a pop that reads it has found
/// the bank empty.
const NONE: u32 = u32::MAX;

/// The words for `lists` lists with `entries` entries in total, however they are divided. The oldest chunk of each list may be
/// partly used.
pub(crate) const fn words(entries: u32, lists: u32) -> u64 {
    (entries.div_ceil(ENTRIES) + lists) as u64 * CHUNK as u64
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

/// One list.
///
/// The newest bank has the block on top. The other bank and the chunks have older blocks, or none. Each of them is full to its end;
/// only the oldest of all may begin later than at its first entry. A bank that is emptied by pops stays the newest one.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Stack {
    /// The newest entry in the banks; the place of [`NONE`] before it in an empty bank. The newest bank is the one around it.
    top: AtomicU32,
    /// The place of the oldest entry in the oldest chunk; in the oldest bank, if there is no chunk. In an empty list the place after
    /// `top`.
    bottom: AtomicU32,
    /// 1 if the bank that is not the newest has entries.
    other: AtomicU32,
    /// The chain of chunks; [`NONE`] without one.
    newest: AtomicU32,
    oldest: AtomicU32,
    banks: [AtomicU32; BANKS],
}

/// The free place after the newest block of a list.
pub(crate) struct Place<'w> {
    stack: &'w Stack,
    at: u32,
}

impl Place<'_> {
    /// Pushes a block there.
    #[inline(always)]
    pub(crate) fn push(self, block: u32) {
        self.stack.bank_word(self.at).set(block);
        self.stack.top.set(self.at);
    }
}

impl Default for Stack {
    fn default() -> Self {
        Stack::new()
    }
}

/// Where blocks of a list lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Chunk(u32),
    Other,
    Newest,
}

impl Stack {
    pub(crate) const fn new() -> Self {
        let mut banks = [const { AtomicU32::new(0) }; BANKS];
        banks[FIRST as usize - 1] = AtomicU32::new(NONE);
        banks[(CHUNK + FIRST) as usize - 1] = AtomicU32::new(NONE);
        Stack {
            top: AtomicU32::new(FIRST - 1),
            bottom: AtomicU32::new(FIRST),
            other: AtomicU32::new(0),
            newest: AtomicU32::new(NONE),
            oldest: AtomicU32::new(NONE),
            banks,
        }
    }

    /// The word of a position in the banks.
    #[inline(always)]
    fn bank_word(&self, at: u32) -> &AtomicU32 {
        &self.banks[at as usize % BANKS]
    }

    /// The position of the newest bank; that of the other one.
    #[inline(always)]
    fn bank(&self) -> u32 {
        self.top.get() & CHUNK
    }

    #[inline(always)]
    fn other_bank(&self) -> u32 {
        self.bank() ^ CHUNK
    }

    /// The words of a bank.
    fn bank_words(&self, bank: u32) -> &[AtomicU32] {
        let (low, high) = self.banks.split_at(CHUNK as usize);
        if bank == 0 { low } else { high }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bank_word(self.top.get()).get() == NONE && !self.has_older()
    }

    /// Whether there are blocks outside the newest bank.
    #[inline]
    fn has_older(&self) -> bool {
        self.other.get() != 0 || self.oldest.get() != NONE
    }

    /// Makes the list, which has no chunk, empty.
    fn clear(&self) {
        self.top.set(self.bank() + FIRST - 1);
        self.bottom.set(FIRST);
    }

    /// The part with the oldest block.
    fn oldest_part(&self) -> Part {
        match self.oldest.get() {
            NONE if self.other.get() != 0 => Part::Other,
            NONE => Part::Newest,
            chunk => Part::Chunk(chunk),
        }
    }

    /// The part with the blocks that follow those of a part.
    fn newer_part(&self, words: &[AtomicU32], part: Part) -> Option<Part> {
        match part {
            Part::Chunk(chunk) if chunk != self.newest.get() => {
                Some(Part::Chunk(words[(chunk + NEWER) as usize].get()))
            }
            Part::Chunk(_) if self.other.get() != 0 => Some(Part::Other),
            Part::Chunk(_) | Part::Other => Some(Part::Newest),
            Part::Newest => None,
        }
    }

    /// All words of a part.
    fn part_words<'w>(&'w self, words: &'w [AtomicU32], part: Part) -> &'w [AtomicU32] {
        match part {
            Part::Chunk(chunk) => words.get(chunk as usize..(chunk + CHUNK) as usize).unwrap_or(&[]),
            Part::Other => self.bank_words(self.other_bank()),
            Part::Newest => self.bank_words(self.bank()),
        }
    }

    /// The blocks of a part, whose first block has the place `from`, the oldest first.
    fn blocks_of<'w>(&'w self, words: &'w [AtomicU32], part: Part, from: u32) -> &'w [AtomicU32] {
        let end = if let Part::Newest = part { self.top.get() % CHUNK + 1 } else { CHUNK };
        self.part_words(words, part).get(from as usize..end as usize).unwrap_or(&[])
    }

    /// The place after the newest block, if the newest bank has room.
    #[inline(always)]
    pub(crate) fn place_within(&self) -> Option<Place<'_>> {
        // The position after the second bank is the start of the first, which is no place either.
        let at = (self.top.get() + 1) % BANKS as u32;
        (!at.is_multiple_of(CHUNK)).then_some(Place { stack: self, at })
    }

    /// Pushes a block if the newest bank has room. Otherwise returns false.
    #[inline(always)]
    fn push_within(&self, block: u32) -> bool {
        self.place_within().map(|place| place.push(block)).is_some()
    }

    /// Pushes a block. Returns false if the pool has no room.
    #[inline]
    pub(crate) fn push(&self, words: &[AtomicU32], pool: &Pool, block: u32) -> bool {
        self.push_within(block) || self.turn(words, pool) && self.push_within(block)
    }

    /// Makes the other bank the newest one, which is full. Returns false if the other bank is full as well and the pool has no room.
    #[cold]
    #[inline(never)]
    fn turn(&self, words: &[AtomicU32], pool: &Pool) -> bool {
        let other = self.other_bank();
        if self.other.get() != 0 {
            let Some(new) = pool.take(words) else { return false };
            copy(self.bank_words(other), &words[new as usize..(new + CHUNK) as usize]);
            match self.newest.get() {
                NONE => self.oldest.set(new),
                newest => {
                    words[(newest + NEWER) as usize].set(new);
                    words[(new + OLDER) as usize].set(newest);
                }
            }
            self.newest.set(new);
        }
        self.other.set(1);
        self.top.set(other + FIRST - 1);
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
            let places = self.places();
            if places.is_empty() {
                if self.turn(words, pool) {
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

    /// The free places of the newest bank, after its newest entry.
    #[inline(always)]
    fn places(&self) -> &[AtomicU32] {
        let top = self.top.get();
        self.banks.get(top as usize + 1..((top & CHUNK) + CHUNK) as usize).unwrap_or(&[])
    }

    /// Pops the newest block if it is in the newest bank.
    #[inline(always)]
    pub(crate) fn pop_within(&self) -> Option<u32> {
        let top = self.top.get() % BANKS as u32;
        let block = self.bank_word(top).get();
        if block == NONE {
            return None;
        }
        self.top.set(top.wrapping_sub(1));
        Some(block)
    }

    /// Pops up to `most` blocks, as that many calls of [`Self::pop_within`] would. The result is in reverse order.
    #[inline]
    pub(crate) fn pop_run(&self, most: usize) -> &[AtomicU32] {
        let top = self.top.get();
        let first = (top & CHUNK) + if self.has_older() { FIRST } else { self.bottom.get() };
        let end = top + 1;
        let len = most.min(end.saturating_sub(first) as usize);
        let Some(run) = (end as usize).checked_sub(len).and_then(|start| self.banks.get(start..end as usize)) else {
            return &[];
        };
        self.top.set(top - len as u32);
        run
    }

    /// Pops the newest block.
    #[inline]
    pub(crate) fn pop(&self, words: &[AtomicU32], pool: &Pool) -> Option<u32> {
        self.pop_within().or_else(|| self.pop_older(words, pool))
    }

    /// Pops the newest block if the newest bank is empty.
    #[cold]
    #[inline(never)]
    fn pop_older(&self, words: &[AtomicU32], pool: &Pool) -> Option<u32> {
        if self.other.get() != 0 {
            self.other.set(0);
            self.top.set(self.other_bank() + LAST);
            return self.pop_within();
        }
        let chunk = self.newest.get();
        if chunk == NONE {
            self.clear();
            return None;
        }
        copy(&words[chunk as usize..(chunk + CHUNK) as usize], self.bank_words(self.bank()));
        self.top.set(self.bank() + LAST);
        if chunk == self.oldest.get() {
            self.oldest.set(NONE);
            self.newest.set(NONE);
        } else {
            self.newest.set(words[(chunk + OLDER) as usize].get());
        }
        pool.give(words, chunk);
        self.pop_within()
    }

    /// Pops the `blocks` newest blocks.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_back(&self, words: &[AtomicU32], pool: &Pool, blocks: usize) {
        for _ in 0..blocks {
            self.pop(words, pool);
        }
    }

    /// Pops the oldest block.
    pub(crate) fn pop_oldest(&self, words: &[AtomicU32], pool: &Pool) -> Option<u32> {
        let oldest = self.oldest(words).first()?.get();
        self.drop_oldest(words, pool, 1);
        Some(oldest)
    }

    /// The blocks of the oldest part of the list, oldest first; all blocks if they lie in one bank.
    pub(crate) fn oldest<'w>(&'w self, words: &'w [AtomicU32]) -> &'w [AtomicU32] {
        self.blocks_of(words, self.oldest_part(), self.bottom.get())
    }

    /// Removes the `blocks` oldest blocks: at least one, at most the length of [`Self::oldest`].
    pub(crate) fn drop_oldest(&self, words: &[AtomicU32], pool: &Pool, blocks: u32) {
        let (part, bottom) = (self.oldest_part(), self.bottom.get() + blocks);
        match part {
            Part::Newest if bottom > self.top.get() % CHUNK => return self.clear(),
            Part::Newest => {}
            Part::Other if bottom == CHUNK => {
                self.other.set(0);
                return self.bottom.set(FIRST);
            }
            Part::Chunk(chunk) if bottom == CHUNK => {
                if chunk == self.newest.get() {
                    self.newest.set(NONE);
                    self.oldest.set(NONE);
                } else {
                    self.oldest.set(words[(chunk + NEWER) as usize].get());
                }
                pool.give(words, chunk);
                return self.bottom.set(FIRST);
            }
            Part::Other | Part::Chunk(_) => {}
        }
        self.bottom.set(bottom);
        self.part_words(words, part)[bottom as usize - 1].set(NONE);
    }

    /// Inserts up to `want` blocks at the bottom. If the list was empty, they pop in the order in which `next` returned
    /// them. Returns the number inserted.
    pub(crate) fn fill(
        &self,
        words: &[AtomicU32],
        pool: &Pool,
        want: u32,
        mut next: impl FnMut() -> Option<u32>,
    ) -> u32 {
        let mut part: &[AtomicU32] = &[];
        let mut bottom = FIRST;
        if !self.is_empty() {
            (part, bottom) = (self.part_words(words, self.oldest_part()), self.bottom.get());
        }
        let mut came = 0;
        while came < want {
            let is_full = bottom == FIRST;
            // Asked first: a block that came must have a place.
            if is_full && self.needs_chunk() && !pool.has_room() {
                break;
            }
            let Some(block) = next() else { break };
            if is_full {
                part = self.grow_down(words, pool);
                bottom = CHUNK;
            }
            bottom -= 1;
            part[bottom as usize].set(block);
            came += 1;
        }
        if came > 0 {
            self.bottom.set(bottom);
            if bottom > FIRST {
                part[bottom as usize - 1].set(NONE);
            }
        }
        came
    }

    /// Whether the blocks below a full oldest part need a chunk.
    fn needs_chunk(&self) -> bool {
        self.has_older()
    }

    /// Begins a new oldest part, and returns its words.
    #[cold]
    #[inline(never)]
    fn grow_down<'w>(&'w self, words: &'w [AtomicU32], pool: &Pool) -> &'w [AtomicU32] {
        if self.is_empty() {
            // The new entries fill the bank from its end.
            self.top.set(self.bank() + LAST);
            return self.part_words(words, Part::Newest);
        }
        if !self.needs_chunk() {
            self.other.set(1);
            return self.part_words(words, Part::Other);
        }
        // The pool has room: the only caller has checked.
        let new = pool.take(words).unwrap_or(0);
        match self.oldest.get() {
            NONE => self.newest.set(new),
            oldest => {
                words[(oldest + OLDER) as usize].set(new);
                words[(new + NEWER) as usize].set(oldest);
            }
        }
        self.oldest.set(new);
        self.part_words(words, Part::Chunk(new))
    }

    /// The part with the blocks that follow those of a part, or the oldest part; and its blocks, at most [`ENTRIES`], the oldest first.
    pub(crate) fn part_after<'w>(
        &'w self,
        words: &'w [AtomicU32],
        part: Option<Part>,
    ) -> Option<(Part, &'w [AtomicU32])> {
        match part {
            None => Some((self.oldest_part(), self.oldest(words))),
            Some(part) => {
                let newer = self.newer_part(words, part)?;
                Some((newer, self.blocks_of(words, newer, FIRST)))
            }
        }
    }

    /// The entries, oldest first.
    pub(crate) fn iter<'w>(&'w self, words: &'w [AtomicU32]) -> impl Iterator<Item = u32> + use<'w> {
        let parts =
            core::iter::successors(self.part_after(words, None), |&(part, _)| self.part_after(words, Some(part)));
        parts.flat_map(|(_, blocks)| blocks).map(LockedWord::get)
    }

    /// The number of entries. Reads each chunk.
    pub(crate) fn len(&self, words: &[AtomicU32]) -> u32 {
        let (mut at, mut len) = (self.part_after(words, None), 0);
        while let Some((part, blocks)) = at {
            len += blocks.len();
            at = self.part_after(words, Some(part));
        }
        len as u32
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

/// Copies the entries of a bank or a chunk to another.
fn copy(from: &[AtomicU32], to: &[AtomicU32]) {
    let (from, to) = (from.iter().skip(FIRST as usize), to.iter().skip(FIRST as usize));
    from.zip(to).for_each(|(from, to)| to.set(from.get()));
}

#[cfg(test)]
mod tests;
