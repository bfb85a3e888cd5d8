//! The locks of zones and of pagesets.
//!
//! A zone's lock is the kernel's own raw spinlock, with interrupts off while it is held: interrupts allocate and free. A pageset's
//! lock is one word that its CPU only tries, with preemption off and interrupts on. An interrupt that finds it held uses the zone's
//! lists.

use core::ffi::c_ulong;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use pageset::RawLock;

unsafe extern "C" {
    /// Takes a raw spinlock, and masks interrupts. Returns their state before.
    safe fn host_lock(lock: &AtomicU32) -> c_ulong;
    /// As `host_lock` if the lock is free. Returns whether it was; the state before is in `flags`.
    safe fn host_try_lock(lock: &AtomicU32, flags: &mut c_ulong) -> bool;
    /// Releases a raw spinlock, and gives interrupts the state `flags`.
    safe fn host_unlock(lock: &AtomicU32, flags: c_ulong);
}

/// The lock of a zone or of a pageset. One lock is never both.
#[derive(Debug, Default)]
pub(crate) struct KernelLock {
    /// 1 while a pageset's lock is held.
    pageset: AtomicU32,
    /// The kernel's raw spinlock of a zone. Zero is a free one.
    zone: AtomicU32,
    /// The state of interrupts before the holder of a zone's lock took it. Only the holder uses it.
    flags: AtomicUsize,
}

impl KernelLock {
    /// Takes the lock of a pageset if it is free. Preemption is off.
    #[inline(always)]
    pub(crate) fn try_lock_pageset(&self) -> bool {
        // Acquire: pairs with the release in unlock.
        self.pageset.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

impl RawLock for KernelLock {
    fn lock(&self) {
        // Relaxed: only the holder of the lock reads it.
        self.flags.store(host_lock(&self.zone) as usize, Ordering::Relaxed);
    }

    fn try_lock(&self) -> bool {
        let mut flags = 0;
        let taken = host_try_lock(&self.zone, &mut flags);
        if taken {
            // Relaxed: only the holder of the lock reads it.
            self.flags.store(flags as usize, Ordering::Relaxed);
        }
        taken
    }

    #[inline(always)]
    fn unlock(&self) {
        // Relaxed: the holder wrote it, and a zone's lock never has it.
        if self.pageset.load(Ordering::Relaxed) != 0 {
            // Release: pairs with the acquire in try_lock_pageset.
            self.pageset.store(0, Ordering::Release);
        } else {
            // Relaxed: the holder wrote it.
            host_unlock(&self.zone, self.flags.load(Ordering::Relaxed) as c_ulong);
        }
    }
}
