//! Handles: a run of pages that frees itself.
#![allow(unsafe_code, reason = "slices over the handle's own memory")]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use pageset::Order;

use crate::error::AllocError;
use crate::pool::{PAGE_BYTES, PagePool};

mod sealed {
    pub trait Sealed {}
    impl Sealed for &super::PagePool {}
    impl Sealed for std::sync::Arc<super::PagePool> {}
}

/// How a handle knows its pool: `&PagePool` costs nothing, `Arc<PagePool>` keeps the pool for as long as the handle and
/// costs two atomic additions a handle, on a line that all threads share. A `&'static PagePool` has the best of both.
pub trait PoolRef: sealed::Sealed + Deref<Target = PagePool> {}

impl PoolRef for &PagePool {}
impl PoolRef for Arc<PagePool> {}

/// A run of pages, all its own; its memory is freed when it is dropped. What is in it at first is what its last user
/// left, or zeros.
///
/// Dropped in a forked child it frees nothing.
pub struct Pages<P: PoolRef> {
    pool: P,
    start: NonNull<u8>,
    order: Order,
}

// SAFETY: (1) the memory belongs to nobody else, and any thread may use and free it; (2) what else is in a handle may
// be sent by itself.
unsafe impl<P: PoolRef + Send> Send for Pages<P> {}
// SAFETY: (1) a shared handle only gives shared slices of bytes; (2) as above.
unsafe impl<P: PoolRef + Sync> Sync for Pages<P> {}

impl PagePool {
    /// Takes a run of 2^`order` pages that frees itself, and that may not outlive the pool.
    ///
    /// # Errors
    /// As [`Self::alloc`].
    #[inline]
    pub fn pages(&self, order: Order) -> Result<Pages<&PagePool>, AllocError> {
        Pages::new(self, order)
    }

    /// Takes a run of 2^`order` pages that frees itself and keeps the pool.
    ///
    /// # Errors
    /// As [`Self::alloc`].
    pub fn shared_pages(self: &Arc<Self>, order: Order) -> Result<Pages<Arc<PagePool>>, AllocError> {
        Pages::new(Arc::clone(self), order)
    }
}

impl<P: PoolRef> Pages<P> {
    /// Takes a run of 2^`order` pages from a pool.
    ///
    /// # Errors
    /// As [`PagePool::alloc`].
    #[inline]
    pub fn new(pool: P, order: Order) -> Result<Self, AllocError> {
        let start = pool.alloc(order)?.cast();
        Ok(Pages { pool, start, order })
    }

    /// Makes a handle of a run that was taken with a raw call or came from [`Self::into_raw`].
    ///
    /// # Safety
    /// The run is the caller's, from this pool, of this order, and nothing else will use or free it.
    pub unsafe fn from_raw(pool: P, start: NonNull<u8>, order: Order) -> Self {
        Pages { pool, start, order }
    }

    /// Takes the run out of the handle, to be freed with [`PagePool::free`].
    pub fn into_raw(self) -> NonNull<[u8]> {
        let this = ManuallyDrop::new(self);
        let run = NonNull::slice_from_raw_parts(this.start, this.len());
        // SAFETY: (1) `this` is never dropped, so the pool's handle is read out once; (2) it is not used afterwards.
        drop(unsafe { std::ptr::read(&this.pool) });
        run
    }

    /// The order of the run.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// The pool that it is from.
    pub fn pool(&self) -> &PagePool {
        &self.pool
    }

    /// Fills it with zeros.
    #[must_use]
    pub fn zeroed(mut self) -> Self {
        self.fill(0);
        self
    }
}

impl<P: PoolRef> Deref for Pages<P> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: (1) the run is mapped for as long as the pool, which the handle refers to; (2) anonymous memory is
        // always initialised; (3) nobody else has the run, and writing takes the handle exclusively.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), PAGE_BYTES << self.order.get()) }
    }
}

impl<P: PoolRef> DerefMut for Pages<P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in deref.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), PAGE_BYTES << self.order.get()) }
    }
}

impl<P: PoolRef> AsRef<[u8]> for Pages<P> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<P: PoolRef> AsMut<[u8]> for Pages<P> {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl<P: PoolRef> Drop for Pages<P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the run is the handle's, and the handle ends here.
        let freed = unsafe { self.pool.free(self.start, self.order) };
        debug_assert!(freed.is_ok() || self.pool.is_forked(), "{freed:?}");
    }
}

impl<P: PoolRef> fmt::Debug for Pages<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("start", &self.start).field("order", &self.order).finish_non_exhaustive()
    }
}
