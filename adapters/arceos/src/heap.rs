//! Bytes. From 4096 on they are whole pages, which go back to the page allocator; below, TLSF divides pages that it keeps.

use core::alloc::Layout;
use core::ptr::NonNull;

use axallocator::{AllocResult, BaseAllocator, ByteAllocator, TlsfByteAllocator};
use kspin::SpinNoIrq;
use pageset::ZoneKind;

use crate::{GlobalAllocator, PAGE_SIZE};

/// The pages that TLSF gets at once, where so many are free. A guess: 128 KiB.
const GROWTH: usize = 32;

/// Small allocations.
pub(crate) struct Heap(SpinNoIrq<TlsfByteAllocator>);

/// Whether an allocation is whole pages.
#[inline(always)]
fn is_pages(layout: Layout) -> bool {
    layout.size() >= PAGE_SIZE || layout.align() >= PAGE_SIZE
}

impl Heap {
    pub(crate) const fn new() -> Self {
        Heap(SpinNoIrq::new(TlsfByteAllocator::new()))
    }

    pub(crate) fn available_bytes(&self) -> usize {
        self.0.lock().available_bytes()
    }

    /// Takes the lock of the heap, and inside it the page allocator's.
    #[inline]
    pub(crate) fn alloc(&self, pages: &GlobalAllocator, layout: Layout) -> AllocResult<NonNull<u8>> {
        if is_pages(layout) {
            let first = pages.take(layout.size().div_ceil(PAGE_SIZE).max(1), layout.align(), ZoneKind::Normal)?;
            return Ok(NonNull::new(first as *mut u8).expect("the kernel's mapping does not begin at 0"));
        }
        let mut heap = self.0.lock();
        heap.alloc(layout).or_else(|_| {
            grow(&mut heap, pages)?;
            heap.alloc(layout)
        })
    }

    #[inline]
    pub(crate) fn dealloc(&self, pages: &GlobalAllocator, place: NonNull<u8>, layout: Layout) {
        if is_pages(layout) {
            pages.give(place.as_ptr() as usize, layout.size().div_ceil(PAGE_SIZE).max(1));
        } else {
            self.0.lock().dealloc(place, layout);
        }
    }
}

/// Adds pages. Two hold any small allocation, with TLSF's own header.
#[cold]
fn grow(heap: &mut TlsfByteAllocator, pages: &GlobalAllocator) -> AllocResult {
    let take = |number| pages.take(number, PAGE_SIZE, ZoneKind::Normal).map(|first| (first, number));
    let (first, number) = take(GROWTH).or_else(|_| take(2))?;
    heap.add_memory(first, number * PAGE_SIZE)
}
