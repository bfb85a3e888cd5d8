//! A global allocator for programs: small sizes from slabs, larger ones as blocks of pages, all from one [`PagePool`].
//!
//! ```
//! use pageset_adapters::global::PagesetAlloc;
//! use pageset_host::PagePool;
//!
//! /// 64 GiB of address space. Memory comes as it is touched.
//! #[global_allocator]
//! static ALLOC: PagesetAlloc = PagesetAlloc::new(|| PagePool::builder(64 << 30));
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let words: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
//! let stats = ALLOC.with_pool(|pool| pool.stats()).ok_or("no pool")?;
//! assert!(stats.in_use_bytes > 0);
//! # drop(words);
//! # Ok(())
//! # }
//! ```
//!
//! | module | contents |
//! | --- | --- |
//! | `classes` | which size class or order serves a layout |
//! | `guards` | which calls go to the system's allocator because the pool makes them; no call unwinds |
//! | `slab` | slabs: blocks of 32 KiB with objects of one size class |
//! | this file | the trait, and the construction of the pool |
//!
//! | layout | comes from |
//! | --- | --- |
//! | up to 2 KiB, aligned to 2 KiB or less | a slab of the caller's CPU |
//! | up to 4 MiB, aligned to 4 MiB or less | a block of 2^order pages |
//! | larger | the system's allocator |
//!
//! # The start
//!
//! The first allocation builds the pool. Building allocates too, and other threads allocate meanwhile: these calls go to the
//! system's allocator. A free finds the owner of its memory by the address. If the pool cannot be built, a line on standard
//! error says why, and the system's allocator serves the program.
//!
//! # Ticks
//!
//! Call `ALLOC.with_pool(|pool| pool.tick())` about once a second, from a thread of its own or from the program's threads. Without
//! ticks, the caches of idle CPUs keep their pages, and no memory returns to the system.
//!
//! # Forks
//!
//! A forked child has a copy of its parent's memory, but cannot use the pool. Its allocations go to the system's allocator. What
//! it frees of the parent's memory stays allocated in the child.
#![allow(unsafe_code, reason = "the trait is unsafe to implement and to call")]

mod classes;
mod guards;
mod slab;

use core::alloc::{GlobalAlloc, Layout};
use core::fmt;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::alloc::System;
use std::boxed::Box;
use std::io::{self, Write};
use std::process;

use pageset_host::{OnFork, Order, PagePool, PoolBuilder};

use classes::Source;
use guards::{in_pool, is_in_pool, without_unwinding};
use slab::Slabs;

/// A global allocator. It is a static with the attribute `#[global_allocator]`.
///
/// A free that the pool refuses ends the program with a message. The pool recognises a wrong free of a block, but not of an
/// object in a slab.
pub struct PagesetAlloc {
    settings: fn() -> PoolBuilder,
    /// Null until the pool is built. Never freed.
    state: AtomicPtr<State>,
    /// Whether a thread builds the pool, has built it, or could not.
    started: AtomicBool,
}

/// What the first allocation builds.
struct State {
    pool: PagePool,
    slabs: Slabs,
    /// The address space of the pool.
    start: usize,
    bytes: usize,
}

impl fmt::Debug for PagesetAlloc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagesetAlloc").field("is_built", &self.built().is_some()).finish_non_exhaustive()
    }
}

impl PagesetAlloc {
    /// A global allocator over a pool with these settings. The pool is built at the first allocation.
    ///
    /// All memory that the program uses up to 4 MiB at a time comes from the pool: choose its size well above that, since only
    /// touched pages take memory. Without free memory in the pool, allocations fail.
    ///
    /// The setting [`PoolBuilder::on_fork`] is always [`OnFork::Copy`]: without a copy, a child could not read its own
    /// memory. So a pool of shared memory cannot be built, and the system's allocator serves the program.
    ///
    /// A panic of `settings` ends the program, because a global allocator must not unwind.
    #[must_use]
    pub const fn new(settings: fn() -> PoolBuilder) -> Self {
        PagesetAlloc { settings, state: AtomicPtr::new(ptr::null_mut()), started: AtomicBool::new(false) }
    }

    /// Calls `work` with the pool: for its statistics, ticks and drains. `None` before the first allocation, and if the pool
    /// could not be built.
    ///
    /// What `work` allocates comes from the system's allocator, because a call of the pool may allocate while it holds a lock
    /// of the pool.
    pub fn with_pool<R>(&self, work: impl FnOnce(&PagePool) -> R) -> Option<R> {
        let state = self.built()?;
        Some(in_pool(|| work(&state.pool)))
    }

    #[inline]
    fn built(&self) -> Option<&State> {
        // Acquire: pairs with the release in `build`.
        let state = self.state.load(Ordering::Acquire);
        // SAFETY: the pointer is null or from a box that is never freed.
        unsafe { state.as_ref() }
    }

    /// The pool, if this call may use it.
    #[inline]
    fn usable(&self) -> Option<&State> {
        let state = match self.built() {
            Some(state) => state,
            None => self.build()?,
        };
        (!is_in_pool() && !state.pool.is_forked()).then_some(state)
    }

    #[cold]
    fn build(&self) -> Option<&State> {
        // Relaxed: the exchange only chooses the thread that builds.
        if self.started.swap(true, Ordering::Relaxed) {
            return None;
        }
        // If a child had no copy, the system could give it other memory at the pool's addresses.
        without_unwinding(|| match (self.settings)().on_fork(OnFork::Copy).build() {
            Ok(pool) => {
                let space = pool.memory().address_space();
                let (start, bytes) = (space.cast::<u8>().addr().get(), space.len());
                let state = Box::new(State { pool, slabs: Slabs::new(), start, bytes });
                // Release: pairs with the acquire in `built`.
                self.state.store(Box::into_raw(state), Ordering::Release);
            }
            // The message is lost if standard error is closed.
            Err(error) => {
                let _ = writeln!(io::stderr(), "pageset: the system's allocator serves this program: {error}");
            }
        });
        self.built()
    }

    /// The pool, if an allocation is from it.
    #[inline]
    fn owner(&self, start: *mut u8) -> Option<&State> {
        self.built().filter(|state| start.addr().wrapping_sub(state.start) < state.bytes)
    }
}

impl State {
    #[inline]
    fn alloc_block(&self, order: Order) -> Option<NonNull<u8>> {
        without_unwinding(|| self.pool.alloc(order)).ok().map(NonNull::cast)
    }

    /// # Safety
    /// The caller owns the block, and nothing refers to it.
    #[inline]
    unsafe fn free_block(&self, start: NonNull<u8>, order: Order) {
        without_unwinding(|| {
            // SAFETY: the caller's promise.
            if let Err(error) = unsafe { self.pool.free(start, order) } {
                let _ = writeln!(io::stderr(), "pageset: {error}");
                process::abort();
            }
        });
    }
}

// SAFETY: (1) memory is given out once until it is freed, by the pool, a slab or the system; (2) a source serves a layout only if
// it is large and aligned enough; (3) no call unwinds: `without_unwinding` holds for all calls of the pool, and slabs do not panic.
unsafe impl GlobalAlloc for PagesetAlloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let source = Source::of(layout);
        if source != Source::System
            && let Some(state) = self.usable()
        {
            let start = match source {
                Source::Slab(class) => state.slabs.alloc(class, |order| state.alloc_block(order)),
                Source::Block(order) => state.alloc_block(order),
                Source::System => None,
            };
            return start.map_or(ptr::null_mut(), NonNull::as_ptr);
        }
        // SAFETY: the caller's promise: the size is not 0.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        let Some(state) = self.owner(start) else {
            // SAFETY: memory outside the pool is the system's, and the layout is that of its allocation.
            return unsafe { System.dealloc(start, layout) };
        };
        let Some(start) = NonNull::new(start).filter(|_| !state.pool.is_forked()) else { return };
        match Source::of(layout) {
            // SAFETY: the caller owns the object, and the layout gives the class that it was allocated from.
            Source::Slab(class) => unsafe {
                state.slabs.free(class, start, |slab, order| state.free_block(slab, order));
            },
            // SAFETY: the caller owns the block, and the layout gives its order.
            Source::Block(order) => unsafe { state.free_block(start, order) },
            Source::System => {}
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if Source::of(layout) == Source::System {
            // SAFETY: the caller's promise: the size is not 0.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: the caller's promise; the memory has the size of the layout.
        unsafe {
            let start = self.alloc(layout);
            if !start.is_null() {
                ptr::write_bytes(start, 0, layout.size());
            }
            start
        }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if self.owner(start).is_none() {
            // SAFETY: memory outside the pool is the system's, and the layout is that of its allocation.
            return unsafe { System.realloc(start, layout, new_size) };
        }
        // SAFETY: the caller guarantees that the size, rounded up to the alignment, does not overflow.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        if Source::of(new) == Source::of(layout) {
            return start;
        }
        // SAFETY: the two are different memory of at least the smaller size, and the caller owns the old one.
        unsafe {
            let moved = self.alloc(new);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(start, moved, layout.size().min(new_size));
                self.dealloc(start, layout);
            }
            moved
        }
    }
}
