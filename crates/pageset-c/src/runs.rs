//! Allocations and frees with a property of their own: zeroed, with a time limit, deferred.

use pageset_host::{ContigSpec, RunSpec};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::time::Duration;

use crate::error::{Failure, catch, catch_uncancelled, pageset_error};
use crate::handle::{pageset_pool, pool};
use crate::pages::{order_of, run_or_null};

/// Allocates a run of 2^order pages that contains zeros, order 0 to 10.
///
/// The call clears the run, 50 ns to 1 us for each page, unless the pool has the option `zero_on_free`.
///
/// NULL on failure: as for pageset_alloc.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_alloc_zeroed(pool: *const pageset_pool, order: u32) -> *mut c_void {
    // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
    run_or_null(catch(|| Ok(unsafe { self::pool(pool) }?.alloc_with(&RunSpec::new(order_of(order)?).zeroed())?)))
}

/// Allocates a contiguous run of `bytes` that contains zeros, as pageset_alloc_contig and pageset_alloc_zeroed do.
///
/// NULL on failure: as for pageset_alloc_contig.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_alloc_contig_zeroed(pool: *const pageset_pool, bytes: usize) -> *mut c_void {
    // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
    run_or_null(catch_uncancelled(|| Ok(unsafe { self::pool(pool) }?.alloc_contig(ContigSpec::new(bytes).zeroed())?)))
}

/// Allocates a run of 2^order pages, order 0 to 10, and waits up to `timeout_ms` milliseconds until one is free. With 0, the
/// call makes one try.
///
/// The thread that has waited longest tries first after a free. A pageset_alloc that comes between gets the run. The call
/// notices a deferred free within 10 ms.
///
/// NULL on failure: no run was free in time, the run is larger than a node with its reserve, an order above 10, no pool, or a
/// forked child.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_alloc_timeout(pool: *const pageset_pool, order: u32, timeout_ms: u32) -> *mut c_void {
    run_or_null(catch_uncancelled(|| {
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        let pool = unsafe { self::pool(pool) }?;
        Ok(pool.alloc_with(&RunSpec::new(order_of(order)?).timeout(Duration::from_millis(timeout_ms.into())))?)
    }))
}

/// Frees a run later. This is the one function that a signal handler may call, whatever it has interrupted. Nothing may refer to
/// the run any more.
///
/// The call takes no lock, waits for nothing and makes no system call. One of the next calls to the pool completes the free.
///
/// The errors of pageset_free. A failure does not change pageset_last_error().
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create. Nothing refers to the run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_free_deferred(
    pool: *const pageset_pool,
    run: *mut c_void,
    order: u32,
) -> pageset_error {
    // Without the message, which needs memory.
    let freed = catch_unwind(AssertUnwindSafe(|| {
        let order = order_of(order)?;
        let run = NonNull::new(run.cast()).ok_or(Failure::FreeNull)?;
        // SAFETY: the program guarantees (1) a handle that no other thread destroys meanwhile, and (2) that nothing refers
        // to the run.
        Ok::<_, Failure>(unsafe { self::pool(pool)?.free_deferred(run, order) }?)
    }));
    match freed {
        Ok(Ok(())) => pageset_error::PAGESET_OK,
        Ok(Err(failure)) => failure.code(),
        Err(_) => pageset_error::PAGESET_ERR_INTERNAL,
    }
}

/// Limits how many bytes of the pool can be in use at the same time, 1 to its size, rounded up to pages. 0 removes the limit.
///
/// The pool withholds the rest of its memory. Allocations above the limit fail. Other calls cost the same as without a limit. A
/// pool with a limit cannot grow or shrink.
///
/// PAGESET_ERR_ARGUMENT if the limit exceeds the size. PAGESET_ERR_IN_USE if more is in use now; the message says how much. The
/// limit then stays.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_set_limit(pool: *const pageset_pool, bytes: u64) -> pageset_error {
    crate::error::catch_uncancelled_code(|| {
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        let pool = unsafe { self::pool(pool)? };
        Ok(pool.set_limit(Some(bytes).filter(|&bytes| bytes > 0))?)
    })
}
