//! Compaction: free blocks made by moving movable pages out of the way.
//!
//! Two scanners walk a zone towards each other. The migrate scanner starts at the zone's start and isolates the blocks
//! in use that the [`Owner`](crate::Owner) allows to move. The free scanner starts at the zone's end and takes free
//! blocks as move targets. When the scanners meet, the zone's start is free and the zone's end is full. Specification:
//! `linux-page-allocator.md` 7.
//!
//! The optional "fast" scanners (7.4 "Fast start", 7.5 last sentence) search the free lists for good pageblocks first.
//! They are not implemented: without them compaction finds the same blocks, later.
//!
//! # Races
//!
//! No lock is held while the owner is called, so every earlier reading may be out of date:
//!
//! - *A block is freed after the scanner read its tag and before its isolation.* The owner no longer knows the block
//!   and does not isolate it. A block that is freed and allocated again may have another order. The scanner therefore
//!   reads the tag again after the isolation, and puts the block back if its order differs from the owner's answer.
//! - *A block is freed after its isolation.* The owner's contract forbids this free until the block is moved or put
//!   back. If the owner breaks the contract, one of the two frees of the block is refused; there is no other effect.
//! - *The target block is freed at once.* From `Ok` on, the target belongs to the owner like any allocated block.
//!   Compaction does not touch it again.
//! - *A free block is taken after the scanner read its tag and before it holds the zone lock.* The scanner reads the
//!   tag again under the lock.
//! - *Free blocks that the free scanner took* are on no list and are tagged like blocks in a pageset. Nobody can free,
//!   take or merge them until compaction gives them to the owner or returns them.
//!
//! | module | contents |
//! | --- | --- |
//! | `memory` | scanner positions, skip bits, counters |
//! | [`suitable`], [`proactive`] | whether compaction can help, and whether it is due: numbers in, numbers out |
//! | `run` | one run over one zone: the main loop, block moves, the end |
//! | `blocks` | the blocks that a run holds |
//! | `migrate_scanner`, `free_scanner` | the scanners |
//! | `entry` | the public calls: compaction for a request, of a zone, of a node |

mod blocks;
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
    /// Waits little: a contended zone lock ends the run soon. For a request, scans only pageblocks of the request's own
    /// type. The first attempt.
    Async,
    /// Scans all pageblocks whose skip bit is clear.
    SyncLight,
    /// Scans all pageblocks, ignores skip bits, and is never deferred. The last resort.
    Sync,
}

impl CompactMode {
    /// Index of this mode's cached position of the migrate scanner.
    const fn slot(self) -> usize {
        match self {
            Self::Async => 0,
            Self::SyncLight | Self::Sync => 1,
        }
    }
}

/// How a compaction ended. A greater value is better for the request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum CompactOutcome {
    /// No zone was suitable: too little free memory to work with, or an order that needs no compaction.
    #[default]
    Skipped,
    /// Compaction of the zone is deferred after recent failures.
    Deferred,
    /// The scanners met after a whole zone, and no block of the order was made. A run that compacts everything ends
    /// like this.
    Complete,
    /// The scanners met after part of a zone, and no block of the order was made.
    PartialSkipped,
    /// The run stopped early: no target block was free, or another CPU wanted the zone lock.
    Contended,
    /// A block of the order is free, or was free from the start; or the zone reached the requested fragmentation score.
    Success,
}

/// What a compaction did and what it cost. Unit: pages; the two `_scanned` counters count looks at one page or block
/// each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompactReport {
    /// The best outcome of all zones.
    pub outcome: CompactOutcome,
    /// The requested block, already allocated for the caller. Often `None` although the outcome is success: the block
    /// is then on a free list, and another CPU may take it first.
    pub captured: Option<Pfn>,
    /// Looks of the migrate scanner.
    pub migrate_scanned: u64,
    /// Looks of the free scanner.
    pub free_scanned: u64,
    /// Pages that the owner isolated to be moved.
    pub isolated: u64,
    /// Free pages that were taken as move targets. Unused ones were returned.
    pub free_isolated: u64,
    /// Pages moved.
    pub moved: u64,
    /// Pages that were isolated and did not move.
    pub failed: u64,
}

impl CompactReport {
    /// Adds the report of another zone.
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
