//! Blocks that are allocated whole and freed page by page in a row, such as the parts of a `vmalloc` area.
//!
//! Some kernels put the pages of such a row back as the block that they form, into the pageset's list of that order. The frees
//! look the same in both cases. What follows differs: the block comes back with its order, or, if the CPU refills its list
//! of single pages before it has handed out one of the pages, they were never on that list. Blocks of one kind, which is the
//! order and the flags of the request, are all freed by the same code, so that proofs decide for all of them.
//!
//! A row of pages without a whole allocation proves nothing: a pipe frees its pages one after the other, too. But stacks that were
//! allocated before the recording are freed in it. A row of the size of a stack, of pages that were in use before, went back whole if it
//! comes back with its order, or if its process frees other blocks that go back whole: the kernel's workers do. On a kernel that puts all
//! such blocks back whole, a process that runs the timer work is such a worker: no worker has a pipe.

use pageset::{Order, Pfn};
use rustc_hash::{FxHashMap, FxHashSet};

use super::blocks::PageMap;
use crate::event::{Context, Event, Kind};

/// The flag of requests for compound pages, which are freed whole, or as what they were split into.
const GFP_COMP: u32 = 0x4_0000;

/// The size of a thread's stack, in bytes.
const STACK_BYTES: u32 = 16 << 10;

/// A block that was freed page by page in a row.
#[derive(Debug)]
pub(super) struct SplitBlock {
    pub(super) order: Order,
    head: Pfn,
    /// The flags of its request; `None` for a row of pages that were in use before.
    gfp: Option<u32>,
    /// The process that freed it.
    pid: u32,
    /// The requested migratetype, by the kernel's number.
    pub(super) migratetype: u8,
    /// The numbers of the frees.
    pub(super) frees: Vec<u32>,
    /// Whether the kernel put the block back whole, if a later event proves it or the opposite.
    pub(super) proof: Option<bool>,
    /// Whether the frees are in the replayed window.
    pub(super) is_inside: bool,
}

impl SplitBlock {
    /// The pages of a row that were in use before, by their first page and order.
    pub(super) fn earlier(&self) -> Option<(Pfn, Order)> {
        self.gfp.is_none().then_some((self.head, self.order))
    }
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
    /// Processes that ran the timer work: workers of the kernel.
    workers: FxHashSet<u32>,
    /// Whether bulk allocations may take pages off lists without an event.
    bulk_unseen: bool,
    /// A stack of a thread, if it has several pages.
    stack: Option<Order>,
}

impl SplitBlocks {
    /// `page_size` is in bytes.
    pub(super) fn new(bulk_unseen: bool, page_size: u32) -> Self {
        let order = (STACK_BYTES / page_size.max(1)).checked_ilog2().filter(|order| *order > 0);
        let stack = order.and_then(|order| Order::new(order as u8));
        SplitBlocks { bulk_unseen, stack, ..Self::default() }
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
            Kind::VmstatWork => _ = self.workers.insert(event.pid),
            _ => {}
        }
        if !self.taken.is_empty() {
            self.taken.remove(&event.cpu.0);
        }
    }

    /// Handles free number `free`, plus one. `is_earlier`: the page was in use before the replay.
    pub(super) fn freed(&mut self, event: &Event, free: u32, is_inside: bool, is_earlier: bool) {
        let Kind::Free { pfn, order } = event.kind else { return };
        let request = if self.requests.is_empty() { None } else { self.requests.remove(&pfn) };
        let may_be = |stack: &Order| is_earlier && event.context == Context::Process && pfn.is_aligned(*stack);
        let stack = self.stack.filter(may_be);
        if request.is_none() && self.rows.is_empty() && stack.is_none() {
            return;
        }
        let key = (event.cpu.0, event.context as u8);
        let mut row = self.rows.remove(&key);
        let request = request.filter(|request| order == Order::ZERO && request.order > order);
        let goes_on = row.as_ref().is_some_and(|row| (row.pid, row.next) == (event.pid, pfn));
        let stack = stack.filter(|_| order == Order::ZERO && !goes_on);
        let of_stack = stack.map(|order| Request { order, migratetype: 0, gfp: 0 });
        if let Some(Request { order, migratetype, .. }) = request.or(of_stack) {
            let pid = event.pid;
            let gfp = request.map(|request| request.gfp);
            let frees = Vec::new();
            let block = SplitBlock { order, head: pfn, gfp, pid, migratetype, frees, proof: None, is_inside };
            row = Some(Row { pid, context: event.context, next: pfn, left: order.pages(), block });
        } else if !is_earlier {
            // A row of pages that were in use before has no others.
            row = row.filter(|row| row.block.gfp.is_some());
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
        // Of a row of pages that were in use before, the list is not known.
        if !self.bulk_unseen && block.gfp.is_some() {
            self.listed.entry(cpu).or_default().push((last, index));
        }
        self.blocks.push(block);
    }

    /// Handles a block that leaves a pageset. Pages that were in use before prove that they are a block only by its order and first page:
    /// others may have joined a larger block since.
    fn came_back(&mut self, pfn: Pfn, order: Order) {
        let Some(index) = self.awaited.get(pfn).checked_sub(1) else { return };
        let block = &self.blocks[index as usize];
        let is_block = block.gfp.is_some() || (block.head, block.order) == (pfn, order);
        self.resolve(pfn, (order == Order::ZERO || is_block).then_some(order > Order::ZERO));
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
    /// `frees_whole`. Also rows of pages that were in use before, unless a batch committed them page by page, as `is_batched` tells.
    pub(super) fn rejoined(self, frees_whole: bool, is_batched: impl Fn(u32) -> bool) -> Vec<SplitBlock> {
        let mut votes: FxHashMap<(Order, u32), i64> = FxHashMap::default();
        for block in &self.blocks {
            let vote = block.proof.map_or(0, |whole| if whole { 1 } else { -1 });
            let Some(gfp) = block.gfp else { continue };
            *votes.entry((block.order, gfp)).or_default() += vote;
        }
        let is_whole = |block: &SplitBlock| match block.gfp.map(|gfp| votes[&(block.order, gfp)]) {
            None => false,
            Some(0) => frees_whole,
            Some(votes) => votes > 0,
        };
        let mut workers: FxHashSet<u32> =
            self.blocks.iter().filter(|block| is_whole(block)).map(|block| block.pid).collect();
        if frees_whole {
            workers.extend(&self.workers);
        }
        let is_stack = |block: &SplitBlock| {
            block.gfp.is_none()
                && block.proof.unwrap_or(workers.contains(&block.pid))
                && !block.frees.iter().any(|free| is_batched(*free))
        };
        self.blocks.into_iter().filter(|block| is_whole(block) || is_stack(block)).collect()
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
        rejoined_of(events, frees_whole, &[])
    }

    /// Like [`rejoined`], with pages that were in use before.
    fn rejoined_of(events: &[Event], frees_whole: bool, earlier: &[u64]) -> Vec<(u8, Vec<u32>, Option<bool>)> {
        rejoined_at(4096, events, frees_whole, earlier)
    }

    /// Like [`rejoined_of`], for a page size in bytes.
    fn rejoined_at(
        page_size: u32,
        events: &[Event],
        frees_whole: bool,
        earlier: &[u64],
    ) -> Vec<(u8, Vec<u32>, Option<bool>)> {
        let (mut blocks, mut frees) = (SplitBlocks::new(false, page_size), 0);
        for event in events {
            blocks.event(|_| Some(0), event);
            if let Kind::Free { pfn, .. } = event.kind {
                frees += 1;
                blocks.freed(event, frees, true, earlier.contains(&pfn.0));
            }
        }
        let blocks = blocks.rejoined(frees_whole, |_| false);
        blocks.into_iter().map(|block| (block.order.get(), block.frees, block.proof)).collect()
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

    /// Stacks that were allocated before the recording.
    #[test]
    fn rows_of_earlier_pages_are_stacks_if_a_later_event_or_their_process_shows_it() {
        let row = |from: u64| (from..from + 4).map(free).collect::<Vec<_>>();
        let earlier: Vec<u64> = (128..136).collect();
        let of = |events: &[Event]| rejoined_of(events, true, &earlier);
        assert_eq!(of(&row(128)), [], "nothing shows it");
        let frees = vec![0, 1, 2, 3];
        assert_eq!(of(&[row(128), vec![alloc(128, 2, GFP)]].concat()), [(2, frees.clone(), Some(true))]);
        for other in [alloc(128, 1, GFP), alloc(130, 1, GFP), alloc(128, 9, GFP), alloc(130, 2, GFP)] {
            assert_eq!(of(&[row(128), vec![other.clone()]].concat()), [], "{other:?}");
        }
        let back = [row(128), vec![alloc(128, 1, GFP), alloc(128, 2, GFP)]].concat();
        for (page_size, events, expected) in [
            (8192, &back, Some((1, vec![0, 1]))),
            (16384, &back, None),
            (65536, &back, None),
            (2048, &[row(128), row(132), vec![alloc(128, 3, GFP)]].concat(), Some((3, (0..8).collect()))),
        ] {
            let blocks = rejoined_at(page_size, events, true, &earlier);
            let first = blocks.into_iter().map(|(order, frees, _)| (order, frees)).next();
            assert_eq!(first, expected, "pages of {page_size} bytes");
        }
        let two = [row(128), stack(&[])].concat();
        assert_eq!(of(&two), [(2, frees.clone(), None), (2, vec![4, 5, 6, 7], None)], "the same process");
        assert_eq!(of(&[two.clone(), vec![alloc(130, 0, GFP)]].concat()).len(), 1, "the page was on the list");
        let mut other = two.clone();
        other[4..].iter_mut().for_each(|event| event.pid = 8);
        assert_eq!(of(&other).len(), 1, "another process");
        assert_eq!(of(&[row(129), stack(&[])].concat()).len(), 1, "not a stack's first page");
        assert_eq!(of(&[row(128), row(132), stack(&[])].concat()).len(), 3);
        assert_eq!(rejoined_of(&two, true, &earlier[..3]).len(), 1, "one of the pages is new");
    }

    /// 7.3, PostgreSQL: the worker that runs the timer work frees a stack, and nothing else shows that it goes back whole but the next
    /// refill, of four batches instead of one.
    #[test]
    fn a_worker_of_the_kernel_frees_stacks_whole() {
        let row: Vec<Event> = (128..132).map(free).collect();
        let earlier: Vec<u64> = (128..132).collect();
        let work = event(Kind::VmstatWork);
        let other = Event { pid: 8, ..work.clone() };
        let of = |events: Vec<Event>, frees_whole| rejoined_of(&events, frees_whole, &earlier);
        let whole = vec![(2, vec![0, 1, 2, 3], None)];
        assert_eq!(of([row.clone(), vec![work.clone()]].concat(), true), whole);
        assert_eq!(of([vec![work.clone()], row.clone()].concat(), true), whole);
        assert_eq!(of([vec![work.clone()], row.clone()].concat(), false), [], "another kernel");
        assert_eq!(of([vec![other], row.clone()].concat(), true), [], "another process");
        let single = [vec![work], row, vec![alloc(130, 0, GFP)]].concat();
        assert_eq!(of(single, true), [], "a page was on the list");
    }
}
