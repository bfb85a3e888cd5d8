//! The sizes of contiguous runs in use.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::error::{FreeError, FreeReason};

/// The contiguous runs in use: the address of each and its size in bytes.
///
/// The allocator sees a run as blocks in use, and does not know where it ends. Lock order: after the locks of the scanner,
/// before those of zones.
#[derive(Debug, Default)]
pub(crate) struct ContigRuns(Mutex<BTreeMap<usize, usize>>);

impl ContigRuns {
    /// Adds a run that was just allocated.
    pub(crate) fn add(&self, start: usize, bytes: usize) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A run that overlaps the new one is no longer in use: a caller freed its blocks one by one.
        while let Some((&former, _)) = runs.range(..start + bytes).next_back().filter(|(at, size)| *at + *size > start)
        {
            runs.remove(&former);
        }
        runs.insert(start, bytes);
    }

    /// Removes the run of `bytes` at `start` if `free` succeeds. `what_is_there` gives the reason where no run starts or
    /// lies.
    pub(crate) fn remove(
        &self,
        start: usize,
        bytes: usize,
        free: impl FnOnce() -> Result<(), FreeError>,
        what_is_there: impl FnOnce() -> FreeReason,
    ) -> Result<(), FreeError> {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reason = match runs.range(..=start).next_back() {
            Some((&at, &actual)) if at == start && actual == bytes => {
                // Under the lock, so that no other thread frees the run, or adds the next one there.
                free()?;
                runs.remove(&start);
                return Ok(());
            }
            Some((&at, &actual)) if at == start => FreeReason::ContigSize { bytes, actual },
            Some((&at, &actual)) if start < at + actual => FreeReason::InsideContig { start: at, bytes: actual },
            _ => what_is_there(),
        };
        Err(FreeError { address: start, order: None, reason })
    }
}
