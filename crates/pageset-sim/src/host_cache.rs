//! Prefetching into the host's cache. No simulated result depends on it.
//!
//! The state of a simulated page is rarely in the host's cache, because all other tasks touch their pages before a task
//! returns to its own. Where a list gives the next pages, the host can prefetch their states.

/// Prefetches `here` into the host's cache without waiting. This is a hint: only the host's run time depends on it.
#[inline(always)]
pub(crate) fn prefetch<T>(here: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the processor must have the instruction, and the address must be valid for it.
        // 1. The instruction is part of SSE, which every x86-64 has.
        // 2. It accepts any address, never faults and changes no visible state; this address comes from a reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(here).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = here;
}
