//! The operations that CPUs do, chosen at random.

use pageset::{AllocError, Block, FreeError, MigrateType, Order, Pfn, Request, Wait};

use super::books::Books;
use crate::engine::Engine;

/// Blocks that are handed out at most: half of small ones fill the memory, so that requests fail now and then.
const MOST_HELD: usize = 1024;
/// Pages of a bulk call at most.
const BULK: u64 = 40;
/// Orders by how often they are asked for; those that pagesets do not keep are among them.
const ORDERS: [u8; 12] = [0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 9, 10];
const TYPES: [MigrateType; 4] =
    [MigrateType::Movable, MigrateType::Movable, MigrateType::Unmovable, MigrateType::Reclaimable];

/// Does one operation on the running CPU.
pub(super) fn one(engine: &Engine, books: &Books<'_>) {
    let below = |n: u64| engine.random_below(n);
    let allocator = books.allocator;
    match below(32) {
        0 => {
            allocator.tick();
        }
        1 => allocator.drain(),
        2 => allocator.drain_all(),
        3..=4 => alloc_bulk(engine, books),
        5..=6 => free_bulk(engine, books),
        7..=8 => {
            let Some(block) = books.give(below) else { return };
            freed(books, &[block], allocator.free_direct(block.pfn, block.order));
        }
        9..=19 if books.held() < MOST_HELD => alloc(engine, books),
        _ => {
            let Some(block) = books.give(below) else { return alloc(engine, books) };
            freed(books, &[block], allocator.free(block.pfn, block.order));
        }
    }
}

fn request(engine: &Engine, order: Order) -> Request {
    let wait = [Wait::Memory, Wait::Memory, Wait::Lock, Wait::Nothing][engine.random_below(4) as usize];
    Request { wait, ..Request::new(order, TYPES[engine.random_below(TYPES.len() as u64) as usize]) }
}

fn alloc(engine: &Engine, books: &Books<'_>) {
    let order = ORDERS[engine.random_below(ORDERS.len() as u64) as usize];
    let Some(order) = Order::new(order) else { return };
    match books.allocator.alloc(&request(engine, order)) {
        Ok(pfn) => books.got(pfn, order),
        Err(AllocError::OutOfMemory(_)) => {}
        Err(error) => books.violate(format!("a request of order {order} failed: {error}")),
    }
}

fn alloc_bulk(engine: &Engine, books: &Books<'_>) {
    let mut pages = vec![Pfn(0); 1 + engine.random_below(BULK) as usize];
    match books.allocator.alloc_bulk(&request(engine, Order::ZERO), &mut pages) {
        Ok(count) => pages[..count].iter().for_each(|pfn| books.got(*pfn, Order::ZERO)),
        Err(AllocError::OutOfMemory(_)) => {}
        Err(error) => books.violate(format!("a bulk request failed: {error}")),
    }
}

fn free_bulk(engine: &Engine, books: &Books<'_>) {
    let count = 1 + engine.random_below(BULK);
    let blocks: Vec<Block> = (0..count).map_while(|_| books.give(|n| engine.random_below(n))).collect();
    freed(books, &blocks, books.allocator.free_bulk(&blocks));
}

/// Freeing what is handed out succeeds.
fn freed(books: &Books<'_>, blocks: &[Block], result: Result<(), FreeError>) {
    if let Err(error) = result {
        books.violate(format!("{} blocks from {:?} on cannot be freed: {error}", blocks.len(), blocks.first()));
    }
}
