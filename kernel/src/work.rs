//! Random operations, which every CPU does at the same time.
//!
//! Most operations allocate a block and leave it in a mailbox. The CPU that finds a block in a mailbox frees it, so most blocks are
//! freed by another CPU than their first. The other operations use the demand-paged region, send an NMI, or tick.

use arrayvec::ArrayVec;
use pageset::{Alloc, Block, CpuId, Free, FreeError, FreeTo, MigrateType, Order, PageRange, PageState, Request};

use crate::cpu::{self, COUNTS, MAX_CPUS, PerCpu};
use crate::frames::frames;
use crate::owned_block::OwnedBlock;
use crate::paging::FREE_TOGETHER;
use crate::random::Random;
use crate::{interrupts, mailboxes, paging, smp};

/// The most pages of a region: 2 MiB, so that most regions are larger than a refill.
const REGION_PAGES: u32 = 512;
/// Operations in 1024 that are a region, an NMI, a tick. The rest are exchanges.
const REGIONS: u32 = 4;
const NMIS: u32 = 64;
const TICKS: u32 = 4;
/// Exchanges in 16 that allocate neighbouring pages, not one block.
const EXACT: u32 = 1;
/// The most neighbouring pages: less than a block of order 7, so that all orders below occur.
const EXACT_PAGES: u32 = 100;

/// The random numbers of each CPU's operations.
pub static RANDOM: PerCpu<Random> = PerCpu([const { Random::unseeded() }; MAX_CPUS]);

/// Does one operation on the current CPU.
pub fn operation() {
    let random = RANDOM.here();
    match random.below(1024) {
        kind if kind < REGIONS => region(1 + u64::from(random.below(REGION_PAGES))),
        kind if kind < REGIONS + NMIS => smp::send_nmi(CpuId(random.below(smp::count()))),
        kind if kind < REGIONS + NMIS + TICKS => {
            frames().tick();
        }
        _ if random.below(16) < EXACT => exchange_exact(random),
        _ => exchange(random),
    }
    interrupts::free_nmi_blocks();
    COUNTS.here().operations.add(1);
}

fn migratetype(random: &Random) -> MigrateType {
    let types = [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];
    types[random.below(types.len() as u32) as usize]
}

/// Allocates a block, leaves it in a mailbox, and frees the block that was there.
fn exchange(random: &Random) {
    let order = Order::new(random.geometric(Order::MAX.get())).unwrap_or(Order::MAX);
    let request = Request::new(order, migratetype(random));
    let block = mailboxes::allocate(&request).ok().map(|pfn| OwnedBlock::new(pfn, order));
    if block.is_none() {
        COUNTS.here().operations_refused.add(1);
    }
    if let Some(block) = mailboxes::exchange(block, random) {
        free(block, random);
    }
}

/// Allocates neighbouring pages. Leaves their blocks in mailboxes, and frees the blocks that were there.
fn exchange_exact(random: &Random) {
    let pages = 1 + u64::from(random.below(EXACT_PAGES));
    let Ok(pfn) = frames().alloc_with(Alloc::new(&Request::new(Order::ZERO, migratetype(random))).pages(pages)) else {
        COUNTS.here().operations_refused.add(1);
        return;
    };
    for Block { pfn, order } in blocks(PageRange::new(pfn, pages)) {
        if let Some(block) = mailboxes::exchange(Some(OwnedBlock::new(pfn, order)), random) {
            free(block, random);
        }
    }
}

/// The blocks of a range that the caller owns. Each is looked up when the iterator gets there.
///
/// # Panics
/// A block is not in use, or reaches beyond the range.
fn blocks(range: PageRange) -> impl Iterator<Item = Block> {
    let mut next = range.start;
    core::iter::from_fn(move || {
        if next >= range.end() {
            return None;
        }
        let (block, state) = frames().block_of(next).expect("an online page");
        let end = block.pfn.offset(block.order.pages());
        let is_ours = block.pfn == next && state == PageState::Allocated && end <= range.end();
        assert!(is_ours, "page {next} of {range:?} is in {block:?}, which is {state:?}");
        next = end;
        Some(block)
    })
}

/// Frees a block in one of the ways that the allocator offers.
fn free(block: OwnedBlock, random: &Random) {
    let Block { pfn, order } = block.disown();
    let freed = match random.below(16) {
        0 => frames().free_with(Free::block(pfn, order).to(FreeTo::Buddy)),
        1 => frames().free_with(Free::block(pfn, order).to(FreeTo::PagesetUndrained)),
        2 => frames().split(pfn, order, Order::ZERO).map_err(FreeError::from).and_then(|()| {
            let mut pages = (0..order.pages()).map(|page| Block { pfn: pfn.offset(page), order: Order::ZERO });
            // In pieces: a stack is small.
            (0..order.pages()).step_by(FREE_TOGETHER).try_for_each(|_| {
                let piece: ArrayVec<Block, FREE_TOGETHER> = pages.by_ref().take(FREE_TOGETHER).collect();
                frames().free_bulk(&piece)
            })
        }),
        3 => frames().free_with(Free::block(pfn, order).to(FreeTo::Deferred)),
        4 => free_in_parts(PageRange::new(pfn, order.pages()), random),
        _ => frames().free(pfn, order),
    };
    freed.unwrap_or_else(|error| panic!("{error}"));
}

fn free_in_parts(block: PageRange, random: &Random) -> Result<(), FreeError> {
    let start = block.start.offset(u64::from(random.below(block.pages as u32)));
    let part = PageRange::new(start, 1 + u64::from(random.below((block.end().0 - start.0) as u32)));
    frames().free_range(PageRange::new(part.start, part.pages))?;
    [(block.start, part.start), (part.end(), block.end())].into_iter().try_for_each(|(from, to)| {
        let mut rest = blocks(PageRange::new(from, to.0 - from.0));
        rest.try_for_each(|Block { pfn, order }| frames().free_range(PageRange::new(pfn, order.pages())))
    })
}

/// As the benchmark page_fault1: maps memory, touches each page, and unmaps it.
///
/// # Panics
/// A new page is not zero, or a page changed.
fn region(pages: u64) {
    let tag = |index: u64| (index << 8) | u64::from(cpu::number().0 + 1);
    paging::map(pages);
    for index in 0..pages {
        let word = paging::page_address(index);
        // SAFETY: the page is in the region, and comes with the first touch. Only this CPU uses it.
        unsafe {
            assert!(word.read_volatile() == 0, "page {index} of the region is not cleared");
            word.write_volatile(tag(index));
        }
    }
    for index in 0..pages {
        // SAFETY: as above.
        let found = unsafe { paging::page_address(index).read_volatile() };
        assert!(found == tag(index), "a page has two owners: page {index} of the region has {found:#x}");
    }
    paging::unmap();
    COUNTS.here().regions.add(1);
}
