//! The exit of a process with much memory, while other processes fault: its last thread unmaps and frees all pages on one CPU.

use std::cell::{Cell, RefCell};

use pageset::{AllocError, Pfn};

use super::Job;
use super::page_fault1::REGION_PAGES;
use crate::os::{Extent, Region, Space, System};

/// The process's memory by default: 100 GiB, as of a large database or virtual machine.
pub(super) const GIB: u32 = 100;

/// Fills the process's memory, node after node as a process that fills its memory from one CPU does. Task 0 exits with it. The
/// others run page_fault1 until it has gone.
pub(super) fn set_up<'s>(system: &'s System<'_>, _tasks: u32, gib: u32) -> Result<Job<'s>, AllocError> {
    let pages = (u64::from(gib) << 30) / Pfn::PAGE_BYTES;
    let memory = RefCell::new(Some(system.as_cpu(0, || filled(system, pages))?));
    let gone = Cell::new(false);
    Ok(Box::new(move |task| {
        let space = Space::own();
        match memory.take().filter(|_| task == 0) {
            Some(memory) => {
                let mut region = Region::attach(&space, memory);
                let pages = region.len() as u64;
                region.unmap(system)?;
                system.count_many(pages);
                gone.set(true);
                Ok(())
            }
            None => fault_until(system, &space, &gone),
        }
    }))
}

/// `pages` pages of anonymous memory with their page tables, outside of any address space.
fn filled(system: &System<'_>, pages: u64) -> Result<Extent, AllocError> {
    let space = Space::own();
    let mut region = Region::new(&space);
    (0..pages).try_for_each(|_| region.fault(system))?;
    system.lru_flush();
    Ok(region.detach())
}

/// page_fault1 until `gone`. Counts pages of the second kind.
fn fault_until(system: &System<'_>, space: &Space, gone: &Cell<bool>) -> Result<(), AllocError> {
    let mut region = Region::new(space);
    let mut pages = 1 + system.engine().random_below(REGION_PAGES);
    loop {
        for _ in 0..pages {
            if gone.get() {
                return Ok(());
            }
            region.fault(system)?;
            system.count_others(1);
        }
        region.unmap(system)?;
        pages = REGION_PAGES;
    }
}
