//! A ring that carries batches of pages from one thread to another.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Pages that travel together.
pub(crate) const TOGETHER: usize = 64;
/// Batches under way at most.
const ROOM: usize = 16;

/// One writer, one reader.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: Vec<AtomicU64>,
    written: Line<AtomicUsize>,
    read: Line<AtomicUsize>,
    closed: AtomicBool,
}

/// Two cache lines, which processors fetch together.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

impl Ring {
    pub(crate) fn new() -> Ring {
        Ring {
            slots: (0..ROOM * TOGETHER).map(|_| AtomicU64::new(0)).collect(),
            written: Line::default(),
            read: Line::default(),
            closed: AtomicBool::new(false),
        }
    }

    fn batch(&self, number: usize) -> &[AtomicU64] {
        let start = number % ROOM * TOGETHER;
        &self.slots[start..start + TOGETHER]
    }

    /// Sends a batch, once there is room.
    pub(crate) fn send(&self, pages: &[u64; TOGETHER]) {
        // Relaxed: only the writer writes it.
        let written = self.written.0.load(Ordering::Relaxed);
        // Acquire: pairs with the reader's release; the slots have been read.
        while written - self.read.0.load(Ordering::Acquire) == ROOM {
            hint::spin_loop();
        }
        for (slot, &page) in self.batch(written).iter().zip(pages) {
            slot.store(page, Ordering::Relaxed);
        }
        // Release: pairs with the reader's acquire.
        self.written.0.store(written + 1, Ordering::Release);
    }

    /// Says that nothing more will come.
    pub(crate) fn close(&self) {
        // Release: pairs with the acquire in receive; what was written before is seen.
        self.closed.store(true, Ordering::Release);
    }

    /// The next batch; false when the ring is closed and empty.
    pub(crate) fn receive(&self, pages: &mut [u64; TOGETHER]) -> bool {
        // Relaxed: only the reader writes it.
        let read = self.read.0.load(Ordering::Relaxed);
        loop {
            // Acquire: as in close. Looked at first, so that nothing comes after an empty look.
            let closed = self.closed.load(Ordering::Acquire);
            // Acquire: pairs with the writer's release.
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
        // Release: pairs with the writer's acquire.
        self.read.0.store(read + 1, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_sent_arrives_in_order() {
        let ring = Ring::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..1000 {
                    ring.send(&[n; TOGETHER]);
                }
                ring.close();
            });
            let mut pages = [0; TOGETHER];
            for n in 0..1000 {
                assert!(ring.receive(&mut pages));
                assert_eq!(pages, [n; TOGETHER]);
            }
            assert!(!ring.receive(&mut pages));
        });
    }
}
