//! The skip bits of pageblocks, and the counters of what compaction did. Specification: `linux-page-allocator.md` 7.1.

use super::CompactReport;
use crate::buddy::Env;
use crate::frame::PAGEBLOCK;
use crate::machine::{LockPath, Machine};
use crate::sync::{self, LockedWord};
use crate::zone::memory::Memory;
use crate::zone::{Zone, ZoneGuard};

/// Skip bits cleared in one hold of the zone lock. Unit: pageblocks. A guess: some microseconds.
const CLEARED_AT_ONCE: u32 = 4096;

impl Memory {
    /// Adds a run's report to the zone's counters.
    pub(super) fn count<M: Machine>(&self, report: &CompactReport, _held: &ZoneGuard<'_, '_, M>) {
        sync::add(&self.migrate_scanned, report.migrate_scanned);
        sync::add(&self.free_scanned, report.free_scanned);
        sync::add(&self.isolated, report.isolated + report.free_isolated);
        sync::add(&self.moved, report.moved);
        sync::add(&self.failed, report.failed);
    }
}

impl<M: Machine> Zone<'_, M> {
    /// Clears skip bits and scanner positions, if the scanners of a direct compaction have met since the last time.
    pub(super) fn forget_skipped(&self, env: Env<'_, M>) {
        if !self.compaction.flush.get() {
            return;
        }
        self.compaction.flush.set(false);
        self.compaction.start_over(&self.buddy.frames);
        let (at_once, len) = (CLEARED_AT_ONCE * PAGEBLOCK, self.buddy.frames.len());
        for from in (0..len).step_by(at_once as usize) {
            let zone = self.lock(env, LockPath::Map);
            for page in (from..len.min(from.saturating_add(at_once))).step_by(PAGEBLOCK as usize) {
                zone.frames.set_pageblock(page, zone.frames.pageblock(page).with_skip(false));
            }
        }
    }

    pub(super) fn set_skip(&self, env: Env<'_, M>, page: u32) {
        let zone = self.lock(env, LockPath::Map);
        zone.frames.set_pageblock(page, zone.frames.pageblock(page).with_skip(true));
    }
}
