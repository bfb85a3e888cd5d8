//! Counts of bytes by kind of use, and of pages: one set for each CPU, so nobody waits for them.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

use strum::{IntoStaticStr, VariantArray};

use crate::memory::MAX_CPUS;

/// What memory is used for.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, VariantArray, IntoStaticStr)]
pub enum UsageKind {
    /// Bytes of Rust's heap.
    RustHeap,
    /// Pages of address spaces.
    VirtMem,
    /// Pages of file systems' caches.
    PageCache,
    /// Page tables.
    PageTable,
    /// Buffers that devices access.
    Dma,
    /// [`crate::GlobalPage`].
    Global,
}

const KINDS: usize = UsageKind::VARIANTS.len();

/// Bytes in use of each kind.
#[derive(Clone, Copy)]
pub struct Usages([usize; KINDS]);

impl Usages {
    /// The bytes in use of a kind.
    #[must_use]
    pub fn get(&self, kind: UsageKind) -> usize {
        self.0[kind as usize]
    }
}

impl fmt::Debug for Usages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("UsageStats");
        for &kind in UsageKind::VARIANTS {
            shown.field(kind.into(), &self.get(kind));
        }
        shown.finish()
    }
}

/// One CPU's counts, of what it allocated less what it freed: memory that another CPU allocated makes them wrap, and only sums mean
/// something. On cache lines of their own.
#[repr(align(128))]
struct OfCpu {
    bytes: [AtomicUsize; KINDS],
    pages: AtomicUsize,
}

/// The counts of all CPUs.
pub(crate) struct Counters([OfCpu; MAX_CPUS]);

impl Counters {
    pub(crate) const fn new() -> Self {
        Counters(
            [const { OfCpu { bytes: [const { AtomicUsize::new(0) }; KINDS], pages: AtomicUsize::new(0) } }; MAX_CPUS],
        )
    }

    #[inline(always)]
    fn here(&self) -> &OfCpu {
        &self.0[axplat::percpu::this_cpu_id()]
    }

    /// With interrupts off, as the other calls that count.
    #[inline(always)]
    pub(crate) fn allocated(&self, kind: UsageKind, bytes: usize) {
        add(&self.here().bytes[kind as usize], bytes);
    }

    #[inline(always)]
    pub(crate) fn freed(&self, kind: UsageKind, bytes: usize) {
        add(&self.here().bytes[kind as usize], bytes.wrapping_neg());
    }

    #[inline(always)]
    pub(crate) fn took(&self, pages: usize) {
        add(&self.here().pages, pages);
    }

    #[inline(always)]
    pub(crate) fn gave(&self, pages: usize) {
        add(&self.here().pages, pages.wrapping_neg());
    }

    /// Pages allocated and not freed.
    pub(crate) fn pages(&self) -> usize {
        sum(self.0.iter().map(|cpu| &cpu.pages))
    }

    pub(crate) fn usages(&self) -> Usages {
        Usages(core::array::from_fn(|kind| sum(self.0.iter().map(|cpu| &cpu.bytes[kind]))))
    }
}

/// Adds to a count of the current CPU. No exchange: only this CPU writes it, with interrupts off.
#[inline(always)]
fn add(count: &AtomicUsize, more: usize) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

fn sum<'c>(counts: impl Iterator<Item = &'c AtomicUsize>) -> usize {
    counts.fold(0, |sum, count| sum.wrapping_add(count.load(Ordering::Relaxed)))
}
