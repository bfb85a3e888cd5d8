//! `perf.data` files of `perf record -c 1 -m 32M -a -e kmem:mm_page_alloc,… -o FILE`.
//!
//! The crate `linux-perf-data` reads and orders the records. It trusts the sizes in a file and allocates as much, so
//! [`guard`] checks the file's structure first. The layout of the tracepoints comes from the kernel's texts in the file
//! ([`tracing_data`]); the decoder of the recorder's ring buffers reads them.

mod guard;
mod reader;
mod tracing_data;

pub(crate) use reader::{Opened, PerfReader, open};

/// The first bytes of a `perf.data`.
pub(crate) const MAGIC: &[u8; 8] = b"PERFILE2";

/// The first bytes of a `perf.data` from a machine of the other byte order.
pub(crate) const OTHER_ORDER_MAGIC: &[u8; 8] = b"2ELIFREP";

/// Takes numbers and bytes from the front of a slice; `None` if it is too short.
#[derive(Clone, Copy, Debug)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, bytes: u64) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(usize::try_from(bytes).ok()?)?;
        self.0 = rest;
        Some(head)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Takes a text that ends in a zero byte, without that byte.
    fn c_string(&mut self) -> Option<&'a [u8]> {
        let length = memchr::memchr(0, self.0)?;
        let text = self.take(length as u64)?;
        self.take(1)?;
        Some(text)
    }
}
