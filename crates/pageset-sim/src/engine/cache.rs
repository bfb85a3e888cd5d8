//! What a touch of a cache line costs: by who held it last, and how much that core has touched since.
//!
//! No cache is modelled set by set. Each core counts the lines that it brought in; a line whose holder has since brought
//! in more than a cache holds is not in that cache any more.

use std::cell::Cell;

use zerocopy::FromZeros;

use crate::engine::running::Running;
use crate::engine::topology::{Core, Socket, Topology};
use crate::time::Time;

/// Bytes of a cache line. All machines of the tables have this.
pub const LINE_BYTES: u64 = 64;
/// Lines of a page of 4 KiB.
const PAGE_LINES: u64 = 4096 / LINE_BYTES;

/// Where a line is found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Source {
    /// The core's own first-level cache.
    L1,
    /// Its own second-level cache.
    L2,
    /// The cache of its socket.
    Llc,
    /// The private cache of another core of the socket.
    Transfer,
    /// Memory of its own node.
    Memory,
    /// A cache of another socket.
    RemoteTransfer,
    /// Memory of another node.
    RemoteMemory,
}

impl Source {
    /// How many there are.
    pub const COUNT: usize = 7;
    /// All of them, in order.
    pub const ALL: [Source; Self::COUNT] =
        [Self::L1, Self::L2, Self::Llc, Self::Transfer, Self::Memory, Self::RemoteTransfer, Self::RemoteMemory];

    /// Whether the line was in none of the caches that the core has or shares.
    #[must_use]
    pub const fn is_miss(self) -> bool {
        !matches!(self, Self::L1 | Self::L2 | Self::Llc)
    }
}

/// Sizes of caches in lines, and times by source.
#[derive(Clone, Copy, Debug)]
pub struct CacheCosts {
    /// Lines of a core's first level.
    pub l1_lines: u64,
    /// Lines of a core's second level.
    pub l2_lines: u64,
    /// Lines of a socket's last level.
    pub llc_lines: u64,
    /// Lines outlive pages of data in the last level by so many times, at least 1.
    pub llc_reuse_factor: u64,
    /// One line.
    pub line: [Time; Source::COUNT],
    /// Writing a whole page.
    pub page: [Time; Source::COUNT],
}

/// The last touch of a line: a core, and how many lines that core had brought in by then. Zero is never.
#[derive(Debug, Default, FromZeros)]
#[repr(transparent)]
pub struct LineState(Cell<u64>);

/// Where the core's number begins, plus one; below it is the count of lines.
const CORE_SHIFT: u32 = 48;

/// The caches of all cores.
#[derive(Debug)]
pub(crate) struct Caches {
    costs: CacheCosts,
    cores: Box<[CoreCache]>,
    sources: [Cell<u64>; Source::COUNT],
}

/// What is known of a core's caches.
#[derive(Debug)]
struct CoreCache {
    /// What it writes into the state of a line that it touches now: its number, and the lines it has brought in.
    tag: Cell<u64>,
    /// Lines of the last level and its own that it can count on.
    llc_share: Cell<u64>,
    socket: Socket,
}

impl Caches {
    pub(crate) fn new(topology: Topology, costs: CacheCosts) -> Self {
        Caches {
            costs,
            cores: (0..topology.cores())
                .map(|core| CoreCache {
                    tag: Cell::new((u64::from(core) + 1) << CORE_SHIFT),
                    llc_share: Cell::new(costs.llc_lines.max(costs.l2_lines)),
                    socket: topology.socket_of(Core(core)),
                })
                .collect(),
            sources: Default::default(),
        }
    }

    /// The last level of a socket is shared by this many busy cores.
    pub(crate) fn share_llc(&self, socket: Socket, cores: u32) {
        let share = (self.costs.llc_lines / u64::from(cores.max(1))).max(self.costs.l2_lines);
        self.cores.iter().filter(|core| core.socket == socket).for_each(|core| core.llc_share.set(share));
    }

    /// What a core that does not run writes into the state of a line.
    pub(super) fn tag(&self, core: Core) -> u64 {
        self.cores[core.0 as usize].tag.get()
    }

    /// A core does not run any more, and has this.
    pub(super) fn set_tag(&self, core: Core, tag: u64) {
        self.cores[core.0 as usize].tag.set(tag);
    }

    /// The running core touches lines: how long each takes if they are near.
    #[inline(always)]
    pub(super) fn near(&self, running: &Running, line: &LineState, lines: u64) -> Option<Time> {
        self.younger(running, line, lines, running.near.get()).map(|source| self.line_time(source))
    }

    /// Where lines are that the core touched less than so many lines ago; it touches them again.
    #[inline(always)]
    fn younger(&self, running: &Running, line: &LineState, lines: u64, than: u64) -> Option<Source> {
        let now = running.tag.get();
        // A line that another core held, or none, is further off than any cache is large.
        let age = now.wrapping_sub(line.0.get());
        (age < than).then(|| {
            line.0.set(now);
            let source = if age < self.costs.l1_lines { Source::L1 } else { Source::L2 };
            self.count(source, lines);
            source
        })
    }

    /// The running core finds lines wherever they are.
    #[inline]
    pub(super) fn fetch(&self, running: &Running, line: &LineState, home: Socket, lines: u64) -> Source {
        let near = self.younger(running, line, lines, self.costs.l2_lines);
        near.unwrap_or_else(|| self.bring(running, line, home, lines))
    }

    /// The running core brings lines in that are not in its own caches; `home` is the node of their memory.
    #[inline]
    pub(super) fn bring(&self, running: &Running, line: &LineState, home: Socket, lines: u64) -> Source {
        let (own, tag) = (&self.cores[running.core.get().0 as usize], running.tag.get());
        // The line may be its own, of long ago.
        own.tag.set(tag);
        let source = self.locate_outside(own.socket, line.0.get(), home, lines);
        running.tag.set(tag + lines);
        line.0.set(tag + lines);
        self.count(source, lines);
        source
    }

    /// A core finds a line, whether it runs or not.
    pub(super) fn locate(&self, running: &Running, core: Core, line: &LineState, home: Socket) -> Source {
        if core == running.core.get() && running.on.get() {
            return self.fetch(running, line, home, 1);
        }
        let (now, state) = (self.tag(core), line.0.get());
        // Its own, and young: as in `younger`.
        let age = now.wrapping_sub(state);
        if age >= self.costs.l2_lines {
            if running.on.get() {
                self.set_tag(running.core.get(), running.tag.get());
            }
            return self.bring_to(core, line, home, 1);
        }
        line.0.set(now);
        let source = if age < self.costs.l1_lines { Source::L1 } else { Source::L2 };
        self.count(source, 1);
        source
    }

    /// A core brings lines in. What all cores have brought in is known.
    #[inline(always)]
    fn bring_to(&self, core: Core, line: &LineState, home: Socket, lines: u64) -> Source {
        let own = &self.cores[core.0 as usize];
        let source = self.locate_outside(own.socket, line.0.get(), home, lines);
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

    /// The time that one line takes.
    #[inline(always)]
    pub(super) fn line_time(&self, source: Source) -> Time {
        self.costs.line[source as usize]
    }

    /// The running core touches all lines of a page, which are written: how long that takes.
    #[inline]
    pub(super) fn fetch_page(&self, running: &Running, page: &LineState, home: Socket) -> Time {
        self.costs.page[self.fetch(running, page, home, PAGE_LINES) as usize]
    }

    /// Where lines are that are not in the core's own caches, seen from a core of this socket.
    #[inline(always)]
    fn locate_outside(&self, here: Socket, state: u64, home: Socket, lines: u64) -> Source {
        let memory = if home == here { Source::Memory } else { Source::RemoteMemory };
        let Some(holder) = (state >> CORE_SHIFT).checked_sub(1) else { return memory };
        let holder = &self.cores[holder as usize];
        let age = holder.tag.get() - state;
        // Pages of data stream through; nearly all that a core brings in are such.
        let times = if lines < PAGE_LINES { self.costs.llc_reuse_factor } else { 1 };
        if age >= times.saturating_mul(holder.llc_share.get()) {
            memory
        } else if holder.socket != here {
            Source::RemoteTransfer
        } else if age < self.costs.l2_lines {
            Source::Transfer
        } else {
            Source::Llc
        }
    }

    /// Lines found at each source so far.
    pub(crate) fn sources(&self) -> [u64; Source::COUNT] {
        self.sources.each_ref().map(Cell::get)
    }
}
