//! What to allocate, for the calls that are not common: the node, the type, zeros, how long to wait.

use std::time::Duration;

use pageset::{MigrateType, NodeId, Order, Request};

/// The allocator's request for a run of a pool.
///
/// It ignores watermarks. Once the free lists are empty, watermarks would keep a CPU from the pages of its own cache.
#[inline(always)]
pub(crate) const fn request(order: Order, migratetype: MigrateType) -> Request {
    Request { watermarks: false, ..Request::new(order, migratetype) }
}

/// A run of 2^order pages, for [`PagePool::alloc_with`](crate::PagePool::alloc_with).
///
/// ```
/// use pageset_host::{MigrateType, Order, RunSpec};
///
/// let long_lived = RunSpec::new(Order::ZERO).migratetype(MigrateType::Unmovable).zeroed();
/// # let _ = long_lived;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunSpec {
    pub(crate) request: Request,
    pub(crate) zeroed: bool,
    pub(crate) timeout: Option<Duration>,
}

impl RunSpec {
    /// A run as [`PagePool::alloc`](crate::PagePool::alloc) allocates it.
    #[inline(always)]
    #[must_use]
    pub const fn new(order: Order) -> RunSpec {
        RunSpec { request: request(order, MigrateType::Movable), zeroed: false, timeout: None }
    }

    /// From this node only.
    #[inline(always)]
    #[must_use]
    pub const fn node(mut self, node: NodeId) -> RunSpec {
        (self.request.node, self.request.this_node_only) = (Some(node), true);
        self
    }

    /// In a 2 MiB block of this migratetype where possible: `Unmovable`, `Movable` or `Reclaimable`.
    ///
    /// Gain: runs that live long (`Unmovable`) share blocks, so they keep fewer 2 MiB blocks from being free. All memory starts as
    /// `Movable`, the type of other runs. If all runs live about equally long, use only that.
    #[inline(always)]
    #[must_use]
    pub const fn migratetype(mut self, migratetype: MigrateType) -> RunSpec {
        self.request.migratetype = migratetype;
        self
    }

    /// With zeros. The call clears the run, unless the pool is built with
    /// [`PoolBuilder::zero_on_free`](crate::PoolBuilder::zero_on_free): the memory is then zero already. Clearing makes the run
    /// resident and takes about 50 ns to 1 µs for each page.
    #[inline(always)]
    #[must_use]
    pub const fn zeroed(mut self) -> RunSpec {
        self.zeroed = true;
        self
    }

    /// Waits up to `timeout` until a run is free.
    ///
    /// A run that is free now is returned at once. The caller that has waited longest tries first after a free, but a call of
    /// [`PagePool::alloc`](crate::PagePool::alloc) that comes between gets the run. While callers wait, each free also takes the lock of
    /// their queue. A deferred free is noticed within 10 ms. 0 makes one try. A run that is larger than a node with its reserve fails at
    /// once.
    #[inline(always)]
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> RunSpec {
        self.timeout = Some(timeout);
        self
    }
}

/// A contiguous run, for [`PagePool::alloc_contig`](crate::PagePool::alloc_contig).
///
/// ```
/// use pageset_host::{ContigSpec, NodeId};
///
/// let ring = ContigSpec::new(16 << 20).node(NodeId(0)).zeroed();
/// # let _ = ring;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContigSpec {
    pub(crate) bytes: usize,
    pub(crate) request: Request,
    pub(crate) zeroed: bool,
}

impl ContigSpec {
    /// A run of `bytes`, rounded up to pages, that starts at a multiple of 2 MiB.
    #[must_use]
    pub const fn new(bytes: usize) -> ContigSpec {
        ContigSpec { bytes, request: request(Order::ZERO, MigrateType::Movable), zeroed: false }
    }

    /// From this node only.
    #[must_use]
    pub const fn node(mut self, node: NodeId) -> ContigSpec {
        (self.request.node, self.request.this_node_only) = (Some(node), true);
        self
    }

    /// With zeros, as [`RunSpec::zeroed`].
    #[must_use]
    pub const fn zeroed(mut self) -> ContigSpec {
        self.zeroed = true;
        self
    }
}

/// A contiguous run of a number of bytes, without more.
impl From<usize> for ContigSpec {
    fn from(bytes: usize) -> ContigSpec {
        ContigSpec::new(bytes)
    }
}
