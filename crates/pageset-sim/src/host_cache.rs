//! The host's own cache, which nothing that is simulated depends on.
//!
//! What is known of a simulated page is seldom in it: a task comes back to its pages after all others have been
//! through theirs. Where a list says which pages come next, the host can fetch what is known of them meanwhile.

/// Asks the host to bring what is here into its cache, and waits for nothing. It need not: only time depends on it.
#[inline(always)]
pub(crate) fn fetch<T>(here: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint must be one that this processor has, on an address that it may be given.
        // 1. The instruction is part of SSE, which every x86-64 has.
        // 2. It takes any address, never faults, and changes nothing that the program could see; this is a reference's.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(here).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = here;
}
