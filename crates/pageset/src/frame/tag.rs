//! The tag byte of a page: the state, the order and the kind of the block that starts there.

use super::{MigrateType, Order};

/// The allocator's state of a page, from its tag byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageState {
    /// Inside a block, not its first page; or never brought online; or on its way between a pageset and a bitmap.
    Inside,
    /// The first page of a block on a free list.
    Free,
    /// The first page of an allocated block.
    Allocated,
    /// The first page of a block in a pageset, or of a block that compaction holds as a move target. A free page in a bitmap
    /// ([`crate::policy::Holds::Short`]) reads as one such block.
    Cached,
}

/// The tag byte of a page: state, order and kind of the block that starts there. Zero reads as `Inside`.
///
/// Bits 0 to 3 hold the order, bits 4 and 5 the state, bits 6 and 7 a kind: the list of a free block, the remembered
/// type of a cached block, the requested type of an allocated block. Kind 3 stands for the pageblock's type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag(pub(crate) u8);

/// The kind that stands for the pageblock's own type.
const KIND_OF_PAGEBLOCK: u8 = 3;

impl Tag {
    pub(crate) const INSIDE: Tag = Tag(0);

    pub(crate) const fn new(state: PageState, order: Order, kind: MigrateType) -> Tag {
        let kind = if kind.is_ordinary() { kind as u8 } else { KIND_OF_PAGEBLOCK };
        Tag::from_parts(state, order, kind)
    }

    /// As [`Self::new`], with the kind from [`Self::kind_bits`].
    pub(crate) const fn from_parts(state: PageState, order: Order, kind: u8) -> Tag {
        Tag(order.get() | (state as u8) << 4 | kind << 6)
    }

    /// The tag of an allocated block that is lent as the target of a move: [`super::Frames::lend`].
    pub(crate) const fn lent(order: Order) -> Tag {
        Tag::from_parts(PageState::Allocated, order, KIND_OF_PAGEBLOCK)
    }

    /// The two bits of the kind.
    pub(crate) const fn kind_bits(self) -> u8 {
        self.0 >> 6
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
        Order::from_bits(self.0 & 0xf)
    }

    /// The kind; `None` if the pageblock's type counts.
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

    /// Whether a block of this order and state starts here, of any kind.
    pub(crate) const fn is(self, state: PageState, order: Order) -> bool {
        self.0 & 0x3f == order.get() | (state as u8) << 4
    }
}
