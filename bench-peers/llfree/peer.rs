//! A pool of `pageset` under the interface that LLFree's benchmarks use for all allocators.

use core::fmt;
use core::ptr::NonNull;

use llfree::{Error, FrameId, Result};
use pageset::policy::BatchRule;
use pageset_host::{Order, PagePool, Tuning};

use super::DynAlloc;

/// The allocators of the benchmark's command line: a pool of the default rules, and one with the rule `bitmaps` switched.
const NAMES: [&str; 2] = ["pageset", "pageset-lists"];

struct Pool(PagePool);

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.stats().fmt(f)
    }
}

/// A pool of `frames` pages of 4 KiB, if `name` is one of [`NAMES`].
pub fn new(name: &str, frames: usize) -> Option<Box<dyn DynAlloc>> {
    let switched = NAMES.iter().position(|known| *known == name)? == 1;
    let rules = Tuning::default();
    // The batch of a pool of this size.
    let backing = rules.backing.with_stores(rules.backing.depot(), rules.backing.bitmaps() != switched);
    let rules = Tuning { backing, batch: BatchRule::Fixed(64), ..rules };
    Some(Box::new(Pool(PagePool::builder(frames as u64 * 4096).tuning(rules).build().expect("a pool"))))
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
