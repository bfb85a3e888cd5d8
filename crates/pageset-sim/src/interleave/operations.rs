//! The random operations of the CPUs.

use pageset::{AllocError, Block, Free, FreeError, FreeTo, MigrateType, Order, Pfn, Request, Wait};

use super::used_blocks::UsedBlocks;
use crate::engine::Engine;

/// Limit of blocks in use. Half of the requests are small; this many blocks still fill the memory, so that some
/// requests fail.
const MAX_BLOCKS: usize = 1024;
/// Maximum of pages per bulk call.
const BULK: u64 = 40;
/// Orders, weighted by repetition. Some of them bypass the pagesets.
const ORDERS: [u8; 12] = [0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 9, 10];
const TYPES: [MigrateType; 4] =
    [MigrateType::Movable, MigrateType::Movable, MigrateType::Unmovable, MigrateType::Reclaimable];

/// Performs one random operation on the running CPU.
pub(super) fn random_operation(engine: &Engine, used_blocks: &UsedBlocks<'_>) {
    let below = |n: u64| engine.random_below(n);
    let allocator = used_blocks.allocator;
    match below(32) {
        0 => {
            allocator.tick();
        }
        1 => {
            allocator.drain();
        }
        2 => allocator.drain_all(),
        3..=4 => alloc_bulk(engine, used_blocks),
        5..=6 => free_bulk(engine, used_blocks),
        7..=8 => {
            let Some(block) = used_blocks.remove(below) else { return };
            freed(used_blocks, &[block], allocator.free_with(Free::block(block.pfn, block.order).to(FreeTo::Buddy)));
        }
        9..=19 if used_blocks.count() < MAX_BLOCKS => alloc(engine, used_blocks),
        _ => {
            let Some(block) = used_blocks.remove(below) else { return alloc(engine, used_blocks) };
            freed(used_blocks, &[block], allocator.free(block.pfn, block.order));
        }
    }
}

fn request(engine: &Engine, order: Order) -> Request {
    let wait = [Wait::Memory, Wait::Memory, Wait::Lock, Wait::Nothing][engine.random_below(4) as usize];
    Request { wait, ..Request::new(order, TYPES[engine.random_below(TYPES.len() as u64) as usize]) }
}

fn alloc(engine: &Engine, used_blocks: &UsedBlocks<'_>) {
    let order = ORDERS[engine.random_below(ORDERS.len() as u64) as usize];
    let Some(order) = Order::new(order) else { return };
    match used_blocks.allocator.alloc(&request(engine, order)) {
        Ok(pfn) => used_blocks.record_alloc(pfn, order),
        Err(AllocError::OutOfMemory(_)) => {}
        Err(error) => used_blocks.violate(format!("a request of order {order} failed: {error}")),
    }
}

fn alloc_bulk(engine: &Engine, used_blocks: &UsedBlocks<'_>) {
    let mut pages = vec![Pfn(0); 1 + engine.random_below(BULK) as usize];
    match used_blocks.allocator.alloc_bulk(&request(engine, Order::ZERO), &mut pages) {
        Ok(count) => pages[..count].iter().for_each(|pfn| used_blocks.record_alloc(*pfn, Order::ZERO)),
        Err(AllocError::OutOfMemory(_)) => {}
        Err(error) => used_blocks.violate(format!("a bulk request failed: {error}")),
    }
}

fn free_bulk(engine: &Engine, used_blocks: &UsedBlocks<'_>) {
    let count = 1 + engine.random_below(BULK);
    let blocks: Vec<Block> = (0..count).map_while(|_| used_blocks.remove(|n| engine.random_below(n))).collect();
    freed(used_blocks, &blocks, used_blocks.allocator.free_bulk(&blocks));
}

/// Records a violation if freeing blocks in use failed.
fn freed(used_blocks: &UsedBlocks<'_>, blocks: &[Block], result: Result<(), FreeError>) {
    if let Err(error) = result {
        used_blocks.violate(format!("{} blocks from {:?} on cannot be freed: {error}", blocks.len(), blocks.first()));
    }
}
