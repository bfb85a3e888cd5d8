//! Allocators for any size, asked for pages: aligned to their size, as the pool's are.

use std::alloc::{GlobalAlloc, Layout, System};

use pageset_bench::{Entry, Pages, Refusal};

/// Pages from an allocator for any size.
struct Heap<A> {
    heap: A,
    layout: Layout,
}

impl<A: GlobalAlloc + Sync> Pages for Heap<A> {
    type Local = ();

    fn local(&self, _thread: usize) {}

    #[inline(always)]
    fn get(&self, (): &mut ()) -> u64 {
        // SAFETY: the layout has a size.
        let page = unsafe { self.heap.alloc(self.layout) };
        assert!(!page.is_null(), "out of memory");
        page.expose_provenance() as u64
    }

    #[inline(always)]
    fn put(&self, (): &mut (), page: u64) {
        // SAFETY: it came from `get`, and goes back once, with the layout that it came with.
        unsafe { self.heap.dealloc(std::ptr::with_exposed_provenance_mut(page as usize), self.layout) }
    }
}

macro_rules! heap {
    ($name:literal, $heap:expr) => {
        Entry {
            name: $name,
            make: |pattern, _| {
                let bytes = 4096_usize << pattern.order();
                let layout = Layout::from_size_align(bytes, bytes).map_err(|error| Refusal::Failed(error.to_string()))?;
                Ok(Box::new(Heap { heap: $heap, layout }))
            },
        }
    };
}

pub(crate) fn entries() -> Vec<Entry> {
    vec![
        heap!("mimalloc", mimalloc::MiMalloc),
        heap!("jemalloc", tikv_jemallocator::Jemalloc),
        heap!("snmalloc", snmalloc_rs::SnMalloc),
        heap!("glibc", System),
    ]
}
