//! The contents of an out-of-memory error: the free memory by zone and order, and the reason of the failure.

use core::fmt;

use crate::alloc::request::Request;
use crate::alloc::zonelist::Zonelist;
use crate::frame::{MigrateType, NodeId, Order, ZoneKind};
use crate::machine::Machine;
use crate::pcp::CachedZone;
use crate::sync::LockedWord;
use crate::zone::watermark::{Mark, MarkTest};

/// No zone of the request's zonelist could serve it. All numbers are momentary: other CPUs allocate and free meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// The requested order.
    pub order: Order,
    /// The requested migratetype.
    pub migratetype: MigrateType,
    /// Why the nearest zone did not serve the request.
    pub reason: Reason,
    /// The zone with the largest margin of usable pages above its mark and reserve.
    pub nearest: Nearest,
    /// The number of zones tried.
    pub zones: u16,
    /// Free pages of the zones tried, without those in pagesets.
    pub free_pages: u64,
    /// Blocks on the free lists of the zones tried, by order. Blocks of ISOLATE pageblocks are not counted; all other types are.
    /// Nor are parts of pageblocks in bitmaps ([`crate::policy::Holds::Short`]), which `free_pages` includes: to find them, each
    /// failure would read the bitmaps of all pageblocks. [`crate::ZoneView::free_blocks`] does.
    pub free_blocks: [u32; Order::COUNT],
    /// Pages in the pagesets and depots of the zones tried, and those of deferred frees: [`crate::Allocator::drain_all`] would free them.
    pub cached_pages: u64,
}

/// Why a zone did not serve a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// Too few free pages that the request may use, above the zone's mark and reserve.
    Watermark,
    /// Enough free pages, but no free block of the order in a pageblock that the request may use.
    NoBlock,
    /// The zone had a block, but its lock was held and the request may not wait, or another CPU took the block first.
    Busy,
}

/// A zone as the request saw it. Unit: pages, unless stated otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nearest {
    /// The zone's number.
    pub zone: u16,
    /// The zone's node.
    pub node: NodeId,
    /// The zone's kind.
    pub kind: ZoneKind,
    /// Free pages.
    pub free: u64,
    /// Free pages that this request may not use, whatever the marks: pages of CMA or HIGHATOMIC pageblocks.
    pub for_others: u64,
    /// The min mark with the boost, lowered by the request's urgency; 0 for a request without marks.
    pub mark: u64,
    /// The reserve against requests that a higher zone could serve; 0 for a request without marks.
    pub reserve: u64,
}

impl Nearest {
    /// What a request sees of a zone.
    fn of<M: Machine>(zone: &CachedZone<'_, M>, request: &Request, test: &MarkTest) -> Self {
        let zone = &zone.shared;
        let (mark, reserve) = if request.watermarks {
            (test.rights.lowered(zone.mark(Mark::Min)), zone.reserve[test.highest.index()].get())
        } else {
            (0, 0)
        };
        Nearest {
            zone: zone.index as u16,
            node: zone.node,
            kind: zone.kind,
            free: zone.free(),
            for_others: zone.unusable(&MarkTest { order: Order::ZERO, ..*test }),
            mark,
            reserve,
        }
    }

    /// Usable pages above the mark and the reserve; negative if there are fewer. The watermark test requires as many as
    /// the block has.
    fn margin(&self) -> i64 {
        // A zone has less than 2^32 pages. Marks that were set by hand may be any number.
        (self.free as i64)
            .saturating_sub_unsigned(self.for_others)
            .saturating_sub_unsigned(self.mark)
            .saturating_sub_unsigned(self.reserve)
    }
}

/// Describes the zones of a request that failed at the min marks.
#[cold]
pub(crate) fn of<M: Machine>(list: &Zonelist<'_, '_, M>) -> OutOfMemory {
    let request = list.request;
    let test = request.mark_test(request.rights());
    let mut all = OutOfMemory {
        order: request.order,
        migratetype: request.migratetype,
        reason: Reason::NoBlock,
        nearest: Nearest::NONE,
        zones: 0,
        free_pages: 0,
        free_blocks: [0; Order::COUNT],
        cached_pages: 0,
    };
    let mut best: Option<&CachedZone<'_, M>> = None;
    for zone in list.zones() {
        let seen = Nearest::of(zone, request, &test);
        // Of equal margins the first wins.
        if best.is_none() || seen.margin() > all.nearest.margin() {
            (best, all.nearest) = (Some(zone), seen);
        }
        all.zones += 1;
        all.free_pages += seen.free;
        all.cached_pages += zone.cached_pages();
        for (order, blocks) in Order::all().zip(&mut all.free_blocks) {
            for migratetype in MigrateType::ALL.into_iter().filter(|&kind| kind != MigrateType::Isolate) {
                *blocks = blocks.saturating_add(zone.shared.blocks(order, migratetype));
            }
        }
    }
    if let Some(zone) = best {
        all.reason = if request.watermarks && all.nearest.margin() < request.order.pages() as i64 {
            Reason::Watermark
        } else if zone.shared.has_any_block(&test) {
            Reason::Busy
        } else {
            Reason::NoBlock
        };
    }
    all
}

impl Nearest {
    /// A placeholder for an empty zonelist, which cannot occur.
    const NONE: Nearest =
        Nearest { zone: 0, node: NodeId(0), kind: ZoneKind::Dma, free: 0, for_others: 0, mark: 0, reserve: 0 };
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Nearest { node, kind, free, for_others, mark, reserve, .. } = self.nearest;
        write!(f, "no {:?} block of order {}: zone {kind} of node {} ", self.migratetype, self.order, node.0)?;
        write!(f, "has {free} pages free, {for_others} of them unusable for this request; ")?;
        match self.reason {
            Reason::Watermark => {
                write!(f, "{} are needed above its min mark of {mark} and reserve of {reserve}", self.order.pages())?;
            }
            Reason::NoBlock => f.write_str("that is above its marks, but no block of this order is usable")?,
            Reason::Busy => f.write_str("that is above its marks, but its lock was held or its block was taken")?,
        }
        write!(f, "; zones tried: {}, pages free there: {}, ", self.zones, self.free_pages)?;
        write!(f, "in blocks of order 0 to {}:", Order::MAX)?;
        for blocks in self.free_blocks {
            write!(f, " {blocks}")?;
        }
        write!(f, "; {} more in pagesets", self.cached_pages)
    }
}
