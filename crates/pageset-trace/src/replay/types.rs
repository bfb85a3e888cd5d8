//! Migratetypes of the lists in a pageset.

use pageset::MigrateType;

/// The types that have lists of their own, by number.
pub(super) const ORDINARY: [MigrateType; 3] = [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];

/// The migratetype of the list for this type number. Pages of special pageblocks are on the movable lists.
pub(super) fn ordinary(migratetype: u8) -> MigrateType {
    ORDINARY.get(usize::from(migratetype)).copied().unwrap_or(MigrateType::Movable)
}

/// A migratetype with blocks on this list. The lists of huge pages are shared by several types; the first one is
/// returned.
pub(super) fn list_type(list: usize) -> MigrateType {
    ORDINARY[list % ORDINARY.len()]
}
