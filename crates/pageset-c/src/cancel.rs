//! Cancellation of threads. No call is a cancellation point.
//!
//! A module of its own: cbindgen does not read it, so the header does not declare the functions of the C library.

use std::ffi::c_int;

unsafe extern "C" {
    // POSIX. The `libc` crate declares it for other systems only.
    fn pthread_setcancelstate(state: c_int, former: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of glibc and musl.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// Disables cancellation of the thread until it is dropped. The value is the former state.
pub(crate) struct CancelDisabled(c_int);

impl CancelDisabled {
    pub(crate) fn new() -> CancelDisabled {
        let mut former = 0;
        // SAFETY: (1) `former` is a writable integer; (2) the call only changes the cancelability of this thread.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut former) };
        CancelDisabled(former)
    }
}

impl Drop for CancelDisabled {
    fn drop(&mut self) {
        // SAFETY: (1) with NULL, the call writes no former state; (2) it only changes the cancelability of this thread.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}
