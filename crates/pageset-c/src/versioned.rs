//! Structures that may grow. The program passes the size of the structure that it knows.
//!
//! The kernel's extensible system calls use the same scheme. A program older than the library knows fewer members; the
//! others have their defaults. A newer program knows more members, and the library accepts them only if they are zero. Zero
//! must therefore mean the default in each member that a later version adds.

use std::mem::MaybeUninit;
use std::ptr;

use crate::error::Failure;

/// A structure that may grow at its end.
///
/// # Safety
/// (1) Any bytes are a valid value. (2) The structure has no padding.
pub(crate) unsafe trait Versioned: Copy {
    const FIRST_BYTES: usize;
}

fn check_size<T: Versioned>(size: usize, name: &'static str) -> Result<(), Failure> {
    let first = T::FIRST_BYTES;
    if size >= first { Ok(()) } else { Err(Failure::TooSmall { name, size, first }) }
}

/// Writes a value to a program's structure of `size` bytes, with zeros in members that only the program knows.
///
/// # Safety
/// `to` has `size` writable bytes.
pub(crate) unsafe fn write_sized<T: Versioned>(
    to: *mut T,
    value: T,
    size: usize,
    name: &'static str,
) -> Result<(), Failure> {
    check_size::<T>(size, name)?;
    // SAFETY: (1) the caller guarantees `size` writable bytes; (2) the copy reads no more than `T` has.
    unsafe {
        ptr::write_bytes(to.cast::<u8>(), 0, size);
        ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), to.cast(), size.min(size_of::<T>()));
    }
    Ok(())
}

/// Reads a value from a program's structure of `size` bytes, with zeros in members that only the library knows.
///
/// # Safety
/// `from` has `size` readable bytes.
pub(crate) unsafe fn read_sized<T: Versioned>(from: *const T, size: usize, name: &'static str) -> Result<T, Failure> {
    check_size::<T>(size, name)?;
    let known = size_of::<T>();
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: (1) the caller guarantees `size` readable bytes; (2) the copy writes no more than `T` has; (3) any bytes are a
    // valid `T`.
    let (value, rest) = unsafe {
        ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr().cast(), size.min(known));
        let rest = from.cast::<u8>().add(size.min(known));
        (value.assume_init(), std::slice::from_raw_parts(rest, size.saturating_sub(known)))
    };
    match rest.iter().position(|&byte| byte != 0) {
        None => Ok(value),
        Some(at) => Err(Failure::UnknownMember { name, offset: known + at, known }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // SAFETY: (1) any bytes are a valid number; (2) a number has no padding.
    unsafe impl Versioned for u64 {
        const FIRST_BYTES: usize = 8;
    }

    // SAFETY: (1) any bytes are valid numbers; (2) an array of numbers has no padding.
    unsafe impl Versioned for [u32; 3] {
        const FIRST_BYTES: usize = 8;
    }

    #[test]
    fn members_that_an_older_program_does_not_know_are_zero() {
        let mut older = [7_u32; 3];
        let to = older.as_mut_ptr().cast::<[u32; 3]>();
        // SAFETY: `to` has 12 bytes.
        assert!(unsafe { write_sized(to, [1, 2, 3], 8, "x") }.is_ok());
        assert_eq!(older, [1, 2, 7], "the call wrote beyond the program's structure");
        // SAFETY: `older` has 12 bytes.
        let read = |size| unsafe { read_sized(older.as_ptr().cast::<[u32; 3]>(), size, "x") };
        assert!(matches!(read(8), Ok([1, 2, 0])));
        assert!(matches!(read(12), Ok([1, 2, 7])));
        assert!(read(7).is_err());
    }

    #[test]
    fn unknown_members_are_zeroed_on_write_and_refused_on_read() {
        let mut bytes = [7_u8; 16];
        let to = bytes.as_mut_ptr().cast::<u64>();
        // SAFETY: `to` has 16 writable bytes.
        assert!(unsafe { write_sized(to, 5_u64, 7, "x") }.is_err());
        assert_eq!(bytes, [7; 16], "a failed call wrote");
        let to = bytes.as_mut_ptr().cast::<u64>();
        // SAFETY: `to` has 16 writable bytes.
        assert!(unsafe { write_sized(to, u64::MAX, 12, "x") }.is_ok());
        assert_eq!(bytes, [255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 7, 7, 7, 7]);
        // SAFETY: `size` is at most 16 in this test.
        let read = |bytes: &[u8; 16], size| unsafe { read_sized(bytes.as_ptr().cast::<u64>(), size, "x") };
        assert!(matches!(read(&bytes, 8), Ok(u64::MAX)));
        assert!(matches!(read(&bytes, 12), Ok(u64::MAX)));
        let error = read(&bytes, 16).expect_err("refused").to_string();
        assert_eq!(error, "cannot use x: byte 12 is not 0, and this library knows 8 bytes; try 0, or a newer library");
        let error = read(&bytes, 4).expect_err("refused").to_string();
        assert_eq!(error, "cannot use x of 4 bytes: the first version has 8 bytes; try sizeof *x");
    }
}
