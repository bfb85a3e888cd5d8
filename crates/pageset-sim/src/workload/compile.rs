//! A compile farm: each CPU runs one build job after the other. A job is a shell that starts a compiler driver. The
//! driver starts the compiler and the assembler, and small programs run in parallel.
//!
//! Allocations, their rate and the time of frees come from a recorded build (`traces/compile-q1`): 16 small programs in
//! C, with the pages that each process allocated and freed and the times between. The recorded compilers have 2,844
//! pages each. Sources of a kernel are larger: a compiler here has [`PAGES`].

use pageset::{AllocError, Block, MigrateType, Order, Pfn};

use super::{Job, Length};
use crate::os::{File, Region, Space, System, costs};
use crate::time::Time;

/// Memory control groups: eight builds run in parallel, each in its own group, as on the machine of the published
/// series.
pub(super) const GROUPS: u32 = 8;
/// Time for some jobs per CPU: a job takes a few tenths of a second, more while the sibling thread is busy.
pub(super) const LENGTH: Length = Length::ms(1500, 1500);

/// Pages of anonymous memory of one compiler, minimum and maximum: 12 to 60 MiB. A guess.
const PAGES: (u64, u64) = (3_000, 15_000);
/// Pages that each compiler allocates at its start, and its work per page. The recording has 150 pages a millisecond in
/// the first 4 ms.
const START: Stretch = Stretch { pages: 600, compute: us(5) };
/// A compiler's work per page while it parses: 50 pages a millisecond.
const PARSE: Time = us(18);
/// Percentage of the pages after the start that a compiler allocates while it parses.
const PARSED_PCT: u64 = 60;
/// A compiler's work per page after parsing: 20 pages a millisecond.
const OPTIMIZE: Time = us(48);
/// A driver: 252 pages in 2.8 ms.
const DRIVER: Stretch = Stretch { pages: 252, compute: us(10) };
/// An assembler's work per page, equal to the driver's. An assembler has one page per [`ASSEMBLED`] pages of the
/// compiler (252 of 2,844).
const ASSEMBLE: Time = us(10);
const ASSEMBLED: u64 = 11;
/// A shell, or another small program: 67 pages in 1.7 ms.
const SMALL: Stretch = Stretch { pages: 67, compute: us(22) };

/// Pages per CPU that were allocated singly before: 128 MiB, twice the maximum of a job.
const FRAGMENTED_PAGES: u64 = 1 << 15;
/// Percentage of these pages that stay in use, at random places: page cache and slabs. The free memory between them is
/// in small blocks, as on a machine that has run builds for hours. A guess; 50 gives the same results.
const KEPT_PCT: usize = 33;
/// One page of sources and headers is read, from the page cache, per this many faulted pages.
const READ_EVERY: u64 = 8;
/// Pages of the files that all compilers read: 4 MiB of headers.
const HEADER_PAGES: u64 = 1024;
/// One page of an object file is written per this many faulted pages.
const WRITE_EVERY: u64 = 64;
/// The page directory of a process and its user half: two adjacent pages. Specification: `linux-page-allocator.md` 4.1.
const DIRECTORY: Order = match Order::new(1) {
    Some(order) => order,
    None => Order::ZERO,
};
/// The descriptors of a compiler's memory regions: about 50 of 200 bytes, of which 40 fill a slab of two pages. Other
/// programs have fewer regions, and their slabs are not empty when they end. A guess.
const REGIONS: Order = DIRECTORY;
/// Pages of a process's kernel stack, which is mapped page by page. Specification: `trace-replay.md` 3a.
const STACK_PAGES: usize = 4;

const fn us(us: u64) -> Time {
    Time::from_ps(us * 1_000_000)
}

/// Lines that a program brings into its core's second-level cache during work, in addition to the 64 lines of each
/// allocated page. Source: gcc 12 -O2 on four sources of zstd, under cachegrind with a last level of 2 MiB. They had
/// 166 to 554 misses per fault including the page's own, with 26 to 103 us of work between faults: 4 to 8 other lines a
/// microsecond. For small programs the value is a guess.
fn lines_of(compute: Time) -> u64 {
    const LINES_A_US: u64 = 5;
    LINES_A_US * compute.ps() / us(1).ps()
}

/// Pages allocated one after the other, with user work after each.
#[derive(Clone, Copy)]
struct Stretch {
    pages: u64,
    compute: Time,
}

/// A process of a job.
struct Process<'s> {
    memory: Region<'s>,
    stack: Vec<Pfn>,
    /// In the order of their frees.
    blocks: Vec<Block>,
}

impl<'s> Process<'s> {
    fn start(system: &System<'_>, space: &'s Space, blocks: &[Order]) -> Result<Self, AllocError> {
        system.engine().work(costs::EXEC);
        let take = |order| system.alloc_block(order, MigrateType::Unmovable);
        Ok(Process {
            memory: Region::new(space),
            stack: (0..STACK_PAGES).map(|_| take(Order::ZERO)).collect::<Result<_, _>>()?,
            blocks: blocks.iter().map(|&order| Ok(Block { pfn: take(order)?, order })).collect::<Result<_, _>>()?,
        })
    }

    /// Allocates pages and computes.
    fn run(&mut self, system: &System<'_>, stretch: Stretch) -> Result<(), AllocError> {
        for _ in 0..stretch.pages {
            self.memory.fault(system)?;
            system.engine().work_through(stretch.compute, lines_of(stretch.compute));
            system.count();
        }
        Ok(())
    }

    /// Frees everything at the end: the pages, then their descriptors, then the stack, which the kernel frees when
    /// another task runs.
    fn exit(mut self, system: &System<'_>) -> Result<(), AllocError> {
        system.engine().work(costs::EXIT);
        self.memory.unmap(system)?;
        self.blocks.into_iter().for_each(|block| system.free_block(block));
        for pfn in self.stack {
            system.free_block(Block { pfn, order: Order::ZERO });
        }
        Ok(())
    }
}

/// State shared by all jobs of a CPU.
pub(super) struct JobFiles<'s> {
    space: &'s Space,
    headers: File,
    object: File,
}

impl<'s> JobFiles<'s> {
    pub(super) fn new(system: &System<'_>, space: &'s Space) -> Result<Self, AllocError> {
        Ok(JobFiles { space, headers: File::filled(system, HEADER_PAGES)?, object: File::new(system) })
    }
}

/// Each task compiles on a machine with fragmented memory.
pub(super) fn set_up<'s>(system: &'s System<'_>, _tasks: u32) -> Result<Job<'s>, AllocError> {
    let cpus = system.engine().config().topology.cpus() / system.nodes();
    for node in 0..system.nodes() {
        system.as_cpu(system.first_cpu(node), || system.fragment(u64::from(cpus) * FRAGMENTED_PAGES, KEPT_PCT));
    }
    Ok(Box::new(|_| task(system)))
}

/// Compiles in an endless loop. Operations are faulted pages, because the time for a source depends on its size.
fn task(system: &System<'_>) -> Result<(), AllocError> {
    let space = &Space::own();
    let files = JobFiles::new(system, space)?;
    loop {
        let pages = PAGES.0 + system.engine().random_below(PAGES.1 - PAGES.0);
        job(system, &files, pages)?;
    }
}

/// Compiles one source. The starter of a program waits for it and keeps its own pages meanwhile.
pub(super) fn job(system: &System<'_>, files: &JobFiles<'_>, pages: u64) -> Result<(), AllocError> {
    let started = |stretch| -> Result<Process<'_>, AllocError> {
        let mut process = Process::start(system, files.space, &[DIRECTORY])?;
        process.run(system, stretch)?;
        Ok(process)
    };
    let shell = started(SMALL)?;
    let driver = started(DRIVER)?;
    compile(system, files, pages)?;
    started(Stretch { pages: pages / ASSEMBLED, compute: ASSEMBLE })?.exit(system)?;
    driver.exit(system)?;
    // The first writes the list of headers that the source has read; the second is another shell.
    started(SMALL)?.exit(system)?;
    started(SMALL)?.exit(system)?;
    shell.exit(system)?;
    // The next build replaces the object file.
    files.object.truncate(system);
    Ok(())
}

/// Runs the compiler proper.
fn compile(system: &System<'_>, files: &JobFiles<'_>, pages: u64) -> Result<(), AllocError> {
    let mut compiler = Process::start(system, files.space, &[REGIONS, DIRECTORY])?;
    compiler.run(system, START)?;
    let pages = pages.saturating_sub(START.pages);
    let parsed = pages * PARSED_PCT / 100;
    for page in 0..pages {
        let compute = if page < parsed { PARSE } else { OPTIMIZE };
        compiler.run(system, Stretch { pages: 1, compute })?;
        if page % READ_EVERY == 0 {
            files.headers.copy(system, system.engine().random_below(HEADER_PAGES) as usize);
        }
        if page % WRITE_EVERY == 0 {
            files.object.append(system)?;
        }
    }
    compiler.exit(system)
}
