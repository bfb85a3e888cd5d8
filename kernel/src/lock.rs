//! The lock of zones and pagesets. It masks interrupts while it is held.
//!
//! Interrupts allocate and free. An interrupt that interrupted the holder of a lock would wait for it forever, on the same CPU. So
//! the holder has interrupts off. The lock itself keeps the flag that tells whether they were on before.
//!
//! Two features plant a bug here. A run must find it:
//!
//! | feature | bug | found as |
//! | --- | --- | --- |
//! | `planted-missing-mask` | interrupts stay on | a CPU that waits for a lock that it holds |
//! | `planted-missing-lock` | `lock` never waits, so two CPUs get in | a block with two owners, a wrong free, or a failed audit |

use core::hint;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pageset::RawLock;
use x86_64::instructions::interrupts;

use crate::cpu;

/// A lock that masks interrupts on its holder's CPU.
#[derive(Debug, Default)]
pub struct MaskingLock {
    /// The number of the CPU that holds the lock, plus 1; 0 for a free lock.
    holder: AtomicU32,
    /// Whether interrupts were on when the holder took the lock. Only the holder uses it.
    interrupts_were_on: AtomicBool,
}

impl RawLock for MaskingLock {
    #[inline]
    fn lock(&self) {
        while !self.try_lock() {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let were_on = !cfg!(feature = "planted-missing-mask") && mask();
        // Acquire: pairs with the release in unlock.
        let taken = self.holder.compare_exchange(0, me(), Ordering::Acquire, Ordering::Relaxed).is_ok();
        if taken || cfg!(feature = "planted-missing-lock") {
            // Relaxed: an NMI that comes before this store finds the lock held.
            self.interrupts_were_on.store(were_on, Ordering::Relaxed);
            return true;
        }
        unmask(were_on);
        false
    }

    #[inline]
    fn unlock(&self) {
        // Relaxed: this CPU wrote it. It is read before the release: the next holder overwrites it.
        let were_on = self.interrupts_were_on.load(Ordering::Relaxed);
        // Release: pairs with the acquire in try_lock.
        self.holder.store(0, Ordering::Release);
        unmask(were_on);
    }
}

impl MaskingLock {
    /// Waits until the lock is free, with interrupts as the caller has them.
    ///
    /// # Panics
    /// The current CPU holds the lock: it would wait forever.
    #[cold]
    fn wait(&self) {
        // Relaxed: only waits; try_lock acquires.
        while let holder @ 1.. = self.holder.load(Ordering::Relaxed) {
            assert!(holder != me(), "deadlock: {} waits for a lock that it holds", cpu::number());
            hint::spin_loop();
        }
    }
}

/// The current CPU as a holder.
#[inline(always)]
fn me() -> u32 {
    cpu::number().0 + 1
}

/// Turns interrupts off. Returns whether they were on.
#[inline(always)]
fn mask() -> bool {
    let were_on = interrupts::are_enabled();
    interrupts::disable();
    were_on
}

/// Turns interrupts on if they were on before [`mask`].
#[inline(always)]
fn unmask(were_on: bool) {
    if were_on {
        interrupts::enable();
    }
}
