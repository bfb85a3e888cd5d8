extern crate std;

use core::sync::atomic::AtomicU32;
use std::vec::Vec;

use super::*;

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

/// Two pageblocks of 128 pages.
fn explore(test: impl FnOnce(Bitmaps<'_, AtomicU32, 4>)) {
    let words: Vec<_> = (0..9).map(|_| AtomicU32::new(0)).collect();
    let (pages, pageblocks) = words.split_at(8);
    test(Bitmaps::of_words(pages, pageblocks));
}

fn free(bits: Bitmaps<'_, AtomicU32, 4>, page: u32, of: u8) -> bool {
    let may_be_whole = bits.free(page, order(of));
    bits.fence();
    bits.note(page);
    may_be_whole
}

fn taken(bits: Bitmaps<'_, AtomicU32, 4>, pageblock: u32, of: u8, most: u32) -> Vec<u32> {
    let mut all = Vec::new();
    let taken = bits.take(pageblock, order(of), most, |page| all.push(page));
    assert_eq!((taken.blocks as usize, taken.whole), (all.len(), false));
    all
}

#[test]
fn first_pages_of_free_blocks() {
    for (free, of, expected) in [
        (0b1011, 0, 0b1011),
        (0b1011, 1, 0b0001),
        (0b0110, 1, 0),
        (0xff, 2, 0x11),
        (0x7f, 2, 0x01),
        (0xff00_ff0f, 3, 0x0100_0100),
        (0xffff_7fff, 4, 0x0001_0000),
        (u32::MAX, 5, 1),
        (u32::MAX - 1, 5, 0),
    ] {
        assert_eq!(heads(free, order(of)), expected, "{free:#x}, order {of}");
    }
    assert_eq!([0, 1, 2, 9].map(|most| lowest(0b1011, most)), [0, 0b1, 0b11, 0b1011]);
}

#[test]
fn blocks_of_each_order_come_once() {
    explore(|bits| {
        assert_eq!(bits.next(0, 2), None);
        // The second pageblock has pages 128 to 255.
        for (page, of) in [(130, 0), (160, 5), (136, 3), (192, 6), (132, 2)] {
            free(bits, page, of);
        }
        assert_eq!((bits.next(0, 2), bits.next(0, 1), bits.has(131), bits.has(136)), (Some(1), None, false, true));
        assert_eq!(taken(bits, 1, 6, 9), [192]);
        free(bits, 0, 6);
        assert_eq!((taken(bits, 0, 6, 9), bits.is_noted(0)), (Vec::from([0]), false));
        assert_eq!(taken(bits, 1, 4, 1), [160]);
        assert_eq!(taken(bits, 1, 3, 9), [136, 176, 184]);
        assert_eq!(taken(bits, 1, 2, 9), [132]);
        let mut runs = Vec::new();
        bits.runs(1, |from, end| runs.push((from, end)));
        assert_eq!(runs, [(130, 131)]);
        assert_eq!((taken(bits, 1, 1, 9), bits.next(0, 2)), (Vec::new(), Some(1)));
        assert_eq!((taken(bits, 1, 0, 9), bits.next(0, 2)), (Vec::from([130]), None));
    });
}

/// Neighbours in one word are one run, in any order; a block of a word or more is one by itself.
#[test]
fn blocks_of_one_word_are_freed_at_once() {
    for (pages, of, run, word, mask) in [
        (&[][..], 0, 0, 0, 0),
        (&[63], 0, 1, 1, 1 << 31),
        (&[33, 32, 34, 31], 0, 3, 1, 0b111),
        (&[127, 126, 0], 0, 2, 3, 3 << 30),
        // The same place in another pageblock is another word.
        (&[0, 128], 0, 1, 0, 1),
        (&[8, 24, 32], 3, 2, 0, 0xff00_ff00),
        (&[64, 80, 96], 4, 2, 2, u32::MAX),
        (&[32, 64], 5, 1, 1, u32::MAX),
    ] {
        explore(|bits| {
            let blocks: Vec<_> = pages.iter().map(|&page| AtomicU32::new(page)).collect();
            let first = bits.first_run(&blocks, order(of));
            assert_eq!(first.map_or(0, |run| run.blocks), run, "{pages:?}");
            let whole = first.is_some_and(|run| bits.free_run(run));
            let expected: Vec<u32> = (0..8).map(|at| if at == word { mask } else { 0 }).collect();
            let words: Vec<u32> = bits.pages.iter().map(LockedWord::get).collect();
            assert_eq!((words, whole), (expected, mask == u32::MAX), "{pages:?}");
        });
    }
}

/// Whether a pageblock has a block of an order.
#[test]
fn blocks_are_found() {
    explore(|bits| {
        for (page, of) in [(130, 0), (132, 2), (160, 5), (192, 6)] {
            assert!(!bits.has_block(1, order(of)), "order {of}");
            free(bits, page, of);
            assert!(bits.has_block(1, order(of)) && !bits.has_block(0, Order::ZERO), "order {of}");
        }
        assert_eq!((bits.pages_of(0), bits.pages_of(1)), (0, 1 + 4 + 32 + 64));
    });
}

#[test]
fn runs_cross_words() {
    explore(|bits| {
        for (page, of) in [(30, 1), (32, 5), (64, 0), (66, 0)] {
            free(bits, page, of);
        }
        let mut runs = Vec::new();
        bits.take_all(0, |from, end| runs.push((from, end)));
        assert_eq!((runs, bits.next(0, 2)), (Vec::from([(30, 65), (66, 67)]), None));
    });
}

#[test]
fn whole_pageblocks_are_taken_at_once() {
    explore(|bits| {
        let complete: Vec<_> = (0..128).rev().map(|page| free(bits, page, 0)).collect();
        assert_eq!(complete.iter().filter(|&&whole| whole).count(), 4, "once for each word");
        assert_eq!(taken(bits, 0, 0, 1), [0]);
        assert!(!bits.take_whole(0) && bits.has(1));
        assert!(free(bits, 0, 0) && bits.take_whole(0) && !bits.take_whole(0));
        assert_eq!((bits.next(0, 2), bits.is_noted(0)), (None, false));
    });
}

/// A block is freed with the rest of its pageblock, if that is free; small blocks are not tried.
#[test]
#[cfg(feature = "rules")]
fn the_rest_of_a_pageblock_is_taken_at_once() {
    explore(|bits| {
        for of in [5, 6] {
            // The block begins in the middle of the second pageblock, so that the rest is before and after it, or before it.
            let block = 192;
            assert!(!bits.is_rest(block, order(of)));
            let rest = (128..256).filter(|page| !(block..block + (1 << of)).contains(page));
            rest.clone().for_each(|page| {
                assert!(!bits.is_rest(block, order(of)), "before page {page}");
                free(bits, page, 0);
            });
            assert!(bits.is_rest(block, order(of)) && !bits.is_rest(block, order(4)), "order {of}");
            // One page is taken after that look, of the second word: the first is taken, and put back.
            assert_eq!(taken(bits, 1, 0, 33).last(), Some(&160));
            free(bits, 128, 5);
            assert!(!bits.is_rest(block, order(of)) && !bits.take_around(block, order(of)), "order {of}");
            assert_eq!((bits.pages_of(1), bits.is_noted(1)), (127 - (1 << of), true));
            free(bits, 160, 0);
            assert!(bits.take_around(block, order(of)), "order {of}");
            assert_eq!((bits.pages_of(0), bits.pages_of(1), bits.next(0, 2)), (0, 0, None));
        }
    });
    // 256 pages, of which all but a block are free: an eighth of the pageblock is not tried, a quarter is.
    for (of, words) in [(5, 1), (6, 2)] {
        let pages: Vec<_> = (0..8).map(|word| AtomicU32::new(if word < words { 0 } else { u32::MAX })).collect();
        let note = [AtomicU32::new(1)];
        assert_eq!(Bitmaps::<_, 8>::of_words(&pages, &note).is_rest(0, order(of)), of == 6);
    }
}
