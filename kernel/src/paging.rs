//! Demand-paged memory: each CPU has an address space of its own, with one region whose pages come at the first touch.
//!
//! The region is used like the memory of the benchmark page_fault1: map it, touch all pages, unmap it.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrayvec::ArrayVec;
use pageset::{Block, MigrateType, Order, Pfn, Request};
use x86_64::registers::control::{Cr3, Cr3Flags};
use x86_64::structures::paging::mapper::{CleanUp, OffsetPageTable};
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, Mapper, Page, PageTable, PageTableFlags, PhysFrame, Size4KiB,
};
use x86_64::{PhysAddr, VirtAddr};

use crate::cpu::{COUNTS, MAX_CPUS, PerCpu};
use crate::frames::frames;
use crate::mailboxes;

/// The region's address in each address space: after the 512 GiB that are mapped at their physical addresses.
const REGION: u64 = 512 << 30;
/// Pages that are freed in one call, as when a process unmaps memory. A guess.
pub const FREE_TOGETHER: usize = 64;

unsafe extern "C" {
    /// The page table of the boot: all memory at its physical address.
    static boot_pml4: PageTable;
}

/// The address space of a CPU. Only its CPU uses it.
struct AddressSpace {
    /// The address of the top page table; 0 for none.
    root: AtomicU64,
    /// The pages of the region.
    pages: AtomicU64,
}

static SPACES: PerCpu<AddressSpace> =
    PerCpu([const { AddressSpace { root: AtomicU64::new(0), pages: AtomicU64::new(0) } }; MAX_CPUS]);

/// The frames of page tables come from the frame allocator and go back there.
struct TableFrames;

// SAFETY: the allocator gives each frame out once until it is freed.
unsafe impl FrameAllocator<Size4KiB> for TableFrames {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        let pfn = mailboxes::allocate(&Request::new(Order::ZERO, MigrateType::Unmovable)).ok()?;
        Some(PhysFrame::containing_address(PhysAddr::new(pfn.address() as u64)))
    }
}

impl FrameDeallocator<Size4KiB> for TableFrames {
    unsafe fn deallocate_frame(&mut self, frame: PhysFrame) {
        frames().free(pfn_of(frame), Order::ZERO).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Gives the current CPU an address space with an empty region.
///
/// # Panics
/// There is no memory for the page table.
pub fn enter() {
    let frame = TableFrames.allocate_frame().expect("memory for a page table");
    let root = frame.start_address().as_u64() as *mut PageTable;
    let mut table = PageTable::new();
    // SAFETY: nobody writes the table of the boot. The frame is new; its table maps everything that this CPU uses.
    unsafe {
        table[0] = boot_pml4[0].clone();
        root.write(table);
        Cr3::write(frame, Cr3Flags::empty());
    }
    SPACES.here().root.store(root as u64, Relaxed);
}

/// Takes the address space from the current CPU. The region is empty.
pub fn leave() {
    let boot = PhysFrame::containing_address(PhysAddr::new(&raw const boot_pml4 as u64));
    // SAFETY: the table of the boot maps everything that this CPU uses from now on.
    unsafe { Cr3::write(boot, Cr3Flags::empty()) };
    let root = PhysFrame::containing_address(PhysAddr::new(SPACES.here().root.swap(0, Relaxed)));
    // SAFETY: the CPU has left this table; the tables below it are free since the last `unmap`.
    unsafe { TableFrames.deallocate_frame(root) };
}

/// Maps the region: touches from now on get pages. The region must be empty.
pub fn map(pages: u64) {
    SPACES.here().pages.store(pages, Relaxed);
}

/// The address of a page of the region.
pub fn page_address(index: u64) -> *mut u64 {
    (REGION + index * 4096) as *mut u64
}

/// Unmaps the region, and frees its pages and page tables.
pub fn unmap() {
    let pages = SPACES.here().pages.swap(0, Relaxed);
    // SAFETY: no fault happens during this call, since nobody touches the region.
    let mut tables = unsafe { tables() };
    let mut freed: ArrayVec<Block, FREE_TOGETHER> = ArrayVec::new();
    let region = Page::range(region_page(0), region_page(pages));
    for page in region {
        // A page that was never touched is not mapped.
        if let Ok((frame, flush)) = tables.unmap(page) {
            flush.flush();
            freed.push(Block { pfn: pfn_of(frame), order: Order::ZERO });
        }
        if freed.is_full() {
            free(&mut freed);
        }
    }
    free(&mut freed);
    let region = Page::range_inclusive(region_page(0), region_page(pages.max(1) - 1));
    // SAFETY: all pages of the region are unmapped, and only this CPU uses these tables.
    unsafe { tables.clean_up_addr_range(region, &mut TableFrames) };
}

/// Handles a page fault: allocates a frame, clears it and maps it.
///
/// # Panics
/// The address is outside the region, its page is mapped already, or there is no memory.
pub fn fault(at: VirtAddr) {
    let (start, end) = (REGION, REGION + SPACES.here().pages.load(Relaxed) * 4096);
    assert!((start..end).contains(&at.as_u64()), "page fault at {at:p}; the region is {start:#x} to {end:#x}");
    let request = Request::new(Order::ZERO, MigrateType::Movable);
    let pfn = mailboxes::allocate(&request).unwrap_or_else(|error| panic!("page fault at {at:p}: {error}"));
    let frame: PhysFrame = PhysFrame::containing_address(PhysAddr::new(pfn.address() as u64));
    let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE;
    // SAFETY: the frame is new, so it is written and mapped only here. The faulting code holds no reference to the tables.
    unsafe {
        (pfn.address() as *mut PageTable).write_bytes(0, 1);
        let mapped = tables().map_to(Page::containing_address(at), frame, flags, &mut TableFrames);
        mapped.unwrap_or_else(|error| panic!("cannot map {at:p}: {error:?}")).flush();
    }
    COUNTS.here().faults.add(1);
}

/// The page tables of the current CPU.
///
/// # Safety
/// Nobody else on this CPU uses the tables as long as the result lives.
unsafe fn tables() -> OffsetPageTable<'static> {
    let root = SPACES.here().root.load(Relaxed) as *mut PageTable;
    // SAFETY: `enter` made the table, and only this CPU uses it. Memory is mapped at its physical address.
    unsafe { OffsetPageTable::new(&mut *root, VirtAddr::zero()) }
}

fn free(blocks: &mut ArrayVec<Block, FREE_TOGETHER>) {
    frames().free_bulk(blocks).unwrap_or_else(|error| panic!("{error}"));
    blocks.clear();
}

fn region_page(index: u64) -> Page {
    Page::containing_address(VirtAddr::new(REGION + index * 4096))
}

fn pfn_of(frame: PhysFrame) -> Pfn {
    Pfn(frame.start_address().as_u64() / 4096)
}
