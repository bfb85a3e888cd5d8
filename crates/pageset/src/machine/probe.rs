//! What the allocator tells its machine: the memory that it touches, and why it takes a zone's lock.

use crate::frame::{CpuId, Pfn};

/// Which way a zone's lock is come to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockPath {
    /// To fill a pageset.
    Refill,
    /// To empty one.
    Drain,
    /// For a block taken past the pagesets.
    DirectAlloc,
    /// For a block given back past them.
    DirectFree,
    /// For changes of the map and of pageblocks' types, and for compaction.
    Map,
}

impl LockPath {
    /// How many ways there are.
    pub const COUNT: usize = 5;
}

/// A piece of memory that several CPUs write, about one cache line each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// The counters of a zone.
    Zone {
        /// The zone's index.
        zone: usize,
    },
    /// The head of a free list.
    FreeList {
        /// The zone's index.
        zone: usize,
        /// The order of its blocks.
        order: u8,
        /// The migratetype of its blocks.
        migratetype: u8,
    },
    /// A pageset.
    Pageset {
        /// The zone's index.
        zone: usize,
        /// Whose it is.
        cpu: CpuId,
    },
    /// The descriptor of an order-0 cluster; eight of them share a cache line.
    Cluster {
        /// The zone's index.
        zone: usize,
        /// The descriptor's number.
        number: u32,
    },
    /// The tag and links of a page.
    Page(Pfn),
}
