//! The part of a scan that returns parts of chunks, where runs in use keep the rest of the chunk.
//!
//! A scan looks at some of the chunks that are not free as a whole, and notes which of their pages are free. When enough
//! looks have found pages free, the scan asks the system which of them are resident. For each run of such pages, it
//! allocates the free blocks of the run, gives their memory back in one call, and frees the blocks.
//!
//! Pages in the caches of CPUs are in no free block, so they stay. Ticks shrink the caches.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use pageset::{Order, Pfn};

use crate::chunk_mask::{CHUNK_PAGES, ChunkMask};
use crate::give_back::{GiveBackParts, ScanState};
use crate::looks::LookSchedule;
use crate::pool::PagePool;
use crate::size::{CHUNK_BYTES, PAGE_BYTES};

/// The most chunks whose tags one scan walks: 1 GiB of the pool, 0.5 to 6 ms. In a larger pool, looks may be further apart.
/// A guess that keeps a scan each second below 1 % of a CPU.
const WALKS_PER_SCAN: usize = 512;

/// The most chunks of a pool that keep split. Each can add two mappings to the process, which by default has at most
/// 65,530 (`vm.max_map_count`). A guess that leaves the program seven eighths of them.
const MAX_KEPT_SPLIT: usize = 4096;

/// What one scan can still do.
struct Budget {
    walks: usize,
    calls: usize,
}

impl PagePool {
    /// Gives up to `max_bytes` of parts of chunks back, rounded up to the parts of a chunk. `looks` says when to look at
    /// them; `None`: at all of them now. Returns how many resident bytes went.
    pub(crate) fn scan_parts(
        &self,
        state: &mut ScanState,
        looks: Option<LookSchedule>,
        max_bytes: u64,
    ) -> io::Result<u64> {
        let Some(parts) = self.scanner.parts() else { return Ok(0) };
        let chunks = state.ages.len();
        let (due, mut budget) = match looks {
            Some(looks) => {
                let due = state.parts.looks_due(looks.look_interval).min(chunks);
                (due, Budget { walks: WALKS_PER_SCAN, calls: parts.calls_per_scan as usize })
            }
            None => (chunks, Budget { walks: chunks, calls: usize::MAX }),
        };
        let mut given = 0;
        for _ in 0..due {
            if given >= max_bytes || budget.walks == 0 || budget.calls == 0 {
                break;
            }
            let chunk = state.parts.next_chunk();
            given += self.scan_parts_of(state, chunk, parts, looks, &mut budget)?;
        }
        Ok(given)
    }

    fn scan_parts_of(
        &self,
        state: &mut ScanState,
        chunk: usize,
        parts: &GiveBackParts,
        looks: Option<LookSchedule>,
        budget: &mut Budget,
    ) -> io::Result<u64> {
        let is_offline = chunk * CHUNK_BYTES % self.node_span_bytes >= self.node_bytes.load(Relaxed);
        if state.ages[chunk] > 0 || is_offline {
            state.parts.forget(chunk);
            self.end_split(state, chunk);
            return Ok(0);
        }
        if looks.is_some() && state.parts.skips_look(chunk) {
            return Ok(0);
        }
        budget.walks -= 1;
        let free = self.free_pages(chunk, min_order(parts));
        if free.is_empty() {
            self.end_split(state, chunk);
        }
        let stayed_free = state.parts.note_look(chunk, free, looks.map_or(1, |looks| looks.looks));
        match stayed_free {
            Some(pages) if !pages.is_empty() && pages.len() * PAGE_BYTES >= parts.min_free_bytes as usize => {
                self.give_parts_back(state, chunk, pages, min_order(parts), budget)
            }
            _ => Ok(0),
        }
    }

    /// The pages of a chunk that lie in free blocks of at least `min_order`. A hint: looks without a lock, after it has put parts in bitmaps
    /// on lists.
    fn free_pages(&self, chunk: usize, min_order: Order) -> ChunkMask {
        let first = self.first_page(chunk);
        for page in (0..CHUNK_PAGES).step_by(Order::PAGEBLOCK.pages() as usize) {
            let _ = self.allocator().settled_free_block_around(first.offset(page as u64));
        }
        let mut free = ChunkMask::EMPTY;
        let mut page = 0;
        while page < CHUNK_PAGES {
            let end = match self.allocator().free_block_around(first.offset(page as u64)) {
                // A block that reaches beyond the chunk was merged since the scan began.
                Some(block) if block.end().0 > first.0 + page as u64 => {
                    ((block.end().0 - first.0) as usize).min(CHUNK_PAGES)
                }
                _ => page,
            };
            if end - page >= min_order.pages() as usize {
                free.insert(page..end);
            }
            page = end.max(page + 1);
        }
        free
    }

    /// Gives those pages of `stayed_free` back that are resident, or that may be swapped out.
    fn give_parts_back(
        &self,
        state: &mut ScanState,
        chunk: usize,
        stayed_free: ChunkMask,
        min_order: Order,
        budget: &mut Budget,
    ) -> io::Result<u64> {
        let offset = chunk * CHUNK_BYTES;
        let resident = self.memory.resident_pages(offset)?;
        let gone = state.parts.given_back(chunk);
        // A page that was given back and is not resident has nothing to give. Another may be swapped out, which does not
        // count as resident.
        let wanted = stayed_free & (resident | !gone);
        let Some(first) = wanted.next(0) else { return Ok(0) };
        if self.scanner.may_split_huge && resident.len() == CHUNK_PAGES {
            self.split_huge(state, chunk, first);
        }
        let mut given = 0;
        let mut done = ChunkMask::EMPTY;
        let mut result = Ok(());
        // A range contains pages that are gone, if that saves a call.
        for range in stayed_free.runs().filter_map(|run| wanted.extent(run)) {
            // Every run consists of aligned blocks of at least this order.
            let unit = min_order.pages() as usize;
            let (mut page, range_end) = (range.start / unit * unit, range.end.next_multiple_of(unit));
            while page < range_end && budget.calls > 0 && result.is_ok() {
                let (end, bytes) = self.give_run_back(chunk, page..range_end, min_order);
                match bytes {
                    Ok(bytes) => {
                        budget.calls -= usize::from(end > page);
                        given += bytes;
                        done.insert(page..end);
                    }
                    Err(error) => result = Err(error),
                }
                // Another thread has taken the next page, or a part of the smallest block around it.
                page = end + unit;
            }
        }
        state.parts.set_given_back(chunk, gone | done);
        result.map(|()| given)
    }

    /// Splits a huge page and keeps it split, so that parts of it can go back.
    fn split_huge(&self, state: &mut ScanState, chunk: usize, page: usize) {
        let offset = chunk * CHUNK_BYTES;
        if !state.parts.keeps_split(chunk)
            && state.parts.kept_split() < MAX_KEPT_SPLIT
            && self.memory.set_huge_in(offset, CHUNK_BYTES, false).is_ok()
        {
            state.parts.set_keeps_split(chunk, true);
        }
        self.memory.split_huge(offset + page * PAGE_BYTES);
    }

    /// Allows the system to make the chunk a huge page again.
    fn end_split(&self, state: &mut ScanState, chunk: usize) {
        if state.parts.keeps_split(chunk) {
            // A failure leaves the chunk split.
            let _ = self.memory.set_huge_in(chunk * CHUNK_BYTES, CHUNK_BYTES, true);
            state.parts.set_keeps_split(chunk, false);
        }
    }

    /// Holds free blocks from the start of `pages` on, as far as they are free, gives their memory back, and frees them.
    /// Returns the end of these blocks, and how many resident bytes went.
    fn give_run_back(&self, chunk: usize, pages: Range<usize>, min_order: Order) -> (usize, io::Result<u64>) {
        let first = self.first_page(chunk);
        let pfn = |page: usize| first.offset(page as u64);
        // The orders of the held blocks, at their first pages. Not on the heap: the pool may be what serves the heap.
        let mut orders = [Order::ZERO; CHUNK_PAGES];
        let _no_scan = self.scanner.pause_scans();
        let mut end = pages.start;
        while end < pages.end {
            let Some(order) = self.hold_largest(pfn(end), pfn(pages.end), min_order) else { break };
            orders[end] = order;
            end += order.pages() as usize;
        }
        if end == pages.start {
            return (end, Ok(0));
        }
        let offset = chunk * CHUNK_BYTES + pages.start * PAGE_BYTES;
        let given = self.release_held(offset, (end - pages.start) * PAGE_BYTES);
        let mut page = pages.start;
        while page < end {
            self.free_held(pfn(page), orders[page]);
            page += orders[page].pages() as usize;
        }
        (end, given)
    }

    /// Holds the largest free block that starts at `pfn` and ends at or before `end`.
    fn hold_largest(&self, pfn: Pfn, end: Pfn, min_order: Order) -> Option<Order> {
        let block = self.allocator().free_block_around(pfn)?;
        // Without the lock, a block may have changed between two reads, and end before the page.
        let pages = block.end().min(end).0.checked_sub(pfn.0).filter(|&pages| pages > 0)?;
        let order = Order::new(pages.ilog2().min(pfn.0.trailing_zeros()) as u8)?;
        (order >= min_order && self.hold_block(pfn, order)).then_some(order)
    }
}

/// The smallest block to give back. The system takes back its own pages only, which may be larger than ours.
fn min_order(parts: &GiveBackParts) -> Order {
    let system_page = Order::new((rustix::param::page_size() / PAGE_BYTES).ilog2() as u8);
    parts.min_order.max(system_page.unwrap_or(Order::MAX))
}
