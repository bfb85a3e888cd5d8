//! What holds during a call of the pool: allocations go to the system, and a panic ends the program.

use core::cell::Cell;
use core::mem;
use std::process;

std::thread_local! {
    /// Whether this thread is inside the pool or builds it. Has no destructor, so an access allocates nothing.
    static IN_POOL: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside the pool or builds it.
#[inline]
pub(super) fn is_in_pool() -> bool {
    IN_POOL.get()
}

/// Runs `work` while allocations of this thread go to the system's allocator: the slow paths of the pool may allocate.
#[inline]
pub(super) fn in_pool<R>(work: impl FnOnce() -> R) -> R {
    /// Restores the former value, also if `work` panics.
    struct Restore(bool);

    impl Drop for Restore {
        #[inline]
        fn drop(&mut self) {
            IN_POOL.set(self.0);
        }
    }

    let _restore = Restore(IN_POOL.replace(true));
    work()
}

/// As [`in_pool`], for the calls of the trait: a global allocator must not unwind, so a panic of `work` ends the program.
#[inline]
pub(super) fn without_unwinding<R>(work: impl FnOnce() -> R) -> R {
    /// Ends the program when it is dropped.
    struct Abort;

    impl Drop for Abort {
        fn drop(&mut self) {
            process::abort();
        }
    }

    let abort = Abort;
    let result = in_pool(work);
    mem::forget(abort);
    result
}
