//! The trait `Allocator` of allocator-api2, for layouts up to 4 MiB. Collections can then take their memory from a pool.
#![allow(unsafe_code, reason = "the trait is unsafe to implement")]

use std::alloc::Layout;
use std::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};
use pageset::Order;

use crate::pool::{PAGE_BYTES, PagePool, order_for};

/// The smallest order whose runs satisfy a layout. Runs are aligned to their size.
fn order_of(layout: Layout) -> Option<Order> {
    order_for(layout.size().max(layout.align()))
}

// SAFETY: (1) a run stays mapped as long as the pool lives, even if the pool value moves, and has one owner until it is
// freed; (2) it holds the layout, and its alignment is its size, at least the alignment of the layout; (3) the pool is
// not `Clone`, and references to it are the same pool.
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
            // SAFETY: the caller owns the run, which `allocate` returned, and passes a layout that fits it.
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
        // SAFETY: (1) the caller guarantees `old.size()` readable bytes at `start`; (2) the new run is at least as large
        // and does not overlap; (3) the caller owns the old run and passes its layout.
        unsafe {
            ptr::copy_nonoverlapping(start.as_ptr(), larger.cast::<u8>().as_ptr(), old.size());
            self.deallocate(start, old);
        }
        Ok(larger)
    }
}
