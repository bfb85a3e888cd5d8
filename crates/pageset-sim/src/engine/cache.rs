//! Costs of cache line touches, from the last holder of a line and the lines that its core has touched since.
//!
//! The model has no cache sets. Each core counts the lines that it brings in. A line has left a cache when its holder
//! has since brought in more lines than the cache holds.

use std::cell::Cell;

use zerocopy::FromZeros;

use crate::engine::running::Running;
use crate::engine::topology::{Core, Socket, Topology};
use crate::time::Time;

/// Bytes of a cache line, the same on all machines of the tables.
pub const LINE_BYTES: u64 = 64;
const PAGE_LINES: u64 = pageset::Pfn::PAGE_BYTES / LINE_BYTES;

/// Where a core finds a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Source {
    /// The core's own first-level cache.
    L1,
    /// The core's own second-level cache.
    L2,
    /// The core's last-level cache.
    Llc,
    /// The private cache of another core that shares the last level.
    Transfer,
    /// Memory of the core's own node.
    Memory,
    /// A cache of another socket.
    RemoteTransfer,
    /// Memory of a node of another package.
    RemoteMemory,
    /// A cache of the package that the core does not share.
    NearTransfer,
    /// Memory of another node of the package.
    NearMemory,
}

impl Source {
    /// Number of sources.
    pub const COUNT: usize = 9;

    /// Whether the line came from memory, of any node.
    pub const fn is_memory(self) -> bool {
        matches!(self, Self::Memory | Self::NearMemory | Self::RemoteMemory)
    }
}

/// Busy cores with which [`CacheCosts::transfer_load`] is reached: between the 36 and 44 of two machines of the batch tables.
pub const LOAD_CORES: u32 = 40;
/// How queueing for lines grows with the busy cores: it would be 1 if all cores shared one bus, and 1/2 on a square mesh, whose
/// narrowest cut grows with the root of its cores. A guess, chosen among five values with rows of batch 31 in sight:
/// docs/archive/accuracy.md. No row tells how more than 96 cores queue.
const QUEUEING_EXPONENT: f64 = 0.7;

/// Cache sizes in lines, and latencies by source.
#[derive(Clone, Copy, Debug)]
pub struct CacheCosts {
    /// Lines of a core's first-level cache.
    pub l1_lines: u64,
    /// Lines of a core's second-level cache.
    pub l2_lines: u64,
    /// Lines of one last-level cache.
    pub llc_lines: u64,
    /// How many times longer single lines stay in the last level than streamed pages, at least 1.
    pub llc_reuse_factor: u64,
    /// Latency of one line, by source.
    pub line: [Time; Source::COUNT],
    /// Duration of writing a whole page, by source.
    pub page: [Time; Source::COUNT],
    /// Latency of a line of another core of the last level with [`LOAD_CORES`] busy cores, relative to an idle machine.
    pub transfer_load: f64,
}

impl CacheCosts {
    /// What the requests of `cores` busy cores add to the latency of a line of another core.
    fn queueing(&self, cores: u32) -> Time {
        let share = f64::from(cores.saturating_sub(1)) / f64::from(LOAD_CORES - 1);
        let permille = 1000.0 * (self.transfer_load - 1.0) * share.powf(QUEUEING_EXPONENT);
        self.line[Source::Transfer as usize].permille(permille.round() as u64)
    }
}

/// The last touch of a line: the core, and the number of lines that the core had brought in by then. Zero means never
/// touched.
#[derive(Debug, Default, FromZeros)]
#[repr(transparent)]
pub struct LineState(Cell<u64>);

/// Bit position of the core's number plus one. The line count is below it.
const CORE_SHIFT: u32 = 48;

#[derive(Debug)]
pub(crate) struct Caches {
    topology: Topology,
    costs: CacheCosts,
    cores: Box<[CoreCache]>,
    sources: [Cell<u64>; Source::COUNT],
    /// What requests of other cores add to the latency of a line of another core: of the same last level, and of another.
    queueing: [Cell<Time>; 2],
}

#[derive(Debug)]
struct CoreCache {
    /// The value that the core writes into the state of a touched line: the core's number and its count of lines
    /// brought in.
    tag: Cell<u64>,
    /// The core's share of the last level in lines, at least its second-level size.
    llc_share: Cell<u64>,
    socket: Socket,
    package: u32,
    last_level: u32,
    /// Duration of the core's lines from outside, in thousandths of the mean core's.
    permille: u64,
}

impl Caches {
    /// `core_permille`: duration of the lines from outside of each core of a socket, in thousandths of the mean core's.
    pub(crate) fn new(topology: Topology, costs: CacheCosts, core_permille: &[u64]) -> Self {
        Caches {
            topology,
            costs,
            cores: (0..topology.cores())
                .map(|core| CoreCache {
                    tag: Cell::new((u64::from(core) + 1) << CORE_SHIFT),
                    llc_share: Cell::new(costs.llc_lines.max(costs.l2_lines)),
                    socket: topology.socket_of(Core(core)),
                    package: topology.package_of(topology.socket_of(Core(core))),
                    last_level: topology.last_level_of(Core(core)),
                    permille: core_permille[(core % topology.cores_per_socket) as usize],
                })
                .collect(),
            sources: Default::default(),
            queueing: Default::default(),
        }
    }

    /// Divides each last level among its busy cores, the first `cores` cores of the machine.
    ///
    /// Requests for a line of another core queue at the line's home, as long however far away they come from, behind the requests of
    /// all busy cores, also those of the `alike` machines that this one represents. Of several last levels of a node, each
    /// has its own queue, for lines of its own cores. Both are guesses: published rows depend only on lines of one socket's last level.
    pub(crate) fn share(&self, cores: u32, alike: u32) {
        let each = self.topology.cores_per_last_level();
        let within = if self.topology.last_levels_per_node > 1 { cores.min(each) } else { cores * alike };
        for (queueing, cores) in self.queueing.iter().zip([within, cores * alike]) {
            queueing.set(self.costs.queueing(cores));
        }
        for core in &self.cores {
            let busy = cores.saturating_sub(core.last_level * each).clamp(1, each);
            core.llc_share.set((self.costs.llc_lines / u64::from(busy)).max(self.costs.l2_lines));
        }
    }

    /// The value that a core which does not run writes into line states.
    pub(super) fn tag(&self, core: Core) -> u64 {
        self.cores[core.0 as usize].tag.get()
    }

    /// Sets the value of [`Self::tag`] when a core stops running.
    pub(super) fn set_tag(&self, core: Core, tag: u64) {
        self.cores[core.0 as usize].tag.set(tag);
    }

    /// Touches lines as the running core. Returns the latency of one line if the lines are in the core's own caches.
    #[inline(always)]
    pub(super) fn near(&self, running: &Running, line: &LineState, lines: u64) -> Option<Time> {
        self.own_recent(running, line, lines, running.near.get()).map(|source| self.near_time(source))
    }

    /// The source of lines that the core touched less than `max_age` brought-in lines ago. Touches these lines.
    #[inline(always)]
    fn own_recent(&self, running: &Running, line: &LineState, lines: u64, max_age: u64) -> Option<Source> {
        let now = running.tag.get();
        // The tag difference of a line that another core held, or none, exceeds the size of any cache.
        let age = now.wrapping_sub(line.0.get());
        (age < max_age).then(|| {
            line.0.set(now);
            let source = if age < self.costs.l1_lines { Source::L1 } else { Source::L2 };
            self.count(source, lines);
            source
        })
    }

    /// Touches lines as the running core and returns their source.
    #[inline]
    pub(super) fn fetch(&self, running: &Running, line: &LineState, node: Socket, lines: u64) -> Source {
        let near = self.own_recent(running, line, lines, self.costs.l2_lines);
        near.unwrap_or_else(|| self.bring(running, line, node, lines))
    }

    /// Brings in lines that are not in the running core's own caches. `node` is the node of their memory.
    #[inline]
    pub(super) fn bring(&self, running: &Running, line: &LineState, node: Socket, lines: u64) -> Source {
        let (own, tag) = (&self.cores[running.core.get().0 as usize], running.tag.get());
        // `locate_outside` reads the tag of the last holder, which may be this core.
        own.tag.set(tag);
        let source = self.locate_outside(own, line.0.get(), node, lines);
        running.tag.set(tag + lines);
        line.0.set(tag + lines);
        self.count(source, lines);
        source
    }

    /// Touches a line as any core, running or not, and returns its source.
    pub(super) fn locate(&self, running: &Running, core: Core, line: &LineState, node: Socket) -> Source {
        if core == running.core.get() && running.on.get() {
            return self.fetch(running, line, node, 1);
        }
        let (now, state) = (self.tag(core), line.0.get());
        // An own recent line, as in `own_recent`.
        let age = now.wrapping_sub(state);
        if age >= self.costs.l2_lines {
            if running.on.get() {
                self.set_tag(running.core.get(), running.tag.get());
            }
            return self.bring_into(core, line, node, 1);
        }
        line.0.set(now);
        let source = if age < self.costs.l1_lines { Source::L1 } else { Source::L2 };
        self.count(source, 1);
        source
    }

    /// Brings in lines as any core. The stored tags of all cores must be current.
    #[inline(always)]
    fn bring_into(&self, core: Core, line: &LineState, node: Socket, lines: u64) -> Source {
        let own = &self.cores[core.0 as usize];
        let source = self.locate_outside(own, line.0.get(), node, lines);
        let tag = own.tag.get() + lines;
        own.tag.set(tag);
        line.0.set(tag);
        self.count(source, lines);
        source
    }

    #[inline(always)]
    fn count(&self, source: Source, lines: u64) {
        let count = &self.sources[source as usize];
        count.set(count.get() + lines);
    }

    /// The latency of one line in a core's own caches.
    #[inline(always)]
    fn near_time(&self, source: Source) -> Time {
        self.costs.line[source as usize]
    }

    #[inline]
    pub(super) fn line_time(&self, core: Core, source: Source) -> Time {
        let (time, core) = (self.costs.line[source as usize], &self.cores[core.0 as usize]);
        match source {
            Source::L1 | Source::L2 => time,
            Source::Transfer => (time + self.queueing[0].get()).permille(core.permille),
            Source::NearTransfer | Source::RemoteTransfer => (time + self.queueing[1].get()).permille(core.permille),
            _ => time.permille(core.permille),
        }
    }

    /// Duration of a core's work and of its lines from outside, in thousandths of the mean core's.
    pub(super) fn core_permille(&self, core: Core) -> u64 {
        self.cores[core.0 as usize].permille
    }

    /// Writes all lines of a page as the running core. Returns where they were, and the duration.
    #[inline]
    pub(super) fn fetch_page(&self, running: &Running, page: &LineState, node: Socket) -> (Source, Time) {
        let source = self.fetch(running, page, node, PAGE_LINES);
        (source, self.costs.page[source as usize])
    }

    /// The source of lines outside the core's own caches, for the core with the caches `own`.
    #[inline(always)]
    fn locate_outside(&self, own: &CoreCache, state: u64, node: Socket, lines: u64) -> Source {
        let memory = if node == own.socket {
            Source::Memory
        } else if self.topology.package_of(node) == own.package {
            Source::NearMemory
        } else {
            Source::RemoteMemory
        };
        let Some(holder) = (state >> CORE_SHIFT).checked_sub(1) else { return memory };
        let holder = &self.cores[holder as usize];
        let age = holder.tag.get() - state;
        // Streamed pages leave the last level early. Most lines that a core brings in belong to such pages.
        let times = if lines < PAGE_LINES { self.costs.llc_reuse_factor } else { 1 };
        if age >= times.saturating_mul(holder.llc_share.get()) {
            memory
        } else if holder.package != own.package {
            Source::RemoteTransfer
        } else if holder.last_level != own.last_level {
            Source::NearTransfer
        } else if age < self.costs.l2_lines {
            Source::Transfer
        } else {
            Source::Llc
        }
    }

    /// Touched lines by source so far.
    pub(crate) fn sources(&self) -> [u64; Source::COUNT] {
        self.sources.each_ref().map(Cell::get)
    }
}
