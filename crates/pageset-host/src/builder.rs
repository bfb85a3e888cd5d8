//! The settings of a pool, and its construction.

use std::fmt::Debug;
use std::time::Duration;

use pageset::policy::sizes::{WatermarkRule, zone_batch};
use pageset::policy::{BatchRule, ClaimRule};
use pageset::{Backing, Config, FreeCheck, NodeId, OwnerRule, PageRange, Tuning, ZoneKind, ZoneSpec};

use crate::error::{PoolError, address_space_error, prefault_error};
use crate::give_back::{GiveBack, GiveBackParts, MAX_AGE};
use crate::machine::Host;
use crate::memory::{HugePages, Memory, MemorySettings, OnFork};
use crate::pool::PagePool;
use crate::run_hooks::RunHooks;
use crate::size::{HugeSize, PAGE_BYTES, bytes_per_node, page_range};
use crate::sys::fork_detector::ForkDetector;
use crate::sys::mapped_allocator::{MappedAllocator, MetadataError};
use crate::sys::numa::prefer_node;
use crate::topology::{Topology, online_cpus};

/// The largest size of a node in bytes. Pages and pageblocks share one space of 32-bit link numbers.
const MAX_NODE_BYTES: u64 = ((1 << 32) - (1 << 23)) * PAGE_BYTES as u64;

/// The shortest time between two scans that give memory back.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

/// The settings of a [`PagePool`]. Each setting has a default.
#[derive(Clone, Debug)]
pub struct PoolBuilder {
    bytes: u64,
    reserve_bytes: u64,
    memory: MemorySettings,
    nodes: Option<Vec<NodeId>>,
    pretended_nodes: Option<u8>,
    #[cfg(test)]
    pretended_cpus: Option<usize>,
    prefault: bool,
    tuning: Option<Tuning>,
    give_back: GiveBack,
    give_back_parts: GiveBackParts,
    restartable_sequences: bool,
    free_check: FreeCheck,
    pub(crate) hooks: RunHooks,
    pub(crate) limit: Option<u64>,
}

impl PagePool {
    /// Starts the settings of a pool of `bytes`, above 0 and below 16 TiB for each node. The size is rounded up to 2 MiB
    /// for each node.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pool = PagePool::builder(64 << 20).name("buffers").build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn builder(bytes: u64) -> PoolBuilder {
        PoolBuilder::new(bytes)
    }
}

impl PoolBuilder {
    pub(crate) fn new(bytes: u64) -> PoolBuilder {
        PoolBuilder {
            bytes,
            reserve_bytes: bytes,
            memory: MemorySettings::default(),
            nodes: None,
            pretended_nodes: None,
            #[cfg(test)]
            pretended_cpus: None,
            prefault: false,
            tuning: None,
            give_back: GiveBack::default(),
            give_back_parts: GiveBackParts::default(),
            restartable_sequences: true,
            free_check: FreeCheck::default(),
            hooks: RunHooks::default(),
            limit: None,
        }
    }

    /// Sets the size in bytes up to which [`PagePool::grow`] can grow the pool. Default: the initial size.
    ///
    /// Cost: the address space of the reserve, and 12 bytes of address space for the metadata of each page.
    #[must_use]
    pub fn reserve(mut self, bytes: u64) -> Self {
        self.reserve_bytes = bytes;
        self
    }

    /// Sets the page size with which the system backs the pool. Default: [`HugePages::Transparent`].
    #[must_use]
    pub fn huge_pages(mut self, huge_pages: HugePages) -> Self {
        self.memory.huge_pages = huge_pages;
        self
    }

    /// Sets whether other processes can map the pool's memory. Default: [`Memory::Private`].
    #[must_use]
    pub fn memory(mut self, memory: Memory) -> Self {
        self.memory.memory = memory;
        self
    }

    /// Sets the name of the memory in `/proc/self/maps` and `/proc/self/smaps`: 1 to 79 printable ASCII characters, except
    /// `[`, `]`, `\\`, `$` and the backquote. Default: no name, of shared memory `pageset`.
    ///
    /// Private memory appears as `[anon:NAME]`. This needs Linux 5.17 with `CONFIG_ANON_VMA_NAME`; other kernels show no
    /// name, and the pool works without it. Private explicit huge pages appear as `/anon_hugepage` on every kernel. Shared
    /// memory appears as `/memfd:NAME` on every kernel.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.memory.name = Some(name.to_owned());
        self
    }

    /// Sets the nodes that provide the memory, in equal parts. Default: all nodes that have memory.
    ///
    /// A thread gets pages of its own node while that node has free pages.
    #[must_use]
    pub fn nodes(mut self, nodes: &[NodeId]) -> Self {
        self.nodes = Some(nodes.to_vec());
        self
    }

    /// Divides the memory between `count` nodes, 1 to 255, numbered from 0, as if the machine had them and all CPUs were on node 0: for
    /// measurements and tests of the allocator's work for nodes. The memory comes from wherever the system takes it.
    #[must_use]
    pub fn pretended_nodes(mut self, count: u8) -> Self {
        self.pretended_nodes = Some(count);
        self
    }

    /// Builds the pool for `count` CPUs, all on node 0. Threads say themselves which of them they run on: `machine::pretended_cpu`. Without
    /// restartable sequences, which know the real CPU.
    #[cfg(test)]
    pub(crate) fn pretended_cpus(mut self, count: usize) -> Self {
        (self.pretended_cpus, self.restartable_sequences) = (Some(count), false);
        self
    }

    /// Sets whether building the pool makes all its memory resident. Default: off.
    ///
    /// Gain: no page fault and no shortage later. Cost: the time to clear the memory, and its residency. With prefault,
    /// consider [`GiveBack::OFF`].
    #[must_use]
    pub fn prefault(mut self, on: bool) -> Self {
        self.prefault = on;
        self
    }

    /// Sets the rules by which caches refill, drain and size themselves.
    ///
    /// Default: [`Tuning::default`] with a batch that is a power of two. The kernel's batch is one page less. The rule
    /// `drain_for_requests` has no effect: the pool drains other CPUs' caches in a way of its own.
    #[must_use]
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = Some(tuning);
        self
    }

    /// Sets what a forked child sees. Default: [`OnFork::Copy`], of shared memory [`OnFork::Absent`].
    #[must_use]
    pub fn on_fork(mut self, on_fork: OnFork) -> Self {
        self.memory.on_fork = Some(on_fork);
        self
    }

    /// Sets when free memory goes back to the system. [`GiveBack`] documents the default.
    #[must_use]
    pub fn give_back(mut self, policy: GiveBack) -> Self {
        self.give_back = policy;
        self
    }

    /// Sets which parts of 2 MiB blocks go back to the system. [`GiveBackParts`] documents the default.
    ///
    /// Has no effect on a pool of explicit huge pages.
    #[must_use]
    pub fn give_back_parts(mut self, parts: GiveBackParts) -> Self {
        self.give_back_parts = parts;
        self
    }

    /// Sets whether threads take the lock of their CPU's cache in a restartable sequence, without an atomic exchange.
    /// Default: on, where the system allows it.
    ///
    /// Turn it off if the program later forbids itself `membarrier`: drains are then faster, and reach all caches. Cost of
    /// off: an allocation and its free take two more exchanges, 2 to 8 ns each. Their fast paths are no longer inlined.
    #[must_use]
    pub fn restartable_sequences(mut self, on: bool) -> Self {
        self.restartable_sequences = on;
        self
    }

    /// Sets which frees are certain to notice another free of the same run at the same instant. Default:
    /// [`FreeCheck::Single`].
    ///
    /// If unsure: `All` where a double free is a matter of safety, and while you test.
    #[must_use]
    pub fn free_check(mut self, check: FreeCheck) -> Self {
        self.free_check = check;
        self
    }

    /// Builds the pool. Sizes are rounded up to 2 MiB for each node, or to 1 GiB with [`HugePages::Explicit1GiB`].
    ///
    /// # Errors
    /// [`PoolError`] names the setting or the system call that failed. Nothing remains reserved.
    pub fn build(self) -> Result<PagePool, PoolError> {
        self.check_ranges()?;
        let this_machine = Topology::of_this_machine();
        let topology = match self.pretended_nodes {
            Some(count) => this_machine.with_nodes(count),
            None => this_machine,
        };
        #[cfg(test)]
        let topology = match self.pretended_cpus {
            Some(count) => Topology { cpu_nodes: vec![NodeId(0); count], ..topology },
            None => topology,
        };
        let nodes = self.checked_nodes(&topology)?;
        let sizes = NodeSizes::new(self.bytes, self.reserve_bytes, nodes.len(), self.memory.huge_pages)?;
        if self.memory.huge_pages.explicit().is_some() && sizes.initial < sizes.reserved {
            return Err(PoolError::HugePagesCannotGrow);
        }
        let memory = self.memory.map(sizes.reserved * nodes.len())?;
        for (i, node) in nodes.iter().enumerate().filter(|_| topology.nodes.len() > 1 && self.pretended_nodes.is_none())
        {
            let bound = prefer_node(&memory, i * sizes.reserved, sizes.reserved, node.0);
            // Containers may forbid `mbind`, as Docker's default profile does. If the caller named no nodes, the pool
            // works without it. A page then comes from the node of the thread that first touches it.
            if let (Some(_), Err(source)) = (&self.nodes, bound) {
                return Err(PoolError::System {
                    action: "bind memory to a node",
                    bytes: sizes.reserved as u64,
                    help: "try nodes that are online, mbind allowed (CAP_SYS_NICE in containers), or no nodes",
                    source,
                });
            }
        }
        let ranges: Vec<[PageRange; 1]> =
            (0..nodes.len()).map(|i| [page_range(memory.start() + i * sizes.reserved, sizes.initial)]).collect();
        let zones: Vec<ZoneSpec<'_>> = nodes
            .iter()
            .zip(&ranges)
            .map(|(&node, ranges)| {
                let span = PageRange::new(ranges[0].start, (sizes.reserved / PAGE_BYTES) as u64);
                ZoneSpec { node, kind: ZoneKind::Normal, span, ranges }
            })
            .collect();
        let config = Config {
            distances: &topology.distances,
            tuning: tuning_for_pool(self.tuning.unwrap_or_else(|| default_tuning(sizes.reserved))),
            watermarks: WATERMARKS,
            cache_slice_pages: topology.cache_slice_bytes / PAGE_BYTES as u64,
            ..Config::new(&zones, &topology.cpu_nodes)
        };
        // The table of distances covers the nodes of the machine, which may be more than those of the pool.
        let node_limit = nodes.iter().chain(&topology.cpu_nodes).map(|node| node.0 as usize + 1).max().unwrap_or(1);
        let config = if topology.distances.len() == node_limit * node_limit {
            config
        } else {
            Config { distances: &[], ..config }
        };
        let config = Config { free_check: self.free_check, ..config };
        let host = Host::new(topology.cpu_nodes.len() as u32, self.restartable_sequences);
        let mapped_allocator = MappedAllocator::new(host, &config).map_err(|error| match error {
            MetadataError::Config(error) => PoolError::Config(error),
            MetadataError::Memory { bytes, source } => address_space_error("reserve metadata", bytes, source),
        })?;
        let rseq_unless = |has_hook: bool| host.rseq().filter(|_| !has_hook);
        let hooks = self.hooks.clone();
        let fork_detector = ForkDetector::new(rseq_unless(hooks.has_alloc_hook()), rseq_unless(hooks.has_free_hook()))
            .map_err(|error| address_space_error("map a page that forks wipe", PAGE_BYTES, error))?;
        if self.prefault {
            for i in 0..nodes.len() {
                memory
                    .populate(i * sizes.reserved, sizes.initial)
                    .map_err(|error| prefault_error(sizes.initial, error))?;
            }
        }
        let policy = self.memory.effective_give_back(self.give_back);
        let mut pool = PagePool::new(memory, mapped_allocator, fork_detector, sizes.reserved, self.prefault, policy);
        hooks.started(&pool.memory);
        pool.hooks = hooks;
        pool.scanner.set_parts(self.effective_parts(), self.memory.huge_pages == HugePages::Transparent);
        if let Some(online) = online_cpus() {
            pool.set_online_cpus(&online);
        }
        if self.limit.is_some() {
            pool.set_limit(self.limit)?;
        }
        Ok(pool)
    }

    /// Refuses values outside their documented ranges.
    fn check_ranges(&self) -> Result<(), PoolError> {
        let GiveBack { interval, after_scans, .. } = self.give_back;
        let factor = self.give_back_parts.after_scans_factor;
        let checks: [(bool, &'static str, &dyn Debug, &'static str); 4] = [
            (self.pretended_nodes != Some(0), "pretended_nodes", &0, "1 to 255"),
            (interval >= SHORTEST_INTERVAL, "GiveBack::interval", &interval, "1 ms and more"),
            ((1..=MAX_AGE).contains(&after_scans), "GiveBack::after_scans", &after_scans, "1 to 250"),
            (factor > 0, "GiveBackParts::after_scans_factor", &factor, "1 to 255"),
        ];
        match checks.into_iter().find(|(valid, ..)| !valid) {
            Some((_, setting, value, allowed)) => {
                Err(PoolError::Setting { setting, value: format!("{value:?}"), allowed })
            }
            None => Ok(()),
        }
    }

    /// Which parts of chunks go back. The system has no part of an explicit huge page to take.
    fn effective_parts(&self) -> GiveBackParts {
        if self.memory.huge_pages.explicit().is_some() { GiveBackParts::OFF } else { self.give_back_parts }
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
}

/// The rules as a pool uses them. It drains other CPUs' caches itself: only it knows whether it may take their locks. A free takes none
/// of them, so blocks of other CPUs' pageblocks are left on lists.
fn tuning_for_pool(tuning: Tuning) -> Tuning {
    let mut tuning = Tuning { drain_for_requests: false, ..tuning };
    if let Backing::Claims { blocks: ClaimRule::Claim(owners) | ClaimRule::ClaimAndMerge(owners), .. } =
        &mut tuning.backing
        && *owners != OwnerRule::Off
    {
        *owners = OwnerRule::List;
    }
    tuning
}

/// A pool keeps no minimum free. The low and high watermarks, 0.1 and 0.2 %, only decide when caches start to shrink.
const WATERMARKS: WatermarkRule =
    WatermarkRule { min_free_kbytes: Some(0), huge_pages: false, scale_factor: 10, boost_factor: 0 };

/// The default rules for a node of `bytes`.
///
/// The tags of 64 neighbouring pages share one cache line. With a batch of 64, each CPU that refills from a fresh pool
/// gets lines of its own. With the kernel's 63, each CPU shares a line with the next.
fn default_tuning(bytes: usize) -> Tuning {
    let tuning = Tuning::default();
    match tuning.batch {
        BatchRule::FromZone { cap_kib } => {
            let batch = zone_batch((bytes / PAGE_BYTES) as u64, cap_kib) + 1;
            Tuning { batch: BatchRule::Fixed(batch), ..tuning }
        }
        BatchRule::Fixed(_) => tuning,
    }
}

/// In bytes.
struct NodeSizes {
    /// The size in use from the start.
    initial: usize,
    /// The address space, into which the node can grow.
    reserved: usize,
}

impl NodeSizes {
    fn new(bytes: u64, reserve_bytes: u64, nodes: usize, huge_pages: HugePages) -> Result<NodeSizes, PoolError> {
        let max_bytes = MAX_NODE_BYTES * nodes as u64;
        if reserve_bytes < bytes {
            return Err(PoolError::ReserveTooSmall { bytes, reserve_bytes });
        }
        if let Some(&bytes) = [bytes, reserve_bytes].iter().find(|&&bytes| bytes == 0 || bytes > max_bytes) {
            return Err(PoolError::Size { bytes, max_bytes });
        }
        // A huge page belongs to one node.
        let unit = huge_pages.explicit().map_or(1, HugeSize::bytes);
        let of_node = |bytes| bytes_per_node(bytes, nodes).next_multiple_of(unit);
        Ok(NodeSizes { initial: of_node(bytes), reserved: of_node(reserve_bytes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first value below each range and the first one above it, where its type has such values.
    #[test]
    fn values_outside_their_ranges_are_refused_with_the_range() {
        let scans = |after_scans| PagePool::builder(1).give_back(GiveBack { after_scans, ..GiveBack::default() });
        let interval = |interval| PagePool::builder(1).give_back(GiveBack { interval, ..GiveBack::default() });
        let parts = GiveBackParts { after_scans_factor: 0, ..GiveBackParts::default() };
        for (builder, message) in [
            (scans(0), "GiveBack::after_scans = 0: the value is out of range; try 1 to 250"),
            (scans(251), "GiveBack::after_scans = 251: the value is out of range; try 1 to 250"),
            (scans(255), "GiveBack::after_scans = 255: the value is out of range; try 1 to 250"),
            (interval(Duration::ZERO), "GiveBack::interval = 0ns: the value is out of range; try 1 ms and more"),
            (
                PagePool::builder(1).give_back_parts(parts),
                "GiveBackParts::after_scans_factor = 0: the value is out of range; try 1 to 255",
            ),
            (PagePool::builder(1).pretended_nodes(0), "pretended_nodes = 0: the value is out of range; try 1 to 255"),
        ] {
            let error = builder.build().expect_err(message).to_string();
            assert_eq!(error, format!("cannot build a pool with {message}"));
        }
        let error = PagePool::builder(1 << 21).reserve(0).build().expect_err("no reserve").to_string();
        assert_eq!(
            error,
            "cannot build a pool of 2097152 bytes: its reserve is 0 bytes; try a reserve of 2097152 bytes or more"
        );
        for builder in [scans(1), scans(250), interval(SHORTEST_INTERVAL), PagePool::builder(1).pretended_nodes(1)] {
            builder.build().expect("the ends of the ranges");
        }
    }

    #[test]
    fn explicit_huge_pages_stay_whole() {
        let builder = PagePool::builder(1);
        assert_eq!(builder.effective_parts(), GiveBackParts::default());
        for huge_pages in [HugePages::Explicit, HugePages::Explicit1GiB] {
            assert_eq!(builder.clone().huge_pages(huge_pages).effective_parts(), GiveBackParts::OFF);
        }
    }
}

#[cfg(test)]
#[path = "many_cpus_tests.rs"]
mod many_cpus_tests;
