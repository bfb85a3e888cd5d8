//! Signals of the threads that this library starts.

use std::mem::MaybeUninit;
use std::ptr;

/// Blocks all signals of the thread until it is dropped. A thread that starts meanwhile also blocks them, so that the
/// program's handlers do not run there.
pub(crate) struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    pub(crate) fn new() -> SignalsBlocked {
        let (mut all, mut former) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: (1) `sigfillset` initialises `all`, and cannot fail; (2) with a valid first argument the call cannot fail,
        // and initialises `former`; (3) it changes only the mask of this thread.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), former.as_mut_ptr());
            SignalsBlocked(former.assume_init())
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: (1) the set is the thread's former mask; (2) with NULL, the call writes no former mask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}
