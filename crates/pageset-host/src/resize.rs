//! A pool that grows into its reserve, and shrinks.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use pageset::{Immovable, PageRange, Pfn};

use crate::builder::{self, CHUNK_BYTES};
use crate::error::PoolError;
use crate::pool::{PAGE_BYTES, PagePool};

impl PagePool {
    /// Brings more of the reserved address space into use, rounded up to 2 MiB for each node; returns the new size.
    ///
    /// # Errors
    /// [`PoolError::GrowSize`] where that is more than was reserved, [`PoolError::Forked`], and what the system refuses of a
    /// pool with prefault; the size stays.
    pub fn grow(&self, bytes: u64) -> Result<u64, PoolError> {
        if self.is_forked() {
            return Err(PoolError::Forked);
        }
        let _resizing = self.resizing.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = self.nodes();
        let share = self.share.load(Relaxed);
        let room = ((self.span - share) * nodes) as u64;
        if bytes == 0 || bytes > room {
            return Err(PoolError::GrowSize { bytes, max_bytes: room });
        }
        let more = each_share(bytes, nodes);
        for node in (0..nodes).filter(|_| self.prefault) {
            let populated = self.memory.populate(node * self.span + share, more);
            populated.map_err(|error| builder::no_memory(more, error))?;
        }
        for node in 0..nodes {
            self.allocator().online(self.part(node, share, more)).map_err(PoolError::Config)?;
        }
        // Relaxed: only read under the same lock, or as a hint.
        self.share.store(share + more, Relaxed);
        Ok(((share + more) * nodes) as u64)
    }

    /// Takes memory out of use at the end of each node's share, rounded up to 2 MiB for each node, and gives it back to
    /// the system; returns the new size. [`Self::grow`] brings it into use again: the address space stays reserved.
    ///
    /// Runs in use do not move, so what is to go must be free. Empties the caches of the nodes' CPUs; whoever finds no
    /// memory meanwhile waits for the outcome: about 10 ms for each 64 MiB that are resident, 0.2 ms for those that are
    /// not.
    ///
    /// # Errors
    /// [`PoolError::ShrinkSize`] where less than that would be left of a node than 2 MiB, [`PoolError::InUse`] where a
    /// run is in the way, which says how much could go; [`PoolError::System`] where the system does not take the
    /// memory back, and [`PoolError::Forked`]. The size stays.
    pub fn shrink(&self, bytes: u64) -> Result<u64, PoolError> {
        if self.is_forked() {
            return Err(PoolError::Forked);
        }
        let _resizing = self.resizing.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = self.nodes();
        let share = self.share.load(Relaxed);
        let room = ((share - CHUNK_BYTES) * nodes) as u64;
        if bytes == 0 || bytes > room {
            return Err(PoolError::ShrinkSize { bytes, max_bytes: room });
        }
        let less = each_share(bytes, nodes);
        // While pageblocks are isolated others may find no memory, and wait for this.
        let _no_scan = self.scanner.pause_scans();
        let back = |nodes: usize| {
            // What was just taken off line comes back as it was.
            (0..nodes).try_for_each(|node| self.allocator().online(self.part(node, share - less, less)))
        };
        for node in 0..nodes {
            let part = self.part(node, share - less, less);
            if let Err(error) = self.allocator().offline(part, &Immovable) {
                back(node).map_err(PoolError::Config)?;
                let address = error.pfn.0 as usize * PAGE_BYTES;
                return Err(PoolError::InUse { bytes, address, max_bytes: self.free_at_end(share) });
            }
        }
        for node in 0..nodes {
            if let Err(error) = self.give_back_offline(node * self.span + share - less, less) {
                back(nodes).map_err(PoolError::Config)?;
                return Err(PoolError::System {
                    what: "giving memory back",
                    bytes: less as u64,
                    help: builder::GIVE_BACK_HELP,
                    error,
                });
            }
        }
        // Relaxed: as in grow.
        self.share.store(share - less, Relaxed);
        Ok(((share - less) * nodes) as u64)
    }

    /// How many nodes have a part of the memory.
    pub(crate) fn nodes(&self) -> usize {
        self.memory.bytes() / self.span
    }

    /// Pages of a node, by bytes from the start of its part.
    pub(crate) fn part(&self, node: usize, from: usize, bytes: usize) -> PageRange {
        builder::pages(self.memory.start() + node * self.span + from, bytes)
    }

    /// How much could be shrunk away now: what is free at the end of each node's share.
    fn free_at_end(&self, share: usize) -> u64 {
        self.drain_every_zone();
        let is_free =
            |pfn: Pfn| self.allocator().free_block_around(pfn).is_some_and(|block| block.pages >= CHUNK_PAGES);
        let free_chunks = |node| {
            let chunks = (1..share / CHUNK_BYTES).rev();
            chunks.take_while(|chunk| is_free(self.part(node, chunk * CHUNK_BYTES, CHUNK_BYTES).start)).count()
        };
        ((0..self.nodes()).map(free_chunks).min().unwrap_or(0) * CHUNK_BYTES * self.nodes()) as u64
    }

    #[allow(unsafe_code, reason = "only here is it known that the range is off line")]
    fn give_back_offline(&self, offset: usize, bytes: usize) -> std::io::Result<()> {
        let resident = self.memory.resident(offset, bytes)?;
        // SAFETY: all of the range has just been taken off line, so nobody has a run in it, nor gets one before
        // `resizing` is free again.
        unsafe { self.memory.give_back(offset, bytes)? };
        self.scanner.given_back_bytes.fetch_add(resident, Relaxed);
        Ok(())
    }
}

/// Pages of [`CHUNK_BYTES`].
const CHUNK_PAGES: u64 = (CHUNK_BYTES / PAGE_BYTES) as u64;

/// Bytes of each node's share, rounded up to what it is a multiple of.
fn each_share(bytes: u64, nodes: usize) -> usize {
    bytes.div_ceil(nodes as u64).next_multiple_of(CHUNK_BYTES as u64) as usize
}
