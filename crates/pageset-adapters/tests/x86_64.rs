//! The traits of `x86_64`: frames of each size, wrong frees, and page tables whose frames come from the allocator.

use pageset::alloc::owned::OwnedMetadata;
use pageset::{Allocator, Config, CpuId, Machine, NodeId, PageRange, Pfn, SpinLock, ZoneKind, ZoneSpec};
use pageset_adapters::x86_64::Frames;
use x86_64::structures::paging::mapper::CleanUp;
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, Mapper, OffsetPageTable, Page, PageTable, PageTableFlags, PhysFrame, Size1GiB,
    Size2MiB, Size4KiB, Translate,
};
use x86_64::{PhysAddr, VirtAddr};

struct OneCpu;

impl Machine for OneCpu {
    type Lock = SpinLock;

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
}

/// Runs `test` with an allocator over `pages` pages from page `start` on.
fn with_pages(start: u64, pages: u64, test: impl FnOnce(&Allocator<'_, OneCpu>)) {
    let ranges = [PageRange::new(Pfn(start), pages)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let config = Config::new(&zones, &[NodeId(0)]);
    let metadata = OwnedMetadata::new(&config).expect("a valid map");
    let mut zones = metadata.zones();
    let allocator = Allocator::new(OneCpu, &config, metadata.lend(&mut zones)).expect("a valid map");
    test(&allocator);
    allocator.drain_all();
    let sums = allocator.zone(0).expect("a zone").audit().expect("consistent metadata");
    assert_eq!(sums.in_use, 0, "all pages were freed");
}

fn frames<'m, 'a>(allocator: &'m Allocator<'a, OneCpu>) -> Frames<'m, 'a, OneCpu> {
    // SAFETY: no processor maps these frames. Where a test writes to them, they are tables that only the test uses.
    unsafe { Frames::new(allocator) }
}

fn frames_are_aligned<S: x86_64::structures::paging::PageSize>(allocator: &Allocator<'_, OneCpu>, count: usize) {
    let mut frames = frames(allocator);
    let mut taken: Vec<PhysFrame<S>> = (0..count).map(|_| frames.allocate_frame().expect("memory")).collect();
    assert!(taken.iter().all(|frame| frame.start_address().is_aligned(S::SIZE)));
    taken.sort();
    assert!(taken.windows(2).all(|pair| pair[0] < pair[1]), "two frames at one address");
    // SAFETY: nothing uses the frames.
    taken.into_iter().for_each(|frame| unsafe { frames.deallocate_frame(frame) });
}

#[test]
fn frames_of_each_size_are_aligned_and_distinct() {
    // 3 GiB that begin at 1 GiB + 4 MiB: two of the frames of 1 GiB fit.
    with_pages((1 << 18) + (1 << 10), 3 << 18, |allocator| {
        frames_are_aligned::<Size4KiB>(allocator, 1000);
        frames_are_aligned::<Size2MiB>(allocator, 100);
        frames_are_aligned::<Size1GiB>(allocator, 2);
        let mut frames = frames(allocator);
        let page: PhysFrame<Size4KiB> = frames.allocate_frame().expect("memory");
        let gigabytes: Vec<PhysFrame<Size1GiB>> = std::iter::from_fn(|| frames.allocate_frame()).collect();
        assert!((1..=2).contains(&gigabytes.len()), "a page in use blocks at most one");
        assert!(FrameAllocator::<Size4KiB>::allocate_frame(&mut frames).is_some(), "the rest is free");
        // SAFETY: nothing uses the frames.
        unsafe {
            frames.deallocate_frame(page);
            gigabytes.into_iter().for_each(|frame| frames.deallocate_frame(frame));
        }
        // The one page that the assertion above took.
        let left = (0..4 << 18).map(Pfn).find(|&pfn| {
            allocator
                .block_of(pfn)
                .is_some_and(|(block, state)| block.pfn == pfn && state == pageset::PageState::Allocated)
        });
        allocator.free_range(PageRange::new(left.expect("a page in use"), 1)).expect("in use");
    });
}

#[test]
fn no_memory_is_none() {
    with_pages(0, 64, |allocator| {
        let mut frames = frames(allocator);
        let taken: Vec<PhysFrame<Size4KiB>> = std::iter::from_fn(|| frames.allocate_frame()).collect();
        assert!(!taken.is_empty() && taken.len() <= 64);
        assert!(FrameAllocator::<Size2MiB>::allocate_frame(&mut frames).is_none());
        assert!(FrameAllocator::<Size1GiB>::allocate_frame(&mut frames).is_none());
        // SAFETY: nothing uses the frames.
        taken.into_iter().for_each(|frame| unsafe { frames.deallocate_frame(frame) });
    });
}

#[test]
#[should_panic(expected = "cannot free the frame of 4096 bytes at 0x0: cannot free page 0x0")]
fn a_second_free_names_the_frame() {
    with_pages(0, 1024, |allocator| {
        let frame = PhysFrame::<Size4KiB>::containing_address(PhysAddr::new(0));
        // SAFETY: the frame is unused; that it is not allocated is the fault that the test makes.
        unsafe { frames(allocator).deallocate_frame(frame) };
    });
}

#[test]
fn a_mapper_gets_and_returns_its_tables() {
    const TABLES: usize = 512;
    let memory = vec![PageTable::new(); TABLES].into_boxed_slice();
    let memory = Box::leak(memory);
    // "Physical" page 0 is the first table.
    let offset = VirtAddr::new(memory.as_ptr().addr() as u64);
    with_pages(0, TABLES as u64, |allocator| {
        let mut frames = frames(allocator);
        let root: PhysFrame<Size4KiB> = frames.allocate_frame().expect("memory");
        let root_table = (offset + root.start_address().as_u64()).as_mut_ptr::<PageTable>();
        // SAFETY: the tables at `offset` are leaked, so they outlive the mapper, and only the mapper uses them.
        let mut mapper = unsafe { OffsetPageTable::new(&mut *root_table, offset) };
        let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE;
        let page = |number: u64| Page::<Size4KiB>::containing_address(VirtAddr::new(number << 30));
        for number in 0..16 {
            let target = PhysFrame::containing_address(PhysAddr::new(0xdead_b000 + number));
            // SAFETY: no processor uses these tables.
            unsafe { mapper.map_to(page(number), target, flags, &mut frames) }.expect("tables").ignore();
        }
        assert_eq!(mapper.translate_addr(VirtAddr::new((7 << 30) + 5)), Some(PhysAddr::new(0xdead_b005)));
        let in_use = (0..TABLES as u64)
            .filter(|&pfn| matches!(allocator.block_of(Pfn(pfn)), Some((_, pageset::PageState::Allocated))));
        assert_eq!(in_use.count(), 1 + 1 + 2 * 16, "a root, a table of 512 GiB, two tables for each page");
        (0..16).for_each(|number| mapper.unmap(page(number)).expect("mapped").1.ignore());
        // SAFETY: no processor uses these tables, and each was allocated by `frames`.
        unsafe {
            mapper.clean_up(&mut frames);
            frames.deallocate_frame(root);
        }
    });
}
