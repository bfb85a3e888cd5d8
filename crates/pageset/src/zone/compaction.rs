//! Compaction's state in a zone between runs: the scanner positions, and counters.
//!
//! Specification: `linux-page-allocator.md` 7.1. Positions are written without a lock: a lost position is a few pageblocks
//! scanned again.

use core::sync::atomic::{AtomicBool, AtomicU32};

use crate::frame::{Frames, Order, start_of};
use crate::sync::{AtomicU64, LockedWord};

/// Compaction's state of one zone. Positions are page indexes in the zone.
#[derive(Debug)]
pub(crate) struct CompactionState {
    /// The positions of the migrate scanner: of async runs, of other runs.
    migrate: [AtomicU32; 2],
    /// The position of the free scanner.
    free: AtomicU32,
    /// The scanners of a direct compaction have met: skip bits are cleared when reclaim ends or the longest deferral is
    /// over.
    pub(crate) flush: AtomicBool,
    /// Counters of pages, and of attempts by result; written under the zone lock.
    pub(crate) migrate_scanned: AtomicU64,
    pub(crate) free_scanned: AtomicU64,
    pub(crate) isolated: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) stalls: AtomicU64,
    pub(crate) successes: AtomicU64,
    pub(crate) failures: AtomicU64,
}

/// Beyond every zone: the first run sets the positions to the zone's ends.
const NOWHERE: u32 = u32::MAX;

impl CompactionState {
    #[inline]
    pub(crate) const fn new() -> Self {
        CompactionState {
            migrate: [const { AtomicU32::new(NOWHERE) }; 2],
            free: AtomicU32::new(NOWHERE),
            flush: AtomicBool::new(false),
            migrate_scanned: AtomicU64::new(0),
            free_scanned: AtomicU64::new(0),
            isolated: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            successes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }
}

/// The start of a zone's last pageblock.
pub(crate) fn last_pageblock(frames: &Frames<'_>) -> u32 {
    start_of(frames.end.saturating_sub(1), Order::PAGEBLOCK)
}

impl CompactionState {
    /// The positions of both scanners. `slot` is 0 for an async migrate scanner, 1 for others. A scanner without a
    /// position inside the zone starts at its own end of the zone.
    pub(crate) fn positions(&self, frames: &Frames<'_>, slot: usize) -> (u32, u32) {
        let within = |page| (frames.first..frames.end).contains(&page);
        if !within(self.free.get()) {
            self.free.set(last_pageblock(frames));
        }
        let migrate = self.migrate[slot].get();
        if within(migrate) {
            return (migrate, self.free.get());
        }
        self.migrate.iter().for_each(|slot| slot.set(frames.first));
        (frames.first, self.free.get())
    }

    /// Resets the positions after the scanners have met: the next run begins at the zone's ends.
    pub(crate) fn start_over(&self, frames: &Frames<'_>) {
        self.migrate.iter().for_each(|slot| slot.set(frames.first));
        self.free.set(last_pageblock(frames));
    }

    /// Advances the migrate scanner behind a pageblock that ends at `page`.
    pub(crate) fn advance_migrate(&self, page: u32, slot: usize) {
        for position in &self.migrate[..=slot] {
            // A position outside the zone means no position.
            if position.get() == NOWHERE || position.get() < page {
                position.set(page);
            }
        }
    }

    /// Lowers the free scanner to the pageblock that begins at `page`.
    pub(crate) fn lower_free(&self, page: u32) {
        self.free.set(self.free.get().min(page));
    }

    /// Raises the free scanner to the pageblock that begins at `page`, to which unused targets were returned.
    pub(crate) fn raise_free(&self, page: u32) {
        self.free.set(self.free.get().max(page));
    }

    /// Requests a reset of the skip bits, after the scanners of a direct compaction have met.
    pub(crate) fn wants_flush(&self) {
        self.flush.set(true);
    }
}
