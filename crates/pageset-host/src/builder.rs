//! What a pool is made from.

use std::io;

use pageset::tuning::BatchRule;
use pageset::tuning::sizes::{WatermarkRule, zone_batch};
use pageset::{Config, NodeId, PageRange, Pfn, Tuning, ZoneKind, ZoneSpec};

use crate::error::PoolError;
use crate::give_back::GiveBack;
use crate::machine::Host;
use crate::pool::{PAGE_BYTES, PagePool};
use crate::sys::fork_detector::ForkDetector;
use crate::sys::mapped_allocator::{MappedAllocator, MetadataError};
use crate::sys::mapping::{Backing, Mapping};
use crate::sys::numa::prefer_node;
use crate::topology::{Topology, online_cpus};

/// A pool's share of a node is a multiple of this: the size of a huge page, and the unit in which memory goes back.
pub(crate) const CHUNK_BYTES: usize = 2 << 20;
/// The largest block, in bytes: memory that begins at a multiple of it has no smaller ones at its start.
const MAX_BLOCK_BYTES: usize = PAGE_BYTES << pageset::Order::MAX.get();
/// The most that a node's share may be, in bytes: links of pages and of pageblocks have numbers of 32 bits together.
const MAX_NODE_BYTES: u64 = ((1 << 32) - (1 << 23)) * PAGE_BYTES as u64;

/// Which pages the system backs a pool with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HugePages {
    /// Pages of the system's base size only. Resident memory is what was touched, to the page.
    None,
    /// Huge pages where the system finds them (`MADV_HUGEPAGE`): a five-hundredth of the faults, fewer TLB misses.
    /// Resident memory is what was touched rounded up to 2 MiB, which is also the unit in which it goes back. If unsure,
    /// take this.
    #[default]
    Transparent,
    /// Huge pages of 2 MiB that an administrator has set apart (`vm.nr_hugepages`), reserved when the pool is built.
    Explicit,
}

/// What a child of a fork sees of the pool's memory. Its calls are refused either way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFork {
    /// A copy, as of all memory: buffers can be read there. Forking costs page tables and, afterwards, a copy of each
    /// page that either process writes.
    #[default]
    Copy,
    /// Nothing: touching it there ends the child, or once the child has mapped something else at those addresses, touches
    /// that. Forking costs nothing; right for programs that fork only to run another program.
    Absent,
}

/// Collects what a [`PagePool`] is made from; each setting has a default that suits most.
#[derive(Clone, Debug)]
pub struct PoolBuilder {
    bytes: u64,
    reserve_bytes: u64,
    huge_pages: HugePages,
    nodes: Option<Vec<NodeId>>,
    prefault: bool,
    tuning: Option<Tuning>,
    on_fork: OnFork,
    give_back: GiveBack,
    sequences: bool,
}

impl PoolBuilder {
    pub(crate) fn new(bytes: u64) -> PoolBuilder {
        PoolBuilder {
            bytes,
            reserve_bytes: bytes,
            huge_pages: HugePages::default(),
            nodes: None,
            prefault: false,
            tuning: None,
            on_fork: OnFork::default(),
            give_back: GiveBack::default(),
            sequences: true,
        }
    }

    /// Bytes of address space to set apart for [`PagePool::grow`]; by default none beyond the size. Costs address space,
    /// and 12 bytes of it for each page.
    #[must_use]
    pub fn reserve(mut self, bytes: u64) -> Self {
        self.reserve_bytes = bytes;
        self
    }

    /// Which pages back it; by default [`HugePages::Transparent`].
    #[must_use]
    pub fn huge_pages(mut self, huge_pages: HugePages) -> Self {
        self.huge_pages = huge_pages;
        self
    }

    /// The nodes whose memory it has, in equal shares; by default all that have memory. A thread is served from its own
    /// node while that has memory.
    #[must_use]
    pub fn nodes(mut self, nodes: &[NodeId]) -> Self {
        self.nodes = Some(nodes.to_vec());
        self
    }

    /// Whether all memory is there from the start, instead of coming as it is touched. Gain: no page fault later, and
    /// no surprise. Cost: the time to clear it, and that it is resident; give-back is best off then. By default off.
    #[must_use]
    pub fn prefault(mut self, on: bool) -> Self {
        self.prefault = on;
        self
    }

    /// The rules by which caches fill, empty and size themselves; by default [`Tuning::default`] with a batch that is a
    /// power of two, where the kernel's is one less.
    #[must_use]
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = Some(tuning);
        self
    }

    /// What a forked child sees; by default [`OnFork::Copy`].
    #[must_use]
    pub fn on_fork(mut self, on_fork: OnFork) -> Self {
        self.on_fork = on_fork;
        self
    }

    /// When free memory goes back to the system; see [`GiveBack`] for the default.
    #[must_use]
    pub fn give_back(mut self, policy: GiveBack) -> Self {
        self.give_back = policy;
        self
    }

    /// Whether threads take the lock of a CPU's cache as a restartable sequence, without an atomic exchange; by default they
    /// do where the system lets them. Off is for programs that forbid themselves `membarrier` later. Cost: an allocation
    /// and its free take two exchanges more, 2 to 8 ns each, and all of it is behind a call.
    #[must_use]
    pub fn restartable_sequences(mut self, on: bool) -> Self {
        self.sequences = on;
        self
    }

    /// Builds the pool. Sizes are rounded up to 2 MiB for each node.
    ///
    /// # Errors
    /// What cannot be had, and why; nothing is left behind then.
    pub fn build(self) -> Result<PagePool, PoolError> {
        let topology = Topology::of_this_machine();
        let nodes = self.checked_nodes(&topology)?;
        let sizes = Sizes::new(self.bytes, self.reserve_bytes, nodes.len())?;
        if self.huge_pages == HugePages::Explicit && sizes.share < sizes.span {
            return Err(PoolError::HugePagesCannotGrow);
        }
        let memory = self.memory(&sizes, nodes.len())?;
        for (i, node) in nodes.iter().enumerate().filter(|_| topology.nodes.len() > 1) {
            let bound = prefer_node(&memory, i * sizes.span, sizes.span, node.0);
            // Where nobody asked for nodes, a container that forbids `mbind` (Docker's default profile does) has a pool
            // all the same: its pages come from the nodes of the threads that touch them first.
            if let (Some(_), Err(error)) = (&self.nodes, bound) {
                return Err(PoolError::System {
                    what: "binding to a node",
                    bytes: sizes.span as u64,
                    help: "name nodes that are online, or allow mbind (CAP_SYS_NICE in containers), or name none",
                    error,
                });
            }
        }
        let ranges: Vec<[PageRange; 1]> =
            (0..nodes.len()).map(|i| [pages(memory.start() + i * sizes.span, sizes.share)]).collect();
        let zones: Vec<ZoneSpec<'_>> = nodes
            .iter()
            .zip(&ranges)
            .map(|(&node, ranges)| {
                let span = PageRange::new(ranges[0].start, (sizes.span / PAGE_BYTES) as u64);
                ZoneSpec { node, kind: ZoneKind::Normal, span, ranges }
            })
            .collect();
        let config = Config {
            distances: &topology.distances,
            tuning: self.tuning.unwrap_or_else(|| default_tuning(sizes.span)),
            watermarks: WATERMARKS,
            cache_slice_pages: topology.cache_slice_bytes / PAGE_BYTES as u64,
            ..Config::new(&zones, &topology.cpus)
        };
        // Distances speak of all nodes of the machine; those of a pool may be fewer.
        let all_nodes = nodes.iter().chain(&topology.cpus).map(|node| node.0 as usize + 1).max().unwrap_or(1);
        let config = if topology.distances.len() == all_nodes * all_nodes {
            config
        } else {
            Config { distances: &[], ..config }
        };
        let host = Host::new(topology.cpus.len() as u32, self.sequences);
        let mapped_allocator = MappedAllocator::open(host, &config).map_err(|error| match error {
            MetadataError::Config(error) => PoolError::Config(error),
            MetadataError::Memory { bytes, error } => no_space("reserving metadata", bytes, error),
        })?;
        let fork_detector = ForkDetector::new(host.sequences())
            .map_err(|error| no_space("a page that forks wipe", PAGE_BYTES, error))?;
        if self.prefault {
            for i in 0..nodes.len() {
                memory.populate(i * sizes.span, sizes.share).map_err(|error| no_memory(sizes.share, error))?;
            }
        }
        let pool = PagePool::new(memory, mapped_allocator, fork_detector, sizes.span, self.prefault, self.give_back);
        if let Some(online) = online_cpus() {
            pool.set_online_cpus(&online);
        }
        Ok(pool)
    }

    fn checked_nodes(&self, topology: &Topology) -> Result<Vec<NodeId>, PoolError> {
        let nodes = self.nodes.clone().unwrap_or_else(|| topology.nodes.clone());
        let twice = nodes.iter().enumerate().any(|(i, node)| nodes[..i].contains(node));
        let unknown = nodes.iter().any(|node| !topology.nodes.contains(node));
        if nodes.is_empty() || twice || unknown {
            return Err(PoolError::Nodes { nodes, allowed: topology.nodes.clone() });
        }
        Ok(nodes)
    }

    fn memory(&self, sizes: &Sizes, nodes: usize) -> Result<Mapping, PoolError> {
        let bytes = sizes.span * nodes;
        let explicit = self.huge_pages == HugePages::Explicit;
        let backing = if explicit { Backing::Hugetlb } else { Backing::Lazy };
        let mut memory = Mapping::reserve(bytes, if explicit { CHUNK_BYTES } else { MAX_BLOCK_BYTES }, backing)
            .map_err(|error| {
                if explicit {
                    let help = "let an administrator raise vm.nr_hugepages, or take transparent huge pages";
                    PoolError::System { what: "reserving huge pages", bytes: bytes as u64, help, error }
                } else {
                    no_space("reserving address space", bytes, error)
                }
            })?;
        if !explicit {
            // A kernel without transparent huge pages refuses both, and gives what was asked for as near as it can.
            let _ = memory.set_huge(self.huge_pages == HugePages::Transparent);
        }
        if self.on_fork == OnFork::Absent {
            memory.exclude_from_forks().map_err(|error| no_space("leaving the pool out of forks", bytes, error))?;
        }
        Ok(memory)
    }
}

/// A pool gives out all that it has: no minimum is kept. The marks above it, a thousandth and two, only say where
/// caches begin to shrink.
const WATERMARKS: WatermarkRule =
    WatermarkRule { min_free_kbytes: Some(0), huge_pages: false, scale_factor: 10, boost_factor: 0 };

/// The default rules for a share of a node. The bookkeeping of 64 neighbouring pages is one cache line: batches of 64 from
/// a fresh pool leave each CPU's pages on lines of its own, where batches of 63 make each CPU share one with the next.
fn default_tuning(span: usize) -> Tuning {
    let tuning = Tuning::default();
    match tuning.batch {
        BatchRule::FromZone { cap_kib } => {
            let batch = zone_batch((span / PAGE_BYTES) as u64, cap_kib) + 1;
            Tuning { batch: BatchRule::Fixed(batch), ..tuning }
        }
        BatchRule::Fixed(_) => tuning,
    }
}

/// The pages of some address space.
pub(crate) fn pages(start: usize, bytes: usize) -> PageRange {
    PageRange::new(Pfn((start / PAGE_BYTES) as u64), (bytes / PAGE_BYTES) as u64)
}

/// Bytes of each node.
struct Sizes {
    /// There from the start.
    share: usize,
    /// Address space.
    span: usize,
}

impl Sizes {
    fn new(bytes: u64, reserve_bytes: u64, nodes: usize) -> Result<Sizes, PoolError> {
        let max_bytes = MAX_NODE_BYTES * nodes as u64;
        if let Some(&bytes) = [bytes, reserve_bytes].iter().find(|&&bytes| bytes == 0 || bytes > max_bytes) {
            return Err(PoolError::Size { bytes, max_bytes });
        }
        if reserve_bytes < bytes {
            return Err(PoolError::ReserveTooSmall { bytes, reserve_bytes });
        }
        let each = |bytes: u64| bytes.div_ceil(nodes as u64).next_multiple_of(CHUNK_BYTES as u64) as usize;
        Ok(Sizes { share: each(bytes), span: each(reserve_bytes) })
    }
}

fn no_space(what: &'static str, bytes: usize, error: io::Error) -> PoolError {
    let help = match error.raw_os_error() {
        Some(libc::EAGAIN) => {
            "this process locks all that it maps (mlockall with MCL_FUTURE), address space too: take a smaller pool, raise \
             ulimit -l, or lock without MCL_FUTURE"
        }
        _ => {
            "take a smaller pool, or raise the limits on address space (ulimit -v; vm.overcommit_memory 2 counts it as \
             memory) or on mappings (vm.max_map_count)"
        }
    };
    PoolError::System { what, bytes: bytes as u64, help, error }
}

/// What would help where the system does not take memory back.
pub(crate) const GIVE_BACK_HELP: &str = "locked memory (mlock, mlockall) does not go back, nor do huge pages that an \
administrator has set apart before Linux 5.18: unlock it, or build the pool with GiveBack::OFF";

pub(crate) fn no_memory(bytes: usize, error: io::Error) -> PoolError {
    let help = "take a smaller pool, or leave prefault off";
    PoolError::System { what: "having memory from the start", bytes: bytes as u64, help, error }
}
