//! Error codes, failures, and the last error of each thread.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pageset_host::PageState::{Allocated, Inside};
use pageset_host::{AllocError, FreeError, FreeReason, PoolError, WrongFree};
use thiserror::Error;

use crate::cancel::CancelDisabled;

/// The result of a call. 0 is success. The other numbers never change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum pageset_error {
    /// Success.
    PAGESET_OK = 0,
    /// A pointer that must not be NULL is NULL, or a number is out of range.
    PAGESET_ERR_ARGUMENT = 1,
    /// The pool was destroyed, or the pointer does not point to a pool.
    PAGESET_ERR_NOT_A_POOL = 2,
    /// No run of that size is free, not even after a drain of all caches.
    PAGESET_ERR_NO_MEMORY = 3,
    /// The pool has no memory of that node.
    PAGESET_ERR_NO_NODE = 4,
    /// The system refused address space, memory or huge pages.
    PAGESET_ERR_SYSTEM = 5,
    /// The address is not in this pool.
    PAGESET_ERR_FOREIGN = 6,
    /// The address is not a multiple of 4096, or no run of that order starts there.
    PAGESET_ERR_UNALIGNED = 7,
    /// The run is already free.
    PAGESET_ERR_DOUBLE_FREE = 8,
    /// The run has another order or size, or the address is inside a larger run.
    PAGESET_ERR_WRONG_ORDER = 9,
    /// A run is in use. The pool cannot be destroyed, or cannot shrink by that much.
    PAGESET_ERR_IN_USE = 10,
    /// The pool belongs to the parent of this process.
    PAGESET_ERR_FORKED = 11,
    /// A bug in this library. Please report it with the text of pageset_last_error().
    PAGESET_ERR_INTERNAL = 12,
}

use pageset_error::*;

/// Why a call failed. Its text becomes the thread's last error.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error("cannot use {0}: it is NULL; try a valid pointer")]
    Null(&'static str),
    #[error("cannot use {name} = {value}: it is out of range; try {allowed}")]
    OutOfRange { name: &'static str, value: u64, allowed: &'static str },
    #[error("cannot use {name} of {size} bytes: the first version has {first} bytes; try sizeof *{name}")]
    TooSmall { name: &'static str, size: usize, first: usize },
    #[error(
        "cannot use {name}: byte {offset} is not 0, and this library knows {known} bytes; try 0, or a newer library"
    )]
    UnknownMember { name: &'static str, offset: usize, known: usize },
    #[error("cannot use {0} as a pool: it was destroyed or never was one; try the pointer from pageset_pool_create")]
    NotAPool(String),
    #[error("cannot destroy the pool: {0} bytes are in use; try to free them, or pageset_pool_destroy_with_pages")]
    InUse(u64),
    #[error("cannot free NULL: the address is not in this pool; try the address that the allocation returned")]
    FreeNull,
    #[error("cannot use rules \"{text}\": {reason}")]
    Rules { text: String, reason: String },
    #[error("cannot {0}: the pool belongs to the parent of this process; try a pool that this process creates")]
    Forked(&'static str),
    #[error(
        "cannot create a pool of shared memory with PAGESET_FORK_COPY: a forked child would share the pages and not copy \
         them; try PAGESET_FORK_ABSENT, and mmap of pageset_memory_fd in the child"
    )]
    SharedCopy,
    #[error(
        "cannot lock the pool ({bytes} bytes): {source}; this process may lock {limit_bytes} bytes in all; \
         try a smaller pool or reserve, a higher ulimit -l, or CAP_IPC_LOCK"
    )]
    Lock { bytes: u64, limit_bytes: u64, source: io::Error },
    #[error("cannot return a descriptor: the memory is private; try a pool with PAGESET_MEMORY_SHARED")]
    NotShared,
    #[error("cannot return the offset of {0:#x}: the address is not in this pool; try an address of one of its runs")]
    NoOffset(usize),
    #[error(transparent)]
    Alloc(#[from] AllocError),
    #[error(transparent)]
    Free(#[from] FreeError),
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    System(#[from] io::Error),
    #[error("cannot complete the call: internal error: {0}; please report it")]
    Internal(String),
}

impl Failure {
    /// The code. Safe in a signal handler.
    pub(crate) fn code(&self) -> pageset_error {
        match self {
            Self::Null(_)
            | Self::OutOfRange { .. }
            | Self::TooSmall { .. }
            | Self::UnknownMember { .. }
            | Self::Rules { .. }
            | Self::SharedCopy
            | Self::NotShared => PAGESET_ERR_ARGUMENT,
            Self::NotAPool(_) => PAGESET_ERR_NOT_A_POOL,
            Self::InUse(_) | Self::Pool(PoolError::InUse { .. } | PoolError::LimitInUse { .. }) => PAGESET_ERR_IN_USE,
            Self::System(_)
            | Self::Lock { .. }
            | Self::Pool(PoolError::LocksRefused)
            | Self::Pool(PoolError::System { .. } | PoolError::NoHugePages { .. })
            | Self::Alloc(AllocError::DrainRefused) => PAGESET_ERR_SYSTEM,
            Self::Forked(_) | Self::Alloc(AllocError::Forked) | Self::Pool(PoolError::Forked) => PAGESET_ERR_FORKED,
            Self::Alloc(
                AllocError::OutOfMemory { .. }
                | AllocError::NoContigRange { .. }
                | AllocError::TimedOut { .. }
                | AllocError::Limit { .. },
            ) => PAGESET_ERR_NO_MEMORY,
            Self::Alloc(AllocError::UnknownNode(_)) | Self::Pool(PoolError::Nodes { .. }) => PAGESET_ERR_NO_NODE,
            Self::Alloc(AllocError::UnsupportedType(_) | AllocError::ContigSize { .. }) => PAGESET_ERR_ARGUMENT,
            Self::Pool(_) => PAGESET_ERR_ARGUMENT,
            Self::FreeNull | Self::NoOffset(_) => PAGESET_ERR_FOREIGN,
            Self::Free(FreeError { reason, .. }) => match reason {
                FreeReason::NotAPage | FreeReason::Wrong(WrongFree::Misaligned) => PAGESET_ERR_UNALIGNED,
                FreeReason::Forked => PAGESET_ERR_FORKED,
                FreeReason::ContigSize { .. } | FreeReason::InsideContig { .. } | FreeReason::NotContig => {
                    PAGESET_ERR_WRONG_ORDER
                }
                FreeReason::Wrong(WrongFree::NotOurs | WrongFree::NotAllocated(Inside)) => PAGESET_ERR_FOREIGN,
                FreeReason::Wrong(WrongFree::WrongOrder(_) | WrongFree::Inside { state: Allocated, .. }) => {
                    PAGESET_ERR_WRONG_ORDER
                }
                FreeReason::Wrong(WrongFree::NotAllocated(_) | WrongFree::Inside { .. }) => PAGESET_ERR_DOUBLE_FREE,
                // No call of the library makes other wrong frees.
                FreeReason::Wrong(_) => PAGESET_ERR_INTERNAL,
            },
            Self::Internal(_) => PAGESET_ERR_INTERNAL,
        }
    }
}

/// Fails if the argument `name` is NULL.
pub(crate) fn not_null<T>(pointer: *const T, name: &'static str) -> Result<(), Failure> {
    if pointer.is_null() { Err(Failure::Null(name)) } else { Ok(()) }
}

/// The room for a last error in bytes, with the zero byte. The longest message without a list has 300 bytes.
const LAST_ERROR_BYTES: usize = 1024;

/// A text that always ends in a zero byte and never moves.
///
/// A program may hold a pointer to it while the next failure replaces the text. It then reads the newer text.
struct LastError(UnsafeCell<[u8; LAST_ERROR_BYTES]>);

thread_local! {
    // A constant without a destructor: the text is there until the thread has ended.
    static LAST_ERROR: LastError = const { LastError(UnsafeCell::new([0; LAST_ERROR_BYTES])) };
}

impl LastError {
    fn as_ptr(&self) -> *const c_char {
        self.0.get().cast_const().cast()
    }

    /// Replaces the text. A text that is too long loses its end.
    fn replace(&self, failure: &Failure) {
        /// Writes what fits, in whole characters. Messages contain no zero byte.
        struct Truncated<'t>(&'t mut [u8], usize);
        impl fmt::Write for Truncated<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                let room = self.0.len() - self.1;
                let fits = (0..=text.len().min(room)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
                self.0[self.1..][..fits].copy_from_slice(&text.as_bytes()[..fits]);
                self.1 += fits;
                if fits == text.len() { Ok(()) } else { Err(fmt::Error) }
            }
        }
        let mut text = [0; LAST_ERROR_BYTES];
        // The last byte stays zero. An error means that the text was truncated.
        let _ = fmt::write(&mut Truncated(&mut text[..LAST_ERROR_BYTES - 1], 0), format_args!("{failure}"));
        // SAFETY: (1) only this thread has access; (2) no reference to the text exists, because `as_ptr` makes none.
        unsafe { self.0.get().write(text) };
    }
}

/// Makes the failure the thread's last error, and returns its code.
#[cold]
fn record(failure: &Failure) -> pageset_error {
    // The access never fails, because the text has no destructor.
    let _ = LAST_ERROR.try_with(|last| last.replace(failure));
    failure.code()
}

/// Runs the body of a C function. A failure or a panic becomes its code and the thread's last error.
#[inline(always)]
pub(crate) fn catch<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, pageset_error> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(failure)) => Err(record(&failure)),
        Err(panic) => Err(record_panic(panic.as_ref())),
    }
}

#[cold]
fn record_panic(panic: &(dyn std::any::Any + Send)) -> pageset_error {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    record(&Failure::Internal(text.unwrap_or("a panic without a text").to_owned()))
}

/// [`catch`] for functions that return a code.
#[inline(always)]
pub(crate) fn catch_code(body: impl FnOnce() -> Result<(), Failure>) -> pageset_error {
    catch(body).err().unwrap_or(PAGESET_OK)
}

/// [`catch`] for functions that contain cancellation points. It disables cancellation during the body.
///
/// Functions of the C library that read files or make system calls are cancellation points. A cancellation during a call
/// would leave the pool locked. The functions that allocate and free pages contain none. They use [`catch`], which is
/// cheaper.
pub(crate) fn catch_uncancelled<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, pageset_error> {
    let _cancel_disabled = CancelDisabled::new();
    catch(body)
}

/// [`catch_uncancelled`] for functions that return a code.
pub(crate) fn catch_uncancelled_code(body: impl FnOnce() -> Result<(), Failure>) -> pageset_error {
    catch_uncancelled(body).err().unwrap_or(PAGESET_OK)
}

/// Returns a short English description of an error code. Never NULL, not even for unknown codes. The text lives as long
/// as the program.
#[unsafe(no_mangle)]
pub extern "C" fn pageset_strerror(error: i32) -> *const c_char {
    let all: [(pageset_error, &CStr); 13] = [
        (PAGESET_OK, c"success"),
        (PAGESET_ERR_ARGUMENT, c"an argument is NULL or out of range"),
        (PAGESET_ERR_NOT_A_POOL, c"the pool was destroyed, or the pointer is not a pool"),
        (PAGESET_ERR_NO_MEMORY, c"no run of that size is free"),
        (PAGESET_ERR_NO_NODE, c"the pool has no memory of that node"),
        (PAGESET_ERR_SYSTEM, c"the system refused address space, memory or huge pages"),
        (PAGESET_ERR_FOREIGN, c"the address is not in this pool"),
        (PAGESET_ERR_UNALIGNED, c"no run of that order starts at the address"),
        (PAGESET_ERR_DOUBLE_FREE, c"the run is already free"),
        (PAGESET_ERR_WRONG_ORDER, c"the run has another order or size"),
        (PAGESET_ERR_IN_USE, c"runs of the pool are in use"),
        (PAGESET_ERR_FORKED, c"the pool belongs to the parent of this process"),
        (PAGESET_ERR_INTERNAL, c"a bug in the library"),
    ];
    let found = all.iter().find(|(code, _)| *code as i32 == error);
    found.map_or(c"unknown error code", |(_, text)| text).as_ptr()
}

/// Returns the message of the last call of this thread that failed, with its values, or an empty text. A message above 1023
/// bytes loses its end.
///
/// The address is the same for the life of the thread, and the text there always ends in a zero byte. The next call of this
/// thread that fails replaces the text. Copy the text to keep it, or to read it in another thread.
#[unsafe(no_mangle)]
pub extern "C" fn pageset_last_error() -> *const c_char {
    LAST_ERROR.try_with(LastError::as_ptr).unwrap_or(c"".as_ptr())
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
        let internal = "cannot complete the call: internal error: number 7; please report it";
        assert_eq!(catch_code(|| panic!("number {}", 7)), PAGESET_ERR_INTERNAL);
        assert_eq!(last(), internal);
        assert_eq!(catch_code(|| Ok(())), PAGESET_OK);
        assert_eq!(last(), internal, "a success changed the last error");
        assert_eq!(catch_code(|| Err(Failure::Null("x"))), PAGESET_ERR_ARGUMENT);
        assert_eq!(last(), "cannot use x: it is NULL; try a valid pointer");
        std::thread::spawn(|| assert_eq!(last(), "", "threads share a last error")).join().expect("no panic");
    }

    /// An older pointer to the last error reads the newer text.
    #[test]
    fn the_text_does_not_move() {
        let first = pageset_last_error();
        for name in ["x", "a longer name", ""] {
            let name: &'static str = name;
            record(&Failure::Null(name));
            assert_eq!(pageset_last_error(), first);
            assert_eq!(last(), format!("cannot use {name}: it is NULL; try a valid pointer"));
        }
    }

    #[test]
    fn a_long_text_loses_its_end() {
        let name = "\u{e9}".repeat(LAST_ERROR_BYTES);
        record(&Failure::Internal(name.clone()));
        let long = last();
        assert!(long.len() >= LAST_ERROR_BYTES - 3 && long.len() < LAST_ERROR_BYTES, "{} bytes", long.len());
        assert!(Failure::Internal(name).to_string().starts_with(&long), "{long}");
        record(&Failure::FreeNull);
        assert!(last().ends_with("the allocation returned"), "the end of an older text: {}", last());
    }

    #[test]
    fn each_code_has_a_text() {
        let text = |code| {
            // SAFETY: the texts are static.
            unsafe { CStr::from_ptr(pageset_strerror(code)) }.to_str().expect("ASCII")
        };
        let texts: std::collections::HashSet<_> = (0..=12).map(text).collect();
        assert_eq!(texts.len(), 13);
        assert!(!texts.contains("unknown error code"));
        assert_eq!((text(-1), text(13)), ("unknown error code", "unknown error code"));
    }
}
