//! Who the pages belong to: what the slow paths ask of the owner of memory.
//!
//! Allocation and free never call it. Compaction and contiguous ranges move pages through it, the slow path of an
//! allocation asks it to give pages back.

use crate::alloc::request::Request;
use crate::frame::{Order, Pfn};

/// The owner of the pages in use: a kernel's memory management, a buffer manager.
///
/// Called without any of the allocator's locks, so each call may allocate and free; what it was told may have changed by
/// the time it acts, and every call may refuse. A call that panics ends what it was called for: blocks that were isolated
/// stay so, and a block that it was to move to stays in use; nothing else is lost. Specification:
/// `linux-page-allocator.md` 7, "Callback contract".
pub trait Owner {
    /// Takes a block out of use until [`Self::move_block`] or [`Self::put_back`]: the order of the allocated block that
    /// begins at `pfn`, or nothing where it cannot be moved now or begins elsewhere.
    fn isolate(&self, pfn: Pfn) -> Option<Order>;

    /// Moves an isolated block: its contents and all that refers to it. After `Ok` the owner uses `to` and never again
    /// `from`, which the caller frees.
    ///
    /// # Errors
    /// It cannot be moved. The block is still isolated and still at `from`; `to` was not kept.
    fn move_block(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), MoveError>;

    /// Takes an isolated block into use again, where it was.
    fn put_back(&self, pfn: Pfn, order: Order);

    /// Frees pages that can be done without, for a request that found none; returns how many. Called by
    /// [`crate::Allocator::alloc_with`], again after pages that were not enough or not of the right kind, at most 16 times
    /// in all; never again once it gave none.
    ///
    /// One that gives none is not asked why: where memory is free and only scattered, it is compacted all the same.
    fn reclaim(&self, request: &Request) -> u64 {
        let _ = request;
        0
    }
}

/// An owner whose pages stay where they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Immovable;

impl Owner for Immovable {
    fn isolate(&self, _pfn: Pfn) -> Option<Order> {
        None
    }

    fn move_block(&self, _from: Pfn, _to: Pfn, _order: Order) -> Result<(), MoveError> {
        Err(MoveError::Busy)
    }

    fn put_back(&self, _pfn: Pfn, _order: Order) {}
}

/// Why a block was not moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveError {
    /// It is in use in a way that holds it where it is; another time it may move.
    Busy,
    /// The owner had no memory for what the move needs.
    NoMemory,
}
