//! What an out-of-memory error says: how much is free, where, in which orders, and what stood in the way.

use core::fmt;

use crate::alloc::general::Zonelist;
use crate::frame::MigrateType;
use crate::frame::Order;
use crate::frame::{NodeId, ZoneKind};
use crate::machine::Machine;
use crate::pcp::CachedZone;
use crate::sync::Held;
use crate::zone::watermark::{Mark, MarkTest};

/// No zone of the request's zonelist could serve it. All numbers are of a moment: others allocate and free meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// The order asked for.
    pub order: Order,
    /// The migratetype asked for.
    pub migratetype: MigrateType,
    /// What stood in the way in the zone that came nearest.
    pub reason: Reason,
    /// That zone: the one with the most free pages above what it keeps back.
    pub nearest: Nearest,
    /// How many zones were tried.
    pub zones: u16,
    /// Pages free in the zones that were tried; those in pagesets not counted.
    pub free_pages: u64,
    /// The same in blocks by order. Blocks of ISOLATE pageblocks are not counted; all other types are.
    pub free_blocks: [u32; Order::COUNT],
    /// Pages in the pagesets of the zones that were tried: what [`crate::Allocator::drain_all`] would make free.
    pub cached_pages: u64,
}

/// Why a zone did not serve a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// Its free pages that the request may use are too few above what it keeps back.
    Watermark,
    /// It has enough free pages, but no free block of the order in a pageblock that the request may use.
    NoBlock,
    /// It had a block: its lock was held by another and the request may wait for nothing, or another was faster.
    Busy,
}

/// A zone as a request saw it. In pages where not said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nearest {
    /// Its number in the map.
    pub zone: u16,
    /// Its node.
    pub node: NodeId,
    /// Its kind.
    pub kind: ZoneKind,
    /// Pages free.
    pub free: u64,
    /// Of those, pages that this request may not use, whatever the marks: of CMA or HIGHATOMIC pageblocks.
    pub for_others: u64,
    /// Its min mark with the boost, as far as the request's urgency does not lower it; 0 for a request without marks.
    pub mark: u64,
    /// What it keeps from requests that a higher zone could serve; 0 for a request without marks.
    pub reserve: u64,
}

impl Nearest {
    /// How many pages it has above what it keeps back; negative where it has less. The watermark test wants as many as
    /// the block has.
    fn margin(&self) -> i128 {
        i128::from(self.free) - i128::from(self.for_others) - i128::from(self.mark) - i128::from(self.reserve)
    }
}

/// Looks at the zones of a request that found nothing at the min marks.
#[cold]
pub(crate) fn of<M: Machine>(list: &Zonelist<'_, '_, M>) -> OutOfMemory {
    let request = list.request;
    let test = request.mark_test(request.rights());
    let see = |zone: &CachedZone<'_, M>| {
        let (mark, reserve) = if request.watermarks {
            (test.rights.lowered(zone.zone.mark(Mark::Min)), zone.zone.reserve[test.highest.index()].get())
        } else {
            (0, 0)
        };
        let (free, for_others) = (zone.zone.buddy.free(), zone.zone.unusable(&MarkTest { order: Order::ZERO, ..test }));
        Nearest {
            zone: zone.zone.index as u16,
            node: zone.zone.node,
            kind: zone.zone.kind,
            free,
            for_others,
            mark,
            reserve,
        }
    };
    // The first of those that are as near.
    let nearest = list
        .zones()
        .map(|zone| (see(zone), zone))
        .reduce(|best, next| if next.0.margin() > best.0.margin() { next } else { best });
    let (nearest, reason) = nearest.map_or((Nearest::NONE, Reason::NoBlock), |(nearest, zone)| {
        let reason = if request.watermarks && nearest.margin() < i128::from(request.order.pages()) {
            Reason::Watermark
        } else if zone.zone.has_any_block(&test) {
            Reason::Busy
        } else {
            Reason::NoBlock
        };
        (nearest, reason)
    });
    let mut free_blocks = [0_u32; Order::COUNT];
    for (zone, order) in list.zones().flat_map(|zone| Order::all().map(move |order| (zone, order))) {
        let types = MigrateType::ALL.iter().filter(|&&migratetype| migratetype != MigrateType::Isolate);
        let blocks = types.map(|&migratetype| zone.zone.buddy.blocks(order, migratetype));
        free_blocks[order.index()] = blocks.fold(free_blocks[order.index()], u32::saturating_add);
    }
    OutOfMemory {
        order: request.order,
        migratetype: request.migratetype,
        reason,
        nearest,
        zones: list.zones().count() as u16,
        free_pages: list.zones().map(|zone| zone.zone.buddy.free()).sum(),
        free_blocks,
        cached_pages: list.zones().flat_map(|zone| zone.pagesets).map(|pageset| u64::from(pageset.count())).sum(),
    }
}

impl Nearest {
    /// For a list without zones, which there is not.
    const NONE: Nearest =
        Nearest { zone: 0, node: NodeId(0), kind: ZoneKind::Dma, free: 0, for_others: 0, mark: 0, reserve: 0 };
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Nearest { node, kind, free, for_others, mark, reserve, .. } = self.nearest;
        write!(f, "no {:?} block of order {}: zone {kind} of node {} ", self.migratetype, self.order, node.0)?;
        write!(f, "has {free} pages free, {for_others} of them for others only; ")?;
        match self.reason {
            Reason::Watermark => {
                write!(f, "{} are needed above its min mark of {mark} and reserve of {reserve}", self.order.pages())?;
            }
            Reason::NoBlock => f.write_str("that is above its marks, but not in such a block")?,
            Reason::Busy => f.write_str("that is above its marks, but it was busy")?,
        }
        write!(f, "; zones tried: {}, pages free there: {}, in blocks of order 0 to 10:", self.zones, self.free_pages)?;
        for blocks in self.free_blocks {
            write!(f, " {blocks}")?;
        }
        write!(f, "; {} more in pagesets", self.cached_pages)
    }
}
