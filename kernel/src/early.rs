//! Memory before there is an allocator: taken from the start of a range and never returned.

use core::mem::MaybeUninit;
use core::slice;

use pageset::{PageRange, Pfn};

/// A range of memory that is used up from its start.
pub struct Early {
    start: u64,
    next: u64,
    end: u64,
}

impl Early {
    /// Memory from a range.
    ///
    /// # Safety
    /// The range is memory, mapped at its physical address, and nobody else uses it.
    pub unsafe fn new(range: PageRange) -> Early {
        Early { start: range.start.0 * 4096, next: range.start.0 * 4096, end: range.end().0 * 4096 }
    }

    /// The next bytes.
    ///
    /// # Panics
    /// The memory is used up.
    pub fn bytes(&mut self, length: usize) -> &'static mut [MaybeUninit<u8>] {
        let start = self.next;
        self.next += length as u64;
        assert!(self.next <= self.end, "no memory for the metadata: {} bytes are missing", self.next - self.end);
        // SAFETY: `new` got memory that nobody else uses. This part is given out once.
        unsafe { slice::from_raw_parts_mut(start as *mut MaybeUninit<u8>, length) }
    }

    /// The pages that were given out, in part or whole.
    pub fn used(&self) -> PageRange {
        let start = self.start / 4096;
        PageRange::new(Pfn(start), self.next.div_ceil(4096) - start)
    }
}
