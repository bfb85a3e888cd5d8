//! What a recording consists of: one [`Event`] a tracepoint hit or marker, in merged time order.
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
    /// The process that ran there.
    pub pid: u32,
    /// What that CPU was doing.
    pub context: Context,
    /// What happened.
    pub kind: Kind,
}

/// What a CPU was doing when it wrote an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Running a process (letter `p`).
    Process,
    /// A soft interrupt (letter `s`).
    SoftIrq,
    /// A hard interrupt (letter `h`).
    HardIrq,
    /// A non-maskable interrupt (letter `n`).
    Nmi,
}

/// What happened. Migratetypes are the recorded kernel's own numbers: 0 to 2 are the ordinary types everywhere,
/// what 3 and above mean depends on how that kernel was configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `kmem:mm_page_alloc` (letter `A`): an allocation call ended; no `pfn` when it failed.
    Alloc {
        /// The first page, or none when the allocation failed.
        pfn: Option<Pfn>,
        /// The order asked for.
        order: Order,
        /// The migratetype asked for.
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
    /// `kmem:mm_page_free_batched` (`B`): a block freed in a batch is put into its pageset now.
    FreeBatched {
        /// The first page.
        pfn: Pfn,
    },
    /// `kmem:mm_page_alloc_zone_locked` (`Z`): a block was taken from a free list by smallest fit.
    ZoneLocked {
        /// The first page.
        pfn: Pfn,
        /// The order asked for.
        order: Order,
        /// The free list's type.
        migratetype: u8,
        /// Whether the order is one that pagesets cache (it does not prove a refill).
        percpu_refill: bool,
    },
    /// `kmem:mm_page_pcpu_drain` (`D`): a block moved from a pageset to the buddy.
    Drain {
        /// The first page.
        pfn: Pfn,
        /// The block's order.
        order: Order,
        /// The pageblock's type.
        migratetype: u8,
    },
    /// `kmem:mm_page_alloc_extfrag` (`X`): a block was taken from another type's pageblock.
    ExtFrag {
        /// The first page.
        pfn: Pfn,
        /// The order asked for.
        alloc_order: Order,
        /// The order of the block that was found.
        fallback_order: Order,
        /// The type asked for.
        alloc_migratetype: u8,
        /// The type it was found under.
        fallback_migratetype: u8,
        /// Whether the pageblock is now of the type asked for.
        change_ownership: bool,
    },
    /// A bulk allocation of single pages ended (`U`). The kernel has no tracepoint for it: a probe of the recorder wrote
    /// it, and a recording without [`Facts::sources`](crate::Facts::sources) has none.
    BulkAlloc {
        /// Pages that the caller wanted to have in the end. Pages that it had before the call count as well.
        asked: u32,
        /// Pages that came out of this CPU's pageset and that no [`Kind::Alloc`] shows. An upper bound: where the
        /// caller had pages before the call, the kernel counts them, and so does this number.
        taken: u32,
        /// The request's flags as the kernel's bits.
        gfp: u32,
        /// The preferred node; -1 when the caller named none.
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
    /// The kernel changed what its pagesets may hold (`S`). No tracepoint shows this: an optional probe of the recorder
    /// wrote it, and a recording without [`Facts::sources`](crate::Facts::sources) has none.
    StateChange(StateChange),
    /// `sched_process_fork` (`P`): this process made a process or thread.
    Fork {
        /// Its number.
        child: u32,
    },
    /// The snapshot of this tag began to be read (`M ZB tag`).
    SnapshotBegin(String),
    /// The snapshot of this tag has been read (`M ZE tag`).
    SnapshotEnd(String),
}

/// A change of state that [`Kind::StateChange`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateChange {
    /// kswapd, which wrote it, has ended a round of balancing. The event of its sleep comes a nap later, if at all.
    ReclaimEnded,
    /// This CPU has gone off-line. Its pagesets are about to be emptied.
    CpuOffline(CpuId),
    /// This CPU is about to come on-line.
    CpuOnline(CpuId),
    /// The pagesets of the zone that this page lies in are about to be emptied and switched off.
    PagesetsOff(Pfn),
    /// The pagesets of the zone that this page lies in are about to be switched on again.
    PagesetsOn(Pfn),
}

impl Kind {
    /// Whether this is input of a replay: an allocation, a bulk allocation, a free, or the timer work.
    #[must_use]
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
