//! A pool of `pageset` under the interface that LLFree's benchmarks use for all allocators.

use core::fmt;
use core::ptr::NonNull;

use llfree::{Error, FrameId, Result};
use pageset_host::{Order, PagePool};

use super::DynAlloc;

/// The name on the benchmark's command line.
pub const NAME: &str = "pageset";

struct Pool(PagePool);

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.stats().fmt(f)
    }
}

/// A pool of `frames` pages of 4 KiB.
pub fn new(frames: usize) -> Box<dyn DynAlloc> {
    Box::new(Pool(PagePool::builder(frames as u64 * 4096).build().expect("a pool")))
}

fn order(order: usize) -> Order {
    Order::new(order as u8).expect("an order of the pool")
}

impl DynAlloc for Pool {
    fn get(&self, _core: usize, to: usize) -> Result<FrameId> {
        let block = self.0.alloc(order(to)).map_err(|_| Error::Memory)?;
        Ok(FrameId(block.as_ptr().expose_provenance()))
    }

    fn put(&self, _core: usize, frame: FrameId, to: usize) -> Result<()> {
        let block = NonNull::new(core::ptr::with_exposed_provenance_mut(frame.0)).ok_or(Error::Argument)?;
        // SAFETY: the benchmark frees each block that it got once, and does not write to any.
        unsafe { self.0.free(block, order(to)) }.map_err(|_| Error::Argument)
    }

    fn frames(&self) -> usize {
        (self.0.stats().size_bytes / 4096) as usize
    }

    fn allocated_frames(&self) -> usize {
        (self.0.stats().in_use_bytes / 4096) as usize
    }
}
