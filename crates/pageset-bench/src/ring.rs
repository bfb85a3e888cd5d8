//! A ring that carries batches of pages from one thread to another.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

pub(crate) const BATCH_PAGES: usize = 64;
const CAPACITY: usize = 16;

/// A ring with one writer and one reader.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: Vec<AtomicU64>,
    written: Line<AtomicUsize>,
    read: Line<AtomicUsize>,
    closed: AtomicBool,
}

/// Aligned to two cache lines, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

impl Ring {
    pub(crate) fn new() -> Ring {
        Ring {
            slots: (0..CAPACITY * BATCH_PAGES).map(|_| AtomicU64::new(0)).collect(),
            written: Line::default(),
            read: Line::default(),
            closed: AtomicBool::new(false),
        }
    }

    fn batch(&self, number: usize) -> &[AtomicU64] {
        let start = number % CAPACITY * BATCH_PAGES;
        &self.slots[start..start + BATCH_PAGES]
    }

    /// Sends a batch. Spins while the ring is full.
    pub(crate) fn send(&self, pages: &[u64; BATCH_PAGES]) {
        // Relaxed: only this thread writes `written`.
        let written = self.written.0.load(Ordering::Relaxed);
        // Acquire: pairs with the release in `receive`; the reader has read the slots.
        while written - self.read.0.load(Ordering::Acquire) == CAPACITY {
            hint::spin_loop();
        }
        for (slot, &page) in self.batch(written).iter().zip(pages) {
            slot.store(page, Ordering::Relaxed);
        }
        // Release: pairs with the acquire of `written` in `receive`.
        self.written.0.store(written + 1, Ordering::Release);
    }

    /// Closes the ring: no batch follows.
    pub(crate) fn close(&self) {
        // Release: pairs with the acquire of `closed` in `receive`, which then sees all batches.
        self.closed.store(true, Ordering::Release);
    }

    /// Receives the next batch. Spins while the ring is empty; returns false when the ring is closed and empty.
    pub(crate) fn receive(&self, pages: &mut [u64; BATCH_PAGES]) -> bool {
        // Relaxed: only this thread writes `read`.
        let read = self.read.0.load(Ordering::Relaxed);
        loop {
            // Acquire: pairs with the release in `close`. Read before `written`, so that no batch can follow an empty
            // ring that is closed.
            let closed = self.closed.load(Ordering::Acquire);
            // Acquire: pairs with the release in `send`.
            if self.written.0.load(Ordering::Acquire) != read {
                break;
            }
            if closed {
                return false;
            }
            hint::spin_loop();
        }
        for (page, slot) in pages.iter_mut().zip(self.batch(read)) {
            *page = slot.load(Ordering::Relaxed);
        }
        // Release: pairs with the acquire of `read` in `send`.
        self.read.0.store(read + 1, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_arrive_in_order() {
        let ring = Ring::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..1000 {
                    ring.send(&[n; BATCH_PAGES]);
                }
                ring.close();
            });
            let mut pages = [0; BATCH_PAGES];
            for n in 0..1000 {
                assert!(ring.receive(&mut pages));
                assert_eq!(pages, [n; BATCH_PAGES]);
            }
            assert!(!ring.receive(&mut pages));
        });
    }
}
