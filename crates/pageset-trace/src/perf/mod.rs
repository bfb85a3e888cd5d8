//! `perf.data` files of `perf record -c 1 -m 32M -a -e kmem:mm_page_alloc,… -o FILE`.
//!
//! The crate `linux-perf-data` reads and orders the records. It trusts the sizes in a file and allocates as much, so
//! [`guard`] checks the file's structure first. The layout of the tracepoints comes from the kernel's texts in the file
//! ([`tracing_data`](crate::tracepoint::tracing_data)); the decoder of the recorder's ring buffers reads them.

mod guard;
mod reader;

pub(crate) use reader::{Opened, PerfReader, open};

/// The first bytes of a `perf.data`.
pub(crate) const MAGIC: &[u8; 8] = b"PERFILE2";

/// The first bytes of a `perf.data` from a machine of the other byte order.
pub(crate) const OTHER_ORDER_MAGIC: &[u8; 8] = b"2ELIFREP";
