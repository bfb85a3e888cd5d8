//! Allocators of frame numbers.

use buddy_system_allocator::LockedFrameAllocator;
use pageset_bench::{Entry, Pages};

/// A buddy system behind one lock.
struct Buddy {
    frames: LockedFrameAllocator<33>,
    count: usize,
}

impl Pages for Buddy {
    type Local = ();

    fn local(&self, _thread: usize) {}

    fn get(&self, (): &mut ()) -> u64 {
        self.frames.lock().alloc(self.count).expect("there are as many frames as the pattern takes") as u64
    }

    fn put(&self, (): &mut (), page: u64) {
        self.frames.lock().dealloc(page as usize, self.count);
    }
}

pub(crate) fn entries() -> Vec<Entry> {
    vec![Entry {
        name: "buddy_system",
        make: |pattern, threads| {
            let frames = LockedFrameAllocator::new();
            frames.lock().add_frame(0, pattern.pages(threads));
            Some(Box::new(Buddy { frames, count: 1 << pattern.order() }))
        },
    }]
}
