//! What callers get instead of memory, or for a wrong free. Nothing has changed when one of these comes back.

use std::error::Error;
use std::fmt;
use std::io;

use pageset::{MapError, NodeId, Order, PageState, WrongFree};

use crate::pool::PAGE_BYTES;

/// A pool that cannot be had.
#[derive(Debug)]
pub enum PoolError {
    /// Its size is 0 or more than its nodes can have.
    Size {
        /// Bytes asked for.
        bytes: u64,
        /// The most that is allowed.
        max_bytes: u64,
    },
    /// It cannot grow by that much.
    GrowSize {
        /// Bytes asked for.
        bytes: u64,
        /// What is left of the reserve.
        max_bytes: u64,
    },
    /// It cannot shrink by that much: something has to be left of each node.
    ShrinkSize {
        /// Bytes asked for.
        bytes: u64,
        /// The most that may go.
        max_bytes: u64,
    },
    /// It cannot shrink by that much now: a run in use is in the way.
    InUse {
        /// Bytes asked for.
        bytes: u64,
        /// Where the run begins, or the first of them.
        address: usize,
        /// What is free at the end, and could go.
        max_bytes: u64,
    },
    /// This process is a child of the one whose pool this is.
    Forked,
    /// It is to grow to less than it begins with.
    ReserveTooSmall {
        /// Bytes to begin with.
        bytes: u64,
        /// Bytes to grow to.
        reserve_bytes: u64,
    },
    /// Explicit huge pages are reserved at once, so such a pool cannot grow.
    HugePagesCannotGrow,
    /// A node was named twice or has no memory for this process, or none was named.
    Nodes {
        /// Those that were named.
        nodes: Vec<NodeId>,
        /// Those that may be.
        allowed: Vec<NodeId>,
    },
    /// The rules do not go together, or ask for more than there is room for.
    Config(MapError),
    /// The system refused.
    System {
        /// What was asked of it.
        what: &'static str,
        /// How many bytes it was asked for.
        bytes: u64,
        /// What would help.
        help: &'static str,
        /// What it said.
        error: io::Error,
    },
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { bytes, max_bytes } => {
                write!(f, "a pool of {bytes} bytes cannot be had; allowed: 1 to {max_bytes}")
            }
            Self::GrowSize { bytes, max_bytes: 0 } => {
                write!(f, "the pool cannot grow by {bytes} bytes: no reserve is left")
            }
            Self::GrowSize { bytes, max_bytes } => {
                write!(
                    f,
                    "the pool cannot grow by {bytes} bytes; allowed: 1 to {max_bytes}, what is left of its reserve"
                )
            }
            Self::ShrinkSize { bytes, max_bytes } => {
                write!(f, "the pool cannot shrink by {bytes} bytes; allowed: ")?;
                match max_bytes {
                    0 => f.write_str("none, for 2097152 bytes stay of each node"),
                    _ => write!(f, "1 to {max_bytes}, for 2097152 bytes stay of each node"),
                }
            }
            Self::InUse { bytes, address, max_bytes } => {
                let text = "the pool cannot shrink by";
                write!(
                    f,
                    "{text} {bytes} bytes: the run at {address:#x} is in use; {max_bytes} bytes at its end are free"
                )
            }
            Self::Forked => f.write_str("the pool belongs to the parent of this process"),
            Self::ReserveTooSmall { bytes, reserve_bytes } => {
                write!(f, "the pool begins with {bytes} bytes but may grow to {reserve_bytes} only")
            }
            Self::HugePagesCannotGrow => {
                f.write_str("a pool of explicit huge pages cannot grow: they are reserved at once")
            }
            Self::Nodes { nodes, allowed } => {
                let (nodes, allowed) = (numbers(nodes), numbers(allowed));
                write!(f, "nodes {nodes:?} were asked for; allowed: one or more of {allowed:?}, each once")
            }
            Self::Config(error) => error.fmt(f),
            Self::System { what, bytes, help, error } => write!(f, "{what} of {bytes} bytes failed: {error}; {help}"),
        }
    }
}

fn numbers(nodes: &[NodeId]) -> Vec<u32> {
    nodes.iter().map(|node| node.0).collect()
}

impl Error for PoolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// An allocation that could not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocError {
    /// No block of that size is free, even with all caches emptied.
    OutOfMemory {
        /// The order asked for.
        order: Order,
        /// Bytes that are free in smaller blocks.
        free_bytes: u64,
    },
    /// No contiguous run has that size: it is 0, or more than a node has.
    ContigSize {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes that each node has now.
        max_bytes: u64,
    },
    /// So many bytes are nowhere free in a row, even with all caches emptied.
    NoContigRange {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes that are free in all.
        free_bytes: u64,
    },
    /// The pool has nothing of that node.
    UnknownNode(NodeId),
    /// Only the types Unmovable, Movable and Reclaimable can be asked for.
    UnsupportedType(pageset::MigrateType),
    /// This process is a child of the one whose pool this is.
    Forked,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory { order, free_bytes } => {
                let bytes = order.pages() * PAGE_BYTES as u64;
                write!(f, "no run of {bytes} bytes is free; {free_bytes} bytes are, in smaller runs")
            }
            Self::ContigSize { bytes, max_bytes } => {
                write!(f, "a contiguous run of {bytes} bytes cannot be had; allowed: 1 to {max_bytes}, a node's part")
            }
            Self::NoContigRange { bytes, free_bytes } => {
                write!(f, "no {bytes} bytes in a row are free; {free_bytes} bytes are in all")
            }
            Self::UnknownNode(node) => write!(f, "the pool has no memory of node {}", node.0),
            Self::UnsupportedType(migratetype) => {
                write!(f, "runs of type {migratetype:?} cannot be asked for; allowed: Unmovable, Movable, Reclaimable")
            }
            Self::Forked => f.write_str("the pool belongs to the parent of this process"),
        }
    }
}

impl Error for AllocError {}

/// A free that is wrong, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeError {
    /// The address that was to be freed.
    pub address: usize,
    /// The order that was given.
    pub order: Order,
    /// What is wrong.
    pub reason: FreeReason,
}

/// Why a free is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeReason {
    /// The address is not the start of a page.
    NotAPage,
    /// The allocator says why. Its page numbers are addresses divided by [`PAGE_BYTES`].
    Wrong(WrongFree),
    /// This process is a child of the one whose pool this is.
    Forked,
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, order, reason } = self;
        write!(f, "{address:#x} cannot be freed as a run of order {order}: ")?;
        match reason {
            FreeReason::NotAPage => write!(f, "it is not a multiple of {PAGE_BYTES}")?,
            FreeReason::Forked => f.write_str("the pool belongs to the parent of this process")?,
            FreeReason::Wrong(WrongFree::NotOurs) => f.write_str("it is not in this pool")?,
            FreeReason::Wrong(WrongFree::Misaligned) => f.write_str("no run of that order starts there")?,
            FreeReason::Wrong(WrongFree::NotAllocated(PageState::Inside)) => {
                f.write_str("the pool does not reach that far now")?;
            }
            FreeReason::Wrong(WrongFree::NotAllocated(_)) => f.write_str("it is free already")?,
            FreeReason::Wrong(WrongFree::WrongOrder(actual)) => write!(f, "the run there has order {actual}")?,
            FreeReason::Wrong(WrongFree::Inside { head, order, state }) => {
                let state = if *state == PageState::Allocated { "in use" } else { "free" };
                let start = head.0 * PAGE_BYTES as u64;
                write!(f, "it is inside the run of order {order} at {start:#x}, which is {state}")?;
            }
        }
        Ok(())
    }
}

impl Error for FreeError {}
