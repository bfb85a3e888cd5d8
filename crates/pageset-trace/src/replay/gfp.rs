//! GFP flags of recorded requests: the zones that may serve them, their migratetype and their urgency.

use pageset::{MigrateType, Order, Urgency, Wait, ZoneKind};

/// GFP bits that are the same in all kernels: the zones that may serve a request, and its urgency.
const GFP_DMA: u32 = 0x01;
const GFP_HIGHMEM: u32 = 0x02;
const GFP_DMA32: u32 = 0x04;
const GFP_MOVABLE: u32 = 0x08;
const GFP_RECLAIMABLE: u32 = 0x10;
const GFP_HIGH: u32 = 0x20;
const GFP_DIRECT_RECLAIM: u32 = 0x400;

/// The highest zone that may serve a request with these GFP flags. Specification: `linux-page-allocator.md` 1.1.
pub(super) fn highest_zone(gfp: u32) -> ZoneKind {
    if gfp & GFP_DMA != 0 {
        ZoneKind::Dma
    } else if gfp & GFP_DMA32 != 0 {
        ZoneKind::Dma32
    } else if gfp & (GFP_HIGHMEM | GFP_MOVABLE) == GFP_HIGHMEM | GFP_MOVABLE {
        ZoneKind::Movable
    } else {
        ZoneKind::Normal
    }
}

/// The migratetype of a request with these GFP flags.
pub(super) fn migratetype_of(gfp: u32) -> MigrateType {
    match (gfp & GFP_MOVABLE != 0, gfp & GFP_RECLAIMABLE != 0) {
        (true, _) => MigrateType::Movable,
        (false, true) => MigrateType::Reclaimable,
        (false, false) => MigrateType::Unmovable,
    }
}

/// Whether a request of order 3 with these GFP flags is a socket's for the buffers of what it sends (`skb_page_frag_refill`): it wakes
/// kswapd but does not wait, fails without a word, and has no reserve. A slab's first try of order 3 does not wake kswapd or may use a
/// reserve, and a driver's page fragment must not use the reserve of `PF_MEMALLOC`, which is a flag too. The bits are those of 5.0 and
/// later. Source: the flags as these kernels print them.
pub(crate) fn is_for_socket(gfp: u32) -> bool {
    const KSWAPD_RECLAIM: u32 = 0x800;
    const NOWARN: u32 = 0x2000;
    const NORETRY: u32 = 0x1_0000;
    const COMP: u32 = 0x4_0000;
    const NOMEMALLOC: u32 = 0x8_0000;
    let set = KSWAPD_RECLAIM | NOWARN | NORETRY | COMP;
    gfp & (set | NOMEMALLOC | GFP_DIRECT_RECLAIM | GFP_HIGH | GFP_MOVABLE | GFP_RECLAIMABLE) == set
}

/// Whether a request with these GFP flags is for pages of a process or of a file, which are on the lists of reclaim.
pub(super) fn is_for_lru(gfp: u32) -> bool {
    gfp & (GFP_HIGHMEM | GFP_MOVABLE) == GFP_HIGHMEM | GFP_MOVABLE
}

/// Whether a request with these GFP flags is for the new place of a page that moves to the node of its process (NUMA balancing): on that
/// node only, without reclaim and reserve. A fault of a huge page has the same flags if it may not wait, and in addition does not retry;
/// a single page that moves does not retry either. Source: the flags in recordings of 6.1 and 6.12.
pub(super) fn is_for_migration(gfp: u32, order: Order) -> bool {
    const KSWAPD_RECLAIM: u32 = 0x800;
    const NORETRY: u32 = 0x1_0000;
    const NOMEMALLOC: u32 = 0x8_0000;
    const THISNODE: u32 = 0x20_0000;
    let is_fault = order > Order::ZERO && gfp & NORETRY != 0;
    is_for_lru(gfp)
        && !is_fault
        && gfp & (NOMEMALLOC | THISNODE | GFP_DIRECT_RECLAIM | KSWAPD_RECLAIM) == NOMEMALLOC | THISNODE
}

/// How urgent a request with these GFP flags is.
pub(super) fn urgency_of(gfp: u32) -> Urgency {
    if gfp & GFP_HIGH != 0 { Urgency::High } else { Urgency::Ordinary }
}

/// What a request with these GFP flags may wait for.
pub(super) fn wait_of(gfp: u32) -> Wait {
    if gfp & GFP_DIRECT_RECLAIM == 0 { Wait::Lock } else { Wait::Memory }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_migration() {
        let (page, huge) = (Order::ZERO, Order::PAGEBLOCK);
        for (gfp, order, expected, what) in [
            (0x3d_20ca, page, true, "a page that moves"),
            (0x3c_20ca, huge, true, "a huge page that moves"),
            (0x14_0dca, page, false, "a fault of a page"),
            (0x3d_20ca, huge, false, "a fault of a huge page that may not wait"),
            (0x3d_24ca, huge, false, "a fault of a huge page that may wait"),
        ] {
            assert_eq!(is_for_migration(gfp, order), expected, "{what}");
        }
    }

    #[test]
    fn requests_of_sockets() {
        for (gfp, expected) in [
            // GFP_KERNEL without direct reclaim | __GFP_NOWARN | __GFP_NORETRY | __GFP_COMP.
            (0x5_28c0, true),
            // The same with __GFP_NOMEMALLOC: a driver's page fragment.
            (0xd_28c0, false),
            // A slab: may wait, does not wake kswapd, is urgent.
            (0x5_2cc0, false),
            (0xd_20c0, false),
            (0x5_2820, false),
            // A user's page.
            (0x14_0dca, false),
        ] {
            assert_eq!(is_for_socket(gfp), expected, "{gfp:#x}");
        }
    }
}
