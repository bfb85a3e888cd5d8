//! A compile farm: on each CPU one job of a build after the other. A job is a shell that starts a compiler's driver, which
//! starts the compiler and the assembler, and small programs beside them.
//!
//! What a program allocates, how fast, and when it gives it back is that of a recorded build (`traces/compile-q1`: 16 small
//! programs in C, pages that each process took and gave, and the time between). Its compilers have 2,844 pages each. A
//! source of a kernel is larger: a compiler has [`PAGES`].

use pageset::{AllocError, Block, MigrateType, Order, Pfn};

use super::{Job, Length};
use crate::os::{File, Region, Space, System, costs};
use crate::time::Time;

/// Memory control groups: eight builds side by side, each in a group of its own, as on the machine of the published
/// series.
pub(super) const GROUPS: u32 = 8;
/// Some jobs of each CPU: they last a few tenths of a second, longer beside a busy sibling.
pub(super) const LENGTH: Length = Length::ms(1500, 1500);

/// Pages of anonymous memory of one compiler, smallest and largest: 12 to 60 MiB. A guess.
const PAGES: (u64, u64) = (3_000, 15_000);
/// Pages that a compiler takes as it starts, whatever it compiles, and its work for each: 150 pages a millisecond were
/// recorded in the first 4 ms.
const START: Stretch = Stretch { pages: 600, compute: us(5) };
/// Its work for each page while it reads: 50 pages a millisecond.
const PARSE: Time = us(18);
/// Of the pages after the start so many in a hundred are taken while it reads.
const PARSED_PCT: u64 = 60;
/// Its work for each page after that: 20 pages a millisecond.
const OPTIMIZE: Time = us(48);
/// A driver: 252 pages in 2.8 ms.
const DRIVER: Stretch = Stretch { pages: 252, compute: us(10) };
/// An assembler's work for each page, as the driver's; it has a page where the compiler has so many (252 of 2,844).
const ASSEMBLE: Time = us(10);
const ASSEMBLED: u64 = 11;
/// A shell, or another small program: 67 pages in 1.7 ms.
const SMALL: Stretch = Stretch { pages: 67, compute: us(22) };

/// Pages for each CPU that were in use before, one by one: 128 MiB, twice what a job has at most.
const BROKEN_PAGES: u64 = 1 << 15;
/// Of these so many in a hundred stay in use: files in the page cache and slabs, wherever they came to lie. What is free
/// between them is in small blocks, as on a machine that has built for hours. A guess; with 50 it comes out alike.
const KEPT_PCT: usize = 33;
/// Pages of sources and headers that are read for each page faulted in: they are in the page cache.
const READ_EVERY: u64 = 8;
/// Pages of the files that all read: 4 MiB of headers.
const HEADER_PAGES: u64 = 1024;
/// One page of an object file is written for so many pages faulted in.
const WRITE_EVERY: u64 = 64;
/// The page directory of a process, and the user's half beside it: two pages that have to be adjacent. Specification:
/// `linux-page-allocator.md` 4.1.
const DIRECTORY: Order = match Order::new(1) {
    Some(order) => order,
    None => Order::ZERO,
};
/// What describes the regions of a compiler's address space: some 50 of 200 bytes, of which 40 fill a slab of two pages. The
/// other programs have fewer, and their slabs are not empty when they end. A guess.
const REGIONS: Order = DIRECTORY;
/// Pages of a process's kernel stack, which is mapped page by page. Specification: `trace-replay.md` 3a.
const STACK_PAGES: usize = 4;

const fn us(us: u64) -> Time {
    Time::from_ps(us * 1_000_000)
}

/// Lines that a program brings into its core's second level in so much work, beside the 64 of each page that it takes. Four
/// sources of zstd, compiled by gcc 12 with -O2 under cachegrind with a last level of 2 MiB, had 166 to 554 misses a fault
/// with the page's own, and computed for 26 to 103 us between two: 4 to 8 others a microsecond. That small programs have as
/// many is a guess.
fn lines_of(compute: Time) -> u64 {
    const LINES_A_US: u64 = 5;
    LINES_A_US * compute.ps() / us(1).ps()
}

/// Pages that are taken one after the other, and the user work between two of them.
#[derive(Clone, Copy)]
struct Stretch {
    pages: u64,
    compute: Time,
}

/// A process of a job.
struct Process<'s> {
    memory: Region<'s>,
    stack: Vec<Pfn>,
    /// In the order in which they are given back.
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

    /// Takes pages, and computes.
    fn run(&mut self, system: &System<'_>, stretch: Stretch) -> Result<(), AllocError> {
        for _ in 0..stretch.pages {
            self.memory.fault(system)?;
            system.engine().work_through(stretch.compute, lines_of(stretch.compute));
            system.count();
        }
        Ok(())
    }

    /// Gives all back at once: its pages, then what described them, and when another task runs its stack.
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

/// What all jobs of a CPU work with.
pub(super) struct Desk<'s> {
    space: &'s Space,
    headers: File,
    object: File,
}

impl<'s> Desk<'s> {
    pub(super) fn new(system: &System<'_>, space: &'s Space) -> Result<Self, AllocError> {
        Ok(Desk { space, headers: File::filled(system, HEADER_PAGES)?, object: File::new(system) })
    }
}

/// Each task compiles, on a machine that has been in use.
pub(super) fn set_up<'s>(system: &'s System<'_>, _tasks: u32) -> Result<Job<'s>, AllocError> {
    let cpus = system.engine().config().topology.cpus() / system.nodes();
    for node in 0..system.nodes() {
        system.as_cpu(system.first_cpu(node), || system.break_up(u64::from(cpus) * BROKEN_PAGES, KEPT_PCT));
    }
    Ok(Box::new(|_| task(system)))
}

/// Compiles for ever. Each faulted page counts: how long a file takes depends on its size.
fn task(system: &System<'_>) -> Result<(), AllocError> {
    let space = &Space::own();
    let desk = Desk::new(system, space)?;
    loop {
        let pages = PAGES.0 + system.engine().random_below(PAGES.1 - PAGES.0);
        job(system, &desk, pages)?;
    }
}

/// One source of a build. Whoever starts a program waits for it, and keeps its own pages meanwhile.
pub(super) fn job(system: &System<'_>, desk: &Desk<'_>, pages: u64) -> Result<(), AllocError> {
    let started = |stretch| -> Result<Process<'_>, AllocError> {
        let mut process = Process::start(system, desk.space, &[DIRECTORY])?;
        process.run(system, stretch)?;
        Ok(process)
    };
    let shell = started(SMALL)?;
    let driver = started(DRIVER)?;
    compile(system, desk, pages)?;
    started(Stretch { pages: pages / ASSEMBLED, compute: ASSEMBLE })?.exit(system)?;
    driver.exit(system)?;
    // What writes down which headers the source has read, and a second shell.
    started(SMALL)?.exit(system)?;
    started(SMALL)?.exit(system)?;
    shell.exit(system)?;
    // The next build of the same file replaces it.
    desk.object.truncate(system);
    Ok(())
}

/// The compiler proper.
fn compile(system: &System<'_>, desk: &Desk<'_>, pages: u64) -> Result<(), AllocError> {
    let mut compiler = Process::start(system, desk.space, &[REGIONS, DIRECTORY])?;
    compiler.run(system, START)?;
    let pages = pages.saturating_sub(START.pages);
    let parsed = pages * PARSED_PCT / 100;
    for page in 0..pages {
        let compute = if page < parsed { PARSE } else { OPTIMIZE };
        compiler.run(system, Stretch { pages: 1, compute })?;
        if page % READ_EVERY == 0 {
            desk.headers.copy(system, system.engine().random_below(HEADER_PAGES) as usize);
        }
        if page % WRITE_EVERY == 0 {
            desk.object.append(system)?;
        }
    }
    compiler.exit(system)
}
