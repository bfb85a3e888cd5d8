//! Migratetypes of the lists that pages wait on.

use pageset::MigrateType;

/// The types that have lists of their own, by number.
pub(super) const ORDINARY: [MigrateType; 3] = [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];

/// The type of an ordinary list; pages of special pageblocks wait among the movable ones.
pub(super) fn ordinary(migratetype: u8) -> MigrateType {
    ORDINARY.get(usize::from(migratetype)).copied().unwrap_or(MigrateType::Movable)
}

/// A type whose blocks wait on this list. The shared lists of huge pages have several; the first is returned.
pub(super) fn list_type(list: usize) -> MigrateType {
    ORDINARY[list % ORDINARY.len()]
}
