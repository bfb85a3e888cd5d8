//! Blocks with their owner's mark, which shows when two owners got the same memory.

use core::slice;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pageset::{Block, Order, Pfn, Request};

use crate::cpu::{self, PerCpu};
use crate::frames::frames;

/// Words of 8 bytes in a page.
const PAGE_WORDS: usize = 512;
/// Bits of a stamp that count; the bits above have the CPU's number.
const STAMP_COUNT_BITS: u32 = 24;

static STAMPS: PerCpu<AtomicU32> = PerCpu([const { AtomicU32::new(0) }; cpu::MAX_CPUS]);

/// A block, and the stamp that its owner wrote to the first word of each of its pages and to its last word.
#[derive(Debug)]
#[must_use]
pub struct OwnedBlock {
    pub pfn: Pfn,
    pub order: Order,
    /// Different for each block that anybody owns at this time.
    stamp: u32,
}

impl OwnedBlock {
    /// Allocates a block and marks it.
    pub fn allocate(request: &Request) -> Option<OwnedBlock> {
        Some(OwnedBlock::new(frames().alloc(request).ok()?, request.order))
    }

    /// As [`Self::allocate`], without waiting for anything, so NMIs may call it.
    pub fn allocate_at_once(request: &Request) -> Option<OwnedBlock> {
        Some(OwnedBlock::new(frames().non_blocking().alloc(request).ok()?, request.order))
    }

    /// Marks an allocated block, which is this owner's from now on.
    pub fn new(pfn: Pfn, order: Order) -> OwnedBlock {
        // Relaxed: only this CPU counts here. An NMI between may count too, so it is one instruction.
        let count = STAMPS.here().fetch_add(1, Relaxed) & ((1 << STAMP_COUNT_BITS) - 1);
        let block = OwnedBlock { pfn, order, stamp: cpu::number().0 << STAMP_COUNT_BITS | count };
        let mark = block.mark();
        for word in block.marked_words() {
            // SAFETY: the word lies in the block. The write is volatile because another owner of the block is what the
            // marks are to show.
            unsafe { word.write_volatile(mark) };
        }
        block
    }

    /// Checks the marks and frees the block.
    ///
    /// # Panics
    /// As [`Self::disown`], or the allocator refuses the block.
    pub fn free(self) {
        let Block { pfn, order } = self.disown();
        frames().free(pfn, order).unwrap_or_else(|error| panic!("{error}"));
    }

    /// As [`Self::free`], without waiting for anything, so NMIs may call it.
    ///
    /// # Panics
    /// As [`Self::free`].
    pub fn free_deferred(self) {
        let Block { pfn, order } = self.disown();
        frames().non_blocking().free(pfn, order).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Checks the marks. The caller frees the block.
    ///
    /// # Panics
    /// A mark is not as the owner wrote it.
    pub fn disown(self) -> Block {
        let (pfn, order, expected) = (self.pfn, self.order, self.mark());
        for word in self.marked_words() {
            // SAFETY: as in `new`.
            let found = unsafe { word.read_volatile() };
            assert!(
                found == expected,
                "a block has two owners: the mark at {word:p} in the block of order {order} at page {pfn} is {found:#x}, \
                 and its owner wrote {expected:#x}"
            );
        }
        Block { pfn, order }
    }

    /// Copies the contents to another block of the same order, which becomes this owner's.
    pub fn move_to(&mut self, to: Pfn) {
        let words = PAGE_WORDS * self.order.pages() as usize;
        // SAFETY: this owner has both blocks, and nobody else touches them.
        let (from, to_words) = unsafe {
            (
                slice::from_raw_parts(self.pfn.address() as *const u64, words),
                slice::from_raw_parts_mut(to.address() as *mut u64, words),
            )
        };
        to_words.copy_from_slice(from);
        self.pfn = to;
    }

    /// The block as a word for an atomic; never 0.
    pub fn into_word(self) -> u64 {
        u64::from(self.stamp) << 32 | self.pfn.0 << 4 | u64::from(self.order.get())
    }

    /// The block of a word; `None` for 0. Each word that [`Self::into_word`] gave makes one block again.
    pub fn from_word(word: u64) -> Option<OwnedBlock> {
        let order = Order::new((word & 0xF) as u8)?;
        (word != 0).then_some(OwnedBlock { pfn: Pfn(word >> 4 & 0xFFF_FFFF), order, stamp: (word >> 32) as u32 })
    }

    fn mark(&self) -> u64 {
        u64::from(self.stamp) << 8 | u64::from(self.order.get())
    }

    fn marked_words(&self) -> impl Iterator<Item = *mut u64> + use<> {
        let start = self.pfn.address() as *mut u64;
        let words = PAGE_WORDS * self.order.pages() as usize;
        (0..words).step_by(PAGE_WORDS).chain([words - 1]).map(move |word| start.wrapping_add(word))
    }
}
