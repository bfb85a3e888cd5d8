//! Page frames: numbers, orders, migratetypes, and the metadata of each page. Uses no other layer.

pub(crate) mod frames;
mod ids;
mod migratetype;
pub(crate) mod pageblock;
pub(crate) mod range;
mod tag;

use core::fmt;

pub(crate) use frames::{Frames, Links};
pub use ids::{CpuId, NodeId, ZoneKind};
pub use migratetype::MigrateType;
pub use range::PageRange;
pub use tag::PageState;
pub(crate) use tag::Tag;

/// A page frame number: the address of a page divided by the page size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Pfn(pub u64);

impl Pfn {
    /// The frame `pages` after this one.
    #[must_use]
    pub const fn offset(self, pages: u64) -> Pfn {
        Pfn(self.0 + pages)
    }

    /// Whether a block of `order` may start here: blocks are naturally aligned.
    #[must_use]
    pub const fn is_aligned(self, order: Order) -> bool {
        self.0 & (order.pages() - 1) == 0
    }

    /// The start of the block of `order` that this frame lies in.
    #[must_use]
    pub const fn align_down(self, order: Order) -> Pfn {
        Pfn(self.0 & !(order.pages() - 1))
    }
}

impl fmt::Debug for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pfn({:#x})", self.0)
    }
}

/// Hexadecimal, as the kernel prints a frame number.
impl fmt::Display for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The size of a block as a power of two of pages: 0 (one page) to 10 (1024 pages).
///
/// Specification: `linux-page-allocator.md` 1.4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Order(u8);

impl Order {
    /// One page.
    pub const ZERO: Order = Order(0);
    /// The largest block: 1024 pages, 4 MiB. Unit: power of two of pages. Source: specification 1.4.
    pub const MAX: Order = Order(10);
    /// The number of orders.
    pub const COUNT: usize = 11;
    /// The largest order that is expected to succeed without compaction. Source: specification 9.
    pub const COSTLY: Order = Order(3);
    /// The order of a pageblock, the unit of grouping by mobility, and of a huge page: 512 pages, 2 MiB on x86-64.
    pub const PAGEBLOCK: Order = Order(9);

    /// The order `order`; `None` above [`Order::MAX`].
    #[must_use]
    pub const fn new(order: u8) -> Option<Order> {
        if order <= Self::MAX.0 { Some(Order(order)) } else { None }
    }

    /// Base pages in a block of this order.
    #[must_use]
    pub const fn pages(self) -> u64 {
        1 << self.0
    }

    /// The order in the low bits of a tag. Only valid orders are ever written there.
    pub(super) const fn from_bits(bits: u8) -> Order {
        Order(bits)
    }

    /// The order as a plain number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The order as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// All orders, smallest first.
    pub fn all() -> impl DoubleEndedIterator<Item = Order> + ExactSizeIterator {
        (0..Self::COUNT as u8).map(Order)
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Order({})", self.0)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Pages of a pageblock.
pub(crate) const PAGEBLOCK: u32 = Order::PAGEBLOCK.pages() as u32;

/// The first page of the naturally aligned block of `order` around a page of a zone, whether or not such a block
/// exists.
pub(crate) const fn start_of(page: u32, order: Order) -> u32 {
    page & !(order.pages() as u32 - 1)
}
