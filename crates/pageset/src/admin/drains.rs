//! Drains of pagesets outside the free path: by time, by request, and disabled pagesets, which stay empty.
//!
//! Specification: `linux-page-allocator.md` 8.1, 8.2.

use crate::admin::views::ZoneView;
use crate::alloc::Allocator;
use crate::alloc::error::HotplugError;
use crate::frame::CpuId;
use crate::machine::Machine;
use crate::pcp::CachedZone;
use crate::store::{self, Scope};
use crate::sync::LockedWord;
use crate::sync::atomic::{AtomicBool, Ordering};

/// The exclusive right to do something, such as to drain the pagesets of all CPUs, held until dropped. Not a lock: its holder
/// takes locks, runs for long, and may sleep.
pub(crate) struct Exclusive<'l>(&'l AtomicBool);

impl<'l> Exclusive<'l> {
    pub(crate) fn try_begin(running: &'l AtomicBool) -> Option<Self> {
        // Acquire: pairs with the release in drop. It orders one holder after another.
        let begun = running.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        begun.is_ok().then(|| Exclusive(running))
    }

    /// Waits until no other holder is left. The caller holds no lock.
    pub(crate) fn begin(running: &'l AtomicBool, machine: &impl Machine) -> Self {
        loop {
            if let Some(begun) = Self::try_begin(running) {
                return begun;
            }
            machine.relax();
        }
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in try_begin.
        self.0.store(false, Ordering::Release);
    }
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// The once-a-second tick of the caller's CPU, for all zones. High decays. Pages of other nodes' zones are drained
    /// after [`crate::policy::expiry::TICKS`] idle ticks. Specification 8.2.
    ///
    /// Never waits for a pageset: a timer interrupt may call it. A pageset whose lock is held, perhaps by the interrupted
    /// code, is left out. Returns true when another tick has more to do, also for a pageset that was left out.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// // In the timer interrupt of each CPU, about once a second. Not in a loop: the interrupted code may hold the pageset.
    /// allocator.tick();
    /// # Ok(())
    /// # }
    /// ```
    pub fn tick(&self) -> bool {
        let cpu = self.machine.cpu();
        self.zones.iter().fold(false, |more, zone| self.tick_on(zone, cpu, false, None) | more)
    }

    /// As [`Self::tick`], for any CPU: for a CPU that is idle, or whose timer does not run. Waits for the locks of that CPU's
    /// pagesets.
    /// A CPU that is not possible has none.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// // For a CPU that sleeps, once a second. True while it, or any depot or bitmap, has pages to look after.
    /// let more = allocator.tick_cpu(CpuId(1));
    /// # let _ = more;
    /// # Ok(())
    /// # }
    /// ```
    pub fn tick_cpu(&self, cpu: CpuId) -> bool {
        if cpu.0 as usize >= self.rules.nodes.len() {
            return false;
        }
        self.zones.iter().fold(false, |more, zone| self.tick_on(zone, cpu, true, None) | more)
    }

    fn tick_on(&self, zone: &CachedZone<'a, M>, cpu: CpuId, waits: bool, used: Option<bool>) -> bool {
        let remote = self.rules.node_of(cpu) != zone.shared.node;
        if self.tuning.below_high_at_tick {
            zone.shared.clear_below_high();
        }
        let more = zone.tick(self.env(), cpu, remote, waits, used);
        store::tick(&zone.shared, self.env(), self.rules.online.count()) || more
    }

    /// Drains the caller's pagesets of all zones. Never waits for a pageset: a timer interrupt may call it. Returns whether
    /// all were drained; false if the lock of one is held, perhaps by the interrupted code.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// assert!(allocator.drain(), "nobody holds a pageset");
    /// # Ok(())
    /// # }
    /// ```
    pub fn drain(&self) -> bool {
        // Not `all`: it would end at the first pageset in use.
        let in_use = self.zones().filter(|zone| !zone.drain_local()).count();
        in_use == 0
    }

    /// Drains the pagesets of one CPU of all zones, from any CPU. Depots and bitmaps keep their pages. Waits for the pagesets' locks. A CPU that is not
    /// possible has none.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// allocator.drain_cpu(CpuId(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn drain_cpu(&self, cpu: CpuId) {
        if cpu.0 as usize >= self.rules.nodes.len() {
            return;
        }
        self.zones.iter().for_each(|zone| zone.drain_cpu(self.env(), cpu));
    }

    /// Moves all hidden pages of one zone to its free lists.
    pub(super) fn settle_zone(&self, zone: &'a CachedZone<'a, M>) {
        zone.settle_all(self.env(), Scope::Zone);
    }

    /// Moves the pages of all pagesets, depots and bitmaps to the free lists, under the locks of pagesets and regions. Completes the deferred
    /// frees, also while another drain of all CPUs is running. Pages freed meanwhile may stay. Callers in parallel share no work: each takes the lock of every CPU's pageset.
    /// Specification 8.1.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let page = allocator.alloc(&MOVABLE)?;
    /// allocator.free(page, Order::ZERO)?;
    /// allocator.drain_all();
    /// assert_eq!(allocator.zones().map(|zone| zone.stats().cached_pages()).sum::<u64>(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn drain_all(&self) {
        self.zones.iter().for_each(|zone| self.settle_zone(zone));
    }

    /// As [`Self::drain_all`], unless another call of this is running: of requests that find no memory, one drains for all.
    /// Specification 8.1.
    pub(crate) fn drain_for_reclaim(&self) {
        if let Some(_draining) = Exclusive::try_begin(&self.draining) {
            self.drain_all();
        }
    }
}

impl<'a, M: Machine> ZoneView<'_, 'a, M> {
    /// As [`Allocator::tick`], for this zone.
    pub fn tick(self) -> bool {
        self.allocator.tick_on(self.zone, self.allocator.machine.cpu(), false, None)
    }

    /// As [`Self::tick`], for a caller that counts what its CPUs change in a zone, as the kernels do: `used` is whether a count of the
    /// zone has changed on this CPU since the last tick.
    pub fn tick_counted(self, used: bool) -> bool {
        self.allocator.tick_on(self.zone, self.allocator.machine.cpu(), false, Some(used))
    }

    /// As [`Allocator::drain`], for this zone. A step of compaction does this, so that freed blocks can merge.
    /// Specification 8.1.
    pub fn drain_local(self) -> bool {
        self.zone.try_drain_cpu(self.allocator.env(), self.allocator.machine.cpu(), None)
    }

    /// As [`Self::drain_local`], but at most `pages` pages, and the rest of the last block: one hold of a drain that lets others use
    /// the pageset in between.
    pub fn drain_pages(self, pages: u32) -> bool {
        self.zone.try_drain_pages(self.allocator.env(), self.allocator.machine.cpu(), pages)
    }

    /// As [`Allocator::drain_all`], for this zone.
    pub fn drain_all(self) {
        self.allocator.settle_zone(self.zone);
    }

    /// Drains the pagesets of the zone and keeps them empty until [`Self::enable_pagesets`] has
    /// been called as often. Waits for the pagesets' locks. Specification 8.1.
    ///
    /// After this call returns, every freed block goes to the buddy in the same call, also in calls that began before.
    /// A refill takes only the requested block.
    pub fn disable_pagesets(self) {
        let (zone, changes) = (self.zone, self.allocator.change());
        zone.disabled.set(zone.disabled.get() + 1);
        self.allocator.recompute_bounds_of(zone, changes);
        // The drain is needed also if they were disabled before: the earlier caller may still be draining.
        self.drain_all();
    }

    /// Undoes one [`Self::disable_pagesets`]. The last one computes the bounds again.
    ///
    /// # Errors
    /// The zone's pagesets are not disabled.
    pub fn enable_pagesets(self) -> Result<(), HotplugError> {
        let (zone, changes) = (self.zone, self.allocator.change());
        let Some(depth) = zone.disabled.get().checked_sub(1) else {
            return Err(HotplugError::PagesetsEnabled { zone: zone.shared.index });
        };
        zone.disabled.set(depth);
        self.allocator.recompute_bounds_of(zone, changes);
        Ok(())
    }
}
