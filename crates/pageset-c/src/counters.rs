//! The functions that tell.

use std::ffi::{c_char, c_void};

use crate::error::{Failure, pageset_error, slow_code, slow_guard};
use crate::handle::{pageset_pool, pool};
use crate::sized::write_sized;

/// A pool's counters, in bytes unless a name says otherwise, as of some recent moment.
/// free + cached + in use = size.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct pageset_stats {
    /// What the pool has to give.
    pub size_bytes: u64,
    /// On its free lists.
    pub free_bytes: u64,
    /// In the caches of CPUs: free too.
    pub cached_bytes: u64,
    /// With callers.
    pub in_use_bytes: u64,
    /// Handed out since the start.
    pub alloc_bytes: u64,
    /// Taken back since the start.
    pub free_total_bytes: u64,
    /// Went back to the system since the start.
    pub given_back_bytes: u64,
    /// Address space of the books.
    pub metadata_bytes: u64,
    /// Allocations that failed.
    pub failed_allocs: u64,
    /// Times that the lock of a node's free lists was taken.
    pub lock_acquisitions: u64,
}

/// Writes the counters into `*stats`. Reads each CPU's, so it is not for every request. `size` is `sizeof *stats`: of a
/// structure that a later version has more in, a program that was built before it gets what it knows.
///
/// PAGESET_ERR_ARGUMENT where `stats` is NULL or `size` is less than that of the first version.
///
/// # Safety
/// `pool` is as for pageset_alloc; `stats` is NULL or has `size` bytes that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_get_stats(
    pool: *const pageset_pool,
    stats: *mut pageset_stats,
    size: usize,
) -> pageset_error {
    slow_code(|| {
        // SAFETY: the caller's promise.
        let all = unsafe { self::pool(pool) }?.stats();
        if stats.is_null() {
            return Err(Failure::argument("stats is NULL"));
        }
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
        };
        // SAFETY: (1) not NULL, so it has `size` bytes, says the caller; (2) zeros are counters.
        unsafe { write_sized(stats, value, size, "stats") }
    })
}

/// Writes how many bytes of the pool are resident, as the system says, into `*bytes`. Takes about 5 us for each 2 MiB.
///
/// PAGESET_ERR_SYSTEM where the system does not say.
///
/// # Safety
/// `pool` is as for pageset_alloc; `bytes` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_resident(pool: *const pageset_pool, bytes: *mut u64) -> pageset_error {
    slow_code(|| {
        // SAFETY: the caller's promise.
        let resident = unsafe { self::pool(pool) }?.resident_bytes()?;
        if bytes.is_null() {
            return Err(Failure::argument("bytes is NULL"));
        }
        // SAFETY: not NULL, so it can be written, says the caller.
        unsafe { bytes.write(resident) };
        Ok(())
    })
}

/// Writes the pool's zones and caches in the form of /proc/zoneinfo into `text`, at most `room` bytes with the zero byte
/// at its end; what does not fit is left out. Returns the bytes of the whole text without the zero byte. Where there is
/// no pool it returns 0, with an empty text. `text` may be NULL where `room` is 0.
///
/// # Safety
/// `pool` is as for pageset_alloc; `text` has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_zoneinfo(pool: *const pageset_pool, text: *mut c_char, room: usize) -> usize {
    let write = |all: &str| {
        if !text.is_null() && room > 0 {
            let fits = all.len().min(room - 1);
            // SAFETY: (1) there is room for `fits` bytes and a zero, says the caller; (2) the string is another piece
            // of memory.
            unsafe {
                std::ptr::copy_nonoverlapping(all.as_ptr(), text.cast(), fits);
                text.add(fits).write(0);
            }
        }
        all.len()
    };
    // SAFETY: the caller's promise.
    let all = slow_guard(|| Ok(unsafe { self::pool(pool) }?.zoneinfo().to_string()));
    write(&all.unwrap_or_default())
}

/// Where the pool's address space begins and how many bytes it has, the reserve included: for registering it with io_uring
/// or a device. See "Registered memory" in the documentation of pageset-host before doing so.
///
/// PAGESET_ERR_ARGUMENT where a pointer is NULL.
///
/// # Safety
/// `pool` is as for pageset_alloc; `start` and `bytes` are NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_address_space(
    pool: *const pageset_pool,
    start: *mut *mut c_void,
    bytes: *mut u64,
) -> pageset_error {
    slow_code(|| {
        // SAFETY: the caller's promise.
        let space = unsafe { self::pool(pool) }?.address_space();
        if start.is_null() || bytes.is_null() {
            return Err(Failure::argument("start or bytes is NULL"));
        }
        // SAFETY: neither is NULL, so both can be written, says the caller.
        unsafe {
            start.write(space.cast().as_ptr());
            bytes.write(space.len() as u64);
        }
        Ok(())
    })
}
