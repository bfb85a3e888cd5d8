//! The events of a recording: one [`Event`] per tracepoint hit or marker, in the order of time.
//!
//! Specification: `trace-replay.md` 2 and 4.

use pageset::{CpuId, Order, Pfn};

/// One event of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds on the recording's clock.
    pub time_ns: u64,
    /// The CPU that wrote the event.
    pub cpu: CpuId,
    /// The process that ran on the CPU.
    pub pid: u32,
    /// The context of the CPU.
    pub context: Context,
    /// The kind of the event.
    pub kind: Kind,
}

/// The context in which a CPU wrote an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A process (letter `p`).
    Process,
    /// A soft interrupt (letter `s`).
    SoftIrq,
    /// A hard interrupt (letter `h`).
    HardIrq,
    /// A non-maskable interrupt (letter `n`).
    Nmi,
}

/// The kind of an event. Migratetypes are the recorded kernel's numbers: 0 to 2 are the ordinary types in every kernel;
/// the meaning of 3 and above depends on the kernel's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `kmem:mm_page_alloc` (letter `A`): an allocation call ended.
    Alloc {
        /// The first page; `None` if the allocation failed.
        pfn: Option<Pfn>,
        /// The requested order.
        order: Order,
        /// The requested migratetype.
        migratetype: u8,
        /// The request's flags as the kernel's bits.
        gfp: u32,
    },
    /// `kmem:mm_page_free` (`F`): a block is about to be freed.
    Free {
        /// The first page.
        pfn: Pfn,
        /// The block's order.
        order: Order,
    },
    /// `kmem:mm_page_free_batched` (`B`): a block freed in a batch enters its pageset.
    FreeBatched {
        /// The first page.
        pfn: Pfn,
    },
    /// `kmem:mm_page_alloc_zone_locked` (`Z`): a block was taken from a free list by smallest fit.
    ZoneLocked {
        /// The first page.
        pfn: Pfn,
        /// The requested order.
        order: Order,
        /// The free list's migratetype.
        migratetype: u8,
        /// Whether pagesets cache this order (this does not prove a refill).
        percpu_refill: bool,
    },
    /// `kmem:mm_page_pcpu_drain` (`D`): a block moved from a pageset to the buddy.
    Drain {
        /// The first page.
        pfn: Pfn,
        /// The block's order.
        order: Order,
        /// The pageblock's migratetype.
        migratetype: u8,
    },
    /// `kmem:mm_page_alloc_extfrag` (`X`): a block was taken from another type's pageblock.
    ExtFrag {
        /// The first page.
        pfn: Pfn,
        /// The requested order.
        alloc_order: Order,
        /// The order of the block found.
        fallback_order: Order,
        /// The requested migratetype.
        alloc_migratetype: u8,
        /// The migratetype under which the block was found.
        fallback_migratetype: u8,
        /// Whether the pageblock now has the requested migratetype.
        change_ownership: bool,
    },
    /// A bulk allocation of single pages ended (`U`). The kernel has no tracepoint for it. A probe of the recorder
    /// writes the event, so a recording without [`Facts::sources`](crate::Facts::sources) has none.
    BulkAlloc {
        /// Pages that the caller requested in total, including pages that it had before the call.
        asked: u32,
        /// Pages from this CPU's pageset that no [`Kind::Alloc`] shows. An upper bound: the kernel counts pages that
        /// the caller had before the call, and so does this number.
        taken: u32,
        /// The request's flags as the kernel's bits.
        gfp: u32,
        /// The preferred node; -1 if the caller gave none.
        node: i32,
    },
    /// `workqueue_execute_start` of `vmstat_update` (`V`): the once-a-second decay ran on this CPU.
    VmstatWork,
    /// `mm_vmscan_kswapd_wake` (`K`).
    KswapdWake,
    /// `mm_vmscan_kswapd_sleep` (`k`).
    KswapdSleep,
    /// `mm_vmscan_direct_reclaim_begin` (`R`).
    DirectReclaim,
    /// The kernel changed the limits of its pagesets (`S`). No tracepoint shows this. An optional probe of the recorder
    /// writes the event, so a recording without [`Facts::sources`](crate::Facts::sources) has none.
    StateChange(StateChange),
    /// `sched_process_fork` (`P`): this process created a process or thread.
    Fork {
        /// The number of the new process or thread.
        child: u32,
    },
    /// The recorder began to read the snapshot with this tag (`M ZB tag`).
    SnapshotBegin(String),
    /// The recorder has read the snapshot with this tag (`M ZE tag`).
    SnapshotEnd(String),
}

/// A change of state that [`Kind::StateChange`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateChange {
    /// kswapd, which wrote the event, has ended a balancing round. The event of its sleep comes one nap later, if at
    /// all.
    ReclaimEnded,
    /// This CPU has gone off-line. Its pagesets are about to be drained.
    CpuOffline(CpuId),
    /// This CPU is about to come on-line.
    CpuOnline(CpuId),
    /// The pagesets of this page's zone are about to be drained and disabled.
    PagesetsOff(Pfn),
    /// The pagesets of this page's zone are about to be enabled again.
    PagesetsOn(Pfn),
    /// This CPU adds to a counter of a zone of another node. A counter that has changed at a tick of the CPU delays the drain of the
    /// zone's idle pages there.
    ZoneCounter {
        /// The zone's first page.
        zone: Pfn,
        /// The recorded kernel's number of the counter: 1 and above. Counter 0 is the zone's free pages, which follow from other events.
        counter: u8,
        /// The change in pages.
        change: i32,
    },
}

impl Kind {
    /// Whether this is a change of a zone's counter, which comes in the middle of other operations.
    pub(crate) const fn is_zone_counter(&self) -> bool {
        matches!(self, Self::StateChange(StateChange::ZoneCounter { .. }))
    }

    /// Whether this event is input of a replay: an allocation, a bulk allocation, a free, or the timer work.
    pub fn is_input(&self) -> bool {
        matches!(
            self,
            Self::Alloc { .. }
                | Self::BulkAlloc { .. }
                | Self::Free { .. }
                | Self::FreeBatched { .. }
                | Self::VmstatWork
        )
    }
}
