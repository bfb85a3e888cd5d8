//! Memory before there is an allocator: taken from the start of a range and never returned.

use core::mem::MaybeUninit;
use core::slice;

use pageset::{PageRange, Pfn};

/// Bytes of a cache line. Slices begin at one, so that no two share a line.
const CACHE_LINE: u64 = 64;

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

    /// A slice of `length` values made by `make`.
    ///
    /// # Panics
    /// The memory is used up.
    pub fn slice<T>(&mut self, length: usize, mut make: impl FnMut(usize) -> T) -> &'static mut [T] {
        let start = self.next.next_multiple_of(CACHE_LINE.max(align_of::<T>() as u64));
        self.next = start + (length * size_of::<T>()) as u64;
        assert!(self.next <= self.end, "no memory for the metadata: {} bytes are missing", self.next - self.end);
        // SAFETY: `new` got memory that nobody else uses. This part is aligned, large enough, and given out once.
        let memory = unsafe { slice::from_raw_parts_mut(start as *mut MaybeUninit<T>, length) };
        for (index, slot) in memory.iter_mut().enumerate() {
            slot.write(make(index));
        }
        // SAFETY: all values were written above.
        unsafe { memory.assume_init_mut() }
    }

    /// The pages that were given out, in part or whole.
    pub fn used(&self) -> PageRange {
        let start = self.start / 4096;
        PageRange::new(Pfn(start), self.next.div_ceil(4096) - start)
    }
}
