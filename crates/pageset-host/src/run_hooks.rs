//! What a pool does to the memory of a run when the run is allocated or freed.
//!
//! A hook takes the calls of its kind past the fast path, so a pool without hooks pays nothing. The hook of a free runs while
//! the run is neither in use nor free, so no other thread can own it.
#![allow(unsafe_code, reason = "only the pool knows that nobody owns a run")]

use std::ptr::NonNull;

use crate::sys::checkers::Checkers;
use crate::sys::mapping::Mapping;

/// The hooks of a pool.
#[derive(Clone, Debug)]
pub(crate) struct RunHooks {
    pub(crate) zero_on_free: bool,
    /// The checkers that learn of allocations and frees.
    checkers: Option<Checkers>,
}

impl Default for RunHooks {
    fn default() -> RunHooks {
        RunHooks { zero_on_free: false, checkers: Checkers::find() }
    }
}

impl RunHooks {
    /// Whether allocations have a hook.
    #[inline]
    pub(crate) fn has_alloc_hook(&self) -> bool {
        self.checkers.is_some()
    }

    #[inline]
    pub(crate) fn has_free_hook(&self) -> bool {
        self.zero_on_free || self.checkers.is_some()
    }

    /// Whether the bytes of free memory are zero. New memory and memory that went back to the system always are.
    pub(crate) fn free_memory_is_zero(&self) -> bool {
        self.zero_on_free
    }

    /// Tells the checkers of a new pool, all of whose memory is free.
    pub(crate) fn started(&self, pool: &Mapping) {
        if let Some(checkers) = &self.checkers {
            let start = pool.pointer_to(pool.start()).as_ptr();
            // SAFETY: no run is allocated yet.
            unsafe { checkers.started(start, pool.bytes()) };
        }
    }

    /// Tells the checkers that a pool is about to be unmapped.
    pub(crate) fn ended(&self, pool: &Mapping) {
        if let Some(checkers) = self.checkers.as_ref().filter(|_| pool.bytes() > 0) {
            checkers.ended(pool.pointer_to(pool.start()).as_ptr(), pool.bytes());
        }
    }

    /// The hook of an allocation. The caller of the pool does not have the run yet.
    #[inline]
    pub(crate) fn after_alloc(&self, pool: &Mapping, start: NonNull<u8>, bytes: usize) {
        if let Some(checkers) = &self.checkers {
            checkers.allocated(pool.pointer_to(pool.start()).as_ptr(), start.as_ptr(), bytes);
        }
    }

    /// The hook of a free. Safe in a signal handler.
    ///
    /// # Safety
    /// (1) The `bytes` at `start` are in the pool. (2) Nobody else owns them or refers to them.
    #[cold]
    pub(crate) unsafe fn before_free(&self, pool: &Mapping, start: NonNull<u8>, bytes: usize) {
        if self.zero_on_free {
            // SAFETY: the caller guarantees (1) mapped memory and (2) that no other thread uses it.
            unsafe { start.write_bytes(0, bytes) };
        }
        if let Some(checkers) = &self.checkers {
            // SAFETY: the caller guarantees that nobody uses the run.
            unsafe { checkers.freed(pool.pointer_to(pool.start()).as_ptr(), start.as_ptr(), bytes) };
        }
    }
}
