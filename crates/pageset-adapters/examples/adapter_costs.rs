//! What the adapters cost, next to direct calls and to the system's allocator.
//! Prints nanoseconds of an allocation with its free.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::time::Instant;

use pageset::alloc::owned::OwnedMetadata;
use pageset::{
    Allocator, Config, CpuId, Machine, MigrateType, NodeId, Order, PageRange, Pfn, Request, SpinLock, ZoneKind,
    ZoneSpec,
};
use pageset_adapters::global::PagesetAlloc;
use pageset_adapters::x86_64::Frames;
use pageset_host::PagePool;
use x86_64::PhysAddr;
use x86_64::structures::paging::{FrameAllocator, FrameDeallocator, PhysFrame, Size4KiB};

/// Calls in a row. Fewer than a batch, 63, so that most rounds have no refill and no drain.
const CALLS: usize = 48;
/// Rounds of each subject in each of the passes. The fastest round counts.
const ROUNDS: usize = 2000;
/// Passes over all subjects, so that a busy moment of the machine spares each subject at least once.
const PASSES: usize = 5;

static GLOBAL: PagesetAlloc = PagesetAlloc::new(|| PagePool::builder(1 << 30));

struct OneCpu;

impl Machine for OneCpu {
    type Lock = SpinLock;

    #[inline(always)]
    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
}

type Frame = PhysFrame<Size4KiB>;
const REQUEST: Request = Request::new(Order::ZERO, MigrateType::Unmovable);

#[inline(always)]
fn frames<'m, 'a>(allocator: &'m Allocator<'a, OneCpu>) -> Frames<'m, 'a, OneCpu> {
    // SAFETY: no processor maps these frames.
    unsafe { Frames::new(allocator) }
}

fn with_allocator(work: impl FnOnce(&Allocator<'_, OneCpu>)) -> Result<(), Box<dyn std::error::Error>> {
    let ranges = [PageRange::new(Pfn(0), 1 << 20)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let config = Config::new(&zones, &[NodeId(0)]);
    let metadata = OwnedMetadata::new(&config)?;
    let mut zones = metadata.zones();
    let allocator = Allocator::new(OneCpu, &config, metadata.lend(&mut zones))?;
    // The pageset gets as many pages as a round takes.
    let mut pages = [Pfn(0); CALLS];
    for _ in 0..2 {
        pages.iter_mut().for_each(|page| *page = allocator.alloc(&REQUEST).expect("memory"));
        pages.iter().for_each(|&page| allocator.free(page, Order::ZERO).expect("in use"));
    }
    work(&allocator);
    Ok(())
}

/// The fastest round, in nanoseconds for one allocation with its free.
fn fastest<T: Copy>(empty: T, mut alloc: impl FnMut() -> T, mut free: impl FnMut(T)) -> f64 {
    let mut taken = [empty; CALLS];
    let round = |_| {
        let start = Instant::now();
        taken.iter_mut().for_each(|slot| *slot = black_box(alloc()));
        taken.iter().for_each(|&value| free(value));
        start.elapsed().as_nanos()
    };
    (0..ROUNDS).map(round).min().unwrap_or(0) as f64 / CALLS as f64
}

fn fastest_of(alloc: &impl GlobalAlloc, layout: Layout) -> f64 {
    // SAFETY: the size is not 0, and the memory is freed with its layout.
    fastest(std::ptr::null_mut(), || unsafe { alloc.alloc(layout) }, |start| unsafe { alloc.dealloc(start, layout) })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = PagePool::builder(1 << 30).build()?;
    let layout = |size| Layout::from_size_align(size, 16);
    let order = |order| Order::new(order).ok_or("an order");
    let (page, two_mib) = (order(0)?, order(9)?);
    let direct = |order: Order| {
        let alloc = || pool.alloc(order).expect("memory").cast::<u8>();
        // SAFETY: the block is allocated, and nothing refers to it.
        let free = |start| unsafe { pool.free(start, order).expect("in use") };
        fastest(std::ptr::NonNull::dangling(), alloc, free)
    };
    let (words, pages, blocks) = (layout(64)?, layout(4096)?, layout(2 << 20)?);
    let names = [
        "x86_64: allocator called directly, 4 KiB",
        "x86_64: Frames, 4 KiB",
        "global: pool called directly, 4 KiB",
        "global: GlobalAlloc, 4 KiB",
        "global: system, 4 KiB",
        "global: pool called directly, 2 MiB",
        "global: GlobalAlloc, 2 MiB",
        "global: GlobalAlloc, 64 bytes",
        "global: system, 64 bytes",
    ];
    let mut best = [f64::MAX; 9];
    for _ in 0..PASSES {
        let mut frame_ns = [0.0; 2];
        with_allocator(|allocator| {
            let free = |pfn| allocator.free(pfn, Order::ZERO).expect("in use");
            frame_ns[0] = fastest(Pfn(0), || allocator.alloc(&REQUEST).expect("memory"), free);
            let mut of_x86 = frames(allocator);
            let mut copy = of_x86;
            let empty = Frame::containing_address(PhysAddr::zero());
            // SAFETY: nothing uses the frame.
            let free = |frame| unsafe { copy.deallocate_frame(frame) };
            frame_ns[1] = fastest(empty, || of_x86.allocate_frame().expect("memory"), free);
        })?;
        let results = [
            frame_ns[0],
            frame_ns[1],
            direct(page),
            fastest_of(&GLOBAL, pages),
            fastest_of(&System, pages),
            direct(two_mib),
            fastest_of(&GLOBAL, blocks),
            fastest_of(&GLOBAL, words),
            fastest_of(&System, words),
        ];
        best.iter_mut().zip(results).for_each(|(best, result)| *best = best.min(result));
    }
    println!("ns of an allocation with its free, one thread:");
    names.iter().zip(best).for_each(|(name, ns)| println!("{name:42} {ns:6.1}"));
    Ok(())
}
