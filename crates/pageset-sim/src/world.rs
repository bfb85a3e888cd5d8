//! The allocator's world: the trait through which `crates/pageset`, unchanged, runs on the engine.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use pageset::{Access, CpuId, Line, LockPath, NodeId, Order, PageRange, Pfn, ZoneKind, ZoneSpec};
use zerocopy::FromZeros;

use crate::engine::{Engine, LINE_BYTES, LineState, LockId, Socket};
use crate::host_cache;
use crate::huge_pages;
use crate::machine::Machine;
use crate::sim_lock::SimLock;
use crate::time::Time;

/// The allocator of a simulated machine.
pub type Allocator<'a> = pageset::Allocator<'a, SimMachine>;

/// How a machine's memory lies: one zone a node, each at a multiple of a power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryMap {
    nodes: u32,
    node_pages: u64,
    /// Page numbers from one node to the next, as a power of two.
    stride_shift: u32,
}

/// The first page number: 4 GiB, so that no page is number 0.
const BASE: u64 = 1 << 20;

impl MemoryMap {
    /// The map of a machine. The low zones of its first node are left out: nothing that is simulated asks for them.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        Self::with_memory(machine, machine.node_pages())
    }

    /// The map of a machine that has so many pages on each node.
    fn with_memory(machine: &Machine, node_pages: u64) -> Self {
        MemoryMap {
            nodes: machine.topology().sockets,
            node_pages,
            stride_shift: node_pages.next_power_of_two().ilog2(),
        }
    }

    /// Nodes.
    #[must_use]
    pub const fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Each node's memory.
    #[must_use]
    pub fn ranges(&self) -> Vec<PageRange> {
        let start = |node: u32| Pfn(BASE + (u64::from(node) << self.stride_shift));
        (0..self.nodes).map(|node| PageRange::new(start(node), self.node_pages)).collect()
    }

    /// The zones of these ranges.
    #[must_use]
    pub fn zones<'r>(&self, ranges: &'r [PageRange]) -> Vec<ZoneSpec<'r>> {
        let zone = |(node, range): (usize, &'r PageRange)| ZoneSpec {
            node: NodeId(node as u32),
            kind: ZoneKind::Normal,
            span: *range,
            ranges: std::slice::from_ref(range),
        };
        ranges.iter().enumerate().map(zone).collect()
    }

    /// The place of a page in arrays that hold something for each page.
    #[inline]
    #[must_use]
    pub fn index(&self, pfn: Pfn) -> usize {
        pfn.0.wrapping_sub(BASE) as usize
    }

    /// The page at a place in such arrays.
    #[inline]
    #[must_use]
    pub fn page(&self, index: usize) -> Pfn {
        Pfn(BASE + index as u64)
    }

    /// How long such arrays are.
    #[must_use]
    pub fn span(&self) -> usize {
        (u64::from(self.nodes) << self.stride_shift) as usize
    }

    /// The node of a page.
    #[inline]
    #[must_use]
    pub fn home(&self, pfn: Pfn) -> Socket {
        Socket((pfn.0.wrapping_sub(BASE) >> self.stride_shift) as u32)
    }
}

/// Lines of a free area, which are touched together: a list of two pointers for each of six migratetypes and a count,
/// 104 bytes. Specification: `linux-page-allocator.md` 1.4.
const AREA_LINES: u64 = 2;

/// Cluster descriptors that share a line, see [`Line::Cluster`]. A zone has at most one for each two pages.
const CLUSTERS_A_LINE: u32 = 8;

/// The lines of one zone that several CPUs write.
#[derive(Debug)]
struct ZoneLines {
    counters: LineState,
    areas: [LineState; Order::COUNT],
    pagesets: Box<[LineState]>,
    clusters: Vec<LineState>,
}

/// So many pages before a book is used the host begins to fetch it: it takes about as long as what is done with these.
const AHEAD: usize = 16;

/// What is known of a page: the lines of its descriptor and of its data, and its neighbours on the LRU.
#[derive(Debug, FromZeros)]
#[repr(C)]
pub(crate) struct PageBook {
    descriptor: LineState,
    data: LineState,
    /// Places on the map plus one; 0 is none.
    pub(crate) lru_next: Cell<u32>,
    pub(crate) lru_prev: Cell<u32>,
}

/// What the allocator runs on: the engine's CPUs and locks, and the state of every line that it touches.
///
/// Lock number `z` of the engine is that of zone `z`.
pub struct SimMachine {
    engine: Rc<Engine>,
    pub(crate) map: MemoryMap,
    zones: Box<[ZoneLines]>,
    pages: Vec<PageBook>,
    /// What is left of a page's place as that of the first page whose descriptor shares its line: a mask.
    first_sharing: usize,
    /// Lines of a descriptor.
    descriptor_lines: u64,
    list_step: Time,
    /// For each CPU, where refills fetch ahead: descriptors touched since it came to a zone's lock for one.
    ahead: Box<[Cell<Option<u32>>]>,
    prefetch_next: bool,
}

impl fmt::Debug for SimMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimMachine").field("map", &self.map).finish_non_exhaustive()
    }
}

/// There is not enough memory for a simulated machine's books.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMemory;

/// A table of zeros, on huge pages where it is large and the host has them.
fn table<T: FromZeros>(len: usize) -> Result<Vec<T>, NoMemory> {
    let table = T::new_vec_zeroed(len).map_err(|_| NoMemory)?;
    huge_pages::ask_for(&table);
    Ok(table)
}

impl SimMachine {
    /// The world of a machine on an engine whose first locks are those of its nodes' zones.
    ///
    /// # Errors
    /// The host has no memory for the state of all lines.
    pub fn new(engine: Rc<Engine>, machine: &Machine) -> Result<Self, NoMemory> {
        Self::with_memory(engine, machine, machine.node_pages())
    }

    /// The same with so many pages on each node.
    ///
    /// # Errors
    /// The host has no memory for the state of all lines.
    pub(crate) fn with_memory(engine: Rc<Engine>, machine: &Machine, node_pages: u64) -> Result<Self, NoMemory> {
        let map = MemoryMap::with_memory(machine, node_pages);
        let bytes = machine.model.descriptor_bytes.get();
        let cpus = machine.topology().cpus() as usize;
        let cluster_lines = (map.node_pages / 2).div_ceil(u64::from(CLUSTERS_A_LINE)) as usize;
        let zone = |_| {
            Ok(ZoneLines {
                counters: LineState::default(),
                areas: Default::default(),
                pagesets: (0..cpus).map(|_| LineState::default()).collect(),
                clusters: table(cluster_lines)?,
            })
        };
        Ok(SimMachine {
            zones: (0..map.nodes).map(zone).collect::<Result<_, NoMemory>>()?,
            pages: table(map.span())?,
            first_sharing: !((LINE_BYTES / bytes).max(1) as usize - 1),
            descriptor_lines: (bytes / LINE_BYTES).max(1),
            list_step: machine.model.list_step_ns.into(),
            ahead: vec![Cell::new(None); cpus].into(),
            prefetch_next: machine.model.prefetch_next,
            engine,
            map,
        })
    }

    /// The engine.
    #[inline]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What is known of a page; nothing where there is none.
    #[inline]
    pub(crate) fn book(&self, pfn: Pfn) -> Option<&PageBook> {
        self.pages.get(self.map.index(pfn))
    }

    /// What is known of the page at a place of the map.
    #[inline]
    pub(crate) fn book_at(&self, index: usize) -> &PageBook {
        &self.pages[index]
    }

    /// Pages one after the other, for each of which the host fetches the book of one further on.
    #[inline]
    pub(crate) fn fetching<'p>(&'p self, pages: &'p [Pfn]) -> impl Iterator<Item = Pfn> + 'p {
        pages.iter().enumerate().map(|(i, &pfn)| {
            self.fetch_books(pages.get(i + AHEAD));
            pfn
        })
    }

    /// The host fetches the books of pages.
    #[inline]
    pub(crate) fn fetch_books<'p>(&self, pages: impl IntoIterator<Item = &'p Pfn>) {
        pages.into_iter().filter_map(|&pfn| self.book(pfn)).for_each(host_cache::fetch);
    }

    /// And those of their neighbours on the LRU, once their own have come.
    pub(crate) fn fetch_neighbours(&self, pages: &[Pfn]) {
        for book in pages.iter().filter_map(|&pfn| self.book(pfn)) {
            for neighbour in [&book.lru_next, &book.lru_prev] {
                let place = (neighbour.get() as usize).checked_sub(1);
                place.and_then(|place| self.pages.get(place)).into_iter().for_each(host_cache::fetch);
            }
        }
    }

    /// A touch of a page's descriptor.
    #[inline(always)]
    pub fn touch_page(&self, pfn: Pfn) {
        if let Some(book) = self.pages.get(self.map.index(pfn) & self.first_sharing) {
            self.engine.touch_run(&book.descriptor, || self.map.home(pfn), self.descriptor_lines);
        }
    }

    /// Whether a descriptor that is touched now was fetched ahead: that of each page of a refill but the first.
    fn is_fetched_ahead(&self) -> bool {
        let ahead = &self.ahead[self.engine.cpu() as usize];
        let Some(touched) = ahead.get() else { return false };
        ahead.set(Some(touched + 1));
        touched > 0
    }

    #[inline(always)]
    fn touch(&self, line: Line) {
        match line {
            Line::Page(_) if self.prefetch_next && self.is_fetched_ahead() => self.prefetch(line),
            Line::Page(pfn) => self.touch_page(pfn),
            Line::FreeList { zone, order, migratetype: _ } => {
                let area = &self.zones[zone].areas[usize::from(order)];
                self.engine.work_on(self.list_step, area, || Socket(zone as u32), AREA_LINES);
            }
            Line::Cluster { zone, number } => {
                if let Some(line) = self.zones[zone].clusters.get((number / CLUSTERS_A_LINE) as usize) {
                    self.engine.touch(line, Socket(zone as u32));
                }
            }
            Line::Zone { zone } => self.engine.touch(&self.zones[zone].counters, Socket(zone as u32)),
            Line::Pageset { zone, cpu } => {
                self.engine.touch(&self.zones[zone].pagesets[cpu.0 as usize], Socket(zone as u32));
            }
        }
    }

    #[inline]
    fn prefetch(&self, line: Line) {
        // Only descriptors are fetched ahead.
        if let Line::Page(pfn) = line
            && let Some(book) = self.pages.get(self.map.index(pfn) & self.first_sharing)
        {
            self.engine.prefetch(&book.descriptor, self.map.home(pfn), self.descriptor_lines);
        }
    }

    /// The allocator is about to take a zone's lock: the next lock of the engine that it takes.
    fn announce(&self, zone: usize, path: LockPath) {
        if self.prefetch_next {
            self.ahead[self.engine.cpu() as usize].set((path == LockPath::Refill).then_some(0));
        }
        self.engine.announce(LockId(zone as u32), path as usize);
    }

    /// All of a page's data is written, as when it is cleared.
    pub fn write_page(&self, pfn: Pfn) {
        if let Some(book) = self.book(pfn) {
            self.engine.write_page(&book.data, self.map.home(pfn));
        }
    }
}

impl pageset::Machine for SimMachine {
    type Lock = SimLock;

    #[inline]
    fn cpu(&self) -> CpuId {
        CpuId(self.engine.cpu())
    }

    // Each caller names the kind of its access, so nothing is decided at run time.
    #[inline(always)]
    fn probe(&self, access: Access) {
        match access {
            Access::Touch(line) => self.touch(line),
            Access::Prefetch(line) => self.prefetch(line),
            Access::ZoneLock { zone, path } => self.announce(zone, path),
        }
    }

    fn relax(&self) {
        self.engine.relax();
    }
}
