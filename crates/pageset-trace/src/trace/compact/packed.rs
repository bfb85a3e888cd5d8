//! An event in 32 bytes.

use pageset::{CpuId, Order, Pfn};

use crate::event::{Context, Event, Kind};

/// An event of a frequent kind, or a reference to another kind. Pages have dense numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed {
    time_ns: u64,
    pid: u32,
    cpu: u32,
    kind: PackedKind,
    context: Context,
}

#[derive(Clone, Copy, Debug)]
enum PackedKind {
    Alloc {
        page: u32,
        order: Order,
        migratetype: u8,
        gfp: u32,
    },
    Free {
        page: u32,
        order: Order,
    },
    FreeBatched {
        page: u32,
    },
    ZoneLocked {
        page: u32,
        order: Order,
        migratetype: u8,
        percpu_refill: bool,
    },
    Drain {
        page: u32,
        order: Order,
        migratetype: u8,
    },
    ExtFrag {
        page: u32,
        orders: [Order; 2],
        migratetypes: [u8; 2],
        change_ownership: bool,
    },
    /// The index of a kind with more data than fits.
    Other(u32),
}

/// A dense page number.
fn small(pfn: Pfn) -> u32 {
    pfn.0 as u32
}

fn wide(page: u32) -> Pfn {
    Pfn(page.into())
}

impl Packed {
    /// Packs an event whose page has a dense number, and moves a kind that does not fit into `others`.
    pub(super) fn new(event: Event, others: &mut Vec<Kind>) -> Packed {
        let kind = match event.kind {
            Kind::Alloc { pfn: Some(pfn), order, migratetype, gfp } => {
                PackedKind::Alloc { page: small(pfn), order, migratetype, gfp }
            }
            Kind::Free { pfn, order } => PackedKind::Free { page: small(pfn), order },
            Kind::FreeBatched { pfn } => PackedKind::FreeBatched { page: small(pfn) },
            Kind::ZoneLocked { pfn, order, migratetype, percpu_refill } => {
                PackedKind::ZoneLocked { page: small(pfn), order, migratetype, percpu_refill }
            }
            Kind::Drain { pfn, order, migratetype } => PackedKind::Drain { page: small(pfn), order, migratetype },
            Kind::ExtFrag {
                pfn,
                alloc_order,
                fallback_order,
                alloc_migratetype,
                fallback_migratetype,
                change_ownership,
            } => PackedKind::ExtFrag {
                page: small(pfn),
                orders: [alloc_order, fallback_order],
                migratetypes: [alloc_migratetype, fallback_migratetype],
                change_ownership,
            },
            other => {
                others.push(other);
                PackedKind::Other(others.len() as u32 - 1)
            }
        };
        Packed { time_ns: event.time_ns, pid: event.pid, cpu: event.cpu.0, kind, context: event.context }
    }

    #[inline]
    pub(super) fn event(&self, others: &[Kind]) -> Event {
        let kind = match self.kind {
            PackedKind::Alloc { page, order, migratetype, gfp } => {
                Kind::Alloc { pfn: Some(wide(page)), order, migratetype, gfp }
            }
            PackedKind::Free { page, order } => Kind::Free { pfn: wide(page), order },
            PackedKind::FreeBatched { page } => Kind::FreeBatched { pfn: wide(page) },
            PackedKind::ZoneLocked { page, order, migratetype, percpu_refill } => {
                Kind::ZoneLocked { pfn: wide(page), order, migratetype, percpu_refill }
            }
            PackedKind::Drain { page, order, migratetype } => Kind::Drain { pfn: wide(page), order, migratetype },
            PackedKind::ExtFrag { page, orders, migratetypes, change_ownership } => Kind::ExtFrag {
                pfn: wide(page),
                alloc_order: orders[0],
                fallback_order: orders[1],
                alloc_migratetype: migratetypes[0],
                fallback_migratetype: migratetypes[1],
                change_ownership,
            },
            PackedKind::Other(at) => others[at as usize].clone(),
        };
        Event { time_ns: self.time_ns, cpu: CpuId(self.cpu), pid: self.pid, context: self.context, kind }
    }

    pub(super) fn renumber(&mut self, number: impl Fn(Pfn) -> Pfn) {
        match &mut self.kind {
            PackedKind::Alloc { page, .. }
            | PackedKind::Free { page, .. }
            | PackedKind::FreeBatched { page }
            | PackedKind::ZoneLocked { page, .. }
            | PackedKind::Drain { page, .. }
            | PackedKind::ExtFrag { page, .. } => *page = small(number(wide(*page))),
            PackedKind::Other(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::StateChange;

    #[test]
    fn an_event_takes_32_bytes_and_comes_back_as_it_was() {
        assert_eq!(size_of::<Packed>(), 32);
        let (pfn, order) = (Pfn(u32::MAX.into()), Order::MAX);
        let kinds = [
            Kind::Alloc { pfn: Some(pfn), order, migratetype: 255, gfp: u32::MAX },
            Kind::Alloc { pfn: None, order, migratetype: 1, gfp: 2 },
            Kind::Free { pfn, order },
            Kind::FreeBatched { pfn },
            Kind::ZoneLocked { pfn, order, migratetype: 3, percpu_refill: true },
            Kind::Drain { pfn, order, migratetype: 4 },
            Kind::ExtFrag {
                pfn,
                alloc_order: Order::ZERO,
                fallback_order: order,
                alloc_migratetype: 1,
                fallback_migratetype: 2,
                change_ownership: true,
            },
            Kind::BulkAlloc { asked: 1, taken: 2, gfp: 3, node: -1 },
            Kind::VmstatWork,
            Kind::StateChange(StateChange::PagesetsOff(pfn)),
            Kind::Fork { child: 7 },
            Kind::SnapshotEnd("init0".to_owned()),
        ];
        let event = |kind| Event { time_ns: u64::MAX, cpu: CpuId(u32::MAX), pid: 3, context: Context::Nmi, kind };
        let mut others = Vec::new();
        let packed: Vec<Packed> = kinds.iter().map(|kind| Packed::new(event(kind.clone()), &mut others)).collect();
        assert_eq!(others.len(), 6);
        for (packed, kind) in packed.iter().zip(kinds) {
            assert_eq!(packed.event(&others), event(kind));
        }
    }
}
