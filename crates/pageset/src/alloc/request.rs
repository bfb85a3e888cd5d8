//! What is asked of the allocator, and what it gives.

use crate::frame::MigrateType;
use crate::frame::{NodeId, ZoneKind};
use crate::frame::{Order, Pfn};
use crate::zone::watermark::{MarkTest, Rights};

/// How far a request may go into what is kept for others. Counts on the slow path only: the first attempt keeps to the
/// low mark, whoever asks. Specification: `linux-page-allocator.md` 1.3.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Urgency {
    /// Not below the min mark.
    #[default]
    Ordinary,
    /// Below the min mark by half of it; a caller that cannot wait by another quarter of the rest, and above order 0 it
    /// may use the HIGHATOMIC pageblocks.
    High,
    /// By half of it, and single HIGHATOMIC pages where nothing else is left: for one that is about to give all its
    /// memory back.
    OomVictim,
}

/// What the caller may wait for. Each may wait for all that comes after it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Wait {
    /// For memory: [`crate::Allocator::alloc_with`] compacts and reclaims for it.
    #[default]
    Memory,
    /// For a zone's lock: the caller is in an interrupt, or must not call back into the owner. It may use HIGHATOMIC
    /// pageblocks where nothing else is left. In an interrupt that takes a [`crate::RawLock`] that keeps interrupts away
    /// while it is held.
    Lock,
    /// For nothing: the caller may have interrupted a holder of any lock. A lock that is not free is passed by. Such a
    /// request wakes nobody and has no rights to what is kept for others, whatever its urgency.
    Nothing,
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The size of the block.
    pub order: Order,
    /// The kind of use: one of the three ordinary types.
    pub migratetype: MigrateType,
    /// The highest zone that may serve it. Specification 1.1, "Zone selection".
    pub highest: ZoneKind,
    /// The node to begin at; that of the caller's CPU where none is given.
    pub node: Option<NodeId>,
    /// Whether only that node may serve it.
    pub this_node_only: bool,
    /// The only zone that may serve it, by its number in the map; any where none is given.
    pub zone: Option<usize>,
    /// How far it may go into what is kept for others.
    pub urgency: Urgency,
    /// What the caller may wait for.
    pub wait: Wait,
    /// Whether [`crate::Machine::wake_reclaim`] is told when it finds memory short.
    pub wakes_reclaim: bool,
    /// Whether the marks count at all; off for the memory that frees memory. Above every urgency.
    pub watermarks: bool,
    /// Whether CMA pageblocks may serve it.
    pub cma: bool,
}

impl Request {
    /// An ordinary request: movable pages from every zone, others from NORMAL down; it may wait for memory.
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

    /// What it may take of what is kept for others, on the slow path. Specification 1.3, 2.3 step 5.
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

    /// Whether it tells the owner that memory is short.
    pub(crate) const fn wakes(&self) -> bool {
        self.wakes_reclaim && !matches!(self.wait, Wait::Nothing)
    }

    /// Whether it passes the pageset by with `cma_skip`: CMA pages wait there among the movable ones, and it may not
    /// have one. Specification 2.3.
    pub(crate) const fn skips_for_cma(&self) -> bool {
        matches!(self.migratetype, MigrateType::Movable) && !self.cma
    }

    pub(crate) const fn mark_test(&self, rights: Rights) -> MarkTest {
        MarkTest { order: self.order, highest: self.highest, rights, cma: self.cma }
    }
}

/// A block: its first page and its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Block {
    /// The first page.
    pub pfn: Pfn,
    /// The order.
    pub order: Order,
}
