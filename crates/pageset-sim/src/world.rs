//! The implementation of the allocator's machine trait: the unchanged `crates/pageset` runs on the engine.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use pageset::machine::{Access, Line};
use pageset::{CpuId, LockPath, NodeId, Order, PageRange, Pfn, ZoneKind, ZoneSpec};
use zerocopy::FromZeros;

use crate::engine::{Engine, LINE_BYTES, LineState, LockId, Socket};
use crate::machine::Machine;
use crate::sim_lock::SimLock;
use crate::time::Time;

/// The allocator of a simulated machine.
pub type Allocator<'a> = pageset::Allocator<'a, SimMachine>;

/// The layout of a machine's memory: one zone per node. The distance between the starts of two nodes is a power of two
/// pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryMap {
    nodes: u32,
    node_pages: u64,
    /// log2 of the distance between the starts of two nodes, in pages.
    stride_shift: u32,
}

/// The first page number, at 4 GiB, so that no page has number 0.
const BASE: u64 = 1 << 20;

impl MemoryMap {
    /// The map of a machine. It leaves out the low zones of node 0, because no simulated request asks for them.
    pub fn new(machine: &Machine) -> Self {
        Self::with_memory(machine, machine.node_pages())
    }

    pub(crate) fn with_memory(machine: &Machine, node_pages: u64) -> Self {
        MemoryMap {
            nodes: machine.topology().sockets,
            node_pages,
            stride_shift: node_pages.next_power_of_two().ilog2(),
        }
    }

    /// Number of nodes.
    pub const fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The memory of each node.
    pub fn ranges(&self) -> Vec<PageRange> {
        let start = |node: u32| Pfn(BASE + (u64::from(node) << self.stride_shift));
        (0..self.nodes).map(|node| PageRange::new(start(node), self.node_pages)).collect()
    }

    /// The zones of `ranges`: one `Normal` zone per range.
    pub fn zones<'r>(&self, ranges: &'r [PageRange]) -> Vec<ZoneSpec<'r>> {
        let zone = |(node, range): (usize, &'r PageRange)| ZoneSpec {
            node: NodeId(node as u32),
            kind: ZoneKind::Normal,
            span: *range,
            ranges: std::slice::from_ref(range),
        };
        ranges.iter().enumerate().map(zone).collect()
    }

    /// The index of a page in arrays with one element per page.
    #[inline]
    pub fn index(&self, pfn: Pfn) -> usize {
        pfn.0.wrapping_sub(BASE) as usize
    }

    /// The page at an index of such arrays.
    #[inline]
    pub fn page(&self, index: usize) -> Pfn {
        Pfn(BASE + index as u64)
    }

    /// The length of such arrays.
    pub fn span(&self) -> usize {
        (u64::from(self.nodes) << self.stride_shift) as usize
    }

    /// The node of a page.
    #[inline]
    pub fn node_of(&self, pfn: Pfn) -> Socket {
        Socket((pfn.0.wrapping_sub(BASE) >> self.stride_shift) as u32)
    }
}

/// Lines of a free area that are touched together: 104 bytes, made of two list pointers for each of six migratetypes
/// and a count. Specification: `linux-page-allocator.md` 1.4.
const AREA_LINES: u64 = 2;

/// Lines of a depot that are touched together: its head, and a batch of 256 bytes. See [`Line::Depot`].
const DEPOT_LINES: u64 = 5;

/// Cluster descriptors per line, see [`Line::Cluster`]. A zone has at most one descriptor per two pages.
const CLUSTERS_A_LINE: u32 = 8;

/// The lines of one zone that several CPUs write.
#[derive(Debug)]
struct ZoneLines {
    regions: Box<[RegionLines]>,
    pagesets: Box<[LineState]>,
    owner_lists: Box<[LineState]>,
    clusters: Vec<LineState>,
}

/// The lines of one region of a zone.
#[derive(Debug, Default)]
struct RegionLines {
    counters: LineState,
    depot: LineState,
    areas: [LineState; Order::COUNT],
}

/// The state of a simulated page: the lines of its descriptor and its data, and its neighbours on the LRU.
#[derive(Debug, FromZeros)]
#[repr(C)]
pub(crate) struct PageState {
    descriptor: LineState,
    data: LineState,
    /// Index of the neighbour plus one; 0 means no neighbour.
    pub(crate) lru_next: Cell<u32>,
    pub(crate) lru_prev: Cell<u32>,
}

/// The machine under the allocator: the CPUs and locks of the engine, and the state of each line that the allocator
/// touches.
///
/// The first locks of the engine are those of the zones' regions, zone by zone. All zones have the same number of them.
pub struct SimMachine {
    engine: Rc<Engine>,
    pub(crate) map: MemoryMap,
    zones: Box<[ZoneLines]>,
    /// Regions of each zone.
    regions: usize,
    pages: Vec<PageState>,
    /// Mask for page indices: gives the index of the first page whose descriptor shares the line.
    first_sharing: usize,
    /// Lines per page descriptor, at least 1.
    descriptor_lines: u64,
    list_step: Time,
}

impl fmt::Debug for SimMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimMachine").field("map", &self.map).finish_non_exhaustive()
    }
}

/// The host has no memory for the state of the simulated machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMemory;

fn table<T: FromZeros>(len: usize) -> Result<Vec<T>, NoMemory> {
    T::new_vec_zeroed(len).map_err(|_| NoMemory)
}

impl SimMachine {
    /// The machine on an engine whose first locks are those of the zones' regions, in the order of the nodes.
    pub fn new(engine: Rc<Engine>, machine: &Machine, regions: usize) -> Result<Self, NoMemory> {
        Self::with_memory(engine, machine, machine.node_pages(), regions)
    }

    /// As [`Self::new`], with `node_pages` pages on each node.
    pub(crate) fn with_memory(
        engine: Rc<Engine>,
        machine: &Machine,
        node_pages: u64,
        regions: usize,
    ) -> Result<Self, NoMemory> {
        let map = MemoryMap::with_memory(machine, node_pages);
        let bytes = machine.guessed.descriptor_bytes.get();
        let cpus = machine.topology().cpus() as usize;
        let cluster_lines = (map.node_pages / 2).div_ceil(u64::from(CLUSTERS_A_LINE)) as usize;
        let zone = |_| {
            Ok(ZoneLines {
                regions: (0..regions).map(|_| RegionLines::default()).collect(),
                pagesets: (0..cpus).map(|_| LineState::default()).collect(),
                owner_lists: (0..cpus).map(|_| LineState::default()).collect(),
                clusters: table(cluster_lines)?,
            })
        };
        Ok(SimMachine {
            zones: (0..map.nodes).map(zone).collect::<Result<_, NoMemory>>()?,
            regions,
            pages: table(map.span())?,
            first_sharing: !((LINE_BYTES / bytes).max(1) as usize - 1),
            descriptor_lines: (bytes / LINE_BYTES).max(1),
            list_step: machine.cycles(machine.guessed.list_step_cycles),
            engine,
            map,
        })
    }

    /// The engine below this machine.
    #[inline]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The state of a page; `None` for a page outside of the map.
    #[inline]
    pub(crate) fn page_state(&self, pfn: Pfn) -> Option<&PageState> {
        self.pages.get(self.map.index(pfn))
    }

    #[inline]
    pub(crate) fn page_state_at(&self, index: usize) -> &PageState {
        &self.pages[index]
    }

    /// Touches a page's descriptor.
    #[inline(always)]
    pub fn touch_page(&self, pfn: Pfn) {
        if let Some(state) = self.pages.get(self.map.index(pfn) & self.first_sharing) {
            self.engine.touch_run(&state.descriptor, || self.map.node_of(pfn), self.descriptor_lines);
        }
    }

    #[inline(always)]
    fn touch(&self, line: Line) {
        match line {
            Line::Page(pfn) => self.touch_page(pfn),
            Line::FreeList { zone, region, order, migratetype: _ } => {
                let area = &self.zones[zone].regions[region].areas[usize::from(order)];
                self.engine.work_on(self.list_step, area, || Socket(zone as u32), AREA_LINES);
            }
            Line::Depot { zone, region } => {
                let depot = &self.zones[zone].regions[region].depot;
                self.engine.work_on(self.list_step, depot, || Socket(zone as u32), DEPOT_LINES);
            }
            Line::Cluster { zone, number } => {
                if let Some(line) = self.zones[zone].clusters.get((number / CLUSTERS_A_LINE) as usize) {
                    self.engine.touch(line, Socket(zone as u32));
                }
            }
            Line::Zone { zone, region } => {
                self.engine.touch(&self.zones[zone].regions[region].counters, Socket(zone as u32));
            }
            Line::OwnerList { zone, cpu } => {
                self.engine.touch(&self.zones[zone].owner_lists[cpu.0 as usize], Socket(zone as u32));
            }
            Line::Pageset { zone, cpu } => {
                self.engine.touch(&self.zones[zone].pagesets[cpu.0 as usize], Socket(zone as u32));
            }
        }
    }

    #[inline]
    fn prefetch(&self, line: Line) {
        if let Line::Page(pfn) = line
            && let Some(state) = self.pages.get(self.map.index(pfn) & self.first_sharing)
        {
            self.engine.prefetch(&state.descriptor, self.map.node_of(pfn), self.descriptor_lines);
        }
    }

    /// The allocator takes the lock of a region next; no other engine lock comes in between.
    fn announce(&self, zone: usize, region: usize, path: LockPath) {
        self.engine.announce(LockId((zone * self.regions + region) as u32), path as usize);
    }

    /// Writes all data of a page, as clearing does.
    pub fn write_page(&self, pfn: Pfn) {
        if let Some(state) = self.page_state(pfn) {
            self.engine.write_page(&state.data, self.map.node_of(pfn));
        }
    }
}

impl pageset::Machine for SimMachine {
    type Lock = SimLock;

    #[inline]
    fn cpu(&self) -> CpuId {
        CpuId(self.engine.cpu())
    }

    // Each caller passes a constant variant, so inlining removes this `match`.
    #[inline(always)]
    fn probe(&self, access: Access) {
        match access {
            Access::Touch(line) => self.touch(line),
            Access::Prefetch(line) => self.prefetch(line),
            Access::ZoneLock { zone, region, path } => self.announce(zone, region, path),
        }
    }

    fn relax(&self) {
        self.engine.relax();
    }
}
