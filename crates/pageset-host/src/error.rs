//! Errors of the pool. A call that returns one of them has changed nothing.

use std::fmt;
use std::io;
use std::time::Duration;

use pageset::{MapError, MigrateType, NodeId, Order, PageState, WrongFree};
use thiserror::Error;

use crate::size::{CHUNK_BYTES, PAGE_BYTES};

/// The message of every error in a forked child.
pub(crate) const FORKED: &str = "the pool belongs to the parent of this process; try a pool that this process builds";

/// Why a pool cannot be built, grown or shrunk.
#[derive(Debug, Error)]
pub enum PoolError {
    /// The size of the new pool is 0, or more than its nodes can hold.
    #[error("cannot build a pool of {bytes} bytes: the size is out of range; try 1 to {max_bytes}")]
    Size {
        /// The requested size in bytes.
        bytes: u64,
        /// The largest allowed size in bytes.
        max_bytes: u64,
    },
    /// A setting of the builder is outside its range.
    #[error("cannot build a pool with {setting} = {value}: the value is out of range; try {allowed}")]
    Setting {
        /// The name of the setting.
        setting: &'static str,
        /// The requested value.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// The pool cannot grow by that much.
    #[error(
        "cannot grow the pool by {bytes} bytes: {max_bytes} bytes of its reserve are left; {}",
        try_up_to(*max_bytes, "a pool with a larger reserve")
    )]
    GrowSize {
        /// The requested growth in bytes.
        bytes: u64,
        /// The rest of the reserve in bytes.
        max_bytes: u64,
    },
    /// The pool cannot shrink by that much, because 2 MiB of each node stay.
    #[error(
        "cannot shrink the pool by {bytes} bytes: {CHUNK_BYTES} bytes of each node stay; {}",
        try_up_to(*max_bytes, "to drop the pool")
    )]
    ShrinkSize {
        /// The requested reduction in bytes.
        bytes: u64,
        /// The largest allowed reduction in bytes.
        max_bytes: u64,
    },
    /// The pool cannot shrink by that much now, because a run in that memory is in use.
    #[error(
        "cannot shrink the pool by {bytes} bytes: the run at {address:#x} is in use; {}",
        try_up_to(*max_bytes, "again after its owner frees it")
    )]
    InUse {
        /// The requested reduction in bytes.
        bytes: u64,
        /// The address of the first such run.
        address: usize,
        /// The bytes that are free at the end of the pool now.
        max_bytes: u64,
    },
    /// The limit is 0, or more than the pool has.
    #[error(
        "cannot limit the pool to {bytes} bytes: the limit is out of range; try 1 to {max_bytes}, the size of the pool"
    )]
    LimitSize {
        /// The requested limit in bytes.
        bytes: u64,
        /// The size of the pool in bytes.
        max_bytes: u64,
    },
    /// More memory than the limit is in use now.
    #[error("cannot limit the pool to {bytes} bytes: {least_bytes} bytes are in use; try {least_bytes} or more")]
    LimitInUse {
        /// The requested limit in bytes.
        bytes: u64,
        /// The smallest limit that was possible at that moment, in bytes.
        least_bytes: u64,
    },
    /// A pool with a limit keeps its size.
    #[error("cannot resize the pool: it has a limit of {limit_bytes} bytes; try to remove the limit first")]
    Limited {
        /// The limit in bytes.
        limit_bytes: u64,
    },
    /// This process is a forked child of the process that built the pool.
    #[error("cannot resize the pool: {FORKED}")]
    Forked,
    /// A filter of system calls that came after the pool keeps this thread from taking the locks of all caches.
    #[error(
        "cannot resize the pool: the system refuses membarrier and sched_setaffinity, which locks of caches need; try a \
         pool without restartable sequences"
    )]
    LocksRefused,
    /// The reserve is smaller than the initial size.
    #[error(
        "cannot build a pool of {bytes} bytes: its reserve is {reserve_bytes} bytes; try a reserve of {bytes} bytes \
         or more"
    )]
    ReserveTooSmall {
        /// The initial size in bytes.
        bytes: u64,
        /// The reserve in bytes.
        reserve_bytes: u64,
    },
    /// A pool of explicit huge pages cannot grow, because the system reserves all of them at once.
    #[error(
        "cannot reserve address space for growth: the system reserves explicit huge pages at once; try no reserve, or \
         transparent huge pages"
    )]
    HugePagesCannotGrow,
    /// The list of nodes is empty, names a node twice, or names one without memory for this process.
    #[error(
        "cannot use nodes {:?}: each must have memory and be named once; try {:?}",
        numbers(nodes),
        numbers(allowed)
    )]
    Nodes {
        /// The requested nodes.
        nodes: Vec<NodeId>,
        /// The nodes that have memory for this process.
        allowed: Vec<NodeId>,
    },
    /// The system has too few free huge pages, or none of that size.
    #[error(
        "cannot reserve huge pages ({bytes} bytes): {source}; the pool needs {} pages of {} MiB, and {}; try {}",
        bytes / page_bytes,
        page_bytes >> 20,
        free_pages.map_or("the system has none of that size".to_owned(), |pages| format!("{pages} are free")),
        set_pages_apart(*bytes, *page_bytes)
    )]
    NoHugePages {
        /// The size of the pool in bytes.
        bytes: u64,
        /// The size of a huge page in bytes: 2 MiB or 1 GiB.
        page_bytes: u64,
        /// How many huge pages of that size are free and not reserved. `None`: the system has no such size.
        free_pages: Option<u64>,
        /// The system's error.
        source: io::Error,
    },
    /// The name of the memory has a length or a character that the system does not allow.
    #[error(
        "cannot name the memory {name:?}: a name has 1 to 79 printable ASCII characters, except [ ] \\ $ and the \
         backquote; try \"pageset\""
    )]
    Name {
        /// The requested name.
        name: String,
    },
    /// A forked child cannot have a copy of shared memory.
    #[error(
        "cannot build a pool of shared memory with OnFork::Copy: a forked child would share the pages and not copy them; \
         try OnFork::Absent, and a SharedView in the child"
    )]
    SharedCopy,
    /// The allocator refuses the tuning, or the pool exceeds one of its limits.
    #[error(transparent)]
    Config(MapError),
    /// A system call failed.
    #[error("cannot {action} ({bytes} bytes): {source}; {help}")]
    System {
        /// What the pool asked of the system, as a verb and its object.
        action: &'static str,
        /// The size of the request in bytes.
        bytes: u64,
        /// What the user can try.
        help: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// The amount that is allowed, or an alternative where none is.
fn try_up_to(max_bytes: u64, alternative: &str) -> String {
    if max_bytes == 0 { format!("try {alternative}") } else { format!("try 1 to {max_bytes}") }
}

/// How an administrator sets huge pages apart.
fn set_pages_apart(bytes: u64, page_bytes: u64) -> String {
    let pages = bytes / page_bytes;
    match page_bytes {
        0x20_0000 => format!("vm.nr_hugepages={pages} or more (sysctl, as root), or transparent huge pages"),
        _ => format!(
            "{pages} or more in /sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages (as root), the boot parameters \
             hugepagesz=1G hugepages={pages}, or huge pages of 2 MiB",
            page_bytes >> 10
        ),
    }
}

fn numbers(nodes: &[NodeId]) -> Vec<u32> {
    nodes.iter().map(|node| node.0).collect()
}

pub(crate) fn address_space_error(action: &'static str, bytes: usize, source: io::Error) -> PoolError {
    let help = match source.raw_os_error() {
        Some(libc::EAGAIN) => {
            "this process locks all memory that it maps (mlockall with MCL_FUTURE); try a smaller pool, a higher \
             ulimit -l, or mlockall without MCL_FUTURE"
        }
        _ => {
            "try a smaller pool, or higher limits on address space (ulimit -v; vm.overcommit_memory=2 counts it as \
             memory) and on mappings (vm.max_map_count)"
        }
    };
    PoolError::System { action, bytes: bytes as u64, help, source }
}

/// What to try where the system does not take memory back.
pub(crate) const GIVE_BACK_HELP: &str = "the system keeps memory locked by mlock or mlockall and, before Linux 5.18, \
explicit huge pages; try to unlock the memory, or build the pool with GiveBack::OFF";

pub(crate) fn prefault_error(bytes: usize, source: io::Error) -> PoolError {
    let help = "try a smaller pool, or no prefault";
    PoolError::System { action: "make memory resident", bytes: bytes as u64, help, source }
}

/// Why an allocation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum AllocError {
    /// No block of that order is free, not even after a drain of all caches.
    #[error(
        "cannot allocate a run of {} bytes: no run of that size is free, and {free_bytes} bytes are free in smaller \
         runs; try a larger pool",
        order.pages() * PAGE_BYTES as u64
    )]
    OutOfMemory {
        /// The requested order.
        order: Order,
        /// The bytes that are free in smaller blocks.
        free_bytes: u64,
    },
    /// No run of that order became free in the time that the caller would wait.
    #[error(
        "cannot allocate a run of {} bytes: no run of that size was free within {timeout:?}; try a longer time, or a larger \
         pool",
        order.pages() * PAGE_BYTES as u64
    )]
    TimedOut {
        /// The requested order.
        order: Order,
        /// The time that the caller would wait.
        timeout: Duration,
    },
    /// The pool has a limit, and no free run of that size.
    #[error(
        "cannot allocate {bytes} bytes: the pool is limited to {limit_bytes} bytes, and {free_bytes} bytes are free in smaller \
         runs; try a higher limit"
    )]
    Limit {
        /// The requested size in bytes.
        bytes: u64,
        /// The limit of the pool in bytes.
        limit_bytes: u64,
        /// The bytes below the limit that are free in smaller runs.
        free_bytes: u64,
    },
    /// The size of a contiguous run is 0, or more than a node has.
    #[error(
        "cannot allocate a contiguous run of {bytes} bytes: the size is out of range; try 1 to {max_bytes}, the size \
         of a node"
    )]
    ContigSize {
        /// The requested size in bytes.
        bytes: u64,
        /// The current size of each node in bytes.
        max_bytes: u64,
    },
    /// No free range of that size starts at a multiple of 2 MiB, not even after a drain of all caches.
    #[error(
        "cannot allocate a contiguous run of {bytes} bytes: no free range of that size starts at a multiple of 2 MiB, and \
         {free_bytes} bytes are free in all; try a smaller run, or up to 4 MiB one of 2^order pages"
    )]
    NoContigRange {
        /// The requested size in bytes.
        bytes: u64,
        /// The free bytes of the whole pool.
        free_bytes: u64,
    },
    /// A filter of system calls that came after the pool keeps the calling thread from draining the caches of other CPUs,
    /// which a contiguous run needs.
    #[error(
        "cannot allocate a contiguous run: the system refuses membarrier and sched_setaffinity, which drains of caches \
         need; try a pool without restartable sequences"
    )]
    DrainRefused,
    /// The pool has no memory of that node.
    #[error("cannot allocate from node {}: the pool has no memory of that node; try another node", .0.0)]
    UnknownNode(NodeId),
    /// Callers cannot allocate runs of that type.
    #[error("cannot allocate runs of type {0:?}: the type is reserved; try Unmovable, Movable or Reclaimable")]
    UnsupportedType(MigrateType),
    /// This process is a forked child of the process that built the pool.
    #[error("cannot allocate: {FORKED}")]
    Forked,
}

/// A wrong free: the address, the order and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("cannot free {address:#x} as {}: {reason}", attempted(*order, reason))]
pub struct FreeError {
    /// The address that the caller passed.
    pub address: usize,
    /// The order that the caller passed; `None` for a contiguous run.
    pub order: Option<Order>,
    /// Why the free is wrong.
    pub reason: FreeReason,
}

/// What the caller tried to free.
fn attempted(order: Option<Order>, reason: &FreeReason) -> String {
    match (order, reason) {
        (_, FreeReason::ContigSize { bytes, .. }) => format!("a contiguous run of {bytes} bytes"),
        (None, _) => "a contiguous run".to_owned(),
        (Some(order), _) => format!("a run of order {order}"),
    }
}

/// Why a free is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FreeReason {
    /// The address is not the start of a page.
    #[error("the address is not a multiple of {PAGE_BYTES}; try the address that the allocation returned")]
    NotAPage,
    /// The allocator's reason. Its page numbers are addresses divided by [`PAGE_BYTES`].
    #[error(fmt = fmt_wrong_free)]
    Wrong(WrongFree),
    /// The contiguous run there has another size.
    #[error("the run there has {actual} bytes; try that size")]
    ContigSize {
        /// The size that the caller passed in bytes.
        bytes: usize,
        /// The size of the run in bytes.
        actual: usize,
    },
    /// The address is inside a contiguous run.
    #[error("the address is inside the contiguous run of {bytes} bytes at {start:#x}; try that address and size")]
    InsideContig {
        /// The address of the run.
        start: usize,
        /// The size of the run in bytes.
        bytes: usize,
    },
    /// The page is not in a contiguous run.
    #[error("no contiguous run starts there; try the free for runs of 2^order pages")]
    NotContig,
    /// This process is a forked child of the process that built the pool.
    #[error("{FORKED}")]
    Forked,
}

/// Writes the allocator's reason with addresses in place of page numbers.
fn fmt_wrong_free(reason: &WrongFree, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match reason {
        WrongFree::NotOurs => f.write_str("the address is not in this pool; try the pool that allocated it"),
        WrongFree::Misaligned => f.write_str("no run of that order starts there; try the order of the allocation"),
        WrongFree::NotAllocated(PageState::Inside) => f.write_str("the address is beyond the current size of the pool"),
        WrongFree::NotAllocated(_) => f.write_str("the run is already free"),
        WrongFree::WrongOrder(actual) => write!(f, "the run there has order {actual}; try that order"),
        WrongFree::Inside { head, order, state } => {
            let start = head.0 * PAGE_BYTES as u64;
            write!(f, "the address is inside the run of order {order} at {start:#x}, which is ")?;
            f.write_str(if *state == PageState::Allocated { "in use" } else { "free" })
        }
        other => write!(f, "{other}"),
    }
}
