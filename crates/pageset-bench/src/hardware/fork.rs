//! Child processes that run a function of this program.
#![allow(unsafe_code, reason = "fork")]

use std::io;

/// A child process. It must be waited for.
#[derive(Debug)]
pub(super) struct Child(libc::pid_t);

impl Child {
    /// Runs `work` in a child process, which then exits.
    ///
    /// # Safety
    /// `work` calls only what is safe in a signal handler: it neither allocates, nor locks, nor panics. Other threads of
    /// this process may hold any lock in the moment of the fork.
    pub(super) unsafe fn run(work: impl FnOnce()) -> io::Result<Child> {
        // SAFETY: the child calls only `work`, see above, and `_exit`.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                work();
                // SAFETY: the call does not return.
                unsafe { libc::_exit(0) }
            }
            child => Ok(Child(child)),
        }
    }

    /// Waits for the end of the child. Returns whether it ended by itself.
    pub(super) fn wait(self) -> bool {
        let mut status = 0;
        loop {
            // SAFETY: `status` is valid for writes.
            let ended = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
            if ended == self.0 {
                return libc::WIFEXITED(status);
            }
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return false;
            }
        }
    }
}
