//! Which source serves a layout: a size class, an order, or the system's allocator.

use core::alloc::Layout;

use pageset_host::{Order, order_for};

/// The largest size of a class in bytes: half a page. A larger object takes a page or more, and wastes less than half of it.
pub(super) const MAX_BYTES: usize = 2048;
/// The number of classes: 16 to 128 bytes in steps of 16, then four for each doubling. An object wastes at most a fifth of its
/// class above 64 bytes.
pub(super) const COUNT: usize = 8 + 4 * 4;

/// Where the memory of a layout comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// A slab of this size class.
    Slab(Class),
    /// A block of 2^order pages.
    Block(Order),
    /// The system's allocator.
    System,
}

/// The number of a size class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Class(u8);

impl Source {
    /// The source for a layout. A size of 0 counts as 1.
    #[inline]
    pub(super) const fn of(layout: Layout) -> Source {
        let (size, align) = (layout.size(), layout.align());
        // Objects are aligned to the largest power of two that divides the size of their class.
        let bytes = if align <= 16 {
            size
        } else if size > align {
            size.next_power_of_two()
        } else {
            align
        };
        if bytes <= MAX_BYTES {
            return Source::Slab(Class::of(bytes));
        }
        // Not `bytes`: the power of two above the largest block is no reason to leave the pool.
        match order_for(if size > align { size } else { align }) {
            Some(order) => Source::Block(order),
            None => Source::System,
        }
    }
}

impl Class {
    /// The smallest class that holds `bytes`, at most [`MAX_BYTES`].
    const fn of(bytes: usize) -> Class {
        if bytes <= 128 {
            return Class((bytes.saturating_sub(1) / 16) as u8);
        }
        let last = bytes - 1;
        let double = last.ilog2();
        Class((8 + 4 * (double - 7) as usize + (last >> (double - 2) & 3)) as u8)
    }

    /// The number as an index.
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }

    /// The size of an object in bytes.
    pub(super) const fn bytes(self) -> usize {
        let index = self.index();
        if index < 8 { (index + 1) * 16 } else { (5 + index % 4) << (5 + (index - 8) / 4) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(size: usize, align: usize) -> Source {
        Source::of(Layout::from_size_align(size, align).expect("a layout"))
    }

    #[test]
    fn each_size_has_the_smallest_class_that_holds_it() {
        for bytes in 1..=MAX_BYTES {
            let class = Class::of(bytes);
            assert!(class.index() < COUNT && class.bytes() >= bytes, "{bytes}");
            assert!(class.index() == 0 || Class(class.0 - 1).bytes() < bytes, "{bytes}");
        }
        assert_eq!((Class::of(MAX_BYTES).index(), Class::of(0).index()), (COUNT - 1, 0));
    }

    #[test]
    fn classes_keep_alignments() {
        for align in (0..=11).map(|shift| 1 << shift) {
            for size in 0..=MAX_BYTES {
                let Source::Slab(class) = source(size, align) else { panic!("{size} aligned to {align}") };
                assert!(class.bytes() >= size && class.bytes().is_multiple_of(align.min(16)), "{size}, {align}");
                assert!(align <= 16 || class.bytes().is_multiple_of(align), "{size}, {align}");
            }
        }
    }

    #[test]
    fn pages_and_more_are_blocks() {
        let block = |order| Source::Block(Order::new(order).expect("an order"));
        for (size, align, expected) in [
            (2049, 1, block(0)),
            (4096, 4096, block(0)),
            (1, 4096, block(0)),
            (0, 2 << 20, block(9)),
            (4097, 8, block(1)),
            ((3 << 20) + 1, 64, block(10)),
            (4 << 20, 4 << 20, block(10)),
            ((4 << 20) + 1, 1, Source::System),
            (1, 8 << 20, Source::System),
        ] {
            assert_eq!(source(size, align), expected, "{size} aligned to {align}");
        }
    }
}
