//! The trait of allocator-api2, for layouts of up to 4 MiB: collections whose memory is pages of a pool.
#![allow(unsafe_code, reason = "the trait is unsafe to implement")]

use std::alloc::Layout;
use std::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};
use pageset::Order;

use crate::pool::{PAGE_BYTES, PagePool, order_for};

/// The smallest run that holds a layout: runs are aligned to their size.
fn order_of(layout: Layout) -> Option<Order> {
    order_for(layout.size().max(layout.align()))
}

// SAFETY: (1) a run is mapped for as long as the pool, wherever the pool itself is moved, and is nobody else's until it
// is freed; (2) it holds the layout and is aligned to its own size, at least the layout's alignment; (3) the pool is not
// `Clone`, and references to it are the same pool.
unsafe impl Allocator for PagePool {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            let dangling = ptr::without_provenance_mut(layout.align());
            return Ok(NonNull::slice_from_raw_parts(NonNull::new(dangling).ok_or(AllocError)?, 0));
        }
        self.alloc(order_of(layout).ok_or(AllocError)?).map_err(|_| AllocError)
    }

    #[inline]
    unsafe fn deallocate(&self, start: NonNull<u8>, layout: Layout) {
        if layout.size() > 0
            && let Some(order) = order_of(layout)
        {
            // SAFETY: the caller gives back what it had of `allocate` with a layout that fits it.
            let freed = unsafe { self.free(start, order) };
            debug_assert!(freed.is_ok() || self.is_forked(), "{freed:?}");
        }
    }

    unsafe fn grow(&self, start: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() > 0 && order_of(old) == order_of(new) {
            let order = order_of(new).ok_or(AllocError)?;
            return Ok(NonNull::slice_from_raw_parts(start, PAGE_BYTES << order.get()));
        }
        let larger = self.allocate(new)?;
        // SAFETY: (1) the caller says that `start` has `old.size()` bytes; (2) the new run is at least as large, and
        // another; (3) the old one is the caller's to give back, with its layout.
        unsafe {
            ptr::copy_nonoverlapping(start.as_ptr(), larger.cast::<u8>().as_ptr(), old.size());
            self.deallocate(start, old);
        }
        Ok(larger)
    }
}
