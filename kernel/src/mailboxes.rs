//! Mailboxes, in which blocks go from one CPU to another. They are the memory that this kernel can move and reclaim.

use core::cell::RefCell;
use core::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use pageset::{Alloc, AllocError, MoveError, Order, Owner, Pfn, Request};

use crate::cpu::Counter;
use crate::frames::frames;
use crate::owned_block::OwnedBlock;
use crate::random::Random;

/// The number of mailboxes. A guess: their blocks fill some MiB, and two CPUs seldom meet at one.
const MAILBOXES: usize = 256;
/// The most mailboxes that one call of [`Owner::reclaim`] empties. A guess.
const RECLAIMED_TOGETHER: usize = 32;
/// The most blocks that are isolated at a time. A guess: compaction isolates about as many.
const MAX_ISOLATED: usize = 64;

/// Blocks as words; 0 for an empty mailbox.
static MAILBOX: [AtomicU64; MAILBOXES] = [const { AtomicU64::new(0) }; MAILBOXES];
static RECLAIM_NEXT: AtomicU64 = AtomicU64::new(0);
/// Blocks that compaction or a range that goes offline moved, and pages that were reclaimed.
pub static BLOCKS_MOVED: Counter = Counter::new();
pub static PAGES_RECLAIMED: Counter = Counter::new();

/// Allocates as [`pageset::Allocator::alloc_with`] does, with the mailboxes as the owner of the memory. Not for interrupts.
///
/// # Errors
/// No memory, although the mailboxes were reclaimed.
pub fn allocate(request: &Request) -> Result<Pfn, AllocError> {
    frames().alloc_with(Alloc::new(request).owner(&Mailboxes::default()))
}

/// Puts a block into a random mailbox, and takes out the block that was there.
pub fn exchange(block: Option<OwnedBlock>, random: &Random) -> Option<OwnedBlock> {
    let mailbox = &MAILBOX[random.below(MAILBOXES as u32) as usize];
    // Acquire and release: who takes the block out sees its marks.
    OwnedBlock::from_word(mailbox.swap(block.map_or(0, OwnedBlock::into_word), Ordering::AcqRel))
}

/// Frees the blocks of all mailboxes.
pub fn empty() {
    (0..MAILBOXES).for_each(|index| _ = reclaim(index));
}

/// Frees the block of a mailbox. Returns its pages.
fn reclaim(index: usize) -> u64 {
    // Acquire: as in `exchange`.
    let block = OwnedBlock::from_word(MAILBOX[index].swap(0, Ordering::Acquire));
    block.map_or(0, |block| {
        let pages = block.order.pages();
        block.free();
        pages
    })
}

/// The mailboxes as the owner of memory, for one call of the allocator. Isolated blocks are out of their mailboxes. They are freed
/// when this value is dropped, wherever they are then.
#[derive(Default)]
pub struct Mailboxes {
    isolated: RefCell<ArrayVec<OwnedBlock, MAX_ISOLATED>>,
}

impl Owner for Mailboxes {
    fn isolate(&self, pfn: Pfn) -> Option<Order> {
        let mut isolated = self.isolated.borrow_mut();
        if isolated.is_full() {
            return None;
        }
        let block = MAILBOX.iter().find_map(|mailbox| {
            // Relaxed: the exchange acquires. It fails where another CPU took the block first.
            let word = mailbox.load(Ordering::Relaxed);
            let block = OwnedBlock::from_word(word).filter(|block| block.pfn == pfn)?;
            let taken = mailbox.compare_exchange(word, 0, Ordering::Acquire, Ordering::Relaxed);
            taken.is_ok().then_some(block)
        })?;
        let order = block.order;
        isolated.push(block);
        Some(order)
    }

    fn move_block(&self, from: Pfn, to: Pfn, _order: Order) -> Result<(), MoveError> {
        let mut isolated = self.isolated.borrow_mut();
        let block = isolated.iter_mut().find(|block| block.pfn == from).ok_or(MoveError::Busy)?;
        block.move_to(to);
        BLOCKS_MOVED.add(1);
        Ok(())
    }

    fn put_back(&self, _pfn: Pfn, _order: Order) {}

    fn reclaim(&self, _request: &Request) -> u64 {
        // Relaxed: only spreads the calls over the mailboxes.
        let first = RECLAIM_NEXT.fetch_add(RECLAIMED_TOGETHER as u64, Ordering::Relaxed) as usize;
        let pages = (first..first + RECLAIMED_TOGETHER).map(|index| reclaim(index % MAILBOXES)).sum();
        PAGES_RECLAIMED.add(pages);
        pages
    }
}

impl Drop for Mailboxes {
    fn drop(&mut self) {
        self.isolated.get_mut().drain(..).for_each(OwnedBlock::free);
    }
}
