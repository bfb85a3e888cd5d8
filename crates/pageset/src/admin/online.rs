//! CPUs and memory that come and go while the allocator runs, and free memory that its owner lends elsewhere.
//!
//! CPUs and ranges of pages go offline and come online again. Specification: `linux-page-allocator.md` 2.2, 8.3.
//!
//! An owner can also lend free blocks: a pool that returns memory to the operating system, or a balloon. Such an owner
//! finds free memory ([`Allocator::free_block_around`]), takes some of it by page number ([`Allocator::alloc_at`]), and
//! later frees it to the list position that is allocated last ([`crate::FreeTo::BuddyCold`]). That costs one hold of the zone
//! lock per block and affects no other block. Specification 1.5, "Taking a free block without allocating it", except for
//! the marks: these blocks come back.

use crate::admin::drains::Exclusive;
use crate::admin::owner::Owner;
use crate::admin::range::RangeError;
use crate::admin::views::ZoneView;
use crate::alloc::Allocator;
use crate::alloc::config::MapError;
use crate::alloc::error::HotplugError;
use crate::frame::{CpuId, End, MigrateType, Order, PageRange, PageState, Pfn, Tag};
use crate::machine::{LockPath, Machine};
use crate::store;
use crate::zone::ZoneGuard;

/// CPUs.
impl<M: Machine> Allocator<'_, M> {
    /// Whether a CPU is online. At the start those of [`crate::Config::online_cpus`] are. A CPU that is not possible never is.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// assert!(allocator.is_cpu_online(CpuId(1)) && !allocator.is_cpu_online(CpuId(2)));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_cpu_online(&self, cpu: CpuId) -> bool {
        (cpu.0 as usize) < self.rules.nodes.len() && self.rules.online.contains(cpu)
    }

    /// Takes a CPU offline: gives all CPUs new bounds, then moves the pages of its pagesets to the free lists. Each of the
    /// remaining CPUs may then keep more, up to the capacity of its pagesets. Pages in depots and bitmaps belong to regions,
    /// and stay. Waits for the lock of changes, then for those of pagesets and regions. Specification 8.3.
    ///
    /// Threads that read their CPU number before may still allocate and free there at any time. After this call
    /// returns, the CPU's pagesets keep nothing until the CPU is online again: such calls pass through them block by
    /// block, and leave no page there.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// allocator.cpu_offline(CpuId(1))?;
    /// assert!(!allocator.is_cpu_online(CpuId(1)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The CPU is not possible, not online, or the last online one. Nothing has changed.
    pub fn cpu_offline(&self, cpu: CpuId) -> Result<(), HotplugError> {
        let changes = self.change();
        if !self.check_possible(cpu)? {
            return Err(HotplugError::Offline(cpu));
        }
        if self.online_cpus().count() == 1 {
            return Err(HotplugError::LastCpu(cpu));
        }
        self.rules.online.change(cpu, false);
        self.recompute_bounds(changes);
        // The drain comes last: blocks freed from here on go to the free lists at once.
        self.zones.iter().for_each(|zone| zone.drain_cpu(self.env(), cpu));
        Ok(())
    }

    /// Brings a CPU online: it counts among the CPUs that share the zones, and its pagesets keep pages again. Their
    /// state is as it was before, like that of an idle CPU. Waits for the pagesets' locks. Specification 8.3.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// allocator.cpu_offline(CpuId(1))?;
    /// allocator.cpu_online(CpuId(1))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The CPU is not possible, or already online. Nothing has changed.
    pub fn cpu_online(&self, cpu: CpuId) -> Result<(), HotplugError> {
        let changes = self.change();
        if self.check_possible(cpu)? {
            return Err(HotplugError::Online(cpu));
        }
        self.rules.online.change(cpu, true);
        self.recompute_bounds(changes);
        Ok(())
    }

    /// Whether a possible CPU is online; an error if the CPU is not possible.
    fn check_possible(&self, cpu: CpuId) -> Result<bool, HotplugError> {
        let possible = self.rules.nodes.len();
        if cpu.0 as usize >= possible {
            return Err(HotplugError::NoSuchCpu { cpu, possible });
        }
        Ok(self.rules.online.contains(cpu))
    }

    /// The online CPUs.
    pub(crate) fn online_cpus(&self) -> impl Iterator<Item = CpuId> {
        self.possible_cpus().filter(|cpu| self.rules.online.contains(*cpu))
    }

    /// All possible CPUs.
    pub(crate) fn possible_cpus(&self) -> impl Iterator<Item = CpuId> + use<M> {
        (0..self.rules.nodes.len() as u32).map(CpuId)
    }
}

/// Keeps the pagesets of a zone disabled until dropped, also if the owner's code panics.
struct NoPagesets<'w, 'a, M: Machine>(ZoneView<'w, 'a, M>);

impl<'w, 'a, M: Machine> NoPagesets<'w, 'a, M> {
    fn new(zone: ZoneView<'w, 'a, M>) -> Self {
        zone.disable_pagesets();
        NoPagesets(zone)
    }
}

impl<M: Machine> Drop for NoPagesets<'_, '_, M> {
    fn drop(&mut self) {
        // This cannot fail: `new` disabled the pagesets.
        self.0.enable_pagesets().ok();
    }
}

/// Memory.
impl<M: Machine> Allocator<'_, M> {
    /// Brings the pages of a range online, and computes watermarks and bounds again. Holds the zone lock to read the tags of one
    /// pageblock, and then to put one largest block on its list. Waits, by [`Machine::relax`], while another such call runs.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let range = PageRange::new(ZONE.start, 1024);
    /// allocator.offline(range, &Immovable)?;
    /// allocator.online(range)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A range that is empty, outside every zone's span, or partly online already. Nothing has changed then; with bitmaps, the zone's pagesets
    /// may have been drained.
    pub fn online(&self, range: PageRange) -> Result<(), MapError> {
        if range.pages == 0 {
            return Err(MapError::Empty { start: range.start });
        }
        let (zone, span) = self.span_of(range).map_err(|_| MapError::OutsideSpan { start: range.start })?;
        // Only these calls bring pages online, so what is not online stays so.
        let _onlining = Exclusive::begin(&self.onlining, &self.machine);
        let look = || {
            span.cut(Order::PAGEBLOCK).try_for_each(|piece| {
                let _guard = zone.shared.lock(self.env(), LockPath::Map, piece.first);
                let known = zone.shared.first_known(piece.first, piece.pages());
                known.map_or(Ok(()), |page| {
                    Err(MapError::Overlap { start: range.start, other: zone.frames().pfn(page) })
                })
            })
        };
        look()?;
        if store::hides(&zone.shared) {
            // A page on its way between a pageset and a bitmap looked offline. The look before refused almost every wrong range
            // without a change; this one drains the pagesets.
            let _no_moves = NoPagesets::new(self.view(zone));
            look()?;
        }
        for piece in span.cut(Order::MAX) {
            zone.shared.lock(self.env(), LockPath::Map, piece.first).online(piece.first, piece.pages());
        }
        self.recompute();
        Ok(())
    }

    /// Takes a range offline. The range is emptied as by [`Self::alloc_range`]; its pages are then neither present nor
    /// managed, until [`Self::online`]. Computes watermarks and bounds again. The zone's pagesets are disabled during
    /// the call. Specification 8.1 "zone PCP disable".
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// // A balloon takes 4 MiB.
    /// allocator.offline(PageRange::new(ZONE.start, 1024), &Immovable)?;
    /// assert_eq!(allocator.zones().map(|zone| zone.stats().managed).sum::<u64>(), ZONE.pages - 1024);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::alloc_range`].
    pub fn offline(&self, range: PageRange, owner: &impl Owner) -> Result<(), RangeError> {
        let (zone, span) = self.span_of(range)?;
        let disabled = NoPagesets::new(self.view(zone));
        let result = self.empty_range(zone, span, owner, Order::PAGEBLOCK, |zone, piece| zone.retire(piece));
        drop(disabled);
        if result.is_ok() {
            self.recompute();
        }
        result
    }
}

/// Free blocks taken by page number.
impl<M: Machine> Allocator<'_, M> {
    /// The free block around a page, if the page lies in one on a free list. `None` also for a free page in a bitmap
    /// ([`crate::policy::Holds::Short`]). Takes no lock, so another CPU may be taking or splitting the block: only [`Self::alloc_at`] is
    /// decisive.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let largest = PageRange::new(ZONE.start, Order::MAX.pages());
    /// assert_eq!(allocator.free_block_around(ZONE.start.offset(5)), Some(largest));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn free_block_around(&self, pfn: Pfn) -> Option<PageRange> {
        let (zone, page) = self.locate(pfn)?;
        match zone.shared.block_around(page)? {
            (head, order, PageState::Free) => Some(PageRange::new(zone.frames().pfn(head), order.pages())),
            _ => None,
        }
    }

    /// As [`Self::free_block_around`], under the zone lock, when no CPU takes, splits or merges a block of the zone.
    /// Without the lock, a block that is being merged is on no list for a moment. First puts the pages in the bitmap of the page's
    /// pageblock on free lists. `None` for a page that moves between a pageset and a bitmap at that moment.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let around = allocator.settled_free_block_around(ZONE.start.offset(5));
    /// assert_eq!(around, allocator.free_block_around(ZONE.start));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn settled_free_block_around(&self, pfn: Pfn) -> Option<PageRange> {
        let (zone, page) = self.locate(pfn)?;
        let guard = zone.shared.lock(self.env(), LockPath::DirectAlloc, page);
        guard.settle(page, Order::ZERO);
        self.free_block_around(pfn)
    }

    /// Takes the block of `order` that begins at `pfn`, if all of it lies in one free block of an ordinary type.
    /// Otherwise returns false. The rest of the free block stays free. Ignores the marks. Holds the zone lock.
    ///
    /// First puts the pages in the bitmaps of the block's pageblocks on free lists ([`crate::policy::Holds::Short`]). A page that moves between
    /// a pageset and a bitmap at that moment is in no free block.
    ///
    /// The block is then in use as if it had been allocated for the migratetype of its list. All ways to free accept
    /// it.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// assert!(allocator.alloc_at(ZONE.start, Order::PAGEBLOCK));
    /// assert!(!allocator.alloc_at(ZONE.start, Order::ZERO), "in use");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the block is in use where this is true"]
    pub fn alloc_at(&self, pfn: Pfn, order: Order) -> bool {
        let Some((zone, page)) = self.locate(pfn).filter(|_| pfn.is_aligned(order)) else { return false };
        zone.shared.lock(self.env(), LockPath::DirectAlloc, page).take_at(page, order)
    }

    /// As [`Self::alloc_at`], and finds pages in pagesets, too: if no page of the block is in use, and some page is cached, drains
    /// the zone's pagesets and tries again. Waits for their locks, as [`ZoneView::drain_all`] does.
    ///
    /// Pages that another CPU frees, caches, or moves between its pageset and a bitmap meanwhile may make the call fail.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let page = allocator.alloc(&MOVABLE)?;
    /// allocator.free(page, Order::ZERO)?;
    /// assert!(!allocator.alloc_at(page, Order::ZERO), "it is in a pageset");
    /// assert!(allocator.alloc_at_cached(page, Order::ZERO));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the block is in use where this is true"]
    pub fn alloc_at_cached(&self, pfn: Pfn, order: Order) -> bool {
        if self.alloc_at(pfn, order) {
            return true;
        }
        let Some((zone, page)) = self.locate(pfn).filter(|_| pfn.is_aligned(order)) else { return false };
        let (mut at, mut cached) = (page, false);
        while at < page + order.pages() as u32 {
            // Without a lock: what is seen may be in the past. The second try is made with the lock.
            let Some((head, block, state)) = zone.shared.block_around(at) else { return false };
            cached |= state == PageState::Cached;
            if !matches!(state, PageState::Free | PageState::Cached) {
                return false;
            }
            at = head + block.pages() as u32;
        }
        if cached {
            self.settle_zone(zone);
        }
        cached && self.alloc_at(pfn, order)
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Takes the block of `order` at `page` out of the free block around it.
    fn take_at(&self, page: u32, order: Order) -> bool {
        self.settle(page, order);
        let Some((head, found, PageState::Free)) = self.zone.block_around(page) else { return false };
        let list = self.zone.list_of(head);
        if found < order || !list.is_ordinary() {
            return false;
        }
        if found == Order::ZERO && !self.is_surely_free(page, Order::ZERO) {
            return false;
        }
        self.remove(head, found);
        self.put_rest(head, found, page, order, list);
        self.zone.frames.set_tag(page, Tag::new(PageState::Allocated, order, list));
        self.count_direct_alloc(order.pages());
        true
    }

    /// Returns all of a taken block but the block of `order` at `page`.
    fn put_rest(&self, head: u32, found: Order, page: u32, order: Order, list: MigrateType) {
        let mut start = head;
        for half in Order::all().take(found.index()).skip(order.index()).rev() {
            let middle = start + half.pages() as u32;
            let (kept, next) = if page < middle { (middle, start) } else { (start, middle) };
            self.put(kept, half, list, End::Tail);
            start = next;
        }
    }
}
