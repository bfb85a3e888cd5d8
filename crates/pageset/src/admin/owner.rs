//! The owner of the pages in use: the calls that the slow paths make to it.
//!
//! Allocation and free never call the owner. Compaction and contiguous ranges move pages through the owner. The slow
//! path of an allocation asks the owner to free pages.

use crate::alloc::request::Request;
use crate::frame::{Order, Pfn};

/// The owner of the pages in use: a kernel's memory management, a buffer manager.
///
/// Each method is called without any of the allocator's locks, so it may allocate and free. Its arguments may be out of
/// date by the time it acts, and it may refuse. A panic ends the operation that called the method: isolated blocks stay
/// isolated, and a target of a move stays in use; nothing else is lost. Specification: `linux-page-allocator.md` 7,
/// "Callback contract".
pub trait Owner {
    /// Whether any block may move. If not, a search for a run of pages takes free memory only.
    fn moves(&self) -> bool {
        true
    }

    /// Takes a block out of use until [`Self::move_block`] or [`Self::put_back`]. Returns the order of the allocated
    /// block that begins at `pfn`. Returns `None` if the block cannot move now or no block begins there.
    fn isolate(&self, pfn: Pfn) -> Option<Order>;

    /// Moves an isolated block: its contents and all references to it. After `Ok` the owner uses `to` and never again
    /// `from`, which the caller frees.
    ///
    /// # Errors
    /// The block cannot move. It is still isolated and still at `from`; the owner does not keep `to`.
    fn move_block(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), MoveError>;

    /// Takes an isolated block into use again, at its old place.
    fn put_back(&self, pfn: Pfn, order: Order);

    /// Frees pages for a request that found none, and returns how many. [`crate::Allocator::alloc_with`] calls this,
    /// and calls it again if the freed pages were too few or of the wrong kind: at most 16 times in all, and never
    /// again after a result of 0.
    ///
    /// The reason for a result of 0 does not matter: free but fragmented memory is compacted all the same.
    fn reclaim(&self, request: &Request) -> u64 {
        let _ = request;
        0
    }

    /// Called between two steps of a long operation: before each pageblock that compaction scans, before each block in use of a
    /// range, before each piece of a range of the size of the largest block, and before each call of [`Self::reclaim`]. A kernel
    /// lets other threads run here.
    ///
    /// `false` ends the operation. A range is then not allocated ([`crate::Obstacle::Cancelled`]) and stays as it was, except
    /// that blocks may have moved. A compaction ends as [`crate::CompactOutcome::Contended`]. A request fails.
    fn keep_going(&self) -> bool {
        true
    }
}

/// An owner whose pages never move.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Immovable;

impl Owner for Immovable {
    fn moves(&self) -> bool {
        false
    }

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
    /// The block is in use in a way that prevents a move now; a later move may succeed.
    Busy,
    /// The owner had no memory for the move.
    NoMemory,
}
