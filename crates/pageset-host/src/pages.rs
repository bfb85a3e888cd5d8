//! Handles of runs. Dropping a handle frees its run.
#![allow(unsafe_code, reason = "slices over the memory of the handle")]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use pageset::Order;

use crate::error::AllocError;
use crate::pool::{PAGE_BYTES, PagePool};
use crate::spec::RunSpec;

mod sealed {
    pub trait Sealed {}
    impl Sealed for &super::PagePool {}
    impl Sealed for std::sync::Arc<super::PagePool> {}
}

/// How a handle refers to its pool.
///
/// `&PagePool` costs nothing. `Arc<PagePool>` keeps the pool alive, and costs two atomic additions for each handle, on a
/// cache line that all threads share. `&'static PagePool` has both advantages.
pub trait PoolRef: sealed::Sealed + Deref<Target = PagePool> {}

impl PoolRef for &PagePool {}
impl PoolRef for Arc<PagePool> {}

/// Implements what all handles of runs share.
///
/// `$handle` has a field `pool` and a method `run`, which returns the memory of a run that only the handle owns. `$free`
/// names the function of the pool that frees such a run.
macro_rules! impl_run_handle {
    ($handle:ident, $free:literal) => {
        // SAFETY: (1) only the handle owns the memory, and any thread may use and free it; (2) the bound makes the
        // reference to the pool `Send`.
        unsafe impl<P: PoolRef + Send> Send for $handle<P> {}
        // SAFETY: (1) a shared handle gives out only shared slices of bytes; (2) the bound makes the reference to the pool
        // `Sync`.
        unsafe impl<P: PoolRef + Sync> Sync for $handle<P> {}

        impl<P: PoolRef> $handle<P> {
            /// Takes the run out of the handle without freeing it.
            ///
            #[doc = concat!("The caller frees it with [`PagePool::", $free, "`].")]
            pub fn into_raw(self) -> NonNull<[u8]> {
                let this = ManuallyDrop::new(self);
                let run = this.run();
                // SAFETY: (1) `this` is never dropped, so the reference to the pool is moved out once; (2) nothing uses
                // `this` afterwards.
                drop(unsafe { std::ptr::read(&this.pool) });
                run
            }

            /// The pool of the run.
            pub fn pool(&self) -> &PagePool {
                &self.pool
            }
        }

        impl<P: PoolRef> Deref for $handle<P> {
            type Target = [u8];

            #[inline]
            fn deref(&self) -> &[u8] {
                // SAFETY: (1) the run stays mapped as long as the pool, which the handle keeps alive or borrows;
                // (2) mapped memory is always initialised; (3) only the handle owns the run, and writing needs the handle
                // exclusively; (4) callers of `PoolMemory::descriptor` guarantee that no other process writes the run meanwhile.
                unsafe { self.run().as_ref() }
            }
        }

        impl<P: PoolRef> DerefMut for $handle<P> {
            #[inline]
            fn deref_mut(&mut self) -> &mut [u8] {
                // SAFETY: (1) to (4) as in `deref`.
                unsafe { self.run().as_mut() }
            }
        }

        impl<P: PoolRef> AsRef<[u8]> for $handle<P> {
            fn as_ref(&self) -> &[u8] {
                self
            }
        }

        impl<P: PoolRef> AsMut<[u8]> for $handle<P> {
            fn as_mut(&mut self) -> &mut [u8] {
                self
            }
        }
    };
}

pub(crate) use impl_run_handle;

/// A handle that owns a run of 2^order pages and frees it on drop. In a forked child, the drop frees nothing.
///
/// The run first contains the bytes of its last owner, or zeros.
pub struct Pages<P: PoolRef> {
    pool: P,
    start: NonNull<u8>,
    order: Order,
}

impl_run_handle!(Pages, "free");

impl PagePool {
    /// Allocates a run of 2^`order` pages in a handle that borrows the pool. [`Pages::new`] makes one that keeps the pool alive.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let mut page = pool.pages(Order::ZERO)?;
    /// page[0] = 1;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Self::alloc`].
    #[inline]
    pub fn pages(&self, order: Order) -> Result<Pages<&PagePool>, AllocError> {
        Pages::new(self, order)
    }

    /// As [`Self::alloc_with`], in a handle that borrows the pool.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let page = pool.pages_with(&RunSpec::new(Order::ZERO).zeroed())?;
    /// assert!(page.iter().all(|&byte| byte == 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Self::alloc_with`].
    pub fn pages_with(&self, run: &RunSpec) -> Result<Pages<&PagePool>, AllocError> {
        Pages::with(self, run)
    }
}

impl<P: PoolRef> Pages<P> {
    /// Allocates a run from a pool, as [`PagePool::alloc_with`] does.
    ///
    /// # Errors
    /// The errors of [`PagePool::alloc_with`].
    pub fn with(pool: P, run: &RunSpec) -> Result<Self, AllocError> {
        let start = pool.alloc_with(run)?.cast();
        Ok(Pages { pool, start, order: run.request.order })
    }

    /// Allocates a run of 2^`order` pages from a pool: `&PagePool`, or `Arc<PagePool>` for a handle that keeps the pool alive.
    ///
    /// # Errors
    /// The errors of [`PagePool::alloc`].
    #[inline]
    pub fn new(pool: P, order: Order) -> Result<Self, AllocError> {
        let start = pool.alloc(order)?.cast();
        Ok(Pages { pool, start, order })
    }

    /// Makes a handle of a run that a raw call allocated or that [`Self::into_raw`] returned.
    ///
    /// # Safety
    /// (1) The run is allocated, from this pool and of this order. (2) The caller owns it, and nothing else uses or frees
    /// it afterwards.
    pub unsafe fn from_raw(pool: P, start: NonNull<u8>, order: Order) -> Self {
        Pages { pool, start, order }
    }

    #[inline]
    fn run(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.start, PAGE_BYTES << self.order.get())
    }

    /// The order of the run.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// Fills the run with zeros.
    #[must_use]
    pub fn zeroed(mut self) -> Self {
        self.fill(0);
        self
    }
}

impl<P: PoolRef> Drop for Pages<P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the handle owns the run, and nothing uses the handle after this.
        let freed = unsafe { self.pool.free(self.start, self.order) };
        debug_assert!(freed.is_ok() || self.pool.is_forked(), "{freed:?}");
    }
}

impl<P: PoolRef> fmt::Debug for Pages<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("start", &self.start).field("order", &self.order).finish_non_exhaustive()
    }
}
