//! Blocks that are allocated whole and freed page by page in a row, such as the parts of a `vmalloc` area.
//!
//! Some kernels put the pages of such a row back as the block that they form, into the pageset's list of that order. The frees
//! look the same in both cases. What follows differs: the block comes back with its order, or, if the CPU refills its list
//! of single pages before it has handed out one of the pages, they were never on that list. Blocks of one kind, which is the
//! order and the flags of the request, are all freed by the same code, so that proofs decide for all of them.
//!
//! A row of pages without a whole allocation proves nothing: a pipe frees its pages one after the other, too.

use pageset::{Order, Pfn};
use rustc_hash::FxHashMap;

use super::blocks::PageMap;
use crate::event::{Context, Event, Kind};

/// The flag of requests for compound pages, which are freed whole, or as what they were split into.
const GFP_COMP: u32 = 0x4_0000;

/// A block that was freed page by page in a row.
#[derive(Debug)]
pub(super) struct SplitBlock {
    pub(super) order: Order,
    gfp: u32,
    /// The requested migratetype, by the kernel's number.
    pub(super) migratetype: u8,
    /// The numbers of the frees.
    pub(super) frees: Vec<u32>,
    /// Whether the kernel put the block back whole, if a later event proves it or the opposite.
    pub(super) proof: Option<bool>,
    /// Whether the frees are in the replayed window.
    pub(super) is_inside: bool,
}

/// A row of frees that goes on.
#[derive(Debug)]
struct Row {
    pid: u32,
    context: Context,
    next: Pfn,
    left: u64,
    block: SplitBlock,
}

/// The allocation of a block above order 0 that is not compound.
#[derive(Clone, Copy, Debug)]
struct Request {
    order: Order,
    migratetype: u8,
    gfp: u32,
}

/// The state of the search.
#[derive(Debug, Default)]
pub(super) struct SplitBlocks {
    requests: FxHashMap<Pfn, Request>,
    /// By CPU and context.
    rows: FxHashMap<(u32, u8), Row>,
    blocks: Vec<SplitBlock>,
    /// The block of each page whose next event is awaited, plus one.
    awaited: PageMap<u32>,
    /// Blocks whose pages the CPU's list of single pages would hold: the last page, and the index in `blocks`.
    listed: FxHashMap<u32, Vec<(Pfn, usize)>>,
    /// The last block from a free list, by CPU: the process and migratetype of single pages.
    taken: FxHashMap<u32, (u32, u8)>,
    /// Whether bulk allocations may take pages off lists without an event.
    bulk_unseen: bool,
}

impl SplitBlocks {
    pub(super) fn new(bulk_unseen: bool) -> Self {
        SplitBlocks { bulk_unseen, ..Self::default() }
    }

    /// Handles an event. `zone_of` tells the zone of a page.
    pub(super) fn event(&mut self, zone_of: impl Fn(Pfn) -> Option<usize>, event: &Event) {
        match event.kind {
            Kind::Alloc { pfn: Some(pfn), order, migratetype, gfp } => {
                self.came_back(pfn, order);
                if order > Order::ZERO && gfp & GFP_COMP == 0 {
                    self.requests.insert(pfn, Request { order, migratetype, gfp });
                }
            }
            Kind::Drain { pfn, order, .. } => self.came_back(pfn, order),
            Kind::ZoneLocked { pfn, order, migratetype, .. } => {
                self.resolve(pfn, None);
                self.refilled(zone_of, event, pfn, order, migratetype);
                return;
            }
            Kind::BulkAlloc { taken: 1.., .. } => _ = self.listed.remove(&event.cpu.0),
            _ => {}
        }
        if !self.taken.is_empty() {
            self.taken.remove(&event.cpu.0);
        }
    }

    /// Handles free number `free`, plus one.
    pub(super) fn freed(&mut self, event: &Event, free: u32, is_inside: bool) {
        let Kind::Free { pfn, order } = event.kind else { return };
        let request = if self.requests.is_empty() { None } else { self.requests.remove(&pfn) };
        if request.is_none() && self.rows.is_empty() {
            return;
        }
        let key = (event.cpu.0, event.context as u8);
        let mut row = self.rows.remove(&key);
        if let Some(request) = request.filter(|request| order == Order::ZERO && request.order > order) {
            let Request { order, migratetype, gfp } = request;
            let block = SplitBlock { order, gfp, migratetype, frees: Vec::new(), proof: None, is_inside };
            row = Some(Row { pid: event.pid, context: event.context, next: pfn, left: order.pages(), block });
        }
        let Some(mut row) = row.filter(|row| {
            (row.pid, row.context, row.next, Order::ZERO, free > 0) == (event.pid, event.context, pfn, order, true)
        }) else {
            return;
        };
        row.block.frees.push(free - 1);
        row.next = pfn.offset(1);
        row.left -= 1;
        if row.left > 0 {
            self.rows.insert(key, row);
        } else {
            self.complete(event.cpu.0, pfn, row.block);
        }
    }

    fn complete(&mut self, cpu: u32, last: Pfn, block: SplitBlock) {
        let head = last.align_down(block.order);
        let index = self.blocks.len();
        for at in 0..block.order.pages() {
            self.awaited.set(head.offset(at), index as u32 + 1);
        }
        if !self.bulk_unseen {
            self.listed.entry(cpu).or_default().push((last, index));
        }
        self.blocks.push(block);
    }

    /// Handles a block that leaves a pageset.
    fn came_back(&mut self, pfn: Pfn, order: Order) {
        self.resolve(pfn, Some(order > Order::ZERO));
    }

    /// Ends the wait for the pages of a block.
    fn resolve(&mut self, pfn: Pfn, proof: Option<bool>) {
        let Some(index) = self.awaited.take(pfn).checked_sub(1) else { return };
        let index = index as usize;
        let block = &mut self.blocks[index];
        block.proof = block.proof.or(proof);
        let head = pfn.align_down(block.order);
        for at in 0..block.order.pages() {
            if self.awaited.get(head.offset(at)) == index as u32 + 1 {
                self.awaited.take(head.offset(at));
            }
        }
        for listed in self.listed.values_mut() {
            listed.retain(|(_, other)| *other != index);
        }
    }

    /// Handles a block from a free list. The second one in a row is a refill: the list was empty.
    fn refilled(
        &mut self,
        zone_of: impl Fn(Pfn) -> Option<usize>,
        event: &Event,
        pfn: Pfn,
        order: Order,
        migratetype: u8,
    ) {
        let cpu = event.cpu.0;
        if order > Order::ZERO || event.context != Context::Process {
            self.taken.remove(&cpu);
            return;
        }
        let before = self.taken.insert(cpu, (event.pid, migratetype));
        if before != Some((event.pid, migratetype)) || self.listed.get(&cpu).is_none_or(Vec::is_empty) {
            return;
        }
        let zone = zone_of(pfn);
        let listed = self.listed.remove(&cpu).unwrap_or_default();
        let (proved, rest): (Vec<_>, Vec<_>) = listed
            .into_iter()
            .partition(|(page, index)| self.blocks[*index].migratetype == migratetype && zone_of(*page) == zone);
        proved.into_iter().for_each(|(_, index)| _ = self.blocks[index].proof.get_or_insert(true));
        self.listed.insert(cpu, rest);
    }

    /// The blocks that the kernel put back whole: of kinds with more proofs for it than against, and without any proof if
    /// `frees_whole`.
    pub(super) fn rejoined(self, frees_whole: bool) -> impl Iterator<Item = SplitBlock> {
        let mut votes: FxHashMap<(Order, u32), i64> = FxHashMap::default();
        for block in &self.blocks {
            let vote = block.proof.map_or(0, |whole| if whole { 1 } else { -1 });
            *votes.entry((block.order, block.gfp)).or_default() += vote;
        }
        self.blocks.into_iter().filter(move |block| match votes[&(block.order, block.gfp)] {
            0 => frees_whole,
            votes => votes > 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use pageset::CpuId;

    use super::*;

    /// A stack's flags: not compound.
    const GFP: u32 = 0x29c2;

    fn event(kind: Kind) -> Event {
        Event { time_ns: 0, cpu: CpuId(1), pid: 7, context: Context::Process, kind }
    }

    fn alloc(pfn: u64, order: u8, gfp: u32) -> Event {
        let order = Order::new(order).unwrap();
        event(Kind::Alloc { pfn: Some(Pfn(pfn)), order, migratetype: 0, gfp })
    }

    fn free(pfn: u64) -> Event {
        event(Kind::Free { pfn: Pfn(pfn), order: Order::ZERO })
    }

    fn taken(pfn: u64) -> Event {
        event(Kind::ZoneLocked { pfn: Pfn(pfn), order: Order::ZERO, migratetype: 0, percpu_refill: true })
    }

    /// The orders, frees and proofs of the blocks that go back whole.
    fn rejoined(events: &[Event], frees_whole: bool) -> Vec<(u8, Vec<u32>, Option<bool>)> {
        let (mut blocks, mut frees) = (SplitBlocks::new(false), 0);
        for event in events {
            blocks.event(|_| Some(0), event);
            if matches!(event.kind, Kind::Free { .. }) {
                frees += 1;
                blocks.freed(event, frees, true);
            }
        }
        blocks.rejoined(frees_whole).map(|block| (block.order.get(), block.frees, block.proof)).collect()
    }

    /// A block of order 2 that is freed as four pages, and `then`.
    fn stack(then: &[Event]) -> Vec<Event> {
        let mut events = vec![alloc(64, 2, GFP), free(64), free(65), free(66), free(67)];
        events.extend_from_slice(then);
        events
    }

    #[test]
    fn later_events_tell_whether_a_block_went_back_whole() {
        let block = |proof| vec![(2, vec![0, 1, 2, 3], proof)];
        for (then, unproved, proved) in [
            (vec![alloc(64, 2, GFP)], block(Some(true)), true),
            (vec![alloc(66, 0, GFP)], Vec::new(), true),
            // A refill of single pages: the four were not on the list.
            (vec![taken(900), taken(901), alloc(900, 0, GFP)], block(Some(true)), true),
            // One block from a free list is no refill.
            (vec![taken(900), alloc(900, 0, GFP)], Vec::new(), false),
            (vec![], Vec::new(), false),
        ] {
            assert_eq!(rejoined(&stack(&then), false), unproved, "{then:?}");
            let by_release = if proved { unproved } else { block(None) };
            assert_eq!(rejoined(&stack(&then), true), by_release, "{then:?}");
        }
    }

    #[test]
    fn rows_of_other_pages_stay_single() {
        let frees = || (64..68).map(free);
        let single: Vec<Event> = (64..68).map(|pfn| alloc(pfn, 0, GFP)).chain(frees()).collect();
        let unknown: Vec<Event> = frees().collect();
        let compound: Vec<Event> = std::iter::once(alloc(64, 2, GFP | GFP_COMP)).chain(frees()).collect();
        let mut interrupted = stack(&[]);
        interrupted.insert(3, free(500));
        for events in [single, unknown, compound, interrupted, stack(&[])[..4].to_vec()] {
            assert_eq!(rejoined(&events, true), [], "{events:?}");
        }
    }
}
