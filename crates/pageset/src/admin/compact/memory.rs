//! What a zone remembers from one compaction to the next: where the scanners go on, which pageblocks they pass over.
//!
//! Specification: `linux-page-allocator.md` 7.1. Written without a lock, but for the skip bits: a lost position is a few
//! pageblocks scanned again.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use super::{CompactMode, CompactReport};
use crate::frame::Frames;
use crate::frame::{Order, PAGEBLOCK, start_of};
use crate::machine::{LockPath, Machine};
use crate::sync::{self, Held};
use crate::zone::Zone;

/// Skip bits cleared in one hold of the zone lock. Unit: pageblocks. A guess: some microseconds.
const CLEARED_AT_ONCE: u32 = 4096;

/// A zone's part of compaction's memory. Positions are pages of the zone.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Where the migrate scanner goes on: an asynchronous one, others.
    migrate: [AtomicU32; 2],
    /// Where the free scanner does.
    free: AtomicU32,
    /// A direct compaction has seen the whole zone: skip bits are due to be forgotten when it is tried anew.
    flush: AtomicBool,
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
pub(super) fn last_pageblock(frames: &Frames<'_>) -> u32 {
    start_of(frames.end.saturating_sub(1), Order::PAGEBLOCK)
}

impl Memory {
    /// Where both scanners go on; positions outside the zone are put at its ends.
    pub(super) fn positions(&self, frames: &Frames<'_>, mode: CompactMode) -> (u32, u32) {
        let within = |page| (frames.first..frames.end).contains(&page);
        if !within(self.free.get()) {
            self.free.set(last_pageblock(frames));
        }
        let migrate = self.migrate[mode.slot()].get();
        if within(migrate) {
            return (migrate, self.free.get());
        }
        self.migrate.iter().for_each(|slot| slot.set(frames.first));
        (frames.first, self.free.get())
    }

    /// The scanners have met: the next run begins at the zone's ends.
    pub(super) fn start_over(&self, frames: &Frames<'_>) {
        self.migrate.iter().for_each(|slot| slot.set(frames.first));
        self.free.set(last_pageblock(frames));
    }

    /// A pageblock that ends at `page` needs no migrate scanner for a while.
    pub(super) fn advance_migrate(&self, page: u32, mode: CompactMode) {
        for slot in &self.migrate[..=mode.slot()] {
            // A position beyond the zone is none.
            if slot.get() == u32::MAX || slot.get() < page {
                slot.set(page);
            }
        }
    }

    /// The free scanner has seen all pageblocks above the one that begins at `page`.
    pub(super) fn lower_free(&self, page: u32) {
        self.free.set(self.free.get().min(page));
    }

    /// Unused free pages were given back to the pageblock that begins at `page`.
    pub(super) fn raise_free(&self, page: u32) {
        self.free.set(self.free.get().max(page));
    }

    /// A direct compaction found nothing in the whole zone.
    pub(super) fn wants_flush(&self) {
        self.flush.set(true);
    }

    /// Adds up what a run has done; under the zone lock.
    pub(super) fn count(&self, report: &CompactReport) {
        sync::add(&self.migrate_scanned, report.migrate_scanned);
        sync::add(&self.free_scanned, report.free_scanned);
        sync::add(&self.isolated, report.isolated + report.free_isolated);
        sync::add(&self.moved, report.moved);
        sync::add(&self.failed, report.failed);
    }
}

impl<M: Machine> Zone<'_, M> {
    /// Forgets skip bits and positions, if a direct compaction has seen the whole zone since the last time.
    pub(super) fn forget_skipped(&self, machine: &M) {
        if !self.compaction.flush.get() {
            return;
        }
        self.compaction.flush.set(false);
        self.compaction.start_over(&self.frames);
        let at_once = CLEARED_AT_ONCE * PAGEBLOCK;
        for from in (0..self.frames.len()).step_by(at_once as usize) {
            let _guard = self.lock(machine, LockPath::Map);
            for page in (from..self.frames.len().min(from.saturating_add(at_once))).step_by(PAGEBLOCK as usize) {
                self.frames.set_pageblock(page, self.frames.pageblock(page).with_skip(false));
            }
        }
    }

    /// Sets the skip bit of a pageblock.
    pub(super) fn set_skip(&self, machine: &M, page: u32) {
        let _guard = self.lock(machine, LockPath::Map);
        self.frames.set_pageblock(page, self.frames.pageblock(page).with_skip(true));
    }
}
