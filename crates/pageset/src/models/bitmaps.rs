//! The bitmaps of pageblocks: drains that set bits, and refills that take them.

extern crate std;

use std::boxed::Box;

use super::{Word, explore};
use crate::frame::Order;
use crate::sync::atomic::AtomicU32;
use crate::zone::bitmaps::Bitmaps;

/// The bits of one pageblock of two words, and of one more word for the note that it has free parts.
struct OneBitmap {
    words: Box<[AtomicU32; 3]>,
    /// How often the whole pageblock was taken.
    wholes: Word,
}

impl OneBitmap {
    /// A pageblock of which all pages are free but the first and the last.
    fn new() -> Self {
        let words = [u32::MAX - 1, u32::MAX >> 1, 1].map(AtomicU32::new);
        OneBitmap { words: Box::new(words), wholes: Word::default() }
    }

    fn bits(&self) -> Bitmaps<'_, AtomicU32, 2> {
        Bitmaps::of_words(&self.words[..2], &self.words[2..])
    }

    /// Frees a page, as a drain does. `fence` orders its steps.
    fn free(&self, page: u32, fence: fn(Bitmaps<'_, AtomicU32, 2>)) {
        let bits = self.bits();
        let may_be_whole = bits.free(page, Order::ZERO);
        fence(bits);
        bits.note(page);
        if may_be_whole && bits.take_whole(0) {
            self.wholes.add();
        }
    }
}

/// Two CPUs free the last two pages of a pageblock: one of them takes it.
#[test]
fn one_of_two_frees_finds_the_whole_pageblock() {
    explore(
        OneBitmap::new,
        |bitmap| bitmap.free(0, |bits| bits.fence()),
        |bitmap| bitmap.free(63, |bits| bits.fence()),
        |bitmap| {
            assert!(bitmap.wholes.get() == 1 && !bitmap.bits().has(7), "a whole pageblock was left");
        },
    );
}

#[test]
#[should_panic(expected = "a whole pageblock was left")]
fn frees_that_look_too_early_are_found() {
    explore(
        OneBitmap::new,
        |bitmap| bitmap.free(0, |_| ()),
        |bitmap| bitmap.free(63, |_| ()),
        |bitmap| assert!(bitmap.wholes.get() == 1, "a whole pageblock was left"),
    );
}

/// A refill takes the only page of a pageblock while a drain frees another one: refills find that one.
fn explore_notes(take: fn(&OneBitmap)) {
    explore(
        || OneBitmap { words: Box::new([2, 0, 1].map(AtomicU32::new)), wholes: Word::default() },
        |bitmap| bitmap.free(40, |bits| bits.fence()),
        take,
        |bitmap| {
            let bits = bitmap.bits();
            let left = u32::from(bits.has(1)) + u32::from(bits.has(40));
            assert!(left == 0 || bits.is_noted(0), "no refill finds a free page");
        },
    );
}

#[test]
fn refills_find_each_free_page() {
    explore_notes(|bitmap| {
        bitmap.bits().take(0, Order::ZERO, 2, |_| ());
    });
}

#[test]
#[should_panic(expected = "no refill finds a free page")]
fn a_note_that_is_cleared_without_a_second_look_is_found() {
    explore_notes(|bitmap| {
        bitmap.bits().take(0, Order::ZERO, 1, |_| ());
        bitmap.bits().clear_note(0);
    });
}

/// Takes a page, if there is one, and frees it again.
fn borrow_page(bitmap: &OneBitmap) {
    let mut page = None;
    bitmap.bits().take(0, Order::ZERO, 1, |taken| page = Some(taken));
    if let Some(page) = page {
        bitmap.free(page, |bits| bits.fence());
    }
}

fn somebody_has_the_block(bitmap: &OneBitmap) {
    assert!(bitmap.wholes.get() == 1 && !bitmap.bits().has(40), "a whole pageblock was left");
}

/// A CPU takes a block of two words while another one takes a page and frees it again. In the end somebody has the block: no whole
/// pageblock is left behind. `take` is what the first CPU does.
fn explore_put_backs(take: fn(&OneBitmap)) {
    explore(
        || OneBitmap { words: Box::new([u32::MAX, u32::MAX, 1].map(AtomicU32::new)), wholes: Word::default() },
        take,
        borrow_page,
        somebody_has_the_block,
    );
}

/// Takes both words. Returns whether the caller has to look at the pageblock again.
fn take_both(bitmap: &OneBitmap) -> bool {
    let order = Order::new(6).expect("an order");
    let taken = bitmap.bits().take(0, order, 1, |_| bitmap.wholes.add());
    taken.whole
}

#[test]
fn a_refill_that_puts_back_finds_the_whole_pageblock() {
    explore_put_backs(|bitmap| {
        if take_both(bitmap) && bitmap.bits().take_whole(0) {
            bitmap.wholes.add();
        }
    });
}

#[test]
#[should_panic(expected = "a whole pageblock was left")]
fn a_refill_that_puts_back_and_does_not_look_is_found() {
    explore_put_backs(|bitmap| {
        take_both(bitmap);
    });
}

/// A CPU that owns the first word frees it by taking the second one, of which another CPU takes a page and frees it again. `free` is
/// what the first CPU does.
fn explore_rests(free: fn(&OneBitmap)) {
    explore(
        || OneBitmap { words: Box::new([0, u32::MAX, 1].map(AtomicU32::new)), wholes: Word::default() },
        free,
        borrow_page,
        somebody_has_the_block,
    );
}

/// Frees the first word with the second one. Returns whether the caller has to look at the pageblock.
fn free_with_rest(bitmap: &OneBitmap) -> bool {
    let (bits, order) = (bitmap.bits(), Order::new(5).expect("an order"));
    if bits.is_rest(0, order) && bits.take_around(0, order) {
        bitmap.wholes.add();
        return false;
    }
    bits.free(0, order);
    bits.fence();
    bits.note(0);
    true
}

#[test]
fn a_block_that_completes_its_pageblock_is_freed_with_the_rest() {
    explore_rests(|bitmap| {
        if free_with_rest(bitmap) && bitmap.bits().take_whole(0) {
            bitmap.wholes.add();
        }
    });
}

#[test]
#[should_panic(expected = "a whole pageblock was left")]
fn a_block_that_no_longer_completes_and_does_not_look_is_found() {
    explore_rests(|bitmap| {
        free_with_rest(bitmap);
    });
}
