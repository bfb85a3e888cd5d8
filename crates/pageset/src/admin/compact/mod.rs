//! Compaction: free blocks made by moving movable pages out of the way.
//!
//! Two scanners walk a zone towards each other. The migrate scanner comes from its start and picks blocks in use that
//! the [`Owner`](crate::Owner) lets go of; the free scanner comes from its end and picks free blocks for them to move
//! to. Where they meet the zone's start is free and its end is full. Specification: `linux-page-allocator.md` 7.
//!
//! The optional "fast" scanners, which look for good pageblocks in the free lists first (7.4 "Fast start", 7.5 last
//! sentence), are left out: without them the same blocks are found, later.
//!
//! # What may happen meanwhile
//!
//! No lock is held while the owner is called, so all that was seen may have changed:
//!
//! - *A block is freed between the look at its tag and its isolation.* The owner does not know it any longer and does
//!   not isolate it. Freed and allocated again, it may have another order: after the isolation the tag is read again,
//!   and a block whose order is not what the owner says is put back.
//! - *A block is freed once it is isolated.* The owner has promised not to: it waits until the block is moved or put
//!   back. Where it breaks this, one of the two frees of the block is refused, and nothing else comes of it.
//! - *The new place is freed at once.* From `Ok` on it is the owner's like any allocated block; the compaction does not
//!   touch it any more.
//! - *A free block is taken between the look at its tag and the zone lock.* The tag is read again under the lock.
//! - *Free blocks that were picked* are on no list and tagged like those in a pageset: nobody can free, take or merge
//!   them until they are handed to the owner or given back.
//!
//! | module | what lives there |
//! | --- | --- |
//! | `memory` | where the scanners go on, which pageblocks they pass over |
//! | [`suitable`], [`proactive`] | whether it can help, whether it should: numbers in, numbers out |
//! | `run` | one run over one zone: the main loop and its end |
//! | `migrate_scanner`, `free_scanner` | the scanners |
//! | `entry` | what callers call: for a request, a zone, a node |

mod entry;
mod free_scanner;
mod memory;
mod migrate_scanner;
pub mod proactive;
mod run;
pub mod suitable;

use crate::frame::Pfn;

/// How much a compaction may do. Specification 7.3.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CompactMode {
    /// Does not wait, and for a request looks only at pageblocks of its own type. The first attempt.
    Async,
    /// Looks at everything that is not known to be useless.
    SyncLight,
    /// Looks at everything, whatever is known of it, and is not deferred. The last resort.
    Sync,
}

impl CompactMode {
    /// Which of the two remembered positions of the migrate scanner it uses.
    const fn slot(self) -> usize {
        match self {
            Self::Async => 0,
            Self::SyncLight | Self::Sync => 1,
        }
    }
}

/// How a compaction ended; later is better for the request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum CompactOutcome {
    /// No zone was suited: too little memory to work with, or an order that needs none.
    #[default]
    Skipped,
    /// It failed too often lately.
    Deferred,
    /// The scanners met after a whole zone; no block came of it. The end of a run that was to compact everything.
    Complete,
    /// The scanners met after a part of a zone.
    PartialSkipped,
    /// It gave up: no page to move to, or a lock that others wanted.
    Contended,
    /// A block of the order is there, or was from the start; or the zone is as little fragmented as was asked.
    Success,
}

/// What a compaction did and what it cost. Pages, but for the scanned: those are looks at one page or block each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompactReport {
    /// How it ended: the best of all zones.
    pub outcome: CompactOutcome,
    /// The block that was asked for, already allocated for the caller. Often there is none although the outcome is
    /// success: then the block is on a free list, and another may take it first.
    pub captured: Option<Pfn>,
    /// Looks of the migrate scanner.
    pub migrate_scanned: u64,
    /// Looks of the free scanner.
    pub free_scanned: u64,
    /// Pages that the owner isolated to be moved.
    pub isolated: u64,
    /// Free pages that were taken to move them to; what was not used went back.
    pub free_isolated: u64,
    /// Pages moved.
    pub moved: u64,
    /// Pages that were isolated and stayed.
    pub failed: u64,
}

impl CompactReport {
    /// Adds what was done in another zone.
    fn absorb(&mut self, other: &CompactReport) {
        self.outcome = self.outcome.max(other.outcome);
        self.captured = self.captured.or(other.captured);
        self.migrate_scanned += other.migrate_scanned;
        self.free_scanned += other.free_scanned;
        self.isolated += other.isolated;
        self.free_isolated += other.free_isolated;
        self.moved += other.moved;
        self.failed += other.failed;
    }
}
