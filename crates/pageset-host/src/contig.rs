//! Contiguous runs of any size, beyond the largest order too.
//!
//! A run is looked for where memory is free, 2 MiB by 2 MiB, and then taken as a range: its pageblocks are isolated, so
//! that nobody else is served from them meanwhile, and caches are emptied. Nothing that is in use moves. For buffers
//! that live long, not for every request.
#![allow(unsafe_code, reason = "slices over the handle's own memory, and a raw free")]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use pageset::{Immovable, MigrateType, NodeId, Order, PageRange, Pfn};

use crate::builder::{self, CHUNK_BYTES};
use crate::error::{AllocError, FreeError, FreeReason};
use crate::pages::PoolRef;
use crate::pool::{PAGE_BYTES, PagePool, wrong_free};

/// How a page is looked at that may be free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FreeCheck {
    /// Quickly: where others merge blocks a free page may seem not to be.
    Racy,
    /// Where it seems not to be free, once more with the zone's lock.
    Locked,
}

impl PagePool {
    /// Takes `bytes` in a row, rounded up to pages, that begin at a multiple of 2 MiB: from the caller's node,
    /// or the nearest that has as many. They are the caller's until [`Self::free_contig`].
    ///
    /// Takes about a µs for each MiB that is had, with all caches emptied; where so many are not free in a row, 10 to 130
    /// µs for each GiB of the pool to find that out. Whoever finds no memory meanwhile waits for the outcome. Runs of
    /// up to 4 MiB are better had by [`Self::alloc`], which leaves caches alone.
    ///
    /// # Errors
    /// [`AllocError::ContigSize`] for 0 bytes or more than a node has, [`AllocError::NoContigRange`] where so many are nowhere free
    /// in a row, and [`AllocError::Forked`].
    pub fn alloc_contig(&self, bytes: usize) -> Result<NonNull<[u8]>, AllocError> {
        self.alloc_contig_where(bytes, |_| true)
    }

    /// As [`Self::alloc_contig`], from one node only.
    ///
    /// # Errors
    /// As there, and [`AllocError::UnknownNode`] where the pool has nothing of that node.
    pub fn alloc_contig_on(&self, node: NodeId, bytes: usize) -> Result<NonNull<[u8]>, AllocError> {
        let is_that = |part: usize| {
            let zone = self.allocator().zone_of(self.part(part, 0, 0).start);
            zone.is_some_and(|zone| self.allocator().zone_stats(zone).node == node)
        };
        if !self.is_forked() && !(0..self.nodes()).any(is_that) {
            return Err(AllocError::UnknownNode(node));
        }
        self.alloc_contig_where(bytes, is_that)
    }

    /// From any of the nodes that `wanted` says, by their places in the pool.
    fn alloc_contig_where(&self, bytes: usize, wanted: impl Fn(usize) -> bool) -> Result<NonNull<[u8]>, AllocError> {
        if self.is_forked() {
            return Err(AllocError::Forked);
        }
        // Relaxed: a pool that grows or shrinks meanwhile has either size.
        let share = self.share.load(Relaxed);
        if bytes == 0 || bytes > share {
            return Err(AllocError::ContigSize { bytes: bytes as u64, max_bytes: share as u64 });
        }
        let rounded = bytes.next_multiple_of(PAGE_BYTES);
        // While pageblocks are isolated others may find no memory, and wait for this; and no scan stands in its way.
        let _no_scan = self.scanner.pause_scans();
        let nodes = || self.allocator().zones_from_here().filter(|&node| wanted(node));
        let find = |look: FreeCheck| nodes().find_map(|node| self.alloc_contig_in(node, share, rounded, look));
        let found = find(FreeCheck::Racy).or_else(|| {
            // What caches hold keeps blocks from merging.
            self.drain_every_zone();
            find(FreeCheck::Locked)
        });
        found.map(|start| NonNull::slice_from_raw_parts(self.memory.at(start), rounded)).ok_or_else(|| {
            self.failed.fetch_add(1, Relaxed);
            let stats = self.stats();
            AllocError::NoContigRange { bytes: bytes as u64, free_bytes: stats.free_bytes + stats.cached_bytes }
        })
    }

    /// Takes the first range of a node's share that is free, by trying; the address of its start.
    fn alloc_contig_in(&self, node: usize, share: usize, bytes: usize, look: FreeCheck) -> Option<usize> {
        let start = self.memory.start() + node * self.span;
        let end = start + share;
        let mut at = start;
        while at <= end - bytes {
            let range = builder::pages(at, bytes);
            let taken = match self.first_page_in_use(range, look) {
                None => {
                    self.allocator().alloc_range(range, MigrateType::Movable, &Immovable).map_err(|error| error.pfn)
                }
                Some(pfn) => Err(pfn),
            };
            match taken {
                Ok(()) => return Some(at),
                // A block may begin before the range that it is in the way of.
                Err(pfn) => at = (pfn.0 as usize * PAGE_BYTES).max(at).saturating_add(1).next_multiple_of(CHUNK_BYTES),
            }
        }
        None
    }

    /// The first page of a range that is in no free block.
    fn first_page_in_use(&self, range: PageRange, look: FreeCheck) -> Option<Pfn> {
        let around = |pfn| {
            let seen = self.allocator().free_block_around(pfn);
            seen.or_else(|| {
                (look == FreeCheck::Locked).then(|| self.allocator().settled_free_block_around(pfn)).flatten()
            })
        };
        let mut pfn = range.start;
        while pfn < range.end() {
            match around(pfn) {
                Some(block) if block.end() > pfn => pfn = block.end(),
                _ => return Some(pfn),
            }
        }
        None
    }

    /// Gives a contiguous run back, on any thread. Runs that are neighbours may go back as one.
    ///
    /// # Safety
    /// Nothing refers to the run any more, and all of it is the caller's: of a run that is longer than it was taken the
    /// rest is freed as well, if it is in use.
    ///
    /// # Errors
    /// A wrong free, which has changed nothing: an address or a length that is not a multiple of a page (then the address
    /// in the error is the run's end), or the first block in it that is not in use or reaches beyond.
    pub unsafe fn free_contig(&self, run: NonNull<[u8]>) -> Result<(), FreeError> {
        let (address, bytes) = (run.cast::<u8>().addr().get(), run.len());
        if !(address | bytes).is_multiple_of(PAGE_BYTES) || self.is_forked() {
            let wrong = if address.is_multiple_of(PAGE_BYTES) { address + bytes } else { address };
            let reason = if self.is_forked() { FreeReason::Forked } else { FreeReason::NotAPage };
            return Err(FreeError { address: wrong, order: Order::ZERO, reason });
        }
        self.allocator().free_range(builder::pages(address, bytes)).map_err(wrong_free)
    }

    /// Takes `bytes` in a row that free themselves, and that may not outlive the pool.
    ///
    /// # Errors
    /// As [`Self::alloc_contig`].
    pub fn contig_pages(&self, bytes: usize) -> Result<ContigPages<&PagePool>, AllocError> {
        ContigPages::new(self, bytes)
    }

    /// Takes `bytes` in a row that free themselves and keep the pool.
    ///
    /// # Errors
    /// As [`Self::alloc_contig`].
    pub fn shared_contig_pages(self: &Arc<Self>, bytes: usize) -> Result<ContigPages<Arc<PagePool>>, AllocError> {
        ContigPages::new(Arc::clone(self), bytes)
    }
}

/// A contiguous run of any size, all its own; freed when it is dropped. As [`crate::Pages`] otherwise: what is in it at
/// first is what its last user left, or zeros, and in a forked child it frees nothing.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = pageset_host::PagePool::builder(64 << 20).build()?;
/// let mut ring = pool.contig_pages(10 << 20)?;
/// ring.fill(7);
/// assert_eq!((ring.len(), ring.as_ptr() as usize % (2 << 20)), (10 << 20, 0));
/// # Ok(())
/// # }
/// ```
pub struct ContigPages<P: PoolRef> {
    pool: P,
    run: NonNull<[u8]>,
}

// SAFETY: (1) the memory belongs to nobody else, and any thread may use and free it; (2) what else is in a handle may
// be sent by itself.
unsafe impl<P: PoolRef + Send> Send for ContigPages<P> {}
// SAFETY: (1) a shared handle only gives shared slices of bytes; (2) as above.
unsafe impl<P: PoolRef + Sync> Sync for ContigPages<P> {}

impl<P: PoolRef> ContigPages<P> {
    /// Takes `bytes` in a row, rounded up to pages, from a pool.
    ///
    /// # Errors
    /// As [`PagePool::alloc_contig`].
    pub fn new(pool: P, bytes: usize) -> Result<Self, AllocError> {
        let run = pool.alloc_contig(bytes)?;
        Ok(ContigPages { pool, run })
    }

    /// Makes a handle of a run that was taken with a raw call or came from [`Self::into_raw`].
    ///
    /// # Safety
    /// The run is the caller's, from this pool, whole, and nothing else will use or free it.
    pub unsafe fn from_raw(pool: P, run: NonNull<[u8]>) -> Self {
        ContigPages { pool, run }
    }

    /// Takes the run out of the handle, to be freed with [`PagePool::free_contig`].
    pub fn into_raw(self) -> NonNull<[u8]> {
        let this = ManuallyDrop::new(self);
        // SAFETY: (1) `this` is never dropped, so the pool's handle is read out once; (2) it is not used afterwards.
        drop(unsafe { std::ptr::read(&this.pool) });
        this.run
    }

    /// The pool that it is from.
    pub fn pool(&self) -> &PagePool {
        &self.pool
    }
}

impl<P: PoolRef> Deref for ContigPages<P> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: (1) the run is mapped for as long as the pool, which the handle refers to; (2) anonymous memory is
        // always initialised; (3) nobody else has the run, and writing takes the handle exclusively.
        unsafe { slice::from_raw_parts(self.run.as_ptr().cast(), self.run.len()) }
    }
}

impl<P: PoolRef> DerefMut for ContigPages<P> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in deref.
        unsafe { slice::from_raw_parts_mut(self.run.as_ptr().cast(), self.run.len()) }
    }
}

impl<P: PoolRef> AsRef<[u8]> for ContigPages<P> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<P: PoolRef> AsMut<[u8]> for ContigPages<P> {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl<P: PoolRef> Drop for ContigPages<P> {
    fn drop(&mut self) {
        // SAFETY: the run is the handle's, and the handle ends here.
        let freed = unsafe { self.pool.free_contig(self.run) };
        debug_assert!(freed.is_ok() || self.pool.is_forked(), "{freed:?}");
    }
}

impl<P: PoolRef> fmt::Debug for ContigPages<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContigPages").field("run", &self.run).finish_non_exhaustive()
    }
}
