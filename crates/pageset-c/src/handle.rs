//! Handles of pools in C programs.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pageset_host::{PagePool, Ticker};

use crate::error::{Failure, catch_uncancelled_code, pageset_error};

/// A pool. Programs only use pointers to it. After the pool is destroyed, 40 bytes remain until the program ends, so that
/// later uses are detected.
pub struct pageset_pool {
    magic: AtomicU64,
    pool: AtomicPtr<PagePool>,
    /// The owner of the pool, from [`Box::into_raw`], or NULL after the pool was destroyed. `pool` points into its
    /// allocation, which leak checkers would report as possibly lost.
    owner: AtomicPtr<Arc<PagePool>>,
    /// The thread that ticks, from [`Box::into_raw`], or NULL. The caller that swaps it out owns it.
    ticker: AtomicPtr<Ticker>,
}

/// Marks a handle of a pool: "pageset", and a version of this interface.
const MAGIC: u64 = u64::from_be_bytes(*b"pageset\x01");

impl pageset_pool {
    pub(crate) fn new(pool: PagePool) -> *mut pageset_pool {
        /// All handles. The list keeps leak checkers from reporting them.
        static HANDLES: Mutex<Vec<&pageset_pool>> = Mutex::new(vec![]);
        let owner = Box::new(Arc::new(pool));
        let handle: &pageset_pool = Box::leak(Box::new(pageset_pool {
            magic: AtomicU64::new(MAGIC),
            pool: AtomicPtr::new(ptr::from_ref::<PagePool>(&owner).cast_mut()),
            owner: AtomicPtr::new(Box::into_raw(owner)),
            ticker: AtomicPtr::new(ptr::null_mut()),
        }));
        HANDLES.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
        ptr::from_ref(handle).cast_mut()
    }
}

/// Replaces the ticker of a pool, and returns the former one. In a forked child, it does nothing: the child does not have the
/// thread.
///
/// # Safety
/// (1) [`pool`] returned `pool` for the handle. (2) No other thread destroys the pool meanwhile.
pub(crate) unsafe fn replace_ticker(
    handle: *const pageset_pool,
    pool: &PagePool,
    ticker: Option<Ticker>,
) -> Option<Box<Ticker>> {
    if pool.is_forked() {
        return None;
    }
    let new = ticker.map_or(ptr::null_mut(), |ticker| Box::into_raw(Box::new(ticker)));
    // SAFETY: (1) the handle led to a pool, so it is valid; (2) a pointer that is not NULL came from `Box::into_raw`, and
    // the swap gives it to one caller only.
    unsafe {
        // Acquire and release: pairs with the swap of another caller, which wrote or takes the ticker.
        let former = (*handle).ticker.swap(new, Ordering::AcqRel);
        (!former.is_null()).then(|| Box::from_raw(former))
    }
}

/// A counted reference to the pool of a handle.
///
/// # Safety
/// As for [`pool`].
pub(crate) unsafe fn shared_pool(handle: *const pageset_pool) -> Result<Arc<PagePool>, Failure> {
    // SAFETY: (1) the caller guarantees what `pool` needs; (2) the handle led to a pool that nobody destroys meanwhile, so its
    // owner is there.
    unsafe {
        pool(handle)?;
        // Acquire: pairs with the release of the swap in destroy, as in `pool`.
        Ok(Arc::clone(&*(*handle).owner.load(Ordering::Acquire)))
    }
}

/// The pool of a handle.
///
/// # Safety
/// (1) `handle` is NULL, misaligned, or points to 32 readable bytes. (2) No other thread destroys the pool during `'p`.
#[inline(always)]
pub(crate) unsafe fn pool<'p>(handle: *const pageset_pool) -> Result<&'p PagePool, Failure> {
    if !handle.is_aligned() {
        return Err(not_a_pool(handle));
    }
    // SAFETY: (1) the handle is aligned, and the caller guarantees that it is NULL or readable; (2) a pool pointer that is
    // not NULL came from `new`, and the caller guarantees that nobody destroys the pool meanwhile.
    let found = unsafe {
        handle.as_ref().and_then(|handle| {
            // Relaxed: `magic` was written before the handle was returned to the program.
            // Acquire: pairs with the release of the swap in destroy.
            let pool = (handle.magic.load(Ordering::Relaxed) == MAGIC).then(|| handle.pool.load(Ordering::Acquire));
            pool?.as_ref()
        })
    };
    found.ok_or_else(|| not_a_pool(handle))
}

#[cold]
fn not_a_pool(handle: *const pageset_pool) -> Failure {
    Failure::NotAPool(if handle.is_null() { "NULL".to_owned() } else { format!("{handle:p}") })
}

/// Destroys a pool. With `with_pages`, also one with runs in use.
///
/// # Safety
/// (1) `handle` is NULL or came from `pageset_pool_create`. (2) No other thread uses the pool. (3) With `with_pages`,
/// nothing refers to its runs.
unsafe fn destroy(handle: *mut pageset_pool, with_pages: bool) -> pageset_error {
    catch_uncancelled_code(|| {
        // SAFETY: the caller guarantees (1) a handle and (2) that no other thread destroys the pool.
        let found = unsafe { pool(handle)? };
        let in_use = found.stats().in_use_bytes;
        if in_use > 0 && !with_pages {
            return Err(Failure::InUse(in_use));
        }
        // SAFETY: (1) the handle is valid, because it led to a pool; (2) the swap gives the pool to one caller only, and
        // the caller guarantees that no other thread uses it.
        unsafe {
            // The thread ends before the pool, so that the pool's memory is unmapped when this call returns.
            drop(replace_ticker(handle, found, None));
            // Acquire: pairs with an earlier swap, so a second destroy sees NULL. Release: pairs with the load in pool.
            (*handle).pool.swap(ptr::null_mut(), Ordering::AcqRel);
            let owner = (*handle).owner.swap(ptr::null_mut(), Ordering::AcqRel);
            if !owner.is_null() {
                drop(Box::from_raw(owner));
            }
        }
        Ok(())
    })
}

/// Destroys a pool and frees its address space. Ends its ticker first. No other call on the pool may run at the same time.
/// Later calls fail with PAGESET_ERR_NOT_A_POOL.
///
/// PAGESET_ERR_IN_USE if runs are in use. The pool then remains usable.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_pool_destroy(pool: *mut pageset_pool) -> pageset_error {
    // SAFETY: the program guarantees it, by the documentation of this function.
    unsafe { destroy(pool, false) }
}

/// Destroys a pool as pageset_pool_destroy does, even if runs are in use. Nothing may refer to the runs any more.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_pool_destroy_with_pages(pool: *mut pageset_pool) -> pageset_error {
    // SAFETY: the program guarantees it, by the documentation of this function.
    unsafe { destroy(pool, true) }
}
