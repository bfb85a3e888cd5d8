//! Allocation requests, and the blocks that come back.

use crate::frame::{MigrateType, NodeId, Order, Pfn, ZoneKind};
use crate::zone::watermark::{MarkTest, Rights};

/// How far a request may go into the reserves. Counts on the slow path only: the first attempt uses the low mark for
/// every urgency. Specification: `linux-page-allocator.md` 1.3.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Urgency {
    /// Stays above the min mark.
    #[default]
    Ordinary,
    /// May go down to half of the min mark; a caller that cannot wait, to three eighths. The latter may also use the
    /// HIGHATOMIC pageblocks above order 0.
    High,
    /// May go down to half of the min mark, and use single HIGHATOMIC pages if nothing else is left: for a task that is
    /// about to free all its memory.
    OomVictim,
}

/// What the caller may wait for. Each value includes the values after it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Wait {
    /// Memory: [`crate::Allocator::alloc_with`] compacts and reclaims for the request.
    #[default]
    Memory,
    /// A zone's lock: the caller is in an interrupt, or must not call the owner. May use HIGHATOMIC pageblocks if
    /// nothing else is left. Use in an interrupt requires a [`crate::RawLock`] that disables interrupts while it is
    /// held. Under [`crate::Tuning::drain_for_requests`], before it fails, it drains the pagesets of other CPUs whose locks
    /// are free, and frees depots and bitmaps. A pageset whose lock is held at that moment keeps its pages.
    Lock,
    /// Nothing: the caller may have interrupted a holder of any lock. The request skips locks that are held, does not
    /// wake reclaim, and may not use the reserves, whatever its urgency. It takes a block from the pageset of its CPU, from a free list
    /// or a bitmap, or a block of its order and type from a depot. It drains nothing. It may fail while the pagesets of other CPUs
    /// or depots have pages, and while another CPU holds a lock.
    Nothing,
}

/// An allocation request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The order of the block.
    pub order: Order,
    /// The migratetype: one of the three ordinary types.
    pub migratetype: MigrateType,
    /// The highest zone that may serve the request. Specification 1.1, "Zone selection".
    pub highest: ZoneKind,
    /// The node whose zonelist is used; `None` for the node of the caller's CPU.
    pub node: Option<NodeId>,
    /// Whether only that node may serve the request.
    pub this_node_only: bool,
    /// The number of the only zone that may serve the request; `None` for any.
    pub zone: Option<usize>,
    /// How far the request may go into the reserves.
    pub urgency: Urgency,
    /// What the caller may wait for.
    pub wait: Wait,
    /// Whether the request calls [`crate::Machine::wake_reclaim`] when a zone is below its low mark.
    pub wakes_reclaim: bool,
    /// Whether the watermarks apply. Off only for requests that free memory themselves. Overrides every urgency.
    pub watermarks: bool,
    /// Whether CMA pageblocks may serve the request.
    pub cma: bool,
}

impl Request {
    /// An ordinary request that may wait for memory: movable pages from every zone, other types from NORMAL down.
    #[must_use]
    pub const fn new(order: Order, migratetype: MigrateType) -> Self {
        let movable = matches!(migratetype, MigrateType::Movable);
        Request {
            order,
            migratetype,
            highest: if movable { ZoneKind::Movable } else { ZoneKind::Normal },
            node: None,
            this_node_only: false,
            zone: None,
            urgency: Urgency::Ordinary,
            wait: Wait::Memory,
            wakes_reclaim: true,
            watermarks: true,
            cma: movable,
        }
    }

    /// The request's rights to the reserves on the slow path. Specification 1.3, 2.3 step 5.
    pub(crate) const fn rights(&self) -> Rights {
        let non_blocking = matches!(self.wait, Wait::Lock);
        let high = matches!(self.urgency, Urgency::High);
        let all = Rights {
            high,
            non_blocking,
            oom_victim: matches!(self.urgency, Urgency::OomVictim),
            highatomic: high && non_blocking && self.order.get() > 0,
        };
        if matches!(self.wait, Wait::Nothing) { Rights::NONE } else { all }
    }

    /// Whether the request wakes reclaim.
    pub(crate) const fn wakes(&self) -> bool {
        self.wakes_reclaim && !matches!(self.wait, Wait::Nothing)
    }

    /// Whether the request bypasses the pageset under `cma_skip`: the movable lists also hold CMA pages, which this
    /// request may not use. Specification 2.3.
    pub(crate) const fn skips_for_cma(&self) -> bool {
        matches!(self.migratetype, MigrateType::Movable) && !self.cma
    }

    pub(crate) const fn mark_test(&self, rights: Rights) -> MarkTest {
        MarkTest { order: self.order, highest: self.highest, rights, cma: self.cma }
    }
}

/// Where allocated pages come from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum AllocFrom {
    /// The caller's pageset, where the order is cached. As [`crate::Allocator::alloc`].
    #[default]
    Pageset,
    /// The buddy: for pages that are kept for long. Holds the zone lock.
    Buddy,
    /// A search over the zones, page by page: the first run of pages at a multiple of the alignment and of a pageblock. If no such memory
    /// is free, all pagesets drain, and then blocks move, if the owner moves any. Ignores the marks. Waits for what
    /// [`crate::Allocator::alloc_range`] waits for, so only requests with [`Wait::Memory`] search; others find nothing.
    Search,
}

/// A block: its first page and its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Block {
    /// The first page.
    pub pfn: Pfn,
    /// The order.
    pub order: Order,
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::frame::Pfn {}
    impl Sealed for core::ptr::NonNull<u8> {}
    impl Sealed for *mut core::ffi::c_void {}
}

/// The first page of a block that [`crate::Allocator::free_bulk_of`] frees: by its number, or by the address of its first byte.
///
/// Sealed: a call reads each handle more than once, and another type could answer differently each time.
pub trait PageHandle: sealed::Sealed {
    /// The page.
    fn pfn(&self) -> Pfn;
}

impl PageHandle for Pfn {
    #[inline(always)]
    fn pfn(&self) -> Pfn {
        *self
    }
}

impl PageHandle for core::ptr::NonNull<u8> {
    #[inline(always)]
    fn pfn(&self) -> Pfn {
        Pfn::at_address(self.addr().get())
    }
}

impl PageHandle for *mut core::ffi::c_void {
    #[inline(always)]
    fn pfn(&self) -> Pfn {
        Pfn::at_address(self.addr())
    }
}
