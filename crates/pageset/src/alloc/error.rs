//! Errors of allocation, free and hotplug. A call that returns one of them has changed nothing.

use core::fmt;

use crate::alloc::shortage::OutOfMemory;
use crate::frame::{CpuId, MigrateType, NodeId, Order, PageState, Pfn};

// The error is returned by value, from the slow path only. The limit is a guess.
const _: () = assert!(size_of::<AllocError>() <= 128);

/// An allocation that could not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocError {
    /// No zone of the request's zonelist could serve it.
    OutOfMemory(OutOfMemory),
    /// The migratetype is not one of the three ordinary types.
    Migratetype(MigrateType),
    /// An allocation of a number of pages that no block holds.
    Pages(u64),
    /// A run of no pages, or at a multiple of a number that is no power of two.
    Run {
        /// The number of pages.
        pages: u64,
        /// The alignment in pages.
        align_pages: u64,
    },
    /// No zone of the request has such a run.
    NoRun {
        /// The number of pages.
        pages: u64,
        /// The alignment in pages.
        align_pages: u64,
    },
    /// The map has no such node, or no zone on the node's zonelist may serve the request.
    Node(NodeId),
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory(shortage) => shortage.fmt(f),
            Self::Migratetype(migratetype) => {
                write!(f, "cannot allocate pages of type {migratetype:?}; allowed: Unmovable, Movable, Reclaimable")
            }
            Self::Pages(pages) => {
                write!(f, "cannot allocate {pages} pages in one block; allowed: 1 to {}", Order::MAX.pages())
            }
            Self::Run { pages, align_pages } => write!(
                f,
                "cannot allocate a run of {pages} pages at a multiple of {align_pages}; allowed: 1 page and more, at a power of two"
            ),
            Self::NoRun { pages, align_pages } => {
                write!(
                    f,
                    "no zone for this request has {pages} neighbouring pages to allocate at a multiple of {align_pages}"
                )
            }
            Self::Node(node) => write!(f, "cannot allocate from node {}: it has no zone for this request", node.0),
        }
    }
}

impl core::error::Error for AllocError {}

/// A wrong free: the page, and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeError {
    /// The page that was to be freed.
    pub pfn: Pfn,
    /// The order that was given.
    pub order: Order,
    /// The reason.
    pub reason: WrongFree,
}

/// The reason why a free is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WrongFree {
    /// The page is in no zone.
    NotOurs,
    /// The page is not aligned to the order.
    Misaligned,
    /// The page is not allocated: it is free, cached in a pageset, or was never brought online.
    NotAllocated(PageState),
    /// The block that starts there has another order.
    WrongOrder(Order),
    /// The range has no pages.
    NoPages,
    /// The page is inside a larger block.
    Inside {
        /// The block's first page.
        head: Pfn,
        /// The block's order.
        order: Order,
        /// The block's state.
        state: PageState,
    },
}

impl fmt::Display for WrongFree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOurs => f.write_str("it is in no zone"),
            Self::Misaligned => f.write_str("no block of that order starts there"),
            Self::NotAllocated(PageState::Inside) => f.write_str("it was never brought online"),
            Self::NotAllocated(PageState::Free) => f.write_str("it is free"),
            Self::NotAllocated(_) => f.write_str("it is free, in a pageset"),
            Self::WrongOrder(actual) => write!(f, "the block there has order {actual}"),
            Self::NoPages => f.write_str("the range has no pages"),
            Self::Inside { head, order, state } => {
                write!(f, "it is inside the block of order {order} at {head}, which is {state:?}")
            }
        }
    }
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pfn, order, reason } = self;
        write!(f, "cannot free page {pfn} as a block of order {order}: {reason}")
    }
}

impl core::error::Error for FreeError {}

/// A wrong split: the block, the order of its parts, and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SplitError {
    /// The first page of the block.
    pub pfn: Pfn,
    /// The order of the block that was given.
    pub order: Order,
    /// The order of the parts that was given.
    pub to: Order,
    /// The reason: that of a free of the block, or [`WrongFree::WrongOrder`] for parts that are larger than the block.
    pub reason: WrongFree,
}

impl fmt::Display for SplitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pfn, order, to, reason } = self;
        write!(f, "cannot split page {pfn}, a block of order {order}, into blocks of order {to}: {reason}")
    }
}

impl core::error::Error for SplitError {}

/// For callers that split a block to free its parts.
impl From<SplitError> for FreeError {
    fn from(error: SplitError) -> Self {
        FreeError { pfn: error.pfn, order: error.order, reason: error.reason }
    }
}

/// An invalid change of the online CPUs or of a zone's pagesets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HotplugError {
    /// The CPU is not possible.
    NoSuchCpu {
        /// The CPU.
        cpu: CpuId,
        /// The number of possible CPUs.
        possible: usize,
    },
    /// The CPU is offline already.
    Offline(CpuId),
    /// The CPU is online already.
    Online(CpuId),
    /// No other CPU is online.
    LastCpu(CpuId),
    /// The zone's pagesets are not disabled.
    PagesetsEnabled {
        /// The zone's number.
        zone: usize,
    },
}

impl fmt::Display for HotplugError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchCpu { cpu, possible } => {
                write!(f, "cannot change {cpu}: it is not possible; allowed: below {possible}")
            }
            Self::Offline(cpu) => write!(f, "cannot take {cpu} offline: it is offline already"),
            Self::Online(cpu) => write!(f, "cannot bring {cpu} online: it is online already"),
            Self::LastCpu(cpu) => write!(f, "cannot take {cpu} offline: it is the last online CPU"),
            Self::PagesetsEnabled { zone } => {
                write!(f, "cannot enable the pagesets of zone {zone}: they are not disabled")
            }
        }
    }
}

impl core::error::Error for HotplugError {}
