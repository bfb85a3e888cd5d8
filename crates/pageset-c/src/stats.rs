//! Functions that report the state of a pool.

use std::ffi::{c_char, c_void};

use crate::error::{catch_uncancelled, catch_uncancelled_code, not_null, pageset_error};
use crate::handle::{pageset_pool, pool};
use crate::versioned::{Versioned, write_sized};

/// The counters of a pool at a recent moment. free + cached + withheld + in use = size.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct pageset_stats {
    /// Size of the pool, without the reserve.
    pub size_bytes: u64,
    /// On the free lists, and in a block that is going back to the system.
    pub free_bytes: u64,
    /// Free, in the caches of CPUs or in deferred frees that are not complete.
    pub cached_bytes: u64,
    /// Owned by callers.
    pub in_use_bytes: u64,
    /// Allocated since the pool was created.
    pub alloc_bytes: u64,
    /// Freed since the pool was created.
    pub free_total_bytes: u64,
    /// Resident bytes that went back to the system since the pool was created.
    pub given_back_bytes: u64,
    /// Address space of the metadata.
    pub metadata_bytes: u64,
    /// Allocations that failed.
    pub failed_allocs: u64,
    /// Acquisitions of the locks of the free lists.
    pub lock_acquisitions: u64,
    /// Withheld, because the pool has a limit.
    pub withheld_bytes: u64,
}

// SAFETY: (1) any bytes are valid numbers; (2) all members have the same size, so there is no padding.
unsafe impl Versioned for pageset_stats {
    const FIRST_BYTES: usize = 80;
}

/// Writes the counters to `*stats`. The call visits the counters of each CPU, so do not make it for every request.
///
/// `size` is `sizeof *stats`. Later versions may add members at the end. A program that was built before gets the members
/// that it knows.
///
/// PAGESET_ERR_ARGUMENT if `stats` is NULL or `size` is less than that of the first version.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create. `stats` is NULL or has `size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_get_stats(
    pool: *const pageset_pool,
    stats: *mut pageset_stats,
    size: usize,
) -> pageset_error {
    catch_uncancelled_code(|| {
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        let all = unsafe { self::pool(pool) }?.stats();
        not_null(stats, "stats")?;
        let value = pageset_stats {
            size_bytes: all.size_bytes,
            free_bytes: all.free_bytes,
            cached_bytes: all.cached_bytes,
            in_use_bytes: all.in_use_bytes,
            alloc_bytes: all.alloc_bytes,
            free_total_bytes: all.free_total_bytes,
            given_back_bytes: all.given_back_bytes,
            metadata_bytes: all.metadata_bytes,
            failed_allocs: all.failed_allocs,
            lock_acquisitions: all.lock_acquisitions,
            withheld_bytes: all.withheld_bytes,
        };
        // SAFETY: (1) `stats` is not NULL, so the program guarantees `size` writable bytes; (2) zeros are valid counters.
        unsafe { write_sized(stats, value, size, "stats") }
    })
}

/// Asks the system how many bytes of the pool are resident, and writes them to `*bytes`. Takes about 5 us for each resident
/// 2 MiB.
///
/// PAGESET_ERR_ARGUMENT if `bytes` is NULL, and PAGESET_ERR_SYSTEM if the system call fails.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create. `bytes` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_resident(pool: *const pageset_pool, bytes: *mut u64) -> pageset_error {
    catch_uncancelled_code(|| {
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        let resident = unsafe { self::pool(pool) }?.memory().resident_bytes()?;
        not_null(bytes, "bytes")?;
        // SAFETY: `bytes` is not NULL, so the program guarantees that it is writable.
        unsafe { bytes.write(resident) };
        Ok(())
    })
}

/// Writes the zones and caches of the pool to `text` in the format of /proc/zoneinfo. Returns the length of the whole text
/// without the zero byte.
///
/// The call writes at most `room` bytes, including the zero byte, and truncates a longer text. `text` may be NULL if `room`
/// is 0. Without a pool, the text is empty and the result is 0.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create. `text` is NULL or has `room` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_zoneinfo(pool: *const pageset_pool, text: *mut c_char, room: usize) -> usize {
    let write = |all: &str| {
        if !text.is_null() && room > 0 {
            let fits = all.len().min(room - 1);
            // SAFETY: (1) the program guarantees `room` writable bytes, enough for `fits` bytes and a zero; (2) the string is
            // in other memory.
            unsafe {
                std::ptr::copy_nonoverlapping(all.as_ptr(), text.cast(), fits);
                text.add(fits).write(0);
            }
        }
        all.len()
    };
    // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
    let all = catch_uncancelled(|| Ok(unsafe { self::pool(pool) }?.zoneinfo().to_string()));
    write(&all.unwrap_or_default())
}

/// Writes the start and the length of the address space of all runs, including the reserve. They serve to register the
/// memory with io_uring or a device. "Registered memory" in the documentation of pageset-host says what to observe.
///
/// PAGESET_ERR_ARGUMENT if a pointer is NULL.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create. `start` and `bytes` are NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_address_space(
    pool: *const pageset_pool,
    start: *mut *mut c_void,
    bytes: *mut u64,
) -> pageset_error {
    catch_uncancelled_code(|| {
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        let space = unsafe { self::pool(pool) }?.memory().address_space();
        not_null(start, "start")?;
        not_null(bytes, "bytes")?;
        // SAFETY: neither is NULL, so the program guarantees that both are writable.
        unsafe {
            start.write(space.cast().as_ptr());
            bytes.write(space.len() as u64);
        }
        Ok(())
    })
}
