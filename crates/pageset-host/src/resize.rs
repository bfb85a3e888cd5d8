//! A pool that grows into its reserve.

use std::sync::atomic::Ordering::Relaxed;

use crate::builder::{self, CHUNK_BYTES};
use crate::error::BuildError;
use crate::pool::PagePool;

impl PagePool {
    /// Brings more of the reserved address space into use, rounded up to 2 MiB for each node; returns the new size.
    ///
    /// # Errors
    /// [`BuildError::Growth`] where that is more than was reserved, [`BuildError::Forked`], and what the system refuses of a
    /// pool with prefault; the size stays.
    pub fn grow(&self, bytes: u64) -> Result<u64, BuildError> {
        if self.is_forked() {
            return Err(BuildError::Forked);
        }
        let _resizing = self.resizing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let nodes = self.memory.bytes() / self.span;
        let share = self.share.load(Relaxed);
        let room = ((self.span - share) * nodes) as u64;
        if bytes == 0 || bytes > room {
            return Err(BuildError::Growth { bytes, max_bytes: room });
        }
        let more = bytes.div_ceil(nodes as u64).next_multiple_of(CHUNK_BYTES as u64) as usize;
        for node in (0..nodes).filter(|_| self.prefault) {
            let populated = self.memory.populate(node * self.span + share, more);
            populated.map_err(|error| builder::no_memory(more, error))?;
        }
        for node in 0..nodes {
            let range = builder::pages(self.memory.start() + node * self.span + share, more);
            self.allocator().online(range).map_err(BuildError::Rules)?;
        }
        // Relaxed: only read under the same lock.
        self.share.store(share + more, Relaxed);
        Ok(((share + more) * nodes) as u64)
    }
}
