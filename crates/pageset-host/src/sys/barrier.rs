//! A memory barrier in all threads of the process, which one thread pays for (`membarrier`).

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, fence};

use rustix::thread::{MembarrierCommand, membarrier};

/// Orders memory accesses of all threads of the process: of each other thread, the call separates the accesses before some
/// moment during the call from those after it. Returns false where the system refuses; the call then orders the caller's only.
///
/// It takes 1 to 30 µs, and interrupts the CPUs that run other threads of the process. Linux 4.14.
pub(crate) fn barrier_in_all_threads() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    fence(Ordering::SeqCst);
    *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok())
        && membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}
