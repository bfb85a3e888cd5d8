//! The allocator's reports to its machine: the memory that it touches, and the zone locks that it takes.

use crate::frame::{CpuId, Pfn};

/// One report of [`Machine::probe`](super::Machine::probe).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The allocator is about to read or write this line.
    Touch(Line),
    /// The allocator fetches this line ahead of its use and does not wait for it.
    Prefetch(Line),
    /// The allocator is about to take the lock of a zone.
    ZoneLock {
        /// The zone's index.
        zone: usize,
        /// The reason.
        path: LockPath,
    },
}

/// The reason why a zone's lock is taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockPath {
    /// To refill a pageset.
    Refill,
    /// To drain a pageset.
    Drain,
    /// To allocate a block past the pagesets.
    DirectAlloc,
    /// To free a block past the pagesets.
    DirectFree,
    /// To change the memory map or a pageblock's type, or to compact.
    Map,
}

impl LockPath {
    /// The number of paths.
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
        /// The CPU that the pageset belongs to.
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
