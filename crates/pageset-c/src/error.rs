//! Error codes, and the text of the last error of each thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pageset_host::{AllocError, FreeError, FreeReason, PoolError};

/// What a call came to. 0 is success; the other numbers will not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum pageset_error {
    /// Done.
    PAGESET_OK = 0,
    /// A pointer that may not be NULL is NULL, or a number is out of its range.
    PAGESET_ERR_ARGUMENT = 1,
    /// The pool was destroyed, or the pointer is not a pool's.
    PAGESET_ERR_NOT_A_POOL = 2,
    /// No run of that size is free, even with all caches emptied.
    PAGESET_ERR_NO_MEMORY = 3,
    /// The pool has no memory of that node.
    PAGESET_ERR_NO_NODE = 4,
    /// The system refused address space, memory or huge pages.
    PAGESET_ERR_SYSTEM = 5,
    /// The address is not in this pool.
    PAGESET_ERR_FOREIGN = 6,
    /// The address is not a multiple of 4096, or no run of that order starts there.
    PAGESET_ERR_UNALIGNED = 7,
    /// The run is free already.
    PAGESET_ERR_DOUBLE_FREE = 8,
    /// The run has another order, or the address is inside a larger run.
    PAGESET_ERR_WRONG_ORDER = 9,
    /// The pool is to be destroyed but some of its pages are in use.
    PAGESET_ERR_IN_USE = 10,
    /// The pool belongs to the parent of this process.
    PAGESET_ERR_FORKED = 11,
    /// A mistake in this library, which did not leave the call. Please report it with the text of pageset_last_error().
    PAGESET_ERR_INTERNAL = 12,
}

use pageset_error::*;

/// A failure on its way to the caller: its code and its text.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) pageset_error, pub(crate) String);

impl Failure {
    pub(crate) fn argument(text: impl Into<String>) -> Failure {
        Failure(PAGESET_ERR_ARGUMENT, text.into())
    }
}

impl From<AllocError> for Failure {
    fn from(error: AllocError) -> Self {
        let code = match error {
            AllocError::OutOfMemory { .. } | AllocError::NoContigRange { .. } => PAGESET_ERR_NO_MEMORY,
            AllocError::UnknownNode(_) => PAGESET_ERR_NO_NODE,
            AllocError::UnsupportedType(_) | AllocError::ContigSize { .. } => PAGESET_ERR_ARGUMENT,
            AllocError::Forked => PAGESET_ERR_FORKED,
        };
        Failure(code, error.to_string())
    }
}

impl From<FreeError> for Failure {
    fn from(error: FreeError) -> Self {
        use pageset_host::PageState::{Allocated, Inside};
        use pageset_host::WrongFree;
        let code = match error.reason {
            FreeReason::NotAPage | FreeReason::Wrong(WrongFree::Misaligned) => PAGESET_ERR_UNALIGNED,
            FreeReason::Forked => PAGESET_ERR_FORKED,
            FreeReason::Wrong(WrongFree::NotOurs | WrongFree::NotAllocated(Inside)) => PAGESET_ERR_FOREIGN,
            FreeReason::Wrong(WrongFree::WrongOrder(_) | WrongFree::Inside { state: Allocated, .. }) => {
                PAGESET_ERR_WRONG_ORDER
            }
            FreeReason::Wrong(WrongFree::NotAllocated(_) | WrongFree::Inside { .. }) => PAGESET_ERR_DOUBLE_FREE,
        };
        Failure(code, error.to_string())
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        let code = match error {
            PoolError::System { .. } => PAGESET_ERR_SYSTEM,
            PoolError::Forked => PAGESET_ERR_FORKED,
            PoolError::Nodes { .. } => PAGESET_ERR_NO_NODE,
            PoolError::InUse { .. } => PAGESET_ERR_IN_USE,
            _ => PAGESET_ERR_ARGUMENT,
        };
        Failure(code, error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure(PAGESET_ERR_SYSTEM, error.to_string())
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

#[cold]
fn remember(failure: &Failure) -> pageset_error {
    // No text of ours has a zero byte; one that did would be left out.
    let text = CString::new(failure.1.as_str()).unwrap_or_default();
    // A thread that is ending has no last error.
    let _ = LAST.try_with(|last| last.replace(text));
    failure.0
}

/// Runs what a C function does; a failure or a panic becomes its code and the thread's last error.
#[inline(always)]
pub(crate) fn guard<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, pageset_error> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(failure)) => Err(remember(&failure)),
        Err(panic) => Err(panicked(panic.as_ref())),
    }
}

#[cold]
fn panicked(panic: &(dyn std::any::Any + Send)) -> pageset_error {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    remember(&Failure(PAGESET_ERR_INTERNAL, format!("internal error: {}", text.unwrap_or("a panic without a text"))))
}

/// As [`guard`], for functions that return a code.
#[inline(always)]
pub(crate) fn code(work: impl FnOnce() -> Result<(), Failure>) -> pageset_error {
    guard(work).err().unwrap_or(PAGESET_OK)
}

unsafe extern "C" {
    /// POSIX. The `libc` crate has it for other systems only.
    fn pthread_setcancelstate(state: c_int, former: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of glibc and musl.
const DISABLE: c_int = 1;

/// A thread that cannot be cancelled until this is dropped.
struct Uncancelled(c_int);

impl Uncancelled {
    fn new() -> Uncancelled {
        let mut former = 0;
        // SAFETY: an integer to be written; the call has no other effect than it says.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut former) };
        Uncancelled(former)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: as above; a null pointer means that nobody asks.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}

/// As [`guard`], for functions that read files or make system calls through the C library: those are points where a
/// thread may be cancelled, which must not happen in the middle of a call. Taking and giving pages have no such points,
/// and need not pay for it.
pub(crate) fn slow_guard<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, pageset_error> {
    let _uncancelled = Uncancelled::new();
    guard(work)
}

/// As [`code`], for functions that [`slow_guard`] is for.
pub(crate) fn slow_code(work: impl FnOnce() -> Result<(), Failure>) -> pageset_error {
    slow_guard(work).err().unwrap_or(PAGESET_OK)
}

/// The meaning of an error code in a few words, in English. Never NULL, also for numbers that are no code. The text
/// lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn pageset_strerror(error: i32) -> *const c_char {
    let all: [(pageset_error, &CStr); 13] = [
        (PAGESET_OK, c"done"),
        (PAGESET_ERR_ARGUMENT, c"an argument is NULL or out of range"),
        (PAGESET_ERR_NOT_A_POOL, c"the pool was destroyed, or is none"),
        (PAGESET_ERR_NO_MEMORY, c"no run of that size is free"),
        (PAGESET_ERR_NO_NODE, c"the pool has no memory of that node"),
        (PAGESET_ERR_SYSTEM, c"the system refused address space, memory or huge pages"),
        (PAGESET_ERR_FOREIGN, c"the address is not in this pool"),
        (PAGESET_ERR_UNALIGNED, c"no run of that order starts at the address"),
        (PAGESET_ERR_DOUBLE_FREE, c"the run is free already"),
        (PAGESET_ERR_WRONG_ORDER, c"the run there has another order"),
        (PAGESET_ERR_IN_USE, c"pages of the pool are in use"),
        (PAGESET_ERR_FORKED, c"the pool belongs to the parent of this process"),
        (PAGESET_ERR_INTERNAL, c"a mistake in the library"),
    ];
    let found = all.iter().find(|(code, _)| *code as i32 == error);
    found.map_or(c"no such error", |(_, text)| text).as_ptr()
}

/// What was wrong with the last call of this thread that failed, with its numbers. Empty when none has. The text lives
/// until the next call of this thread that fails, or its end.
#[unsafe(no_mangle)]
pub extern "C" fn pageset_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> String {
        // SAFETY: the text lives until the next failure of this thread.
        unsafe { CStr::from_ptr(pageset_last_error()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(code(|| panic!("number {}", 7)), PAGESET_ERR_INTERNAL);
        assert_eq!(last(), "internal error: number 7");
        assert_eq!(code(|| Ok(())), PAGESET_OK);
        assert_eq!(last(), "internal error: number 7", "success leaves the last error");
        assert_eq!(code(|| Err(Failure::argument("x"))), PAGESET_ERR_ARGUMENT);
        assert_eq!(last(), "x");
        std::thread::spawn(|| assert_eq!(last(), "", "another thread has had none")).join().expect("no panic");
    }

    #[test]
    fn each_code_has_a_text() {
        let text = |code| {
            // SAFETY: the texts are static.
            unsafe { CStr::from_ptr(pageset_strerror(code)) }.to_str().expect("ASCII")
        };
        let texts: std::collections::HashSet<_> = (0..=12).map(text).collect();
        assert_eq!(texts.len(), 13);
        assert!(!texts.contains("no such error"));
        assert_eq!((text(-1), text(13)), ("no such error", "no such error"));
    }
}
