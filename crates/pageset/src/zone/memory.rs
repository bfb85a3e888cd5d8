//! What a zone remembers from one compaction to the next: where the scanners continue, and what they did.
//!
//! Specification: `linux-page-allocator.md` 7.1. Positions are written without a lock: a lost position is a few pageblocks
//! scanned again.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use crate::frame::{Frames, Order, start_of};
use crate::sync::LockedWord;

/// A zone's part of compaction's memory. Positions are pages of the zone.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Where the migrate scanner goes on: an asynchronous one, others.
    migrate: [AtomicU32; 2],
    /// Where the free scanner does.
    free: AtomicU32,
    /// A direct compaction has seen the whole zone: skip bits are due to be forgotten when it is tried anew.
    pub(crate) flush: AtomicBool,
    /// What was done, in pages, and attempts of requests by their result; under the zone lock.
    pub(crate) migrate_scanned: AtomicU64,
    pub(crate) free_scanned: AtomicU64,
    pub(crate) isolated: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) stalls: AtomicU64,
    pub(crate) successes: AtomicU64,
    pub(crate) failures: AtomicU64,
}

impl Default for Memory {
    fn default() -> Self {
        // Beyond every zone: the first run sets the positions to the zone's ends.
        let nowhere = || AtomicU32::new(u32::MAX);
        let zero = || AtomicU64::new(0);
        Memory {
            migrate: [nowhere(), nowhere()],
            free: nowhere(),
            flush: AtomicBool::new(false),
            migrate_scanned: zero(),
            free_scanned: zero(),
            isolated: zero(),
            moved: zero(),
            failed: zero(),
            stalls: zero(),
            successes: zero(),
            failures: zero(),
        }
    }
}

/// The start of a zone's last pageblock.
pub(crate) fn last_pageblock(frames: &Frames<'_>) -> u32 {
    start_of(frames.end.saturating_sub(1), Order::PAGEBLOCK)
}

impl Memory {
    /// Where both scanners continue; `slot` is 0 for an asynchronous migrate scanner, 1 for others. A position outside the
    /// zone is put at its end.
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

    /// The scanners have met: the next run begins at the zone's ends.
    pub(crate) fn start_over(&self, frames: &Frames<'_>) {
        self.migrate.iter().for_each(|slot| slot.set(frames.first));
        self.free.set(last_pageblock(frames));
    }

    /// A pageblock that ends at `page` needs no migrate scanner for a while.
    pub(crate) fn advance_migrate(&self, page: u32, slot: usize) {
        for position in &self.migrate[..=slot] {
            // A position beyond the zone is none.
            if position.get() == u32::MAX || position.get() < page {
                position.set(page);
            }
        }
    }

    /// The free scanner has seen all pageblocks above the one that begins at `page`.
    pub(crate) fn lower_free(&self, page: u32) {
        self.free.set(self.free.get().min(page));
    }

    /// Unused free pages were given back to the pageblock that begins at `page`.
    pub(crate) fn raise_free(&self, page: u32) {
        self.free.set(self.free.get().max(page));
    }

    /// A direct compaction found nothing in the whole zone.
    pub(crate) fn wants_flush(&self) {
        self.flush.set(true);
    }
}
