//! Functions for memory that devices and other processes use: descriptors and offsets.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

use crate::error::{Failure, catch, pageset_error};
use crate::handle::{pageset_pool, pool};

/// What pageset_offset_of returns for an address outside the pool.
pub const PAGESET_NO_OFFSET: u64 = u64::MAX;

/// Returns the descriptor of shared memory. The pool owns it, so the program must not close it. Programs that this process
/// starts do not inherit it.
///
/// Send the descriptor to another process over a Unix socket (SCM_RIGHTS), and the offsets of runs with it. The process maps
/// it with `mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0)`; fstat tells the size, which never changes. The memory stays until
/// the last process unmaps it. Only this process can allocate and free runs. Nobody may write a run that is free.
///
/// -1 on failure: the memory is private, or no pool.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_memory_fd(pool: *const pageset_pool) -> c_int {
    let fd = catch(|| {
        // SAFETY: (1) the program guarantees a handle that no other thread destroys meanwhile; (2) this library makes no slices
        // of runs, and the program answers for its own accesses.
        let file = unsafe { self::pool(pool)?.memory().descriptor() };
        Ok(file.ok_or(Failure::NotShared)?.as_raw_fd())
    });
    fd.unwrap_or(-1)
}

/// Returns the offset of an address in the address space of the pool, in bytes. It is the same in each process that maps the
/// memory, and what AF_XDP calls the address of a frame.
///
/// PAGESET_NO_OFFSET on failure: the address is not in this pool, or no pool.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_offset_of(pool: *const pageset_pool, address: *const c_void) -> u64 {
    let offset: Result<u64, pageset_error> = catch(|| {
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        let pool = unsafe { self::pool(pool)? };
        let found = NonNull::new(address.cast_mut()).and_then(|address| pool.memory().offset_of(address.cast()));
        found.ok_or(Failure::NoOffset(address.addr()))
    });
    offset.unwrap_or(PAGESET_NO_OFFSET)
}

/// Returns the address at an offset in bytes: the reverse of pageset_offset_of. Only the owner of the run there may read or
/// write it.
///
/// NULL on failure: the offset is not below the size of the address space, or no pool.
///
/// # Safety
/// `pool` is NULL or came from pageset_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageset_at_offset(pool: *const pageset_pool, offset: u64) -> *mut c_void {
    let address = catch(|| {
        // SAFETY: the program guarantees a handle that no other thread destroys meanwhile.
        let pool = unsafe { self::pool(pool)? };
        let allowed = "an offset from pageset_offset_of";
        pool.memory().at_offset(offset).ok_or(Failure::OutOfRange { name: "offset", value: offset, allowed })
    });
    address.map_or(ptr::null_mut(), |address| address.as_ptr().cast())
}
