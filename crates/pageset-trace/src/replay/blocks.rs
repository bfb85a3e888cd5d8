//! Which blocks of the recorded machine are in use, each with something that belongs to it.

use std::collections::HashMap;

use pageset::{Order, Pfn};
use rustc_hash::FxBuildHasher;

/// Pages of a chunk: a pageblock, which most neighbouring look-ups share.
const CHUNK: u64 = Order::PAGEBLOCK.pages();

/// A value for each page frame that was ever named, in chunks; memory in proportion to the pageblocks touched.
#[derive(Debug)]
pub(super) struct PageMap<T> {
    chunks: HashMap<u64, Box<[T; CHUNK as usize]>, FxBuildHasher>,
}

impl<T: Copy + Default> PageMap<T> {
    pub(super) fn new() -> Self {
        PageMap { chunks: HashMap::default() }
    }

    pub(super) fn get(&self, pfn: Pfn) -> T {
        self.chunks.get(&(pfn.0 / CHUNK)).map_or_else(T::default, |chunk| chunk[(pfn.0 % CHUNK) as usize])
    }

    pub(super) fn set(&mut self, pfn: Pfn, value: T) {
        let chunk = self.chunks.entry(pfn.0 / CHUNK).or_insert_with(|| Box::new([T::default(); CHUNK as usize]));
        chunk[(pfn.0 % CHUNK) as usize] = value;
    }

    /// Takes the value out.
    pub(super) fn take(&mut self, pfn: Pfn) -> T {
        match self.chunks.get_mut(&(pfn.0 / CHUNK)) {
            Some(chunk) => std::mem::take(&mut chunk[(pfn.0 % CHUNK) as usize]),
            None => T::default(),
        }
    }

    /// All pages and their values, chunk by chunk in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Pfn, T)> {
        self.chunks.iter().flat_map(|(base, chunk)| {
            chunk.iter().enumerate().map(move |(at, value)| (Pfn(base * CHUNK + at as u64), *value))
        })
    }
}

/// The blocks in use, by first page. A block may be given back in pieces: the kernel splits some.
#[derive(Debug)]
pub(super) struct BlockMap<T> {
    /// Order and value.
    blocks: PageMap<Option<(Order, T)>>,
}

/// What a free found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Freed<T> {
    /// A block, as it was taken.
    Whole(T),
    /// A block that was taken with another order; its entry is gone.
    Other(Order, T),
    /// Nothing known.
    Unknown,
}

impl<T: Copy> BlockMap<T> {
    pub(super) fn new() -> Self {
        BlockMap { blocks: PageMap::new() }
    }

    /// A block is taken. Returns what was known there before.
    pub(super) fn insert(&mut self, pfn: Pfn, order: Order, value: T) -> Option<(Order, T)> {
        let old = self.blocks.get(pfn);
        self.blocks.set(pfn, Some((order, value)));
        old
    }

    /// A block is given back. One that lies inside a larger block splits that one first: `split(value, order, to)`
    /// is told, `piece(value, pages)` gives the value of the piece that starts so many pages in.
    pub(super) fn free(
        &mut self,
        pfn: Pfn,
        order: Order,
        split: impl FnOnce(T, Order, Order),
        piece: impl Fn(T, u64) -> T,
    ) -> Freed<T> {
        if let Some((taken, value)) = self.blocks.get(pfn)
            && taken <= order
        {
            self.blocks.take(pfn);
            return if taken == order { Freed::Whole(value) } else { Freed::Other(taken, value) };
        }
        let Some((head, from, value)) = self.around(pfn, order) else { return Freed::Unknown };
        split(value, from, order);
        for at in (0..from.pages()).step_by(order.pages() as usize) {
            self.blocks.set(head.offset(at), Some((order, piece(value, at))));
        }
        self.blocks.take(pfn);
        Freed::Whole(piece(value, pfn.0 - head.0))
    }

    /// The block, larger than `order`, that a page lies in.
    fn around(&self, pfn: Pfn, order: Order) -> Option<(Pfn, Order, T)> {
        Order::all().skip(order.index() + 1).find_map(|larger| {
            let head = pfn.align_down(larger);
            let (taken, value) = self.blocks.get(head)?;
            (taken >= larger).then_some((head, taken, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(order: u8) -> Order {
        Order::new(order).expect("an order")
    }

    #[test]
    fn a_block_comes_back_whole_or_in_pieces() {
        let mut map = BlockMap::new();
        assert_eq!(map.insert(Pfn(64), order(3), 1000), None);
        let mut splits = Vec::new();
        let piece = |value, at| value + at;
        let freed = map.free(Pfn(66), order(1), |value, from, to| splits.push((value, from, to)), piece);
        assert_eq!(freed, Freed::Whole(1002));
        assert_eq!(splits, [(1000, order(3), order(1))]);
        assert_eq!(map.free(Pfn(66), order(1), |_, _, _| panic!("split twice"), piece), Freed::Unknown);
        assert_eq!(map.free(Pfn(64), order(1), |_, _, _| panic!("split twice"), piece), Freed::Whole(1000));
        assert_eq!(map.free(Pfn(70), order(1), |_, _, _| panic!("split twice"), piece), Freed::Whole(1006));
        assert_eq!(map.free(Pfn(72), order(0), |_, _, _| panic!("nothing there"), piece), Freed::Unknown);
    }

    #[test]
    fn a_larger_free_is_told() {
        let mut map = BlockMap::new();
        map.insert(Pfn(64), order(0), 7);
        assert_eq!(map.free(Pfn(64), order(2), |_, _, _| {}, |v, _| v), Freed::Other(order(0), 7));
        assert_eq!(map.insert(Pfn(64), order(0), 8), None);
        assert_eq!(map.insert(Pfn(64), order(0), 9), Some((order(0), 8)));
    }
}
