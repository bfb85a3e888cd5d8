//! The recorded machine's blocks in use, each with a value.

use pageset::{Order, Pfn};

/// Pages of a chunk: one pageblock, since most neighbouring look-ups are in the same pageblock.
const CHUNK: u64 = Order::PAGEBLOCK.pages();

/// A value for each page with a dense number, stored in chunks. Its memory is proportional to the number of pageblocks
/// used.
#[derive(Debug)]
pub(crate) struct PageMap<T> {
    chunks: Vec<Option<Box<[T; CHUNK as usize]>>>,
}

impl<T: Copy + Default> Default for PageMap<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy + Default> PageMap<T> {
    pub(crate) const fn new() -> Self {
        PageMap { chunks: Vec::new() }
    }

    #[inline]
    pub(super) fn get(&self, pfn: Pfn) -> T {
        let chunk = self.chunks.get((pfn.0 / CHUNK) as usize).and_then(Option::as_ref);
        chunk.map_or_else(T::default, |chunk| chunk[(pfn.0 % CHUNK) as usize])
    }

    #[inline]
    pub(crate) fn set(&mut self, pfn: Pfn, value: T) {
        *self.entry(pfn) = value;
    }

    /// Sets the value of a page and returns the one before.
    #[inline]
    pub(super) fn replace(&mut self, pfn: Pfn, value: T) -> T {
        std::mem::replace(self.entry(pfn), value)
    }

    /// Removes and returns the value of a page.
    #[inline]
    pub(crate) fn take(&mut self, pfn: Pfn) -> T {
        match self.chunks.get_mut((pfn.0 / CHUNK) as usize) {
            Some(Some(chunk)) => std::mem::take(&mut chunk[(pfn.0 % CHUNK) as usize]),
            _ => T::default(),
        }
    }

    #[inline]
    fn entry(&mut self, pfn: Pfn) -> &mut T {
        let at = (pfn.0 / CHUNK) as usize;
        if at >= self.chunks.len() {
            self.chunks.resize_with(at + 1, || None);
        }
        let chunk = self.chunks[at].get_or_insert_with(|| Box::new([T::default(); CHUNK as usize]));
        &mut chunk[(pfn.0 % CHUNK) as usize]
    }

    /// All pages of all chunks with their values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Pfn, T)> {
        (0..).zip(&self.chunks).flat_map(|(base, chunk)| {
            let values = chunk.iter().flat_map(|chunk| chunk.iter());
            (0..).zip(values).map(move |(at, value)| (Pfn(base * CHUNK + at), *value))
        })
    }
}

/// The blocks in use, by first page. The kernel splits some blocks and frees the parts one by one.
#[derive(Debug)]
pub(super) struct BlockMap<T> {
    /// Order and value.
    blocks: PageMap<Option<(Order, T)>>,
}

/// The block that a free found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Freed<T> {
    /// A block of the allocated order, or a part of a larger block.
    Whole(T),
    /// A block that was allocated with a smaller order; its entry is removed.
    Other(Order, T),
    /// No known block.
    Unknown,
}

impl<T: Copy> BlockMap<T> {
    pub(super) fn new() -> Self {
        BlockMap { blocks: PageMap::new() }
    }

    /// Adds an allocated block. Returns the previous entry of its first page.
    pub(super) fn insert(&mut self, pfn: Pfn, order: Order, value: T) -> Option<(Order, T)> {
        self.blocks.replace(pfn, Some((order, value)))
    }

    /// Removes a freed block. If the block is part of a larger block, the larger block is split first. `split(value,
    /// order, to)` gets the larger block's value and both orders. `part(value, pages)` returns the value of the part at
    /// an offset of `pages`.
    pub(super) fn free(
        &mut self,
        pfn: Pfn,
        order: Order,
        split: impl FnOnce(T, Order, Order),
        part: impl Fn(T, u64) -> T,
    ) -> Freed<T> {
        if let Some((taken, value)) = self.blocks.get(pfn)
            && taken <= order
        {
            self.blocks.take(pfn);
            return if taken == order { Freed::Whole(value) } else { Freed::Other(taken, value) };
        }
        let Some((head, from, value)) = self.containing(pfn, order) else { return Freed::Unknown };
        split(value, from, order);
        for at in (0..from.pages()).step_by(order.pages() as usize) {
            self.blocks.set(head.offset(at), Some((order, part(value, at))));
        }
        self.blocks.take(pfn);
        Freed::Whole(part(value, pfn.0 - head.0))
    }

    /// The block larger than `order` that contains a page.
    fn containing(&self, pfn: Pfn, order: Order) -> Option<(Pfn, Order, T)> {
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
    fn a_block_is_freed_whole_or_in_parts() {
        let mut map = BlockMap::new();
        assert_eq!(map.insert(Pfn(64), order(3), 1000), None);
        let mut splits = Vec::new();
        let part = |value, at| value + at;
        let freed = map.free(Pfn(66), order(1), |value, from, to| splits.push((value, from, to)), part);
        assert_eq!(freed, Freed::Whole(1002));
        assert_eq!(splits, [(1000, order(3), order(1))]);
        assert_eq!(map.free(Pfn(66), order(1), |_, _, _| panic!("split twice"), part), Freed::Unknown);
        assert_eq!(map.free(Pfn(64), order(1), |_, _, _| panic!("split twice"), part), Freed::Whole(1000));
        assert_eq!(map.free(Pfn(70), order(1), |_, _, _| panic!("split twice"), part), Freed::Whole(1006));
        assert_eq!(map.free(Pfn(72), order(0), |_, _, _| panic!("split of an unknown block"), part), Freed::Unknown);
    }

    #[test]
    fn a_free_of_a_larger_order_returns_the_allocated_order() {
        let mut map = BlockMap::new();
        map.insert(Pfn(64), order(0), 7);
        assert_eq!(map.free(Pfn(64), order(2), |_, _, _| {}, |v, _| v), Freed::Other(order(0), 7));
        assert_eq!(map.insert(Pfn(64), order(0), 8), None);
        assert_eq!(map.insert(Pfn(64), order(0), 9), Some((order(0), 8)));
    }
}
