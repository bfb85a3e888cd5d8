//! The kinds of memory that hold frames of pages.

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use pageset_host::{GiveBack, GiveBackParts, HugePages, PagePool, Ticker, order_for};

/// A frame has at most 64 KiB.
pub const MAX_FRAME_BYTES: usize = 64 << 10;

/// Where frames come from.
pub enum Memory {
    Pool {
        pool: Arc<PagePool>,
        _ticker: Ticker,
    },
    Jemalloc,
    Mimalloc,
    /// Address space with one slot of 64 KiB for each page, as vmcache has it. The slot of a page never moves.
    Mapped {
        start: NonNull<u8>,
        pages: usize,
    },
}

// SAFETY: the start of the mapping never changes, and each slot has one owner.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`; the allocators take calls from all threads.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory for `budget` bytes in frames of `pages` pages.
    pub fn new(name: &str, budget: u64, pages: usize) -> Result<Memory, String> {
        match name {
            "pageset" => Memory::pool(budget, HugePages::Transparent),
            "pageset-base" => Memory::pool(budget, HugePages::None),
            "pageset-hugetlb" => Memory::pool(budget, HugePages::Explicit),
            "jemalloc" => Memory::jemalloc(),
            "mimalloc" => Ok(Memory::Mimalloc),
            "mmap" => Memory::mapped(pages),
            _ => Err(format!(
                "unknown memory `{name}`; try pageset, pageset-base, pageset-hugetlb, jemalloc, mimalloc or mmap"
            )),
        }
    }

    fn pool(budget: u64, huge_pages: HugePages) -> Result<Memory, String> {
        let give_back = GiveBack { interval: Duration::from_millis(100), ..GiveBack::default() };
        // Free pages that stay free go back even where few of a block are free: the working set has no room for slack.
        let parts = GiveBackParts { min_free_bytes: 0, ..GiveBackParts::default() };
        // An eighth more than the budget, because free frames of one size may be too small for another.
        let pool = PagePool::builder(budget + budget / 8 + (8 << 20))
            .huge_pages(huge_pages)
            .give_back(give_back)
            .give_back_parts(parts);
        let pool = Arc::new(pool.build().map_err(|error| error.to_string())?);
        let _ticker =
            PagePool::start_ticker(&pool, Duration::from_millis(100), |_| {}).map_err(|error| error.to_string())?;
        Ok(Memory::Pool { pool, _ticker })
    }

    /// jemalloc that purges in the background, after about the time that the pool waits.
    fn jemalloc() -> Result<Memory, String> {
        let set = |name: &std::ffi::CStr, value: *mut libc::c_void, bytes: usize| {
            // SAFETY: `value` points to a value of `bytes`, which is the type that `name` has.
            let result =
                unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), ptr::null_mut(), ptr::null_mut(), value, bytes) };
            if result == 0 { Ok(()) } else { Err(format!("cannot set jemalloc's {name:?}: error {result}")) }
        };
        let (mut on, mut decay_ms) = (true, 1000_isize);
        set(c"background_thread", (&raw mut on).cast(), size_of::<bool>())?;
        for name in
            [c"arenas.dirty_decay_ms", c"arenas.muzzy_decay_ms", c"arena.0.dirty_decay_ms", c"arena.0.muzzy_decay_ms"]
        {
            set(name, (&raw mut decay_ms).cast(), size_of::<isize>())?;
        }
        Ok(Memory::Jemalloc)
    }

    fn mapped(pages: usize) -> Result<Memory, String> {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: the system selects the address of the new mapping.
        let start = unsafe { libc::mmap(ptr::null_mut(), pages * MAX_FRAME_BYTES, access, kind, -1, 0) };
        let error = || format!("cannot map {pages} slots: {}; try fewer", std::io::Error::last_os_error());
        if start == libc::MAP_FAILED {
            return Err(error());
        }
        // Huge pages would make the slots of other pages resident. A kernel without huge pages refuses the advice.
        // SAFETY: the range is the mapping from above.
        unsafe { libc::madvise(start, pages * MAX_FRAME_BYTES, libc::MADV_NOHUGEPAGE) };
        Ok(Memory::Mapped { start: NonNull::new(start.cast()).ok_or_else(error)?, pages })
    }

    /// A frame of `bytes`, 4 to 64 KiB and a power of two, for `page`. `None`: no memory.
    pub fn alloc(&self, page: usize, bytes: usize) -> Option<NonNull<u8>> {
        match self {
            Memory::Pool { pool, .. } => Some(pool.alloc(order_for(bytes)?).ok()?.cast()),
            // SAFETY: the size is not 0, and the alignment is a power of two.
            Memory::Jemalloc => NonNull::new(
                unsafe { tikv_jemalloc_sys::mallocx(bytes, tikv_jemalloc_sys::MALLOCX_ALIGN(4096)) }.cast(),
            ),
            // SAFETY: the alignment is a power of two.
            Memory::Mimalloc => NonNull::new(unsafe { libmimalloc_sys::mi_malloc_aligned(bytes, 4096) }.cast()),
            Memory::Mapped { start, pages } => {
                assert!(page < *pages, "page {page} has no slot");
                // SAFETY: the slot is inside the mapping.
                Some(unsafe { start.add(page * MAX_FRAME_BYTES) })
            }
        }
    }

    /// Frees a frame.
    ///
    /// # Safety
    /// `frame` came from `alloc` with `bytes`, and nothing refers to it.
    pub unsafe fn free(&self, frame: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller guarantees a frame of that size, which it does not use any more.
        unsafe {
            match self {
                Memory::Pool { pool, .. } => {
                    let order = order_for(bytes).expect("at most 64 KiB");
                    pool.free(frame, order).unwrap_or_else(|error| panic!("{error}"));
                }
                Memory::Jemalloc => {
                    tikv_jemalloc_sys::sdallocx(frame.as_ptr().cast(), bytes, tikv_jemalloc_sys::MALLOCX_ALIGN(4096))
                }
                Memory::Mimalloc => libmimalloc_sys::mi_free(frame.as_ptr().cast()),
                Memory::Mapped { .. } => {
                    let result = libc::madvise(frame.as_ptr().cast(), bytes, libc::MADV_DONTNEED);
                    assert_eq!(result, 0, "madvise: {}", std::io::Error::last_os_error());
                }
            }
        }
    }

    /// The bytes that the memory counts as in use, if it counts them.
    pub fn in_use_bytes(&self) -> Option<u64> {
        match self {
            Memory::Pool { pool, .. } => Some(pool.stats().in_use_bytes),
            _ => None,
        }
    }
}
