//! The byte of a page, with the block that starts there, and the byte of a pageblock. Specification: `linux-page-allocator.md` 1.4.

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
        Tag::from_parts(state, order, list_kind(kind))
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

const TYPE: u8 = 0x07;
const LARGEST: u8 = 0x08;
const KIND: u8 = 0x30;
const KIND_SHIFT: u8 = 4;
const SKIP: u8 = 0x40;
const FORMER: u8 = 0x70;
const FORMER_SHIFT: u8 = 4;
const ONLINE: u8 = 0x80;

/// The byte of a pageblock: its migratetype and other per-pageblock state. Specification 1.4.
///
/// Bits 0 to 2 hold the migratetype with its lowest bit inverted, so that zeroed memory is MOVABLE. Bit 3: a free block of the largest
/// order begins here. Bits 4 and 5 hold the kind of that block's list. Bit 6 is compaction's skip bit. Bit 7: some pages of the pageblock
/// have been online. In an isolated pageblock only the ISOLATE list can hold a block, and compaction does not scan it; there bits 4 to 6
/// hold the former type, coded as in bits 0 to 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pageblock(pub(crate) u8);

/// The kind of a type's list.
const fn list_kind(migratetype: MigrateType) -> u8 {
    if migratetype.is_ordinary() { migratetype as u8 } else { KIND_OF_PAGEBLOCK }
}

const fn code(migratetype: MigrateType) -> u8 {
    migratetype as u8 ^ 1
}

const fn decode(bits: u8) -> MigrateType {
    MigrateType::from_number((bits & TYPE) ^ 1)
}

impl Pageblock {
    pub(crate) const fn migratetype(self) -> MigrateType {
        decode(self.0)
    }

    /// A byte with this type and nothing else.
    pub(crate) const fn with(migratetype: MigrateType) -> Self {
        Pageblock(code(migratetype))
    }

    /// Whether the types are equal.
    #[inline(always)]
    pub(crate) const fn is_like(self, other: Self) -> bool {
        (self.0 ^ other.0) & TYPE == 0
    }

    /// Whether the type is MOVABLE: one test of a mask.
    #[inline(always)]
    pub(crate) const fn is_movable(self) -> bool {
        self.0 & TYPE == code(MigrateType::Movable)
    }

    const fn is_isolated(self) -> bool {
        self.0 & TYPE == code(MigrateType::Isolate)
    }

    /// The byte with another type. Isolation saves the former type and overwrites the skip bit.
    pub(crate) const fn with_type(self, migratetype: MigrateType) -> Self {
        let isolates = matches!(migratetype, MigrateType::Isolate);
        let kept = match (self.is_isolated(), isolates) {
            (true, true) => return self,
            (false, true) => self.0 & (ONLINE | LARGEST) | code(self.migratetype()) << FORMER_SHIFT,
            // A free block of the largest order is on the list of the new type: it is not larger than the pageblock.
            (true, false) if self.0 & LARGEST != 0 => {
                self.0 & (ONLINE | LARGEST) | list_kind(migratetype) << KIND_SHIFT
            }
            (true, false) => self.0 & ONLINE,
            (false, false) => self.0 & !TYPE,
        };
        Pageblock(kept | code(migratetype))
    }

    /// The former type of an isolated pageblock.
    pub(crate) const fn former(self) -> Option<MigrateType> {
        if self.is_isolated() { Some(decode((self.0 & FORMER) >> FORMER_SHIFT)) } else { None }
    }

    /// The list kind of the free block of the largest order that begins here, if one does.
    pub(crate) const fn largest(self) -> Option<u8> {
        match (self.0 & LARGEST != 0, self.is_isolated()) {
            (false, _) => None,
            (true, true) => Some(KIND_OF_PAGEBLOCK),
            (true, false) => Some((self.0 & KIND) >> KIND_SHIFT),
        }
    }

    /// The byte with such a block on a list of this kind.
    pub(crate) const fn with_largest(self, kind: u8) -> Self {
        let kept = if self.is_isolated() { self.0 } else { self.0 & !KIND | kind << KIND_SHIFT };
        Pageblock(kept | LARGEST)
    }

    /// The byte without such a block.
    pub(crate) const fn without_largest(self) -> Self {
        let gone = if self.is_isolated() { LARGEST } else { LARGEST | KIND };
        Pageblock(self.0 & !gone)
    }

    /// Whether compaction skips the pageblock.
    pub(crate) const fn skips(self) -> bool {
        !self.is_isolated() && self.0 & SKIP != 0
    }

    /// The byte with the skip bit set or cleared.
    pub(crate) const fn with_skip(self, skip: bool) -> Self {
        match (self.is_isolated(), skip) {
            (true, _) => self,
            (false, true) => Pageblock(self.0 | SKIP),
            (false, false) => Pageblock(self.0 & !SKIP),
        }
    }

    pub(crate) const fn is_online(self) -> bool {
        self.0 & ONLINE != 0
    }

    pub(crate) const fn with_online(self, online: bool) -> Self {
        Pageblock(if online { self.0 | ONLINE } else { self.0 & !ONLINE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every valid byte: type, former type or kind of the largest block, skip bit, online.
    fn all() -> impl Iterator<Item = Pageblock> {
        MigrateType::ALL.into_iter().flat_map(|migratetype| {
            (0..32_u8).map(move |bits| {
                let mut byte = Pageblock(0).with_online(bits & 1 != 0).with_skip(bits & 2 != 0);
                byte = byte.with_type(migratetype);
                if bits & 4 != 0 { byte.with_largest(bits >> 3) } else { byte }
            })
        })
    }

    #[test]
    fn zero_is_a_movable_pageblock_of_which_nothing_is_known() {
        let zero = Pageblock(0);
        assert_eq!(zero.migratetype(), MigrateType::Movable);
        assert_eq!((zero.former(), zero.largest(), zero.skips(), zero.is_online()), (None, None, false, false));
    }

    /// Each setter changes only its own getter, except that isolation overwrites the skip bit.
    #[test]
    fn fields_are_independent() {
        for byte in all() {
            let isolated = byte.migratetype() == MigrateType::Isolate;
            let rest = |b: Pageblock| (b.migratetype(), b.former(), b.skips(), b.is_online());
            for kind in 0..4 {
                let with = byte.with_largest(kind);
                assert_eq!(with.largest(), Some(if isolated { 3 } else { kind }));
                assert_eq!(rest(with), rest(byte));
                assert_eq!((with.without_largest().largest(), rest(with.without_largest())), (None, rest(byte)));
            }
            for on in [false, true] {
                assert_eq!(byte.with_online(on).is_online(), on);
                assert_eq!(byte.with_online(on).with_online(byte.is_online()), byte);
                assert_eq!(byte.with_skip(on).skips(), on && !isolated);
                assert_eq!(byte.with_skip(on).with_skip(byte.skips()), byte);
            }
        }
    }

    #[test]
    fn isolation_remembers_the_type_before_it() {
        for byte in all() {
            for to in MigrateType::ALL {
                let changed = byte.with_type(to);
                assert_eq!(changed.migratetype(), to);
                assert_eq!(changed.is_online(), byte.is_online());
                assert_eq!(changed.largest().is_some(), byte.largest().is_some());
                let isolated = to == MigrateType::Isolate;
                let expected = byte.former().unwrap_or(byte.migratetype());
                assert_eq!(changed.former(), isolated.then_some(expected));
                if byte.former().is_some() && !isolated && byte.largest().is_some() {
                    let kind = if to.is_ordinary() { to as u8 } else { 3 };
                    assert_eq!(changed.largest(), Some(kind), "a block that leaves isolation");
                }
                if let Some(former) = changed.former() {
                    assert_eq!(changed.with_type(former).former(), None);
                    assert_eq!(changed.with_type(MigrateType::Isolate), changed, "isolated twice");
                }
            }
        }
    }
}
