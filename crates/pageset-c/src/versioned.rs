//! Structures that may grow. The program passes the size of the structure that it knows.
//!
//! The kernel's extensible system calls use the same scheme. A program older than the library knows fewer members; the
//! others have their defaults. A newer program knows more members, and the library accepts them only if they are zero. Zero
//! must therefore mean the default in each member that a later version adds.

use std::ptr;

use crate::error::Failure;

fn check_size<T>(size: usize, name: &'static str) -> Result<(), Failure> {
    // No structure has grown yet, so the current size is that of the first version.
    let first = size_of::<T>();
    if size >= first { Ok(()) } else { Err(Failure::TooSmall { name, size, first }) }
}

/// Writes a value to a program's structure of `size` bytes, with zeros in members that only the program knows.
///
/// # Safety
/// `to` has `size` writable bytes.
pub(crate) unsafe fn write_sized<T: Copy>(
    to: *mut T,
    value: T,
    size: usize,
    name: &'static str,
) -> Result<(), Failure> {
    check_size::<T>(size, name)?;
    // SAFETY: the caller guarantees `size` writable bytes, and `size` is at least that of `T`.
    unsafe {
        ptr::write_bytes(to.cast::<u8>(), 0, size);
        ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), to.cast(), size_of::<T>());
    }
    Ok(())
}

/// Reads a value from a program's structure of `size` bytes.
///
/// # Safety
/// (1) `from` has `size` readable bytes. (2) Any bytes are a valid `T`.
pub(crate) unsafe fn read_sized<T: Copy>(from: *const T, size: usize, name: &'static str) -> Result<T, Failure> {
    check_size::<T>(size, name)?;
    // SAFETY: (1) the caller guarantees `size` readable bytes, and `size` is at least that of `T`; (2) the caller
    // guarantees that any bytes are a valid `T`.
    let (value, rest) = unsafe {
        let rest = from.cast::<u8>().add(size_of::<T>());
        (ptr::read_unaligned(from), std::slice::from_raw_parts(rest, size - size_of::<T>()))
    };
    let known = size_of::<T>();
    match rest.iter().position(|&byte| byte != 0) {
        None => Ok(value),
        Some(at) => Err(Failure::UnknownMember { name, offset: known + at, known }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // SAFETY: (1) `size` is at most 16 in this test; (2) any bytes are a `u64`.
        let read = |bytes: &[u8; 16], size| unsafe { read_sized(bytes.as_ptr().cast::<u64>(), size, "x") };
        assert!(matches!(read(&bytes, 8), Ok(u64::MAX)));
        assert!(matches!(read(&bytes, 12), Ok(u64::MAX)));
        let error = read(&bytes, 16).expect_err("refused").to_string();
        assert_eq!(error, "cannot use x: byte 12 is not 0, and this library knows 8 bytes; try 0, or a newer library");
        let error = read(&bytes, 4).expect_err("refused").to_string();
        assert_eq!(error, "cannot use x of 4 bytes: the first version has 8 bytes; try sizeof *x");
    }
}
