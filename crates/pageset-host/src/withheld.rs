//! The limit of a pool, and the memory that it withholds above that limit.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use pageset::{Order, Pfn};

/// The limit of a pool, and the memory that it withholds.
#[derive(Debug)]
pub(crate) struct Limit {
    /// The limit in bytes; `u64::MAX` for none. Written with `blocks` locked. Relaxed: other readers use it in messages.
    pub(crate) bytes: AtomicU64,
    /// The withheld blocks, the largest first. Lock order: after `resizing` and the scanner's, before the allocator's.
    pub(crate) blocks: Mutex<Vec<(Pfn, Order)>>,
    /// The size of all withheld blocks in bytes. Relaxed: a statistic.
    pub(crate) withheld_bytes: AtomicU64,
    /// Bytes that were withheld and are free again. Relaxed: a statistic.
    pub(crate) released_bytes: AtomicU64,
}

impl Default for Limit {
    fn default() -> Limit {
        Limit {
            bytes: AtomicU64::new(u64::MAX),
            blocks: Mutex::default(),
            withheld_bytes: AtomicU64::new(0),
            released_bytes: AtomicU64::new(0),
        }
    }
}
