//! Functions that allocate and free pages, and that resize and maintain a pool.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::slice;

use pageset_host::{MigrateType, NodeId, Order, PAGE_BYTES, RunSpec, order_for};

use crate::error::{Failure, catch, catch_code, catch_uncancelled, catch_uncancelled_code, not_null, pageset_error};
use crate::handle::{pageset_pool, pool};

/// The size of a page in bytes.
pub const PAGESET_PAGE_BYTES: usize = 4096;
/// The largest order. Its runs have 4 MiB.
pub const PAGESET_MAX_ORDER: u32 = 10;

const _: () = assert!(PAGESET_PAGE_BYTES == PAGE_BYTES && PAGESET_MAX_ORDER == Order::MAX.get() as u32);

/// For runs that live long. See pageset_alloc_typed.
pub const PAGESET_TYPE_UNMOVABLE: u32 = 0;
/// The type of pageset_alloc.
pub const PAGESET_TYPE_MOVABLE: u32 = 1;
/// For runs that the program frees when memory is short, such as those of a cache.
pub const PAGESET_TYPE_RECLAIMABLE: u32 = 2;

#[inline(always)]
pub(crate) fn order_of(order: u32) -> Result<Order, Failure> {
    let known = u8::try_from(order).ok().and_then(Order::new);
    known.ok_or(Failure::OutOfRange { name: "order", value: order.into(), allowed: "0 to 10" })
}

/// [`catch`] for functions that return a run.
#[inline(always)]
fn catch_run(body: impl FnOnce() -> Result<NonNull<[u8]>, Failure>) -> *mut c_void {
    run_or_null(catch(body))
}

/// The address of a run, or NULL for a failure.
#[inline(always)]
pub(crate) fn run_or_null(run: Result<NonNull<[u8]>, pageset_error>) -> *mut c_void {
    run.map_or(ptr::null_mut(), |run| run.cast().as_ptr())
}

/// Returns the smallest order whose runs hold `bytes`, or -1 above 4 MiB. Order 0 holds 0 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn pageset_order_for(bytes: usize) -> i32 {
    order_for(bytes).map_or(-1, |order| i32::from(order.get()))
}

/// Allocates a run of 2^order pages, order 0 to 10. The caller owns it until pageset_free.
///
/// The run comes from the node of the calling thread while that node has one, else from the nearest node that has one.
///
/// NULL on failure: no memory, an order above 10, no pool, or a forked child.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_alloc(pool: *const pageset_pool, order: u32) -> *mut c_void {
    // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
    catch_run(|| Ok(unsafe { self::pool(pool) }?.alloc(order_of(order)?)?))
}

/// Allocates a run of 2^order pages from `node` only.
///
/// NULL on failure: as for pageset_alloc, or the pool has no memory of that node.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_alloc_on(pool: *const pageset_pool, node: u32, order: u32) -> *mut c_void {
    // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
    catch_run(|| Ok(unsafe { self::pool(pool) }?.alloc_with(&RunSpec::new(order_of(order)?).node(NodeId(node)))?))
}

/// Allocates a run of 2^order pages in a 2 MiB block of its type (PAGESET_TYPE_...) where possible. Runs that live long then
/// keep fewer 2 MiB blocks from being free.
///
/// NULL on failure: as for pageset_alloc, or an unknown type.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_alloc_typed(pool: *const pageset_pool, r#type: u32, order: u32) -> *mut c_void {
    catch_run(|| {
        let migratetype = match r#type {
            PAGESET_TYPE_UNMOVABLE => MigrateType::Unmovable,
            PAGESET_TYPE_MOVABLE => MigrateType::Movable,
            PAGESET_TYPE_RECLAIMABLE => MigrateType::Reclaimable,
            value => return Err(Failure::OutOfRange { name: "type", value: value.into(), allowed: "0 to 2" }),
        };
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        Ok(unsafe { self::pool(pool) }?.alloc_with(&RunSpec::new(order_of(order)?).migratetype(migratetype))?)
    })
}

/// Frees a run of `order`. Nothing may refer to the run any more. NULL is refused like any other foreign address.
///
/// PAGESET_ERR_FOREIGN, PAGESET_ERR_UNALIGNED, PAGESET_ERR_DOUBLE_FREE or PAGESET_ERR_WRONG_ORDER for a wrong free, which
/// has changed nothing. The call does not detect a second free of a run that was allocated again meanwhile. The
/// option `free_check` says when it detects two threads that free the same run at the same instant.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create. Nothing refers to the run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_free(pool: *const pageset_pool, run: *mut c_void, order: u32) -> pageset_error {
    catch_code(|| {
        let order = order_of(order)?;
        let run = NonNull::new(run.cast()).ok_or(Failure::FreeNull)?;
        // SAFETY: the program guarantees (1) a handle that no other thread destroys meanwhile, and (2) that nothing refers
        // to the run.
        Ok(unsafe { self::pool(pool)?.free(run, order) }?)
    })
}

/// Allocates up to `count` single pages into `pages`, and returns how many.
///
/// 0 on failure: no page is free, `pages` is NULL, no pool, or a forked child. A `count` of 0 is no failure.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create. `pages` is NULL or has room for `count` pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_alloc_bulk(pool: *const pageset_pool, pages: *mut *mut c_void, count: usize) -> usize {
    catch(|| {
        if count > 0 {
            not_null(pages, "pages")?;
        }
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        let pool = unsafe { self::pool(pool)? };
        if count == 0 {
            return Ok(0);
        }
        // SAFETY: (1) the program guarantees room for `count` pointers; (2) `MaybeUninit` needs no initialised values.
        let pages = unsafe { slice::from_raw_parts_mut(pages.cast::<MaybeUninit<*mut c_void>>(), count) };
        Ok(pool.alloc_bulk_as(Order::ZERO, pages, |start| MaybeUninit::new(start.as_ptr().cast()))?)
    })
    .unwrap_or(0)
}

/// Frees `count` single pages. The call checks all pages before it frees any.
///
/// The error of pageset_free for the first wrong page. The call has then freed none.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create. `pages` is NULL or has `count` pointers. Nothing refers to the pages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_free_bulk(
    pool: *const pageset_pool,
    pages: *const *mut c_void,
    count: usize,
) -> pageset_error {
    catch_code(|| {
        if count > 0 {
            not_null(pages, "pages")?;
        }
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        let pool = unsafe { self::pool(pool)? };
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the program guarantees `count` readable pointers.
        let pages = unsafe { slice::from_raw_parts(pages, count) };
        // SAFETY: the program guarantees that nothing refers to the pages.
        let freed = unsafe { pool.free_bulk(Order::ZERO, pages) };
        freed.map_err(|error| if error.address == 0 { Failure::FreeNull } else { error.into() })
    })
}

/// Allocates up to `count` runs of 2^order pages into `runs`, and returns how many. For order 0, it is pageset_alloc_bulk.
///
/// 0 on failure: no run of that size is free, an order above 10, `runs` is NULL, no pool, or a forked child. A `count` of 0 is
/// no failure.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create. `runs` is NULL or has room for `count` pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_alloc_bulk_order(
    pool: *const pageset_pool,
    order: u32,
    runs: *mut *mut c_void,
    count: usize,
) -> usize {
    catch(|| {
        if count > 0 {
            not_null(runs, "runs")?;
        }
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        let pool = unsafe { self::pool(pool)? };
        let order = order_of(order)?;
        if count == 0 {
            return Ok(0);
        }
        // SAFETY: (1) the program guarantees room for `count` pointers; (2) `MaybeUninit` needs no initialised values.
        let runs = unsafe { slice::from_raw_parts_mut(runs.cast::<MaybeUninit<*mut c_void>>(), count) };
        Ok(pool.alloc_bulk_as(order, runs, |start| MaybeUninit::new(start.as_ptr().cast()))?)
    })
    .unwrap_or(0)
}

/// Frees `count` runs of `order`. The call checks all runs before it frees any. For order 0, it is pageset_free_bulk.
///
/// The error of pageset_free for the first wrong run. The call has then freed none.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create. `runs` is NULL or has `count` pointers. Nothing refers to the runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_free_bulk_order(
    pool: *const pageset_pool,
    order: u32,
    runs: *const *mut c_void,
    count: usize,
) -> pageset_error {
    catch_code(|| {
        if count > 0 {
            not_null(runs, "runs")?;
        }
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        let pool = unsafe { self::pool(pool)? };
        let order = order_of(order)?;
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the program guarantees `count` readable pointers.
        let runs = unsafe { slice::from_raw_parts(runs, count) };
        // SAFETY: the program guarantees that nothing refers to the runs.
        let freed = unsafe { pool.free_bulk(order, runs) };
        freed.map_err(|error| if error.address == 0 { Failure::FreeNull } else { error.into() })
    })
}

/// Allocates a contiguous run of `bytes`, rounded up to pages. It starts at a multiple of 2 MiB. The caller owns it until
/// pageset_free_contig.
///
/// The call is for runs that live long. It takes about 1 us for each MiB and drains all caches. If no free range is that
/// large, it searches for 10 to 130 us for each GiB of the pool.
///
/// NULL on failure: no free range of that size, 0 bytes, more than a node has, no pool, or a forked child.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_alloc_contig(pool: *const pageset_pool, bytes: usize) -> *mut c_void {
    // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
    let run = catch_uncancelled(|| Ok(unsafe { self::pool(pool) }?.alloc_contig(bytes)?));
    run.map_or(ptr::null_mut(), |run| run.cast().as_ptr())
}

/// Frees a run of pageset_alloc_contig. `bytes` is the size that the program requested.
///
/// PAGESET_ERR_WRONG_ORDER if the run has another size, rounded up to pages: the message names its size. Also if the address
/// is inside a contiguous run, or is in use as another run. Else the errors of pageset_free. The call has then changed
/// nothing.
///
/// Do not free parts of the run with pageset_free. That call does not refuse them. This call then fails with
/// PAGESET_ERR_DOUBLE_FREE and names the part that is already free.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create. Nothing refers to the run, and the caller owns all of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_free_contig(
    pool: *const pageset_pool,
    run: *mut c_void,
    bytes: usize,
) -> pageset_error {
    catch_uncancelled_code(|| {
        let start = NonNull::new(run.cast::<u8>()).ok_or(Failure::FreeNull)?;
        let rounded = bytes.checked_next_multiple_of(PAGE_BYTES).filter(|&bytes| bytes > 0);
        let rounded = rounded.ok_or(Failure::OutOfRange {
            name: "bytes",
            value: bytes as u64,
            allowed: "the size of the allocation",
        })?;
        // SAFETY: the program guarantees (1) a handle that no other thread destroys meanwhile, (2) that nothing refers to
        // the run, and (3) that the caller owns all of it.
        Ok(unsafe { self::pool(pool)?.free_contig(NonNull::slice_from_raw_parts(start, rounded)) }?)
    })
}

/// Brings `bytes` more of the reserved address space into use, rounded up to 2 MiB for each node.
///
/// PAGESET_ERR_ARGUMENT if `bytes` is 0 or exceeds the rest of the reserve. PAGESET_ERR_SYSTEM if the system refuses memory.
/// The size then stays.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_grow(pool: *const pageset_pool, bytes: u64) -> pageset_error {
    catch_uncancelled_code(|| {
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        let pool = unsafe { self::pool(pool)? };
        Ok(pool.grow(bytes).map(drop)?)
    })
}

/// Takes `bytes` at the ends of the nodes out of use, and gives the memory back to the system. pageset_grow brings it into
/// use again. `bytes` is rounded up to 2 MiB for each node.
///
/// Runs in use do not move. Threads that find no memory meanwhile wait for the call.
///
/// PAGESET_ERR_ARGUMENT if `bytes` is 0 or a node would keep less than 2 MiB. PAGESET_ERR_IN_USE if a run in that memory is
/// in use; the message says how many bytes can go. PAGESET_ERR_SYSTEM if the system does not take the memory back. The
/// size then stays.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_shrink(pool: *const pageset_pool, bytes: u64) -> pageset_error {
    catch_uncancelled_code(|| {
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        let pool = unsafe { self::pool(pool)? };
        Ok(pool.shrink(bytes).map(drop)?)
    })
}

/// Shrinks the cache of the caller's CPU if it was little used, and gives memory back to the system as the options say. Call
/// it about once a second from each thread that uses the pool, or use pageset_ticker_start.
///
/// PAGESET_ERR_SYSTEM if the system does not take memory back.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_tick(pool: *const pageset_pool) -> pageset_error {
    // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
    catch_uncancelled_code(|| Ok(unsafe { self::pool(pool) }?.tick()?))
}

/// Drains the caches of all CPUs, so that their pages merge into large runs.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_drain(pool: *const pageset_pool) -> pageset_error {
    catch_uncancelled_code(|| {
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        unsafe { self::pool(pool) }?.drain();
        Ok(())
    })
}

/// Gives up to `bytes` of free memory back to the system now, rounded up to 2 MiB. Writes to `*given` how many resident bytes
/// went. `given` may be NULL.
///
/// Threads that find no memory meanwhile wait for the call.
///
/// PAGESET_ERR_SYSTEM if the system does not take memory back.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create. `given` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_give_back(pool: *const pageset_pool, bytes: u64, given: *mut u64) -> pageset_error {
    catch_uncancelled_code(|| {
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        let pool = unsafe { self::pool(pool)? };
        let given_back = pool.give_back(bytes)?;
        if !given.is_null() {
            // SAFETY: `given` is not NULL, so the program guarantees that it is writable.
            unsafe { given.write(given_back) };
        }
        Ok(())
    })
}
