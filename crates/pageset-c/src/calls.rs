//! The functions on pages.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::slice;

use pageset_host::{MigrateType, NodeId, Order, PAGE_BYTES, order_for};

use crate::error::{Failure, code, guard, pageset_error, slow_code, slow_guard};
use crate::handle::{pageset_pool, pool};

/// The bytes of a page.
pub const PAGESET_PAGE_BYTES: usize = 4096;
/// The largest order: runs of 4 MiB.
pub const PAGESET_MAX_ORDER: u32 = 10;

const _: () = assert!(PAGESET_PAGE_BYTES == PAGE_BYTES && PAGESET_MAX_ORDER == Order::MAX.get() as u32);

/// A run that others outlive, or that lives long. See pageset_alloc_typed.
pub const PAGESET_TYPE_UNMOVABLE: u32 = 0;
/// The type that pageset_alloc takes.
pub const PAGESET_TYPE_MOVABLE: u32 = 1;
/// A run that is given back when memory is short, as of a cache.
pub const PAGESET_TYPE_RECLAIMABLE: u32 = 2;

#[inline(always)]
fn order_of(order: u32) -> Result<Order, Failure> {
    let known = u8::try_from(order).ok().and_then(Order::new);
    known.ok_or_else(|| Failure::argument(format!("the order is {order}; allowed: 0 to {PAGESET_MAX_ORDER}")))
}

#[inline(always)]
fn run(work: impl FnOnce() -> Result<NonNull<[u8]>, Failure>) -> *mut c_void {
    guard(work).map_or(ptr::null_mut(), |run| run.cast().as_ptr())
}

/// The smallest order whose runs hold `bytes`, or -1 where that is more than 4 MiB. 0 bytes are held by order 0.
#[unsafe(no_mangle)]
pub extern "C" fn pageset_order_for(bytes: usize) -> i32 {
    order_for(bytes).map_or(-1, |order| i32::from(order.get()))
}

/// Takes a run of 2^order pages, order 0 to 10, from the node that the calling thread runs on while that has one.
///
/// NULL on failure, and pageset_last_error() says why: no memory, an order above 10, no pool, a forked child.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_alloc(pool: *const pageset_pool, order: u32) -> *mut c_void {
    // SAFETY: the caller's promise.
    run(|| Ok(unsafe { self::pool(pool) }?.alloc(order_of(order)?)?))
}

/// As pageset_alloc, from one node only.
///
/// # Safety
/// As pageset_alloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_alloc_on(pool: *const pageset_pool, node: u32, order: u32) -> *mut c_void {
    // SAFETY: the caller's promise.
    run(|| Ok(unsafe { self::pool(pool) }?.alloc_on(NodeId(node), order_of(order)?)?))
}

/// As pageset_alloc, beside runs of the same type (PAGESET_TYPE_...), so that those which live long do not each keep
/// another 2 MiB from being free.
///
/// # Safety
/// As pageset_alloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_alloc_typed(pool: *const pageset_pool, r#type: u32, order: u32) -> *mut c_void {
    run(|| {
        let migratetype = match r#type {
            PAGESET_TYPE_UNMOVABLE => MigrateType::Unmovable,
            PAGESET_TYPE_MOVABLE => MigrateType::Movable,
            PAGESET_TYPE_RECLAIMABLE => MigrateType::Reclaimable,
            other => return Err(Failure::argument(format!("the type is {other}; allowed: 0 to 2"))),
        };
        // SAFETY: the caller's promise.
        Ok(unsafe { self::pool(pool) }?.alloc_typed(order_of(order)?, migratetype)?)
    })
}

/// Gives a run back that has `order` and that nothing refers to any more. NULL is refused like any other foreign address.
///
/// PAGESET_ERR_FOREIGN, PAGESET_ERR_UNALIGNED, PAGESET_ERR_DOUBLE_FREE or PAGESET_ERR_WRONG_ORDER for a wrong free, which
/// has changed nothing. A run that was freed and taken again meanwhile is in use: freeing it once too often then is not
/// seen. Two threads that free the same run at the same instant are not told apart.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create; nothing refers to the run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_free(pool: *const pageset_pool, run: *mut c_void, order: u32) -> pageset_error {
    code(|| {
        let order = order_of(order)?;
        let run = NonNull::new(run.cast()).ok_or_else(null_run)?;
        // SAFETY: the caller's promises.
        Ok(unsafe { self::pool(pool)?.free(run, order) }?)
    })
}

#[cold]
fn null_run() -> Failure {
    Failure(pageset_error::PAGESET_ERR_FOREIGN, "NULL cannot be freed: it is not in this pool".to_owned())
}

/// Takes up to `count` single pages into `pages`; returns how many came. 0 where none did, and pageset_last_error() says
/// why; 0 for a count of 0 is no failure.
///
/// # Safety
/// `pool` is as for pageset_alloc; `pages` is NULL or has room for `count` pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_alloc_bulk(pool: *const pageset_pool, pages: *mut *mut c_void, count: usize) -> usize {
    guard(|| {
        if pages.is_null() && count > 0 {
            return Err(Failure::argument("pages is NULL"));
        }
        // SAFETY: the caller's promise.
        let pool = unsafe { self::pool(pool)? };
        if count == 0 {
            return Ok(0);
        }
        // SAFETY: (1) there is room for as many, says the caller; (2) what is there need not be initialised.
        let pages = unsafe { slice::from_raw_parts_mut(pages.cast::<MaybeUninit<*mut c_void>>(), count) };
        Ok(pool.alloc_bulk_as(pages, |start| MaybeUninit::new(start.as_ptr().cast()))?)
    })
    .unwrap_or(0)
}

/// Gives `count` single pages back. All are checked before any is freed: where one is wrong its error is returned, as by
/// pageset_free, and none has been freed.
///
/// # Safety
/// `pool` is as for pageset_alloc; `pages` is NULL or has `count` pointers, which nothing refers to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_free_bulk(
    pool: *const pageset_pool,
    pages: *const *mut c_void,
    count: usize,
) -> pageset_error {
    code(|| {
        if pages.is_null() && count > 0 {
            return Err(Failure::argument("pages is NULL"));
        }
        // SAFETY: the caller's promise.
        let pool = unsafe { self::pool(pool)? };
        if count == 0 {
            return Ok(());
        }
        // SAFETY: there are as many, says the caller.
        let pages = unsafe { slice::from_raw_parts(pages, count) };
        // SAFETY: nothing refers to them, says the caller.
        let freed = unsafe { pool.free_bulk_as(pages, |page| page.addr()) };
        freed.map_err(|error| if error.address == 0 { null_run() } else { error.into() })
    })
}

/// Takes `bytes` in a row, of any size, rounded up to pages; they begin at a multiple of 2 MiB. For what lives long: takes
/// about a us for each MiB and empties the caches; where so many are not free in a row it looks at all of the pool, 10 to
/// 130 us for each GiB. To be freed with pageset_free_contig.
///
/// NULL on failure, and pageset_last_error() says why: so many are nowhere free in a row, 0 bytes, more than a node has,
/// no pool, a forked child.
///
/// # Safety
/// As pageset_alloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_alloc_contig(pool: *const pageset_pool, bytes: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    let run = slow_guard(|| Ok(unsafe { self::pool(pool) }?.alloc_contig(bytes)?));
    run.map_or(ptr::null_mut(), |run| run.cast().as_ptr())
}

/// Gives a run of pageset_alloc_contig back: `bytes` as they were asked for.
///
/// Errors as of pageset_free, for the first block in it that is wrong; nothing has changed then.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create; nothing refers to the run, and all of `bytes` is the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_free_contig(
    pool: *const pageset_pool,
    run: *mut c_void,
    bytes: usize,
) -> pageset_error {
    slow_code(|| {
        let start = NonNull::new(run.cast::<u8>()).ok_or_else(null_run)?;
        let rounded = bytes.checked_next_multiple_of(PAGE_BYTES).filter(|&bytes| bytes > 0);
        let rounded =
            rounded.ok_or_else(|| Failure::argument(format!("bytes is {bytes}; allowed: as it was taken")))?;
        // SAFETY: the caller's promises.
        Ok(unsafe { self::pool(pool)?.free_contig(NonNull::slice_from_raw_parts(start, rounded)) }?)
    })
}

/// Brings `bytes` more of the reserved address space into use, rounded up to 2 MiB for each node.
///
/// PAGESET_ERR_ARGUMENT for 0 or more than was reserved, PAGESET_ERR_SYSTEM where the system refuses.
///
/// # Safety
/// As pageset_alloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_grow(pool: *const pageset_pool, bytes: u64) -> pageset_error {
    // SAFETY: the caller's promise.
    slow_code(|| Ok(unsafe { self::pool(pool) }?.grow(bytes).map(drop)?))
}

/// Takes memory out of use at the end of each node's share, `bytes` rounded up to 2 MiB for each node, and gives it back to
/// the system; pageset_grow brings it into use again. Runs in use do not move. Who needs memory meanwhile waits for it.
///
/// PAGESET_ERR_ARGUMENT for 0 or where less than 2 MiB would be left of a node, PAGESET_ERR_IN_USE where a run is in the
/// way (the text says how much could go), PAGESET_ERR_SYSTEM where the system does not take memory back. The size stays.
///
/// # Safety
/// As pageset_alloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_shrink(pool: *const pageset_pool, bytes: u64) -> pageset_error {
    // SAFETY: the caller's promise.
    slow_code(|| Ok(unsafe { self::pool(pool) }?.shrink(bytes).map(drop)?))
}

/// To be called about once a second from each thread that uses the pool: lets the cache of its CPU shrink, and gives
/// memory back to the system as the options say.
///
/// PAGESET_ERR_SYSTEM where the system would not take memory back.
///
/// # Safety
/// As pageset_alloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_tick(pool: *const pageset_pool) -> pageset_error {
    // SAFETY: the caller's promise.
    slow_code(|| Ok(unsafe { self::pool(pool) }?.tick()?))
}

/// Empties the caches of all CPUs, so that what they hold merges into large runs.
///
/// # Safety
/// As pageset_alloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_drain(pool: *const pageset_pool) -> pageset_error {
    slow_code(|| {
        // SAFETY: the caller's promise.
        unsafe { self::pool(pool) }?.drain();
        Ok(())
    })
}

/// Gives free memory back to the system at once, up to `bytes` rounded up to 2 MiB; `*given`, which may be NULL, is how
/// many bytes were resident and went. Who needs memory meanwhile waits for it.
///
/// PAGESET_ERR_SYSTEM where the system would not take memory back.
///
/// # Safety
/// `pool` is as for pageset_alloc; `given` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_give_back(pool: *const pageset_pool, bytes: u64, given: *mut u64) -> pageset_error {
    slow_code(|| {
        // SAFETY: the caller's promise.
        let gone = unsafe { self::pool(pool) }?.give_back(bytes)?;
        if !given.is_null() {
            // SAFETY: can be written, says the caller.
            unsafe { given.write(gone) };
        }
        Ok(())
    })
}
