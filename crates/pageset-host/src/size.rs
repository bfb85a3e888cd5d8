//! Sizes of pages, runs and nodes.

use pageset::{Order, PageRange, Pfn};

/// The size of a page in bytes. It does not depend on the page size of the system.
pub const PAGE_BYTES: usize = 4096;
const _: () =
    assert!(PAGE_BYTES as u64 == Pfn::PAGE_BYTES, "a pool has pages of 4 KiB; build it without PAGESET_PAGE_KIB");

/// Returns the smallest order whose runs hold `bytes`, or `None` above 4 MiB. Order 0 holds 0 bytes.
#[must_use]
pub const fn order_for(bytes: usize) -> Option<Order> {
    if bytes == 0 { Some(Order::ZERO) } else { Order::holding(bytes.div_ceil(PAGE_BYTES) as u64) }
}

/// The size of a huge page in bytes. The size of a node is a multiple of it, and whole free memory goes back in this unit.
pub(crate) const CHUNK_BYTES: usize = 2 << 20;

/// The pages of an address range. `start` and `bytes` are multiples of [`PAGE_BYTES`].
pub(crate) fn page_range(start: usize, bytes: usize) -> PageRange {
    PageRange::new(Pfn((start / PAGE_BYTES) as u64), (bytes / PAGE_BYTES) as u64)
}

/// An equal part of `bytes` for each of `nodes` nodes, rounded up to [`CHUNK_BYTES`].
pub(crate) fn bytes_per_node(bytes: u64, nodes: usize) -> usize {
    bytes.div_ceil(nodes as u64).next_multiple_of(CHUNK_BYTES as u64) as usize
}

/// A size of explicit huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HugeSize {
    Mib2,
    Gib1,
}

impl HugeSize {
    pub(crate) fn bytes(self) -> usize {
        match self {
            HugeSize::Mib2 => 2 << 20,
            HugeSize::Gib1 => 1 << 30,
        }
    }
}
