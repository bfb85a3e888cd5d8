//! General-purpose heap allocators, used for pages that are aligned to their size like the pool's.

use std::alloc::{GlobalAlloc, Layout, System};

use pageset_bench::{Entry, Pages, Refusal};

/// Pages from a general-purpose allocator.
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
        // SAFETY: `get` returned it for this layout, and it is freed once.
        unsafe { self.heap.dealloc(std::ptr::with_exposed_provenance_mut(page as usize), self.layout) }
    }
}

macro_rules! heap {
    ($name:literal, $heap:expr) => {
        Entry {
            name: $name,
            make: |pattern, _| {
                let bytes = 4096_usize << pattern.order();
                let layout =
                    Layout::from_size_align(bytes, bytes).map_err(|error| Refusal::Failed(error.to_string()))?;
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
