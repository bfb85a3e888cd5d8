//! Checkers of memory that watch the process: address sanitizer, thread sanitizer, and valgrind's memcheck.
//!
//! A pool tells them which of its runs are free, so that they report a use after a free and an access beyond a run. Without a
//! checker, a pool tells nobody, and pays nothing.
//!
//! A sanitizer's runtime is part of the program. This library refers to its functions by weak symbols, which are null where no
//! runtime is linked. Valgrind watches for a sequence of instructions without effect. Source of the requests: `valgrind.h` and
//! `memcheck.h` of Valgrind, whose numbers do not change.

use std::mem;
use std::sync::OnceLock;

/// Larger pools are not marked as free when they are built: marking 4 GiB takes 512 MiB of address sanitizer's own memory. Their
/// runs are marked from the first free on. A guess.
const MAX_MARKED_BYTES: usize = 4 << 30;

/// A function of a sanitizer that takes an address.
type NoteAddress = unsafe extern "C" fn(*const u8);
/// A function of a sanitizer that takes an address and a size in bytes.
type NoteRange = unsafe extern "C" fn(*const u8, usize);

/// Functions of address sanitizer. Source: `sanitizer/asan_interface.h`.
#[derive(Clone, Copy, Debug)]
struct AddressSanitizer {
    poison: NoteRange,
    unpoison: NoteRange,
}

/// Functions of thread sanitizer. Source: `sanitizer/tsan_interface.h` and `tsan_interface.inc`.
#[derive(Clone, Copy, Debug)]
struct ThreadSanitizer {
    acquire: NoteAddress,
    release: NoteAddress,
    write_range: NoteRange,
}

/// The checkers that watch this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checkers {
    address_sanitizer: Option<AddressSanitizer>,
    thread_sanitizer: Option<ThreadSanitizer>,
    memcheck: bool,
}

/// The address of a function that may be missing, or 0. The symbol is weak, so the program also links without it.
macro_rules! weak_function {
    ($name:literal) => {{
        let address: usize;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the instruction reads a word of the table of global offsets, which the linker fills.
        unsafe {
            std::arch::asm!(
                concat!(".weak ", $name),
                concat!("mov {address}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                address = out(reg) address,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the instructions read a word of the table of global offsets, which the linker fills.
        unsafe {
            std::arch::asm!(
                concat!(".weak ", $name),
                concat!("adrp {address}, :got:", $name),
                concat!("ldr {address}, [{address}, :got_lo12:", $name, "]"),
                address = out(reg) address,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            address = 0;
        }
        address
    }};
}

impl AddressSanitizer {
    fn find() -> Option<AddressSanitizer> {
        let poison = weak_function!("__asan_poison_memory_region");
        let unpoison = weak_function!("__asan_unpoison_memory_region");
        // SAFETY: (1) neither is null; (2) the names are reserved to the sanitizer, whose header declares these types.
        (poison != 0 && unpoison != 0).then(|| unsafe {
            AddressSanitizer {
                poison: mem::transmute::<usize, NoteRange>(poison),
                unpoison: mem::transmute::<usize, NoteRange>(unpoison),
            }
        })
    }
}

impl ThreadSanitizer {
    fn find() -> Option<ThreadSanitizer> {
        let acquire = weak_function!("__tsan_acquire");
        let release = weak_function!("__tsan_release");
        let write_range = weak_function!("__tsan_write_range");
        // SAFETY: (1) none is null; (2) the names are reserved to the sanitizer, whose header declares these types.
        (acquire != 0 && release != 0 && write_range != 0).then(|| unsafe {
            ThreadSanitizer {
                acquire: mem::transmute::<usize, NoteAddress>(acquire),
                release: mem::transmute::<usize, NoteAddress>(release),
                write_range: mem::transmute::<usize, NoteRange>(write_range),
            }
        })
    }
}

impl Checkers {
    /// The checkers of this process, if there are any.
    pub(crate) fn find() -> Option<Checkers> {
        static FOUND: OnceLock<Option<Checkers>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let all = Checkers {
                address_sanitizer: AddressSanitizer::find(),
                thread_sanitizer: ThreadSanitizer::find(),
                memcheck: client_request(RUNNING_ON_VALGRIND, [0; 3]) > 0,
            };
            let any = all.address_sanitizer.is_some() || all.thread_sanitizer.is_some() || all.memcheck;
            any.then_some(all)
        })
    }

    /// A pool is built in this memory.
    ///
    /// # Safety
    /// Nobody uses the memory before [`Self::allocated`] or [`Self::ended`].
    pub(crate) unsafe fn started(&self, start: *const u8, bytes: usize) {
        let marked = bytes.min(MAX_MARKED_BYTES);
        if let Some(sanitizer) = self.address_sanitizer {
            // SAFETY: the caller guarantees that nobody uses the memory.
            unsafe { (sanitizer.poison)(start, marked) };
        }
        if self.memcheck {
            // No red zones; memory is defined when it is allocated, because a run has defined contents.
            client_request(CREATE_MEMPOOL, [start.addr(), 0, 1]);
            client_request(MAKE_MEM_NOACCESS, [start.addr(), marked, 0]);
        }
    }

    /// The pool in this memory ends. The memory is then ordinary memory.
    pub(crate) fn ended(&self, start: *const u8, bytes: usize) {
        if let Some(sanitizer) = self.address_sanitizer {
            // SAFETY: the call allows accesses, and forbids none.
            unsafe { (sanitizer.unpoison)(start, bytes) };
        }
        if self.memcheck {
            client_request(DESTROY_MEMPOOL, [start.addr(), 0, 0]);
            client_request(MAKE_MEM_DEFINED, [start.addr(), bytes, 0]);
        }
    }

    /// Memory that is no pool's was mapped here. Marks of an earlier mapping go.
    pub(crate) fn mapped(&self, start: *const u8, bytes: usize) {
        if let Some(sanitizer) = self.address_sanitizer {
            // SAFETY: the call allows accesses, and forbids none.
            unsafe { (sanitizer.unpoison)(start, bytes) };
        }
    }

    /// A run of the pool at `pool` was allocated.
    pub(crate) fn allocated(&self, pool: *const u8, start: *const u8, bytes: usize) {
        if let Some(sanitizer) = self.address_sanitizer {
            // SAFETY: the call allows accesses, and forbids none.
            unsafe { (sanitizer.unpoison)(start, bytes) };
        }
        if let Some(sanitizer) = self.thread_sanitizer {
            // Each page, because blocks split and merge between a free and an allocation.
            for page in pages(start, bytes) {
                // SAFETY: the call reads no memory of the program.
                unsafe { (sanitizer.acquire)(page) };
            }
        }
        if self.memcheck {
            client_request(MEMPOOL_ALLOC, [pool.addr(), start.addr(), bytes]);
        }
    }

    /// A run of the pool at `pool` is about to be free.
    ///
    /// # Safety
    /// Nobody uses the run before [`Self::allocated`].
    pub(crate) unsafe fn freed(&self, pool: *const u8, start: *const u8, bytes: usize) {
        if let Some(sanitizer) = self.thread_sanitizer {
            // SAFETY: (1) the calls only note an access; (2) the caller guarantees that nobody else uses the run.
            unsafe {
                (sanitizer.write_range)(start, bytes);
                pages(start, bytes).for_each(|page| (sanitizer.release)(page));
            }
        }
        if let Some(sanitizer) = self.address_sanitizer {
            // SAFETY: the caller guarantees that nobody uses the run.
            unsafe { (sanitizer.poison)(start, bytes) };
        }
        if self.memcheck {
            client_request(MEMPOOL_FREE, [pool.addr(), start.addr(), 0]);
        }
    }
}

fn pages(start: *const u8, bytes: usize) -> impl Iterator<Item = *const u8> {
    (0..bytes).step_by(crate::size::PAGE_BYTES).map(move |offset| start.wrapping_add(offset))
}

const RUNNING_ON_VALGRIND: usize = 0x1001;
const CREATE_MEMPOOL: usize = 0x1303;
const DESTROY_MEMPOOL: usize = 0x1304;
const MEMPOOL_ALLOC: usize = 0x1305;
const MEMPOOL_FREE: usize = 0x1306;
const MAKE_MEM_NOACCESS: usize = 0x4d43_0000;
const MAKE_MEM_DEFINED: usize = 0x4d43_0002;

/// Makes a request to valgrind. Returns 0 where the program runs without it, and where the tool does not know the request.
#[cfg(target_arch = "x86_64")]
fn client_request(request: usize, arguments: [usize; 3]) -> usize {
    let words = [request, arguments[0], arguments[1], arguments[2], 0, 0];
    let result: usize;
    // SAFETY: (1) the rotations of `rdi` sum up to 128 bits, and the exchange changes nothing, so without valgrind the sequence
    // only changes flags; (2) valgrind reads six words at `rax`.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            inout("rdx") 0_usize => result,
            in("rax") words.as_ptr(),
            options(nostack)
        );
    }
    result
}

/// Makes a request to valgrind. Returns 0 where the program runs without it, and where the tool does not know the request.
#[cfg(target_arch = "aarch64")]
fn client_request(request: usize, arguments: [usize; 3]) -> usize {
    let words = [request, arguments[0], arguments[1], arguments[2], 0, 0];
    let result: usize;
    // SAFETY: (1) the rotations of `x12` sum up to 128 bits, so without valgrind the sequence changes no register but `x3`;
    // (2) valgrind reads six words at `x4`.
    unsafe {
        std::arch::asm!(
            "ror x12, x12, #3",
            "ror x12, x12, #13",
            "ror x12, x12, #51",
            "ror x12, x12, #61",
            "orr x10, x10, x10",
            inout("x3") 0_usize => result,
            in("x4") words.as_ptr(),
            options(nostack)
        );
    }
    result
}

/// Valgrind's sequence is not known here for this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn client_request(_request: usize, _arguments: [usize; 3]) -> usize {
    0
}
