//! Migratetypes: pages grouped by mobility.

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
