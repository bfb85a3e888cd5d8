//! The allocator, as a kernel, a program or a simulator calls it. Uses `frame`, `machine`, `policy`, `zone`, `buddy`,
//! `store`, `pcp`.
//!
//! A request passes through the fast path, then the general path, then the slow path. Each path does all that the previous
//! one does, and more.
//!
//! | module | contents |
//! | --- | --- |
//! | [`request`] | a request |
//! | [`config`], `zonelist` | the memory map and its metadata; the order in which zones are tried |
//! | `sections` | from a page to its zone |
//! | `fast` | the common case: a block taken from a pageset, or freed into one |
//! | `general` | the zonelist, the low marks, the pageset or the free lists; then the min marks with the request's rights |
//! | `bulk`, `parts` | many pages in one call; any number of pages, and parts of blocks |
//! | `free_with` | frees to a given place, and frees with a step of the caller |
//! | `non_blocking` | the calls that wait for nothing, as a type |
//! | [`error`], [`shortage`] | the errors; the details of an out-of-memory error |
//! | `owned` | metadata from a heap |

mod bulk;
pub mod config;
pub mod error;
pub(crate) mod fast;
mod free_with;
mod general;
mod non_blocking;
#[cfg(feature = "alloc")]
pub mod owned;
mod parts;
pub mod request;
pub(crate) mod sections;
pub mod shortage;
pub(crate) mod zonelist;

use crate::frame::{CpuId, MigrateType, NodeId, Order, PageState, Pfn, Tag, ZoneKind};
use crate::machine::{Guard, LockPath, Machine, MachineHint};
use crate::pcp::{CachedZone, Freed};
use crate::policy::{Active, SMALL, Tuning};
use crate::sync::LockedWord;
use crate::sync::atomic::AtomicBool;
use crate::zone::Env;
use core::sync::atomic::AtomicU32;

pub use fast::FastPath;
pub use free_with::{Free, FreeTo};
pub use non_blocking::NonBlocking;

use error::{AllocError, FreeError, SplitError, WrongFree};
use fast::LIST_TABLE;
use general::Attempt;
use request::Request;
use sections::Sections;

/// A page allocator over metadata that the caller provides.
///
/// Safe for use by many threads at once. Each region of a zone has one lock, each pageset another. `alloc` and `free` only try the lock
/// of a pageset; where it is busy they use the zone's free lists. ([`OwnerRule::Wait`](crate::OwnerRule::Wait) is an exception.)
/// [`RawLock`](crate::RawLock) has the order of the locks.
#[derive(Debug)]
pub struct Allocator<'a, M: Machine> {
    pub(crate) machine: M,
    pub(crate) zones: &'a [CachedZone<'a, M>],
    /// A row of zone indices for each node.
    pub(crate) zonelists: &'a [AtomicU32],
    /// A row for each CPU: by [`ZoneKind`] the first zone that a request for at most that kind tries.
    pub(crate) first_zones: &'a [AtomicU32],
    /// The zone of number 0. Its flags say whether it is the zone of every common request and of every page:
    /// [`LOOK_UP_ZONE`](crate::zone::LOOK_UP_ZONE).
    pub(crate) front_zone: &'a CachedZone<'a, M>,
    /// The first zone by [`ZoneKind`], if it is the same for all CPUs.
    pub(crate) common_first_zones: [Option<&'a CachedZone<'a, M>>; ZoneKind::COUNT],
    /// The zone, if there is only one.
    pub(crate) only_zone: Option<&'a CachedZone<'a, M>>,
    /// The zones by their pages, if there are several.
    pub(crate) sections: Sections<'a>,
    /// [`Tuning::has_fast_path`].
    pub(crate) has_fast_path: bool,
    /// The list of each order and migratetype: [`fast::list_table`].
    pub(crate) lists: [u8; LIST_TABLE],
    /// Whether bulk frees of single movable pages claim them: [`config::FreeCheck::All`].
    pub(crate) checks_bulk: bool,
    pub(crate) tuning: Active,
    pub(crate) rules: Rules<'a>,
    /// Held while a setting changes and the values that depend on it are computed, so that the last change decides.
    pub(crate) changes: M::Lock,
    /// Whether a drain of the pagesets of all CPUs is running.
    pub(crate) draining: AtomicBool,
    /// Whether pages are being brought online.
    pub(crate) onlining: AtomicBool,
}

/// The settings from which sizes are computed.
#[derive(Debug)]
pub(crate) struct Rules<'a> {
    /// The number of the node of each possible CPU.
    pub(crate) nodes: &'a [AtomicU32],
    /// The online CPUs.
    pub(crate) online: CpuSet<'a>,
    pub(crate) watermarks: crate::policy::sizes::WatermarkRule,
    pub(crate) cache_slice_pages: u64,
    /// The administrator's fraction of a zone that all its pagesets may hold. Relaxed: it is read when bounds are computed,
    /// which is rare and idempotent.
    pub(crate) fraction: AtomicU32,
}

impl Rules<'_> {
    /// The node of a possible CPU.
    #[inline]
    pub(crate) fn node_of(&self, cpu: CpuId) -> NodeId {
        NodeId(self.nodes[cpu.0 as usize].get())
    }
}

/// The online CPUs: one bit per possible CPU. Written under the lock of changes.
#[derive(Debug)]
pub(crate) struct CpuSet<'a>(&'a [AtomicU32]);

impl<'a> CpuSet<'a> {
    /// Number of words for a set of `cpus` possible CPUs.
    pub(crate) const fn words(cpus: usize) -> usize {
        cpus.div_ceil(u32::BITS as usize)
    }

    /// The empty set, stored in these words. The words must be zero.
    pub(crate) fn empty(words: &'a [AtomicU32]) -> Self {
        CpuSet(words)
    }

    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        self.word(cpu).get() & Self::bit(cpu) != 0
    }

    /// The number of CPUs in the set, at a recent moment.
    pub(crate) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.get().count_ones()).sum()
    }

    pub(crate) fn change(&self, cpu: CpuId, online: bool) {
        let word = self.word(cpu);
        word.set(if online { word.get() | Self::bit(cpu) } else { word.get() & !Self::bit(cpu) });
    }

    fn word(&self, cpu: CpuId) -> &AtomicU32 {
        &self.0[(cpu.0 / u32::BITS) as usize]
    }

    const fn bit(cpu: CpuId) -> u32 {
        1 << (cpu.0 % u32::BITS)
    }
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// The machine that the allocator runs on.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// assert_eq!(allocator.machine().cpu(), CpuId(0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The rules that the allocator follows.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// assert_eq!(*allocator.tuning(), Tuning::default());
    /// # Ok(())
    /// # }
    /// ```
    pub fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    pub(crate) fn env(&self) -> Env<'_, M> {
        Env { machine: &self.machine, tuning: &self.tuning }
    }

    /// Allocates a block, through the caller's pageset where its order is cached.
    ///
    /// Tries the low marks first, then the min marks with the rights of the request. It never calls the owner of the memory:
    /// [`Self::alloc_with`] does. Specification 1.7, 2.3.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let page = allocator.alloc(&Request::new(Order::ZERO, MigrateType::Movable))?;
    /// allocator.free(page, Order::ZERO)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A request that no zone can serve, or no memory above the marks.
    #[inline]
    pub fn alloc(&self, request: &Request) -> Result<Pfn, AllocError> {
        match self.alloc_hot(request, MachineHint::of(&self.machine)) {
            Some(pfn) => Ok(pfn),
            None => self.alloc_generally(request),
        }
    }

    /// As [`Self::alloc`], without the fast path: for a caller whom [`Self::alloc_hot`] gave nothing.
    ///
    /// # Errors
    /// As [`Self::alloc`].
    #[cold]
    #[inline(never)]
    pub(crate) fn alloc_generally(&self, request: &Request) -> Result<Pfn, AllocError> {
        let cpu = self.machine.cpu();
        if !SMALL && let Some(pfn) = self.take_first(request, cpu) {
            return Ok(pfn);
        }
        self.walk(request, cpu, self.taking(request, cpu))
    }

    /// Takes a request's block from a zone, through the pageset of a CPU.
    pub(crate) fn taking(
        &self,
        request: &Request,
        cpu: CpuId,
    ) -> impl FnMut(&CachedZone<'a, M>, Attempt) -> Option<Pfn> {
        move |zone, attempt| self.take(zone, cpu, request, attempt).map(|page| zone.frames().pfn(page))
    }

    /// [`Self::alloc_with`] [`AllocFrom::Buddy`](crate::AllocFrom::Buddy).
    pub(crate) fn alloc_direct(&self, request: &Request) -> Result<Pfn, AllocError> {
        let cpu = self.machine.cpu();
        self.walk(request, cpu, |zone, attempt| {
            self.take_direct(zone, cpu, request, attempt).map(|page| zone.frames().pfn(page))
        })
    }

    /// Frees a block, through the caller's pageset where its order is cached. Specification 2.5.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let page = allocator.alloc(&MOVABLE)?;
    /// allocator.free(page, Order::ZERO)?;
    /// let twice = allocator.free(page, Order::ZERO);
    /// assert!(twice.is_err(), "a second free changes nothing");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A wrong free; nothing has changed. If two threads free the same block at the same instant, one of them fails;
    /// [`FreeCheck`](config::FreeCheck) names the exceptions.
    #[inline]
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if self.free_hot(pfn, order, MachineHint::of(&self.machine)) { Ok(()) } else { self.free_generally(pfn, order) }
    }

    /// As [`Self::free`], for a caller whose block [`Self::free_hot`] did not take.
    ///
    /// # Errors
    /// As [`Self::free`].
    #[cold]
    #[inline(never)]
    pub(crate) fn free_generally(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if !SMALL && self.free_other(pfn, order) {
            return Ok(());
        }
        let (zone, page) = self.claim_free(pfn, order)?;
        self.commit_free(zone, page, order, true);
        Ok(())
    }

    /// Takes the lock of changes.
    pub(crate) fn change(&self) -> Guard<'_, M::Lock> {
        Guard::lock(&self.changes)
    }

    /// The zone that requests from a CPU for at most this kind try first.
    #[inline]
    pub(crate) fn first_zone(&self, cpu: u32, highest: ZoneKind) -> Option<&'a CachedZone<'a, M>> {
        // Checked: a hint may be any number, and on a 32-bit machine the product of some does not fit.
        let row = (cpu as usize).checked_mul(ZoneKind::COUNT)?;
        let first = self.first_zones.get(row + highest.index())?.get();
        self.zones.get(first as usize)
    }

    pub(crate) fn locate(&self, pfn: Pfn) -> Option<(&'a CachedZone<'a, M>, u32)> {
        let likely = self.only_zone.or_else(|| self.zones.get(self.sections.find(pfn)?));
        let within = |zone: &'a CachedZone<'a, M>| Some((zone, zone.frames().page(pfn)?));
        // Two zones may share a section.
        likely.and_then(within).or_else(|| self.zones.iter().find_map(within))
    }

    /// Checks a free and claims the block: its tag turns to Cached, and every other free of it fails.
    #[inline]
    pub(crate) fn claim_free(&self, pfn: Pfn, order: Order) -> Result<(&'a CachedZone<'a, M>, u32), FreeError> {
        let Some((zone, page)) = self.locate(pfn) else {
            return Err(FreeError { pfn, order, reason: WrongFree::NotOurs });
        };
        // Blocks are aligned, so no block starts at a page that does not fit the order.
        if !zone.frames().claim(page, order) {
            return Err(FreeError { pfn, order, reason: why_wrong(zone, pfn, page, order) });
        }
        Ok((zone, page))
    }

    /// Frees a claimed block.
    #[inline]
    pub(crate) fn commit_free(&self, zone: &CachedZone<'a, M>, page: u32, order: Order, drain: bool) {
        if let Some(list) = self.list_for(zone, page, order)
            && zone.free_cached(self.env(), self.machine.cpu(), Freed { page, order, list }, drain)
        {
            return;
        }
        self.free_to_buddy(zone, page, order);
    }

    /// The list of a freed block, after its tag is written for that list; `None` if the block goes to the buddy.
    #[inline]
    pub(crate) fn list_for(&self, zone: &CachedZone<'a, M>, page: u32, order: Order) -> Option<usize> {
        let migratetype = zone.frames().block_type(page);
        if migratetype == MigrateType::Isolate {
            return None;
        }
        let list = self.tuning.lists.list(order, migratetype)?;
        zone.frames().set_tag(page, Tag::new(PageState::Cached, order, migratetype));
        Some(list)
    }

    #[cold]
    pub(crate) fn free_to_buddy(&self, zone: &CachedZone<'a, M>, page: u32, order: Order) {
        let guard = zone.shared.lock(self.env(), LockPath::DirectFree, page);
        // The type is read under the lock, since the pageblock's type may just have changed.
        guard.free_direct(page, order);
    }

    /// Turns an allocated block into allocated blocks of a smaller order, to be freed one by one.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let order = Order::new(2).expect("at most the largest");
    /// let block = allocator.alloc(&Request { order, ..MOVABLE })?;
    /// allocator.split(block, order, Order::ZERO)?;
    /// allocator.free(block.offset(1), Order::ZERO)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for freeing it, and when `to` is larger than `order`.
    pub fn split(&self, pfn: Pfn, order: Order, to: Order) -> Result<(), SplitError> {
        let wrong = |reason| SplitError { pfn, order, to, reason };
        let (zone, page) = self.claim_free(pfn, order).map_err(|error| wrong(error.reason))?;
        let claimed = zone.frames().tag(page);
        if to > order {
            zone.frames().set_tag(page, claimed.with_state(PageState::Allocated));
            return Err(wrong(WrongFree::WrongOrder(order)));
        }
        let kind = claimed.kind().unwrap_or(MigrateType::Movable);
        // From the end, so that a concurrent reader finds each page in a block.
        for at in (page..page + order.pages() as u32).step_by(to.pages() as usize).rev() {
            zone.frames().set_tag(at, Tag::new(PageState::Allocated, to, kind));
        }
        Ok(())
    }
}

/// Returns why a block cannot be freed.
#[cold]
fn why_wrong<M: Machine>(zone: &CachedZone<'_, M>, pfn: Pfn, page: u32, order: Order) -> WrongFree {
    if !pfn.is_aligned(order) {
        return WrongFree::Misaligned;
    }
    let tag = zone.frames().tag(page);
    match tag.state() {
        // Another thread freed the block at the same instant, and it is allocated again.
        PageState::Allocated if tag.order() == order => WrongFree::NotAllocated(PageState::Cached),
        PageState::Allocated => WrongFree::WrongOrder(tag.order()),
        PageState::Inside => match zone.shared.block_around(page) {
            Some((head, order, state)) => WrongFree::Inside { head: zone.frames().pfn(head), order, state },
            None => WrongFree::NotAllocated(PageState::Inside),
        },
        state => WrongFree::NotAllocated(state),
    }
}
