//! The global allocator as a library for `LD_PRELOAD`: programs that were not written for it allocate from a pool of 64 GiB of address
//! space. `ci/preload.sh` compares what they compute with what they compute under the system's allocator.
//!
//! At the end of a process that has `PAGESET_PRELOAD_REPORT` in its environment, the pool is audited, and one line is appended to the
//! file of that name: calls of the allocator, and the pages that the pool has free, cached and in use. An inconsistency aborts the process.
//!
//! Before each allocation there is a [`Header`], since `free` knows no layout. What the pool allocates itself comes from glibc's own
//! functions, which have names of their own.
#![cfg(target_env = "gnu")]
#![allow(unsafe_code, reason = "the functions of the C library are unsafe to implement and to call")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use pageset::admin::audit::Books;
use pageset_adapters::global::PagesetAlloc;
use pageset_host::PagePool;

static ALLOC: PagesetAlloc = PagesetAlloc::new(|| PagePool::builder(64 << 30));

/// Allocations that the pool's allocator served.
static CALLS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this thread is inside the allocator.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

unsafe extern "C" {
    fn __libc_memalign(align: usize, bytes: usize) -> *mut c_void;
    fn __libc_free(start: *mut c_void);
}

/// What `malloc` aligns to, and the least alignment here.
const ALIGN: usize = 16;

/// The words before each allocation.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Header {
    start: *mut u8,
    layout: Layout,
    is_libc: bool,
}

const HEADER: usize = size_of::<Header>();

impl Header {
    /// # Safety
    /// `of` is from [`place`].
    unsafe fn get(of: *mut c_void) -> Header {
        // SAFETY: `place` wrote it there.
        unsafe { of.cast::<Header>().sub(1).read() }
    }

    /// Writes the header, and returns the address after it.
    ///
    /// # Safety
    /// The memory at `start` has the layout.
    unsafe fn put(self, offset: usize) -> *mut c_void {
        // SAFETY: the offset is at least the size of a header, and a multiple of its alignment.
        unsafe {
            let memory = self.start.add(offset);
            memory.cast::<Header>().sub(1).write(self);
            memory.cast()
        }
    }

    /// Bytes that the caller may use.
    fn usable(&self, of: *mut c_void) -> usize {
        self.layout.size() - (of.addr() - self.start.addr())
    }
}

/// Runs `work` as a part of the allocator: what it allocates comes from glibc.
fn inside<R>(work: impl FnOnce() -> R) -> R {
    let before = INSIDE.replace(true);
    let result = work();
    INSIDE.set(before);
    result
}

fn no_memory() -> *mut c_void {
    // SAFETY: the thread's own error number.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    ptr::null_mut()
}

/// Allocates. `align` is a power of two.
fn place(bytes: usize, align: usize, zeroed: bool) -> *mut c_void {
    let align = align.max(ALIGN);
    let offset = align.max(HEADER);
    let Some(layout) = bytes.checked_add(offset).and_then(|all| Layout::from_size_align(all, align).ok()) else {
        return no_memory();
    };
    let is_libc = INSIDE.get();
    // SAFETY: the layout has a size; what glibc returns has it.
    let start = unsafe {
        if is_libc {
            let start = __libc_memalign(align, layout.size()).cast::<u8>();
            if zeroed && !start.is_null() {
                start.write_bytes(0, layout.size());
            }
            start
        } else {
            CALLS.fetch_add(1, Ordering::Relaxed);
            inside(|| if zeroed { ALLOC.alloc_zeroed(layout) } else { ALLOC.alloc(layout) })
        }
    };
    if start.is_null() {
        return no_memory();
    }
    // SAFETY: the memory was just allocated with this layout.
    unsafe { Header { start, layout, is_libc }.put(offset) }
}

/// `malloc` of the C library.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(bytes: usize) -> *mut c_void {
    place(bytes, ALIGN, false)
}

/// `calloc` of the C library.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    count.checked_mul(bytes).map_or_else(no_memory, |all| place(all, ALIGN, true))
}

/// `free` of the C library.
///
/// # Safety
/// `of` is NULL, or what a function of this file returned and nobody freed; no one uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(of: *mut c_void) {
    if of.is_null() {
        return;
    }
    // SAFETY: the caller's promise: the memory is from one of these functions, and is freed once.
    unsafe {
        let Header { start, layout, is_libc } = Header::get(of);
        if is_libc {
            __libc_free(start.cast());
        } else {
            inside(|| ALLOC.dealloc(start, layout));
        }
    }
}

/// `realloc` of the C library.
///
/// # Safety
/// `of` is NULL, or what a function of this file returned and nobody freed; only the result is used from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(of: *mut c_void, bytes: usize) -> *mut c_void {
    if of.is_null() {
        return malloc(bytes);
    }
    // SAFETY: the caller's promise: the memory is from one of these functions.
    unsafe {
        let header = Header::get(of);
        let is_plain = header.layout.align() == ALIGN && !header.is_libc && !INSIDE.get();
        if is_plain
            && let Some(layout) = bytes.checked_add(HEADER).and_then(|all| Layout::from_size_align(all, ALIGN).ok())
        {
            CALLS.fetch_add(1, Ordering::Relaxed);
            let start = inside(|| ALLOC.realloc(header.start, header.layout, layout.size()));
            return if start.is_null() { no_memory() } else { Header { start, layout, is_libc: false }.put(HEADER) };
        }
        let moved = malloc(bytes);
        if !moved.is_null() {
            ptr::copy_nonoverlapping(of.cast::<u8>(), moved.cast(), header.usable(of).min(bytes));
            free(of);
        }
        moved
    }
}

/// `aligned_alloc` of the C library.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, bytes: usize) -> *mut c_void {
    if align.is_power_of_two() { place(bytes, align, false) } else { no_memory() }
}

/// `memalign` of the C library.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, bytes: usize) -> *mut c_void {
    aligned_alloc(align, bytes)
}

/// `valloc` of the C library.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(bytes: usize) -> *mut c_void {
    place(bytes, pageset_host::PAGE_BYTES, false)
}

/// `posix_memalign` of the C library.
///
/// # Safety
/// `result` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(result: *mut *mut c_void, align: usize, bytes: usize) -> c_int {
    if !align.is_power_of_two() || align < size_of::<usize>() {
        return libc::EINVAL;
    }
    let memory = place(bytes, align, false);
    if memory.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { result.write(memory) };
    0
}

/// `malloc_usable_size` of the C library.
///
/// # Safety
/// `of` is NULL, or what a function of this file returned and nobody freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(of: *mut c_void) -> usize {
    // SAFETY: the caller's promise.
    if of.is_null() { 0 } else { unsafe { Header::get(of) }.usable(of) }
}

/// What the loader calls at the end of the process.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_THE_END: extern "C" fn() = report;

extern "C" fn report() {
    let Some(file) = inside(|| std::env::var_os("PAGESET_PRELOAD_REPORT")) else { return };
    inside(|| {
        ALLOC.with_pool(|pool| {
            // A child's copy is not its own.
            if pool.is_forked() {
                return;
            }
            let books = match pool.try_audit() {
                Ok(books) => books,
                Err(error) => {
                    eprintln!("preload: the audit failed: {error}");
                    std::process::abort();
                }
            };
            let sum = |pages: fn(&Books) -> u64| books.iter().map(pages).sum::<u64>();
            let name = std::env::args_os().next().unwrap_or_default();
            let line = format!(
                "{} calls {} free {} cached {} in_use {}\n",
                name.display(),
                CALLS.load(Ordering::Relaxed),
                sum(|books| books.free),
                sum(|books| books.cached),
                sum(|books| books.in_use)
            );
            let written = OpenOptions::new().append(true).create(true).open(&file);
            if let Err(error) = written.and_then(|mut file| file.write_all(line.as_bytes())) {
                eprintln!("preload: cannot write {}: {error}", file.display());
                std::process::abort();
            }
        });
    });
}
