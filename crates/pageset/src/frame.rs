//! Page frames: their numbers, the orders of blocks, and the CPUs that ask for them.

use core::fmt;

use crate::migrate::MigrateType;

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
    /// How many orders there are.
    pub const COUNT: usize = 11;
    /// The largest order that is expected to be had without compaction. Source: specification 9.
    pub const COSTLY: Order = Order(3);
    /// A pageblock, the unit of grouping by mobility, and a huge page: 512 pages, 2 MiB on x86-64.
    pub const PAGEBLOCK: Order = Order(9);

    /// The order `order`, or nothing above [`Order::MAX`].
    #[must_use]
    pub const fn new(order: u8) -> Option<Order> {
        if order <= Self::MAX.0 { Some(Order(order)) } else { None }
    }

    /// Base pages in a block of this order.
    #[must_use]
    pub const fn pages(self) -> u64 {
        1 << self.0
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

/// The number of a CPU, as the machine numbers its possible CPUs: from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CpuId(pub u32);

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPU {}", self.0)
    }
}

/// What a page is to the allocator, as its tag byte says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageState {
    /// Inside a block, not its first page; or never brought online.
    Inside,
    /// The first page of a block on a free list.
    Free,
    /// The first page of a block that was handed out.
    Allocated,
    /// The first page of a block in a pageset, or one that compaction holds for pages to move to.
    Cached,
}

/// The tag byte of a page: state, order and kind of the block that starts there. Zero is the inside of a block.
///
/// Bits 0 to 3 hold the order, 4 and 5 the state, 6 and 7 a kind: the list of a free block, the remembered type of
/// a cached one, the type asked for of an allocated one. Kind 3 stands for "as the pageblock says".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag(u8);

/// The kind that stands for the pageblock's own type.
const KIND_OF_PAGEBLOCK: u8 = 3;

impl Tag {
    pub(crate) const INSIDE: Tag = Tag(0);

    pub(crate) const fn new(state: PageState, order: Order, kind: MigrateType) -> Tag {
        let kind = if kind.is_ordinary() { kind as u8 } else { KIND_OF_PAGEBLOCK };
        Tag::from_parts(state, order, kind)
    }

    /// As [`Self::new`], with the kind as [`Self::kind_bits`] gives it.
    pub(crate) const fn from_parts(state: PageState, order: Order, kind: u8) -> Tag {
        Tag(order.0 | (state as u8) << 4 | kind << 6)
    }

    /// The two bits of the kind.
    pub(crate) const fn kind_bits(self) -> u8 {
        self.0 >> 6
    }

    pub(crate) const fn from_byte(byte: u8) -> Tag {
        Tag(byte)
    }

    pub(crate) const fn byte(self) -> u8 {
        self.0
    }

    pub(crate) const fn state(self) -> PageState {
        match self.0 >> 4 & 3 {
            0 => PageState::Inside,
            1 => PageState::Free,
            2 => PageState::Allocated,
            _ => PageState::Cached,
        }
    }

    pub(crate) const fn order(self) -> Order {
        Order(self.0 & 0xf)
    }

    /// The kind, or nothing where the pageblock's type counts.
    pub(crate) const fn kind(self) -> Option<MigrateType> {
        match self.0 >> 6 {
            0 => Some(MigrateType::Unmovable),
            1 => Some(MigrateType::Movable),
            2 => Some(MigrateType::Reclaimable),
            _ => None,
        }
    }

    pub(crate) const fn with_state(self, state: PageState) -> Tag {
        Tag(self.0 & !0x30 | (state as u8) << 4)
    }

    /// Whether a block of this order and state starts here, of whatever kind.
    pub(crate) const fn is(self, state: PageState, order: Order) -> bool {
        self.0 & 0x3f == order.0 | (state as u8) << 4
    }
}
