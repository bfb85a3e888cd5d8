//! Combines the two probe events of a bulk allocation into one event.

use std::collections::HashMap;

use pageset::{CpuId, Order};

use super::decode::{BulkRequest, Content, Record};
use crate::event::{Context, Event, Kind};

/// The nesting depth of calls in one process: its own call, and one of each kind of interrupt.
const DEPTH: usize = 4;

/// A call that has not ended.
#[derive(Debug)]
struct Open {
    request: BulkRequest,
    /// Whether an event of a single page was written during the call, by context.
    shown: [bool; 4],
}

/// Pairs the begins and ends of bulk allocations.
///
/// A process's calls are strictly nested, because an interrupt ends before the interrupted code continues. A process
/// may migrate to another CPU within a call. Each CPU has its own idle process 0.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    open: HashMap<(u32, CpuId), Vec<Open>>,
    unpaired: u64,
}

impl Pairing {
    /// The event of a record; `None` for the begin of a call.
    pub(super) fn event(&mut self, record: Record) -> Option<Event> {
        let Record { time_ns, cpu, pid, context, content } = record;
        let owner = (pid, if pid == 0 { cpu } else { CpuId(u32::MAX) });
        let kind = match content {
            Content::Event(kind) => {
                if let Kind::Alloc { pfn: Some(_), order: Order::ZERO, .. } = kind
                    && !self.open.is_empty()
                    && let Some(open) = self.open.get_mut(&owner).and_then(|calls| calls.last_mut())
                {
                    open.shown[context as usize] = true;
                }
                kind
            }
            Content::BulkBegin(request) => {
                let calls = self.open.entry(owner).or_default();
                if calls.len() == DEPTH {
                    calls.remove(0);
                    self.unpaired += 1;
                }
                calls.push(Open { request, shown: [false; 4] });
                return None;
            }
            Content::BulkEnd { got } => match self.end(owner) {
                Some(open) => taken(&open, got, context),
                None => {
                    self.unpaired += 1;
                    return None;
                }
            },
        };
        Some(Event { time_ns, cpu, pid, context, kind })
    }

    fn end(&mut self, owner: (u32, CpuId)) -> Option<Open> {
        let calls = self.open.get_mut(&owner)?;
        let open = calls.pop();
        if calls.is_empty() {
            self.open.remove(&owner);
        }
        open
    }

    /// The number of calls so far with only a begin or only an end.
    pub(super) fn unpaired(&self) -> u64 {
        self.unpaired + self.open.values().map(|calls| calls.len() as u64).sum::<u64>()
    }
}

/// The event of a call. If the pageset has no page, the call falls back to one allocation of a single page, which has
/// its own event and is not counted here.
fn taken(open: &Open, got: u32, context: Context) -> Kind {
    let BulkRequest { asked, gfp, node } = open.request;
    let shown = u32::from(open.shown[context as usize]);
    Kind::BulkAlloc { asked, taken: got.min(asked).saturating_sub(shown), gfp, node }
}

#[cfg(test)]
mod tests {
    use pageset::Pfn;

    use super::*;

    const REQUEST: BulkRequest = BulkRequest { asked: 64, gfp: 0xcc0, node: -1 };

    fn record(cpu: u32, pid: u32, context: Context, content: Content) -> Record {
        Record { time_ns: 5, cpu: CpuId(cpu), pid, context, content }
    }

    fn begin(asked: u32) -> Content {
        Content::BulkBegin(BulkRequest { asked, ..REQUEST })
    }

    fn page() -> Content {
        Content::Event(Kind::Alloc { pfn: Some(Pfn(1)), order: Order::ZERO, migratetype: 0, gfp: 0 })
    }

    fn taken_of(event: Option<Event>) -> Option<(u32, u32)> {
        match event?.kind {
            Kind::BulkAlloc { asked, taken, .. } => Some((asked, taken)),
            _ => None,
        }
    }

    #[test]
    fn a_page_with_its_own_event_is_not_counted_twice() {
        use Context::{Process, SoftIrq};
        let mut pairing = Pairing::default();
        assert_eq!(pairing.event(record(0, 7, Process, begin(64))), None);
        // A page of another process, of an interrupt, and of this call.
        assert!(pairing.event(record(0, 8, Process, page())).is_some());
        assert!(pairing.event(record(0, 7, SoftIrq, page())).is_some());
        assert!(pairing.event(record(1, 7, Process, page())).is_some());
        // The process has migrated to another CPU.
        let event = pairing.event(record(1, 7, Process, Content::BulkEnd { got: 64 })).unwrap();
        assert_eq!((event.cpu, event.pid, event.time_ns), (CpuId(1), 7, 5));
        assert_eq!(event.kind, Kind::BulkAlloc { asked: 64, taken: 63, gfp: 0xcc0, node: -1 });

        pairing.event(record(0, 7, Process, begin(64)));
        assert!(pairing.event(record(0, 7, SoftIrq, page())).is_some());
        assert_eq!(taken_of(pairing.event(record(0, 7, Process, Content::BulkEnd { got: 60 }))), Some((64, 60)));
        assert_eq!(pairing.unpaired(), 0);
    }

    #[test]
    fn an_interrupt_may_allocate_within_a_call() {
        use Context::{Process, SoftIrq};
        let mut pairing = Pairing::default();
        pairing.event(record(0, 0, Process, begin(64)));
        pairing.event(record(0, 0, SoftIrq, begin(16)));
        // A call in the idle process of another CPU.
        pairing.event(record(1, 0, SoftIrq, begin(8)));
        let end = |got| Content::BulkEnd { got };
        assert_eq!(taken_of(pairing.event(record(0, 0, SoftIrq, end(16)))), Some((16, 16)));
        assert_eq!(taken_of(pairing.event(record(1, 0, SoftIrq, end(8)))), Some((8, 8)));
        assert_eq!(taken_of(pairing.event(record(0, 0, Process, end(99)))), Some((64, 64)));
        assert_eq!(pairing.unpaired(), 0);
    }

    #[test]
    fn unpaired_calls_are_counted() {
        let mut pairing = Pairing::default();
        assert_eq!(pairing.event(record(0, 1, Context::Process, Content::BulkEnd { got: 4 })), None);
        for _ in 0..6 {
            pairing.event(record(0, 1, Context::Process, begin(4)));
        }
        assert_eq!(pairing.unpaired(), 1 + 6);
    }
}
