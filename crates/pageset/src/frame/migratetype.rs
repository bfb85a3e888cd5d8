//! Migratetypes: what may be moved, and so what is kept together.

/// The kind of pages that a pageblock holds and that a request asks for.
///
/// Specification: `linux-page-allocator.md` 1.4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum MigrateType {
    /// Pages that stay where they are: kernel objects, page tables.
    Unmovable = 0,
    /// Pages that can be moved: user memory.
    Movable = 1,
    /// Pages that can be given back when asked: caches of the file systems.
    Reclaimable = 2,
    /// Pageblocks kept for urgent requests above order 0.
    HighAtomic = 3,
    /// Pageblocks lent to movable pages until a device wants them.
    Cma = 4,
    /// Pageblocks that nothing may be taken from.
    Isolate = 5,
}

impl MigrateType {
    /// How many types there are.
    pub const COUNT: usize = 6;
    /// How many types have lists of their own in a pageset: the ordinary ones.
    pub const PCP_COUNT: usize = 3;
    /// All types in the order of their numbers.
    pub const ALL: [MigrateType; Self::COUNT] =
        [Self::Unmovable, Self::Movable, Self::Reclaimable, Self::HighAtomic, Self::Cma, Self::Isolate];

    /// The type of a number; the largest stands for all above it.
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
