//! The lists of a pageset, and which blocks are on them.
//!
//! Specification: `linux-page-allocator.md` 2.1.

use crate::frame::{MigrateType, Order};
use crate::policy::ListRule;

/// The largest number of lists in a pageset: three types for each order.
pub const LISTS: usize = 3 * Order::COUNT;
/// The largest number of lists in a kernel's pageset: three types for each of orders 0 to 3, three for huge pages. Specification
/// 2.1 and `kernels-2026.md` 3.6.
pub const KERNEL_LISTS: usize = 15;
const FIRST_HUGE_LIST: usize = 12;

impl ListRule {
    /// The list of blocks of this order and type; `None` if such blocks are not cached. Specification 2.1.
    #[inline]
    #[must_use]
    pub fn list(self, order: Order, migratetype: MigrateType) -> Option<usize> {
        let small = match self {
            Self::OrderZero => Order::ZERO,
            _ => Order::COSTLY,
        };
        // HIGHATOMIC and CMA pages are on the movable lists.
        let kind = if migratetype.is_ordinary() { migratetype } else { MigrateType::Movable };
        if order == Order::ZERO {
            return Some(kind.index());
        }
        if order <= small {
            return Some(3 * order.index() + kind.index());
        }
        match self {
            Self::HugeShared if order == Order::PAGEBLOCK => Some(FIRST_HUGE_LIST),
            Self::HugeByMobility if order == Order::PAGEBLOCK => {
                Some(FIRST_HUGE_LIST + usize::from(migratetype == MigrateType::Movable))
            }
            Self::HugeByType | Self::AllOrders if order == Order::PAGEBLOCK => Some(FIRST_HUGE_LIST + kind.index()),
            Self::AllOrders => {
                // The other orders follow, without the pageblock's.
                let above = order.index() - Order::COSTLY.index() - 1 - usize::from(order > Order::PAGEBLOCK);
                Some(KERNEL_LISTS + 3 * above + kind.index())
            }
            _ => None,
        }
    }

    /// The number of lists.
    #[must_use]
    pub const fn count(self) -> usize {
        match self {
            Self::OrderZero => 3,
            Self::ToCostly => 12,
            Self::HugeShared => 13,
            Self::HugeByMobility => 14,
            Self::HugeByType => KERNEL_LISTS,
            Self::AllOrders => LISTS,
        }
    }
}

/// The order of the blocks on a list.
#[must_use]
pub fn order_of(list: usize) -> Order {
    let order = match list {
        ..FIRST_HUGE_LIST => list / 3,
        FIRST_HUGE_LIST..KERNEL_LISTS => Order::PAGEBLOCK.index(),
        _ => {
            let order = Order::COSTLY.index() + 1 + (list - KERNEL_LISTS) / 3;
            order + usize::from(order >= Order::PAGEBLOCK.index())
        }
    };
    Order::new(order as u8).unwrap_or(Order::MAX)
}
