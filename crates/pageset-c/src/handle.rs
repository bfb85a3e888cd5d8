//! What a C program has for a pool.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use pageset_host::PagePool;

use crate::error::pageset_error::{PAGESET_ERR_IN_USE, PAGESET_ERR_NOT_A_POOL};
use crate::error::{Failure, pageset_error, slow_code};

/// A pool. Known by its pointer only; 24 bytes stay for as long as the program runs, so that a use after its end
/// is seen.
pub struct pageset_pool {
    magic: AtomicU64,
    /// The pool, or NULL when it was destroyed.
    pool: AtomicPtr<PagePool>,
}

/// Marks what a pointer to a pool leads to: "pageset", and a version of this interface.
const MAGIC: u64 = u64::from_be_bytes(*b"pageset\x01");

impl pageset_pool {
    pub(crate) fn new(pool: PagePool) -> *mut pageset_pool {
        /// All that there ever were: kept, so that no tool takes them for lost.
        static HANDLES: Mutex<Vec<&pageset_pool>> = Mutex::new(vec![]);
        let pool = AtomicPtr::new(Box::into_raw(Box::new(pool)));
        let handle: &pageset_pool = Box::leak(Box::new(pageset_pool { magic: AtomicU64::new(MAGIC), pool }));
        HANDLES.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
        ptr::from_ref(handle).cast_mut()
    }
}

/// The pool behind a handle.
///
/// # Safety
/// `handle` is NULL or points to 16 readable bytes; no other thread destroys the pool while it is in use.
#[inline(always)]
pub(crate) unsafe fn pool<'p>(handle: *const pageset_pool) -> Result<&'p PagePool, Failure> {
    // SAFETY: (1) NULL or readable, says the caller; (2) a pool that is not NULL came from `new` and is destroyed by
    // nobody meanwhile, says the caller.
    let found = unsafe {
        handle.as_ref().and_then(|handle| {
            // Relaxed: written before the handle was given to anybody. Acquire: pairs with the release of the swap.
            let pool = (handle.magic.load(Ordering::Relaxed) == MAGIC).then(|| handle.pool.load(Ordering::Acquire));
            pool?.as_ref()
        })
    };
    found.ok_or_else(|| not_a_pool(handle))
}

#[cold]
fn not_a_pool(handle: *const pageset_pool) -> Failure {
    let text = if handle.is_null() {
        "the pool is NULL".to_owned()
    } else {
        format!("{handle:p} is no pool, or one that was destroyed")
    };
    Failure(PAGESET_ERR_NOT_A_POOL, text)
}

unsafe fn destroy(handle: *mut pageset_pool, with_pages: bool) -> pageset_error {
    slow_code(|| {
        // SAFETY: the caller's promise.
        let found = unsafe { pool(handle)? };
        let in_use = found.stats().in_use_bytes;
        if in_use > 0 && !with_pages {
            return Err(Failure(PAGESET_ERR_IN_USE, format!("{in_use} bytes of the pool are in use")));
        }
        // SAFETY: (1) a handle that led to a pool is one; (2) the swap gives the pool to one caller only, and nobody
        // else uses it, says the caller.
        unsafe {
            let pool = (*handle).pool.swap(ptr::null_mut(), Ordering::AcqRel);
            if !pool.is_null() {
                drop(Box::from_raw(pool));
            }
        }
        Ok(())
    })
}

/// Ends a pool and gives its address space back. No other call on it may be under way, and none may follow:
/// later ones are refused with PAGESET_ERR_NOT_A_POOL.
///
/// PAGESET_ERR_IN_USE where pages of it are in use; the pool goes on then.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_pool_destroy(pool: *mut pageset_pool) -> pageset_error {
    // SAFETY: the caller's promise.
    unsafe { destroy(pool, false) }
}

/// As pageset_pool_destroy, with all pages that are in use: nothing may refer to them any more.
///
/// # Safety
/// As pageset_pool_destroy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_pool_destroy_with_pages(pool: *mut pageset_pool) -> pageset_error {
    // SAFETY: the caller's promise.
    unsafe { destroy(pool, true) }
}
