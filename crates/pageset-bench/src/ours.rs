//! `pageset-host`'s pool under the default rules, with orders, checked frees and statistics.
#![allow(unsafe_code, reason = "raw frees")]

use std::hint::black_box;
use std::ptr::{self, NonNull};

use pageset_host::{GiveBack, Order, PAGE_BYTES, PagePool};

use crate::pattern::{BATCH, Pattern};
use crate::subject::{Entry, Pages, Refusal};

/// The name of the pool's entry.
pub const NAME: &str = "pageset";

/// The entry of the pool.
pub fn entry() -> Entry {
    Entry {
        name: NAME,
        make: |pattern, threads| match pattern.order() {
            0 => Ok(Box::new(Pool::<0>::new(pattern, threads)?)),
            _ => Ok(Box::new(Pool::<9>::new(pattern, threads)?)),
        },
    }
}

/// The order is a compile-time constant, as in most programs that call the pool.
struct Pool<const ORDER: u8> {
    pool: PagePool,
}

impl<const ORDER: u8> Pool<ORDER> {
    const ORDER: Order = Order::new(ORDER).expect("the order is valid");

    fn new(pattern: Pattern, threads: usize) -> Result<Self, Refusal> {
        let bytes = (pattern.pages(threads) * PAGE_BYTES) as u64;
        let pool = PagePool::builder(bytes).give_back(GiveBack::OFF).build();
        let pool = pool.map_err(|error| Refusal::Failed(error.to_string()))?;
        Ok(Pool { pool })
    }
}

/// The page at an address that `get` returned.
fn at(address: u64) -> NonNull<u8> {
    NonNull::new(ptr::without_provenance_mut(address as usize)).expect("the address is not null")
}

impl<const ORDER: u8> Pages for Pool<ORDER> {
    type Local = Vec<NonNull<u8>>;

    fn local(&self, _thread: usize) -> Self::Local {
        vec![NonNull::dangling(); BATCH]
    }

    #[inline(always)]
    fn get(&self, _: &mut Self::Local) -> u64 {
        self.pool.alloc(Self::ORDER).expect("the pool is larger than the pattern").addr().get() as u64
    }

    fn get_if_any(&self, _: &mut Self::Local) -> Option<u64> {
        self.pool.alloc(Self::ORDER).ok().map(|page| page.addr().get() as u64)
    }

    #[inline(always)]
    fn put(&self, _: &mut Self::Local, page: u64) {
        // SAFETY: no reference to the contents of the pages exists.
        unsafe { self.pool.free(at(page), Self::ORDER).expect("the page was allocated") };
    }

    #[inline(always)]
    fn take_and_give(&self, buffer: &mut Self::Local, pages: &mut [u64]) {
        let buffer = &mut buffer[..pages.len()];
        let got = self.pool.alloc_bulk(buffer).expect("the pool is larger than the pattern");
        assert_eq!(got, pages.len());
        // SAFETY: no reference to the contents of the pages exists.
        unsafe { self.pool.free_bulk(Order::ZERO, black_box(buffer)).expect("the pages were allocated") };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Ring;
    use crate::subject::{Pairs, Run};

    /// In old memory a block below the size in the pattern's name is free, and none of that size.
    #[test]
    fn old_memory_has_no_larger_block() {
        for (block, largest) in [(16, 3), (512, 8), (1024, 9)] {
            let pattern = Pattern::Old(block);
            let Ok(subject) = Pool::<0>::new(pattern, 1) else { panic!("no memory for {pattern}") };
            let ring = Ring::new();
            let run = Run { thread: 0, threads: 1, pattern, ready: &|| unreachable!(), over: &|| (), ring: &ring };
            let kept = subject.age(&run, &mut subject.local(0), block);
            assert_eq!(kept.len(), pattern.pages(1) / block, "{pattern}");
            let order = |order| Order::new(order).expect("an order");
            let larger = subject.pool.pages(order(largest + 1));
            assert!(larger.is_err(), "{pattern}: a block of order {} is free", largest + 1);
            drop(subject.pool.pages(order(largest)).expect("the largest block"));
            kept.into_iter().for_each(|page| subject.put(&mut subject.local(0), page));
            drop(subject.pool.pages(Order::MAX).expect("all memory merges again"));
        }
    }
}
