//! Page frames: numbers, orders, migratetypes and ranges; the numbers of CPUs and nodes, and the kinds of zones; the metadata
//! of each page. Uses no other layer.
//!
//! | module | contents |
//! | --- | --- |
//! | `build_time` | the page size and the orders |
//! | `tag` | the tag byte of a page, the byte of a pageblock |
//! | `frames` | the metadata of a zone's pages, and lists of blocks |

mod build_time;
pub(crate) mod frames;
mod tag;

use core::fmt;

pub(crate) use frames::{End, Frames, Links, List, exchange};
pub use tag::PageState;
pub(crate) use tag::{Pageblock, Tag};

/// A page frame number: the address of a page divided by the page size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Pfn(pub u64);

impl Pfn {
    /// The size of a page: 4096, 16384 or 65536 bytes. The build chooses it. A caller with a page size of its own compares the
    /// two by an assertion.
    pub const PAGE_BYTES: u64 = build_time::PAGE_BYTES;
    /// The power of two of the page size.
    pub(crate) const PAGE_SHIFT: u32 = Self::PAGE_BYTES.ilog2();

    /// The frame that starts at an address. The bits of an address below the page size become the highest bits of the number:
    /// such a frame is in no zone, and one bounds check finds both faults.
    #[must_use]
    #[inline(always)]
    pub const fn at_address(address: usize) -> Pfn {
        Pfn((address as u64).rotate_right(Self::PAGE_SHIFT))
    }

    /// The inverse of [`Self::at_address`]. A frame beyond the address space has no address: on a 32-bit machine with more
    /// memory, calculate with [`Self::PAGE_BYTES`].
    #[must_use]
    pub const fn address(self) -> usize {
        self.0.rotate_left(Self::PAGE_SHIFT) as usize
    }

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

/// The size of a block as a power of two of pages: 0 (one page) to [`Order::MAX`].
///
/// Specification: `linux-page-allocator.md` 1.4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Order(u8);

impl Order {
    /// One page.
    pub const ZERO: Order = Order(0);
    /// The largest block: with the default 10, 1024 pages or 4 MiB. Unit: power of two of pages. Source: the build;
    /// specification 1.4.
    pub const MAX: Order = Order(build_time::MAX_ORDER);
    /// The number of orders.
    pub const COUNT: usize = Self::MAX.0 as usize + 1;
    /// The largest order that is expected to succeed without compaction. Source: specification 9.
    pub const COSTLY: Order = Order(3);
    /// The order of a pageblock, the unit of grouping by mobility, and of a huge page: with the default 9, 512 pages or
    /// 2 MiB. Source: the build; specification 1.4.
    pub const PAGEBLOCK: Order = Order(build_time::PAGEBLOCK_ORDER);

    /// The order `order`; `None` above [`Order::MAX`].
    #[must_use]
    pub const fn new(order: u8) -> Option<Order> {
        if order <= Self::MAX.0 { Some(Order(order)) } else { None }
    }

    /// The smallest order whose blocks hold `pages` pages; `None` for none and above those of [`Order::MAX`].
    #[must_use]
    pub const fn holding(pages: u64) -> Option<Order> {
        if pages == 0 || pages > Self::MAX.pages() {
            return None;
        }
        Some(Order(pages.next_power_of_two().ilog2() as u8))
    }

    /// The order `order`, or the largest if there is none.
    pub(crate) const fn at_most(order: u32) -> Order {
        if order < Self::MAX.0 as u32 { Order(order as u8) } else { Self::MAX }
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

/// The mobility of pages: a pageblock holds pages of one migratetype, and a request asks for one.
///
/// Specification: `linux-page-allocator.md` 1.4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum MigrateType {
    /// Pages that cannot move: kernel objects, page tables.
    Unmovable = 0,
    /// Pages that can move: user memory.
    Movable = 1,
    /// Pages that can be freed on request: file system caches.
    Reclaimable = 2,
    /// Pageblocks reserved for urgent requests above order 0.
    HighAtomic = 3,
    /// Pageblocks used for movable pages until a device needs them.
    Cma = 4,
    /// Pageblocks that no allocation may use.
    Isolate = 5,
}

impl MigrateType {
    /// The number of types.
    pub const COUNT: usize = 6;
    /// The number of types with their own lists in a pageset: the ordinary ones.
    pub const PCP_COUNT: usize = 3;
    /// The types that pagesets tell apart.
    pub(crate) const ORDINARY: [MigrateType; Self::PCP_COUNT] = [Self::Unmovable, Self::Movable, Self::Reclaimable];
    /// All types in the order of their numbers.
    pub const ALL: [MigrateType; Self::COUNT] =
        [Self::Unmovable, Self::Movable, Self::Reclaimable, Self::HighAtomic, Self::Cma, Self::Isolate];

    /// The type of a number; numbers above the largest type give the largest type.
    pub(crate) const fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Unmovable,
            1 => Self::Movable,
            2 => Self::Reclaimable,
            3 => Self::HighAtomic,
            4 => Self::Cma,
            _ => Self::Isolate,
        }
    }

    /// The type as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether this is one of the three types that requests ask for and that merge with each other.
    #[must_use]
    pub const fn is_ordinary(self) -> bool {
        (self as usize) < Self::PCP_COUNT
    }
}

/// A range of page frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRange {
    /// The first frame.
    pub start: Pfn,
    /// The number of frames, at least 1.
    pub pages: u64,
}

impl PageRange {
    /// The range from `start` on.
    #[must_use]
    pub const fn new(start: Pfn, pages: u64) -> Self {
        PageRange { start, pages }
    }

    /// The first frame after the range.
    #[must_use]
    pub const fn end(&self) -> Pfn {
        Pfn(self.start.0.saturating_add(self.pages))
    }

    pub(crate) const fn overlaps(&self, other: &PageRange) -> bool {
        self.start.0 < other.end().0 && other.start.0 < self.end().0
    }
}

/// The number of a possible CPU, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CpuId(pub u32);

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPU {}", self.0)
    }
}

/// The number of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeId(pub u32);

/// The kinds of zones, lowest first. Specification 1.1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ZoneKind {
    /// For devices that reach 16 MiB.
    Dma,
    /// For devices that reach 4 GiB.
    Dma32,
    /// For everything.
    Normal,
    /// For movable pages.
    Movable,
}

impl ZoneKind {
    /// The number of kinds.
    pub const COUNT: usize = 4;
    /// All kinds, lowest first.
    pub const ALL: [ZoneKind; Self::COUNT] = [Self::Dma, Self::Dma32, Self::Normal, Self::Movable];

    /// The kind as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name that `/proc/zoneinfo` uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dma => "DMA",
            Self::Dma32 => "DMA32",
            Self::Normal => "Normal",
            Self::Movable => "Movable",
        }
    }
}

impl fmt::Display for ZoneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Pages of a pageblock.
pub(crate) const PAGEBLOCK: u32 = Order::PAGEBLOCK.pages() as u32;

/// The first page of the naturally aligned block of `order` around a page of a zone, whether or not such a block
/// exists.
pub(crate) const fn start_of(page: u32, order: Order) -> u32 {
    page & !(order.pages() as u32 - 1)
}

/// The first pages of the pageblocks of a block; of a block that is smaller than a pageblock, its own first page.
pub(crate) fn pageblocks(page: u32, order: Order) -> impl Iterator<Item = u32> {
    (page..page + order.pages() as u32).step_by(PAGEBLOCK as usize)
}

/// The largest aligned block that begins at `page` and ends at or before `end`.
pub(crate) fn largest_at(page: u32, end: u32) -> Order {
    Order::at_most((end - page).ilog2().min(page.trailing_zeros()))
}

/// The largest aligned blocks that cover the pages from `first` to `end`.
pub(crate) fn largest_blocks(first: u32, end: u32) -> impl Iterator<Item = (u32, Order)> {
    let mut page = first;
    core::iter::from_fn(move || {
        let block = (page < end).then(|| (page, largest_at(page, end)))?;
        page += block.1.pages() as u32;
        Some(block)
    })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    #[test]
    fn ranges_are_made_of_their_largest_blocks() {
        for (first, end, expected) in [
            (0, 0, &[][..]),
            (0, 1024, &[(0, 10)]),
            (0, 4096, &[(0, 10), (1024, 10), (2048, 10), (3072, 10)]),
            (1, 8, &[(1, 0), (2, 1), (4, 2)]),
            (6, 17, &[(6, 1), (8, 3), (16, 0)]),
            (512, 1536, &[(512, 9), (1024, 9)]),
        ] {
            let blocks: Vec<_> = largest_blocks(first, end).map(|(page, order)| (page, order.get())).collect();
            assert_eq!(blocks, expected, "{first}..{end}");
        }
    }
}
