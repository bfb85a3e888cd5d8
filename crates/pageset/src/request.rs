//! What is asked of the allocator, and what it gives.

use crate::fallback::Wanted;
use crate::frame::{Order, Pfn};
use crate::migrate::MigrateType;
use crate::zone::{MarkTest, NodeId, ZoneKind};

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
    /// Whether it may go below the min mark by half.
    pub high_priority: bool,
    /// Whether the caller cannot wait, which with `high_priority` gives it another quarter.
    pub non_blocking: bool,
    /// Whether the marks count at all; off for the memory that frees memory.
    pub watermarks: bool,
    /// Whether CMA pageblocks may serve it.
    pub cma: bool,
}

impl Request {
    /// An ordinary request: movable pages from every zone, others from NORMAL down.
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
            high_priority: false,
            non_blocking: false,
            watermarks: true,
            cma: movable,
        }
    }

    pub(crate) const fn wanted(&self) -> Wanted {
        Wanted { order: self.order, migratetype: self.migratetype, cma: self.cma }
    }

    pub(crate) const fn mark_test(&self) -> MarkTest {
        MarkTest {
            order: self.order,
            highest: self.highest,
            high_priority: self.high_priority,
            non_blocking: self.non_blocking,
            cma: self.cma,
        }
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
