//! Structures that may grow: the program says how large it knows them.
//!
//! As the kernel's extensible system calls do: a program older than the library has fewer members, and gets or means the
//! defaults for the others; one that is newer has more, which must be zero, for zero means the default in each member that
//! comes after the first version.

use std::ptr;

use crate::error::Failure;

fn too_small<T>(size: usize, name: &str) -> Result<(), Failure> {
    // All there have been is the first version.
    let least = size_of::<T>();
    if size >= least {
        return Ok(());
    }
    Err(Failure::argument(format!("the size of {name} is {size}; allowed: sizeof *{name}, {least} bytes or more")))
}

/// Writes as much of a value as a program knows, and zeros for what only the program knows.
///
/// # Safety
/// `to` has `size` bytes that can be written.
pub(crate) unsafe fn write_sized<T: Copy>(to: *mut T, value: T, size: usize, name: &str) -> Result<(), Failure> {
    too_small::<T>(size, name)?;
    // SAFETY: `size` bytes can be written, says the caller, and a `T` fits.
    unsafe {
        ptr::write_bytes(to.cast::<u8>(), 0, size);
        ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), to.cast(), size_of::<T>());
    }
    Ok(())
}

/// Reads a value of which a program knows `size` bytes.
///
/// # Safety
/// `from` has `size` bytes that can be read, and any bytes are a `T`.
pub(crate) unsafe fn read_sized<T: Copy>(from: *const T, size: usize, name: &str) -> Result<T, Failure> {
    too_small::<T>(size, name)?;
    // SAFETY: `size` bytes can be read, says the caller, and a `T` fits.
    let (value, rest) = unsafe {
        let rest = from.cast::<u8>().add(size_of::<T>());
        (ptr::read_unaligned(from), std::slice::from_raw_parts(rest, size - size_of::<T>()))
    };
    match rest.iter().position(|&byte| byte != 0) {
        None => Ok(value),
        Some(at) => {
            let at = size_of::<T>() + at;
            let text = "has a setting that this version of the library does not know";
            Err(Failure::argument(format!("{name} {text}: byte {at} is not 0; its size is {}", size_of::<T>())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_newer_program_knows_is_zero_or_refused() {
        let mut bytes = [7_u8; 16];
        let to = bytes.as_mut_ptr().cast::<u64>();
        // SAFETY: 16 bytes.
        assert!(unsafe { write_sized(to, 5_u64, 7, "x") }.is_err());
        assert_eq!(bytes, [7; 16], "nothing was written");
        let to = bytes.as_mut_ptr().cast::<u64>();
        // SAFETY: as above.
        assert!(unsafe { write_sized(to, u64::MAX, 12, "x") }.is_ok());
        assert_eq!(bytes, [255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 7, 7, 7, 7]);
        // SAFETY: as above.
        let read = |bytes: &[u8; 16], size| unsafe { read_sized(bytes.as_ptr().cast::<u64>(), size, "x") };
        assert!(matches!(read(&bytes, 8), Ok(u64::MAX)));
        assert!(matches!(read(&bytes, 12), Ok(u64::MAX)));
        let error = read(&bytes, 16).expect_err("refused").1;
        assert!(error.contains("byte 12 is not 0; its size is 8"), "{error}");
        let error = read(&bytes, 4).expect_err("refused").1;
        assert_eq!(error, "the size of x is 4; allowed: sizeof *x, 8 bytes or more");
    }
}
